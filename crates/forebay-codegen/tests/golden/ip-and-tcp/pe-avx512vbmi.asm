; entry: registers saved
batch:
     0  push        r12
     2  push        r13
     4  push        r14
     6  push        r15
; predicated: set-up
     8  vmovdqu64   zmm0, [C6]  ; 16 times 0x00040000
    12  vmovdqu64   zmm1, [C1]  ; 16 times 0xff000000
    1c  vmovdqu64   zmm2, [C2]  ; 16 times 0x06000000
    26  vmovdqu64   zmm3, [C3]  ; 16 times 0x00000017
    30  vmovdqu64   zmm4, [C4]  ; 16 times 0x0000ffff
    3a  vmovdqu64   zmm5, [C5]  ; 16 times 0x00000008
    44  mov         rsi, [rdi]
    48  mov         rdx, [rdi+8]
    4c  mov         rcx, [rdi+0x10]
    50  mov         r9, [rdi+0x20]
    54  xor         r12d, r12d
    57  mov         r13, [rdi+0x28]
    5b  and         r13, 0xfffffffffffffff0
    5f  sub         r13, 0x40
    63  jl          L2
; predicated: prologue
; where the packets start
    69  mov         r15, [rdx+r12*4]
; where the packets start
    6d  mov         r14d, r15d
; where the packets start
    70  shr         r15, 0x20
; 16 header bytes from 12
    74  vmovdqu64   xmm30, [rsi+r14+0xc]
; 16 header bytes from 12
    7f  vmovdqu64   xmm28, [rsi+r15+0xc]
; where the packets start
    8a  mov         r15, [rdx+r12*4+0x10]
; where the packets start
    8f  mov         r14d, r15d
; where the packets start
    92  shr         r15, 0x20
; 16 header bytes from 12
    96  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 1
; 16 header bytes from 12
    a2  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 1
; where the packets start
    ae  mov         r15, [rdx+r12*4+0x20]
; where the packets start
    b3  mov         r14d, r15d
; where the packets start
    b6  shr         r15, 0x20
; 16 header bytes from 12
    ba  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 2
; 16 header bytes from 12
    c6  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 2
; where the packets start
    d2  mov         r15, [rdx+r12*4+0x30]
; where the packets start
    d7  mov         r14d, r15d
; where the packets start
    da  shr         r15, 0x20
; 16 header bytes from 12
    de  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 3
; 16 header bytes from 12
    ea  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 3
; where the packets start
    f6  mov         r15, [rdx+r12*4+8]
; where the packets start
    fb  mov         r14d, r15d
; where the packets start
    fe  shr         r15, 0x20
; 16 header bytes from 12
   102  vmovdqu64   xmm7, [rsi+r14+0xc]
; 16 header bytes from 12
   10d  vmovdqu64   xmm8, [rsi+r15+0xc]
; where the packets start
   118  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   11d  mov         r14d, r15d
; where the packets start
   120  shr         r15, 0x20
; 16 header bytes from 12
   124  vinserti32x4 zmm7, zmm7, [rsi+r14+0xc], 1
; 16 header bytes from 12
   130  vinserti32x4 zmm8, zmm8, [rsi+r15+0xc], 1
; where the packets start
   13c  mov         r15, [rdx+r12*4+0x28]
; where the packets start
   141  mov         r14d, r15d
; where the packets start
   144  shr         r15, 0x20
; 16 header bytes from 12
   148  vinserti32x4 zmm7, zmm7, [rsi+r14+0xc], 2
; 16 header bytes from 12
   154  vinserti32x4 zmm9, zmm8, [rsi+r15+0xc], 2
; where the packets start
   160  mov         r15, [rdx+r12*4+0x38]
; where the packets start
   165  mov         r14d, r15d
; where the packets start
   168  shr         r15, 0x20
; 16 header bytes from 12
   16c  vinserti32x4 zmm7, zmm7, [rsi+r14+0xc], 3
; 16 header bytes from 12
   178  vinserti32x4 zmm9, zmm9, [rsi+r15+0xc], 3
