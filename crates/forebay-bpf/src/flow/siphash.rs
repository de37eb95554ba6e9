//! SipHash-1-3 of words on the stack, the hash of `forebay_packet::siphash13`.
//!
//! BPF has no rotation, so each takes four instructions; a round has 14 operations and
//! takes 32 instructions. The key is part of the code.

use forebay_packet::HashKey;

use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R5};
use crate::asm::{Alu, Assembler, Register, Size};

/// The state; R0 holds the input word, R5 is for rotations.
const V: [Register; 4] = [R1, R2, R3, R4];

/// Appends code for `dst` = hash of the 64-bit words at these offsets from the frame
/// pointer. Clobbers R0 to R5.
pub(crate) fn emit(asm: &mut Assembler, key: &HashKey, words: &[i16], dst: Register) {
    // The constants of the paper's section 2 (Aumasson and Bernstein, 2012).
    asm.constant(V[0], key.0[0] ^ 0x736f_6d65_7073_6575);
    asm.constant(V[1], key.0[1] ^ 0x646f_7261_6e64_6f6d);
    asm.constant(V[2], key.0[0] ^ 0x6c79_6765_6e65_7261);
    asm.constant(V[3], key.0[1] ^ 0x7465_6462_7974_6573);
    for &word in words {
        asm.load(Size::Double, R0, FP, word);
        compress(asm);
    }
    // The last word has the length in its upper byte.
    asm.constant(R0, (words.len() as u64 * 8) << 56);
    compress(asm);
    asm.alu(Alu::Xor, V[2], 0xff);
    for _ in 0..3 {
        round(asm);
    }
    asm.alu(Alu::Xor, V[0], V[1]);
    asm.alu(Alu::Xor, V[2], V[3]);
    asm.alu(Alu::Xor, V[0], V[2]);
    asm.mov(dst, V[0]);
}

/// Compresses the word in R0.
fn compress(asm: &mut Assembler) {
    asm.alu(Alu::Xor, V[3], R0);
    round(asm);
    asm.alu(Alu::Xor, V[0], R0);
}

fn round(asm: &mut Assembler) {
    let [v0, v1, v2, v3] = V;
    asm.alu(Alu::Add, v0, v1);
    asm.alu(Alu::Add, v2, v3);
    rotate(asm, v1, 13);
    rotate(asm, v3, 16);
    asm.alu(Alu::Xor, v1, v0);
    asm.alu(Alu::Xor, v3, v2);
    rotate(asm, v0, 32);
    asm.alu(Alu::Add, v2, v1);
    asm.alu(Alu::Add, v0, v3);
    rotate(asm, v1, 17);
    rotate(asm, v3, 21);
    asm.alu(Alu::Xor, v1, v2);
    asm.alu(Alu::Xor, v3, v0);
    rotate(asm, v2, 32);
}

/// Rotates left.
fn rotate(asm: &mut Assembler, register: Register, bits: i32) {
    asm.mov(R5, register);
    asm.alu(Alu::Lsh, R5, bits);
    asm.alu(Alu::Rsh, register, 64 - bits);
    asm.alu(Alu::Or, register, R5);
}
