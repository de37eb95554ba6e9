batch:
     0  push        rbx
     1  push        rbp
     2  push        r14
     4  push        r12
     6  push        r13
     8  mov         rsi, [rdi+0x28]
     c  mov         r8, [rdi+8]
    10  lea         r8, [r8+rsi*4]
    14  mov         r9, [rdi+0x20]
    18  lea         r9, [r9+rsi*4]
    1c  mov         r10, [rdi+0x10]
    20  lea         r10, [r10+rsi*4]
    24  mov         rdi, [rdi]
    28  neg         rsi
    2b  lea         rax, [rsi+8]
    2f  xor         edx, edx
    31  test        rax, rax
    34  cmovg       rax, rdx
    38  mov         rdx, rsi
L1:
    3b  mov         ecx, [r8+rdx*4]
    3f  prefetcht0  [rdi+rcx+0xc]
    44  add         rdx, 1
    48  cmp         rdx, rax
    4b  jl          L1
    51  sub         rsi, 1
; L0_-_-_-_-
    55  add         rsi, 1
    59  jge         L69
; L1_x_-_-_-
    5f  mov         ecx, [r8+rsi*4]
    63  cmp         rsi, 0xfffffffffffffff8
    67  jge         L2
    6d  mov         eax, [r8+rsi*4+0x20]
    72  prefetcht0  [rdi+rax+0xc]
L2:
    77  add         rsi, 1
    7b  jge         L68
; L2_x_x_-_-
L3:
    81  mov         r11d, [r8+rsi*4]
    85  cmp         rsi, 0xfffffffffffffff8
    89  jge         L4
    8f  mov         eax, [r8+rsi*4+0x20]
    94  prefetcht0  [rdi+rax+0xc]
L4:
    99  movzx       edx, word ptr [rdi+rcx+0xc]
    9e  cmp         dword ptr [r10+rsi*4-4], 0xe
    a4  jb          L65
; L3_x_t_-_-
L5:
    aa  add         rsi, 1
    ae  jge         L64
; L4_x_x_t_-
    b4  mov         ebp, [r8+rsi*4]
    b8  cmp         rsi, 0xfffffffffffffff8
    bc  jge         L6
    c2  mov         eax, [r8+rsi*4+0x20]
    c7  prefetcht0  [rdi+rax+0xc]
L6:
    cc  movzx       ebx, word ptr [rdi+r11+0xc]
    d2  cmp         dword ptr [r10+rsi*4-4], 0xe
    d8  jb          L61
; L5_x_t_t_-
L7:
    de  add         rsi, 1
    e2  jge         L60
; L6_x_x_t_-
    e8  mov         r13d, [r8+rsi*4]
    ec  cmp         rsi, 0xfffffffffffffff8
    f0  jge         L8
    f6  mov         eax, [r8+rsi*4+0x20]
    fb  prefetcht0  [rdi+rax+0xc]
L8:
   100  cmp         edx, 8
   103  mov         edx, 0
   108  mov         eax, 0x40000
   10d  cmove       edx, eax
   110  mov         [r9+rsi*4-0xc], edx
   115  movzx       r12d, word ptr [rdi+rbp+0xc]
   11b  cmp         dword ptr [r10+rsi*4-4], 0xe
   121  jb          L57
; L7_x_t_t_-
L9:
   127  add         rsi, 1
   12b  jge         L56
; L8_x_x_t_-
   131  mov         ecx, [r8+rsi*4]
   135  cmp         rsi, 0xfffffffffffffff8
   139  jge         L10
   13f  mov         eax, [r8+rsi*4+0x20]
   144  prefetcht0  [rdi+rax+0xc]
L10:
   149  cmp         ebx, 8
   14c  mov         ebx, 0
   151  mov         eax, 0x40000
   156  cmove       ebx, eax
   159  mov         [r9+rsi*4-0xc], ebx
   15e  movzx       r14d, word ptr [rdi+r13+0xc]
   164  cmp         dword ptr [r10+rsi*4-4], 0xe
   16a  jb          L52
