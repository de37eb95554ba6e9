; entry: registers saved
batch:
     0  push        r12
     2  push        r13
     4  push        r14
     6  push        r15
; predicated: set-up
     8  vmovdqu     ymm0, [C3]  ; 8 times 0x7fffffff
    10  vmovdqu     ymm1, [C6]  ; 8 times 0x00040000
    18  vmovdqu     ymm2, [C1]  ; 8 times 0xff000000
    20  vmovdqu     ymm3, [C2]  ; 8 times 0x06000000
    28  vmovdqu     ymm4, [C4]  ; 8 times 0x00000017
    30  vmovdqu     ymm5, [C5]  ; 8 times 0x00080000
    38  mov         rsi, [rdi]
    3c  mov         rdx, [rdi+8]
    40  mov         rcx, [rdi+0x10]
    44  mov         r9, [rdi+0x20]
; predicated: prefetch of the first packets
    48  mov         r13, [rdi+0x28]
    4c  cmp         r13, 0x30
    50  jl          L1
    56  mov         r13, 0x10
L1:
    5d  sub         r13, 4
    61  jl          L3
    67  xor         r12d, r12d
L2:
    6a  mov         eax, [rdx+r12*4]
    6e  prefetcht0  [rsi+rax+0xc]
    73  mov         eax, [rdx+r12*4+4]
    78  prefetcht0  [rsi+rax+0xc]
    7d  mov         eax, [rdx+r12*4+8]
    82  prefetcht0  [rsi+rax+0xc]
    87  mov         eax, [rdx+r12*4+0xc]
    8c  prefetcht0  [rsi+rax+0xc]
    91  add         r12, 4
    95  cmp         r12, r13
    98  jle         L2
L3:
    9e  xor         r12d, r12d
    a1  mov         r13, [rdi+0x28]
    a5  add         r13, 0xfffffffffffffff0
    a9  and         r13, 0xfffffffffffffff8
    ad  sub         r13, 0x20
    b1  jl          L5
; predicated: prologue
; prefetch, 16 packets ahead
    b7  mov         r15, [rdx+r12*4+0x40]
; prefetch, 16 packets ahead
    bc  mov         r14d, r15d
; prefetch, 16 packets ahead
    bf  shr         r15, 0x20
; prefetch, 16 packets ahead
    c3  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead
    c9  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    cf  mov         r15, [rdx+r12*4+0x48]
; prefetch, 16 packets ahead
    d4  mov         r14d, r15d
; prefetch, 16 packets ahead
    d7  shr         r15, 0x20
; prefetch, 16 packets ahead
    db  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead
    e1  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    e7  mov         r15, [rdx+r12*4+0x50]
; prefetch, 16 packets ahead
    ec  mov         r14d, r15d
; prefetch, 16 packets ahead
    ef  shr         r15, 0x20
; prefetch, 16 packets ahead
    f3  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead
    f9  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    ff  mov         r15, [rdx+r12*4+0x58]
; prefetch, 16 packets ahead
   104  mov         r14d, r15d
; prefetch, 16 packets ahead
   107  shr         r15, 0x20
; prefetch, 16 packets ahead
   10b  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead
   111  prefetcht0  [rsi+r15+0xc]
; where the packets start
   117  mov         r15, [rdx+r12*4]
; where the packets start
   11b  mov         r14d, r15d
; where the packets start
   11e  shr         r15, 0x20
; 16 header bytes from 12
   122  vmovdqu     xmm15, [rsi+r14+0xc]
; 16 header bytes from 12
   129  vmovdqu     xmm14, [rsi+r15+0xc]
; where the packets start
   130  mov         r15, [rdx+r12*4+0x10]
; where the packets start
   135  mov         r14d, r15d
; where the packets start
   138  shr         r15, 0x20
; 16 header bytes from 12
   13c  vinserti128 ymm15, ymm15, [rsi+r14+0xc], 1
; 16 header bytes from 12
   144  vinserti128 ymm14, ymm14, [rsi+r15+0xc], 1
; columns of the window from 12
   14c  vshufps     ymm15, ymm15, ymm14, 0x88
