; entry: registers saved
batch:
     0  push        r12
     2  push        r13
     4  push        r14
     6  push        r15
; predicated: set-up
     8  vmovdqu64   zmm0, [C4]  ; 16 times 0x00040000
    12  vmovdqu64   zmm1, [C1]  ; 16 times 0x0000ffff
    1c  vmovdqu64   zmm2, [C2]  ; 16 times 0x00000008
    26  vmovdqu64   zmm3, [C3]  ; 16 times 0x0000000d
    30  mov         rsi, [rdi]
    34  mov         rdx, [rdi+8]
    38  mov         rcx, [rdi+0x10]
    3c  mov         r9, [rdi+0x20]
    40  xor         r12d, r12d
    43  mov         r13, [rdi+0x28]
    47  and         r13, 0xfffffffffffffff0
    4b  sub         r13, 0x40
    4f  jl          L2
; predicated: prologue
; where the packets start
    55  mov         r15, [rdx+r12*4]
; where the packets start
    59  mov         r14d, r15d
; where the packets start
    5c  shr         r15, 0x20
; 16 header bytes from 12
    60  vmovdqu64   xmm30, [rsi+r14+0xc]
; 16 header bytes from 12
    6b  vmovdqu64   xmm4, [rsi+r15+0xc]
; where the packets start
    76  mov         r15, [rdx+r12*4+0x10]
; where the packets start
    7b  mov         r14d, r15d
; where the packets start
    7e  shr         r15, 0x20
; 16 header bytes from 12
    82  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 1
; 16 header bytes from 12
    8e  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 1
; where the packets start
    9a  mov         r15, [rdx+r12*4+0x20]
; where the packets start
    9f  mov         r14d, r15d
; where the packets start
    a2  shr         r15, 0x20
; 16 header bytes from 12
    a6  vinserti32x4 zmm5, zmm30, [rsi+r14+0xc], 2
; 16 header bytes from 12
    b2  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 2
; where the packets start
    be  mov         r15, [rdx+r12*4+0x30]
; where the packets start
    c3  mov         r14d, r15d
; where the packets start
    c6  shr         r15, 0x20
; 16 header bytes from 12
    ca  vinserti32x4 zmm5, zmm5, [rsi+r14+0xc], 3
; 16 header bytes from 12
    d6  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 3
; where the packets start
    e2  mov         r15, [rdx+r12*4+8]
; where the packets start
    e7  mov         r14d, r15d
; where the packets start
    ea  shr         r15, 0x20
; 16 header bytes from 12
    ee  vmovdqu64   xmm31, [rsi+r14+0xc]
; 16 header bytes from 12
    f9  vmovdqu64   xmm30, [rsi+r15+0xc]
; where the packets start
   104  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   109  mov         r14d, r15d
; where the packets start
   10c  shr         r15, 0x20
; columns of the window from 12
   110  vshufps     zmm4, zmm5, zmm4, 0
; 16 header bytes from 12
   117  vinserti32x4 zmm5, zmm31, [rsi+r14+0xc], 1
; 16 header bytes from 12
   123  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 1
; where the packets start
   12f  mov         r15, [rdx+r12*4+0x28]
; where the packets start
   134  mov         r14d, r15d
; where the packets start
   137  shr         r15, 0x20
; 16 header bytes from 12
   13b  vinserti32x4 zmm5, zmm5, [rsi+r14+0xc], 2
; 16 header bytes from 12
   147  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 2
; where the packets start
   153  mov         r15, [rdx+r12*4+0x38]
; where the packets start
   158  mov         r14d, r15d
; where the packets start
   15b  shr         r15, 0x20
; 16 header bytes from 12
   15f  vinserti32x4 zmm5, zmm5, [rsi+r14+0xc], 3
; 16 header bytes from 12
   16b  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 3
; columns of the window from 12
   177  vshufps     zmm5, zmm5, zmm30, 0
; where the packets start [+1]
   17e  mov         r15, [rdx+r12*4+0x40]
; where the packets start [+1]
   183  mov         r14d, r15d
; where the packets start [+1]
   186  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   18a  vmovdqu64   xmm30, [rsi+r14+0xc]
; columns of the window from 12
   195  vshufps     zmm4, zmm4, zmm5, 0x88
; captured >= 14 and half[12] == 0x800
   19c  vpandd      zmm5, zmm4, zmm1
