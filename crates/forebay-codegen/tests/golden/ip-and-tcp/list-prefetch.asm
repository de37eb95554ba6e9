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
    58  mov         eax, [r8+r11*4]
    5c  cmp         eax, 0xe
    5f  jb          L4
; b1: half[12] == 0x800
    65  cmp         word ptr [rsi+0xc], 8
    6a  jne         L4
; b2: captured >= 24
    70  cmp         eax, 0x18
    73  jb          L4
; b3: byte[23] == 6
    79  cmp         byte ptr [rsi+0x17], 6
    7d  mov         eax, 0
    82  mov         ecx, 0x40000
    87  cmove       eax, ecx
    8a  mov         [r9+r11*4], eax
    8e  inc         r11
    91  jne         L2
    97  ret
; b5: verdict
L4:
    98  mov         dword ptr [r9+r11*4], 0
    a0  inc         r11
    a3  jne         L2
    a9  ret