; where the packets start
   152  mov         r15, [rdx+r12*4+8]
; where the packets start
   157  mov         r14d, r15d
; where the packets start
   15a  shr         r15, 0x20
; 16 header bytes from 12
   15e  vmovdqu     xmm14, [rsi+r14+0xc]
; 16 header bytes from 12
   165  vmovdqu     xmm13, [rsi+r15+0xc]
; where the packets start
   16c  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   171  mov         r14d, r15d
; where the packets start
   174  shr         r15, 0x20
; 16 header bytes from 12
   178  vinserti128 ymm14, ymm14, [rsi+r14+0xc], 1
; 16 header bytes from 12
   180  vinserti128 ymm13, ymm13, [rsi+r15+0xc], 1
; columns of the window from 12
   188  vshufps     ymm14, ymm14, ymm13, 0x88
; columns of the window from 12
   18e  vshufps     ymm13, ymm15, ymm14, 0x88
; columns of the window from 12
   194  vshufps     ymm15, ymm15, ymm14, 0xdd
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   19a  vpand       ymm15, ymm15, ymm2
; prefetch, 16 packets ahead [+1]
   19e  mov         r15, [rdx+r12*4+0x60]
; prefetch, 16 packets ahead [+1]
   1a3  mov         r14d, r15d
; prefetch, 16 packets ahead [+1]
   1a6  shr         r15, 0x20
; prefetch, 16 packets ahead [+1]
   1aa  prefetcht0  [rsi+r14+0xc]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   1b0  vpcmpeqd    ymm15, ymm15, ymm3
; prefetch, 16 packets ahead [+1]
   1b4  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+1]
   1ba  mov         r15, [rdx+r12*4+0x68]
; prefetch, 16 packets ahead [+1]
   1bf  mov         r14d, r15d
; prefetch, 16 packets ahead [+1]
   1c2  shr         r15, 0x20
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   1c6  vpslld      ymm13, ymm13, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   1cc  vpcmpeqd    ymm13, ymm13, ymm5
; prefetch, 16 packets ahead [+1]
   1d0  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead [+1]
   1d6  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+1]
   1dc  mov         r15, [rdx+r12*4+0x70]
; prefetch, 16 packets ahead [+1]
   1e1  mov         r14d, r15d
; prefetch, 16 packets ahead [+1]
   1e4  shr         r15, 0x20
; prefetch, 16 packets ahead [+1]
   1e8  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead [+1]
   1ee  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+1]
   1f4  mov         r15, [rdx+r12*4+0x78]
; prefetch, 16 packets ahead [+1]
   1f9  mov         r14d, r15d
; prefetch, 16 packets ahead [+1]
   1fc  shr         r15, 0x20
; prefetch, 16 packets ahead [+1]
   200  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead [+1]
   206  prefetcht0  [rsi+r15+0xc]
; where the packets start [+1]
   20c  mov         r15, [rdx+r12*4+0x20]
; where the packets start [+1]
   211  mov         r14d, r15d
; where the packets start [+1]
   214  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   218  vmovdqu     xmm6, [rsi+r14+0xc]
; 16 header bytes from 12 [+1]
   21f  vmovdqu     xmm7, [rsi+r15+0xc]
; where the packets start [+1]
   226  mov         r15, [rdx+r12*4+0x30]
; where the packets start [+1]
   22b  mov         r14d, r15d
; where the packets start [+1]
   22e  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   232  vinserti128 ymm6, ymm6, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+1]
   23a  vinserti128 ymm7, ymm7, [rsi+r15+0xc], 1
; columns of the window from 12 [+1]
   242  vshufps     ymm6, ymm6, ymm7, 0x88
; where the packets start [+1]
   247  mov         r15, [rdx+r12*4+0x28]
; where the packets start [+1]
   24c  mov         r14d, r15d
; where the packets start [+1]
   24f  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   253  vmovdqu     xmm7, [rsi+r14+0xc]
; 16 header bytes from 12 [+1]
   25a  vmovdqu     xmm12, [rsi+r15+0xc]