; columns of the window from 12
   184  vshufps     zmm30, zmm30, zmm28, 0x88
; columns of the window from 12
   18b  vshufps     zmm7, zmm7, zmm9, 0x88
; where the packets start [+1]
   192  mov         r15, [rdx+r12*4+0x40]
; where the packets start [+1]
   197  mov         r14d, r15d
; where the packets start [+1]
   19a  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   19e  vmovdqu64   xmm9, [rsi+r14+0xc]
; columns of the window from 12
   1a9  vshufps     zmm28, zmm30, zmm7, 0x88
; 16 header bytes from 12 [+1]
   1b0  vmovdqu64   xmm31, [rsi+r15+0xc]
; where the packets start [+1]
   1bb  mov         r15, [rdx+r12*4+0x50]
; where the packets start [+1]
   1c0  mov         r14d, r15d
; where the packets start [+1]
   1c3  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   1c7  vinserti32x4 zmm9, zmm9, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+1]
   1d3  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 1
; columns of the window from 12
   1df  vshufps     zmm7, zmm30, zmm7, 0xdd
; where the packets start [+1]
   1e6  mov         r15, [rdx+r12*4+0x60]
; where the packets start [+1]
   1eb  mov         r14d, r15d
; where the packets start [+1]
   1ee  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   1f2  vinserti32x4 zmm9, zmm9, [rsi+r14+0xc], 2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   1fe  vpandd      zmm7, zmm7, zmm1
; 16 header bytes from 12 [+1]
   204  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 2
; where the packets start [+1]
   210  mov         r15, [rdx+r12*4+0x70]
; where the packets start [+1]
   215  mov         r14d, r15d
; where the packets start [+1]
   218  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   21c  vinserti32x4 zmm30, zmm9, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+1]
   228  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   234  vpandd      zmm9, zmm28, zmm4
; where the packets start [+1]
   23a  mov         r15, [rdx+r12*4+0x48]
; where the packets start [+1]
   23f  mov         r14d, r15d
; where the packets start [+1]
   242  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   246  vmovdqu64   xmm6, [rsi+r14+0xc]
; 16 header bytes from 12 [+1]
   251  vmovdqu64   xmm8, [rsi+r15+0xc]
; where the packets start [+1]
   25c  mov         r15, [rdx+r12*4+0x58]
; where the packets start [+1]
   261  mov         r14d, r15d
; where the packets start [+1]
   264  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   268  vinserti32x4 zmm6, zmm6, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+1]
   274  vinserti32x4 zmm8, zmm8, [rsi+r15+0xc], 1
; where the packets start [+1]
   280  mov         r15, [rdx+r12*4+0x68]
; where the packets start [+1]
   285  mov         r14d, r15d
; where the packets start [+1]
   288  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   28c  vinserti32x4 zmm6, zmm6, [rsi+r14+0xc], 2
; 16 header bytes from 12 [+1]
   298  vinserti32x4 zmm8, zmm8, [rsi+r15+0xc], 2
; where the packets start [+1]
   2a4  mov         r15, [rdx+r12*4+0x78]
; where the packets start [+1]
   2a9  mov         r14d, r15d
; where the packets start [+1]
   2ac  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   2b0  vinserti32x4 zmm29, zmm6, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+1]
   2bc  vinserti32x4 zmm28, zmm8, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   2c8  vmovdqu64   zmm8, [rcx+r12*4]
; columns of the window from 12 [+1]
   2cf  vshufps     zmm6, zmm30, zmm31, 0x88
   2d6  nop         [rax+0x100]
   2dd  nop         [rax]
; predicated: kernel
; columns of the window from 12 [+1]
L1:
   2e0  vshufps     zmm31, zmm29, zmm28, 0x88
; where the packets start [+2]
   2e7  mov         r15, [rdx+r12*4+0x80]
; where the packets start [+2]
   2ef  mov         r14d, r15d
; where the packets start [+2]
   2f2  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   2f6  vmovdqu64   xmm30, [rsi+r14+0xc]
