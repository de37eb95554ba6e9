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
    33  jge         L111
; L1_x_-_-_-
    39  mov         ecx, [r8+rsi*4]
    3d  add         rsi, 1
    41  jge         L110
; L2_x_x_-_-
L1:
    47  mov         r11d, [r8+rsi*4]
    4b  movzx       edx, word ptr [rdi+rcx+0xc]
    50  cmp         dword ptr [r10+rsi*4-4], 0xe
    56  jb          L109
; L3_x_t_-_-
    5c  add         rsi, 1
    60  jge         L106
; L4_x_x_t_-
L2:
    66  mov         ebp, [r8+rsi*4]
    6a  movzx       ebx, word ptr [rdi+r11+0xc]
    70  cmp         dword ptr [r10+rsi*4-4], 0xe
    76  jb          L104
; L5_x_t_t_-
    7c  cmp         edx, 8
    7f  jne         L103
; L6_x_t_tt_-
    85  movzx       edx, byte ptr [rdi+rcx+0x17]
    8a  cmp         dword ptr [r10+rsi*4-8], 0x18
    90  jb          L103
; L7_x_t_ttt_-
    96  add         rsi, 1
    9a  jge         L100
; L8_x_x_t_ttt
L3:
    a0  mov         r13d, [r8+rsi*4]
    a4  movzx       r12d, word ptr [rdi+rbp+0xc]
    aa  cmp         dword ptr [r10+rsi*4-4], 0xe
    b0  jb          L98
; L9_x_t_t_ttt
    b6  cmp         ebx, 8
    b9  jne         L97
; L10_x_t_tt_ttt
    bf  movzx       ebx, byte ptr [rdi+r11+0x17]
    c5  cmp         dword ptr [r10+rsi*4-8], 0x18
    cb  jb          L97
; L11_x_t_ttt_-
    d1  cmp         edx, 6
    d4  mov         edx, 0
    d9  mov         eax, 0x40000
    de  cmove       edx, eax
    e1  mov         [r9+rsi*4-0xc], edx
    e6  add         rsi, 1
    ea  jge         L94
; L12_x_x_t_ttt
L4:
    f0  mov         ecx, [r8+rsi*4]
    f4  movzx       r14d, word ptr [rdi+r13+0xc]
    fa  cmp         dword ptr [r10+rsi*4-4], 0xe
   100  jb          L92
; L13_x_t_t_ttt
   106  cmp         r12d, 8
   10a  jne         L91
; L14_x_t_tt_ttt
   110  movzx       r12d, byte ptr [rdi+rbp+0x17]
   116  cmp         dword ptr [r10+rsi*4-8], 0x18
   11c  jb          L91
; L15_x_t_ttt_-
   122  cmp         ebx, 6
   125  mov         ebx, 0
   12a  mov         eax, 0x40000
   12f  cmove       ebx, eax
   132  mov         [r9+rsi*4-0xc], ebx
   137  add         rsi, 1
   13b  jge         L88
; L16_x_x_t_ttt
L5:
   141  mov         r11d, [r8+rsi*4]
   145  movzx       edx, word ptr [rdi+rcx+0xc]
   14a  cmp         dword ptr [r10+rsi*4-4], 0xe
   150  jb          L86
; L17_x_t_t_ttt
   156  cmp         r14d, 8
   15a  jne         L85
; L18_x_t_tt_ttt
   160  movzx       r14d, byte ptr [rdi+r13+0x17]
   166  cmp         dword ptr [r10+rsi*4-8], 0x18
   16c  jb          L85
; L19_x_t_ttt_-
   172  cmp         r12d, 6
   176  mov         r12d, 0
   17c  mov         eax, 0x40000
   181  cmove       r12d, eax
   185  mov         [r9+rsi*4-0xc], r12d
   18a  add         rsi, 1
   18e  jge         L79
; L20_x_x_t_ttt
L6:
   194  mov         ebp, [r8+rsi*4]
   198  movzx       ebx, word ptr [rdi+r11+0xc]
   19e  cmp         dword ptr [r10+rsi*4-4], 0xe
   1a4  jb          L73
; L21_x_t_t_ttt
   1aa  cmp         edx, 8
   1ad  jne         L7
; L22_x_t_tt_ttt
   1b3  movzx       edx, byte ptr [rdi+rcx+0x17]
   1b8  cmp         dword ptr [r10+rsi*4-8], 0x18
   1be  jb          L7
; L23_x_t_ttt_-
   1c4  cmp         r14d, 6
   1c8  mov         r14d, 0
   1ce  mov         eax, 0x40000
   1d3  cmove       r14d, eax
   1d7  mov         [r9+rsi*4-0xc], r14d
   1dc  add         rsi, 1
   1e0  jge         L100
   1e6  jmp         L3
; L24_x_t_-_-
L7:
   1eb  mov         dword ptr [r9+rsi*4-8], 0
   1f4  cmp         r14d, 6
   1f8  mov         r14d, 0
   1fe  mov         eax, 0x40000
   203  cmove       r14d, eax
   207  mov         [r9+rsi*4-0xc], r14d
   20c  add         rsi, 1
   210  jge         L67
; L25_x_x_t_-
L8:
   216  mov         r13d, [r8+rsi*4]
   21a  movzx       r12d, word ptr [rdi+rbp+0xc]
   220  cmp         dword ptr [r10+rsi*4-4], 0xe
   226  jb          L61
; L26_x_t_t_-
   22c  cmp         ebx, 8
   22f  jne         L9
; L27_x_t_tt_-
   235  movzx       ebx, byte ptr [rdi+r11+0x17]
   23b  cmp         dword ptr [r10+rsi*4-8], 0x18
   241  jb          L9
