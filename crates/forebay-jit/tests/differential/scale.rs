//! Filters as large as they come, and a far load: compiled in every way on a
//! stack as threads have it, none may take time that grows faster than the
//! filter or a stack as deep as the filter is long. Those that did took minutes
//! for these, or died.

use std::thread;

use forebay_filter::{Instruction, Profile, Program, compile};
use forebay_jit::{Filter, Isa, Packets, Verified, cpu};
use forebay_packet::LinkType;

use crate::filters::{Case, check, ways};
use crate::support::corpus::{Captured, laid_out};
use crate::support::guarded::{Described, End, GuardedPackets};

/// Bytes of stack that threads have unless they ask for more.
const STACK: usize = 2 << 20;

/// Bytes of code that an instruction or a term of a list may come to: enough
/// for several copies of it, not for one for each other.
const CODE_PER_ITEM: usize = 4096;

const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Makes a function and compiles it by all back ends, for the lowest level and
/// the highest of this machine, on a small stack, and compares their verdicts
/// on packets with the right ones.
fn agree(
    name: &'static str,
    function: impl FnOnce() -> Verified + Send + 'static,
    items: usize,
    packets: Vec<(Captured, u32)>,
) {
    let work = move || {
        let function = function();
        let (packets, truth): (Vec<_>, Vec<_>) = packets.into_iter().unzip();
        let (region, tables) = laid_out(&packets, |i| i * 29 % 64);
        let packets =
            Packets::in_region(&region, &tables.offset, &tables.cap_len, &tables.wire_len);
        let packets = packets.unwrap();
        let mut verdict = vec![0; truth.len()];
        let extremes = [Isa::Scalar, cpu::detect()];
        for way in ways().into_iter().filter(|way| extremes.contains(&way.isa)) {
            let options = way.options();
            let filter = Filter::of_function(&function, &options).unwrap();
            filter.finish().unwrap();
            let size = filter.code().len();
            assert!(size < CODE_PER_ITEM * items, "{name} by {way}: {size} bytes");
            check(name, way, &filter, &packets, &truth, &mut verdict);
        }
    };
    thread::Builder::new().stack_size(STACK).spawn(work).unwrap().join().unwrap();
}

/// The same of a program, on packets of bytes that mostly repeat one of `words`.
fn agree_on_program(name: &'static str, instructions: &[Instruction], words: &[u32]) {
    let program = Program::verify(instructions, Profile::Libpcap).unwrap();
    let mut packets = Vec::new();
    for (n, word) in words.iter().cycle().take(300).enumerate() {
        let mut bytes = word.to_be_bytes().repeat(20);
        bytes.truncate(if n % 7 == 0 { n % 80 } else { 80 });
        bytes.iter_mut().skip(n % 64).step_by(64).for_each(|byte| *byte ^= 4);
        let truth = program.run(&bytes, 80);
        packets.push((Captured { bytes, wire_len: 80 }, truth));
    }
    assert!(packets.iter().any(|packet| packet.1 != packets[0].1), "{name} tells none apart");
    agree(name, move || Verified::of_program(&program).unwrap(), instructions.len(), packets);
}

/// Compares on packets what a list of terms comes to.
fn agree_on_list(name: &'static str, terms: &[String], packets: Vec<(Captured, u32)>) {
    let expression = terms.join(" or ");
    let function = move || Verified::of_expression(&expression, LinkType::ETHERNET).unwrap();
    agree(name, function, terms.len(), packets);
}

/// A UDP packet over IPv6.
fn ip6(source: u128, destination: u128) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// A UDP packet over IPv4.
fn udp(source: u16, destination: u16) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// What a list gives for a packet that it accepts or rejects.
fn with_verdict(bytes: Vec<u8>, accepted: bool) -> (Captured, u32) {
    (Captured { bytes, wire_len: 80 }, if accepted { 262_144 } else { 0 })
}

#[test]
fn three_thousand_hosts_of_ip6() {
    const HOSTS: u128 = 3000;
    let host = |n: u128| 0x2001_0db8 << 96 | ((n * 0x9e37_79b9) & 0xffff_ffff) << 64 | n;
    let term = |n| format!("host {}", std::net::Ipv6Addr::from(host(n)));
    let terms: Vec<_> = (0..HOSTS).map(term).collect();
    let packet = |n| {
        // Parts of two hosts are none.
        let other = host(n) ^ host(n + 1) & 0xffff;
        let (source, accepted) = if n % 3 == 0 { (host(n), true) } else { (other, false) };
        with_verdict(if n % 2 == 0 { ip6(source, 1) } else { ip6(1, source) }, accepted)
    };
    let packets = (0..HOSTS - 1).step_by(11).map(packet).collect();
    agree_on_list("hosts of IPv6", &terms, packets);
}