; L9_x_t_t_-
L11:
   170  add         rsi, 1
   174  jge         L51
; L10_x_x_t_-
   17a  mov         r11d, [r8+rsi*4]
   17e  cmp         rsi, 0xfffffffffffffff8
   182  jge         L12
   188  mov         eax, [r8+rsi*4+0x20]
   18d  prefetcht0  [rdi+rax+0xc]
L12:
   192  cmp         r12d, 8
   196  mov         r12d, 0
   19c  mov         eax, 0x40000
   1a1  cmove       r12d, eax
   1a5  mov         [r9+rsi*4-0xc], r12d
   1aa  movzx       edx, word ptr [rdi+rcx+0xc]
   1af  cmp         dword ptr [r10+rsi*4-4], 0xe
   1b5  jb          L20
; L11_x_t_t_-
L13:
   1bb  add         rsi, 1
   1bf  jge         L15
; L12_x_x_t_-
   1c5  mov         ebp, [r8+rsi*4]
   1c9  cmp         rsi, 0xfffffffffffffff8
   1cd  jge         L14
   1d3  mov         eax, [r8+rsi*4+0x20]
   1d8  prefetcht0  [rdi+rax+0xc]
L14:
   1dd  cmp         r14d, 8
   1e1  mov         r14d, 0
   1e7  mov         eax, 0x40000
   1ec  cmove       r14d, eax
   1f0  mov         [r9+rsi*4-0xc], r14d
   1f5  movzx       ebx, word ptr [rdi+r11+0xc]
   1fb  cmp         dword ptr [r10+rsi*4-4], 0xe
   201  jae         L7
   207  jmp         L61
; L13_-_x_t_-
L15:
   20c  cmp         r14d, 8
   210  mov         r14d, 0
   216  mov         eax, 0x40000
   21b  cmove       r14d, eax
   21f  mov         [r9+rsi*4-0xc], r14d
   224  movzx       ebx, word ptr [rdi+r11+0xc]
   22a  cmp         dword ptr [r10+rsi*4-4], 0xe
   230  jb          L18
; L14_-_t_t_-
L16:
   236  add         rsi, 1
; L15_-_-_t_-
   23a  cmp         edx, 8
   23d  mov         edx, 0
   242  mov         eax, 0x40000
   247  cmove       edx, eax
   24a  mov         [r9+rsi*4-0xc], edx
   24f  add         rsi, 1
; L16_-_-_-_-
L17:
   253  cmp         ebx, 8
   256  mov         ebx, 0
   25b  mov         eax, 0x40000
   260  cmove       ebx, eax
   263  mov         [r9+rsi*4-0xc], ebx
   268  jmp         L69
; L17_-_-_t_-
L18:
   26d  mov         dword ptr [r9+rsi*4-4], 0
   276  add         rsi, 1
; L18_-_-_-_-
L19:
   27a  cmp         edx, 8
   27d  mov         edx, 0
   282  mov         eax, 0x40000
   287  cmove       edx, eax
   28a  mov         [r9+rsi*4-0xc], edx
   28f  jmp         L69
; L19_x_-_t_-
L20:
   294  mov         dword ptr [r9+rsi*4-4], 0
   29d  add         rsi, 1
   2a1  jge         L49
; L20_x_x_-_-
   2a7  mov         ebp, [r8+rsi*4]
   2ab  cmp         rsi, 0xfffffffffffffff8
   2af  jge         L21
   2b5  mov         eax, [r8+rsi*4+0x20]
   2ba  prefetcht0  [rdi+rax+0xc]
L21:
   2bf  cmp         r14d, 8
   2c3  mov         r14d, 0
   2c9  mov         eax, 0x40000
   2ce  cmove       r14d, eax
   2d2  mov         [r9+rsi*4-0xc], r14d
   2d7  movzx       ebx, word ptr [rdi+r11+0xc]
   2dd  cmp         dword ptr [r10+rsi*4-4], 0xe
   2e3  jb          L28
