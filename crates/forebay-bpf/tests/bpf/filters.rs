//! Translated filters against the interpreter: on every capture, on programs drawn at
//! random, and on the traps of classic BPF.

use forebay_bpf::translate::{KEEP_ALL, Obstacle, load_socket_filter, load_xdp_filter};
use forebay_bpf::{Action, BpfError, Kind};
use forebay_filter::program::instruction::ANCILLARY;
use forebay_filter::{Instruction, Profile, Program, compile};
use forebay_packet::LinkType;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support;

/// The most bytes of a frame that the kernel takes for a test of a socket's program.
const LONGEST_FOR_SOCKET: usize = 3000;

/// Expressions that each frame is tried on.
const TRIED: usize = 3;

/// A filter and the kernel's forms of it.
struct Filter {
    source: Program,
    socket: forebay_bpf::Program,
    xdp: forebay_bpf::Program,
}

impl Filter {
    fn load(source: Program) -> Result<Self, BpfError> {
        let socket = load_socket_filter(&source, Kind::Classifier)?;
        let xdp = load_xdp_filter(&source, true, Action::Pass)?;
        Ok(Self { source, socket, xdp })
    }

    /// Compares all forms on a frame; the verdict.
    fn agree(&self, frame: &[u8]) -> u32 {
        let verdict = self.source.run(frame, frame.len() as u32);
        let keeps = self.xdp.run(frame, &mut []).unwrap().result == Action::Pass as u32;
        assert_eq!(keeps, verdict != 0, "XDP: {frame:02x?}\n{}", self.source.listing());
        let frame = &frame[..frame.len().min(LONGEST_FOR_SOCKET)];
        let verdict = self.source.run(frame, frame.len() as u32);
        let result = match self.socket.run(frame, &mut []) {
            Err(_) if is_refused_for_socket(frame) => return verdict,
            run => run.unwrap().result,
        };
        assert_eq!(result, verdict, "socket: {frame:02x?}\n{}", self.source.listing());
        verdict
    }
}

/// Whether newer kernels take the frame for no test of a socket's program: it has the
/// EtherType of IP, and not all of the IP header.
fn is_refused_for_socket(frame: &[u8]) -> bool {
    let header = match frame[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => 0,
    };
    frame.len() < 14 + header
}

#[test]
fn frames_are_refused_for_sockets_by_the_kernel_as_we_take_it() {
    if !support::bpf() {
        return;
    }
    let filter = Filter::load(verified(&[RETURN_A])).unwrap();
    for (kind, header) in [([0x08, 0x00], 20), ([0x86, 0xdd], 40), ([0x08, 0x06], 0)] {
        for len in 15..14 + header + 2_usize {
            let mut frame = vec![0; len];
            frame[12..14].copy_from_slice(&kind);
            let taken = filter.socket.run(&frame, &mut []).is_ok();
            assert!(taken || is_refused_for_socket(&frame), "{kind:x?} of {len} bytes");
        }
    }
}

#[test]
fn verdicts_on_captures_are_the_interpreter_s() {
    let Some(data) = support::data() else { return };
    let mut filters = Vec::new();
    let mut refused = 0;
    for expression in support::expressions(&data) {
        let Ok(program) = compile(&expression, LinkType::ETHERNET) else { continue };
        match Filter::load(program) {
            Ok(filter) => filters.push(filter),
            Err(BpfError::Translate(error)) => {
                assert!(expression.contains("protochain"), "{expression}: {error}");
                assert_eq!(error.obstacle, Obstacle::BackwardJump);
                refused += 1;
            }
            Err(error) => panic!("{expression}: {error}"),
        }
    }
    assert!(filters.len() > 90 && refused >= 2, "{} and {refused}", filters.len());
    let mut turn = 0;
    let (mut kept, mut dropped) = (0, 0);
    for path in support::captures(&data) {
        for frame in support::captured_frames(&path) {
            for _ in 0..TRIED {
                // A step that shares no factor with the number of filters.
                turn = (turn + 1) % (filters.len() * 31);
                let filter = &filters[turn * 31 % filters.len()];
                *if filter.agree(&frame) == 0 { &mut dropped } else { &mut kept } += 1;
            }
        }
    }
    assert!(
        kept > forebay_testkit::data::at_least(20_000, 1_000)
            && dropped > forebay_testkit::data::at_least(100_000, 5_000),
        "{kept} kept, {dropped} dropped"
    );
}

const fn i(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

const RETURN_A: Instruction = i(0x16, 0, 0, 0);

fn verified(instructions: &[Instruction]) -> Program {
    Program::verify(instructions, Profile::Libpcap).unwrap()
}

/// Numbers at the edges of what instructions tell apart.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0_u32..70,
        1 => 0_u32..5000,
        1 => Just(0xffff_efff),
        1 => 0xffea_u32..0x1_0010,
        1 => prop::sample::select(vec![31, 32, 33, u32::MAX, 1 << 31, (1 << 31) - 1]),
        1 => any::<u32>(),
    ]
}