#[test]
fn two_thousand_ranges_of_ports() {
    const RANGES: u16 = 2000;
    let terms: Vec<_> =
        (0..RANGES).map(|n| format!("portrange {}-{}", 1 + n * 20, 8 + n * 20)).collect();
    let packet = |n: u16| {
        let port = n * 37;
        let accepted = port > 0 && (port - 1) % 20 < 8 && (port - 1) / 20 < RANGES;
        with_verdict(if n.is_multiple_of(2) { udp(port, 0) } else { udp(0, port) }, accepted)
    };
    agree_on_list("ranges of ports", &terms, (0..1770).map(packet).collect());
}

#[test]
fn a_mask_for_each_of_four_thousand_tests() {
    let mut program = Vec::new();
    for n in 1..=4000 {
        program.extend([i(0x20, 0, 0, 26), i(0x54, 0, 0, 0xffff_0000 | n)]);
        program.extend([i(0x15, 0, 1, 0x0a00_0000 | n), i(0x06, 0, 0, n)]);
    }
    program.push(i(0x06, 0, 0, 0));
    agree_on_program("masks", &program, &[0x0000_0a00, 0xffff_0a00, 0x0f00_0a00, 0x0500_0a00]);
}

/// Values that are small as graphs: the first has 2²⁰⁰⁰ paths, the other is
/// 20,000 deep.
#[test]
fn deep_expressions() {
    let ends = [i(0x15, 0, 1, 5), i(0x06, 0, 0, 1), i(0x06, 0, 0, 0)];
    let mut doubled = vec![i(0x30, 0, 0, 0)];
    doubled.extend([i(0x07, 0, 0, 0), i(0x0c, 0, 0, 0)].repeat(2000));
    doubled.extend([i(0x15, 0, 1, 5), ends[2], i(0x06, 0, 0, 2)]);
    // All are 0, but of packets too short for the load.
    agree_on_program("doubled", &doubled, &[0, 0x0505_0505, 0x0100_0000]);
    let mut summed = vec![i(0x30, 0, 0, 0), i(0x07, 0, 0, 0)];
    summed.extend([i(0x0c, 0, 0, 0)].repeat(20_000));
    // 20,001 times one is this.
    summed.extend([i(0x15, 0, 1, 20_001), ends[1], ends[2]]);
    agree_on_program("summed", &summed, &[0, 0x0505_0505, 0x0100_0000]);
}

/// Loads whose place is no signed number of 32 bits, by packets that have no
/// such place and packets that do.
#[test]
fn loads_two_gigabytes_into_a_packet() {
    const FAR: usize = 1 << 31;
    const ROOM: usize = FAR + (16 << 10);
    let mut guarded = GuardedPackets::new(ROOM, 300);
    let memory = guarded.memory(End::High, ROOM);
    for (start, end) in [(0, 16 << 10), (FAR - 64, ROOM)] {
        memory[start..end].iter_mut().zip((1..=16).cycle()).for_each(|(byte, n)| *byte = n);
    }
    for (expression, accepts) in [
        ("ether[0x80000000] = 1", true),
        ("ether[0x80000000] = 17", false),
        ("ether[0x80000000:4] = 0x01020304", true),
        ("ether[0x7ffffffe:4] = 0x0f100102", true),
        ("ether[0x7fffffff:2] = 0x1001", true),
        ("ether[0xffffffff] = 1", false),
        ("ether[0] = 1 or ether[0xfffffff0:4] != 1", true),
        ("ether[ether[0] + 0x7fffffff] = 1", true),
    ] {
        let program = compile(expression, LinkType::ETHERNET).unwrap();
        let case = Case::new(expression, program, &ways());
        for near in [false, true] {
            let offsets: Vec<_> = (0..300).map(|n| if n % 5 == 0 { n } else { 16 * n }).collect();
            let cap_len = |n: u32| match n % 4 {
                _ if near => n % 70,
                0 => FAR as u32 + n % 64,
                1 => FAR as u32 - n % 64,
                _ => FAR as u32 + 4096,
            };
            let cap_lens: Vec<_> = (0..300).map(cap_len).collect();
            let tables = [&offsets[..], &cap_lens, &cap_lens];
            let Described { packets, verdict } = guarded.describe(End::High, ROOM, tables);
            let truth = case.truth(&packets);
            if !near {
                assert_eq!(truth.iter().any(|&verdict| verdict != 0), accepts, "{expression}");
            }
            case.check_in(&packets, &truth, verdict);
        }
    }
}
