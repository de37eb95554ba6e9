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
    4c  add         rcx, rdi
    4f  prefetcht0  [rcx+0xc]
L3:
    53  mov         esi, [r10+r11*4]
    57  add         rsi, rdi
; b0: captured >= 14
    5a  cmp         dword ptr [r8+r11*4], 0xe
    5f  jb          L4
; b1: half[12] == 0x800
    65  cmp         word ptr [rsi+0xc], 8
    6a  mov         eax, 0
    6f  mov         ecx, 0x40000
    74  cmove       eax, ecx
    77  mov         [r9+r11*4], eax
    7b  inc         r11
    7e  jne         L2
    84  ret
; b3: verdict
L4:
    85  mov         dword ptr [r9+r11*4], 0
    8d  inc         r11
    90  jne         L2
    96  ret
