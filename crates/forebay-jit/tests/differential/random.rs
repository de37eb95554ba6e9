//! Random verified programs on random packets, in a region and in memory that
//! begins or ends with them, as do their tables and the verdicts.

use forebay_filter::program::instruction::ANCILLARY;
use forebay_filter::{Instruction, Profile, Program};
use forebay_jit::Packets;
use proptest::prelude::*;

use crate::filters::{Case, ways};
use crate::support::corpus::{Captured, full, laid_out};
use crate::support::guarded::{Described, End, GuardedPackets};

const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Constants near the lengths of the packets, small, and extreme.
fn constant() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => 0_u32..48,
        1 => prop_oneof![Just(0xff), Just(0xffff), Just(u32::MAX), Just(1 << 31)],
        1 => (0_u32..64).prop_map(|n| ANCILLARY + n),
        1 => (0_u32..48).prop_map(u32::wrapping_neg),
        1 => any::<u32>(),
    ]
}

/// Any instruction but a return.
fn instruction() -> impl Strategy<Value = Instruction> {
    let loads = prop::sample::select(vec![
        0x00, 0x01, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x81, 0xb1,
    ]);
    let cells = prop::sample::select(vec![0x02, 0x03, 0x60, 0x61]);
    let arithmetic = prop::sample::select(vec![
        0x04, 0x14, 0x24, 0x44, 0x54, 0xa4, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c, 0x6c, 0x7c, 0x9c,
        0xac, 0x84, 0x07, 0x87,
    ]);
    let shifts = prop::sample::select(vec![0x64, 0x74]);
    let divisions = prop::sample::select(vec![0x34, 0x94]);
    let branches = prop::sample::select(vec![0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d]);
    prop_oneof![
        6 => (loads, constant()).prop_map(|(code, k)| i(code, 0, 0, k)),
        2 => (cells, 0_u32..16).prop_map(|(code, k)| i(code, 0, 0, k)),
        4 => (arithmetic, constant()).prop_map(|(code, k)| i(code, 0, 0, k)),
        1 => (shifts, 0_u32..40).prop_map(|(code, k)| i(code, 0, 0, k)),
        1 => (divisions, constant()).prop_map(|(code, k)| i(code, 0, 0, k.max(1))),
        5 => (branches, 0_u8..6, 0_u8..6, constant())
            .prop_map(|(code, jt, jf, k)| i(code, jt, jf, k)),
        1 => (0_u32..6).prop_map(|k| i(0x05, 0, 0, k)),
    ]
}

/// Any program of forward jumps; the returns at its end take up the last ones.
fn any_program() -> impl Strategy<Value = Vec<Instruction>> {
    prop::collection::vec(instruction(), 1..40).prop_map(|mut program| {
        program.extend((0..8).map(|n| i(if n % 2 == 0 { 0x16 } else { 0x06 }, 0, 0, n)));
        program
    })
}

/// Programs some of whose jumps lead back.
fn looping_program() -> impl Strategy<Value = Vec<Instruction>> {
    let jumps = prop::collection::vec((0_usize..40, 0_usize..40), 1..4);
    (any_program(), jumps).prop_map(|(mut program, jumps)| {
        for (at, target) in jumps {
            // The last instructions stay returns.
            let (at, target) = (at % (program.len() - 8), target % (program.len() - 8));
            program[at] = i(0x05, 0, 0, (target as u32).wrapping_sub(at as u32 + 1));
        }
        program
    })
}

/// Programs of the kind that filters are: loads and tests of what was loaded,
/// and one number returned, or 0.
fn test_program() -> impl Strategy<Value = Vec<Instruction>> {
    let load = prop_oneof![
        4 => (prop::sample::select(vec![0x20_u16, 0x28, 0x30]), 0_u32..60)
            .prop_map(|(code, k)| vec![i(code, 0, 0, k)]),
        1 => (prop::sample::select(vec![0x40_u16, 0x48, 0x50]), 0_u32..20, 0_u32..40)
            .prop_map(|(code, at, k)| vec![i(0xb1, 0, 0, at), i(code, 0, 0, k)]),
        1 => Just(vec![i(0x80, 0, 0, 0)]),
    ];
    let mask = prop_oneof![3 => Just(None), 1 => constant().prop_map(Some)];
    let branch = (prop::sample::select(vec![0x15_u16, 0x25, 0x35, 0x45]), constant());
    let step = (load, mask, branch, any::<(u8, u8)>());
    prop::collection::vec(step, 1..12).prop_map(|steps| {
        let mut program = Vec::new();
        let mut branches = Vec::new();
        for (load, mask, (code, k), skips) in steps {
            program.extend(load);
            program.extend(mask.map(|mask| i(0x54, 0, 0, mask)));
            branches.push((program.len(), skips));
            program.push(i(code, 0, 0, k));
        }
        program.extend([i(0x06, 0, 0, 262_144), i(0x06, 0, 0, 0)]);
        for (at, (jt, jf)) in branches {
            let room = (program.len() - at - 1).min(255) as u8;
            (program[at].jt, program[at].jf) = (jt % room, jf % room);
        }
        program
    })
}

/// Bytes among which comparisons succeed now and then.
fn packet() -> impl Strategy<Value = Captured> {
    let bytes = prop::collection::vec(prop_oneof![0_u8..4, 0_u8..48, any::<u8>()], 0..100);
    (bytes, any::<u32>()).prop_map(|(bytes, wire_len)| Captured { bytes, wire_len })
}

fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(if full() { 10_000 } else { 400 })
}

fn agree(program: &[Instruction], packets: &[Captured], end: End) {
    let program = Program::verify(program, Profile::Libpcap).unwrap();
    let name = program.listing();
    let case = Case::new(&name, program, &ways());
    let (region, tables) = laid_out(packets, |i| i * 29 % 64);
    let [offset, cap_len, wire_len] = [&tables.offset, &tables.cap_len, &tables.wire_len];
    let packets = Packets::in_region(&region, offset, cap_len, wire_len).unwrap();
    let truth = case.truth(&packets);
    case.check(&packets, &truth);
    // The same with no byte to spare, which leaves less to code for batches.
    let memory = region.bytes();
    let mut guarded = GuardedPackets::new(memory.len(), packets.len());
    guarded.memory(end, memory.len()).copy_from_slice(memory);
    let Described { packets, verdict } =
        guarded.describe(end, memory.len(), [offset, cap_len, wire_len]);
    case.check_in(&packets, &truth, verdict);
}

fn end() -> impl Strategy<Value = End> {
    prop::sample::select(vec![End::Low, End::High])
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn programs_of_all_kinds(
        program in any_program(),
        packets in prop::collection::vec(packet(), 1..100),
        end in end(),
    ) {
        agree(&program, &packets, end);
    }

    #[test]
    fn programs_with_loops(
        program in looping_program(),
        packets in prop::collection::vec(packet(), 1..40),
        end in end(),
    ) {
        agree(&program, &packets, end);
    }

    #[test]
    fn programs_of_tests(
        program in test_program(),
        packets in prop::collection::vec(packet(), 1..100),
        end in end(),
    ) {
        agree(&program, &packets, end);
    }
}