/// An instruction that may stand at `index` of `length`.
fn instruction(index: usize, length: usize) -> impl Strategy<Value = Instruction> {
    let left = (length - index - 2).min(255) as u8;
    let load = prop::sample::select(vec![0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0xb1]);
    let plain = prop::sample::select(vec![0x00, 0x01, 0x80, 0x81, 0x84, 0x07, 0x87]);
    let cell = prop::sample::select(vec![0x60, 0x61, 0x02, 0x03]);
    let alu = prop::sample::select(vec![
        0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xa4, 0x0c, 0x1c, 0x2c, 0x3c, 0x4c,
        0x5c, 0x6c, 0x7c, 0x9c, 0xac,
    ]);
    let test = prop::sample::select(vec![0x15, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d]);
    prop_oneof![
        4 => (load, number()).prop_map(|(code, k)| i(code, 0, 0, k.min(ANCILLARY - 1))),
        2 => (plain, number()).prop_map(|(code, k)| i(code, 0, 0, k)),
        2 => (cell, 0_u32..16).prop_map(|(code, k)| i(code, 0, 0, k)),
        4 => (alu, number()).prop_map(|(code, k)| i(code, 0, 0, k.max(1))),
        4 => (test, 0..=left, 0..=left, number()).prop_map(|(code, jt, jf, k)| i(code, jt, jf, k)),
        1 => (0..=u32::from(left)).prop_map(|k| i(0x05, 0, 0, k)),
        1 => prop_oneof![number().prop_map(|k| i(0x06, 0, 0, k)), Just(RETURN_A)],
    ]
}

fn program() -> impl Strategy<Value = Vec<Instruction>> {
    (2_usize..40).prop_flat_map(|length| {
        let body: Vec<_> = (0..length - 1).map(|index| instruction(index, length)).collect();
        body.prop_map(|mut instructions| {
            instructions.push(RETURN_A);
            instructions
        })
    })
}