; 16 header bytes from 12 [+1]
   1a2  vmovdqu64   xmm4, [rsi+r15+0xc]
; where the packets start [+1]
   1ad  mov         r15, [rdx+r12*4+0x50]
; where the packets start [+1]
   1b2  mov         r14d, r15d
; where the packets start [+1]
   1b5  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   1b9  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+1]
   1c5  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 1
; where the packets start [+1]
   1d1  mov         r15, [rdx+r12*4+0x60]
; where the packets start [+1]
   1d6  mov         r14d, r15d
; where the packets start [+1]
   1d9  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   1dd  vinserti32x4 zmm6, zmm30, [rsi+r14+0xc], 2
; 16 header bytes from 12 [+1]
   1e9  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 2
; where the packets start [+1]
   1f5  mov         r15, [rdx+r12*4+0x70]
; where the packets start [+1]
   1fa  mov         r14d, r15d
; where the packets start [+1]
   1fd  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   201  vinserti32x4 zmm6, zmm6, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+1]
   20d  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 3
; where the packets start [+1]
   219  mov         r15, [rdx+r12*4+0x48]
; where the packets start [+1]
   21e  mov         r14d, r15d
; where the packets start [+1]
   221  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   225  vmovdqu64   xmm31, [rsi+r14+0xc]
; 16 header bytes from 12 [+1]
   230  vmovdqu64   xmm30, [rsi+r15+0xc]
; where the packets start [+1]
   23b  mov         r15, [rdx+r12*4+0x58]
; where the packets start [+1]
   240  mov         r14d, r15d
; where the packets start [+1]
   243  shr         r15, 0x20
; columns of the window from 12 [+1]
   247  vshufps     zmm6, zmm6, zmm4, 0
; 16 header bytes from 12 [+1]
   24e  vinserti32x4 zmm4, zmm31, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+1]
   25a  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 1
; where the packets start [+1]
   266  mov         r15, [rdx+r12*4+0x68]
; where the packets start [+1]
   26b  mov         r14d, r15d
; where the packets start [+1]
   26e  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   272  vinserti32x4 zmm4, zmm4, [rsi+r14+0xc], 2
; 16 header bytes from 12 [+1]
   27e  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 2
; where the packets start [+1]
   28a  mov         r15, [rdx+r12*4+0x78]
; where the packets start [+1]
   28f  mov         r14d, r15d
; where the packets start [+1]
   292  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   296  vinserti32x4 zmm4, zmm4, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+1]
   2a2  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800
   2ae  vmovdqu64   zmm31, [rcx+r12*4]
   2b5  nop         [rax+0x100]
   2bc  nop         [rax]
   2bf  nop
; predicated: kernel
; columns of the window from 12 [+1]
L1:
   2c0  vshufps     zmm4, zmm4, zmm30, 0
; where the packets start [+2]
   2c7  mov         r15, [rdx+r12*4+0x80]
; where the packets start [+2]
   2cf  mov         r14d, r15d
; where the packets start [+2]
   2d2  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   2d6  vmovdqu64   xmm30, [rsi+r14+0xc]
; columns of the window from 12 [+1]
   2e1  vshufps     zmm6, zmm6, zmm4, 0x88
; captured >= 14 and half[12] == 0x800 [+1]
   2e8  vpandd      zmm6, zmm6, zmm1
; 16 header bytes from 12 [+2]
   2ee  vmovdqu64   xmm4, [rsi+r15+0xc]
; where the packets start [+2]
   2f9  mov         r15, [rdx+r12*4+0x90]
; where the packets start [+2]
   301  mov         r14d, r15d
; where the packets start [+2]
   304  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   308  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+2]
   314  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 1
; captured >= 14 and half[12] == 0x800
   320  vpcmpequd   k7, zmm5, zmm2
; where the packets start [+2]
   327  mov         r15, [rdx+r12*4+0xa0]
; where the packets start [+2]
   32f  mov         r14d, r15d
; where the packets start [+2]
   332  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   336  vinserti32x4 zmm5, zmm30, [rsi+r14+0xc], 2
; captured >= 14 and half[12] == 0x800
   342  vpcmpnleud  k7{k7}, zmm31, zmm3
; 16 header bytes from 12 [+2]
   349  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 2
; where the packets start [+2]
   355  mov         r15, [rdx+r12*4+0xb0]
; where the packets start [+2]
   35d  mov         r14d, r15d
; where the packets start [+2]
   360  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   364  vinserti32x4 zmm5, zmm5, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+2]
   370  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 3
