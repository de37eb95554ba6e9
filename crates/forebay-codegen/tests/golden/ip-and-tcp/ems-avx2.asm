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
    59  jge         L129
; L1_x_-_-_-
    5f  mov         ecx, [r8+rsi*4]
    63  cmp         rsi, 0xfffffffffffffff8
    67  jge         L2
    6d  mov         eax, [r8+rsi*4+0x20]
    72  prefetcht0  [rdi+rax+0xc]
L2:
    77  add         rsi, 1
    7b  jge         L128
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
    a4  jb          L127
; L3_x_t_-_-
    aa  add         rsi, 1
    ae  jge         L124
; L4_x_x_t_-
L5:
    b4  mov         ebp, [r8+rsi*4]
    b8  cmp         rsi, 0xfffffffffffffff8
    bc  jge         L6
    c2  mov         eax, [r8+rsi*4+0x20]
    c7  prefetcht0  [rdi+rax+0xc]
L6:
    cc  movzx       ebx, word ptr [rdi+r11+0xc]
    d2  cmp         dword ptr [r10+rsi*4-4], 0xe
    d8  jb          L122
; L5_x_t_t_-
    de  cmp         edx, 8
    e1  jne         L121
; L6_x_t_tt_-
    e7  movzx       edx, byte ptr [rdi+rcx+0x17]
    ec  cmp         dword ptr [r10+rsi*4-8], 0x18
    f2  jb          L121
; L7_x_t_ttt_-
    f8  add         rsi, 1
    fc  jge         L118
; L8_x_x_t_ttt
L7:
   102  mov         r13d, [r8+rsi*4]
   106  cmp         rsi, 0xfffffffffffffff8
   10a  jge         L8
   110  mov         eax, [r8+rsi*4+0x20]
   115  prefetcht0  [rdi+rax+0xc]
L8:
   11a  movzx       r12d, word ptr [rdi+rbp+0xc]
   120  cmp         dword ptr [r10+rsi*4-4], 0xe
   126  jb          L116
; L9_x_t_t_ttt
   12c  cmp         ebx, 8
   12f  jne         L115
; L10_x_t_tt_ttt
   135  movzx       ebx, byte ptr [rdi+r11+0x17]
   13b  cmp         dword ptr [r10+rsi*4-8], 0x18
   141  jb          L115
; L11_x_t_ttt_-
   147  cmp         edx, 6
   14a  mov         edx, 0
   14f  mov         eax, 0x40000
   154  cmove       edx, eax
   157  mov         [r9+rsi*4-0xc], edx
   15c  add         rsi, 1
   160  jge         L112
; L12_x_x_t_ttt
L9:
   166  mov         ecx, [r8+rsi*4]
   16a  cmp         rsi, 0xfffffffffffffff8
   16e  jge         L10
   174  mov         eax, [r8+rsi*4+0x20]
   179  prefetcht0  [rdi+rax+0xc]
L10:
   17e  movzx       r14d, word ptr [rdi+r13+0xc]
   184  cmp         dword ptr [r10+rsi*4-4], 0xe
   18a  jb          L110
; L13_x_t_t_ttt
   190  cmp         r12d, 8
   194  jne         L109
; L14_x_t_tt_ttt
   19a  movzx       r12d, byte ptr [rdi+rbp+0x17]
   1a0  cmp         dword ptr [r10+rsi*4-8], 0x18
   1a6  jb          L109
; L15_x_t_ttt_-
   1ac  cmp         ebx, 6
   1af  mov         ebx, 0
   1b4  mov         eax, 0x40000
   1b9  cmove       ebx, eax
   1bc  mov         [r9+rsi*4-0xc], ebx
   1c1  add         rsi, 1
   1c5  jge         L106
; L16_x_x_t_ttt
L11:
   1cb  mov         r11d, [r8+rsi*4]
   1cf  cmp         rsi, 0xfffffffffffffff8
   1d3  jge         L12
   1d9  mov         eax, [r8+rsi*4+0x20]
   1de  prefetcht0  [rdi+rax+0xc]
L12:
   1e3  movzx       edx, word ptr [rdi+rcx+0xc]
   1e8  cmp         dword ptr [r10+rsi*4-4], 0xe
   1ee  jb          L104
; L17_x_t_t_ttt
   1f4  cmp         r14d, 8
   1f8  jne         L103
; L18_x_t_tt_ttt
   1fe  movzx       r14d, byte ptr [rdi+r13+0x17]
   204  cmp         dword ptr [r10+rsi*4-8], 0x18
   20a  jb          L103
; L19_x_t_ttt_-
   210  cmp         r12d, 6
   214  mov         r12d, 0
   21a  mov         eax, 0x40000
   21f  cmove       r12d, eax
   223  mov         [r9+rsi*4-0xc], r12d
   228  add         rsi, 1
   22c  jge         L97
; L20_x_x_t_ttt
L13:
   232  mov         ebp, [r8+rsi*4]
   236  cmp         rsi, 0xfffffffffffffff8
   23a  jge         L14
   240  mov         eax, [r8+rsi*4+0x20]
   245  prefetcht0  [rdi+rax+0xc]
L14:
   24a  movzx       ebx, word ptr [rdi+r11+0xc]
   250  cmp         dword ptr [r10+rsi*4-4], 0xe
   256  jb          L90
; L21_x_t_t_ttt
   25c  cmp         edx, 8
   25f  jne         L15
; L22_x_t_tt_ttt
   265  movzx       edx, byte ptr [rdi+rcx+0x17]
   26a  cmp         dword ptr [r10+rsi*4-8], 0x18
   270  jb          L15
; L23_x_t_ttt_-
   276  cmp         r14d, 6
   27a  mov         r14d, 0
   280  mov         eax, 0x40000
   285  cmove       r14d, eax
   289  mov         [r9+rsi*4-0xc], r14d
   28e  add         rsi, 1
   292  jge         L118
   298  jmp         L7