; L28_x_t_ttt_-
   247  add         rsi, 1
   24b  jge         L94
   251  jmp         L4
; L29_x_t_-_-
L9:
   256  mov         dword ptr [r9+rsi*4-8], 0
   25f  add         rsi, 1
   263  jge         L55
; L30_x_x_t_-
L10:
   269  mov         ecx, [r8+rsi*4]
   26d  movzx       r14d, word ptr [rdi+r13+0xc]
   273  cmp         dword ptr [r10+rsi*4-4], 0xe
   279  jb          L49
; L31_x_t_t_-
   27f  cmp         r12d, 8
   283  jne         L11
; L32_x_t_tt_-
   289  movzx       r12d, byte ptr [rdi+rbp+0x17]
   28f  cmp         dword ptr [r10+rsi*4-8], 0x18
   295  jb          L11
; L33_x_t_ttt_-
   29b  add         rsi, 1
   29f  jge         L88
   2a5  jmp         L5
; L34_x_t_-_-
L11:
   2aa  mov         dword ptr [r9+rsi*4-8], 0
   2b3  add         rsi, 1
   2b7  jge         L40
; L35_x_x_t_-
L12:
   2bd  mov         r11d, [r8+rsi*4]
   2c1  movzx       edx, word ptr [rdi+rcx+0xc]
   2c6  cmp         dword ptr [r10+rsi*4-4], 0xe
   2cc  jb          L14
; L36_x_t_t_-
   2d2  cmp         r14d, 8
   2d6  jne         L13
; L37_x_t_tt_-
   2dc  movzx       r14d, byte ptr [rdi+r13+0x17]
   2e2  cmp         dword ptr [r10+rsi*4-8], 0x18
   2e8  jb          L13
; L38_x_t_ttt_-
   2ee  add         rsi, 1
   2f2  jge         L79
   2f8  jmp         L6
; L39_x_t_-_-
L13:
   2fd  mov         dword ptr [r9+rsi*4-8], 0
   306  add         rsi, 1
   30a  jge         L106
   310  jmp         L2
; L40_x_-_t_-
L14:
   315  mov         dword ptr [r9+rsi*4-4], 0
   31e  cmp         r14d, 8
   322  jne         L36
; L41_x_-_tt_-
   328  movzx       r14d, byte ptr [rdi+r13+0x17]
   32e  cmp         dword ptr [r10+rsi*4-8], 0x18
   334  jb          L36
; L42_x_-_ttt_-
   33a  add         rsi, 1
   33e  jge         L31
; L43_x_x_-_ttt
L15:
   344  mov         ebp, [r8+rsi*4]
   348  movzx       ebx, word ptr [rdi+r11+0xc]
   34e  cmp         dword ptr [r10+rsi*4-4], 0xe
   354  jb          L16
; L44_x_t_-_-
   35a  cmp         r14d, 6
   35e  mov         r14d, 0
   364  mov         eax, 0x40000
   369  cmove       r14d, eax
   36d  mov         [r9+rsi*4-0xc], r14d
   372  add         rsi, 1
   376  jge         L67
   37c  jmp         L8
; L45_x_-_-_-
L16:
   381  mov         dword ptr [r9+rsi*4-4], 0
   38a  cmp         r14d, 6
   38e  mov         r14d, 0
   394  mov         eax, 0x40000
   399  cmove       r14d, eax
   39d  mov         [r9+rsi*4-0xc], r14d
   3a2  add         rsi, 1
   3a6  jge         L27
; L46_x_x_-_-
L17:
   3ac  mov         r13d, [r8+rsi*4]
   3b0  movzx       r12d, word ptr [rdi+rbp+0xc]
   3b6  cmp         dword ptr [r10+rsi*4-4], 0xe
   3bc  jb          L18
; L47_x_t_-_-
   3c2  add         rsi, 1
   3c6  jge         L55
   3cc  jmp         L10
; L48_x_-_-_-
L18:
   3d1  mov         dword ptr [r9+rsi*4-4], 0
   3da  add         rsi, 1
   3de  jge         L21
; L49_x_x_-_-
L19:
   3e4  mov         ecx, [r8+rsi*4]
   3e8  movzx       r14d, word ptr [rdi+r13+0xc]
   3ee  cmp         dword ptr [r10+rsi*4-4], 0xe
   3f4  jb          L20
; L50_x_t_-_-
   3fa  add         rsi, 1
   3fe  jge         L40
   404  jmp         L12
; L51_x_-_-_-
L20:
   409  mov         dword ptr [r9+rsi*4-4], 0
   412  add         rsi, 1
   416  jge         L110
   41c  jmp         L1
; L52_-_x_-_-
L21:
   421  movzx       r14d, word ptr [rdi+r13+0xc]
   427  cmp         dword ptr [r10+rsi*4-4], 0xe
   42d  jb          L26
; L53_-_t_-_-
   433  add         rsi, 1
; L54_-_-_t_-
L22:
   437  cmp         r14d, 8
   43b  jne         L25
; L55_-_-_tt_-
L23:
   441  movzx       r14d, byte ptr [rdi+r13+0x17]
   447  cmp         dword ptr [r10+rsi*4-8], 0x18
   44d  jb          L25
; L56_-_-_ttt_-
   453  add         rsi, 1
; L57_-_-_-_-
L24:
   457  cmp         r14d, 6
   45b  mov         r14d, 0
   461  mov         eax, 0x40000
   466  cmove       r14d, eax
   46a  mov         [r9+rsi*4-0xc], r14d
   46f  jmp         L111