; columns of the window from 12 [+1]
   301  vshufps     zmm29, zmm6, zmm31, 0x88
; 16 header bytes from 12 [+2]
   308  vmovdqu64   xmm28, [rsi+r15+0xc]
; where the packets start [+2]
   313  mov         r15, [rdx+r12*4+0x90]
; where the packets start [+2]
   31b  mov         r14d, r15d
; where the packets start [+2]
   31e  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   322  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+2]
   32e  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 1
; columns of the window from 12 [+1]
   33a  vshufps     zmm6, zmm6, zmm31, 0xdd
; where the packets start [+2]
   341  mov         r15, [rdx+r12*4+0xa0]
; where the packets start [+2]
   349  mov         r14d, r15d
; where the packets start [+2]
   34c  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   350  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   35c  vpandd      zmm6, zmm6, zmm1
; 16 header bytes from 12 [+2]
   362  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 2
; where the packets start [+2]
   36e  mov         r15, [rdx+r12*4+0xb0]
; where the packets start [+2]
   376  mov         r14d, r15d
; where the packets start [+2]
   379  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   37d  vinserti32x4 zmm30, zmm30, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+2]
   389  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   395  vpcmpequd   k7, zmm7, zmm2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   39c  vpandd      zmm29, zmm29, zmm4
; where the packets start [+2]
   3a2  mov         r15, [rdx+r12*4+0x88]
; where the packets start [+2]
   3aa  mov         r14d, r15d
; where the packets start [+2]
   3ad  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   3b1  vmovdqu64   xmm7, [rsi+r14+0xc]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   3bc  vpcmpnleud  k7{k7}, zmm8, zmm3
; 16 header bytes from 12 [+2]
   3c3  vmovdqu64   xmm8, [rsi+r15+0xc]
; where the packets start [+2]
   3ce  mov         r15, [rdx+r12*4+0x98]
; where the packets start [+2]
   3d6  mov         r14d, r15d
; where the packets start [+2]
   3d9  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   3dd  vinserti32x4 zmm7, zmm7, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+2]
   3e9  vinserti32x4 zmm8, zmm8, [rsi+r15+0xc], 1
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   3f5  vpcmpequd   k7{k7}, zmm9, zmm5
; where the packets start [+2]
   3fc  mov         r15, [rdx+r12*4+0xa8]
; where the packets start [+2]
   404  mov         r14d, r15d
; where the packets start [+2]
   407  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   40b  vinserti32x4 zmm7, zmm7, [rsi+r14+0xc], 2
; verdicts
   417  vmovdqa32   zmm9{k7}{z}, zmm0
; verdicts
   41d  vmovdqu32   [r9+r12*4], zmm9
; 16 header bytes from 12 [+2]
   424  vinserti32x4 zmm9, zmm8, [rsi+r15+0xc], 2
; where the packets start [+2]
   430  mov         r15, [rdx+r12*4+0xb8]
; where the packets start [+2]
   438  mov         r14d, r15d
; where the packets start [+2]
   43b  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   43f  vinserti32x4 zmm7, zmm7, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+2]
   44b  vinserti32x4 zmm9, zmm9, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   457  vmovdqu64   zmm8, [rcx+r12*4+0x40]
; columns of the window from 12 [+2]
   45f  vshufps     zmm30, zmm30, zmm28, 0x88
; columns of the window from 12 [+2]
   466  vshufps     zmm7, zmm7, zmm9, 0x88
; where the packets start [+3]
   46d  mov         r15, [rdx+r12*4+0xc0]
; where the packets start [+3]
   475  mov         r14d, r15d
; where the packets start [+3]
   478  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   47c  vmovdqu64   xmm9, [rsi+r14+0xc]
; columns of the window from 12 [+2]
   487  vshufps     zmm28, zmm30, zmm7, 0x88
; 16 header bytes from 12 [+3]
   48e  vmovdqu64   xmm31, [rsi+r15+0xc]
; where the packets start [+3]
   499  mov         r15, [rdx+r12*4+0xd0]
