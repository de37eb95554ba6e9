each:
     0  lea         r10, [rsi+rdx*4]
     4  lea         r8, [r8+rdx*4]
     8  lea         r9, [r9+rdx*4]
     c  mov         r11, rdx
     f  neg         r11
    12  mov         rax, r11
    15  add         rax, 0x10
    1c  jns         L2
L1:
    22  mov         ecx, [r10+rax*4-4]
    27  add         rcx, rdi
    2a  prefetcht0  [rcx+0xc]
    2e  dec         rax
    31  cmp         rax, r11
    34  jne         L1
; each packet
L2:
    3a  mov         rax, r11
    3d  add         rax, 0x10
    44  jns         L3
    4a  mov         ecx, [r10+rax*4]
    4e  add         rcx, rdi
    51  prefetcht0  [rcx+0xc]
L3:
    55  mov         esi, [r10+r11*4]
    59  add         rsi, rdi
; b0: captured >= 14
    5c  cmp         dword ptr [r8+r11*4], 0xe
    61  jb          L4
; b1: half[12] == 0x800
    67  cmp         word ptr [rsi+0xc], 8
    6c  mov         eax, 0
    71  mov         ecx, 0x40000
    76  cmove       eax, ecx
    79  mov         [r9+r11*4], eax
    7d  inc         r11
    80  jne         L2
    86  ret
; b3: verdict
L4:
    87  mov         dword ptr [r9+r11*4], 0
    8f  inc         r11
    92  jne         L2
    98  ret
