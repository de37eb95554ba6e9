//! Filters that once went wrong, each in a corner of its own.

use forebay_filter::{Instruction, Profile, Program, compile};
use forebay_jit::Packets;
use forebay_packet::LinkType;

use crate::edges::at_both_ends;
use crate::filters::{Case, ways};
use crate::support::corpus::Captured;
use crate::support::guarded::Guarded;

const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Compares all ways to compile `program` on packets without a byte between
/// them, at both ends of memory beyond which there is none.
fn agree(name: &str, program: Program, packets: &[Vec<u8>]) {
    let captured = |bytes: &Vec<u8>| Captured { bytes: bytes.clone(), wire_len: 80 };
    let packets: Vec<Captured> = packets.iter().map(captured).collect();
    let mut memory = Guarded::new(8);
    let tables = at_both_ends(&mut memory, &packets.iter().collect::<Vec<_>>());
    let packets = Packets::new(memory.bytes(), &tables.offset, &tables.cap_len, &tables.wire_len);
    let packets = packets.unwrap();
    let case = Case::new(name, program, &ways());
    let truth = case.truth(&packets);
    assert!(truth.iter().any(|&verdict| verdict != truth[0]), "{name} tells none apart");
    case.check(&packets, &truth);
}

/// Its bytes lie in five times 16, of which the last by itself: whole vectors of
/// each packet would reach past what the filter looks at.
#[test]
fn bytes_in_part_of_a_vector() {
    let expression = "ether[0:4] = 0x01010101 and ether[1:4] = 0x01010101 and \
                      ether[2:4] = 0x01010101 and ether[3:4] = 0x01010101 and ether[16] = 1 and \
                      ether[32] = 1 and ether[48] = 1 and ether[64] = 1";
    let packet = |n: usize| {
        let mut bytes = vec![1; 80];
        if !n.is_multiple_of(3) {
            bytes[[0, 3, 6, 16, 32, 48, 64][n % 7]] = 2;
        }
        bytes.truncate(if n.is_multiple_of(11) { 64 } else { 80 });
        bytes
    };
    let packets: Vec<_> = (0..100).map(packet).collect();
    agree(expression, compile(expression, LinkType::ETHERNET).unwrap(), &packets);
}

/// A set of numbers that a word may be, and of which a byte can be only one.
#[test]
fn constants_that_a_field_cannot_be() {
    let program = [
        i(LOAD_HALF, 0, 0, 12),
        i(JUMP_IF_EQUAL, 0, 2, 0x800),
        i(LOAD_BYTE, 0, 0, 23),
        i(JUMP, 0, 0, 1),
        i(LOAD_WORD, 0, 0, 14),
        i(JUMP_IF_EQUAL, 4, 0, 5),
        i(JUMP_IF_EQUAL, 3, 0, 0x106),
        i(JUMP_IF_EQUAL, 2, 0, 0x207),
        i(JUMP_IF_EQUAL, 1, 0, 0x308),
        i(RETURN, 0, 0, 0),
        i(RETURN, 0, 0, 1),
    ];
    let packet = |n: usize| {
        let mut bytes = vec![0; 60];
        bytes[12..14].copy_from_slice(&[8, (n % 2) as u8]);
        bytes[16..18].copy_from_slice(&[[0, 1, 2, 3][n / 2 % 4], [5, 6, 7, 8, 9][n % 5]]);
        bytes[23] = (n % 12) as u8;
        bytes
    };
    let packets: Vec<_> = (0..120).map(packet).collect();
    agree("a set", Program::verify(&program, Profile::Libpcap).unwrap(), &packets);
}

/// What looks like the question for a fragment header, in a program that goes
/// backward and never ends for a packet that has one.
#[test]
fn a_loop_behind_the_test_for_fragments() {
    let program = [
        i(LOAD_BYTE, 0, 0, 20),
        i(JUMP_IF_EQUAL, 0, 2, 44),
        i(LOAD_BYTE, 0, 0, 54),
        i(JUMP, 0, 0, -2_i32 as u32),
        i(RETURN, 0, 0, 1),
    ];
    let packets: Vec<_> = (0..60).map(|n| vec![7; n]).collect();
    agree("a loop", Program::verify(&program, Profile::Libpcap).unwrap(), &packets);
}

/// Fragments over IPv6, with the protocol looked for, another, or cut short.
#[test]
fn fragments_over_ip6() {
    for expression in ["udp", "tcp", "udp or ip6[6] = 44", "not udp", "sctp and not tcp"] {
        let packet = |n: usize| {
            let mut bytes = vec![0; 80];
            let ip6 = !n.is_multiple_of(3);
            bytes[12..14].copy_from_slice(if ip6 { &[0x86, 0xdd] } else { &[8, 0] });
            bytes[14] = if ip6 { 0x60 } else { 0x45 };
            bytes[20] = [44, 17, 6, 44][n % 4];
            bytes[23] = [17, 6, 132][n % 5 % 3];
            bytes[54] = [17, 6, 132, 44][n % 7 % 4];
            bytes.truncate([80, 55, 54, 21][n / 5 % 4]);
            bytes
        };
        let packets: Vec<_> = (0..250).map(packet).collect();
        agree(expression, compile(expression, LinkType::ETHERNET).unwrap(), &packets);
    }
}

/// A captured length that no signed number of 32 bits is, which vectors without unsigned comparisons
/// would take for a negative one.
#[test]
fn bytes_beyond_the_greatest_signed_number() {
    for byte in [0x7fff_fffe, 0x7fff_ffff, 0x8000_0000] {
        let program = [
            i(LOAD_HALF, 0, 0, 12),
            i(JUMP_IF_EQUAL, 0, 1, 0x800),
            i(LOAD_BYTE, 0, 0, byte),
            i(RETURN, 0, 0, 1),
        ];
        let packets: Vec<_> = (0..100).map(|n| [8 * u8::from(n % 3 == 0), 0].repeat(30)).collect();
        agree("a byte far away", Program::verify(&program, Profile::Libpcap).unwrap(), &packets);
    }
}

/// Words near the greatest signed number, in the packet and in the filter.
#[test]
fn words_around_the_greatest_signed_number() {
    let words = [0, 1, 0x7fff_fffe, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX];
    let packets: Vec<_> = words.map(|word| word.to_be_bytes().repeat(15)).to_vec();
    // No word is greater than the greatest, and libpcap accepts all with any of all bits.
    let alike = [">", "<=", "&"].map(|test| (test, u32::MAX));
    for number in &words[1..] {
        for test in [">=", ">", "<", "<=", "=", "&"] {
            if alike.contains(&(test, *number)) {
                continue;
            }
            let zero = if test == "&" { " != 0" } else { "" };
            let expression = format!("ether[12:4] {test} {number}{zero}");
            agree(&expression, compile(&expression, LinkType::ETHERNET).unwrap(), &packets);
        }
    }
}