; where the packets start [+3]
   4a1  mov         r14d, r15d
; where the packets start [+3]
   4a4  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   4a8  vinserti32x4 zmm9, zmm9, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+3]
   4b4  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 1
; columns of the window from 12 [+2]
   4c0  vshufps     zmm7, zmm30, zmm7, 0xdd
; where the packets start [+3]
   4c7  mov         r15, [rdx+r12*4+0xe0]
; where the packets start [+3]
   4cf  mov         r14d, r15d
; where the packets start [+3]
   4d2  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   4d6  vinserti32x4 zmm9, zmm9, [rsi+r14+0xc], 2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   4e2  vpandd      zmm7, zmm7, zmm1
; 16 header bytes from 12 [+3]
   4e8  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 2
; where the packets start [+3]
   4f4  mov         r15, [rdx+r12*4+0xf0]
; where the packets start [+3]
   4fc  mov         r14d, r15d
; where the packets start [+3]
   4ff  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   503  vinserti32x4 zmm30, zmm9, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+3]
   50f  vinserti32x4 zmm31, zmm31, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   51b  vpcmpequd   k7, zmm6, zmm2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   522  vpandd      zmm9, zmm28, zmm4
; where the packets start [+3]
   528  mov         r15, [rdx+r12*4+0xc8]
; where the packets start [+3]
   530  mov         r14d, r15d
; where the packets start [+3]
   533  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   537  vmovdqu64   xmm6, [rsi+r14+0xc]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   542  vpcmpnleud  k7{k7}, zmm8, zmm3
; 16 header bytes from 12 [+3]
   549  vmovdqu64   xmm8, [rsi+r15+0xc]
; where the packets start [+3]
   554  mov         r15, [rdx+r12*4+0xd8]
; where the packets start [+3]
   55c  mov         r14d, r15d
; where the packets start [+3]
   55f  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   563  vinserti32x4 zmm6, zmm6, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+3]
   56f  vinserti32x4 zmm8, zmm8, [rsi+r15+0xc], 1
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   57b  vpcmpequd   k7{k7}, zmm29, zmm5
; where the packets start [+3]
   582  mov         r15, [rdx+r12*4+0xe8]
; where the packets start [+3]
   58a  mov         r14d, r15d
; where the packets start [+3]
   58d  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   591  vinserti32x4 zmm6, zmm6, [rsi+r14+0xc], 2
; verdicts [+1]
   59d  vmovdqa32   zmm29{k7}{z}, zmm0
; verdicts [+1]
   5a3  vmovdqu32   [r9+r12*4+0x40], zmm29
; 16 header bytes from 12 [+3]
   5ab  vinserti32x4 zmm8, zmm8, [rsi+r15+0xc], 2
; where the packets start [+3]
   5b7  mov         r15, [rdx+r12*4+0xf8]
; where the packets start [+3]
   5bf  mov         r14d, r15d
; where the packets start [+3]
   5c2  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   5c6  vinserti32x4 zmm29, zmm6, [rsi+r14+0xc], 3
; 16 header bytes from 12 [+3]
   5d2  vinserti32x4 zmm28, zmm8, [rsi+r15+0xc], 3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   5de  vmovdqu64   zmm8, [rcx+r12*4+0x80]
; columns of the window from 12 [+3]
   5e6  vshufps     zmm6, zmm30, zmm31, 0x88
   5ed  add         r12, 0x20
   5f1  cmp         r12, r13
   5f4  jle         L1
; predicated: epilogue
; columns of the window from 12 [+1]
   5fa  vshufps     zmm31, zmm29, zmm28, 0x88
; columns of the window from 12 [+1]
   601  vshufps     zmm29, zmm6, zmm31, 0x88
; columns of the window from 12 [+1]
   608  vshufps     zmm6, zmm6, zmm31, 0xdd
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   60f  vpandd      zmm6, zmm6, zmm1
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   615  vpcmpequd   k7, zmm7, zmm2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   61c  vpandd      zmm29, zmm29, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   622  vpcmpnleud  k7{k7}, zmm8, zmm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   629  vpcmpequd   k7{k7}, zmm9, zmm5
; verdicts
   630  vmovdqa32   zmm9{k7}{z}, zmm0