; L24_x_t_-_-
L15:
   29d  mov         dword ptr [r9+rsi*4-8], 0
   2a6  cmp         r14d, 6
   2aa  mov         r14d, 0
   2b0  mov         eax, 0x40000
   2b5  cmove       r14d, eax
   2b9  mov         [r9+rsi*4-0xc], r14d
   2be  add         rsi, 1
   2c2  jge         L84
; L25_x_x_t_-
L16:
   2c8  mov         r13d, [r8+rsi*4]
   2cc  cmp         rsi, 0xfffffffffffffff8
   2d0  jge         L17
   2d6  mov         eax, [r8+rsi*4+0x20]
   2db  prefetcht0  [rdi+rax+0xc]
L17:
   2e0  movzx       r12d, word ptr [rdi+rbp+0xc]
   2e6  cmp         dword ptr [r10+rsi*4-4], 0xe
   2ec  jb          L77
; L26_x_t_t_-
   2f2  cmp         ebx, 8
   2f5  jne         L18
; L27_x_t_tt_-
   2fb  movzx       ebx, byte ptr [rdi+r11+0x17]
   301  cmp         dword ptr [r10+rsi*4-8], 0x18
   307  jb          L18
; L28_x_t_ttt_-
   30d  add         rsi, 1
   311  jge         L112
   317  jmp         L9
; L29_x_t_-_-
L18:
   31c  mov         dword ptr [r9+rsi*4-8], 0
   325  add         rsi, 1
   329  jge         L71
; L30_x_x_t_-
L19:
   32f  mov         ecx, [r8+rsi*4]
   333  cmp         rsi, 0xfffffffffffffff8
   337  jge         L20
   33d  mov         eax, [r8+rsi*4+0x20]
   342  prefetcht0  [rdi+rax+0xc]
L20:
   347  movzx       r14d, word ptr [rdi+r13+0xc]
   34d  cmp         dword ptr [r10+rsi*4-4], 0xe
   353  jb          L64
; L31_x_t_t_-
   359  cmp         r12d, 8
   35d  jne         L21
; L32_x_t_tt_-
   363  movzx       r12d, byte ptr [rdi+rbp+0x17]
   369  cmp         dword ptr [r10+rsi*4-8], 0x18
   36f  jb          L21
; L33_x_t_ttt_-
   375  add         rsi, 1
   379  jge         L106
   37f  jmp         L11
; L34_x_t_-_-
L21:
   384  mov         dword ptr [r9+rsi*4-8], 0
   38d  add         rsi, 1
   391  jge         L55
; L35_x_x_t_-
L22:
   397  mov         r11d, [r8+rsi*4]
   39b  cmp         rsi, 0xfffffffffffffff8
   39f  jge         L23
   3a5  mov         eax, [r8+rsi*4+0x20]
   3aa  prefetcht0  [rdi+rax+0xc]
L23:
   3af  movzx       edx, word ptr [rdi+rcx+0xc]
   3b4  cmp         dword ptr [r10+rsi*4-4], 0xe
   3ba  jb          L25
; L36_x_t_t_-
   3c0  cmp         r14d, 8
   3c4  jne         L24
; L37_x_t_tt_-
   3ca  movzx       r14d, byte ptr [rdi+r13+0x17]
   3d0  cmp         dword ptr [r10+rsi*4-8], 0x18
   3d6  jb          L24
; L38_x_t_ttt_-
   3dc  add         rsi, 1
   3e0  jge         L97
   3e6  jmp         L13
; L39_x_t_-_-
L24:
   3eb  mov         dword ptr [r9+rsi*4-8], 0
   3f4  add         rsi, 1
   3f8  jge         L124
   3fe  jmp         L5
; L40_x_-_t_-
L25:
   403  mov         dword ptr [r9+rsi*4-4], 0
   40c  cmp         r14d, 8
   410  jne         L50
; L41_x_-_tt_-
   416  movzx       r14d, byte ptr [rdi+r13+0x17]
   41c  cmp         dword ptr [r10+rsi*4-8], 0x18
   422  jb          L50
; L42_x_-_ttt_-
   428  add         rsi, 1
   42c  jge         L45
; L43_x_x_-_ttt
L26:
   432  mov         ebp, [r8+rsi*4]
   436  cmp         rsi, 0xfffffffffffffff8
   43a  jge         L27
   440  mov         eax, [r8+rsi*4+0x20]
   445  prefetcht0  [rdi+rax+0xc]
L27:
   44a  movzx       ebx, word ptr [rdi+r11+0xc]
   450  cmp         dword ptr [r10+rsi*4-4], 0xe
   456  jb          L28
; L44_x_t_-_-
   45c  cmp         r14d, 6
   460  mov         r14d, 0
   466  mov         eax, 0x40000
   46b  cmove       r14d, eax
   46f  mov         [r9+rsi*4-0xc], r14d
   474  add         rsi, 1
   478  jge         L84
   47e  jmp         L16
; L45_x_-_-_-
L28:
   483  mov         dword ptr [r9+rsi*4-4], 0
   48c  cmp         r14d, 6
   490  mov         r14d, 0
   496  mov         eax, 0x40000
   49b  cmove       r14d, eax
   49f  mov         [r9+rsi*4-0xc], r14d
   4a4  add         rsi, 1
   4a8  jge         L41
; L46_x_x_-_-
L29:
   4ae  mov         r13d, [r8+rsi*4]
   4b2  cmp         rsi, 0xfffffffffffffff8
   4b6  jge         L30
   4bc  mov         eax, [r8+rsi*4+0x20]
   4c1  prefetcht0  [rdi+rax+0xc]
L30:
   4c6  movzx       r12d, word ptr [rdi+rbp+0xc]
   4cc  cmp         dword ptr [r10+rsi*4-4], 0xe
   4d2  jb          L31
; L47_x_t_-_-
   4d8  add         rsi, 1
   4dc  jge         L71
   4e2  jmp         L19
; L48_x_-_-_-
L31:
   4e7  mov         dword ptr [r9+rsi*4-4], 0
   4f0  add         rsi, 1
   4f4  jge         L35
