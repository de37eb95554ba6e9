//! The cBPF verifier and interpreter: a verified program ends on any packet without a
//! panic, and survives printing and parsing.
#![no_main]

use forebay_filter::{Instruction, Profile, Program};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [count, wire_high, wire_low, rest @ ..] = data else { return };
    if let Ok(text) = std::str::from_utf8(rest) {
        let _ = Program::from_text(text, Profile::Libpcap);
    }
    let (code, packet) = rest.split_at(rest.len().min(usize::from(*count) * 8));
    let instructions: Vec<Instruction> = code
        .chunks_exact(8)
        .map(|bytes| Instruction {
            code: u16::from_le_bytes([bytes[0], bytes[1]]),
            jt: bytes[2],
            jf: bytes[3],
            k: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
        .collect();
    let wire_len = u32::from(u16::from_be_bytes([*wire_high, *wire_low]));
    for profile in [Profile::Libpcap, Profile::Kernel] {
        let Ok(program) = Program::verify(&instructions, profile) else { continue };
        let verdict = program.run(packet, wire_len);
        assert_eq!(verdict, program.run(packet, wire_len));
        let again = Program::from_text(&program.ddd(), profile).expect("it was valid before");
        assert_eq!(again.instructions(), program.instructions());
        let _ = program.listing();
    }
});