; verdicts
   636  vmovdqu32   [r9+r12*4], zmm9
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   63d  vmovdqu64   zmm8, [rcx+r12*4+0x40]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   645  vpcmpequd   k7, zmm6, zmm2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   64c  vpcmpnleud  k7{k7}, zmm8, zmm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   653  vpcmpequd   k7{k7}, zmm29, zmm5
; verdicts [+1]
   65a  vmovdqa32   zmm29{k7}{z}, zmm0
; verdicts [+1]
   660  vmovdqu32   [r9+r12*4+0x40], zmm29
   668  add         r12, 0x20
; predicated: rest
L2:
   66c  mov         r13, [rdi+0x28]
   670  and         r13, 0xfffffffffffffff0
   674  cmp         r12, r13
   677  jae         L4
; predicated: one iteration
; where the packets start
L3:
   67d  mov         r15, [rdx+r12*4]
; where the packets start
   681  mov         r14d, r15d
; where the packets start
   684  shr         r15, 0x20
; 16 header bytes from 12
   688  vmovdqu64   xmm31, [rsi+r14+0xc]
; 16 header bytes from 12
   693  vmovdqu64   xmm30, [rsi+r15+0xc]
; where the packets start
   69e  mov         r15, [rdx+r12*4+0x10]
; where the packets start
   6a3  mov         r14d, r15d
; where the packets start
   6a6  shr         r15, 0x20
; 16 header bytes from 12
   6aa  vinserti32x4 zmm31, zmm31, [rsi+r14+0xc], 1
; 16 header bytes from 12
   6b6  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 1
; where the packets start
   6c2  mov         r15, [rdx+r12*4+0x20]
; where the packets start
   6c7  mov         r14d, r15d
; where the packets start
   6ca  shr         r15, 0x20
; 16 header bytes from 12
   6ce  vinserti32x4 zmm31, zmm31, [rsi+r14+0xc], 2
; 16 header bytes from 12
   6da  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 2
; where the packets start
   6e6  mov         r15, [rdx+r12*4+0x30]
; where the packets start
   6eb  mov         r14d, r15d
; where the packets start
   6ee  shr         r15, 0x20
; 16 header bytes from 12
   6f2  vinserti32x4 zmm31, zmm31, [rsi+r14+0xc], 3
; 16 header bytes from 12
   6fe  vinserti32x4 zmm30, zmm30, [rsi+r15+0xc], 3
; where the packets start
   70a  mov         r15, [rdx+r12*4+8]
; where the packets start
   70f  mov         r14d, r15d
; where the packets start
   712  shr         r15, 0x20
; 16 header bytes from 12
   716  vmovdqu64   xmm29, [rsi+r14+0xc]
; 16 header bytes from 12
   721  vmovdqu64   xmm28, [rsi+r15+0xc]
; where the packets start
   72c  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   731  mov         r14d, r15d
; where the packets start
   734  shr         r15, 0x20
; 16 header bytes from 12
   738  vinserti32x4 zmm29, zmm29, [rsi+r14+0xc], 1
; 16 header bytes from 12
   744  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 1
; where the packets start
   750  mov         r15, [rdx+r12*4+0x28]
; where the packets start
   755  mov         r14d, r15d
; where the packets start
   758  shr         r15, 0x20
; 16 header bytes from 12
   75c  vinserti32x4 zmm29, zmm29, [rsi+r14+0xc], 2
; 16 header bytes from 12
   768  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 2
; where the packets start
   774  mov         r15, [rdx+r12*4+0x38]
; where the packets start
   779  mov         r14d, r15d
; where the packets start
   77c  shr         r15, 0x20
; 16 header bytes from 12
   780  vinserti32x4 zmm29, zmm29, [rsi+r14+0xc], 3