; verdicts
   37c  vmovdqa32   zmm31{k7}{z}, zmm0
; verdicts
   382  vmovdqu32   [r9+r12*4], zmm31
; where the packets start [+2]
   389  mov         r15, [rdx+r12*4+0x88]
; where the packets start [+2]
   391  mov         r14d, r15d
; where the packets start [+2]
   394  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   398  vmovdqu64   xmm31, [rsi+r14+0xc]
; 16 header bytes from 12 [+2]
   3a3  vmovdqu64   xmm30, [rsi+r15+0xc]
; where the packets start [+2]
   3ae  mov         r15, [rdx+r12*4+0x98]
; where the packets start [+2]
   3b6  mov         r14d, r15d
; where the packets start [+2]
   3b9  shr         r15, 0x20
; columns of the window from 12 [+2]
   3bd  vshufps     zmm4, zmm5, zmm4, 0
; 16 header bytes from 12 [+2]
   3c4  vinserti32x4 zmm5, zmm31, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+2]
   3d0  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 1
; where the packets start [+2]
   3dc  mov         r15, [rdx+r12*4+0xa8]
; where the packets start [+2]
   3e4  mov         r14d, r15d
; where the packets start [+2]
   3e7  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   3eb  vinserti32x4 zmm5, zmm5, [rsi+r14+0xc], 2
; 16 header bytes from 12 [+2]
   3f7  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 2
; where the packets start [+2]
   403  mov         r15, [rdx+r12*4+0xb8]
; where the packets start [+2]
   40b  mov         r14d, r15d
; where the packets start [+2]
   40e  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   412  vinserti32x4 zmm5, zmm5, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+2]
   41e  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 [+1]
   42a  vmovdqu64   zmm31, [rcx+r12*4+0x40]
; columns of the window from 12 [+2]
   432  vshufps     zmm5, zmm5, zmm30, 0
; where the packets start [+3]
   439  mov         r15, [rdx+r12*4+0xc0]
; where the packets start [+3]
   441  mov         r14d, r15d
; where the packets start [+3]
   444  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   448  vmovdqu64   xmm30, [rsi+r14+0xc]
; columns of the window from 12 [+2]
   453  vshufps     zmm4, zmm4, zmm5, 0x88
; captured >= 14 and half[12] == 0x800 [+2]
   45a  vpandd      zmm5, zmm4, zmm1
; 16 header bytes from 12 [+3]
   460  vmovdqu64   xmm4, [rsi+r15+0xc]
; where the packets start [+3]
   46b  mov         r15, [rdx+r12*4+0xd0]
; where the packets start [+3]
   473  mov         r14d, r15d
; where the packets start [+3]
   476  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   47a  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+3]
   486  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 1
; captured >= 14 and half[12] == 0x800 [+1]
   492  vpcmpequd   k7, zmm6, zmm2
; where the packets start [+3]
   499  mov         r15, [rdx+r12*4+0xe0]
; where the packets start [+3]
   4a1  mov         r14d, r15d
; where the packets start [+3]
   4a4  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   4a8  vinserti32x4 zmm6, zmm30, [rsi+r14+0xc], 2
; captured >= 14 and half[12] == 0x800 [+1]
   4b4  vpcmpnleud  k7{k7}, zmm31, zmm3
; 16 header bytes from 12 [+3]
   4bb  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 2
; where the packets start [+3]
   4c7  mov         r15, [rdx+r12*4+0xf0]
; where the packets start [+3]
   4cf  mov         r14d, r15d
; where the packets start [+3]
   4d2  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   4d6  vinserti32x4 zmm6, zmm6, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+3]
   4e2  vinserti32x4 zmm4, zmm4, [rsi+r15+0xc], 3
; verdicts [+1]
   4ee  vmovdqa32   zmm31{k7}{z}, zmm0
; verdicts [+1]
   4f4  vmovdqu32   [r9+r12*4+0x40], zmm31
; where the packets start [+3]
   4fc  mov         r15, [rdx+r12*4+0xc8]
; where the packets start [+3]
   504  mov         r14d, r15d
; where the packets start [+3]
   507  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   50b  vmovdqu64   xmm31, [rsi+r14+0xc]
; 16 header bytes from 12 [+3]
   516  vmovdqu64   xmm30, [rsi+r15+0xc]
; where the packets start [+3]
   521  mov         r15, [rdx+r12*4+0xd8]
