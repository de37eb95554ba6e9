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
    2b  sub         rsi, 1
; L0_-_-_-_-
    2f  add         rsi, 1
    33  jge         L51
; L1_x_-_-_-
    39  mov         ecx, [r8+rsi*4]
    3d  add         rsi, 1
    41  jge         L50
; L2_x_x_-_-
L1:
    47  mov         r11d, [r8+rsi*4]
    4b  movzx       edx, word ptr [rdi+rcx+0xc]
    50  cmp         dword ptr [r10+rsi*4-4], 0xe
    56  jb          L48
; L3_x_t_-_-
L2:
    5c  add         rsi, 1
    60  jge         L47
; L4_x_x_t_-
    66  mov         ebp, [r8+rsi*4]
    6a  movzx       ebx, word ptr [rdi+r11+0xc]
    70  cmp         dword ptr [r10+rsi*4-4], 0xe
    76  jb          L45
; L5_x_t_t_-
L3:
    7c  add         rsi, 1
    80  jge         L44
; L6_x_x_t_-
    86  mov         r13d, [r8+rsi*4]
    8a  cmp         edx, 8
    8d  mov         edx, 0
    92  mov         eax, 0x40000
    97  cmove       edx, eax
    9a  mov         [r9+rsi*4-0xc], edx
    9f  movzx       r12d, word ptr [rdi+rbp+0xc]
    a5  cmp         dword ptr [r10+rsi*4-4], 0xe
    ab  jb          L42
; L7_x_t_t_-
L4:
    b1  add         rsi, 1
    b5  jge         L41
; L8_x_x_t_-
    bb  mov         ecx, [r8+rsi*4]
    bf  cmp         ebx, 8
    c2  mov         ebx, 0
    c7  mov         eax, 0x40000
    cc  cmove       ebx, eax
    cf  mov         [r9+rsi*4-0xc], ebx
    d4  movzx       r14d, word ptr [rdi+r13+0xc]
    da  cmp         dword ptr [r10+rsi*4-4], 0xe
    e0  jb          L38
; L9_x_t_t_-
L5:
    e6  add         rsi, 1
    ea  jge         L37
; L10_x_x_t_-
    f0  mov         r11d, [r8+rsi*4]
    f4  cmp         r12d, 8
    f8  mov         r12d, 0
    fe  mov         eax, 0x40000
   103  cmove       r12d, eax
   107  mov         [r9+rsi*4-0xc], r12d
   10c  movzx       edx, word ptr [rdi+rcx+0xc]
   111  cmp         dword ptr [r10+rsi*4-4], 0xe
   117  jb          L12
; L11_x_t_t_-
L6:
   11d  add         rsi, 1
   121  jge         L7
; L12_x_x_t_-
   127  mov         ebp, [r8+rsi*4]
   12b  cmp         r14d, 8
   12f  mov         r14d, 0
   135  mov         eax, 0x40000
   13a  cmove       r14d, eax
   13e  mov         [r9+rsi*4-0xc], r14d
   143  movzx       ebx, word ptr [rdi+r11+0xc]
   149  cmp         dword ptr [r10+rsi*4-4], 0xe
   14f  jae         L3
   155  jmp         L45
; L13_-_x_t_-
L7:
   15a  cmp         r14d, 8
   15e  mov         r14d, 0
   164  mov         eax, 0x40000
   169  cmove       r14d, eax
   16d  mov         [r9+rsi*4-0xc], r14d
   172  movzx       ebx, word ptr [rdi+r11+0xc]
   178  cmp         dword ptr [r10+rsi*4-4], 0xe
   17e  jb          L10
; L14_-_t_t_-
L8:
   184  add         rsi, 1
; L15_-_-_t_-
   188  cmp         edx, 8
   18b  mov         edx, 0
   190  mov         eax, 0x40000
   195  cmove       edx, eax
   198  mov         [r9+rsi*4-0xc], edx
   19d  add         rsi, 1
; L16_-_-_-_-
L9:
   1a1  cmp         ebx, 8
   1a4  mov         ebx, 0
   1a9  mov         eax, 0x40000
   1ae  cmove       ebx, eax
   1b1  mov         [r9+rsi*4-0xc], ebx
   1b6  jmp         L51
; L17_-_-_t_-
L10:
   1bb  mov         dword ptr [r9+rsi*4-4], 0
   1c4  add         rsi, 1
; L18_-_-_-_-
L11:
   1c8  cmp         edx, 8
   1cb  mov         edx, 0
   1d0  mov         eax, 0x40000
   1d5  cmove       edx, eax
   1d8  mov         [r9+rsi*4-0xc], edx
   1dd  jmp         L51
; L19_x_-_t_-
L12:
   1e2  mov         dword ptr [r9+rsi*4-4], 0
   1eb  add         rsi, 1
   1ef  jge         L35
