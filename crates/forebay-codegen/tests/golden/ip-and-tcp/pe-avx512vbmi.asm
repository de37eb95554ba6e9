; entry: registers saved
batch:
     0  push        rbx
     1  push        rbp
     2  push        r12
     4  push        r13
     6  push        r14
     8  push        r15
; extraction: set-up
     a  vmovdqu64   zmm0, [C1]
    14  mov         rax, 0x7000700070007
    1e  kmovq       k1, rax
    23  vmovdqu64   zmm1, [C2]
    2d  mov         rsi, [rdi]
    31  mov         rdx, [rdi+8]
    35  mov         r11, [rdi+0x38]
    39  xor         r12d, r12d
    3c  mov         r13, [rdi+0x28]
    40  and         r13, 0xfffffffffffffffc
    44  sub         r13, 0x18
    48  jl          L2
; extraction: prologue
; where the packet starts
    4e  mov         r14d, [rdx+r12*4]
; where the packet starts
    52  mov         ebp, [rdx+r12*4+4]
; header bytes from 12
    57  vmovdqu64   xmm31, [rsi+r14+0xc]
; header bytes from 12
    62  vinserti32x4 zmm31, zmm31, [rsi+rbp+0xc], 1
; where the packet starts
    6e  mov         ebp, [rdx+r12*4+8]
; where the packet starts [+1]
    73  mov         ebx, [rdx+r12*4+0x10]
; where the packet starts [+1]
    78  mov         r14d, [rdx+r12*4+0x14]
; header bytes from 12
    7d  vinserti32x4 zmm3, zmm31, [rsi+rbp+0xc], 2
; header bytes from 12 [+1]
    89  vmovdqu64   xmm31, [rsi+rbx+0xc]
; header bytes from 12 [+1]
    94  vinserti32x4 zmm2, zmm31, [rsi+r14+0xc], 1
; where the packet starts [+1]
    a0  mov         r15d, [rdx+r12*4+0x18]
; where the packet starts [+2]
    a5  mov         r14d, [rdx+r12*4+0x20]
; where the packet starts [+2]
    aa  mov         ebp, [rdx+r12*4+0x24]
; where the packet starts
    af  mov         ebx, [rdx+r12*4+0xc]
; header bytes from 12 [+1]
    b4  vinserti32x4 zmm2, zmm2, [rsi+r15+0xc], 2
; header bytes from 12 [+2]
    c0  vmovdqu64   xmm31, [rsi+r14+0xc]
; header bytes from 12
    cb  vinserti32x4 zmm3, zmm3, [rsi+rbx+0xc], 3
; header bytes from 12 [+2]
    d7  vinserti32x4 zmm31, zmm31, [rsi+rbp+0xc], 1
; where the packet starts [+2]
    e3  mov         ebp, [rdx+r12*4+0x28]
; where the packet starts [+3]
    e8  mov         ebx, [rdx+r12*4+0x30]
; where the packet starts [+3]
    ed  mov         r14d, [rdx+r12*4+0x34]
; plane 0: 3 lanes
    f2  vpermb      zmm30{k1}{z}, zmm0, zmm3
; where the packet starts [+1]
    f8  mov         r15d, [rdx+r12*4+0x1c]
; header bytes from 12 [+2]
    fd  vinserti32x4 zmm3, zmm31, [rsi+rbp+0xc], 2
; header bytes from 12 [+3]
   109  vmovdqu64   xmm31, [rsi+rbx+0xc]
; header bytes from 12 [+1]
   114  vinserti32x4 zmm4, zmm2, [rsi+r15+0xc], 3
; header bytes from 12 [+3]
   120  vinserti32x4 zmm2, zmm31, [rsi+r14+0xc], 1
   12c  nop         [rax+0x100]
   133  nop         [rax+0x100]
   13a  nop         [rax]
   13d  nop         [rax]
; extraction: kernel
; plane 0: 3 lanes
L1:
   140  vpcmpnequb  k7, zmm30, zmm1
; where the packet starts [+3]
   147  mov         r15d, [rdx+r12*4+0x38]
; where the packet starts [+4]
   14c  mov         r14d, [rdx+r12*4+0x40]
; where the packet starts [+4]
   151  mov         ebp, [rdx+r12*4+0x44]
; plane 0: 3 lanes [+1]
   156  vpermb      zmm4{k1}{z}, zmm0, zmm4