; L58_-_-_-_-
L25:
   474  mov         dword ptr [r9+rsi*4-8], 0
   47d  jmp         L111
; L59_-_-_-_-
L26:
   482  mov         dword ptr [r9+rsi*4-4], 0
   48b  jmp         L111
; L60_-_x_-_-
L27:
   490  movzx       r12d, word ptr [rdi+rbp+0xc]
   496  cmp         dword ptr [r10+rsi*4-4], 0xe
   49c  jb          L26
; L61_-_t_-_-
   4a2  add         rsi, 1
; L62_-_-_t_-
L28:
   4a6  cmp         r12d, 8
   4aa  jne         L25
; L63_-_-_tt_-
L29:
   4b0  movzx       r12d, byte ptr [rdi+rbp+0x17]
   4b6  cmp         dword ptr [r10+rsi*4-8], 0x18
   4bc  jb          L25
; L64_-_-_ttt_-
   4c2  add         rsi, 1
; L65_-_-_-_-
L30:
   4c6  cmp         r12d, 6
   4ca  mov         r12d, 0
   4d0  mov         eax, 0x40000
   4d5  cmove       r12d, eax
   4d9  mov         [r9+rsi*4-0xc], r12d
   4de  jmp         L111
; L66_-_x_-_ttt
L31:
   4e3  movzx       ebx, word ptr [rdi+r11+0xc]
   4e9  cmp         dword ptr [r10+rsi*4-4], 0xe
   4ef  jb          L35
; L67_-_t_-_-
   4f5  cmp         r14d, 6
   4f9  mov         r14d, 0
   4ff  mov         eax, 0x40000
   504  cmove       r14d, eax
   508  mov         [r9+rsi*4-0xc], r14d
   50d  add         rsi, 1
; L68_-_-_t_-
L32:
   511  cmp         ebx, 8
   514  jne         L25
; L69_-_-_tt_-
L33:
   51a  movzx       ebx, byte ptr [rdi+r11+0x17]
   520  cmp         dword ptr [r10+rsi*4-8], 0x18
   526  jb          L25
; L70_-_-_ttt_-
   52c  add         rsi, 1
; L71_-_-_-_-
L34:
   530  cmp         ebx, 6
   533  mov         ebx, 0
   538  mov         eax, 0x40000
   53d  cmove       ebx, eax
   540  mov         [r9+rsi*4-0xc], ebx
   545  jmp         L111
; L72_-_-_-_-
L35:
   54a  mov         dword ptr [r9+rsi*4-4], 0
   553  cmp         r14d, 6
   557  mov         r14d, 0
   55d  mov         eax, 0x40000
   562  cmove       r14d, eax
   566  mov         [r9+rsi*4-0xc], r14d
   56b  jmp         L111
; L73_x_-_-_-
L36:
   570  mov         dword ptr [r9+rsi*4-8], 0
   579  add         rsi, 1
   57d  jge         L39
; L74_x_x_-_-
L37:
   583  mov         ebp, [r8+rsi*4]
   587  movzx       ebx, word ptr [rdi+r11+0xc]
   58d  cmp         dword ptr [r10+rsi*4-4], 0xe
   593  jb          L38
; L75_x_t_-_-
   599  add         rsi, 1
   59d  jge         L67
   5a3  jmp         L8
; L76_x_-_-_-
L38:
   5a8  mov         dword ptr [r9+rsi*4-4], 0
   5b1  add         rsi, 1
   5b5  jge         L27
   5bb  jmp         L17
; L77_-_x_-_-
L39:
   5c0  movzx       ebx, word ptr [rdi+r11+0xc]
   5c6  cmp         dword ptr [r10+rsi*4-4], 0xe
   5cc  jb          L26
; L78_-_t_-_-
   5d2  add         rsi, 1
   5d6  jmp         L32
; L79_-_x_t_-
L40:
   5db  movzx       edx, word ptr [rdi+rcx+0xc]
   5e0  cmp         dword ptr [r10+rsi*4-4], 0xe
   5e6  jb          L48
; L80_-_t_t_-
   5ec  cmp         r14d, 8
   5f0  jne         L45
; L81_-_t_tt_-
   5f6  movzx       r14d, byte ptr [rdi+r13+0x17]
   5fc  cmp         dword ptr [r10+rsi*4-8], 0x18
   602  jb          L45
; L82_-_t_ttt_-
   608  add         rsi, 1
; L83_-_-_t_ttt
L41:
   60c  cmp         edx, 8
   60f  jne         L44
; L84_-_-_tt_ttt
L42:
   615  movzx       edx, byte ptr [rdi+rcx+0x17]
   61a  cmp         dword ptr [r10+rsi*4-8], 0x18
   620  jb          L44
; L85_-_-_ttt_-
   626  cmp         r14d, 6
   62a  mov         r14d, 0
   630  mov         eax, 0x40000
   635  cmove       r14d, eax
   639  mov         [r9+rsi*4-0xc], r14d
   63e  add         rsi, 1
; L86_-_-_-_-
L43:
   642  cmp         edx, 6
   645  mov         edx, 0
   64a  mov         eax, 0x40000
   64f  cmove       edx, eax
   652  mov         [r9+rsi*4-0xc], edx
   657  jmp         L111
; L87_-_-_-_-
L44:
   65c  mov         dword ptr [r9+rsi*4-8], 0
   665  cmp         r14d, 6
   669  mov         r14d, 0
   66f  mov         eax, 0x40000
   674  cmove       r14d, eax
   678  mov         [r9+rsi*4-0xc], r14d
   67d  jmp         L111