; L49_x_x_-_-
L32:
   4fa  mov         ecx, [r8+rsi*4]
   4fe  cmp         rsi, 0xfffffffffffffff8
   502  jge         L33
   508  mov         eax, [r8+rsi*4+0x20]
   50d  prefetcht0  [rdi+rax+0xc]
L33:
   512  movzx       r14d, word ptr [rdi+r13+0xc]
   518  cmp         dword ptr [r10+rsi*4-4], 0xe
   51e  jb          L34
; L50_x_t_-_-
   524  add         rsi, 1
   528  jge         L55
   52e  jmp         L22
; L51_x_-_-_-
L34:
   533  mov         dword ptr [r9+rsi*4-4], 0
   53c  add         rsi, 1
   540  jge         L128
   546  jmp         L3
; L52_-_x_-_-
L35:
   54b  movzx       r14d, word ptr [rdi+r13+0xc]
   551  cmp         dword ptr [r10+rsi*4-4], 0xe
   557  jb          L40
; L53_-_t_-_-
   55d  add         rsi, 1
; L54_-_-_t_-
L36:
   561  cmp         r14d, 8
   565  jne         L39
; L55_-_-_tt_-
L37:
   56b  movzx       r14d, byte ptr [rdi+r13+0x17]
   571  cmp         dword ptr [r10+rsi*4-8], 0x18
   577  jb          L39
; L56_-_-_ttt_-
   57d  add         rsi, 1
; L57_-_-_-_-
L38:
   581  cmp         r14d, 6
   585  mov         r14d, 0
   58b  mov         eax, 0x40000
   590  cmove       r14d, eax
   594  mov         [r9+rsi*4-0xc], r14d
   599  jmp         L129
; L58_-_-_-_-
L39:
   59e  mov         dword ptr [r9+rsi*4-8], 0
   5a7  jmp         L129
; L59_-_-_-_-
L40:
   5ac  mov         dword ptr [r9+rsi*4-4], 0
   5b5  jmp         L129
; L60_-_x_-_-
L41:
   5ba  movzx       r12d, word ptr [rdi+rbp+0xc]
   5c0  cmp         dword ptr [r10+rsi*4-4], 0xe
   5c6  jb          L40
; L61_-_t_-_-
   5cc  add         rsi, 1
; L62_-_-_t_-
L42:
   5d0  cmp         r12d, 8
   5d4  jne         L39
; L63_-_-_tt_-
L43:
   5da  movzx       r12d, byte ptr [rdi+rbp+0x17]
   5e0  cmp         dword ptr [r10+rsi*4-8], 0x18
   5e6  jb          L39
; L64_-_-_ttt_-
   5ec  add         rsi, 1
; L65_-_-_-_-
L44:
   5f0  cmp         r12d, 6
   5f4  mov         r12d, 0
   5fa  mov         eax, 0x40000
   5ff  cmove       r12d, eax
   603  mov         [r9+rsi*4-0xc], r12d
   608  jmp         L129
; L66_-_x_-_ttt
L45:
   60d  movzx       ebx, word ptr [rdi+r11+0xc]
   613  cmp         dword ptr [r10+rsi*4-4], 0xe
   619  jb          L49
; L67_-_t_-_-
   61f  cmp         r14d, 6
   623  mov         r14d, 0
   629  mov         eax, 0x40000
   62e  cmove       r14d, eax
   632  mov         [r9+rsi*4-0xc], r14d
   637  add         rsi, 1
; L68_-_-_t_-
L46:
   63b  cmp         ebx, 8
   63e  jne         L39
; L69_-_-_tt_-
L47:
   644  movzx       ebx, byte ptr [rdi+r11+0x17]
   64a  cmp         dword ptr [r10+rsi*4-8], 0x18
   650  jb          L39
; L70_-_-_ttt_-
   656  add         rsi, 1
; L71_-_-_-_-
L48:
   65a  cmp         ebx, 6
   65d  mov         ebx, 0
   662  mov         eax, 0x40000
   667  cmove       ebx, eax
   66a  mov         [r9+rsi*4-0xc], ebx
   66f  jmp         L129
; L72_-_-_-_-
L49:
   674  mov         dword ptr [r9+rsi*4-4], 0
   67d  cmp         r14d, 6
   681  mov         r14d, 0
   687  mov         eax, 0x40000
   68c  cmove       r14d, eax
   690  mov         [r9+rsi*4-0xc], r14d
   695  jmp         L129
; L73_x_-_-_-
L50:
   69a  mov         dword ptr [r9+rsi*4-8], 0
   6a3  add         rsi, 1
   6a7  jge         L54
; L74_x_x_-_-
L51:
   6ad  mov         ebp, [r8+rsi*4]
   6b1  cmp         rsi, 0xfffffffffffffff8
   6b5  jge         L52
   6bb  mov         eax, [r8+rsi*4+0x20]
   6c0  prefetcht0  [rdi+rax+0xc]
L52:
   6c5  movzx       ebx, word ptr [rdi+r11+0xc]
   6cb  cmp         dword ptr [r10+rsi*4-4], 0xe
   6d1  jb          L53
; L75_x_t_-_-
   6d7  add         rsi, 1
   6db  jge         L84
   6e1  jmp         L16
; L76_x_-_-_-
L53:
   6e6  mov         dword ptr [r9+rsi*4-4], 0
   6ef  add         rsi, 1
   6f3  jge         L41
   6f9  jmp         L29
; L77_-_x_-_-
L54:
   6fe  movzx       ebx, word ptr [rdi+r11+0xc]
   704  cmp         dword ptr [r10+rsi*4-4], 0xe
   70a  jb          L40
; L78_-_t_-_-
   710  add         rsi, 1
   714  jmp         L46
; L79_-_x_t_-
L55:
   719  movzx       edx, word ptr [rdi+rcx+0xc]
   71e  cmp         dword ptr [r10+rsi*4-4], 0xe
   724  jb          L63
; L80_-_t_t_-
   72a  cmp         r14d, 8
   72e  jne         L60