; L21_x_t_-_-
L22:
   2e9  add         rsi, 1
   2ed  jge         L24
; L22_x_x_t_-
   2f3  mov         r13d, [r8+rsi*4]
   2f7  cmp         rsi, 0xfffffffffffffff8
   2fb  jge         L23
   301  mov         eax, [r8+rsi*4+0x20]
   306  prefetcht0  [rdi+rax+0xc]
L23:
   30b  movzx       r12d, word ptr [rdi+rbp+0xc]
   311  cmp         dword ptr [r10+rsi*4-4], 0xe
   317  jae         L9
   31d  jmp         L57
; L23_-_x_t_-
L24:
   322  movzx       r12d, word ptr [rdi+rbp+0xc]
   328  cmp         dword ptr [r10+rsi*4-4], 0xe
   32e  jb          L27
; L24_-_t_t_-
L25:
   334  add         rsi, 1
; L25_-_-_t_-
   338  cmp         ebx, 8
   33b  mov         ebx, 0
   340  mov         eax, 0x40000
   345  cmove       ebx, eax
   348  mov         [r9+rsi*4-0xc], ebx
   34d  add         rsi, 1
; L26_-_-_-_-
L26:
   351  cmp         r12d, 8
   355  mov         r12d, 0
   35b  mov         eax, 0x40000
   360  cmove       r12d, eax
   364  mov         [r9+rsi*4-0xc], r12d
   369  jmp         L69
; L27_-_-_t_-
L27:
   36e  mov         dword ptr [r9+rsi*4-4], 0
   377  add         rsi, 1
   37b  jmp         L17
; L28_x_-_-_-
L28:
   380  mov         dword ptr [r9+rsi*4-4], 0
   389  add         rsi, 1
   38d  jge         L47
; L29_x_x_-_-
   393  mov         r13d, [r8+rsi*4]
   397  cmp         rsi, 0xfffffffffffffff8
   39b  jge         L29
   3a1  mov         eax, [r8+rsi*4+0x20]
   3a6  prefetcht0  [rdi+rax+0xc]
L29:
   3ab  movzx       r12d, word ptr [rdi+rbp+0xc]
   3b1  cmp         dword ptr [r10+rsi*4-4], 0xe
   3b7  jb          L36
; L30_x_t_-_-
L30:
   3bd  add         rsi, 1
   3c1  jge         L32
; L31_x_x_t_-
   3c7  mov         ecx, [r8+rsi*4]
   3cb  cmp         rsi, 0xfffffffffffffff8
   3cf  jge         L31
   3d5  mov         eax, [r8+rsi*4+0x20]
   3da  prefetcht0  [rdi+rax+0xc]
L31:
   3df  movzx       r14d, word ptr [rdi+r13+0xc]
   3e5  cmp         dword ptr [r10+rsi*4-4], 0xe
   3eb  jae         L11
   3f1  jmp         L52
; L32_-_x_t_-
L32:
   3f6  movzx       r14d, word ptr [rdi+r13+0xc]
   3fc  cmp         dword ptr [r10+rsi*4-4], 0xe
   402  jb          L35
; L33_-_t_t_-
L33:
   408  add         rsi, 1
; L34_-_-_t_-
   40c  cmp         r12d, 8
   410  mov         r12d, 0
   416  mov         eax, 0x40000
   41b  cmove       r12d, eax
   41f  mov         [r9+rsi*4-0xc], r12d
   424  add         rsi, 1
; L35_-_-_-_-
L34:
   428  cmp         r14d, 8
   42c  mov         r14d, 0
   432  mov         eax, 0x40000
   437  cmove       r14d, eax
   43b  mov         [r9+rsi*4-0xc], r14d
   440  jmp         L69
; L36_-_-_t_-
L35:
   445  mov         dword ptr [r9+rsi*4-4], 0
   44e  add         rsi, 1
   452  jmp         L26
