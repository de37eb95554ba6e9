//! Functions return what programs return: for every expression on captures,
//! whole and cut, and for random programs on random packets.

use forebay_filter::ir::Function;
use forebay_filter::ir::text::parse;
use forebay_filter::ir::verify::verify;
use forebay_filter::{Profile, Program, compile};
use forebay_packet::LinkType;
use proptest::prelude::*;

use super::functions;
use crate::random::{looping_program, packet, program};
use crate::support::{Captured, at_least, captures, data, ethernet_packets, expressions};

struct Case {
    expression: String,
    program: Program,
    functions: [Function; 2],
}

fn cases(expressions: Vec<String>) -> Vec<Case> {
    let case = |expression: String| {
        let program = compile(&expression, LinkType::ETHERNET).unwrap();
        let functions = functions(&program);
        for function in &functions {
            assert_eq!(verify(function), Ok(()), "{expression}\n{function}");
        }
        Case { expression, program, functions }
    };
    expressions.into_iter().map(case).collect()
}

fn check(cases: &[Case], packet: &[u8], wire_len: u32) {
    for Case { expression, program, functions } in cases {
        let expected = program.run(packet, wire_len);
        for function in functions {
            let verdict = function.run(packet, wire_len);
            assert_eq!(verdict, expected, "{expression} on {packet:02x?}");
        }
    }
}

/// Every seventh packet of every capture: libpcap's own program is held
/// against all of them elsewhere.
#[test]
fn functions_return_what_programs_return_on_captures() {
    let data = data();
    let cases = cases(expressions(&data));
    let packets = captures(&data).into_iter().flat_map(|path| ethernet_packets(&path));
    let mut count = 0;
    for Captured { bytes, wire_len } in packets.step_by(7) {
        check(&cases, &bytes, wire_len);
        count += 1;
    }
    assert!(count > at_least(10_000, 600), "only {count} packets");
}

#[test]
fn functions_return_what_programs_return_on_packets_cut_anywhere() {
    let data = data();
    let cases = cases(expressions(&data));
    let packets = ethernet_packets(&data.join("mix/dev-mix.pcap"));
    for packet in packets.iter().step_by(331) {
        for length in 0..packet.bytes.len().min(100) {
            check(&cases, &packet.bytes[..length], packet.wire_len);
        }
    }
}

fn agree(
    instructions: &[forebay_filter::Instruction],
    packets: Vec<(Vec<u8>, u32)>,
) -> Result<(), TestCaseError> {
    let program = Program::verify(instructions, Profile::Libpcap).unwrap();
    let functions = functions(&program);
    for function in &functions {
        prop_assert_eq!(verify(function), Ok(()), "{}", function);
        prop_assert_eq!(&parse(&function.to_string()).unwrap(), function);
    }
    for (packet, wire_len) in packets {
        for length in [packet.len(), packet.len() / 2, packet.len().saturating_sub(1)] {
            let packet = &packet[..length];
            let expected = program.run(packet, wire_len);
            for function in &functions {
                let verdict = function.run(packet, wire_len);
                prop_assert_eq!(verdict, expected, "{:?} on {:?}", program.ddd(), packet);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_programs(
        program in program(),
        packets in prop::collection::vec((packet(), any::<u32>()), 1..20),
    ) {
        agree(&program, packets)?;
    }

    #[test]
    fn random_programs_with_loops(
        program in looping_program(),
        packets in prop::collection::vec((packet(), any::<u32>()), 1..6),
    ) {
        agree(&program, packets)?;
    }
}
