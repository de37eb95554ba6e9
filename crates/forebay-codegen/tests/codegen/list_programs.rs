//! The code of back end `list` for random programs of classic BPF, as built and
//! as simplified, on random packets: the verdict is the program's.

use crate::support::{Guarded, Place, Runnable, levels};
use forebay_codegen::code::{Backend, Options};
use forebay_codegen::list;
use forebay_filter::ir::{Function, build, simplify};
use forebay_filter::{Instruction, Profile, Program};
use forebay_packet::random::Random;

/// Bytes before the closed page that packets are made of.
const SPACE: usize = 4096;

/// Loads into both registers, from the packet, from memory, lengths and
/// constants.
const LOADS: [u16; 11] = [0x00, 0x01, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x81, 0xb1];

/// Arithmetic with a constant and with the index register, shifts and division
/// included, and transfers.
const ARITHMETIC: [u16; 23] = [
    0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x84, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c,
    0x5c, 0x6c, 0x7c, 0x9c, 0xac, 0x07, 0x87,
];

const BRANCHES: [u16; 8] = [0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d];

fn constant(random: &mut Random) -> u32 {
    match random.below(10) {
        0 => random.pick(&[0xff, 0xffff, u32::MAX, 1 << 31]),
        1 => (random.below(48) as u32).wrapping_neg(),
        2 => random.next() as u32,
        _ => random.below(48) as u32,
    }
}

fn instruction(random: &mut Random) -> Instruction {
    let k = constant(random);
    let (code, jt, jf, k) = match random.below(20) {
        0..=5 => match random.pick(&LOADS) {
            code @ (0x80 | 0x81) => (code, 0, 0, 0),
            code => (code, 0, 0, k),
        },
        6..=7 => (random.pick(&[0x02, 0x03, 0x60, 0x61]), 0, 0, k % 16),
        8..=12 => match random.pick(&ARITHMETIC) {
            code @ (0x34 | 0x94) => (code, 0, 0, k.max(1)),
            code @ (0x64 | 0x74) => (code, 0, 0, k % 32),
            code => (code, 0, 0, k),
        },
        13..=18 => {
            let (jt, jf) = (random.below(6) as u8, random.below(6) as u8);
            (random.pick(&BRANCHES), jt, jf, k)
        }
        _ => (0x05, 0, 0, random.below(6) as u32),
    };
    Instruction { code, jt, jf, k }
}

/// A program whose last instructions are returns; with `loops`, some jump leads
/// back.
fn program(random: &mut Random, loops: bool) -> Program {
    loop {
        let length = 1 + random.below(60) as usize;
        let mut instructions: Vec<Instruction> = (0..length).map(|_| instruction(random)).collect();
        if loops {
            let (at, target) = (random.below(length as u64), random.below(length as u64));
            let k = (target as u32).wrapping_sub(at as u32 + 1);
            instructions[at as usize] = Instruction { code: 0x05, jt: 0, jf: 0, k };
        }
        let end = |n: u32| Instruction { code: [0x16, 0x06][n as usize % 2], jt: 0, jf: 0, k: n };
        instructions.extend((0..8).map(end));
        if let Ok(program) = Program::verify(&instructions, Profile::Libpcap) {
            return program;
        }
    }
}

fn packet(memory: &mut [u8], random: &mut Random) -> Place {
    let cap_len = random.below(64) as u32;
    let start = SPACE - cap_len as usize;
    for byte in &mut memory[start..] {
        *byte = match random.below(3) {
            0 => random.below(4) as u8,
            1 => random.below(48) as u8,
            _ => random.next() as u8,
        };
    }
    let wire_len = cap_len + random.pick(&[0, 0, 60]);
    Place { offset: start as u32, cap_len, wire_len }
}

fn check(function: &Function, program: &Program, random: &mut Random, memory: &mut [u8]) {
    for isa in levels() {
        let code = list::program(function, &Options::new(Backend::List, isa)).expect("code");
        let code = Runnable::new(&code);
        for _ in 0..12 {
            let place = packet(memory, random);
            let bytes = &memory[place.offset as usize..];
            let expected = program.run(bytes, place.wire_len);
            let verdicts = code.run(memory, &[place]);
            assert_eq!(verdicts, [expected], "at {isa} on {bytes:02x?}:\n{}", program.listing());
        }
    }
}

fn random_programs(seeds: std::ops::Range<u64>, loops: bool) {
    let mut guarded = Guarded::new(SPACE);
    for seed in seeds {
        let mut random = Random::new(seed);
        let program = program(&mut random, loops);
        let function = build::build(&program);
        let mut simpler = function.clone();
        simplify::simplify(&mut simpler);
        check(&function, &program, &mut random, guarded.bytes());
        check(&simpler, &program, &mut random, guarded.bytes());
    }
}

#[test]
fn verdicts_of_random_programs() {
    random_programs(0..600, false);
}

#[test]
fn verdicts_of_random_programs_with_loops() {
    random_programs(10_000..10_200, true);
}