; L37_x_-_-_-
L36:
   457  mov         dword ptr [r9+rsi*4-4], 0
   460  add         rsi, 1
   464  jge         L44
; L38_x_x_-_-
   46a  mov         ecx, [r8+rsi*4]
   46e  cmp         rsi, 0xfffffffffffffff8
   472  jge         L37
   478  mov         eax, [r8+rsi*4+0x20]
   47d  prefetcht0  [rdi+rax+0xc]
L37:
   482  movzx       r14d, word ptr [rdi+r13+0xc]
   488  cmp         dword ptr [r10+rsi*4-4], 0xe
   48e  jb          L43
; L39_x_t_-_-
L38:
   494  add         rsi, 1
   498  jge         L40
; L40_x_x_t_-
   49e  mov         r11d, [r8+rsi*4]
   4a2  cmp         rsi, 0xfffffffffffffff8
   4a6  jge         L39
   4ac  mov         eax, [r8+rsi*4+0x20]
   4b1  prefetcht0  [rdi+rax+0xc]
L39:
   4b6  movzx       edx, word ptr [rdi+rcx+0xc]
   4bb  cmp         dword ptr [r10+rsi*4-4], 0xe
   4c1  jae         L13
   4c7  jmp         L20
; L41_-_x_t_-
L40:
   4cc  movzx       edx, word ptr [rdi+rcx+0xc]
   4d1  cmp         dword ptr [r10+rsi*4-4], 0xe
   4d7  jb          L42
; L42_-_t_t_-
L41:
   4dd  add         rsi, 1
; L43_-_-_t_-
   4e1  cmp         r14d, 8
   4e5  mov         r14d, 0
   4eb  mov         eax, 0x40000
   4f0  cmove       r14d, eax
   4f4  mov         [r9+rsi*4-0xc], r14d
   4f9  add         rsi, 1
   4fd  jmp         L19
; L44_-_-_t_-
L42:
   502  mov         dword ptr [r9+rsi*4-4], 0
   50b  add         rsi, 1
   50f  jmp         L34
; L45_x_-_-_-
L43:
   514  mov         dword ptr [r9+rsi*4-4], 0
   51d  add         rsi, 1
   521  jge         L68
   527  jmp         L3
; L46_-_x_-_-
L44:
   52c  movzx       r14d, word ptr [rdi+r13+0xc]
   532  cmp         dword ptr [r10+rsi*4-4], 0xe
   538  jb          L46
; L47_-_t_-_-
L45:
   53e  add         rsi, 1
; L48_-_-_t_-
   542  add         rsi, 1
   546  jmp         L34
; L49_-_-_-_-
L46:
   54b  mov         dword ptr [r9+rsi*4-4], 0
   554  jmp         L69
; L50_-_x_-_-
L47:
   559  movzx       r12d, word ptr [rdi+rbp+0xc]
   55f  cmp         dword ptr [r10+rsi*4-4], 0xe
   565  jb          L46
; L51_-_t_-_-
L48:
   56b  add         rsi, 1
; L52_-_-_t_-
   56f  add         rsi, 1
   573  jmp         L26
; L53_-_x_-_-
L49:
   578  cmp         r14d, 8
   57c  mov         r14d, 0
   582  mov         eax, 0x40000
   587  cmove       r14d, eax
   58b  mov         [r9+rsi*4-0xc], r14d
   590  movzx       ebx, word ptr [rdi+r11+0xc]
   596  cmp         dword ptr [r10+rsi*4-4], 0xe
   59c  jb          L46
; L54_-_t_-_-
L50:
   5a2  add         rsi, 1
; L55_-_-_t_-
   5a6  add         rsi, 1
   5aa  jmp         L17
; L56_-_x_t_-
L51:
   5af  cmp         r12d, 8
   5b3  mov         r12d, 0
   5b9  mov         eax, 0x40000
   5be  cmove       r12d, eax
   5c2  mov         [r9+rsi*4-0xc], r12d
   5c7  movzx       edx, word ptr [rdi+rcx+0xc]
   5cc  cmp         dword ptr [r10+rsi*4-4], 0xe
   5d2  jae         L41
   5d8  jmp         L42
