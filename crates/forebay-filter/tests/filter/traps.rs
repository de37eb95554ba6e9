//! The traps of classic BPF, each by a program of its own, against libpcap; and
//! the functions made of the programs against the programs.

use forebay_filter::program::instruction::ANCILLARY;
use forebay_filter::{Instruction, Profile, Program, compile};
use forebay_packet::LinkType;

use crate::ir::functions;
use crate::support::instruction as i;
use crate::support::libpcap::Oracle;

const RETURN_A: Instruction = i(0x16, 0, 0, 0);

const fn load_x(k: u32) -> Instruction {
    i(0x01, 0, 0, k)
}

const fn load_a(k: u32) -> Instruction {
    i(0x00, 0, 0, k)
}

fn program(instructions: &[Instruction]) -> Program {
    Program::verify(instructions, Profile::Libpcap).unwrap()
}

/// What a program returns, after its functions were found to return the same.
fn run(program: &Program, packet: &[u8], wire_len: u32) -> u32 {
    let verdict = program.run(packet, wire_len);
    for function in functions(program) {
        assert_eq!(function.run(packet, wire_len), verdict, "{}\n{function}", program.listing());
    }
    verdict
}

/// Our verdict, after libpcap's was found to be the same.
fn verdict(instructions: &[Instruction], packet: &[u8], wire_len: u32) -> u32 {
    let verdict = run(&program(instructions), packet, wire_len);
    assert_eq!(verdict, Oracle::new(instructions).run(packet, wire_len), "{instructions:?}");
    verdict
}

#[test]
fn a_load_out_of_bounds_ends_with_0_whatever_surrounds_it() {
    let packet = [0; 20];
    for (expression, expected) in [
        ("not ip[0] = 1", 0),
        ("not ether[20] = 1", 0),
        ("ether[19] = 0 or ether[20] = 1", 262_144),
        ("ether[20] = 1 or ether[19] = 0", 0),
        ("not ether[16:4] = 1", 262_144),
        ("not ether[17:4] = 1", 0),
    ] {
        let program = compile(expression, LinkType::ETHERNET).unwrap();
        let oracle = Oracle::new(program.instructions());
        let ip = if expression.contains("ip") { [8, 0] } else { [0, 0] };
        let mut packet = packet;
        packet[12..14].copy_from_slice(&ip);
        let length = if expression.contains("ip") { 14 } else { 20 };
        assert_eq!(oracle.run(&packet[..length], 9000), expected, "{expression}");
        assert_eq!(run(&program, &packet[..length], 9000), expected, "{expression}");
    }
}

#[test]
fn loads_reach_the_last_byte_and_no_further() {
    let packet: Vec<u8> = (1..=8).collect();
    for (code, size) in [(0x30, 1), (0x28, 2), (0x20, 4)] {
        for at in 0..=9 {
            let expected = match packet.get(at..at + size) {
                Some(bytes) => bytes.iter().fold(0, |value, &b| value << 8 | u32::from(b)),
                None => 0,
            };
            let k = u32::try_from(at).unwrap();
            let direct = [i(code, 0, 0, k), RETURN_A];
            assert_eq!(verdict(&direct, &packet, 8), expected);
            for x in 0..=k {
                let indirect = [load_x(x), i(code + 0x20, 0, 0, k - x), RETURN_A];
                assert_eq!(verdict(&indirect, &packet, 8), expected);
            }
        }
    }
}

#[test]
fn indirect_offsets_do_not_wrap() {
    let packet = [7; 16];
    for code in [0x40, 0x48, 0x50] {
        for (x, k) in [(u32::MAX, 2), (2, u32::MAX), (1 << 31, 1 << 31), (u32::MAX - 3, 4)] {
            assert_eq!(verdict(&[load_x(x), i(code, 0, 0, k), RETURN_A], &packet, 16), 0);
        }
    }
}

#[test]
fn ancillary_loads_find_nothing_in_a_saved_packet() {
    let packet = [7; 64];
    for offset in 0..70 {
        for code in [0x20, 0x28, 0x30] {
            let load = i(code, 0, 0, ANCILLARY + offset);
            assert_eq!(verdict(&[load, i(0x06, 0, 0, 5)], &packet, 64), 0);
        }
    }
    for code in [0x40, 0x48, 0x50] {
        let by_x = [load_x(0), i(code, 0, 0, ANCILLARY + 4), i(0x06, 0, 0, 5)];
        assert_eq!(verdict(&by_x, &packet, 64), 0);
    }
}

#[test]
fn shifts_by_32_or_more_give_0() {
    for (count, left, right) in [(0, 0x8000_0001, 0x8000_0001), (31, 1 << 31, 1), (32, 0, 0)]
        .into_iter()
        .chain([33, 63, 64, 256, u32::MAX].map(|count| (count, 0, 0)))
    {
        let by_x = |code| [load_a(0x8000_0001), load_x(count), i(code, 0, 0, 0), RETURN_A];
        assert_eq!(verdict(&by_x(0x6c), &[], 0), left);
        assert_eq!(verdict(&by_x(0x7c), &[], 0), right);
        // libpcap leaves constant counts of 32 or more undefined.
        let by_k = |code| program(&[load_a(0x8000_0001), i(code, 0, 0, count), RETURN_A]);
        assert_eq!(run(&by_k(0x64), &[], 0), left);
        assert_eq!(run(&by_k(0x74), &[], 0), right);
    }
}

