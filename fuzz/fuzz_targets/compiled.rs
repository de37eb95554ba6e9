//! Compiled filters: any program by every back end, at one of the levels that
//! this machine has, gives the interpreter's verdict on any packets.
//!
//! Instructions are taken as they come and made valid one by one, so that few
//! inputs are wasted on programs that the verifier turns down.
#![no_main]

use forebay_filter::{Instruction, Profile, Program};
use forebay_jit::{Backend, Filter, Isa, Options, Packets, cpu};
use libfuzzer_sys::fuzz_target;

/// The code of every instruction there is, and once more those that filters
/// mostly consist of.
const CODES: [u16; 56] = [
    0x00, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x60, 0x80, 0x01, 0x61, 0x81, 0xb1, 0x02, 0x03, 0x04,
    0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c, 0x6c,
    0x7c, 0x9c, 0xac, 0x84, 0x05, 0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d, 0x06, 0x16, 0x07,
    0x87, 0x28, 0x30, 0x20, 0xb1, 0x48, 0x15, 0x15,
];

/// The most packets of one run: two batches, the second not a full one.
const MOST_PACKETS: usize = 300;

fuzz_target!(|data: &[u8]| {
    let [count, choice, wire_high, wire_low, rest @ ..] = data else { return };
    let (code, memory) = rest.split_at(rest.len().min(usize::from(*count) * 8) / 8 * 8);
    let Some(program) = program(code) else { return };
    let levels: Vec<Isa> = Isa::ALL.into_iter().filter(|&isa| isa <= cpu::detect()).collect();
    let isa = levels[usize::from(choice % 4) % levels.len()];
    let packets = 1 + usize::from(choice / 4) * MOST_PACKETS / 64;
    let wire_len = u32::from(u16::from_be_bytes([*wire_high, *wire_low]));
    let tables = tables(memory.len(), packets, wire_len);
    let [offset, cap_len, wire_len] = &tables;
    let packets = Packets::new(memory, offset, cap_len, wire_len).expect("packets in the memory");
    let verdict = |i| program.run(packets.packet(i), packets.wire_len(i));
    let truth: Vec<u32> = (0..packets.len()).map(verdict).collect();
    for backend in Backend::ALL {
        let options = Options::new(backend, Some(isa)).expect("a level of this machine");
        let filter = Filter::compile(&program, &options).expect("every program compiles");
        let mut verdict = vec![0xdead_beef; packets.len()];
        filter.run_batch(packets, &mut verdict);
        assert_eq!(verdict, truth, "{backend} for {isa}:\n{}", program.listing());
        let first = filter.run(packets.packet(0), packets.wire_len(0));
        assert_eq!(first, truth[0], "{backend} for {isa}, alone:\n{}", program.listing());
    }
});

/// A program that is as near to `code` as a valid one can be.
fn program(code: &[u8]) -> Option<Program> {
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
        let room = length - index - 1;
        let within = |skip: u8| (usize::from(skip) % room) as u8;
        (instruction.jt, instruction.jf) = (within(instruction.jt), within(instruction.jf));
        let k = instruction.k;
        instruction.k = match instruction.code {
            0x60 | 0x61 | 0x02 | 0x03 => k % 16,
            0x34 | 0x94 => k.max(1),
            0x05 if (index as u32 + 1).wrapping_add(k) as usize >= length => k % room as u32,
            _ => k,
        };
    }
    // An instruction may still have operands that its code does not allow.
    Program::verify(&instructions, Profile::Libpcap).ok()
}

/// Packets all over a memory of `room` bytes: long and short, at its start and
/// up to its end.
fn tables(room: usize, packets: usize, wire_len: u32) -> [Vec<u32>; 3] {
    let offset = |i: usize| if i % 3 == 0 { 0 } else { i * 7 % (room + 1) };
    let cap_len = |i: usize| {
        let left = room - offset(i);
        if i % 5 < 3 { left } else { (i * 3 % 80).min(left) }
    };
    let wire_len = |i: usize| wire_len.wrapping_add(if i % 4 == 0 { 0 } else { i as u32 });
    [
        (0..packets).map(|i| offset(i) as u32).collect(),
        (0..packets).map(|i| cap_len(i) as u32).collect(),
        (0..packets).map(wire_len).collect(),
    ]
}