; L88_-_t_-_-
L45:
   682  mov         dword ptr [r9+rsi*4-8], 0
   68b  add         rsi, 1
; L89_-_-_t_-
L46:
   68f  cmp         edx, 8
   692  jne         L25
; L90_-_-_tt_-
L47:
   698  movzx       edx, byte ptr [rdi+rcx+0x17]
   69d  cmp         dword ptr [r10+rsi*4-8], 0x18
   6a3  jb          L25
; L91_-_-_ttt_-
   6a9  add         rsi, 1
   6ad  jmp         L43
; L92_-_-_t_-
L48:
   6b2  mov         dword ptr [r9+rsi*4-4], 0
   6bb  cmp         r14d, 8
   6bf  je          L23
   6c5  jmp         L25
; L93_x_-_t_-
L49:
   6ca  mov         dword ptr [r9+rsi*4-4], 0
   6d3  cmp         r12d, 8
   6d7  jne         L54
; L94_x_-_tt_-
   6dd  movzx       r12d, byte ptr [rdi+rbp+0x17]
   6e3  cmp         dword ptr [r10+rsi*4-8], 0x18
   6e9  jb          L54
; L95_x_-_ttt_-
   6ef  add         rsi, 1
   6f3  jge         L52
; L96_x_x_-_ttt
L50:
   6f9  mov         r11d, [r8+rsi*4]
   6fd  movzx       edx, word ptr [rdi+rcx+0xc]
   702  cmp         dword ptr [r10+rsi*4-4], 0xe
   708  jb          L51
; L97_x_t_-_-
   70e  cmp         r12d, 6
   712  mov         r12d, 0
   718  mov         eax, 0x40000
   71d  cmove       r12d, eax
   721  mov         [r9+rsi*4-0xc], r12d
   726  add         rsi, 1
   72a  jge         L106
   730  jmp         L2
; L98_x_-_-_-
L51:
   735  mov         dword ptr [r9+rsi*4-4], 0
   73e  cmp         r12d, 6
   742  mov         r12d, 0
   748  mov         eax, 0x40000
   74d  cmove       r12d, eax
   751  mov         [r9+rsi*4-0xc], r12d
   756  add         rsi, 1
   75a  jge         L39
   760  jmp         L37
; L99_-_x_-_ttt
L52:
   765  movzx       edx, word ptr [rdi+rcx+0xc]
   76a  cmp         dword ptr [r10+rsi*4-4], 0xe
   770  jb          L53
; L100_-_t_-_-
   776  cmp         r12d, 6
   77a  mov         r12d, 0
   780  mov         eax, 0x40000
   785  cmove       r12d, eax
   789  mov         [r9+rsi*4-0xc], r12d
   78e  add         rsi, 1
   792  jmp         L46
; L101_-_-_-_-
L53:
   797  mov         dword ptr [r9+rsi*4-4], 0
   7a0  cmp         r12d, 6
   7a4  mov         r12d, 0
   7aa  mov         eax, 0x40000
   7af  cmove       r12d, eax
   7b3  mov         [r9+rsi*4-0xc], r12d
   7b8  jmp         L111
; L102_x_-_-_-
L54:
   7bd  mov         dword ptr [r9+rsi*4-8], 0
   7c6  add         rsi, 1
   7ca  jge         L110
   7d0  jmp         L1
; L103_-_x_t_-
L55:
   7d5  movzx       r14d, word ptr [rdi+r13+0xc]
   7db  cmp         dword ptr [r10+rsi*4-4], 0xe
   7e1  jb          L60
; L104_-_t_t_-
   7e7  cmp         r12d, 8
   7eb  jne         L59
; L105_-_t_tt_-
   7f1  movzx       r12d, byte ptr [rdi+rbp+0x17]
   7f7  cmp         dword ptr [r10+rsi*4-8], 0x18
   7fd  jb          L59
; L106_-_t_ttt_-
   803  add         rsi, 1
; L107_-_-_t_ttt
L56:
   807  cmp         r14d, 8
   80b  jne         L58
; L108_-_-_tt_ttt
L57:
   811  movzx       r14d, byte ptr [rdi+r13+0x17]
   817  cmp         dword ptr [r10+rsi*4-8], 0x18
   81d  jb          L58
; L109_-_-_ttt_-
   823  cmp         r12d, 6
   827  mov         r12d, 0
   82d  mov         eax, 0x40000
   832  cmove       r12d, eax
   836  mov         [r9+rsi*4-0xc], r12d
   83b  add         rsi, 1
   83f  jmp         L24
; L110_-_-_-_-
L58:
   844  mov         dword ptr [r9+rsi*4-8], 0
   84d  cmp         r12d, 6
   851  mov         r12d, 0
   857  mov         eax, 0x40000
   85c  cmove       r12d, eax
   860  mov         [r9+rsi*4-0xc], r12d
   865  jmp         L111
; L111_-_t_-_-
L59:
   86a  mov         dword ptr [r9+rsi*4-8], 0
   873  add         rsi, 1
   877  jmp         L22
; L112_-_-_t_-
L60:
   87c  mov         dword ptr [r9+rsi*4-4], 0
   885  cmp         r12d, 8
   889  je          L29
   88f  jmp         L25
; L113_x_-_t_-
L61:
   894  mov         dword ptr [r9+rsi*4-4], 0
   89d  cmp         ebx, 8
   8a0  jne         L66
; L114_x_-_tt_-
   8a6  movzx       ebx, byte ptr [rdi+r11+0x17]
   8ac  cmp         dword ptr [r10+rsi*4-8], 0x18
   8b2  jb          L66
; L115_x_-_ttt_-
   8b8  add         rsi, 1
   8bc  jge         L64
