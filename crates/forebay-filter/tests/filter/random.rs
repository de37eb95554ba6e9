//! Random programs on random packets: the verdict is libpcap's.

use forebay_filter::program::instruction::ANCILLARY;
use forebay_filter::{Instruction, Profile, Program};
use proptest::prelude::*;

use crate::support::instruction as i;
use crate::support::libpcap::Oracle;

/// Constants near the lengths of the packets, small, and extreme.
fn constant() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => 0_u32..48,
        1 => prop_oneof![Just(0xff), Just(0xffff), Just(u32::MAX), Just(1 << 31)],
        1 => (0_u32..64).prop_map(|n| ANCILLARY + n),
        1 => (0_u32..48).prop_map(|n| n.wrapping_neg()),
        1 => any::<u32>(),
    ]
}

/// An instruction that neither returns nor jumps unconditionally. Constant
/// shifts stay below 32: C leaves libpcap's result undefined above.
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
        1 => (shifts, 0_u32..32).prop_map(|(code, k)| i(code, 0, 0, k)),
        1 => (divisions, constant()).prop_map(|(code, k)| i(code, 0, 0, k.max(1))),
        5 => (branches, 0_u8..6, 0_u8..6, constant()).prop_map(|(code, jt, jf, k)| i(code, jt, jf, k)),
        1 => (0_u32..6).prop_map(|k| i(0x05, 0, 0, k)),
    ]
}

/// Programs that store to every cell first, as older libpcap does not clear
/// them, and end with returns that take up the last jumps.
pub fn program() -> impl Strategy<Value = Vec<Instruction>> {
    prop::collection::vec(instruction(), 1..40).prop_map(|body| {
        let stores = (0..16).map(|cell| i(0x02, 0, 0, cell));
        let returns = (0..8).map(|n| i(if n % 2 == 0 { 0x16 } else { 0x06 }, 0, 0, n));
        stores.chain(body).chain(returns).collect()
    })
}

/// Programs whose unconditional jumps may lead back.
pub fn looping_program() -> impl Strategy<Value = Vec<Instruction>> {
    let back = (0_usize..40, 0_usize..40);
    (program(), prop::collection::vec(back, 1..4)).prop_map(|(mut program, jumps)| {
        for (at, target) in jumps {
            // The last instructions stay returns.
            let (at, target) = (at % (program.len() - 8), target % (program.len() - 8));
            let distance = (target as u32).wrapping_sub(at as u32 + 1);
            program[at] = i(0x05, 0, 0, distance);
        }
        program
    })
}

/// Bytes among which comparisons succeed now and then.
pub fn packet() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![0_u8..4, 0_u8..48, any::<u8>()], 0..64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn verdicts_equal_libpcaps(
        program in program(),
        packets in prop::collection::vec((packet(), any::<u32>()), 1..20),
    ) {
        let verified = Program::verify(&program, Profile::Libpcap).unwrap();
        let oracle = Oracle::new(&program);
        for (packet, wire_len) in packets {
            prop_assert_eq!(
                verified.run(&packet, wire_len),
                oracle.run(&packet, wire_len),
                "{} on {:?}", verified.listing(), packet
            );
        }
    }
}