; where the packet starts [+2]
   15c  mov         ebx, [rdx+r12*4+0x2c]
; header bytes from 12 [+3]
   161  vinserti32x4 zmm2, zmm2, [rsi+r15+0xc], 2
; header bytes from 12 [+4]
   16d  vmovdqu64   xmm31, [rsi+r14+0xc]
; plane 0: 3 lanes
   178  kmovq       [r11+r12*2], k7
; header bytes from 12 [+2]
   17e  vinserti32x4 zmm3, zmm3, [rsi+rbx+0xc], 3
; header bytes from 12 [+4]
   18a  vinserti32x4 zmm31, zmm31, [rsi+rbp+0xc], 1
; plane 0: 3 lanes [+1]
   196  vpcmpnequb  k7, zmm4, zmm1
; where the packet starts [+4]
   19d  mov         ebp, [rdx+r12*4+0x48]
; where the packet starts [+5]
   1a2  mov         ebx, [rdx+r12*4+0x50]
; where the packet starts [+5]
   1a7  mov         r14d, [rdx+r12*4+0x54]
; plane 0: 3 lanes [+2]
   1ac  vpermb      zmm30{k1}{z}, zmm0, zmm3
; where the packet starts [+3]
   1b2  mov         r15d, [rdx+r12*4+0x3c]
; header bytes from 12 [+4]
   1b7  vinserti32x4 zmm3, zmm31, [rsi+rbp+0xc], 2
; header bytes from 12 [+5]
   1c3  vmovdqu64   xmm31, [rsi+rbx+0xc]
; plane 0: 3 lanes [+1]
   1ce  kmovq       [r11+r12*2+8], k7
; header bytes from 12 [+3]
   1d5  vinserti32x4 zmm4, zmm2, [rsi+r15+0xc], 3
; header bytes from 12 [+5]
   1e1  vinserti32x4 zmm2, zmm31, [rsi+r14+0xc], 1
   1ed  add         r12, 8
   1f1  cmp         r12, r13
   1f4  jle         L1
; extraction: epilogue
; plane 0: 3 lanes
   1fa  vpcmpnequb  k7, zmm30, zmm1
; where the packet starts [+3]
   201  mov         r15d, [rdx+r12*4+0x38]
; plane 0: 3 lanes [+1]
   206  vpermb      zmm4{k1}{z}, zmm0, zmm4
; where the packet starts [+2]
   20c  mov         ebx, [rdx+r12*4+0x2c]
; header bytes from 12 [+3]
   211  vinserti32x4 zmm2, zmm2, [rsi+r15+0xc], 2
; plane 0: 3 lanes
   21d  kmovq       [r11+r12*2], k7
; header bytes from 12 [+2]
   223  vinserti32x4 zmm3, zmm3, [rsi+rbx+0xc], 3
; plane 0: 3 lanes [+1]
   22f  vpcmpnequb  k7, zmm4, zmm1
; plane 0: 3 lanes [+2]
   236  vpermb      zmm30{k1}{z}, zmm0, zmm3
; where the packet starts [+3]
   23c  mov         r15d, [rdx+r12*4+0x3c]
; plane 0: 3 lanes [+1]
   241  kmovq       [r11+r12*2+8], k7
; header bytes from 12 [+3]
   248  vinserti32x4 zmm4, zmm2, [rsi+r15+0xc], 3
; plane 0: 3 lanes [+2]
   254  vpcmpnequb  k7, zmm30, zmm1
; plane 0: 3 lanes [+3]
   25b  vpermb      zmm4{k1}{z}, zmm0, zmm4
; plane 0: 3 lanes [+2]
   261  kmovq       [r11+r12*2+0x10], k7
; plane 0: 3 lanes [+3]
   268  vpcmpnequb  k7, zmm4, zmm1
; plane 0: 3 lanes [+3]
   26f  kmovq       [r11+r12*2+0x18], k7
   276  add         r12, 0x10
; extraction: rest
L2:
   27a  mov         r13, [rdi+0x28]
   27e  and         r13, 0xfffffffffffffffc
   282  cmp         r12, r13
   285  jae         L4
; extraction: one iteration
; where the packet starts
L3:
   28b  mov         r15d, [rdx+r12*4]
; where the packet starts
   28f  mov         r14d, [rdx+r12*4+4]
; header bytes from 12
   294  vmovdqu64   xmm31, [rsi+r15+0xc]
; header bytes from 12
   29f  vinserti32x4 zmm31, zmm31, [rsi+r14+0xc], 1