; L116_x_x_-_ttt
L62:
   8c2  mov         ecx, [r8+rsi*4]
   8c6  movzx       r14d, word ptr [rdi+r13+0xc]
   8cc  cmp         dword ptr [r10+rsi*4-4], 0xe
   8d2  jb          L63
; L117_x_t_-_-
   8d8  cmp         ebx, 6
   8db  mov         ebx, 0
   8e0  mov         eax, 0x40000
   8e5  cmove       ebx, eax
   8e8  mov         [r9+rsi*4-0xc], ebx
   8ed  add         rsi, 1
   8f1  jge         L40
   8f7  jmp         L12
; L118_x_-_-_-
L63:
   8fc  mov         dword ptr [r9+rsi*4-4], 0
   905  cmp         ebx, 6
   908  mov         ebx, 0
   90d  mov         eax, 0x40000
   912  cmove       ebx, eax
   915  mov         [r9+rsi*4-0xc], ebx
   91a  add         rsi, 1
   91e  jge         L110
   924  jmp         L1
; L119_-_x_-_ttt
L64:
   929  movzx       r14d, word ptr [rdi+r13+0xc]
   92f  cmp         dword ptr [r10+rsi*4-4], 0xe
   935  jb          L65
; L120_-_t_-_-
   93b  cmp         ebx, 6
   93e  mov         ebx, 0
   943  mov         eax, 0x40000
   948  cmove       ebx, eax
   94b  mov         [r9+rsi*4-0xc], ebx
   950  add         rsi, 1
   954  jmp         L22
; L121_-_-_-_-
L65:
   959  mov         dword ptr [r9+rsi*4-4], 0
   962  cmp         ebx, 6
   965  mov         ebx, 0
   96a  mov         eax, 0x40000
   96f  cmove       ebx, eax
   972  mov         [r9+rsi*4-0xc], ebx
   977  jmp         L111
; L122_x_-_-_-
L66:
   97c  mov         dword ptr [r9+rsi*4-8], 0
   985  add         rsi, 1
   989  jge         L21
   98f  jmp         L19
; L123_-_x_t_-
L67:
   994  movzx       r12d, word ptr [rdi+rbp+0xc]
   99a  cmp         dword ptr [r10+rsi*4-4], 0xe
   9a0  jb          L72
; L124_-_t_t_-
   9a6  cmp         ebx, 8
   9a9  jne         L71
; L125_-_t_tt_-
   9af  movzx       ebx, byte ptr [rdi+r11+0x17]
   9b5  cmp         dword ptr [r10+rsi*4-8], 0x18
   9bb  jb          L71
; L126_-_t_ttt_-
   9c1  add         rsi, 1
; L127_-_-_t_ttt
L68:
   9c5  cmp         r12d, 8
   9c9  jne         L70
; L128_-_-_tt_ttt
L69:
   9cf  movzx       r12d, byte ptr [rdi+rbp+0x17]
   9d5  cmp         dword ptr [r10+rsi*4-8], 0x18
   9db  jb          L70
; L129_-_-_ttt_-
   9e1  cmp         ebx, 6
   9e4  mov         ebx, 0
   9e9  mov         eax, 0x40000
   9ee  cmove       ebx, eax
   9f1  mov         [r9+rsi*4-0xc], ebx
   9f6  add         rsi, 1
   9fa  jmp         L30
; L130_-_-_-_-
L70:
   9ff  mov         dword ptr [r9+rsi*4-8], 0
   a08  cmp         ebx, 6
   a0b  mov         ebx, 0
   a10  mov         eax, 0x40000
   a15  cmove       ebx, eax
   a18  mov         [r9+rsi*4-0xc], ebx
   a1d  jmp         L111
; L131_-_t_-_-
L71:
   a22  mov         dword ptr [r9+rsi*4-8], 0
   a2b  add         rsi, 1
   a2f  jmp         L28
; L132_-_-_t_-
L72:
   a34  mov         dword ptr [r9+rsi*4-4], 0
   a3d  cmp         ebx, 8
   a40  je          L33
   a46  jmp         L25
; L133_x_-_t_ttt
L73:
   a4b  mov         dword ptr [r9+rsi*4-4], 0
   a54  cmp         edx, 8
   a57  jne         L78
; L134_x_-_tt_ttt
   a5d  movzx       edx, byte ptr [rdi+rcx+0x17]
   a62  cmp         dword ptr [r10+rsi*4-8], 0x18
   a68  jb          L78
; L135_x_-_ttt_-
   a6e  cmp         r14d, 6
   a72  mov         r14d, 0
   a78  mov         eax, 0x40000
   a7d  cmove       r14d, eax
   a81  mov         [r9+rsi*4-0xc], r14d
   a86  add         rsi, 1
   a8a  jge         L76
; L136_x_x_-_ttt
L74:
   a90  mov         r13d, [r8+rsi*4]
   a94  movzx       r12d, word ptr [rdi+rbp+0xc]
   a9a  cmp         dword ptr [r10+rsi*4-4], 0xe
   aa0  jb          L75
; L137_x_t_-_-
   aa6  cmp         edx, 6
   aa9  mov         edx, 0
   aae  mov         eax, 0x40000
   ab3  cmove       edx, eax
   ab6  mov         [r9+rsi*4-0xc], edx
   abb  add         rsi, 1
   abf  jge         L55
   ac5  jmp         L10
; L138_x_-_-_-
L75:
   aca  mov         dword ptr [r9+rsi*4-4], 0
   ad3  cmp         edx, 6
   ad6  mov         edx, 0
   adb  mov         eax, 0x40000
   ae0  cmove       edx, eax
   ae3  mov         [r9+rsi*4-0xc], edx
   ae8  add         rsi, 1
   aec  jge         L21
   af2  jmp         L19
