; entry: registers saved
batch:
     0  push        r12
     2  push        r13
; predicated: set-up
     4  mov         rax, 0xffffffffffffffff
     e  kmovq       k1, rax
    13  vmovdqu64   zmm0, [C1]  ; 64 times 0x00
    1d  vmovdqu64   zmm1, [C2]  ; 16 times 0x0000ffff
    27  vmovdqu64   zmm2, [C3]  ; 16 times 0x00000008
    31  vmovdqu64   zmm3, [C4]  ; 16 times 0x0000000e
    3b  vmovdqu64   zmm4, [C5]  ; 16 times 0x00040000
    45  mov         rsi, [rdi]
    49  mov         rdx, [rdi+8]
    4d  mov         rcx, [rdi+0x10]
    51  mov         r9, [rdi+0x20]
    55  xor         r12d, r12d
    58  mov         r13, [rdi+0x28]
    5c  and         r13, 0xfffffffffffffff0
    60  sub         r13, 0x80
    67  jl          L2
; predicated: prologue
; where the packets start
    6d  vmovdqu64   zmm5, [rdx+r12*4]
; captured >= 14 and half[12] == 0x800
    74  kmovw       k7, k1
; captured >= 14 and half[12] == 0x800
    78  vmovdqa32   zmm29, zmm0
; captured >= 14 and half[12] == 0x800
    7e  vpgatherdd  zmm29, k7, [rsi+zmm5+0xc]
; where the packets start [+1]
    86  vmovdqu64   zmm5, [rdx+r12*4+0x40]
; captured >= 14 and half[12] == 0x800 [+1]
    8e  kmovw       k6, k1
; captured >= 14 and half[12] == 0x800 [+1]
    92  vmovdqa32   zmm6, zmm0
; captured >= 14 and half[12] == 0x800 [+1]
    98  vpgatherdd  zmm6, k6, [rsi+zmm5+0xc]
; where the packets start [+2]
    a0  vmovdqu64   zmm5, [rdx+r12*4+0x80]
; captured >= 14 and half[12] == 0x800 [+2]
    a8  kmovw       k7, k1
; captured >= 14 and half[12] == 0x800 [+2]
    ac  vmovdqa32   zmm7, zmm0
; captured >= 14 and half[12] == 0x800 [+2]
    b2  vpgatherdd  zmm7, k7, [rsi+zmm5+0xc]
; where the packets start [+3]
    ba  vmovdqu64   zmm5, [rdx+r12*4+0xc0]
; captured >= 14 and half[12] == 0x800 [+3]
    c2  kmovw       k6, k1
; captured >= 14 and half[12] == 0x800
    c6  vmovdqu64   zmm31, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800 [+3]
    cd  vmovdqa32   zmm8, zmm0
; captured >= 14 and half[12] == 0x800 [+3]
    d3  vpgatherdd  zmm8, k6, [rsi+zmm5+0xc]
; captured >= 14 and half[12] == 0x800
    db  vpandd      zmm5, zmm29, zmm1
; captured >= 14 and half[12] == 0x800
    e1  vpcmpequd   k6, zmm5, zmm2
    e8  nop         [rax+0x100]
    ef  nop         [rax+0x100]
    f6  nop         [rax+0x100]
    fd  nop         [rax]
; predicated: kernel
; where the packets start [+4]
L1:
   100  vmovdqu64   zmm5, [rdx+r12*4+0x100]
; captured >= 14 and half[12] == 0x800
   108  vpcmpnltud  k6{k6}, zmm31, zmm3
; captured >= 14 and half[12] == 0x800 [+4]
   10f  kmovw       k7, k1
; verdicts
   113  vmovdqa32   zmm31{k6}{z}, zmm4
; captured >= 14 and half[12] == 0x800 [+1]
   119  vmovdqu64   zmm30, [rcx+r12*4+0x40]
; captured >= 14 and half[12] == 0x800 [+4]
   121  vmovdqa32   zmm29, zmm0
; captured >= 14 and half[12] == 0x800 [+4]
   127  vpgatherdd  zmm29, k7, [rsi+zmm5+0xc]
; verdicts
   12f  vmovdqu32   [r9+r12*4], zmm31
; captured >= 14 and half[12] == 0x800 [+1]
   136  vpandd      zmm6, zmm6, zmm1
; captured >= 14 and half[12] == 0x800 [+1]
   13c  vpcmpequd   k7, zmm6, zmm2
; where the packets start [+5]
   143  vmovdqu64   zmm5, [rdx+r12*4+0x140]
; captured >= 14 and half[12] == 0x800 [+1]
   14b  vpcmpnltud  k7{k7}, zmm30, zmm3
