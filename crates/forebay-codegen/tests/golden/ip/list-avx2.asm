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
    17  cmp         dword ptr [r8+r11*4], 0xe
    1c  jb          L2
; b1: half[12] == 0x800
    22  cmp         word ptr [rsi+0xc], 8
    27  mov         eax, 0
    2c  mov         ecx, 0x40000
    31  cmove       eax, ecx
    34  mov         [r10+r11*4], eax
    38  inc         r11
    3b  cmp         r11, [rdi+0x28]
    3f  jb          L1
    45  ret
; b3: verdict
L2:
    46  mov         dword ptr [r10+r11*4], 0
    4e  inc         r11
    51  cmp         r11, [rdi+0x28]
    55  jb          L1
    5b  ret
