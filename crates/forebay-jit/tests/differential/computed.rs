//! Functions that load bytes at offsets which they compute, as behind headers of any length: lanes do so,
//! too, and read bytes that were not captured.

use std::fmt::Write as _;

use forebay_filter::compile;
use forebay_filter::ir::Function;
use forebay_jit::{Backend, Filter, Isa, Options, Packets, Tally, Verified, cpu};
use forebay_packet::LinkType;
use forebay_packet::random::Random;

use crate::lines::Lines;
use crate::support::corpus::full;
use crate::support::guarded::Guarded;

/// Numbers that bytes of packets have, and constants consist of.
const NUMBERS: [u32; 6] = [0x45, 0x50, 0x80, 0x06, 0xff, 0];

const PAGES: usize = 1;
/// The most bytes of a packet.
const BYTES: usize = 128;
const PACKETS: usize = 160;

#[derive(Default)]
struct Text(Lines);

impl Text {
    /// A block that goes on if `test` holds, and else to an end.
    fn test(&mut self, test: &str, otherwise: &str) {
        let next = self.0.blocks.len() + 1;
        self.0.blocks.push(format!("if {test} then b{next} else {otherwise}"));
    }

    /// Part of an offset: some bits of a byte that a test has made sure of, now and then one at a computed offset.
    fn part(&mut self, random: &mut Random) -> usize {
        if random.index(6) == 0 {
            let (offset, displacement) = (self.part(random), random.index(20));
            self.test(&format!("captured >= v{offset} + {}", displacement + 1), "reject");
            let byte = self.0.value(format!("byte[v{offset} + {displacement}]"));
            return self.0.value(format!("v{byte} & {:#x}", random.pick(&[0x3, 0x1f, 0x50])));
        }
        // The length of an IP header is taken to be 20.
        let (at, mask, shift) = match random.index(4) {
            0 => (14, 0xf, "<< 2"),
            1 => (random.index(40), 0xf0, ">> 2"),
            2 => (random.index(40), 0x3f, ">> 1"),
            _ => (random.index(40), 0x7, "* 6"),
        };
        self.test(&format!("captured >= {}", at + 1), "reject");
        let byte = self.0.value(format!("byte[{at}]"));
        let bits = self.0.value(format!("v{byte} & {mask:#x}"));
        self.0.value(format!("v{bits} {shift}"))
    }

    /// A load at a computed offset, which a test has made sure of, and a test of it.
    fn load(&mut self, random: &mut Random, set: &[u32]) {
        let mut offset = self.part(random);
        if random.index(3) > 0 {
            let other = self.part(random);
            offset = self.0.value(format!("v{offset} + v{other}"));
        }
        let (width, bytes) = random.pick(&[("byte", 1), ("half", 2), ("word", 4)]);
        let displacement = random.index(60);
        let otherwise = random.pick(&["accept", "reject", "reject"]);
        self.test(&format!("captured >= v{offset} + {}", displacement + bytes), otherwise);
        let mut loaded = self.0.value(format!("{width}[v{offset} + {displacement}]"));
        if random.index(4) == 0 {
            loaded = self.0.value(format!("v{loaded} & {:#x}", random.pick(&[0x0f, 0xf0, 0x8040])));
        }
        let number = (0..bytes).fold(0, |number, _| number << 8 | random.pick(&NUMBERS));
        let test = match random.index(5) {
            0 if set.len() > 1 => "in s0".to_owned(),
            1 => format!(">= {number:#x}"),
            2 => format!("& {:#x} != 0", number | 1),
            _ => format!("== {:#x}", random.pick(set) & (u32::MAX >> (32 - 8 * bytes as u32))),
        };
        let ends = random.pick(&[("accept", "next"), ("next", "reject"), ("reject", "next")]);
        let next = format!("b{}", self.0.blocks.len() + 1);
        let [then, otherwise] = [ends.0, ends.1].map(|end| end.replace("next", &next));
        self.0.blocks.push(format!("if v{loaded} {test} then {then} else {otherwise}"));
    }
}

fn function(random: &mut Random) -> Function {
    let mut set: Vec<u32> = (0..1 + random.index(5))
        .map(|_| (0..1 + random.index(4)).fold(0, |all, _| all << 8 | random.pick(&NUMBERS)))
        .collect();
    set.sort_unstable();
    set.dedup();
    let mut text = Text::default();
    if random.index(2) == 0 {
        text.test("captured >= 14", "reject");
        let guard = text.0.value("byte[13]".to_owned());
        text.test(&format!("v{guard} == {:#x}", random.pick(&NUMBERS)), "reject");
    }
    for _ in 0..1 + random.index(2) {
        text.load(random, &set);
    }
    text.0.function(&set)
}