; L57_x_-_t_-
L52:
   5dd  mov         dword ptr [r9+rsi*4-4], 0
   5e6  add         rsi, 1
   5ea  jge         L54
; L58_x_x_-_-
   5f0  mov         r11d, [r8+rsi*4]
   5f4  cmp         rsi, 0xfffffffffffffff8
   5f8  jge         L53
   5fe  mov         eax, [r8+rsi*4+0x20]
   603  prefetcht0  [rdi+rax+0xc]
L53:
   608  cmp         r12d, 8
   60c  mov         r12d, 0
   612  mov         eax, 0x40000
   617  cmove       r12d, eax
   61b  mov         [r9+rsi*4-0xc], r12d
   620  movzx       edx, word ptr [rdi+rcx+0xc]
   625  cmp         dword ptr [r10+rsi*4-4], 0xe
   62b  jae         L5
   631  jmp         L65
; L59_-_x_-_-
L54:
   636  cmp         r12d, 8
   63a  mov         r12d, 0
   640  mov         eax, 0x40000
   645  cmove       r12d, eax
   649  mov         [r9+rsi*4-0xc], r12d
   64e  movzx       edx, word ptr [rdi+rcx+0xc]
   653  cmp         dword ptr [r10+rsi*4-4], 0xe
   659  jb          L46
; L60_-_t_-_-
L55:
   65f  add         rsi, 1
; L61_-_-_t_-
   663  add         rsi, 1
   667  jmp         L19
; L62_-_x_t_-
L56:
   66c  cmp         ebx, 8
   66f  mov         ebx, 0
   674  mov         eax, 0x40000
   679  cmove       ebx, eax
   67c  mov         [r9+rsi*4-0xc], ebx
   681  movzx       r14d, word ptr [rdi+r13+0xc]
   687  cmp         dword ptr [r10+rsi*4-4], 0xe
   68d  jae         L33
   693  jmp         L35
; L63_x_-_t_-
L57:
   698  mov         dword ptr [r9+rsi*4-4], 0
   6a1  add         rsi, 1
   6a5  jge         L59
; L64_x_x_-_-
   6ab  mov         ecx, [r8+rsi*4]
   6af  cmp         rsi, 0xfffffffffffffff8
   6b3  jge         L58
   6b9  mov         eax, [r8+rsi*4+0x20]
   6be  prefetcht0  [rdi+rax+0xc]
L58:
   6c3  cmp         ebx, 8
   6c6  mov         ebx, 0
   6cb  mov         eax, 0x40000
   6d0  cmove       ebx, eax
   6d3  mov         [r9+rsi*4-0xc], ebx
   6d8  movzx       r14d, word ptr [rdi+r13+0xc]
   6de  cmp         dword ptr [r10+rsi*4-4], 0xe
   6e4  jae         L38
   6ea  jmp         L43
; L65_-_x_-_-
L59:
   6ef  cmp         ebx, 8
   6f2  mov         ebx, 0
   6f7  mov         eax, 0x40000
   6fc  cmove       ebx, eax
   6ff  mov         [r9+rsi*4-0xc], ebx
   704  movzx       r14d, word ptr [rdi+r13+0xc]
   70a  cmp         dword ptr [r10+rsi*4-4], 0xe
   710  jae         L45
   716  jmp         L46
; L66_-_x_t_-
L60:
   71b  cmp         edx, 8
   71e  mov         edx, 0
   723  mov         eax, 0x40000
   728  cmove       edx, eax
   72b  mov         [r9+rsi*4-0xc], edx
   730  movzx       r12d, word ptr [rdi+rbp+0xc]
   736  cmp         dword ptr [r10+rsi*4-4], 0xe
   73c  jae         L25
   742  jmp         L27
; L67_x_-_t_-
L61:
   747  mov         dword ptr [r9+rsi*4-4], 0
   750  add         rsi, 1
   754  jge         L63
