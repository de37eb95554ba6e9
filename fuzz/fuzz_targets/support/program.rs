//! Programs from any bytes.
//!
//! Instructions are taken in order and made valid one by one, so that few inputs are wasted
//! on programs that the verifier rejects.

use forebay_filter::{Instruction, Profile, Program};

/// The code of every instruction, with those that are frequent in filters repeated.
const CODES: [u16; 56] = [
    0x00, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x60, 0x80, 0x01, 0x61, 0x81, 0xb1, 0x02, 0x03, 0x04,
    0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c, 0x6c,
    0x7c, 0x9c, 0xac, 0x84, 0x05, 0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d, 0x06, 0x16, 0x07,
    0x87, 0x28, 0x30, 0x20, 0xb1, 0x48, 0x15, 0x15,
];

/// A valid program as close to `code` as possible.
pub fn program(code: &[u8]) -> Option<Program> {
    let mut instructions: Vec<Instruction> = code
        .chunks_exact(8)
        .map(|bytes| Instruction {
            code: u16::from_le_bytes([bytes[0], bytes[1]]),
            jt: bytes[2],
            jf: bytes[3],
            k: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
        .collect();
    instructions.push(Instruction { code: 0x06, jt: 0, jf: 0, k: 1 });
    let length = instructions.len();
    for (index, instruction) in instructions.iter_mut().enumerate().take(length - 1) {
        if !CODES.contains(&instruction.code) {
            instruction.code = CODES[usize::from(instruction.code) % CODES.len()];
        }
        let k = instruction.k;
        instruction.k = match instruction.code {
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0xb1 => displacement(instruction.jt, k),
            0x60 | 0x61 | 0x02 | 0x03 => k % 16,
            0x34 | 0x94 => k.max(1),
            0x05 if (index as u32 + 1).wrapping_add(k) as usize >= length => {
                k % (length - index - 1) as u32
            }
            _ => k,
        };
        let room = length - index - 1;
        let within = |skip: u8| (usize::from(skip) % room) as u8;
        (instruction.jt, instruction.jf) = (within(instruction.jt), within(instruction.jf));
    }
    // An instruction may still have operands that its code does not allow.
    Program::verify(&instructions, Profile::Libpcap).ok()
}

/// The offset of a load: mostly in a header; now and then about 64 Ki, about 2³¹, just
/// below 2³², or anywhere. `choice` is a jump's distance, which loads do not use.
fn displacement(choice: u8, k: u32) -> u32 {
    let near = k % 128;
    match choice % 16 {
        0..=10 => near,
        11 => (1 << 16) - 64 + near,
        12 => (1 << 31) - 64 + near,
        13 => near.wrapping_neg(),
        _ => k,
    }
}