; L81_-_t_tt_-
   734  movzx       r14d, byte ptr [rdi+r13+0x17]
   73a  cmp         dword ptr [r10+rsi*4-8], 0x18
   740  jb          L60
; L82_-_t_ttt_-
   746  add         rsi, 1
; L83_-_-_t_ttt
L56:
   74a  cmp         edx, 8
   74d  jne         L59
; L84_-_-_tt_ttt
L57:
   753  movzx       edx, byte ptr [rdi+rcx+0x17]
   758  cmp         dword ptr [r10+rsi*4-8], 0x18
   75e  jb          L59
; L85_-_-_ttt_-
   764  cmp         r14d, 6
   768  mov         r14d, 0
   76e  mov         eax, 0x40000
   773  cmove       r14d, eax
   777  mov         [r9+rsi*4-0xc], r14d
   77c  add         rsi, 1
; L86_-_-_-_-
L58:
   780  cmp         edx, 6
   783  mov         edx, 0
   788  mov         eax, 0x40000
   78d  cmove       edx, eax
   790  mov         [r9+rsi*4-0xc], edx
   795  jmp         L129
; L87_-_-_-_-
L59:
   79a  mov         dword ptr [r9+rsi*4-8], 0
   7a3  cmp         r14d, 6
   7a7  mov         r14d, 0
   7ad  mov         eax, 0x40000
   7b2  cmove       r14d, eax
   7b6  mov         [r9+rsi*4-0xc], r14d
   7bb  jmp         L129
; L88_-_t_-_-
L60:
   7c0  mov         dword ptr [r9+rsi*4-8], 0
   7c9  add         rsi, 1
; L89_-_-_t_-
L61:
   7cd  cmp         edx, 8
   7d0  jne         L39
; L90_-_-_tt_-
L62:
   7d6  movzx       edx, byte ptr [rdi+rcx+0x17]
   7db  cmp         dword ptr [r10+rsi*4-8], 0x18
   7e1  jb          L39
; L91_-_-_ttt_-
   7e7  add         rsi, 1
   7eb  jmp         L58
; L92_-_-_t_-
L63:
   7f0  mov         dword ptr [r9+rsi*4-4], 0
   7f9  cmp         r14d, 8
   7fd  je          L37
   803  jmp         L39
; L93_x_-_t_-
L64:
   808  mov         dword ptr [r9+rsi*4-4], 0
   811  cmp         r12d, 8
   815  jne         L70
; L94_x_-_tt_-
   81b  movzx       r12d, byte ptr [rdi+rbp+0x17]
   821  cmp         dword ptr [r10+rsi*4-8], 0x18
   827  jb          L70
; L95_x_-_ttt_-
   82d  add         rsi, 1
   831  jge         L68
; L96_x_x_-_ttt
L65:
   837  mov         r11d, [r8+rsi*4]
   83b  cmp         rsi, 0xfffffffffffffff8
   83f  jge         L66
   845  mov         eax, [r8+rsi*4+0x20]
   84a  prefetcht0  [rdi+rax+0xc]
L66:
   84f  movzx       edx, word ptr [rdi+rcx+0xc]
   854  cmp         dword ptr [r10+rsi*4-4], 0xe
   85a  jb          L67
; L97_x_t_-_-
   860  cmp         r12d, 6
   864  mov         r12d, 0
   86a  mov         eax, 0x40000
   86f  cmove       r12d, eax
   873  mov         [r9+rsi*4-0xc], r12d
   878  add         rsi, 1
   87c  jge         L124
   882  jmp         L5
; L98_x_-_-_-
L67:
   887  mov         dword ptr [r9+rsi*4-4], 0
   890  cmp         r12d, 6
   894  mov         r12d, 0
   89a  mov         eax, 0x40000
   89f  cmove       r12d, eax
   8a3  mov         [r9+rsi*4-0xc], r12d
   8a8  add         rsi, 1
   8ac  jge         L54
   8b2  jmp         L51
; L99_-_x_-_ttt
L68:
   8b7  movzx       edx, word ptr [rdi+rcx+0xc]
   8bc  cmp         dword ptr [r10+rsi*4-4], 0xe
   8c2  jb          L69
; L100_-_t_-_-
   8c8  cmp         r12d, 6
   8cc  mov         r12d, 0
   8d2  mov         eax, 0x40000
   8d7  cmove       r12d, eax
   8db  mov         [r9+rsi*4-0xc], r12d
   8e0  add         rsi, 1
   8e4  jmp         L61
; L101_-_-_-_-
L69:
   8e9  mov         dword ptr [r9+rsi*4-4], 0
   8f2  cmp         r12d, 6
   8f6  mov         r12d, 0
   8fc  mov         eax, 0x40000
   901  cmove       r12d, eax
   905  mov         [r9+rsi*4-0xc], r12d
   90a  jmp         L129
; L102_x_-_-_-
L70:
   90f  mov         dword ptr [r9+rsi*4-8], 0
   918  add         rsi, 1
   91c  jge         L128
   922  jmp         L3
; L103_-_x_t_-
L71:
   927  movzx       r14d, word ptr [rdi+r13+0xc]
   92d  cmp         dword ptr [r10+rsi*4-4], 0xe
   933  jb          L76
; L104_-_t_t_-
   939  cmp         r12d, 8
   93d  jne         L75
; L105_-_t_tt_-
   943  movzx       r12d, byte ptr [rdi+rbp+0x17]
   949  cmp         dword ptr [r10+rsi*4-8], 0x18
   94f  jb          L75
; L106_-_t_ttt_-
   955  add         rsi, 1
; L107_-_-_t_ttt
L72:
   959  cmp         r14d, 8
   95d  jne         L74
; L108_-_-_tt_ttt
L73:
   963  movzx       r14d, byte ptr [rdi+r13+0x17]
   969  cmp         dword ptr [r10+rsi*4-8], 0x18
   96f  jb          L74
; L109_-_-_ttt_-
   975  cmp         r12d, 6
   979  mov         r12d, 0
   97f  mov         eax, 0x40000
   984  cmove       r12d, eax
   988  mov         [r9+rsi*4-0xc], r12d
   98d  add         rsi, 1
   991  jmp         L38