#[test]
fn bytes_at_computed_offsets_give_the_verdicts_of_the_interpreter() {
    let count = if full() { 20_000 } else { 400 };
    let (mut in_lanes, mut told_apart, mut tally) = ([0; 4], 0, Tally::default());
    let mut memory = Guarded::new(PAGES);
    for seed in 0..count {
        let mut random = Random::new(seed);
        let function = function(&mut random);
        let verified =
            Verified::new(function.clone()).unwrap_or_else(|e| panic!("{e}\n{function}"));
        for byte in memory.bytes_mut() {
            let any = random.index(12) == 0;
            *byte = if any { random.next() as u8 } else { random.pick(&NUMBERS) as u8 };
        }
        let end = memory.bytes().len();
        // Some packets end the memory, the others are anywhere.
        let placed: Vec<(u32, u32)> = (0..PACKETS)
            .map(|packet| {
                let length = if random.index(2) == 0 { BYTES } else { random.index(BYTES + 1) };
                let start = if packet % 5 == 0 { end - length } else { random.index(end + 1) };
                (start as u32, length.min(end - start) as u32)
            })
            .collect();
        let (offset, captured): (Vec<u32>, Vec<u32>) = placed.into_iter().unzip();
        let wire: Vec<u32> =
            captured.iter().map(|length| length + random.index(9) as u32).collect();
        let packets = Packets::new(memory.bytes(), &offset, &captured, &wire).unwrap();
        let truth: Vec<u32> =
            (0..PACKETS).map(|i| function.run(packets.packet(i), packets.wire_len(i))).collect();
        told_apart += u64::from(truth.iter().any(|verdict| *verdict != truth[0]));
        for (level, isa) in Isa::ALL.into_iter().enumerate() {
            for form in 0..2 {
                let Ok(mut options) = Options::new(Backend::Pe, Some(isa)) else { continue };
                options.codegen.pe_form = form;
                let filter = Filter::of_function(&verified, &options).unwrap();
                let mut verdicts = vec![7; PACKETS];
                tally += filter.run_batch(&packets, &mut verdicts);
                assert_eq!(verdicts, truth, "seed {seed}, {isa}, form {form}:\n{function}");
                in_lanes[level] += u64::from(form == 0 && filter.backend() == Backend::Pe);
            }
        }
    }
    println!(
        "of {count}, by level, {in_lanes:?} in lanes, {told_apart} tell packets apart: {tally:?}"
    );
    let levels = Isa::ALL.into_iter().zip(in_lanes).skip(1);
    for (isa, in_lanes) in levels.filter(|&(isa, _)| isa <= cpu::detect()) {
        assert!(in_lanes > count * 9 / 10, "{isa}: {in_lanes}");
    }
    assert!(told_apart > count / 2, "{told_apart}");
    assert!(tally.edge > 0 && tally.slow > 0 && tally.batch > tally.slow, "{tally:?}");
}

/// Lanes add offsets in 32 bits. The last packets of so much memory are beyond these, or nearly.
#[test]
fn packets_at_the_end_of_four_gibibytes() {
    let expression = "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420";
    let mut memory = Guarded::new((1 << 20) + 1);
    let mut packet = [0; 60];
    packet[12] = 8;
    (packet[14], packet[23], packet[46]) = (0x45, 6, 0x50);
    packet[54..58].copy_from_slice(b"GET ");
    let mut tables = [vec![0], vec![60], vec![60]];
    for packet in 1..40 {
        tables[0].push(u32::MAX - 60 * packet + 60);
        tables[1].push(60);
        tables[2].push(60);
    }
    for &start in &tables[0] {
        memory.bytes_mut()[start as usize..][..60].copy_from_slice(&packet);
    }
    let packets = Packets::new(memory.bytes(), &tables[0], &tables[1], &tables[2]).unwrap();
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= cpu::detect()) {
        let options = Options::new(Backend::Pe, Some(isa)).unwrap();
        let filter = Filter::of_expression(expression, LinkType::ETHERNET, &options).unwrap();
        let mut verdicts = vec![0; tables[0].len()];
        let tally = filter.run_batch(&packets, &mut verdicts);
        assert!(verdicts.iter().all(|&verdict| verdict > 0), "{isa}: {verdicts:?}");
        assert_eq!(tally.edge > 0, isa > Isa::Scalar, "{isa}: {tally:?}");
    }
}

/// Of more header lengths than there are bits for, none is taken for granted.
#[test]
fn more_assumptions_than_can_be_told_apart() {
    for terms in [32, 33, 40] {
        let mut expression = "(ether[0] = 7 and ip[(ip[0]&0xf)<<2] = 1)".to_owned();
        for term in 1..terms {
            let _ = write!(expression, " or ip[(ip[{term}]&0xf)<<2] = 1");
        }
        // All lengths but the last one are the usual one.
        let mut memory = vec![5_u8; 128 * 128];
        for (i, packet) in memory.chunks_mut(128).enumerate() {
            (packet[0], packet[12], packet[13], packet[14]) = (6, 8, 0, 0x45);
            packet[14 + terms - 1] = (i % 16) as u8;
            (packet[58], packet[62]) = ((i % 2) as u8, (i / 16 % 2) as u8);
        }
        let offset: Vec<u32> = (0..128).map(|packet| packet * 128).collect();
        let length = vec![128; 128];
        let packets = Packets::new(&memory, &offset, &length, &length).unwrap();
        let program = compile(&expression, LinkType::ETHERNET).unwrap();
        let truth: Vec<u32> = (0..128).map(|i| program.run(packets.packet(i), 128)).collect();
        for isa in Isa::ALL.into_iter().filter(|&isa| isa <= cpu::detect()) {
            for backend in [Backend::Pe, Backend::Auto] {
                let options = Options::new(backend, Some(isa)).unwrap();
                let filter = Filter::compile(&program, &options).unwrap();
                filter.finish().unwrap();
                let mut verdicts = vec![7; 128];
                filter.run_batch(&packets, &mut verdicts);
                assert_eq!(verdicts, truth, "{terms} terms, {backend}, {isa}");
            }
        }
    }
}