; L20_x_x_-_-
   1f5  mov         ebp, [r8+rsi*4]
   1f9  cmp         r14d, 8
   1fd  mov         r14d, 0
   203  mov         eax, 0x40000
   208  cmove       r14d, eax
   20c  mov         [r9+rsi*4-0xc], r14d
   211  movzx       ebx, word ptr [rdi+r11+0xc]
   217  cmp         dword ptr [r10+rsi*4-4], 0xe
   21d  jb          L18
; L21_x_t_-_-
L13:
   223  add         rsi, 1
   227  jge         L14
; L22_x_x_t_-
   22d  mov         r13d, [r8+rsi*4]
   231  movzx       r12d, word ptr [rdi+rbp+0xc]
   237  cmp         dword ptr [r10+rsi*4-4], 0xe
   23d  jae         L4
   243  jmp         L42
; L23_-_x_t_-
L14:
   248  movzx       r12d, word ptr [rdi+rbp+0xc]
   24e  cmp         dword ptr [r10+rsi*4-4], 0xe
   254  jb          L17
; L24_-_t_t_-
L15:
   25a  add         rsi, 1
; L25_-_-_t_-
   25e  cmp         ebx, 8
   261  mov         ebx, 0
   266  mov         eax, 0x40000
   26b  cmove       ebx, eax
   26e  mov         [r9+rsi*4-0xc], ebx
   273  add         rsi, 1
; L26_-_-_-_-
L16:
   277  cmp         r12d, 8
   27b  mov         r12d, 0
   281  mov         eax, 0x40000
   286  cmove       r12d, eax
   28a  mov         [r9+rsi*4-0xc], r12d
   28f  jmp         L51
; L27_-_-_t_-
L17:
   294  mov         dword ptr [r9+rsi*4-4], 0
   29d  add         rsi, 1
   2a1  jmp         L9
; L28_x_-_-_-
L18:
   2a6  mov         dword ptr [r9+rsi*4-4], 0
   2af  add         rsi, 1
   2b3  jge         L33
; L29_x_x_-_-
   2b9  mov         r13d, [r8+rsi*4]
   2bd  movzx       r12d, word ptr [rdi+rbp+0xc]
   2c3  cmp         dword ptr [r10+rsi*4-4], 0xe
   2c9  jb          L24
; L30_x_t_-_-
L19:
   2cf  add         rsi, 1
   2d3  jge         L20
; L31_x_x_t_-
   2d9  mov         ecx, [r8+rsi*4]
   2dd  movzx       r14d, word ptr [rdi+r13+0xc]
   2e3  cmp         dword ptr [r10+rsi*4-4], 0xe
   2e9  jae         L5
   2ef  jmp         L38
; L32_-_x_t_-
L20:
   2f4  movzx       r14d, word ptr [rdi+r13+0xc]
   2fa  cmp         dword ptr [r10+rsi*4-4], 0xe
   300  jb          L23
; L33_-_t_t_-
L21:
   306  add         rsi, 1
; L34_-_-_t_-
   30a  cmp         r12d, 8
   30e  mov         r12d, 0
   314  mov         eax, 0x40000
   319  cmove       r12d, eax
   31d  mov         [r9+rsi*4-0xc], r12d
   322  add         rsi, 1
; L35_-_-_-_-
L22:
   326  cmp         r14d, 8
   32a  mov         r14d, 0
   330  mov         eax, 0x40000
   335  cmove       r14d, eax
   339  mov         [r9+rsi*4-0xc], r14d
   33e  jmp         L51
; L36_-_-_t_-
L23:
   343  mov         dword ptr [r9+rsi*4-4], 0
   34c  add         rsi, 1
   350  jmp         L16
; L37_x_-_-_-
L24:
   355  mov         dword ptr [r9+rsi*4-4], 0
   35e  add         rsi, 1
   362  jge         L30
; L38_x_x_-_-
   368  mov         ecx, [r8+rsi*4]
   36c  movzx       r14d, word ptr [rdi+r13+0xc]
   372  cmp         dword ptr [r10+rsi*4-4], 0xe
   378  jb          L29
; L39_x_t_-_-
L25:
   37e  add         rsi, 1
   382  jge         L26
; L40_x_x_t_-
   388  mov         r11d, [r8+rsi*4]
   38c  movzx       edx, word ptr [rdi+rcx+0xc]
   391  cmp         dword ptr [r10+rsi*4-4], 0xe
   397  jae         L6
   39d  jmp         L12
; L41_-_x_t_-
L26:
   3a2  movzx       edx, word ptr [rdi+rcx+0xc]
   3a7  cmp         dword ptr [r10+rsi*4-4], 0xe
   3ad  jb          L28
; L42_-_t_t_-
L27:
   3b3  add         rsi, 1