; L110_-_-_-_-
L74:
   996  mov         dword ptr [r9+rsi*4-8], 0
   99f  cmp         r12d, 6
   9a3  mov         r12d, 0
   9a9  mov         eax, 0x40000
   9ae  cmove       r12d, eax
   9b2  mov         [r9+rsi*4-0xc], r12d
   9b7  jmp         L129
; L111_-_t_-_-
L75:
   9bc  mov         dword ptr [r9+rsi*4-8], 0
   9c5  add         rsi, 1
   9c9  jmp         L36
; L112_-_-_t_-
L76:
   9ce  mov         dword ptr [r9+rsi*4-4], 0
   9d7  cmp         r12d, 8
   9db  je          L43
   9e1  jmp         L39
; L113_x_-_t_-
L77:
   9e6  mov         dword ptr [r9+rsi*4-4], 0
   9ef  cmp         ebx, 8
   9f2  jne         L83
; L114_x_-_tt_-
   9f8  movzx       ebx, byte ptr [rdi+r11+0x17]
   9fe  cmp         dword ptr [r10+rsi*4-8], 0x18
   a04  jb          L83
; L115_x_-_ttt_-
   a0a  add         rsi, 1
   a0e  jge         L81
; L116_x_x_-_ttt
L78:
   a14  mov         ecx, [r8+rsi*4]
   a18  cmp         rsi, 0xfffffffffffffff8
   a1c  jge         L79
   a22  mov         eax, [r8+rsi*4+0x20]
   a27  prefetcht0  [rdi+rax+0xc]
L79:
   a2c  movzx       r14d, word ptr [rdi+r13+0xc]
   a32  cmp         dword ptr [r10+rsi*4-4], 0xe
   a38  jb          L80
; L117_x_t_-_-
   a3e  cmp         ebx, 6
   a41  mov         ebx, 0
   a46  mov         eax, 0x40000
   a4b  cmove       ebx, eax
   a4e  mov         [r9+rsi*4-0xc], ebx
   a53  add         rsi, 1
   a57  jge         L55
   a5d  jmp         L22
; L118_x_-_-_-
L80:
   a62  mov         dword ptr [r9+rsi*4-4], 0
   a6b  cmp         ebx, 6
   a6e  mov         ebx, 0
   a73  mov         eax, 0x40000
   a78  cmove       ebx, eax
   a7b  mov         [r9+rsi*4-0xc], ebx
   a80  add         rsi, 1
   a84  jge         L128
   a8a  jmp         L3
; L119_-_x_-_ttt
L81:
   a8f  movzx       r14d, word ptr [rdi+r13+0xc]
   a95  cmp         dword ptr [r10+rsi*4-4], 0xe
   a9b  jb          L82
; L120_-_t_-_-
   aa1  cmp         ebx, 6
   aa4  mov         ebx, 0
   aa9  mov         eax, 0x40000
   aae  cmove       ebx, eax
   ab1  mov         [r9+rsi*4-0xc], ebx
   ab6  add         rsi, 1
   aba  jmp         L36
; L121_-_-_-_-
L82:
   abf  mov         dword ptr [r9+rsi*4-4], 0
   ac8  cmp         ebx, 6
   acb  mov         ebx, 0
   ad0  mov         eax, 0x40000
   ad5  cmove       ebx, eax
   ad8  mov         [r9+rsi*4-0xc], ebx
   add  jmp         L129
; L122_x_-_-_-
L83:
   ae2  mov         dword ptr [r9+rsi*4-8], 0
   aeb  add         rsi, 1
   aef  jge         L35
   af5  jmp         L32
; L123_-_x_t_-
L84:
   afa  movzx       r12d, word ptr [rdi+rbp+0xc]
   b00  cmp         dword ptr [r10+rsi*4-4], 0xe
   b06  jb          L89
; L124_-_t_t_-
   b0c  cmp         ebx, 8
   b0f  jne         L88
; L125_-_t_tt_-
   b15  movzx       ebx, byte ptr [rdi+r11+0x17]
   b1b  cmp         dword ptr [r10+rsi*4-8], 0x18
   b21  jb          L88
; L126_-_t_ttt_-
   b27  add         rsi, 1
; L127_-_-_t_ttt
L85:
   b2b  cmp         r12d, 8
   b2f  jne         L87
; L128_-_-_tt_ttt
L86:
   b35  movzx       r12d, byte ptr [rdi+rbp+0x17]
   b3b  cmp         dword ptr [r10+rsi*4-8], 0x18
   b41  jb          L87
; L129_-_-_ttt_-
   b47  cmp         ebx, 6
   b4a  mov         ebx, 0
   b4f  mov         eax, 0x40000
   b54  cmove       ebx, eax
   b57  mov         [r9+rsi*4-0xc], ebx
   b5c  add         rsi, 1
   b60  jmp         L44
; L130_-_-_-_-
L87:
   b65  mov         dword ptr [r9+rsi*4-8], 0
   b6e  cmp         ebx, 6
   b71  mov         ebx, 0
   b76  mov         eax, 0x40000
   b7b  cmove       ebx, eax
   b7e  mov         [r9+rsi*4-0xc], ebx
   b83  jmp         L129
; L131_-_t_-_-
L88:
   b88  mov         dword ptr [r9+rsi*4-8], 0
   b91  add         rsi, 1
   b95  jmp         L42
; L132_-_-_t_-
L89:
   b9a  mov         dword ptr [r9+rsi*4-4], 0
   ba3  cmp         ebx, 8
   ba6  je          L47
   bac  jmp         L39
; L133_x_-_t_ttt
L90:
   bb1  mov         dword ptr [r9+rsi*4-4], 0
   bba  cmp         edx, 8
   bbd  jne         L96
; L134_x_-_tt_ttt
   bc3  movzx       edx, byte ptr [rdi+rcx+0x17]
   bc8  cmp         dword ptr [r10+rsi*4-8], 0x18
   bce  jb          L96