; where the packets start [+3]
   529  mov         r14d, r15d
; where the packets start [+3]
   52c  shr         r15, 0x20
; columns of the window from 12 [+3]
   530  vshufps     zmm6, zmm6, zmm4, 0
; 16 header bytes from 12 [+3]
   537  vinserti32x4 zmm4, zmm31, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+3]
   543  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 1
; where the packets start [+3]
   54f  mov         r15, [rdx+r12*4+0xe8]
; where the packets start [+3]
   557  mov         r14d, r15d
; where the packets start [+3]
   55a  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   55e  vinserti32x4 zmm4, zmm4, [rsi+r14+0xc], 2
; 16 header bytes from 12 [+3]
   56a  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 2
; where the packets start [+3]
   576  mov         r15, [rdx+r12*4+0xf8]
; where the packets start [+3]
   57e  mov         r14d, r15d
; where the packets start [+3]
   581  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   585  vinserti32x4 zmm4, zmm4, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+3]
   591  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 [+2]
   59d  vmovdqu64   zmm31, [rcx+r12*4+0x80]
   5a5  add         r12, 0x20
   5a9  cmp         r12, r13
   5ac  jle         L1
; predicated: epilogue
; columns of the window from 12 [+1]
   5b2  vshufps     zmm4, zmm4, zmm30, 0
; columns of the window from 12 [+1]
   5b9  vshufps     zmm6, zmm6, zmm4, 0x88
; captured >= 14 and half[12] == 0x800 [+1]
   5c0  vpandd      zmm6, zmm6, zmm1
; captured >= 14 and half[12] == 0x800
   5c6  vpcmpequd   k7, zmm5, zmm2
; captured >= 14 and half[12] == 0x800
   5cd  vpcmpnleud  k7{k7}, zmm31, zmm3
; verdicts
   5d4  vmovdqa32   zmm31{k7}{z}, zmm0
; verdicts
   5da  vmovdqu32   [r9+r12*4], zmm31
; captured >= 14 and half[12] == 0x800 [+1]
   5e1  vmovdqu64   zmm31, [rcx+r12*4+0x40]
; captured >= 14 and half[12] == 0x800 [+1]
   5e9  vpcmpequd   k7, zmm6, zmm2
; captured >= 14 and half[12] == 0x800 [+1]
   5f0  vpcmpnleud  k7{k7}, zmm31, zmm3
; verdicts [+1]
   5f7  vmovdqa32   zmm31{k7}{z}, zmm0
; verdicts [+1]
   5fd  vmovdqu32   [r9+r12*4+0x40], zmm31
   605  add         r12, 0x20
; predicated: rest
L2:
   609  mov         r13, [rdi+0x28]
   60d  and         r13, 0xfffffffffffffff0
   611  cmp         r12, r13
   614  jae         L4
; predicated: one iteration
; where the packets start
L3:
   61a  mov         r15, [rdx+r12*4]
; where the packets start
   61e  mov         r14d, r15d
; where the packets start
   621  shr         r15, 0x20
; 16 header bytes from 12
   625  vmovdqu64   xmm31, [rsi+r14+0xc]
; 16 header bytes from 12
   630  vmovdqu64   xmm30, [rsi+r15+0xc]
; where the packets start
   63b  mov         r15, [rdx+r12*4+0x10]
; where the packets start
   640  mov         r14d, r15d
; where the packets start
   643  shr         r15, 0x20
; 16 header bytes from 12
   647  vinserti32x4 zmm31, zmm31, [rsi+r14+0xc], 1
; 16 header bytes from 12
   653  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 1
; where the packets start
   65f  mov         r15, [rdx+r12*4+0x20]
; where the packets start
   664  mov         r14d, r15d
; where the packets start
   667  shr         r15, 0x20
; 16 header bytes from 12
   66b  vinserti32x4 zmm31, zmm31, [rsi+r14+0xc], 2
; 16 header bytes from 12
   677  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 2
; where the packets start
   683  mov         r15, [rdx+r12*4+0x30]
; where the packets start
   688  mov         r14d, r15d
; where the packets start
   68b  shr         r15, 0x20
; 16 header bytes from 12
   68f  vinserti32x4 zmm31, zmm31, [rsi+r14+0xc], 3
; 16 header bytes from 12
   69b  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 3
; where the packets start
   6a7  mov         r15, [rdx+r12*4+8]