; 16 header bytes from 12
   78c  vinserti32x4 zmm28, zmm28, [rsi+r15+0xc], 3
; columns of the window from 12
   798  vshufps     zmm31, zmm31, zmm30, 0x88
; columns of the window from 12
   79f  vshufps     zmm29, zmm29, zmm28, 0x88
; columns of the window from 12
   7a6  vshufps     zmm28, zmm31, zmm29, 0x88
; columns of the window from 12
   7ad  vshufps     zmm31, zmm31, zmm29, 0xdd
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   7b4  vpandd      zmm31, zmm31, zmm1
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   7ba  vpcmpequd   k7, zmm31, zmm2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   7c1  vmovdqu64   zmm31, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   7c8  vpcmpnleud  k7{k7}, zmm31, zmm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   7cf  vpandd      zmm28, zmm28, zmm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   7d5  vpcmpequd   k7{k7}, zmm28, zmm5
; verdicts
   7dc  vmovdqa32   zmm28{k7}{z}, zmm0
; verdicts
   7e2  vmovdqu32   [r9+r12*4], zmm28
   7e9  add         r12, 0x10
   7ed  cmp         r12, r13
   7f0  jb          L3
; predicated: ragged end
L4:
   7f6  mov         r13, [rdi+0x28]
   7fa  cmp         r12, r13
   7fd  jae         L5
   803  lea         r12, [r13-0x10]
   807  jmp         L3
; exit: registers restored
L5:
   80c  vzeroupper
   80f  pop         r15
   811  pop         r14
   813  pop         r13
   815  pop         r12
   817  ret
   818  nop         [rax+0x100]
   81f  nop         [rax+0x100]
   826  nop         [rax+0x100]
   82d  nop         [rax+0x100]
   834  nop         [rax+0x100]
   83b  nop         [rax]
   83e  nop
   83f  nop
each:
   840  lea         r10, [rsi+rdx*4]
   844  lea         r8, [r8+rdx*4]
   848  lea         r9, [r9+rdx*4]
   84c  mov         r11, rdx
   84f  neg         r11
; each packet
L6:
   852  mov         esi, [r10+r11*4]
   856  add         rsi, rdi
; b0: captured >= 14
   859  mov         eax, [r8+r11*4]
   85d  cmp         eax, 0xe
   860  jb          L7
; b1: half[12] == 0x800
   866  cmp         word ptr [rsi+0xc], 8
   86b  jne         L7
; b2: captured >= 24
   871  cmp         eax, 0x18
   874  jb          L7
; b3: byte[23] == 6
   87a  cmp         byte ptr [rsi+0x17], 6
   87e  mov         eax, 0
   883  mov         ecx, 0x40000
   888  cmove       eax, ecx
   88b  mov         [r9+r11*4], eax
   88f  inc         r11
   892  jne         L6
   898  ret
; b5: verdict
L7:
   899  mov         dword ptr [r9+r11*4], 0
   8a1  inc         r11
   8a4  jne         L6
   8aa  ret
C1:  ; 64 bytes
   8c0  000000ff 000000ff 000000ff 000000ff 000000ff 000000ff 000000ff 000000ff
   8e0  000000ff 000000ff 000000ff 000000ff 000000ff 000000ff 000000ff 000000ff
C2:  ; 64 bytes
   900  00000006 00000006 00000006 00000006 00000006 00000006 00000006 00000006
   920  00000006 00000006 00000006 00000006 00000006 00000006 00000006 00000006
C3:  ; 64 bytes
   940  17000000 17000000 17000000 17000000 17000000 17000000 17000000 17000000
   960  17000000 17000000 17000000 17000000 17000000 17000000 17000000 17000000
C4:  ; 64 bytes
   980  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
   9a0  ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000 ffff0000
C5:  ; 64 bytes
   9c0  08000000 08000000 08000000 08000000 08000000 08000000 08000000 08000000
   9e0  08000000 08000000 08000000 08000000 08000000 08000000 08000000 08000000
C6:  ; 64 bytes
   a00  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
   a20  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