; L135_x_-_ttt_-
   bd4  cmp         r14d, 6
   bd8  mov         r14d, 0
   bde  mov         eax, 0x40000
   be3  cmove       r14d, eax
   be7  mov         [r9+rsi*4-0xc], r14d
   bec  add         rsi, 1
   bf0  jge         L94
; L136_x_x_-_ttt
L91:
   bf6  mov         r13d, [r8+rsi*4]
   bfa  cmp         rsi, 0xfffffffffffffff8
   bfe  jge         L92
   c04  mov         eax, [r8+rsi*4+0x20]
   c09  prefetcht0  [rdi+rax+0xc]
L92:
   c0e  movzx       r12d, word ptr [rdi+rbp+0xc]
   c14  cmp         dword ptr [r10+rsi*4-4], 0xe
   c1a  jb          L93
; L137_x_t_-_-
   c20  cmp         edx, 6
   c23  mov         edx, 0
   c28  mov         eax, 0x40000
   c2d  cmove       edx, eax
   c30  mov         [r9+rsi*4-0xc], edx
   c35  add         rsi, 1
   c39  jge         L71
   c3f  jmp         L19
; L138_x_-_-_-
L93:
   c44  mov         dword ptr [r9+rsi*4-4], 0
   c4d  cmp         edx, 6
   c50  mov         edx, 0
   c55  mov         eax, 0x40000
   c5a  cmove       edx, eax
   c5d  mov         [r9+rsi*4-0xc], edx
   c62  add         rsi, 1
   c66  jge         L35
   c6c  jmp         L32
; L139_-_x_-_ttt
L94:
   c71  movzx       r12d, word ptr [rdi+rbp+0xc]
   c77  cmp         dword ptr [r10+rsi*4-4], 0xe
   c7d  jb          L95
; L140_-_t_-_-
   c83  cmp         edx, 6
   c86  mov         edx, 0
   c8b  mov         eax, 0x40000
   c90  cmove       edx, eax
   c93  mov         [r9+rsi*4-0xc], edx
   c98  add         rsi, 1
   c9c  jmp         L42
; L141_-_-_-_-
L95:
   ca1  mov         dword ptr [r9+rsi*4-4], 0
   caa  cmp         edx, 6
   cad  mov         edx, 0
   cb2  mov         eax, 0x40000
   cb7  cmove       edx, eax
   cba  mov         [r9+rsi*4-0xc], edx
   cbf  jmp         L129
; L142_x_-_-_-
L96:
   cc4  mov         dword ptr [r9+rsi*4-8], 0
   ccd  cmp         r14d, 6
   cd1  mov         r14d, 0
   cd7  mov         eax, 0x40000
   cdc  cmove       r14d, eax
   ce0  mov         [r9+rsi*4-0xc], r14d
   ce5  add         rsi, 1
   ce9  jge         L41
   cef  jmp         L29
; L143_-_x_t_ttt
L97:
   cf4  movzx       ebx, word ptr [rdi+r11+0xc]
   cfa  cmp         dword ptr [r10+rsi*4-4], 0xe
   d00  jb          L102
; L144_-_t_t_ttt
   d06  cmp         edx, 8
   d09  jne         L101
; L145_-_t_tt_ttt
   d0f  movzx       edx, byte ptr [rdi+rcx+0x17]
   d14  cmp         dword ptr [r10+rsi*4-8], 0x18
   d1a  jb          L101
; L146_-_t_ttt_-
   d20  cmp         r14d, 6
   d24  mov         r14d, 0
   d2a  mov         eax, 0x40000
   d2f  cmove       r14d, eax
   d33  mov         [r9+rsi*4-0xc], r14d
   d38  add         rsi, 1
; L147_-_-_t_ttt
L98:
   d3c  cmp         ebx, 8
   d3f  jne         L100
; L148_-_-_tt_ttt
L99:
   d45  movzx       ebx, byte ptr [rdi+r11+0x17]
   d4b  cmp         dword ptr [r10+rsi*4-8], 0x18
   d51  jb          L100
; L149_-_-_ttt_-
   d57  cmp         edx, 6
   d5a  mov         edx, 0
   d5f  mov         eax, 0x40000
   d64  cmove       edx, eax
   d67  mov         [r9+rsi*4-0xc], edx
   d6c  add         rsi, 1
   d70  jmp         L48
; L150_-_-_-_-
L100:
   d75  mov         dword ptr [r9+rsi*4-8], 0
   d7e  cmp         edx, 6
   d81  mov         edx, 0
   d86  mov         eax, 0x40000
   d8b  cmove       edx, eax
   d8e  mov         [r9+rsi*4-0xc], edx
   d93  jmp         L129
; L151_-_t_-_-
L101:
   d98  mov         dword ptr [r9+rsi*4-8], 0
   da1  cmp         r14d, 6
   da5  mov         r14d, 0
   dab  mov         eax, 0x40000
   db0  cmove       r14d, eax
   db4  mov         [r9+rsi*4-0xc], r14d
   db9  add         rsi, 1
   dbd  jmp         L46
; L152_-_-_t_ttt
L102:
   dc2  mov         dword ptr [r9+rsi*4-4], 0
   dcb  cmp         edx, 8
   dce  je          L57
   dd4  jmp         L59
; L153_x_t_-_-
L103:
   dd9  mov         dword ptr [r9+rsi*4-8], 0
   de2  cmp         r12d, 6
   de6  mov         r12d, 0
   dec  mov         eax, 0x40000
   df1  cmove       r12d, eax
   df5  mov         [r9+rsi*4-0xc], r12d
   dfa  add         rsi, 1
   dfe  jge         L124
   e04  jmp         L5
; L154_x_-_t_ttt
L104:
   e09  mov         dword ptr [r9+rsi*4-4], 0
   e12  cmp         r14d, 8
   e16  jne         L105
; L155_x_-_tt_ttt
   e1c  movzx       r14d, byte ptr [rdi+r13+0x17]
   e22  cmp         dword ptr [r10+rsi*4-8], 0x18
   e28  jb          L105
