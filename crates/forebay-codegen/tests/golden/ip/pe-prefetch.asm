; entry: registers saved
batch:
     0  push        rbp
     1  push        r12
     3  push        r13
     5  push        r14
     7  push        r15
; predicated: set-up
     9  vmovdqu     ymm0, [C2]  ; 8 times 0x7fffffff
    11  vmovdqu     ymm1, [C4]  ; 8 times 0x00040000
    19  vmovdqu     ymm2, [C1]  ; 8 times 0x00080000
    21  vmovdqu     ymm3, [C3]  ; 8 times 0x0000000d
    29  mov         rsi, [rdi]
    2d  mov         rdx, [rdi+8]
    31  mov         rcx, [rdi+0x10]
    35  mov         r9, [rdi+0x20]
; predicated: prefetch of the first packets
    39  mov         r13, [rdi+0x28]
    3d  cmp         r13, 0x20
    41  jl          L1
    47  mov         r13, 0x10
L1:
    4e  sub         r13, 4
    52  jl          L3
    58  xor         r12d, r12d
L2:
    5b  mov         eax, [rdx+r12*4]
    5f  prefetcht0  [rsi+rax+0xc]
    64  mov         eax, [rdx+r12*4+4]
    69  prefetcht0  [rsi+rax+0xc]
    6e  mov         eax, [rdx+r12*4+8]
    73  prefetcht0  [rsi+rax+0xc]
    78  mov         eax, [rdx+r12*4+0xc]
    7d  prefetcht0  [rsi+rax+0xc]
    82  add         r12, 4
    86  cmp         r12, r13
    89  jle         L2
L3:
    8f  xor         r12d, r12d
    92  mov         r13, [rdi+0x28]
    96  add         r13, 0xfffffffffffffff0
    9a  and         r13, 0xfffffffffffffff8
    9e  sub         r13, 0x10
    a2  jl          L5
; predicated: prologue
; prefetch, 16 packets ahead
    a8  mov         r15, [rdx+r12*4+0x40]
; prefetch, 16 packets ahead
    ad  mov         r14d, r15d
; prefetch, 16 packets ahead
    b0  shr         r15, 0x20
; prefetch, 16 packets ahead
    b4  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    ba  mov         r15, [rdx+r12*4+0x48]
; prefetch, 16 packets ahead
    bf  mov         ebp, r15d
; prefetch, 16 packets ahead
    c2  shr         r15, 0x20
; prefetch, 16 packets ahead
    c6  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead
    cb  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    d1  mov         r15, [rdx+r12*4+0x50]
; prefetch, 16 packets ahead
    d6  mov         ebp, r15d
; prefetch, 16 packets ahead
    d9  shr         r15, 0x20
; prefetch, 16 packets ahead
    dd  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead
    e2  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    e8  mov         r15, [rdx+r12*4+0x58]
; prefetch, 16 packets ahead
    ed  mov         ebp, r15d
; prefetch, 16 packets ahead
    f0  shr         r15, 0x20
; prefetch, 16 packets ahead
    f4  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead
    f9  prefetcht0  [rsi+r15+0xc]
; where the packets start
    ff  mov         r15, [rdx+r12*4]
; where the packets start
   103  mov         ebp, r15d
; where the packets start
   106  shr         r15, 0x20
; 16 header bytes from 12
   10a  vmovdqu     xmm15, [rsi+rbp+0xc]
; 16 header bytes from 12
   110  vmovdqu     xmm14, [rsi+r15+0xc]
; where the packets start
   117  mov         r15, [rdx+r12*4+0x10]
; where the packets start
   11c  mov         ebp, r15d
; where the packets start
   11f  shr         r15, 0x20
; 16 header bytes from 12
   123  vinserti128 ymm15, ymm15, [rsi+rbp+0xc], 1
; 16 header bytes from 12
   12b  vinserti128 ymm14, ymm14, [rsi+r15+0xc], 1
; columns of the window from 12
   133  vshufps     ymm15, ymm15, ymm14, 0
; where the packets start
   139  mov         r15, [rdx+r12*4+8]
; where the packets start
   13e  mov         ebp, r15d
; where the packets start
   141  shr         r15, 0x20
; 16 header bytes from 12
   145  vmovdqu     xmm14, [rsi+rbp+0xc]
; 16 header bytes from 12
   14b  vmovdqu     xmm13, [rsi+r15+0xc]
; where the packets start
   152  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   157  mov         ebp, r15d
; where the packets start
   15a  shr         r15, 0x20
; 16 header bytes from 12
   15e  vinserti128 ymm14, ymm14, [rsi+rbp+0xc], 1
; 16 header bytes from 12
   166  vinserti128 ymm13, ymm13, [rsi+r15+0xc], 1
; prefetch, 16 packets ahead
   16e  prefetcht0  [rsi+r14+0xc]
; columns of the window from 12
   174  vshufps     ymm14, ymm14, ymm13, 0
; columns of the window from 12
   17a  vshufps     ymm15, ymm15, ymm14, 0x88