#[test]
fn division_and_remainder_by_zero_end_with_0() {
    for code in [0x3c, 0x9c] {
        let divide = |x| [load_a(9), load_x(x), i(code, 0, 0, 0), i(0x06, 0, 0, 77)];
        assert_eq!(verdict(&divide(0), &[], 0), 0);
        assert_eq!(verdict(&divide(2), &[], 0), 77);
    }
}

#[test]
fn division_is_unsigned() {
    assert_eq!(verdict(&[load_a(u32::MAX), i(0x34, 0, 0, 2), RETURN_A], &[], 0), u32::MAX / 2);
    assert_eq!(verdict(&[load_a(u32::MAX), i(0x94, 0, 0, 16), RETURN_A], &[], 0), 15);
}

#[test]
fn registers_start_at_0() {
    assert_eq!(verdict(&[RETURN_A], &[1], 1), 0);
    assert_eq!(verdict(&[i(0x87, 0, 0, 0), i(0x04, 0, 0, 3), RETURN_A], &[1], 1), 3);
}

/// libpcap before 1.10.4 does not clear its memory, so that it is no oracle.
#[test]
fn memory_starts_at_0_in_every_run() {
    for cell in 0..16 {
        let load = program(&[
            i(0x60, 0, 0, cell),
            i(0x07, 0, 0, 0),
            load_a(9),
            i(0x02, 0, 0, cell),
            i(0x87, 0, 0, 0),
            RETURN_A,
        ]);
        assert_eq!((run(&load, &[1], 1), run(&load, &[1], 1)), (0, 0));
    }
}

#[test]
fn comparisons_are_unsigned() {
    let compare = |code| {
        [load_a(0x8000_0000), load_x(1), i(code, 0, 1, 1), i(0x06, 0, 0, 1), i(0x06, 0, 0, 2)]
    };
    for greater in [0x25, 0x2d, 0x35, 0x3d] {
        assert_eq!(verdict(&compare(greater), &[], 0), 1);
    }
}

#[test]
fn the_header_length_load_keeps_a() {
    let program = [load_a(5), i(0xb1, 0, 0, 1), i(0x0c, 0, 0, 0), RETURN_A];
    assert_eq!(verdict(&program, &[0, 0xf7], 2), 5 + 28);
    assert_eq!(verdict(&program, &[0], 2), 0);
}

#[test]
fn length_is_the_wire_length_and_bounds_are_the_captured_length() {
    let length = [i(0x80, 0, 0, 0), i(0x81, 0, 0, 0), i(0x0c, 0, 0, 0), RETURN_A];
    assert_eq!(verdict(&length, &[0; 4], 1500), 3000);
    assert_eq!(verdict(&[i(0x30, 0, 0, 4), i(0x06, 0, 0, 1)], &[0; 4], 1500), 0);
    let greater = compile("greater 1000", LinkType::ETHERNET).unwrap();
    assert_eq!((run(&greater, &[0; 4], 1000), run(&greater, &[0; 4], 999)), (262_144, 0));
}

#[test]
fn the_result_is_a_length_and_not_cut() {
    assert_eq!(verdict(&[i(0x06, 0, 0, u32::MAX)], &[], 0), u32::MAX);
    assert_eq!(verdict(&[i(0x06, 0, 0, 40)], &[0; 2], 2), 40);
}

/// An IPv6 packet with `headers` extension headers of eight bytes, then TCP.
fn extension_headers(headers: usize) -> Vec<u8> {
    let mut packet = vec![0; 12];
    packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0]);
    packet.extend([if headers == 0 { 6 } else { 0 }, 64]);
    packet.extend([0; 32]);
    for left in (0..headers).rev() {
        packet.extend([if left == 0 { 6 } else { 0 }, 0, 0, 0, 0, 0, 0, 0]);
    }
    packet
}

#[test]
fn protochain_loops_run_to_the_end_of_the_chain() {
    let chain = compile("ip6 protochain 6", LinkType::ETHERNET).unwrap();
    let oracle = Oracle::new(chain.instructions());
    let backward = |i: &Instruction| i.code == 0x05 && i.k.cast_signed() < 0;
    assert!(chain.instructions().iter().any(backward), "{}", chain.listing());
    for headers in [0, 1, 2, 9, 1000, 30_000] {
        let packet = extension_headers(headers);
        let wire_len = u32::try_from(packet.len()).unwrap();
        assert_eq!(run(&chain, &packet, wire_len), 262_144, "{headers}");
        assert_eq!(oracle.run(&packet, wire_len), 262_144, "{headers}");
        // The end of the chain is missing.
        let cut = &packet[..packet.len() - 1 - 4 * headers.min(1)];
        assert_eq!(run(&chain, cut, wire_len), oracle.run(cut, wire_len), "{headers}");
    }
}

#[test]
fn a_loop_without_end_is_ended() {
    let forever = program(&[i(0x05, 0, 0, u32::MAX), i(0x06, 0, 0, 1)]);
    assert_eq!(run(&forever, &[0; 1500], 1500), 0);
}

/// Counts A down from `turns`.
fn counting_loop(turns: u32) -> Vec<Instruction> {
    vec![
        load_a(turns),
        i(0x14, 0, 0, 1),
        i(0x15, 1, 0, 0),
        i(0x05, 0, 0, 0u32.wrapping_sub(3)),
        i(0x06, 0, 0, 1),
    ]
}

#[test]
fn loops_may_turn_once_a_byte_and_4096_times_more() {
    assert_eq!(verdict(&counting_loop(4097), &[], 0), 1);
    assert_eq!(verdict(&counting_loop(4197), &[0; 100], 100), 1);
    assert_eq!(run(&program(&counting_loop(4198)), &[0; 100], 100), 0);
}