; L156_x_-_ttt_-
   e2e  cmp         r12d, 6
   e32  mov         r12d, 0
   e38  mov         eax, 0x40000
   e3d  cmove       r12d, eax
   e41  mov         [r9+rsi*4-0xc], r12d
   e46  add         rsi, 1
   e4a  jge         L45
   e50  jmp         L26
; L157_x_-_-_-
L105:
   e55  mov         dword ptr [r9+rsi*4-8], 0
   e5e  cmp         r12d, 6
   e62  mov         r12d, 0
   e68  mov         eax, 0x40000
   e6d  cmove       r12d, eax
   e71  mov         [r9+rsi*4-0xc], r12d
   e76  add         rsi, 1
   e7a  jge         L54
   e80  jmp         L51
; L158_-_x_t_ttt
L106:
   e85  movzx       edx, word ptr [rdi+rcx+0xc]
   e8a  cmp         dword ptr [r10+rsi*4-4], 0xe
   e90  jb          L108
; L159_-_t_t_ttt
   e96  cmp         r14d, 8
   e9a  jne         L107
; L160_-_t_tt_ttt
   ea0  movzx       r14d, byte ptr [rdi+r13+0x17]
   ea6  cmp         dword ptr [r10+rsi*4-8], 0x18
   eac  jb          L107
; L161_-_t_ttt_-
   eb2  cmp         r12d, 6
   eb6  mov         r12d, 0
   ebc  mov         eax, 0x40000
   ec1  cmove       r12d, eax
   ec5  mov         [r9+rsi*4-0xc], r12d
   eca  add         rsi, 1
   ece  jmp         L56
; L162_-_t_-_-
L107:
   ed3  mov         dword ptr [r9+rsi*4-8], 0
   edc  cmp         r12d, 6
   ee0  mov         r12d, 0
   ee6  mov         eax, 0x40000
   eeb  cmove       r12d, eax
   eef  mov         [r9+rsi*4-0xc], r12d
   ef4  add         rsi, 1
   ef8  jmp         L61
; L163_-_-_t_ttt
L108:
   efd  mov         dword ptr [r9+rsi*4-4], 0
   f06  cmp         r14d, 8
   f0a  je          L73
   f10  jmp         L74
; L164_x_t_-_-
L109:
   f15  mov         dword ptr [r9+rsi*4-8], 0
   f1e  cmp         ebx, 6
   f21  mov         ebx, 0
   f26  mov         eax, 0x40000
   f2b  cmove       ebx, eax
   f2e  mov         [r9+rsi*4-0xc], ebx
   f33  add         rsi, 1
   f37  jge         L55
   f3d  jmp         L22
; L165_x_-_t_ttt
L110:
   f42  mov         dword ptr [r9+rsi*4-4], 0
   f4b  cmp         r12d, 8
   f4f  jne         L111
; L166_x_-_tt_ttt
   f55  movzx       r12d, byte ptr [rdi+rbp+0x17]
   f5b  cmp         dword ptr [r10+rsi*4-8], 0x18
   f61  jb          L111
; L167_x_-_ttt_-
   f67  cmp         ebx, 6
   f6a  mov         ebx, 0
   f6f  mov         eax, 0x40000
   f74  cmove       ebx, eax
   f77  mov         [r9+rsi*4-0xc], ebx
   f7c  add         rsi, 1
   f80  jge         L68
   f86  jmp         L65
; L168_x_-_-_-
L111:
   f8b  mov         dword ptr [r9+rsi*4-8], 0
   f94  cmp         ebx, 6
   f97  mov         ebx, 0
   f9c  mov         eax, 0x40000
   fa1  cmove       ebx, eax
   fa4  mov         [r9+rsi*4-0xc], ebx
   fa9  add         rsi, 1
   fad  jge         L128
   fb3  jmp         L3
; L169_-_x_t_ttt
L112:
   fb8  movzx       r14d, word ptr [rdi+r13+0xc]
   fbe  cmp         dword ptr [r10+rsi*4-4], 0xe
   fc4  jb          L114
; L170_-_t_t_ttt
   fca  cmp         r12d, 8
   fce  jne         L113
; L171_-_t_tt_ttt
   fd4  movzx       r12d, byte ptr [rdi+rbp+0x17]
   fda  cmp         dword ptr [r10+rsi*4-8], 0x18
   fe0  jb          L113
; L172_-_t_ttt_-
   fe6  cmp         ebx, 6
   fe9  mov         ebx, 0
   fee  mov         eax, 0x40000
   ff3  cmove       ebx, eax
   ff6  mov         [r9+rsi*4-0xc], ebx
   ffb  add         rsi, 1
   fff  jmp         L72
; L173_-_t_-_-
L113:
  1004  mov         dword ptr [r9+rsi*4-8], 0
  100d  cmp         ebx, 6
  1010  mov         ebx, 0
  1015  mov         eax, 0x40000
  101a  cmove       ebx, eax
  101d  mov         [r9+rsi*4-0xc], ebx
  1022  add         rsi, 1
  1026  jmp         L36
; L174_-_-_t_ttt
L114:
  102b  mov         dword ptr [r9+rsi*4-4], 0
  1034  cmp         r12d, 8
  1038  je          L86
  103e  jmp         L87
; L175_x_t_-_-
L115:
  1043  mov         dword ptr [r9+rsi*4-8], 0
  104c  cmp         edx, 6
  104f  mov         edx, 0
  1054  mov         eax, 0x40000
  1059  cmove       edx, eax
  105c  mov         [r9+rsi*4-0xc], edx
  1061  add         rsi, 1
  1065  jge         L71
  106b  jmp         L19
; L176_x_-_t_ttt
L116:
  1070  mov         dword ptr [r9+rsi*4-4], 0
  1079  cmp         ebx, 8
  107c  jne         L117
; L177_x_-_tt_ttt
  1082  movzx       ebx, byte ptr [rdi+r11+0x17]
  1088  cmp         dword ptr [r10+rsi*4-8], 0x18
  108e  jb          L117