; captured >= 14 and half[12] == 0x800
   180  vpslld      ymm15, ymm15, 0x10
   186  nop         [rax+0x100]
   18d  nop         [rax+0x100]
   194  nop         [rax+0x100]
   19b  nop         [rax]
   19e  nop
   19f  nop
; predicated: kernel
; captured >= 14 and half[12] == 0x800
L4:
   1a0  vpcmpeqd    ymm15, ymm15, ymm2
; captured >= 14 and half[12] == 0x800
   1a4  vpminud     ymm14, ymm0, [rcx+r12*4]
; prefetch, 16 packets ahead [+1]
   1aa  mov         r15, [rdx+r12*4+0x60]
; prefetch, 16 packets ahead [+1]
   1af  mov         r14d, r15d
; prefetch, 16 packets ahead [+1]
   1b2  shr         r15, 0x20
; captured >= 14 and half[12] == 0x800
   1b6  vpcmpgtd    ymm14, ymm14, ymm3
; captured >= 14 and half[12] == 0x800
   1ba  vpand       ymm15, ymm14, ymm15
; prefetch, 16 packets ahead [+1]
   1bf  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+1]
   1c5  mov         r15, [rdx+r12*4+0x68]
; prefetch, 16 packets ahead [+1]
   1ca  mov         ebp, r15d
; prefetch, 16 packets ahead [+1]
   1cd  shr         r15, 0x20
; verdicts
   1d1  vpand       ymm15, ymm15, ymm1
; verdicts
   1d5  vmovdqu     [r9+r12*4], ymm15
; prefetch, 16 packets ahead [+1]
   1db  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead [+1]
   1e0  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+1]
   1e6  mov         r15, [rdx+r12*4+0x70]
; prefetch, 16 packets ahead [+1]
   1eb  mov         ebp, r15d
; prefetch, 16 packets ahead [+1]
   1ee  shr         r15, 0x20
; prefetch, 16 packets ahead [+1]
   1f2  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead [+1]
   1f7  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead [+1]
   1fd  mov         r15, [rdx+r12*4+0x78]
; prefetch, 16 packets ahead [+1]
   202  mov         ebp, r15d
; prefetch, 16 packets ahead [+1]
   205  shr         r15, 0x20
; prefetch, 16 packets ahead [+1]
   209  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead [+1]
   20e  prefetcht0  [rsi+r15+0xc]
; where the packets start [+1]
   214  mov         r15, [rdx+r12*4+0x20]
; where the packets start [+1]
   219  mov         ebp, r15d
; where the packets start [+1]
   21c  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   220  vmovdqu     xmm15, [rsi+rbp+0xc]
; 16 header bytes from 12 [+1]
   226  vmovdqu     xmm14, [rsi+r15+0xc]
; where the packets start [+1]
   22d  mov         r15, [rdx+r12*4+0x30]
; where the packets start [+1]
   232  mov         ebp, r15d
; where the packets start [+1]
   235  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   239  vinserti128 ymm15, ymm15, [rsi+rbp+0xc], 1
; 16 header bytes from 12 [+1]
   241  vinserti128 ymm14, ymm14, [rsi+r15+0xc], 1
; columns of the window from 12 [+1]
   249  vshufps     ymm15, ymm15, ymm14, 0
; where the packets start [+1]
   24f  mov         r15, [rdx+r12*4+0x28]
; where the packets start [+1]
   254  mov         ebp, r15d
; where the packets start [+1]
   257  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   25b  vmovdqu     xmm14, [rsi+rbp+0xc]
; 16 header bytes from 12 [+1]
   261  vmovdqu     xmm13, [rsi+r15+0xc]
; where the packets start [+1]
   268  mov         r15, [rdx+r12*4+0x38]
; where the packets start [+1]
   26d  mov         ebp, r15d
; where the packets start [+1]
   270  shr         r15, 0x20
; 16 header bytes from 12 [+1]
   274  vinserti128 ymm14, ymm14, [rsi+rbp+0xc], 1
; 16 header bytes from 12 [+1]
   27c  vinserti128 ymm13, ymm13, [rsi+r15+0xc], 1
; prefetch, 16 packets ahead [+1]
   284  prefetcht0  [rsi+r14+0xc]
; columns of the window from 12 [+1]
   28a  vshufps     ymm14, ymm14, ymm13, 0
; columns of the window from 12 [+1]
   290  vshufps     ymm15, ymm15, ymm14, 0x88
; captured >= 14 and half[12] == 0x800 [+1]
   296  vpslld      ymm15, ymm15, 0x10
   29c  add         r12, 8
   2a0  cmp         r12, r13
   2a3  jle         L4
; predicated: epilogue
; captured >= 14 and half[12] == 0x800
   2a9  vpcmpeqd    ymm15, ymm15, ymm2
; captured >= 14 and half[12] == 0x800
   2ad  vpminud     ymm14, ymm0, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800
   2b3  vpcmpgtd    ymm14, ymm14, ymm3
; captured >= 14 and half[12] == 0x800
   2b7  vpand       ymm15, ymm14, ymm15