#[test]
fn random_programs_return_what_the_interpreter_returns() {
    if !support::bpf() {
        return;
    }
    let frame = prop_oneof![
        prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..4], 15..80),
        prop::collection::vec(any::<u8>(), 4000..5000),
    ];
    let frames = prop::collection::vec(frame, 4);
    let mut runner =
        TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(program(), frames), |(instructions, frames)| {
        let filter = Filter::load(verified(&instructions)).unwrap();
        for frame in frames {
            filter.agree(&frame);
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn traps_have_libpcap_s_outcome() {
    if !support::bpf() {
        return;
    }
    let load_a = |k| i(0x00, 0, 0, k);
    let load_x = |k| i(0x01, 0, 0, k);
    let keep = i(0x06, 0, 0, 7);
    for (instructions, expected) in [
        // Loads at the end, past it, and wrapping round.
        (&[i(0x30, 0, 0, 59), RETURN_A][..], 59),
        (&[i(0x28, 0, 0, 59), keep], 0),
        (&[i(0x20, 0, 0, 56), RETURN_A], 0x3839_3a3b),
        (&[load_x(u32::MAX), i(0x50, 0, 0, 2), keep], 0),
        (&[load_x(50), i(0x50, 0, 0, 9), RETURN_A], 59),
        (&[load_a(9), i(0xb1, 0, 0, 18), RETURN_A], 9),
        (&[i(0xb1, 0, 0, 18), i(0x87, 0, 0, 0), RETURN_A], 8),
        (&[i(0xb1, 0, 0, 60), keep], 0),
        // A load that no frame is long enough for, with code behind it.
        (&[i(0x20, 0, 0, 0x1_0000), i(0x15, 1, 0, 5), keep, RETURN_A], 0),
        // All starts at 0.
        (&[RETURN_A], 0),
        (&[i(0x87, 0, 0, 0), i(0x04, 0, 0, 3), RETURN_A], 3),
        (&[i(0x60, 0, 0, 15), i(0x04, 0, 0, 4), RETURN_A], 4),
        // Shifts, by constants and by X.
        (&[load_a(1), i(0x64, 0, 0, 32), i(0x04, 0, 0, 2), RETURN_A], 2),
        (&[load_a(1), load_x(33), i(0x6c, 0, 0, 0), i(0x04, 0, 0, 2), RETURN_A], 2),
        (&[load_a(1), load_x(31), i(0x6c, 0, 0, 0), RETURN_A], 1 << 31),
        (&[load_a(u32::MAX), load_x(32), i(0x7c, 0, 0, 0), i(0x04, 0, 0, 2), RETURN_A], 2),
        // Divisions.
        (&[load_a(7), i(0x3c, 0, 0, 0), keep], 0),
        (&[load_a(7), i(0x9c, 0, 0, 0), keep], 0),
        (&[load_a(u32::MAX), i(0x34, 0, 0, u32::MAX - 1), RETURN_A], 1),
        // Comparisons are unsigned.
        (&[load_a(1 << 31), i(0x25, 0, 1, 1), keep, RETURN_A], 7),
        (&[load_a(1), i(0x35, 1, 0, 1 << 31), keep, RETURN_A], 7),
        // The length, and results of 32 bits.
        (&[i(0x80, 0, 0, 0), RETURN_A], 60),
        (&[i(0x81, 0, 0, 0), i(0x87, 0, 0, 0), RETURN_A], 60),
        (&[load_a(1), i(0x84, 0, 0, 0), RETURN_A], KEEP_ALL),
        // What is not reached may be anything.
        (&[keep, i(0x20, 0, 0, 0), i(0x05, 0, 0, 0), RETURN_A], 7),
        (&[i(0x05, 0, 0, 1), i(0x15, 0, 0, 1), keep], 7),
    ] {
        let frame: Vec<u8> = (0..60).collect();
        let filter = Filter::load(verified(instructions)).unwrap();
        assert_eq!(filter.agree(&frame), expected, "{}", filter.source.listing());
    }
}

#[test]
fn what_cannot_be_translated_is_named() {
    let jump_back = [i(0x28, 0, 0, 12), i(0x05, 0, 0, 0_u32.wrapping_sub(2)), RETURN_A];
    let ancillary = [i(0x20, 0, 0, ANCILLARY + 4), RETURN_A];
    for (instructions, message) in [
        (
            &jump_back[..],
            "instruction 1 of the filter, `ja 0`: the kernel's BPF allows no backward jump \
             (`protochain` loops over headers)",
        ),
        (
            &ancillary,
            "instruction 0 of the filter, `ld [type]`: a load from 0xfffff000 on asks for \
             ancillary data, which a frame does not have",
        ),
    ] {
        let error = load_xdp_filter(&verified(instructions), true, Action::Pass).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

/// The frame says where to look and what is there, over all of two buffers and more.
#[test]
fn bytes_past_the_first_buffer_are_fetched() {
    if !support::bpf() {
        return;
    }
    let (load_half, load_word, to_x) = (0x28, 0x20, i(0x07, 0, 0, 0));
    let program = [
        i(load_half, 0, 0, 0),
        to_x,
        i(0x40, 0, 0, 0),
        i(0x02, 0, 0, 3),
        i(load_word, 0, 0, 2),
        to_x,
        i(0x60, 0, 0, 3),
        i(0x1d, 0, 1, 0),
        i(0x06, 0, 0, 1),
        i(0x06, 0, 0, 0),
    ];
    let source = verified(&program);
    let several = load_xdp_filter(&source, true, Action::Pass).unwrap();
    let first_only = load_xdp_filter(&source, false, Action::Pass).unwrap();
    let mut frame: Vec<u8> = (0..9000_u32).map(|n| ((n * n) >> 7) as u8).collect();
    let keeps = |program: &forebay_bpf::Program, frame: &[u8]| {
        program.run(frame, &mut []).unwrap().result == Action::Pass as u32
    };
    let mut in_first = 0;
    for at in 6..8999_u16 {
        let expected = frame[usize::from(at)..].first_chunk().copied().unwrap_or([1; 4]);
        frame[..2].copy_from_slice(&at.to_be_bytes());
        frame[2..6].copy_from_slice(&expected);
        assert_eq!(keeps(&several, &frame), at <= 8996, "at {at}");
        in_first += usize::from(keeps(&first_only, &frame));
    }
    assert!((1500..4096).contains(&in_first), "{in_first} places in the first buffer");
}

/// Long lists: jumps of thousands of instructions, and few states for the verifier.
#[test]
fn long_filters_load() {
    if !support::bpf() {
        return;
    }
    let hosts: Vec<String> = (0..400).map(|n| format!("10.{}.{}.7", n % 7, n % 251)).collect();
    let expression = format!("host {} and not port 22", hosts.join(" or "));
    let source = compile(&expression, LinkType::ETHERNET).unwrap();
    let filter = Filter::load(source).unwrap();
    let frame = support::frames::udp((1, 2), (3, 4));
    assert_eq!(filter.agree(&frame), 0);

    // A test of the first byte, and a jump over all that lies between.
    let mut far = vec![i(0x30, 0, 0, 0), i(0x15, 0, 1, 2), i(0x05, 0, 0, 8000)];
    far.extend([i(0x30, 0, 0, 1); 8000]);
    far.extend([i(0x06, 0, 0, 9), i(0x06, 0, 0, 9)]);
    let filter = Filter::load(verified(&far)).unwrap();
    assert_eq!(filter.agree(&frame), 9);
}