; L139_-_x_-_ttt
L76:
   af7  movzx       r12d, word ptr [rdi+rbp+0xc]
   afd  cmp         dword ptr [r10+rsi*4-4], 0xe
   b03  jb          L77
; L140_-_t_-_-
   b09  cmp         edx, 6
   b0c  mov         edx, 0
   b11  mov         eax, 0x40000
   b16  cmove       edx, eax
   b19  mov         [r9+rsi*4-0xc], edx
   b1e  add         rsi, 1
   b22  jmp         L28
; L141_-_-_-_-
L77:
   b27  mov         dword ptr [r9+rsi*4-4], 0
   b30  cmp         edx, 6
   b33  mov         edx, 0
   b38  mov         eax, 0x40000
   b3d  cmove       edx, eax
   b40  mov         [r9+rsi*4-0xc], edx
   b45  jmp         L111
; L142_x_-_-_-
L78:
   b4a  mov         dword ptr [r9+rsi*4-8], 0
   b53  cmp         r14d, 6
   b57  mov         r14d, 0
   b5d  mov         eax, 0x40000
   b62  cmove       r14d, eax
   b66  mov         [r9+rsi*4-0xc], r14d
   b6b  add         rsi, 1
   b6f  jge         L27
   b75  jmp         L17
; L143_-_x_t_ttt
L79:
   b7a  movzx       ebx, word ptr [rdi+r11+0xc]
   b80  cmp         dword ptr [r10+rsi*4-4], 0xe
   b86  jb          L84
; L144_-_t_t_ttt
   b8c  cmp         edx, 8
   b8f  jne         L83
; L145_-_t_tt_ttt
   b95  movzx       edx, byte ptr [rdi+rcx+0x17]
   b9a  cmp         dword ptr [r10+rsi*4-8], 0x18
   ba0  jb          L83
; L146_-_t_ttt_-
   ba6  cmp         r14d, 6
   baa  mov         r14d, 0
   bb0  mov         eax, 0x40000
   bb5  cmove       r14d, eax
   bb9  mov         [r9+rsi*4-0xc], r14d
   bbe  add         rsi, 1
; L147_-_-_t_ttt
L80:
   bc2  cmp         ebx, 8
   bc5  jne         L82
; L148_-_-_tt_ttt
L81:
   bcb  movzx       ebx, byte ptr [rdi+r11+0x17]
   bd1  cmp         dword ptr [r10+rsi*4-8], 0x18
   bd7  jb          L82
; L149_-_-_ttt_-
   bdd  cmp         edx, 6
   be0  mov         edx, 0
   be5  mov         eax, 0x40000
   bea  cmove       edx, eax
   bed  mov         [r9+rsi*4-0xc], edx
   bf2  add         rsi, 1
   bf6  jmp         L34
; L150_-_-_-_-
L82:
   bfb  mov         dword ptr [r9+rsi*4-8], 0
   c04  cmp         edx, 6
   c07  mov         edx, 0
   c0c  mov         eax, 0x40000
   c11  cmove       edx, eax
   c14  mov         [r9+rsi*4-0xc], edx
   c19  jmp         L111
; L151_-_t_-_-
L83:
   c1e  mov         dword ptr [r9+rsi*4-8], 0
   c27  cmp         r14d, 6
   c2b  mov         r14d, 0
   c31  mov         eax, 0x40000
   c36  cmove       r14d, eax
   c3a  mov         [r9+rsi*4-0xc], r14d
   c3f  add         rsi, 1
   c43  jmp         L32
; L152_-_-_t_ttt
L84:
   c48  mov         dword ptr [r9+rsi*4-4], 0
   c51  cmp         edx, 8
   c54  je          L42
   c5a  jmp         L44
; L153_x_t_-_-
L85:
   c5f  mov         dword ptr [r9+rsi*4-8], 0
   c68  cmp         r12d, 6
   c6c  mov         r12d, 0
   c72  mov         eax, 0x40000
   c77  cmove       r12d, eax
   c7b  mov         [r9+rsi*4-0xc], r12d
   c80  add         rsi, 1
   c84  jge         L106
   c8a  jmp         L2
; L154_x_-_t_ttt
L86:
   c8f  mov         dword ptr [r9+rsi*4-4], 0
   c98  cmp         r14d, 8
   c9c  jne         L87
; L155_x_-_tt_ttt
   ca2  movzx       r14d, byte ptr [rdi+r13+0x17]
   ca8  cmp         dword ptr [r10+rsi*4-8], 0x18
   cae  jb          L87
; L156_x_-_ttt_-
   cb4  cmp         r12d, 6
   cb8  mov         r12d, 0
   cbe  mov         eax, 0x40000
   cc3  cmove       r12d, eax
   cc7  mov         [r9+rsi*4-0xc], r12d
   ccc  add         rsi, 1
   cd0  jge         L31
   cd6  jmp         L15
; L157_x_-_-_-
L87:
   cdb  mov         dword ptr [r9+rsi*4-8], 0
   ce4  cmp         r12d, 6
   ce8  mov         r12d, 0
   cee  mov         eax, 0x40000
   cf3  cmove       r12d, eax
   cf7  mov         [r9+rsi*4-0xc], r12d
   cfc  add         rsi, 1
   d00  jge         L39
   d06  jmp         L37
; L158_-_x_t_ttt
L88:
   d0b  movzx       edx, word ptr [rdi+rcx+0xc]
   d10  cmp         dword ptr [r10+rsi*4-4], 0xe
   d16  jb          L90