; L68_x_x_-_-
   75a  mov         r13d, [r8+rsi*4]
   75e  cmp         rsi, 0xfffffffffffffff8
   762  jge         L62
   768  mov         eax, [r8+rsi*4+0x20]
   76d  prefetcht0  [rdi+rax+0xc]
L62:
   772  cmp         edx, 8
   775  mov         edx, 0
   77a  mov         eax, 0x40000
   77f  cmove       edx, eax
   782  mov         [r9+rsi*4-0xc], edx
   787  movzx       r12d, word ptr [rdi+rbp+0xc]
   78d  cmp         dword ptr [r10+rsi*4-4], 0xe
   793  jae         L30
   799  jmp         L36
; L69_-_x_-_-
L63:
   79e  cmp         edx, 8
   7a1  mov         edx, 0
   7a6  mov         eax, 0x40000
   7ab  cmove       edx, eax
   7ae  mov         [r9+rsi*4-0xc], edx
   7b3  movzx       r12d, word ptr [rdi+rbp+0xc]
   7b9  cmp         dword ptr [r10+rsi*4-4], 0xe
   7bf  jae         L48
   7c5  jmp         L46
; L70_-_x_t_-
L64:
   7ca  movzx       ebx, word ptr [rdi+r11+0xc]
   7d0  cmp         dword ptr [r10+rsi*4-4], 0xe
   7d6  jae         L16
   7dc  jmp         L18
; L71_x_-_-_-
L65:
   7e1  mov         dword ptr [r9+rsi*4-4], 0
   7ea  add         rsi, 1
   7ee  jge         L67
; L72_x_x_-_-
   7f4  mov         ebp, [r8+rsi*4]
   7f8  cmp         rsi, 0xfffffffffffffff8
   7fc  jge         L66
   802  mov         eax, [r8+rsi*4+0x20]
   807  prefetcht0  [rdi+rax+0xc]
L66:
   80c  movzx       ebx, word ptr [rdi+r11+0xc]
   812  cmp         dword ptr [r10+rsi*4-4], 0xe
   818  jae         L22
   81e  jmp         L28
; L73_-_x_-_-
L67:
   823  movzx       ebx, word ptr [rdi+r11+0xc]
   829  cmp         dword ptr [r10+rsi*4-4], 0xe
   82f  jae         L50
   835  jmp         L46
; L74_-_x_-_-
L68:
   83a  movzx       edx, word ptr [rdi+rcx+0xc]
   83f  cmp         dword ptr [r10+rsi*4-4], 0xe
   845  jae         L55
   84b  jmp         L46
L69:
   850  pop         r13
   852  pop         r12
   854  pop         r14
   856  pop         rbp
   857  pop         rbx
   858  ret
   859  nop         [rax+0x100]
   860  nop         [rax+0x100]
   867  nop         [rax+0x100]
   86e  nop         [rax+0x100]
   875  nop         [rax+0x100]
   87c  nop         [rax]
   87f  nop
each:
   880  lea         r10, [rsi+rdx*4]
   884  lea         r8, [r8+rdx*4]
   888  lea         r9, [r9+rdx*4]
   88c  mov         r11, rdx
   88f  neg         r11
; each packet
L70:
   892  mov         esi, [r10+r11*4]
   896  add         rsi, rdi
; b0: captured >= 14
   899  cmp         dword ptr [r8+r11*4], 0xe
   89e  jb          L71
; b1: half[12] == 0x800
   8a4  cmp         word ptr [rsi+0xc], 8
   8a9  mov         eax, 0
   8ae  mov         ecx, 0x40000
   8b3  cmove       eax, ecx
   8b6  mov         [r9+r11*4], eax
   8ba  inc         r11
   8bd  jne         L70
   8c3  ret
; b3: verdict
L71:
   8c4  mov         dword ptr [r9+r11*4], 0
   8cc  inc         r11
   8cf  jne         L70
   8d5  ret
