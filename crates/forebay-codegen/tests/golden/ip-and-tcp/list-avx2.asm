each:
     0  mov         r9, [rdi+8]
     4  mov         r8, [rdi+0x10]
     8  mov         r10, [rdi+0x20]
     c  xor         r11d, r11d
; each packet
L1:
     f  mov         esi, [r9+r11*4]
    13  add         rsi, [rdi]
; b0: captured >= 14
    17  mov         eax, [r8+r11*4]
    1b  cmp         eax, 0xe
    1e  jb          L2
; b1: half[12] == 0x800
    24  cmp         word ptr [rsi+0xc], 8
    29  jne         L2
; b2: captured >= 24
    2f  cmp         eax, 0x18
    32  jb          L2
; b3: byte[23] == 6
    38  cmp         byte ptr [rsi+0x17], 6
    3c  mov         eax, 0
    41  mov         ecx, 0x40000
    46  cmove       eax, ecx
    49  mov         [r10+r11*4], eax
    4d  inc         r11
    50  cmp         r11, [rdi+0x28]
    54  jb          L1
    5a  ret
; b5: verdict
L2:
    5b  mov         dword ptr [r10+r11*4], 0
    63  inc         r11
    66  cmp         r11, [rdi+0x28]
    6a  jb          L1
    70  ret