; where the packet starts
   2ab  mov         r15d, [rdx+r12*4+8]
; header bytes from 12
   2b0  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 2
; where the packet starts
   2bc  mov         r15d, [rdx+r12*4+0xc]
; header bytes from 12
   2c1  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 3
; plane 0: 3 lanes
   2cd  vpermb      zmm31{k1}{z}, zmm0, zmm31
; plane 0: 3 lanes
   2d3  vpcmpnequb  k7, zmm31, zmm1
; plane 0: 3 lanes
   2da  kmovq       [r11+r12*2], k7
   2e0  add         r12, 4
   2e4  cmp         r12, r13
   2e7  jb          L3
; extraction: ragged end
L4:
   2ed  mov         r13, [rdi+0x28]
   2f1  cmp         r12, r13
   2f4  jae         L5
   2fa  lea         r12, [r13-4]
   2fe  jmp         L3
; decision: set-up
L5:
   303  vmovdqu64   zmm0, [C3]  ; 32 times 0x0007
   30d  vmovdqu64   zmm1, [C4]  ; 16 times 0x0000ffff
   317  vmovdqu64   zmm2, [C5]
   321  vmovdqu64   zmm3, [C6]  ; 32 times 0x0018
   32b  vmovdqu64   zmm4, [C7]  ; 16 times 0x00040000
   335  mov         rcx, [rdi+0x10]
   339  mov         r9, [rdi+0x20]
   33d  mov         r11, [rdi+0x38]
   341  xor         r12d, r12d
   344  mov         r13, [rdi+0x28]
   348  and         r13, 0xffffffffffffffe0
   34c  sub         r13, 0xe0
   353  jl          L7
; decision: prologue
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   359  vpminud     zmm31, zmm1, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   360  vpminud     zmm30, zmm1, [rcx+r12*4+0x40]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   368  vmovdqu64   zmm5, [r11+r12*2]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   36f  vpminud     zmm6, zmm1, [rcx+r12*4+0x80]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   377  vpminud     zmm7, zmm1, [rcx+r12*4+0xc0]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   37f  vpackusdw   zmm31, zmm31, zmm30
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   385  vptestnmw   k1, zmm5, zmm0
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   38b  vmovdqu64   zmm5, [r11+r12*2+0x40]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   393  vpermq      zmm8, zmm2, zmm31
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   399  vpminud     zmm31, zmm1, [rcx+r12*4+0x100]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   3a1  vpminud     zmm30, zmm1, [rcx+r12*4+0x140]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   3a9  vpackusdw   zmm6, zmm6, zmm7
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   3af  vptestnmw   k7, zmm5, zmm0
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   3b5  vmovdqu64   zmm5, [r11+r12*2+0x80]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   3bd  vpermq      zmm29, zmm2, zmm6
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   3c3  vpcmpnltuw  k6{k1}, zmm8, zmm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   3ca  vpminud     zmm6, zmm1, [rcx+r12*4+0x180]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   3d2  vpminud     zmm7, zmm1, [rcx+r12*4+0x1c0]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   3da  vpackusdw   zmm31, zmm31, zmm30
; verdicts
   3e0  vmovdqa32   zmm8{k6}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   3e6  vptestnmw   k1, zmm5, zmm0
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   3ec  vmovdqu64   zmm5, [r11+r12*2+0xc0]
; verdicts
   3f4  vmovdqu32   [r9+r12*4], zmm8
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   3fb  vpermq      zmm8, zmm2, zmm31
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   401  vpcmpnltuw  k2{k7}, zmm29, zmm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   408  vpminud     zmm31, zmm1, [rcx+r12*4+0x200]
; verdicts
   410  kshiftrd    k3, k6, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   416  vpminud     zmm30, zmm1, [rcx+r12*4+0x240]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   41e  vpackusdw   zmm6, zmm6, zmm7
; verdicts [+1]
   424  vmovdqa32   zmm7{k2}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   42a  vptestnmw   k7, zmm5, zmm0
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   430  vmovdqu64   zmm5, [r11+r12*2+0x100]
; verdicts [+1]
   438  vmovdqu32   [r9+r12*4+0x80], zmm7
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   440  vpermq      zmm29, zmm2, zmm6
   446  nop         [rax+0x100]
   44d  nop         [rax+0x100]
   454  nop         [rax+0x100]
   45b  nop         [rax]
   45e  nop
   45f  nop