; where the packets start [+1]
   261  mov         r15, [rdx+r12*4+0x38]
; where the packets start [+1]
   266  mov         r14d, r15d
; where the packets start [+1]
   269  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   26d  vinserti128 ymm7, ymm7, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+1]
   275  vinserti128 ymm12, ymm12, [rsi+r15+0xc], 1
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   27d  vpminud     ymm14, ymm0, [rcx+r12*4]
; columns of the window from 12 [+1]
   283  vshufps     ymm7, ymm7, ymm12, 0x88
; columns of the window from 12 [+1]
   289  vshufps     ymm12, ymm6, ymm7, 0x88
   28e  nop         [rax+0x100]
   295  nop         [rax+0x100]
   29c  nop         [rax]
   29f  nop
; predicated: kernel
; columns of the window from 12 [+1]
L4:
   2a0  vshufps     ymm6, ymm6, ymm7, 0xdd
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   2a5  vpand       ymm6, ymm6, ymm2
; prefetch, 16 packets ahead [+2]
   2a9  mov         r15, [rdx+r12*4+0x80]
; prefetch, 16 packets ahead [+2]
   2b1  mov         r14d, r15d
; prefetch, 16 packets ahead [+2]
   2b4  shr         r15, 0x20
; prefetch, 16 packets ahead [+2]
   2b8  prefetcht0  [rsi+r14+0xc]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   2be  vpcmpgtd    ymm7, ymm14, ymm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   2c2  vpcmpeqd    ymm6, ymm6, ymm3
; prefetch, 16 packets ahead [+2]
   2c6  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+2]
   2cc  mov         r15, [rdx+r12*4+0x88]
; prefetch, 16 packets ahead [+2]
   2d4  mov         r14d, r15d
; prefetch, 16 packets ahead [+2]
   2d7  shr         r15, 0x20
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   2db  vpand       ymm15, ymm7, ymm15
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   2e0  vpslld      ymm7, ymm12, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   2e6  vpcmpeqd    ymm7, ymm7, ymm5
; prefetch, 16 packets ahead [+2]
   2ea  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead [+2]
   2f0  prefetcht0  [rsi+r15+0xc]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   2f6  vpand       ymm15, ymm13, ymm15
; verdicts
   2fb  vpand       ymm15, ymm15, ymm1
; prefetch, 16 packets ahead [+2]
   2ff  mov         r15, [rdx+r12*4+0x90]
; prefetch, 16 packets ahead [+2]
   307  mov         r14d, r15d
; prefetch, 16 packets ahead [+2]
   30a  shr         r15, 0x20
; prefetch, 16 packets ahead [+2]
   30e  prefetcht0  [rsi+r14+0xc]
; verdicts
   314  vmovdqu     [r9+r12*4], ymm15
; prefetch, 16 packets ahead [+2]
   31a  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+2]
   320  mov         r15, [rdx+r12*4+0x98]
; prefetch, 16 packets ahead [+2]
   328  mov         r14d, r15d
; prefetch, 16 packets ahead [+2]
   32b  shr         r15, 0x20
; prefetch, 16 packets ahead [+2]
   32f  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead [+2]
   335  prefetcht0  [rsi+r15+0xc]
; where the packets start [+2]
   33b  mov         r15, [rdx+r12*4+0x40]
; where the packets start [+2]
   340  mov         r14d, r15d
; where the packets start [+2]
   343  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   347  vmovdqu     xmm15, [rsi+r14+0xc]
; 16 header bytes from 12 [+2]
   34e  vmovdqu     xmm14, [rsi+r15+0xc]
; where the packets start [+2]
   355  mov         r15, [rdx+r12*4+0x50]
; where the packets start [+2]
   35a  mov         r14d, r15d
; where the packets start [+2]
   35d  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   361  vinserti128 ymm15, ymm15, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+2]
   369  vinserti128 ymm14, ymm14, [rsi+r15+0xc], 1
; columns of the window from 12 [+2]
   371  vshufps     ymm15, ymm15, ymm14, 0x88
