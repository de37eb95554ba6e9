//! Functions whose paths test the same in different places, as those of ports and addresses do:
//! lanes share such tests.

use forebay_codegen::code::{Backend, Isa, Options as Codegen};
use forebay_codegen::compile::compile;
use forebay_filter::ir::Function;
use forebay_filter::ir::text::parse;
use forebay_jit::{Filter, Options, Packets, Verified};
use forebay_packet::random::Random;

use crate::lines::Lines;
use crate::support::corpus::full;

/// Numbers that bytes of packets have, and constants consist of.
const NUMBERS: [u32; 5] = [0, 6, 17, 53, 0x86];

/// Bytes of a packet that tests look at.
const BYTES: usize = 80;

/// A test: the width of its field, where that is, and what follows `v == ` and the like.
type Test = (&'static str, u32, String);

/// A function under construction.
struct Text<'a> {
    random: &'a mut Random,
    lines: Lines,
}

impl Text<'_> {
    fn number(&mut self, bytes: u32) -> u32 {
        (0..bytes).fold(0, |number, _| number << 8 | self.random.pick(&NUMBERS))
    }

    /// Blocks that test the length, then the field, and go to a block or an end.
    fn test(&mut self, (width, offset, test): &Test, then: &str, otherwise: &str) {
        let value = self.lines.value(format!("{width}[{offset}]"));
        let end = offset + bytes_of(width);
        let next = self.lines.blocks.len() + 1;
        self.lines.blocks.push(format!("if captured >= {end} then b{next} else reject"));
        self.lines.blocks.push(format!("if v{value} {test} then {then} else {otherwise}"));
    }

    /// A list of tests at offsets, each of which ends or goes on.
    fn list(&mut self, tests: &[Test], ends: &[u8], shift: u32) {
        for (number, ((width, offset, test), end)) in tests.iter().zip(ends).enumerate() {
            let next = format!("b{}", self.lines.blocks.len() + 2);
            let last = number + 1 == tests.len();
            let (then, otherwise) = match end {
                _ if last => ("accept", "reject"),
                0 => ("accept", &next[..]),
                1 => (&next[..], "reject"),
                _ => ("reject", &next[..]),
            };
            self.test(&(*width, offset + shift, test.clone()), then, otherwise);
        }
    }

    /// Paths on which `tests` are `shift` bytes on, or more by one of `shifts`.
    fn paths(&mut self, guards: &[Test], shifts: &[u32], tests: &[Test], ends: &[u8], shift: u32) {
        let (Some((guard, guards)), Some((further, shifts))) =
            (guards.split_first(), shifts.split_first())
        else {
            // Now and then with tests that no other path has.
            let fewer = self.random.index(4) / 3;
            return self.list(&tests[fewer..], &ends[fewer..], shift);
        };
        let at = self.lines.blocks.len();
        self.test(guard, "then", "otherwise");
        let then = self.lines.blocks.len();
        self.paths(guards, shifts, tests, ends, shift + further);
        let otherwise = self.lines.blocks.len();
        self.paths(guards, shifts, tests, ends, shift);
        let test = &mut self.lines.blocks[at + 1];
        *test = test.replace("then then", &format!("then b{then}"));
        *test = test.replace("else otherwise", &format!("else b{otherwise}"));
    }
}

fn bytes_of(width: &str) -> u32 {
    match width {
        "byte" => 1,
        "half" => 2,
        _ => 4,
    }
}

fn function(random: &mut Random) -> Function {
    let mut text = Text { random, lines: Lines::default() };
    let mut set: Vec<u32> = (0..6).map(|_| text.number(2)).collect();
    set.sort_unstable();
    set.dedup();
    let first = text.random.index(20) as u32;
    let tests: Vec<Test> = (0..2 + text.random.index(4) as u32)
        .map(|number| {
            let width = text.random.pick(&["byte", "half", "half", "word"]);
            let constant = text.number(bytes_of(width));
            let test = match (text.random.index(5), width) {
                (0 | 1, "half") => "in s0".to_owned(),
                (2, _) => format!(">= {constant:#x}"),
                (3, _) if constant > 0 => format!("& {constant:#x} != 0"),
                _ => format!("== {constant:#x}"),
            };
            (width, first + [0, 2, 4, 2, 0][number as usize], test)
        })
        .collect();
    let ends: Vec<u8> = tests.iter().map(|_| text.random.index(4).min(2) as u8).collect();
    let guards: Vec<Test> = (0..1 + text.random.index(2))
        .map(|_| {
            let offset = text.random.index(24) as u32;
            ("half", offset, format!("== {:#x}", text.random.pick(&[0x06, 0x3506, 0x8600, 0])))
        })
        .collect();
    let shifts: Vec<u32> = guards.iter().map(|_| 1 + text.random.index(24) as u32).collect();
    text.paths(&guards, &shifts, &tests, &ends, 0);
    text.lines.function(&set)
}

