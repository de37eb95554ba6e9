each:
     0  lea         r10, [rsi+rdx*4]
     4  lea         r8, [r8+rdx*4]
     8  lea         r9, [r9+rdx*4]
     c  mov         r11, rdx
     f  neg         r11
    12  lea         rcx, [r11+0x10]
    16  xor         eax, eax
    18  test        rcx, rcx
    1b  cmovg       rcx, rax
    1f  mov         rax, r11
L1:
    22  mov         edx, [r10+rax*4]
    26  prefetcht0  [rdi+rdx+0xc]
    2b  add         rax, 1
    2f  cmp         rax, rcx
    32  jl          L1
; each packet
L2:
    38  mov         rax, r11
    3b  add         rax, 0x10
    42  jns         L3
    48  mov         ecx, [r10+rax*4]
    4c  prefetcht0  [rdi+rcx+0xc]
L3:
    51  mov         esi, [r10+r11*4]
    55  add         rsi, rdi
; b0: captured >= 14
    58  cmp         dword ptr [r8+r11*4], 0xe
    5d  jb          L4
; b1: half[12] == 0x800
    63  cmp         word ptr [rsi+0xc], 8
    68  mov         eax, 0
    6d  mov         ecx, 0x40000
    72  cmove       eax, ecx
    75  mov         [r9+r11*4], eax
    79  inc         r11
    7c  jne         L2
    82  ret
; b3: verdict
L4:
    83  mov         dword ptr [r9+r11*4], 0
    8b  inc         r11
    8e  jne         L2
    94  ret