; where the packets start [+2]
   377  mov         r15, [rdx+r12*4+0x48]
; where the packets start [+2]
   37c  mov         r14d, r15d
; where the packets start [+2]
   37f  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   383  vmovdqu     xmm14, [rsi+r14+0xc]
; 16 header bytes from 12 [+2]
   38a  vmovdqu     xmm13, [rsi+r15+0xc]
; where the packets start [+2]
   391  mov         r15, [rdx+r12*4+0x58]
; where the packets start [+2]
   396  mov         r14d, r15d
; where the packets start [+2]
   399  shr         r15, 0x20
; 16 header bytes from 12 [+2]
   39d  vinserti128 ymm14, ymm14, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+2]
   3a5  vinserti128 ymm13, ymm13, [rsi+r15+0xc], 1
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   3ad  vpminud     ymm12, ymm0, [rcx+r12*4+0x20]
; columns of the window from 12 [+2]
   3b4  vshufps     ymm14, ymm14, ymm13, 0x88
; columns of the window from 12 [+2]
   3ba  vshufps     ymm13, ymm15, ymm14, 0x88
; columns of the window from 12 [+2]
   3c0  vshufps     ymm15, ymm15, ymm14, 0xdd
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   3c6  vpand       ymm15, ymm15, ymm2
; prefetch, 16 packets ahead [+3]
   3ca  mov         r15, [rdx+r12*4+0xa0]
; prefetch, 16 packets ahead [+3]
   3d2  mov         r14d, r15d
; prefetch, 16 packets ahead [+3]
   3d5  shr         r15, 0x20
; prefetch, 16 packets ahead [+3]
   3d9  prefetcht0  [rsi+r14+0xc]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   3df  vpcmpgtd    ymm12, ymm12, ymm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   3e3  vpcmpeqd    ymm15, ymm15, ymm3
; prefetch, 16 packets ahead [+3]
   3e7  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+3]
   3ed  mov         r15, [rdx+r12*4+0xa8]
; prefetch, 16 packets ahead [+3]
   3f5  mov         r14d, r15d
; prefetch, 16 packets ahead [+3]
   3f8  shr         r15, 0x20
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   3fc  vpand       ymm6, ymm12, ymm6
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   400  vpslld      ymm13, ymm13, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   406  vpcmpeqd    ymm13, ymm13, ymm5
; prefetch, 16 packets ahead [+3]
   40a  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead [+3]
   410  prefetcht0  [rsi+r15+0xc]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   416  vpand       ymm6, ymm7, ymm6
; verdicts [+1]
   41a  vpand       ymm6, ymm6, ymm1
; prefetch, 16 packets ahead [+3]
   41e  mov         r15, [rdx+r12*4+0xb0]
; prefetch, 16 packets ahead [+3]
   426  mov         r14d, r15d
; prefetch, 16 packets ahead [+3]
   429  shr         r15, 0x20
; prefetch, 16 packets ahead [+3]
   42d  prefetcht0  [rsi+r14+0xc]
; verdicts [+1]
   433  vmovdqu     [r9+r12*4+0x20], ymm6
; prefetch, 16 packets ahead [+3]
   43a  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+3]
   440  mov         r15, [rdx+r12*4+0xb8]
; prefetch, 16 packets ahead [+3]
   448  mov         r14d, r15d
; prefetch, 16 packets ahead [+3]
   44b  shr         r15, 0x20
; prefetch, 16 packets ahead [+3]
   44f  prefetcht0  [rsi+r14+0xc]
; prefetch, 16 packets ahead [+3]
   455  prefetcht0  [rsi+r15+0xc]
; where the packets start [+3]
   45b  mov         r15, [rdx+r12*4+0x60]
; where the packets start [+3]
   460  mov         r14d, r15d
; where the packets start [+3]
   463  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   467  vmovdqu     xmm6, [rsi+r14+0xc]
; 16 header bytes from 12 [+3]
   46e  vmovdqu     xmm7, [rsi+r15+0xc]
; where the packets start [+3]
   475  mov         r15, [rdx+r12*4+0x70]
; where the packets start [+3]
   47a  mov         r14d, r15d
