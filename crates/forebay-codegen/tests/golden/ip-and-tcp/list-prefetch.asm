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
    5c  mov         eax, [r8+r11*4]
    60  cmp         eax, 0xe
    63  jb          L4
; b1: half[12] == 0x800
    69  cmp         word ptr [rsi+0xc], 8
    6e  jne         L4
; b2: captured >= 24
    74  cmp         eax, 0x18
    77  jb          L4
; b3: byte[23] == 6
    7d  cmp         byte ptr [rsi+0x17], 6
    81  mov         eax, 0
    86  mov         ecx, 0x40000
    8b  cmove       eax, ecx
    8e  mov         [r9+r11*4], eax
    92  inc         r11
    95  jne         L2
    9b  ret
; b5: verdict
L4:
    9c  mov         dword ptr [r9+r11*4], 0
    a4  inc         r11
    a7  jne         L2
    ad  ret