; L43_-_-_t_-
   3b7  cmp         r14d, 8
   3bb  mov         r14d, 0
   3c1  mov         eax, 0x40000
   3c6  cmove       r14d, eax
   3ca  mov         [r9+rsi*4-0xc], r14d
   3cf  add         rsi, 1
   3d3  jmp         L11
; L44_-_-_t_-
L28:
   3d8  mov         dword ptr [r9+rsi*4-4], 0
   3e1  add         rsi, 1
   3e5  jmp         L22
; L45_x_-_-_-
L29:
   3ea  mov         dword ptr [r9+rsi*4-4], 0
   3f3  add         rsi, 1
   3f7  jge         L50
   3fd  jmp         L1
; L46_-_x_-_-
L30:
   402  movzx       r14d, word ptr [rdi+r13+0xc]
   408  cmp         dword ptr [r10+rsi*4-4], 0xe
   40e  jb          L32
; L47_-_t_-_-
L31:
   414  add         rsi, 1
; L48_-_-_t_-
   418  add         rsi, 1
   41c  jmp         L22
; L49_-_-_-_-
L32:
   421  mov         dword ptr [r9+rsi*4-4], 0
   42a  jmp         L51
; L50_-_x_-_-
L33:
   42f  movzx       r12d, word ptr [rdi+rbp+0xc]
   435  cmp         dword ptr [r10+rsi*4-4], 0xe
   43b  jb          L32
; L51_-_t_-_-
L34:
   441  add         rsi, 1
; L52_-_-_t_-
   445  add         rsi, 1
   449  jmp         L16
; L53_-_x_-_-
L35:
   44e  cmp         r14d, 8
   452  mov         r14d, 0
   458  mov         eax, 0x40000
   45d  cmove       r14d, eax
   461  mov         [r9+rsi*4-0xc], r14d
   466  movzx       ebx, word ptr [rdi+r11+0xc]
   46c  cmp         dword ptr [r10+rsi*4-4], 0xe
   472  jb          L32
; L54_-_t_-_-
L36:
   478  add         rsi, 1
; L55_-_-_t_-
   47c  add         rsi, 1
   480  jmp         L9
; L56_-_x_t_-
L37:
   485  cmp         r12d, 8
   489  mov         r12d, 0
   48f  mov         eax, 0x40000
   494  cmove       r12d, eax
   498  mov         [r9+rsi*4-0xc], r12d
   49d  movzx       edx, word ptr [rdi+rcx+0xc]
   4a2  cmp         dword ptr [r10+rsi*4-4], 0xe
   4a8  jae         L27
   4ae  jmp         L28
; L57_x_-_t_-
L38:
   4b3  mov         dword ptr [r9+rsi*4-4], 0
   4bc  add         rsi, 1
   4c0  jge         L39
; L58_x_x_-_-
   4c6  mov         r11d, [r8+rsi*4]
   4ca  cmp         r12d, 8
   4ce  mov         r12d, 0
   4d4  mov         eax, 0x40000
   4d9  cmove       r12d, eax
   4dd  mov         [r9+rsi*4-0xc], r12d
   4e2  movzx       edx, word ptr [rdi+rcx+0xc]
   4e7  cmp         dword ptr [r10+rsi*4-4], 0xe
   4ed  jae         L2
   4f3  jmp         L48
; L59_-_x_-_-
L39:
   4f8  cmp         r12d, 8
   4fc  mov         r12d, 0
   502  mov         eax, 0x40000
   507  cmove       r12d, eax
   50b  mov         [r9+rsi*4-0xc], r12d
   510  movzx       edx, word ptr [rdi+rcx+0xc]
   515  cmp         dword ptr [r10+rsi*4-4], 0xe
   51b  jb          L32
; L60_-_t_-_-
L40:
   521  add         rsi, 1
; L61_-_-_t_-
   525  add         rsi, 1
   529  jmp         L11
; L62_-_x_t_-
L41:
   52e  cmp         ebx, 8
   531  mov         ebx, 0
   536  mov         eax, 0x40000
   53b  cmove       ebx, eax
   53e  mov         [r9+rsi*4-0xc], ebx
   543  movzx       r14d, word ptr [rdi+r13+0xc]
   549  cmp         dword ptr [r10+rsi*4-4], 0xe
   54f  jae         L21
   555  jmp         L23
; L63_x_-_t_-
L42:
   55a  mov         dword ptr [r9+rsi*4-4], 0
   563  add         rsi, 1
   567  jge         L43
; L64_x_x_-_-
   56d  mov         ecx, [r8+rsi*4]
   571  cmp         ebx, 8
   574  mov         ebx, 0
   579  mov         eax, 0x40000
   57e  cmove       ebx, eax
   581  mov         [r9+rsi*4-0xc], ebx
   586  movzx       r14d, word ptr [rdi+r13+0xc]
   58c  cmp         dword ptr [r10+rsi*4-4], 0xe
   592  jae         L25
   598  jmp         L29