; L159_-_t_t_ttt
   d1c  cmp         r14d, 8
   d20  jne         L89
; L160_-_t_tt_ttt
   d26  movzx       r14d, byte ptr [rdi+r13+0x17]
   d2c  cmp         dword ptr [r10+rsi*4-8], 0x18
   d32  jb          L89
; L161_-_t_ttt_-
   d38  cmp         r12d, 6
   d3c  mov         r12d, 0
   d42  mov         eax, 0x40000
   d47  cmove       r12d, eax
   d4b  mov         [r9+rsi*4-0xc], r12d
   d50  add         rsi, 1
   d54  jmp         L41
; L162_-_t_-_-
L89:
   d59  mov         dword ptr [r9+rsi*4-8], 0
   d62  cmp         r12d, 6
   d66  mov         r12d, 0
   d6c  mov         eax, 0x40000
   d71  cmove       r12d, eax
   d75  mov         [r9+rsi*4-0xc], r12d
   d7a  add         rsi, 1
   d7e  jmp         L46
; L163_-_-_t_ttt
L90:
   d83  mov         dword ptr [r9+rsi*4-4], 0
   d8c  cmp         r14d, 8
   d90  je          L57
   d96  jmp         L58
; L164_x_t_-_-
L91:
   d9b  mov         dword ptr [r9+rsi*4-8], 0
   da4  cmp         ebx, 6
   da7  mov         ebx, 0
   dac  mov         eax, 0x40000
   db1  cmove       ebx, eax
   db4  mov         [r9+rsi*4-0xc], ebx
   db9  add         rsi, 1
   dbd  jge         L40
   dc3  jmp         L12
; L165_x_-_t_ttt
L92:
   dc8  mov         dword ptr [r9+rsi*4-4], 0
   dd1  cmp         r12d, 8
   dd5  jne         L93
; L166_x_-_tt_ttt
   ddb  movzx       r12d, byte ptr [rdi+rbp+0x17]
   de1  cmp         dword ptr [r10+rsi*4-8], 0x18
   de7  jb          L93
; L167_x_-_ttt_-
   ded  cmp         ebx, 6
   df0  mov         ebx, 0
   df5  mov         eax, 0x40000
   dfa  cmove       ebx, eax
   dfd  mov         [r9+rsi*4-0xc], ebx
   e02  add         rsi, 1
   e06  jge         L52
   e0c  jmp         L50
; L168_x_-_-_-
L93:
   e11  mov         dword ptr [r9+rsi*4-8], 0
   e1a  cmp         ebx, 6
   e1d  mov         ebx, 0
   e22  mov         eax, 0x40000
   e27  cmove       ebx, eax
   e2a  mov         [r9+rsi*4-0xc], ebx
   e2f  add         rsi, 1
   e33  jge         L110
   e39  jmp         L1
; L169_-_x_t_ttt
L94:
   e3e  movzx       r14d, word ptr [rdi+r13+0xc]
   e44  cmp         dword ptr [r10+rsi*4-4], 0xe
   e4a  jb          L96
; L170_-_t_t_ttt
   e50  cmp         r12d, 8
   e54  jne         L95
; L171_-_t_tt_ttt
   e5a  movzx       r12d, byte ptr [rdi+rbp+0x17]
   e60  cmp         dword ptr [r10+rsi*4-8], 0x18
   e66  jb          L95
; L172_-_t_ttt_-
   e6c  cmp         ebx, 6
   e6f  mov         ebx, 0
   e74  mov         eax, 0x40000
   e79  cmove       ebx, eax
   e7c  mov         [r9+rsi*4-0xc], ebx
   e81  add         rsi, 1
   e85  jmp         L56
; L173_-_t_-_-
L95:
   e8a  mov         dword ptr [r9+rsi*4-8], 0
   e93  cmp         ebx, 6
   e96  mov         ebx, 0
   e9b  mov         eax, 0x40000
   ea0  cmove       ebx, eax
   ea3  mov         [r9+rsi*4-0xc], ebx
   ea8  add         rsi, 1
   eac  jmp         L22
; L174_-_-_t_ttt
L96:
   eb1  mov         dword ptr [r9+rsi*4-4], 0
   eba  cmp         r12d, 8
   ebe  je          L69
   ec4  jmp         L70
; L175_x_t_-_-
L97:
   ec9  mov         dword ptr [r9+rsi*4-8], 0
   ed2  cmp         edx, 6
   ed5  mov         edx, 0
   eda  mov         eax, 0x40000
   edf  cmove       edx, eax
   ee2  mov         [r9+rsi*4-0xc], edx
   ee7  add         rsi, 1
   eeb  jge         L55
   ef1  jmp         L10
; L176_x_-_t_ttt
L98:
   ef6  mov         dword ptr [r9+rsi*4-4], 0
   eff  cmp         ebx, 8
   f02  jne         L99
; L177_x_-_tt_ttt
   f08  movzx       ebx, byte ptr [rdi+r11+0x17]
   f0e  cmp         dword ptr [r10+rsi*4-8], 0x18
   f14  jb          L99
; L178_x_-_ttt_-
   f1a  cmp         edx, 6
   f1d  mov         edx, 0
   f22  mov         eax, 0x40000
   f27  cmove       edx, eax
   f2a  mov         [r9+rsi*4-0xc], edx
   f2f  add         rsi, 1
   f33  jge         L64
   f39  jmp         L62