; where the packets start [+3]
   47d  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   481  vinserti128 ymm6, ymm6, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+3]
   489  vinserti128 ymm7, ymm7, [rsi+r15+0xc], 1
; columns of the window from 12 [+3]
   491  vshufps     ymm6, ymm6, ymm7, 0x88
; where the packets start [+3]
   496  mov         r15, [rdx+r12*4+0x68]
; where the packets start [+3]
   49b  mov         r14d, r15d
; where the packets start [+3]
   49e  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   4a2  vmovdqu     xmm7, [rsi+r14+0xc]
; 16 header bytes from 12 [+3]
   4a9  vmovdqu     xmm12, [rsi+r15+0xc]
; where the packets start [+3]
   4b0  mov         r15, [rdx+r12*4+0x78]
; where the packets start [+3]
   4b5  mov         r14d, r15d
; where the packets start [+3]
   4b8  shr         r15, 0x20
; 16 header bytes from 12 [+3]
   4bc  vinserti128 ymm7, ymm7, [rsi+r14+0xc], 1
; 16 header bytes from 12 [+3]
   4c4  vinserti128 ymm12, ymm12, [rsi+r15+0xc], 1
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+2]
   4cc  vpminud     ymm14, ymm0, [rcx+r12*4+0x40]
; columns of the window from 12 [+3]
   4d3  vshufps     ymm7, ymm7, ymm12, 0x88
; columns of the window from 12 [+3]
   4d9  vshufps     ymm12, ymm6, ymm7, 0x88
   4de  add         r12, 0x10
   4e2  cmp         r12, r13
   4e5  jle         L4
; predicated: epilogue
; columns of the window from 12 [+1]
   4eb  vshufps     ymm6, ymm6, ymm7, 0xdd
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   4f0  vpand       ymm6, ymm6, ymm2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   4f4  vpcmpgtd    ymm7, ymm14, ymm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   4f8  vpcmpeqd    ymm6, ymm6, ymm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   4fc  vpand       ymm15, ymm7, ymm15
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   501  vpslld      ymm7, ymm12, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   507  vpcmpeqd    ymm7, ymm7, ymm5
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   50b  vpand       ymm15, ymm13, ymm15
; verdicts
   510  vpand       ymm15, ymm15, ymm1
; verdicts
   514  vmovdqu     [r9+r12*4], ymm15
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   51a  vpminud     ymm12, ymm0, [rcx+r12*4+0x20]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   521  vpcmpgtd    ymm12, ymm12, ymm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   525  vpand       ymm6, ymm12, ymm6
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6 [+1]
   529  vpand       ymm6, ymm7, ymm6
; verdicts [+1]
   52d  vpand       ymm6, ymm6, ymm1
; verdicts [+1]
   531  vmovdqu     [r9+r12*4+0x20], ymm6
   538  add         r12, 0x10
; predicated: rest
L5:
   53c  mov         r13, [rdi+0x28]
   540  and         r13, 0xfffffffffffffff8
   544  cmp         r12, r13
   547  jae         L7
; predicated: one iteration
; where the packets start
L6:
   54d  mov         r15, [rdx+r12*4]
; where the packets start
   551  mov         r14d, r15d
; where the packets start
   554  shr         r15, 0x20
; 16 header bytes from 12
   558  vmovdqu     xmm15, [rsi+r14+0xc]
; 16 header bytes from 12
   55f  vmovdqu     xmm14, [rsi+r15+0xc]
; where the packets start
   566  mov         r15, [rdx+r12*4+0x10]
; where the packets start
   56b  mov         r14d, r15d
; where the packets start
   56e  shr         r15, 0x20
; 16 header bytes from 12
   572  vinserti128 ymm15, ymm15, [rsi+r14+0xc], 1
; 16 header bytes from 12
   57a  vinserti128 ymm14, ymm14, [rsi+r15+0xc], 1
; where the packets start
   582  mov         r15, [rdx+r12*4+8]
; where the packets start
   587  mov         r14d, r15d
; where the packets start
   58a  shr         r15, 0x20