; L65_-_x_-_-
L43:
   59d  cmp         ebx, 8
   5a0  mov         ebx, 0
   5a5  mov         eax, 0x40000
   5aa  cmove       ebx, eax
   5ad  mov         [r9+rsi*4-0xc], ebx
   5b2  movzx       r14d, word ptr [rdi+r13+0xc]
   5b8  cmp         dword ptr [r10+rsi*4-4], 0xe
   5be  jae         L31
   5c4  jmp         L32
; L66_-_x_t_-
L44:
   5c9  cmp         edx, 8
   5cc  mov         edx, 0
   5d1  mov         eax, 0x40000
   5d6  cmove       edx, eax
   5d9  mov         [r9+rsi*4-0xc], edx
   5de  movzx       r12d, word ptr [rdi+rbp+0xc]
   5e4  cmp         dword ptr [r10+rsi*4-4], 0xe
   5ea  jae         L15
   5f0  jmp         L17
; L67_x_-_t_-
L45:
   5f5  mov         dword ptr [r9+rsi*4-4], 0
   5fe  add         rsi, 1
   602  jge         L46
; L68_x_x_-_-
   608  mov         r13d, [r8+rsi*4]
   60c  cmp         edx, 8
   60f  mov         edx, 0
   614  mov         eax, 0x40000
   619  cmove       edx, eax
   61c  mov         [r9+rsi*4-0xc], edx
   621  movzx       r12d, word ptr [rdi+rbp+0xc]
   627  cmp         dword ptr [r10+rsi*4-4], 0xe
   62d  jae         L19
   633  jmp         L24
; L69_-_x_-_-
L46:
   638  cmp         edx, 8
   63b  mov         edx, 0
   640  mov         eax, 0x40000
   645  cmove       edx, eax
   648  mov         [r9+rsi*4-0xc], edx
   64d  movzx       r12d, word ptr [rdi+rbp+0xc]
   653  cmp         dword ptr [r10+rsi*4-4], 0xe
   659  jae         L34
   65f  jmp         L32
; L70_-_x_t_-
L47:
   664  movzx       ebx, word ptr [rdi+r11+0xc]
   66a  cmp         dword ptr [r10+rsi*4-4], 0xe
   670  jae         L8
   676  jmp         L10
; L71_x_-_-_-
L48:
   67b  mov         dword ptr [r9+rsi*4-4], 0
   684  add         rsi, 1
   688  jge         L49
; L72_x_x_-_-
   68e  mov         ebp, [r8+rsi*4]
   692  movzx       ebx, word ptr [rdi+r11+0xc]
   698  cmp         dword ptr [r10+rsi*4-4], 0xe
   69e  jae         L13
   6a4  jmp         L18
; L73_-_x_-_-
L49:
   6a9  movzx       ebx, word ptr [rdi+r11+0xc]
   6af  cmp         dword ptr [r10+rsi*4-4], 0xe
   6b5  jae         L36
   6bb  jmp         L32
; L74_-_x_-_-
L50:
   6c0  movzx       edx, word ptr [rdi+rcx+0xc]
   6c5  cmp         dword ptr [r10+rsi*4-4], 0xe
   6cb  jae         L40
   6d1  jmp         L32
L51:
   6d6  pop         r13
   6d8  pop         r12
   6da  pop         r14
   6dc  pop         rbp
   6dd  pop         rbx
   6de  ret
   6df  nop         [rax+0x100]
   6e6  nop         [rax+0x100]
   6ed  nop         [rax+0x100]
   6f4  nop         [rax+0x100]
   6fb  nop         [rax]
   6fe  nop
   6ff  nop
each:
   700  mov         r9, [rdi+8]
   704  mov         r8, [rdi+0x10]
   708  mov         r10, [rdi+0x20]
   70c  xor         r11d, r11d
; each packet
L52:
   70f  mov         esi, [r9+r11*4]
   713  add         rsi, [rdi]
; b0: captured >= 14
   717  cmp         dword ptr [r8+r11*4], 0xe
   71c  jb          L53
; b1: half[12] == 0x800
   722  cmp         word ptr [rsi+0xc], 8
   727  mov         eax, 0
   72c  mov         ecx, 0x40000
   731  cmove       eax, ecx
   734  mov         [r10+r11*4], eax
   738  inc         r11
   73b  cmp         r11, [rdi+0x28]
   73f  jb          L52
   745  ret
; b3: verdict
L53:
   746  mov         dword ptr [r10+r11*4], 0
   74e  inc         r11
   751  cmp         r11, [rdi+0x28]
   755  jb          L52
   75b  ret