; decision: kernel
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
L6:
   460  vpcmpnltuw  k6{k1}, zmm8, zmm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+5]
   467  vpminud     zmm6, zmm1, [rcx+r12*4+0x280]
; verdicts [+1]
   46f  kshiftrd    k5, k2, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+5]
   475  vpminud     zmm7, zmm1, [rcx+r12*4+0x2c0]
; verdicts
   47d  vmovdqa32   zmm8{k3}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   483  vpackusdw   zmm31, zmm31, zmm30
; verdicts
   489  vmovdqu32   [r9+r12*4+0x40], zmm8
; verdicts [+2]
   491  vmovdqa32   zmm8{k6}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   497  vptestnmw   k1, zmm5, zmm0
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+5]
   49d  vmovdqu64   zmm5, [r11+r12*2+0x140]
; verdicts [+2]
   4a5  vmovdqu32   [r9+r12*4+0x100], zmm8
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   4ad  vpermq      zmm8, zmm2, zmm31
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   4b3  vpcmpnltuw  k2{k7}, zmm29, zmm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+6]
   4ba  vpminud     zmm31, zmm1, [rcx+r12*4+0x300]
; verdicts [+2]
   4c2  kshiftrd    k3, k6, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+6]
   4c8  vpminud     zmm30, zmm1, [rcx+r12*4+0x340]
; verdicts [+1]
   4d0  vmovdqa32   zmm29{k5}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+5]
   4d6  vpackusdw   zmm6, zmm6, zmm7
; verdicts [+1]
   4dc  vmovdqu32   [r9+r12*4+0xc0], zmm29
; verdicts [+3]
   4e4  vmovdqa32   zmm7{k2}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+5]
   4ea  vptestnmw   k7, zmm5, zmm0
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+6]
   4f0  vmovdqu64   zmm5, [r11+r12*2+0x180]
; verdicts [+3]
   4f8  vmovdqu32   [r9+r12*4+0x180], zmm7
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+5]
   500  vpermq      zmm29, zmm2, zmm6
   506  add         r12, 0x40
   50a  cmp         r12, r13
   50d  jle         L6
; decision: epilogue
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   513  vpcmpnltuw  k6{k1}, zmm8, zmm3
; verdicts [+1]
   51a  kshiftrd    k5, k2, 0x10
; verdicts
   520  vmovdqa32   zmm8{k3}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   526  vpackusdw   zmm31, zmm31, zmm30
; verdicts
   52c  vmovdqu32   [r9+r12*4+0x40], zmm8
; verdicts [+2]
   534  vmovdqa32   zmm8{k6}{z}, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   53a  vptestnmw   k1, zmm5, zmm0
; verdicts [+2]
   540  vmovdqu32   [r9+r12*4+0x100], zmm8
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   548  vpermq      zmm8, zmm2, zmm31
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+3]
   54e  vpcmpnltuw  k2{k7}, zmm29, zmm3
; verdicts [+2]
   555  kshiftrd    k3, k6, 0x10
; verdicts [+1]
   55b  vmovdqa32   zmm29{k5}{z}, zmm4
; verdicts [+1]
   561  vmovdqu32   [r9+r12*4+0xc0], zmm29
; verdicts [+3]
   569  vmovdqa32   zmm7{k2}{z}, zmm4
; verdicts [+3]
   56f  vmovdqu32   [r9+r12*4+0x180], zmm7
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+4]
   577  vpcmpnltuw  k6{k1}, zmm8, zmm3
; verdicts [+3]
   57e  kshiftrd    k5, k2, 0x10
; verdicts [+2]
   584  vmovdqa32   zmm8{k3}{z}, zmm4
; verdicts [+2]
   58a  vmovdqu32   [r9+r12*4+0x140], zmm8
; verdicts [+4]
   592  vmovdqa32   zmm8{k6}{z}, zmm4
; verdicts [+4]
   598  vmovdqu32   [r9+r12*4+0x200], zmm8
; verdicts [+4]
   5a0  kshiftrd    k3, k6, 0x10
; verdicts [+3]
   5a6  vmovdqa32   zmm29{k5}{z}, zmm4
; verdicts [+3]
   5ac  vmovdqu32   [r9+r12*4+0x1c0], zmm29
; verdicts [+4]
   5b4  vmovdqa32   zmm8{k3}{z}, zmm4