; captured >= 14 and half[12] == 0x800 [+5]
   152  kmovw       k6, k1
; verdicts [+1]
   156  vmovdqa32   zmm30{k7}{z}, zmm4
; captured >= 14 and half[12] == 0x800 [+2]
   15c  vmovdqu64   zmm31, [rcx+r12*4+0x80]
; captured >= 14 and half[12] == 0x800 [+5]
   164  vmovdqa32   zmm6, zmm0
; captured >= 14 and half[12] == 0x800 [+5]
   16a  vpgatherdd  zmm6, k6, [rsi+zmm5+0xc]
; verdicts [+1]
   172  vmovdqu32   [r9+r12*4+0x40], zmm30
; captured >= 14 and half[12] == 0x800 [+2]
   17a  vpandd      zmm7, zmm7, zmm1
; captured >= 14 and half[12] == 0x800 [+2]
   180  vpcmpequd   k6, zmm7, zmm2
; where the packets start [+6]
   187  vmovdqu64   zmm5, [rdx+r12*4+0x180]
; captured >= 14 and half[12] == 0x800 [+2]
   18f  vpcmpnltud  k6{k6}, zmm31, zmm3
; captured >= 14 and half[12] == 0x800 [+6]
   196  kmovw       k7, k1
; verdicts [+2]
   19a  vmovdqa32   zmm31{k6}{z}, zmm4
; captured >= 14 and half[12] == 0x800 [+3]
   1a0  vmovdqu64   zmm30, [rcx+r12*4+0xc0]
; captured >= 14 and half[12] == 0x800 [+6]
   1a8  vmovdqa32   zmm7, zmm0
; captured >= 14 and half[12] == 0x800 [+6]
   1ae  vpgatherdd  zmm7, k7, [rsi+zmm5+0xc]
; verdicts [+2]
   1b6  vmovdqu32   [r9+r12*4+0x80], zmm31
; captured >= 14 and half[12] == 0x800 [+3]
   1be  vpandd      zmm8, zmm8, zmm1
; captured >= 14 and half[12] == 0x800 [+3]
   1c4  vpcmpequd   k7, zmm8, zmm2
; where the packets start [+7]
   1cb  vmovdqu64   zmm5, [rdx+r12*4+0x1c0]
; captured >= 14 and half[12] == 0x800 [+3]
   1d3  vpcmpnltud  k7{k7}, zmm30, zmm3
; captured >= 14 and half[12] == 0x800 [+7]
   1da  kmovw       k6, k1
; verdicts [+3]
   1de  vmovdqa32   zmm30{k7}{z}, zmm4
; captured >= 14 and half[12] == 0x800 [+4]
   1e4  vmovdqu64   zmm31, [rcx+r12*4+0x100]
; captured >= 14 and half[12] == 0x800 [+7]
   1ec  vmovdqa32   zmm8, zmm0
; captured >= 14 and half[12] == 0x800 [+7]
   1f2  vpgatherdd  zmm8, k6, [rsi+zmm5+0xc]
; verdicts [+3]
   1fa  vmovdqu32   [r9+r12*4+0xc0], zmm30
; captured >= 14 and half[12] == 0x800 [+4]
   202  vpandd      zmm5, zmm29, zmm1
; captured >= 14 and half[12] == 0x800 [+4]
   208  vpcmpequd   k6, zmm5, zmm2
   20f  add         r12, 0x40
   213  cmp         r12, r13
   216  jle         L1
; predicated: epilogue
; captured >= 14 and half[12] == 0x800
   21c  vpcmpnltud  k6{k6}, zmm31, zmm3
; verdicts
   223  vmovdqa32   zmm31{k6}{z}, zmm4
; captured >= 14 and half[12] == 0x800 [+1]
   229  vmovdqu64   zmm30, [rcx+r12*4+0x40]
; verdicts
   231  vmovdqu32   [r9+r12*4], zmm31
; captured >= 14 and half[12] == 0x800 [+1]
   238  vpandd      zmm6, zmm6, zmm1
; captured >= 14 and half[12] == 0x800 [+1]
   23e  vpcmpequd   k7, zmm6, zmm2
; captured >= 14 and half[12] == 0x800 [+1]
   245  vpcmpnltud  k7{k7}, zmm30, zmm3
; verdicts [+1]
   24c  vmovdqa32   zmm30{k7}{z}, zmm4
; captured >= 14 and half[12] == 0x800 [+2]
   252  vmovdqu64   zmm31, [rcx+r12*4+0x80]
; verdicts [+1]
   25a  vmovdqu32   [r9+r12*4+0x40], zmm30
; captured >= 14 and half[12] == 0x800 [+2]
   262  vpandd      zmm7, zmm7, zmm1