; verdicts
   2bc  vpand       ymm15, ymm15, ymm1
; verdicts
   2c0  vmovdqu     [r9+r12*4], ymm15
   2c6  add         r12, 8
; predicated: rest
L5:
   2ca  mov         r13, [rdi+0x28]
   2ce  and         r13, 0xfffffffffffffff8
   2d2  cmp         r12, r13
   2d5  jae         L7
; predicated: one iteration
; where the packets start
L6:
   2db  mov         r15, [rdx+r12*4]
; where the packets start
   2df  mov         r14d, r15d
; where the packets start
   2e2  shr         r15, 0x20
; 16 header bytes from 12
   2e6  vmovdqu     xmm15, [rsi+r14+0xc]
; 16 header bytes from 12
   2ed  vmovdqu     xmm14, [rsi+r15+0xc]
; where the packets start
   2f4  mov         r15, [rdx+r12*4+0x10]
; where the packets start
   2f9  mov         r14d, r15d
; where the packets start
   2fc  shr         r15, 0x20
; 16 header bytes from 12
   300  vinserti128 ymm15, ymm15, [rsi+r14+0xc], 1
; 16 header bytes from 12
   308  vinserti128 ymm14, ymm14, [rsi+r15+0xc], 1
; where the packets start
   310  mov         r15, [rdx+r12*4+8]
; where the packets start
   315  mov         r14d, r15d
; where the packets start
   318  shr         r15, 0x20
; 16 header bytes from 12
   31c  vmovdqu     xmm13, [rsi+r14+0xc]
; 16 header bytes from 12
   323  vmovdqu     xmm12, [rsi+r15+0xc]
; where the packets start
   32a  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   32f  mov         r14d, r15d
; where the packets start
   332  shr         r15, 0x20
; 16 header bytes from 12
   336  vinserti128 ymm13, ymm13, [rsi+r14+0xc], 1
; 16 header bytes from 12
   33e  vinserti128 ymm12, ymm12, [rsi+r15+0xc], 1
; columns of the window from 12
   346  vshufps     ymm15, ymm15, ymm14, 0
; columns of the window from 12
   34c  vshufps     ymm13, ymm13, ymm12, 0
; columns of the window from 12
   352  vshufps     ymm15, ymm15, ymm13, 0x88
; captured >= 14 and half[12] == 0x800
   358  vpslld      ymm15, ymm15, 0x10
; captured >= 14 and half[12] == 0x800
   35e  vpcmpeqd    ymm15, ymm15, ymm2
; captured >= 14 and half[12] == 0x800
   362  vpminud     ymm13, ymm0, [rcx+r12*4]
; captured >= 14 and half[12] == 0x800
   368  vpcmpgtd    ymm13, ymm13, ymm3
; captured >= 14 and half[12] == 0x800
   36c  vpand       ymm15, ymm13, ymm15
; verdicts
   371  vpand       ymm15, ymm15, ymm1
; verdicts
   375  vmovdqu     [r9+r12*4], ymm15
   37b  add         r12, 8
   37f  cmp         r12, r13
   382  jb          L6
; predicated: ragged end
L7:
   388  mov         r13, [rdi+0x28]
   38c  cmp         r12, r13
   38f  jae         L8
   395  lea         r12, [r13-8]
   399  jmp         L6
; exit: registers restored
L8:
   39e  vzeroupper
   3a1  pop         r15
   3a3  pop         r14
   3a5  pop         r13
   3a7  pop         r12
   3a9  pop         rbp
   3aa  ret
   3ab  nop         [rax+0x100]
   3b2  nop         [rax+0x100]
   3b9  nop         [rax+0x100]
each:
   3c0  lea         r10, [rsi+rdx*4]
   3c4  lea         r8, [r8+rdx*4]
   3c8  lea         r9, [r9+rdx*4]
   3cc  mov         r11, rdx
   3cf  neg         r11
; each packet
L9:
   3d2  mov         esi, [r10+r11*4]
   3d6  add         rsi, rdi
; b0: captured >= 14
   3d9  cmp         dword ptr [r8+r11*4], 0xe
   3de  jb          L10
; b1: half[12] == 0x800
   3e4  cmp         word ptr [rsi+0xc], 8
   3e9  mov         eax, 0
   3ee  mov         ecx, 0x40000
   3f3  cmove       eax, ecx
   3f6  mov         [r9+r11*4], eax
   3fa  inc         r11
   3fd  jne         L9
   403  ret
; b3: verdict
L10:
   404  mov         dword ptr [r9+r11*4], 0
   40c  inc         r11
   40f  jne         L9
   415  ret
C1:  ; 32 bytes
   440  00000800 00000800 00000800 00000800 00000800 00000800 00000800 00000800
C2:  ; 32 bytes
   460  ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f ffffff7f
C3:  ; 32 bytes
   480  0d000000 0d000000 0d000000 0d000000 0d000000 0d000000 0d000000 0d000000
C4:  ; 32 bytes
   4a0  00000400 00000400 00000400 00000400 00000400 00000400 00000400 00000400