#[test]
fn tests_that_paths_share_give_the_verdicts_of_the_interpreter() {
    let (mut shared, mut told_apart) = ([0; 4], 0);
    let count = if full() { 20_000 } else { 400 };
    for seed in 0..count {
        let mut random = Random::new(seed);
        let function = function(&mut random);
        let verified =
            Verified::new(function.clone()).unwrap_or_else(|e| panic!("{e}\n{function}"));
        const PACKETS: usize = 80;
        let mut memory = vec![0_u8; PACKETS * BYTES + 256];
        for byte in &mut memory {
            *byte = if random.index(12) == 0 {
                random.next() as u8
            } else {
                random.pick(&NUMBERS) as u8
            };
        }
        let offset: Vec<u32> = (0..PACKETS).map(|packet| (packet * BYTES) as u32).collect();
        let length = |_| if random.index(2) == 0 { BYTES } else { random.index(BYTES + 1) };
        let captured: Vec<u32> = (0..PACKETS).map(length).map(|length| length as u32).collect();
        let packets = Packets::new(&memory, &offset, &captured, &captured).unwrap();
        let truth: Vec<u32> =
            (0..PACKETS).map(|i| function.run(packets.packet(i), packets.wire_len(i))).collect();
        told_apart += u32::from(truth.iter().any(|verdict| *verdict != truth[0]));
        for (level, isa) in Isa::ALL.into_iter().enumerate() {
            for form in 0..3 {
                let Ok(mut options) = Options::new(Backend::Pe, Some(isa)) else { continue };
                options.codegen.pe_form = form;
                let filter = Filter::of_function(&verified, &options).unwrap();
                let mut verdicts = vec![7; PACKETS];
                filter.run_batch(&packets, &mut verdicts);
                assert_eq!(verdicts, truth, "seed {seed}, {isa}, form {form}:\n{function}");
            }
            let options = Codegen { explain: true, ..Codegen::new(Backend::Pe, isa) };
            let code = compile(&function, &options).unwrap();
            shared[level] += u64::from(code.schedule.contains("vpblend"));
        }
    }
    println!(
        "of {count} functions, by level, {shared:?} share tests, {told_apart} tell packets apart"
    );
    assert_eq!(shared[0], 0);
    assert!(shared[1..].iter().all(|&shared| shared > count / 20), "{shared:?}");
    assert!(u64::from(told_apart) > count / 2, "{told_apart}");
}

/// A test of no length may not become one of another: with AVX-512 it once compared with the number
/// before 0.
#[test]
fn a_length_of_nothing_is_always_there() {
    let text = "v0 = half[20]\nv1 = half[0]\nv2 = half[40]\ns0 = { 1, 0x16, 0x35, 0x50, 0x1bb, 0x1000 }\n\
        b0: if captured >= 60 then b1 else b6\nb1: if v0 == 0x86dd then b2 else b4\n\
        b2: if captured >= 0 then b3 else b5\nb3: if v1 in s0 then b5 else b6\n\
        b4: if v2 in s0 then b5 else b6\nb5: return 96\nb6: return 0\n";
    let function = parse(text).unwrap();
    let verified = Verified::new(function.clone()).unwrap();
    let mut memory = vec![0_u8; 64 * 96 + 64];
    for packet in 0..64 {
        memory[packet * 96 + 20..packet * 96 + 22].copy_from_slice(&[0x86, 0xdd]);
    }
    let offset: Vec<u32> = (0..64).map(|packet| packet * 96).collect();
    let captured = vec![90; 64];
    let packets = Packets::new(&memory, &offset, &captured, &captured).unwrap();
    for isa in Isa::ALL {
        let Ok(options) = Options::new(Backend::Pe, Some(isa)) else { continue };
        let filter = Filter::of_function(&verified, &options).unwrap();
        let mut verdicts = vec![7; 64];
        filter.run_batch(&packets, &mut verdicts);
        assert_eq!(verdicts, [0; 64], "{isa}");
    }
}
