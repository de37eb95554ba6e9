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
    60  prefetcht0  [rsi+rax+0xc]
    65  mov         eax, [rdx+r12*4+4]
    6a  prefetcht0  [rsi+rax+0xc]
    6f  mov         eax, [rdx+r12*4+8]
    74  prefetcht0  [rsi+rax+0xc]
    79  mov         eax, [rdx+r12*4+0xc]
    7e  prefetcht0  [rsi+rax+0xc]
    83  add         r12, 4
    87  cmp         r12, r13
    8a  jle         L2
L3:
    90  xor         r12d, r12d
    93  mov         r13, [rdi+0x28]
    97  add         r13, 0xfffffffffffffff0
    9b  and         r13, 0xfffffffffffffff8
    9f  sub         r13, 0x10
    a3  jl          L5
; predicated: prologue
; prefetch, 16 packets ahead
    a9  mov         r15, [rdx+r12*4+0x40]
; prefetch, 16 packets ahead
    ae  mov         r14d, r15d
; prefetch, 16 packets ahead
    b1  shr         r15, 0x20
; prefetch, 16 packets ahead
    b5  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    bb  mov         r15, [rdx+r12*4+0x48]
; prefetch, 16 packets ahead
    c0  mov         ebp, r15d
; prefetch, 16 packets ahead
    c3  shr         r15, 0x20
; prefetch, 16 packets ahead
    c7  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead
    cc  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    d2  mov         r15, [rdx+r12*4+0x50]
; prefetch, 16 packets ahead
    d7  mov         ebp, r15d
; prefetch, 16 packets ahead
    da  shr         r15, 0x20
; prefetch, 16 packets ahead
    de  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead
    e3  prefetcht0  [rsi+r15+0xc]
; prefetch, 16 packets ahead
    e9  mov         r15, [rdx+r12*4+0x58]
; prefetch, 16 packets ahead
    ee  mov         ebp, r15d
; prefetch, 16 packets ahead
    f1  shr         r15, 0x20
; prefetch, 16 packets ahead
    f5  prefetcht0  [rsi+rbp+0xc]
; prefetch, 16 packets ahead
    fa  prefetcht0  [rsi+r15+0xc]
; where the packets start
   100  mov         r15, [rdx+r12*4]
; where the packets start
   104  mov         ebp, r15d
; where the packets start
   107  shr         r15, 0x20
; 16 header bytes from 12
   10b  vmovdqu     xmm15, [rsi+rbp+0xc]
; 16 header bytes from 12
   111  vmovdqu     xmm14, [rsi+r15+0xc]
; where the packets start
   118  mov         r15, [rdx+r12*4+0x10]
; where the packets start
   11d  mov         ebp, r15d
; where the packets start
   120  shr         r15, 0x20
; 16 header bytes from 12
   124  vinserti128 ymm15, ymm15, [rsi+rbp+0xc], 1
; 16 header bytes from 12
   12c  vinserti128 ymm14, ymm14, [rsi+r15+0xc], 1
; columns of the window from 12
   134  vshufps     ymm15, ymm15, ymm14, 0
; where the packets start
   13a  mov         r15, [rdx+r12*4+8]
; where the packets start
   13f  mov         ebp, r15d
; where the packets start
   142  shr         r15, 0x20
; 16 header bytes from 12
   146  vmovdqu     xmm14, [rsi+rbp+0xc]
; 16 header bytes from 12
   14c  vmovdqu     xmm13, [rsi+r15+0xc]
; where the packets start
   153  mov         r15, [rdx+r12*4+0x18]
; where the packets start
   158  mov         ebp, r15d
; where the packets start
   15b  shr         r15, 0x20
; 16 header bytes from 12
   15f  vinserti128 ymm14, ymm14, [rsi+rbp+0xc], 1
; 16 header bytes from 12
   167  vinserti128 ymm13, ymm13, [rsi+r15+0xc], 1
; prefetch, 16 packets ahead
   16f  prefetcht0  [rsi+r14+0xc]
; columns of the window from 12
   175  vshufps     ymm14, ymm14, ymm13, 0
; columns of the window from 12
   17b  vshufps     ymm15, ymm15, ymm14, 0x88
; captured >= 14 and half[12] == 0x800
   181  vpslld      ymm15, ymm15, 0x10
   187  nop         [rax+0x100]
   18e  nop         [rax+0x100]
   195  nop         [rax+0x100]
   19c  nop         [rax]
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
