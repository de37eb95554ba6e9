each:
     0  lea         r10, [rsi+rdx*4]
     4  lea         r8, [r8+rdx*4]
     8  lea         r9, [r9+rdx*4]
     c  mov         r11, rdx
     f  neg         r11
; each packet
L1:
    12  mov         esi, [r10+r11*4]
    16  add         rsi, rdi
; b0: captured >= 14
    19  mov         eax, [r8+r11*4]
    1d  cmp         eax, 0xe
    20  jb          L2
; b1: half[12] == 0x800
    26  cmp         word ptr [rsi+0xc], 8
    2b  jne         L2
; b2: captured >= 24
    31  cmp         eax, 0x18
    34  jb          L2
; b3: byte[23] == 6
    3a  cmp         byte ptr [rsi+0x17], 6
    3e  mov         eax, 0
    43  mov         ecx, 0x40000
    48  cmove       eax, ecx
    4b  mov         [r9+r11*4], eax
    4f  inc         r11
    52  jne         L1
    58  ret
; b5: verdict
L2:
    59  mov         dword ptr [r9+r11*4], 0
    61  inc         r11
    64  jne         L1
    6a  ret