; L179_x_-_-_-
L99:
   f3e  mov         dword ptr [r9+rsi*4-8], 0
   f47  cmp         edx, 6
   f4a  mov         edx, 0
   f4f  mov         eax, 0x40000
   f54  cmove       edx, eax
   f57  mov         [r9+rsi*4-0xc], edx
   f5c  add         rsi, 1
   f60  jge         L21
   f66  jmp         L19
; L180_-_x_t_ttt
L100:
   f6b  movzx       r12d, word ptr [rdi+rbp+0xc]
   f71  cmp         dword ptr [r10+rsi*4-4], 0xe
   f77  jb          L102
; L181_-_t_t_ttt
   f7d  cmp         ebx, 8
   f80  jne         L101
; L182_-_t_tt_ttt
   f86  movzx       ebx, byte ptr [rdi+r11+0x17]
   f8c  cmp         dword ptr [r10+rsi*4-8], 0x18
   f92  jb          L101
; L183_-_t_ttt_-
   f98  cmp         edx, 6
   f9b  mov         edx, 0
   fa0  mov         eax, 0x40000
   fa5  cmove       edx, eax
   fa8  mov         [r9+rsi*4-0xc], edx
   fad  add         rsi, 1
   fb1  jmp         L68
; L184_-_t_-_-
L101:
   fb6  mov         dword ptr [r9+rsi*4-8], 0
   fbf  cmp         edx, 6
   fc2  mov         edx, 0
   fc7  mov         eax, 0x40000
   fcc  cmove       edx, eax
   fcf  mov         [r9+rsi*4-0xc], edx
   fd4  add         rsi, 1
   fd8  jmp         L28
; L185_-_-_t_ttt
L102:
   fdd  mov         dword ptr [r9+rsi*4-4], 0
   fe6  cmp         ebx, 8
   fe9  je          L81
   fef  jmp         L82
; L186_x_t_-_-
L103:
   ff4  mov         dword ptr [r9+rsi*4-8], 0
   ffd  add         rsi, 1
  1001  jge         L67
  1007  jmp         L8
; L187_x_-_t_-
L104:
  100c  mov         dword ptr [r9+rsi*4-4], 0
  1015  cmp         edx, 8
  1018  jne         L105
; L188_x_-_tt_-
  101e  movzx       edx, byte ptr [rdi+rcx+0x17]
  1023  cmp         dword ptr [r10+rsi*4-8], 0x18
  1029  jb          L105
; L189_x_-_ttt_-
  102f  add         rsi, 1
  1033  jge         L76
  1039  jmp         L74
; L190_x_-_-_-
L105:
  103e  mov         dword ptr [r9+rsi*4-8], 0
  1047  add         rsi, 1
  104b  jge         L27
  1051  jmp         L17
; L191_-_x_t_-
L106:
  1056  movzx       ebx, word ptr [rdi+r11+0xc]
  105c  cmp         dword ptr [r10+rsi*4-4], 0xe
  1062  jb          L108
; L192_-_t_t_-
  1068  cmp         edx, 8
  106b  jne         L107
; L193_-_t_tt_-
  1071  movzx       edx, byte ptr [rdi+rcx+0x17]
  1076  cmp         dword ptr [r10+rsi*4-8], 0x18
  107c  jb          L107
; L194_-_t_ttt_-
  1082  add         rsi, 1
  1086  jmp         L80
; L195_-_t_-_-
L107:
  108b  mov         dword ptr [r9+rsi*4-8], 0
  1094  add         rsi, 1
  1098  jmp         L32
; L196_-_-_t_-
L108:
  109d  mov         dword ptr [r9+rsi*4-4], 0
  10a6  cmp         edx, 8
  10a9  je          L47
  10af  jmp         L25
; L197_x_-_-_-
L109:
  10b4  mov         dword ptr [r9+rsi*4-4], 0
  10bd  add         rsi, 1
  10c1  jge         L39
  10c7  jmp         L37
; L198_-_x_-_-
L110:
  10cc  movzx       edx, word ptr [rdi+rcx+0xc]
  10d1  cmp         dword ptr [r10+rsi*4-4], 0xe
  10d7  jb          L26
; L199_-_t_-_-
  10dd  add         rsi, 1
  10e1  jmp         L46
L111:
  10e6  pop         r13
  10e8  pop         r12
  10ea  pop         r14
  10ec  pop         rbp
  10ed  pop         rbx
  10ee  ret
  10ef  nop         [rax+0x100]
  10f6  nop         [rax+0x100]
  10fd  nop         [rax]
each:
  1100  mov         r9, [rdi+8]
  1104  mov         r8, [rdi+0x10]
  1108  mov         r10, [rdi+0x20]
  110c  xor         r11d, r11d
; each packet
L112:
  110f  mov         esi, [r9+r11*4]
  1113  add         rsi, [rdi]
; b0: captured >= 14
  1117  mov         eax, [r8+r11*4]
  111b  cmp         eax, 0xe
  111e  jb          L113
; b1: half[12] == 0x800
  1124  cmp         word ptr [rsi+0xc], 8
  1129  jne         L113
; b2: captured >= 24
  112f  cmp         eax, 0x18
  1132  jb          L113
; b3: byte[23] == 6
  1138  cmp         byte ptr [rsi+0x17], 6
  113c  mov         eax, 0
  1141  mov         ecx, 0x40000
  1146  cmove       eax, ecx
  1149  mov         [r10+r11*4], eax
  114d  inc         r11
  1150  cmp         r11, [rdi+0x28]
  1154  jb          L112
  115a  ret
; b5: verdict
L113:
  115b  mov         dword ptr [r10+r11*4], 0
  1163  inc         r11
  1166  cmp         r11, [rdi+0x28]
  116a  jb          L112
  1170  ret