; L178_x_-_ttt_-
  1094  cmp         edx, 6
  1097  mov         edx, 0
  109c  mov         eax, 0x40000
  10a1  cmove       edx, eax
  10a4  mov         [r9+rsi*4-0xc], edx
  10a9  add         rsi, 1
  10ad  jge         L81
  10b3  jmp         L78
; L179_x_-_-_-
L117:
  10b8  mov         dword ptr [r9+rsi*4-8], 0
  10c1  cmp         edx, 6
  10c4  mov         edx, 0
  10c9  mov         eax, 0x40000
  10ce  cmove       edx, eax
  10d1  mov         [r9+rsi*4-0xc], edx
  10d6  add         rsi, 1
  10da  jge         L35
  10e0  jmp         L32
; L180_-_x_t_ttt
L118:
  10e5  movzx       r12d, word ptr [rdi+rbp+0xc]
  10eb  cmp         dword ptr [r10+rsi*4-4], 0xe
  10f1  jb          L120
; L181_-_t_t_ttt
  10f7  cmp         ebx, 8
  10fa  jne         L119
; L182_-_t_tt_ttt
  1100  movzx       ebx, byte ptr [rdi+r11+0x17]
  1106  cmp         dword ptr [r10+rsi*4-8], 0x18
  110c  jb          L119
; L183_-_t_ttt_-
  1112  cmp         edx, 6
  1115  mov         edx, 0
  111a  mov         eax, 0x40000
  111f  cmove       edx, eax
  1122  mov         [r9+rsi*4-0xc], edx
  1127  add         rsi, 1
  112b  jmp         L85
; L184_-_t_-_-
L119:
  1130  mov         dword ptr [r9+rsi*4-8], 0
  1139  cmp         edx, 6
  113c  mov         edx, 0
  1141  mov         eax, 0x40000
  1146  cmove       edx, eax
  1149  mov         [r9+rsi*4-0xc], edx
  114e  add         rsi, 1
  1152  jmp         L42
; L185_-_-_t_ttt
L120:
  1157  mov         dword ptr [r9+rsi*4-4], 0
  1160  cmp         ebx, 8
  1163  je          L99
  1169  jmp         L100
; L186_x_t_-_-
L121:
  116e  mov         dword ptr [r9+rsi*4-8], 0
  1177  add         rsi, 1
  117b  jge         L84
  1181  jmp         L16
; L187_x_-_t_-
L122:
  1186  mov         dword ptr [r9+rsi*4-4], 0
  118f  cmp         edx, 8
  1192  jne         L123
; L188_x_-_tt_-
  1198  movzx       edx, byte ptr [rdi+rcx+0x17]
  119d  cmp         dword ptr [r10+rsi*4-8], 0x18
  11a3  jb          L123
; L189_x_-_ttt_-
  11a9  add         rsi, 1
  11ad  jge         L94
  11b3  jmp         L91
; L190_x_-_-_-
L123:
  11b8  mov         dword ptr [r9+rsi*4-8], 0
  11c1  add         rsi, 1
  11c5  jge         L41
  11cb  jmp         L29
; L191_-_x_t_-
L124:
  11d0  movzx       ebx, word ptr [rdi+r11+0xc]
  11d6  cmp         dword ptr [r10+rsi*4-4], 0xe
  11dc  jb          L126
; L192_-_t_t_-
  11e2  cmp         edx, 8
  11e5  jne         L125
; L193_-_t_tt_-
  11eb  movzx       edx, byte ptr [rdi+rcx+0x17]
  11f0  cmp         dword ptr [r10+rsi*4-8], 0x18
  11f6  jb          L125
; L194_-_t_ttt_-
  11fc  add         rsi, 1
  1200  jmp         L98
; L195_-_t_-_-
L125:
  1205  mov         dword ptr [r9+rsi*4-8], 0
  120e  add         rsi, 1
  1212  jmp         L46
; L196_-_-_t_-
L126:
  1217  mov         dword ptr [r9+rsi*4-4], 0
  1220  cmp         edx, 8
  1223  je          L62
  1229  jmp         L39
; L197_x_-_-_-
L127:
  122e  mov         dword ptr [r9+rsi*4-4], 0
  1237  add         rsi, 1
  123b  jge         L54
  1241  jmp         L51
; L198_-_x_-_-
L128:
  1246  movzx       edx, word ptr [rdi+rcx+0xc]
  124b  cmp         dword ptr [r10+rsi*4-4], 0xe
  1251  jb          L40
; L199_-_t_-_-
  1257  add         rsi, 1
  125b  jmp         L61
L129:
  1260  pop         r13
  1262  pop         r12
  1264  pop         r14
  1266  pop         rbp
  1267  pop         rbx
  1268  ret
  1269  nop         [rax+0x100]
  1270  nop         [rax+0x100]
  1277  nop         [rax+0x100]
  127e  nop
  127f  nop
each:
  1280  lea         r10, [rsi+rdx*4]
  1284  lea         r8, [r8+rdx*4]
  1288  lea         r9, [r9+rdx*4]
  128c  mov         r11, rdx
  128f  neg         r11
; each packet
L130:
  1292  mov         esi, [r10+r11*4]
  1296  add         rsi, rdi
; b0: captured >= 14
  1299  mov         eax, [r8+r11*4]
  129d  cmp         eax, 0xe
  12a0  jb          L131
; b1: half[12] == 0x800
  12a6  cmp         word ptr [rsi+0xc], 8
  12ab  jne         L131
; b2: captured >= 24
  12b1  cmp         eax, 0x18
  12b4  jb          L131
; b3: byte[23] == 6
  12ba  cmp         byte ptr [rsi+0x17], 6
  12be  mov         eax, 0
  12c3  mov         ecx, 0x40000
  12c8  cmove       eax, ecx
  12cb  mov         [r9+r11*4], eax
  12cf  inc         r11
  12d2  jne         L130
  12d8  ret
; b5: verdict
L131:
  12d9  mov         dword ptr [r9+r11*4], 0
  12e1  inc         r11
  12e4  jne         L130
  12ea  ret
