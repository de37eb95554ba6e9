//! Every expression on every Ethernet capture: the verdict is libpcap's.

use forebay_filter::{Program, compile};
use forebay_packet::LinkType;

use crate::support::libpcap::Oracle;
use crate::support::{Captured, at_least, captures, data, ethernet_packets, expressions};

struct Case {
    expression: String,
    program: Program,
    oracle: Oracle,
}

fn cases(expressions: Vec<String>) -> Vec<Case> {
    let case = |expression: String| {
        let program = compile(&expression, LinkType::ETHERNET).unwrap();
        let oracle = Oracle::new(program.instructions());
        Case { expression, program, oracle }
    };
    expressions.into_iter().map(case).collect()
}

/// Compares the verdicts of a packet; says which cases accepted it.
fn check(cases: &[Case], packet: &Captured, accepted: &mut [u64]) {
    for (case, accepted) in cases.iter().zip(accepted) {
        let verdict = case.program.run(&packet.bytes, packet.wire_len);
        let expected = case.oracle.run(&packet.bytes, packet.wire_len);
        assert_eq!(verdict, expected, "{} on {:02x?}", case.expression, packet.bytes);
        *accepted += u64::from(verdict != 0);
    }
}

#[test]
fn verdicts_equal_libpcaps_on_all_ethernet_captures() {
    let data = data();
    let cases = cases(expressions(&data));
    assert!(cases.len() > 100);
    let captures = captures(&data);
    let mut accepted = vec![0; cases.len()];
    let mut packets = 0_u64;
    for path in &captures {
        for packet in ethernet_packets(path) {
            check(&cases, &packet, &mut accepted);
            packets += 1;
        }
    }
    // A comparison of nothing would pass too.
    assert!(packets > at_least(100_000, 3_000) as u64, "only {packets} packets");
    let in_use = accepted.iter().filter(|&&n| n > 0).count();
    assert!(in_use > cases.len() / 2, "only {in_use} expressions accepted a packet");
}

#[test]
fn verdicts_equal_libpcaps_on_packets_cut_anywhere() {
    let data = data();
    let cases = cases(expressions(&data));
    let packets = ethernet_packets(&data.join("mix/dev-mix.pcap"));
    let mut accepted = vec![0; cases.len()];
    for packet in packets.iter().step_by(97) {
        for length in 0..packet.bytes.len().min(100) {
            let bytes = packet.bytes[..length].to_vec();
            check(&cases, &Captured { bytes, wire_len: packet.wire_len }, &mut accepted);
        }
    }
}