; where the packets start
   6ac  mov         r14d, r15d
; where the packets start
   6af  shr         r15, 0x20
; 16 header bytes from 12
   6b3  vmovdqu64   xmm29, [rsi+r14+0xc]
; 16 header bytes from 12
   6be  vmovdqu64   xmm28, [rsi+r15+0xc]
; where the packets start
   6c9  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   6ce  mov         r14d, r15d
; where the packets start
   6d1  shr         r15, 0x20
; 16 header bytes from 12
   6d5  vinserti32x4 zmm29, zmm29, [rsi+r14+0xc], 1
; 16 header bytes from 12
   6e1  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 1
; where the packets start
   6ed  mov         r15, [rdx+r12*4+0x28]
; where the packets start
   6f2  mov         r14d, r15d
; where the packets start
   6f5  shr         r15, 0x20
; 16 header bytes from 12
   6f9  vinserti32x4 zmm29, zmm29, [rsi+r14+0xc], 2
; 16 header bytes from 12
   705  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 2
; where the packets start
   711  mov         r15, [rdx+r12*4+0x38]
; where the packets start
   716  mov         r14d, r15d
; where the packets start
   719  shr         r15, 0x20
; 16 header bytes from 12
   71d  vinserti32x4 zmm29, zmm29, [rsi+r14+0xc], 3
; 16 header bytes from 12
   729  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 3
; columns of the window from 12
   735  vshufps     zmm31, zmm31, zmm30, 0
; columns of the window from 12
   73c  vshufps     zmm29, zmm29, zmm28, 0
; columns of the window from 12
   743  vshufps     zmm31, zmm31, zmm29, 0x88
; captured >= 14 and half[12] == 0x800
   74a  vpandd      zmm31, zmm31, zmm1
; captured >= 14 and half[12] == 0x800
   750  vpcmpequd   k7, zmm31, zmm2
; captured >= 14 and half[12] == 0x800
   757  vmovdqu64   zmm31, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800
   75e  vpcmpnleud  k7{k7}, zmm31, zmm3
; verdicts
   765  vmovdqa32   zmm31{k7}{z}, zmm0
; verdicts
   76b  vmovdqu32   [r9+r12*4], zmm31
   772  add         r12, 0x10
   776  cmp         r12, r13
   779  jb          L3
; predicated: ragged end
L4:
   77f  mov         r13, [rdi+0x28]
   783  cmp         r12, r13
   786  jae         L5
   78c  lea         r12, [r13-0x10]
   790  jmp         L3
; exit: registers restored
L5:
   795  vzeroupper
   798  pop         r15
   79a  pop         r14
   79c  pop         r13
   79e  pop         r12
   7a0  ret
   7a1  nop         [rax+0x100]
   7a8  nop         [rax+0x100]
   7af  nop         [rax+0x100]
   7b6  nop         [rax+0x100]
   7bd  nop         [rax]
each:
   7c0  lea         r10, [rsi+rdx*4]
   7c4  lea         r8, [r8+rdx*4]
   7c8  lea         r9, [r9+rdx*4]
   7cc  mov         r11, rdx
   7cf  neg         r11
; each packet
L6:
   7d2  mov         esi, [r10+r11*4]
   7d6  add         rsi, rdi
; b0: captured >= 14
   7d9  cmp         dword ptr [r8+r11*4], 0xe
   7de  jb          L7
; b1: half[12] == 0x800
   7e4  cmp         word ptr [rsi+0xc], 8
   7e9  mov         eax, 0
   7ee  mov         ecx, 0x40000
   7f3  cmove       eax, ecx
   7f6  mov         [r9+r11*4], eax
   7fa  inc         r11
   7fd  jne         L6
   803  ret
; b3: verdict
L7:
   804  mov         dword ptr [r9+r11*4], 0
   80c  inc         r11
   80f  jne         L6
   815  ret
C1:  ; 64 bytes
   840  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
   860  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
C2:  ; 64 bytes
   880  08000000 08000000 08000000 08000000 08000000 08000000 08000000 08000000
   8a0  08000000 08000000 08000000 08000000 08000000 08000000 08000000 08000000
C3:  ; 64 bytes
   8c0  0d000000 0d000000 0d000000 0d000000 0d000000 0d000000 0d000000 0d000000
   8e0  0d000000 0d000000 0d000000 0d000000 0d000000 0d000000 0d000000 0d000000
C4:  ; 64 bytes
   900  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
   920  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