; verdicts [+4]
   5ba  vmovdqu32   [r9+r12*4+0x240], zmm8
   5c2  add         r12, 0xa0
; decision: rest
L7:
   5c9  mov         r13, [rdi+0x28]
   5cd  and         r13, 0xffffffffffffffe0
   5d1  cmp         r12, r13
   5d4  jae         L9
; decision: one iteration
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
L8:
   5da  vpminud     zmm31, zmm1, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5e1  vpminud     zmm30, zmm1, [rcx+r12*4+0x40]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5e9  vmovdqu64   zmm29, [r11+r12*2]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5f0  vpackusdw   zmm31, zmm31, zmm30
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5f6  vptestnmw   k7, zmm29, zmm0
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5fc  vpermq      zmm31, zmm2, zmm31
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   602  vpcmpnltuw  k7{k7}, zmm31, zmm3
; verdicts
   609  vmovdqa32   zmm31{k7}{z}, zmm4
; verdicts
   60f  kshiftrd    k7, k7, 0x10
; verdicts
   615  vmovdqu32   [r9+r12*4], zmm31
; verdicts
   61c  vmovdqa32   zmm31{k7}{z}, zmm4
; verdicts
   622  vmovdqu32   [r9+r12*4+0x40], zmm31
   62a  add         r12, 0x20
   62e  cmp         r12, r13
   631  jb          L8
; decision: ragged end
L9:
   637  mov         r13, [rdi+0x28]
   63b  cmp         r12, r13
   63e  jae         L10
   644  lea         r12, [r13-0x20]
   648  jmp         L8
; exit: registers restored
L10:
   64d  vzeroupper
   650  pop         r15
   652  pop         r14
   654  pop         r13
   656  pop         r12
   658  pop         rbp
   659  pop         rbx
   65a  ret
   65b  nop         [rax+0x100]
   662  nop         [rax+0x100]
   669  nop         [rax+0x100]
   670  nop         [rax+0x100]
   677  nop         [rax+0x100]
   67e  nop
   67f  nop
each:
   680  mov         r9, [rdi+8]
   684  mov         r8, [rdi+0x10]
   688  mov         r10, [rdi+0x20]
   68c  xor         r11d, r11d
; each packet
L11:
   68f  mov         esi, [r9+r11*4]
   693  add         rsi, [rdi]
; b0: captured >= 14
   697  mov         eax, [r8+r11*4]
   69b  cmp         eax, 0xe
   69e  jb          L12
; b1: half[12] == 0x800
   6a4  cmp         word ptr [rsi+0xc], 8
   6a9  jne         L12
; b2: captured >= 24
   6af  cmp         eax, 0x18
   6b2  jb          L12
; b3: byte[23] == 6
   6b8  cmp         byte ptr [rsi+0x17], 6
   6bc  mov         eax, 0
   6c1  mov         ecx, 0x40000
   6c6  cmove       eax, ecx
   6c9  mov         [r10+r11*4], eax
   6cd  inc         r11
   6d0  cmp         r11, [rdi+0x28]
   6d4  jb          L11
   6da  ret
; b5: verdict
L12:
   6db  mov         dword ptr [r10+r11*4], 0
   6e3  inc         r11
   6e6  cmp         r11, [rdi+0x28]
   6ea  jb          L11
   6f0  ret
C1:  ; 64 bytes
   700  0b000180 80808080 80808080 80808080 1b101180 80808080 80808080 80808080
   720  2b202180 80808080 80808080 80808080 3b303180 80808080 80808080 80808080
C2:  ; 64 bytes
   740  06080000 00000000 00000000 00000000 06080000 00000000 00000000 00000000
   760  06080000 00000000 00000000 00000000 06080000 00000000 00000000 00000000
C3:  ; 64 bytes
   780  07000700 07000700 07000700 07000700 07000700 07000700 07000700 07000700
   7a0  07000700 07000700 07000700 07000700 07000700 07000700 07000700 07000700
C4:  ; 64 bytes
   7c0  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
   7e0  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
C5:  ; 64 bytes
   800  00000000 00000000 02000000 00000000 04000000 00000000 06000000 00000000
   820  01000000 00000000 03000000 00000000 05000000 00000000 07000000 00000000
C6:  ; 64 bytes
   840  18001800 18001800 18001800 18001800 18001800 18001800 18001800 18001800
   860  18001800 18001800 18001800 18001800 18001800 18001800 18001800 18001800
C7:  ; 64 bytes
   880  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
   8a0  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