; captured >= 14 and half[12] == 0x800 [+2]
   268  vpcmpequd   k6, zmm7, zmm2
; captured >= 14 and half[12] == 0x800 [+2]
   26f  vpcmpnltud  k6{k6}, zmm31, zmm3
; verdicts [+2]
   276  vmovdqa32   zmm31{k6}{z}, zmm4
; captured >= 14 and half[12] == 0x800 [+3]
   27c  vmovdqu64   zmm30, [rcx+r12*4+0xc0]
; verdicts [+2]
   284  vmovdqu32   [r9+r12*4+0x80], zmm31
; captured >= 14 and half[12] == 0x800 [+3]
   28c  vpandd      zmm8, zmm8, zmm1
; captured >= 14 and half[12] == 0x800 [+3]
   292  vpcmpequd   k7, zmm8, zmm2
; captured >= 14 and half[12] == 0x800 [+3]
   299  vpcmpnltud  k7{k7}, zmm30, zmm3
; verdicts [+3]
   2a0  vmovdqa32   zmm30{k7}{z}, zmm4
; verdicts [+3]
   2a6  vmovdqu32   [r9+r12*4+0xc0], zmm30
   2ae  add         r12, 0x40
; predicated: rest
L2:
   2b2  mov         r13, [rdi+0x28]
   2b6  and         r13, 0xfffffffffffffff0
   2ba  cmp         r12, r13
   2bd  jae         L4
; predicated: one iteration
; where the packets start
L3:
   2c3  vmovdqu64   zmm31, [rdx+r12*4]
; captured >= 14 and half[12] == 0x800
   2ca  kmovw       k7, k1
; captured >= 14 and half[12] == 0x800
   2ce  vmovdqa32   zmm30, zmm0
; captured >= 14 and half[12] == 0x800
   2d4  vpgatherdd  zmm30, k7, [rsi+zmm31+0xc]
; captured >= 14 and half[12] == 0x800
   2dc  vmovdqu64   zmm31, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800
   2e3  vpandd      zmm30, zmm30, zmm1
; captured >= 14 and half[12] == 0x800
   2e9  vpcmpequd   k7, zmm30, zmm2
; captured >= 14 and half[12] == 0x800
   2f0  vpcmpnltud  k7{k7}, zmm31, zmm3
; verdicts
   2f7  vmovdqa32   zmm31{k7}{z}, zmm4
; verdicts
   2fd  vmovdqu32   [r9+r12*4], zmm31
   304  add         r12, 0x10
   308  cmp         r12, r13
   30b  jb          L3
; predicated: ragged end
L4:
   311  mov         r13, [rdi+0x28]
   315  cmp         r12, r13
   318  jae         L5
   31e  lea         r12, [r13-0x10]
   322  jmp         L3
; exit: registers restored
L5:
   327  vzeroupper
   32a  pop         r13
   32c  pop         r12
   32e  ret
   32f  nop         [rax+0x100]
   336  nop         [rax+0x100]
   33d  nop         [rax]
each:
   340  mov         r9, [rdi+8]
   344  mov         r8, [rdi+0x10]
   348  mov         r10, [rdi+0x20]
   34c  xor         r11d, r11d
; each packet
L6:
   34f  mov         esi, [r9+r11*4]
   353  add         rsi, [rdi]
; b0: captured >= 14
   357  cmp         dword ptr [r8+r11*4], 0xe
   35c  jb          L7
; b1: half[12] == 0x800
   362  cmp         word ptr [rsi+0xc], 8
   367  mov         eax, 0
   36c  mov         ecx, 0x40000
   371  cmove       eax, ecx
   374  mov         [r10+r11*4], eax
   378  inc         r11
   37b  cmp         r11, [rdi+0x28]
   37f  jb          L6
   385  ret
; b3: verdict
L7:
   386  mov         dword ptr [r10+r11*4], 0
   38e  inc         r11
   391  cmp         r11, [rdi+0x28]
   395  jb          L6
   39b  ret
C1:  ; 64 bytes
   3c0  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
   3e0  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
C2:  ; 64 bytes
   400  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
   420  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
C3:  ; 64 bytes
   440  08000000 08000000 08000000 08000000 08000000 08000000 08000000 08000000
   460  08000000 08000000 08000000 08000000 08000000 08000000 08000000 08000000
C4:  ; 64 bytes
   480  0e000000 0e000000 0e000000 0e000000 0e000000 0e000000 0e000000 0e000000
   4a0  0e000000 0e000000 0e000000 0e000000 0e000000 0e000000 0e000000 0e000000
C5:  ; 64 bytes
   4c0  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
   4e0  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