; 16 header bytes from 12
   58e  vmovdqu     xmm13, [rsi+r14+0xc]
; 16 header bytes from 12
   595  vmovdqu     xmm12, [rsi+r15+0xc]
; where the packets start
   59c  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   5a1  mov         r14d, r15d
; where the packets start
   5a4  shr         r15, 0x20
; 16 header bytes from 12
   5a8  vinserti128 ymm13, ymm13, [rsi+r14+0xc], 1
; 16 header bytes from 12
   5b0  vinserti128 ymm12, ymm12, [rsi+r15+0xc], 1
; columns of the window from 12
   5b8  vshufps     ymm15, ymm15, ymm14, 0x88
; columns of the window from 12
   5be  vshufps     ymm13, ymm13, ymm12, 0x88
; columns of the window from 12
   5c4  vshufps     ymm12, ymm15, ymm13, 0x88
; columns of the window from 12
   5ca  vshufps     ymm15, ymm15, ymm13, 0xdd
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5d0  vpand       ymm15, ymm15, ymm2
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5d4  vpcmpeqd    ymm15, ymm15, ymm3
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5d8  vpminud     ymm13, ymm0, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5de  vpcmpgtd    ymm13, ymm13, ymm4
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5e2  vpand       ymm15, ymm13, ymm15
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5e7  vpslld      ymm12, ymm12, 0x10
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5ed  vpcmpeqd    ymm12, ymm12, ymm5
; captured >= 14 and half[12] == 0x800 and captured >= 24 and byte[23] == 6
   5f1  vpand       ymm15, ymm12, ymm15
; verdicts
   5f6  vpand       ymm15, ymm15, ymm1
; verdicts
   5fa  vmovdqu     [r9+r12*4], ymm15
   600  add         r12, 8
   604  cmp         r12, r13
   607  jb          L6
; predicated: ragged end
L7:
   60d  mov         r13, [rdi+0x28]
   611  cmp         r12, r13
   614  jae         L8
   61a  lea         r12, [r13-8]
   61e  jmp         L6
; exit: registers restored
L8:
   623  vzeroupper
   626  pop         r15
   628  pop         r14
   62a  pop         r13
   62c  pop         r12
   62e  ret
   62f  nop         [rax+0x100]
   636  nop         [rax+0x100]
   63d  nop         [rax]
each:
   640  lea         r10, [rsi+rdx*4]
   644  lea         r8, [r8+rdx*4]
   648  lea         r9, [r9+rdx*4]
   64c  mov         r11, rdx
   64f  neg         r11
; each packet
L9:
   652  mov         esi, [r10+r11*4]
   656  add         rsi, rdi
; b0: captured >= 14
   659  mov         eax, [r8+r11*4]
   65d  cmp         eax, 0xe
   660  jb          L10
; b1: half[12] == 0x800
   666  cmp         word ptr [rsi+0xc], 8
   66b  jne         L10
; b2: captured >= 24
   671  cmp         eax, 0x18
   674  jb          L10
; b3: byte[23] == 6
   67a  cmp         byte ptr [rsi+0x17], 6
   67e  mov         eax, 0
   683  mov         ecx, 0x40000
   688  cmove       eax, ecx
   68b  mov         [r9+r11*4], eax
   68f  inc         r11
   692  jne         L9
   698  ret
; b5: verdict
L10:
   699  mov         dword ptr [r9+r11*4], 0
   6a1  inc         r11
   6a4  jne         L9
   6aa  ret
C1:  ; 32 bytes
   6c0  000000ff 000000ff 000000ff 000000ff 000000ff 000000ff 000000ff 000000ff
C2:  ; 32 bytes
   6e0  00000006 00000006 00000006 00000006 00000006 00000006 00000006 00000006
C3:  ; 32 bytes
   700  ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f
C4:  ; 32 bytes
   720  17000000 17000000 17000000 17000000 17000000 17000000 17000000 17000000
C5:  ; 32 bytes
   740  00000800 00000800 00000800 00000800 00000800 00000800 00000800 00000800
C6:  ; 32 bytes
   760  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
