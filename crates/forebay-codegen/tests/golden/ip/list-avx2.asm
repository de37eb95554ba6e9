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
    19  cmp         dword ptr [r8+r11*4], 0xe
    1e  jb          L2
; b1: half[12] == 0x800
    24  cmp         word ptr [rsi+0xc], 8
    29  mov         eax, 0
    2e  mov         ecx, 0x40000
    33  cmove       eax, ecx
    36  mov         [r9+r11*4], eax
    3a  inc         r11
    3d  jne         L1
    43  ret
; b3: verdict
L2:
    44  mov         dword ptr [r9+r11*4], 0
    4c  inc         r11
    4f  jne         L1
    55  ret
