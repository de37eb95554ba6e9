//! The disjunction of functions.

use forebay_filter::compile_function;
use forebay_filter::ir::Function;
use forebay_filter::ir::text::parse;
use forebay_filter::ir::union::union;
use forebay_filter::ir::verify::verify;
use forebay_packet::LinkType;
use proptest::prelude::*;

use super::functions;
use crate::random::{packet, program};
use crate::support::{data, ethernet_packets};
use forebay_filter::{Profile, Program};

#[test]
fn no_parts_accept_nothing() {
    let none = union(&[]);
    assert_eq!(verify(&none), Ok(()));
    assert_eq!(none.run(&[1; 60], 60), 0);
}

#[test]
fn common_beginnings_are_tested_once() {
    let part = |expression| compile_function(expression, LinkType::ETHERNET).unwrap();
    let parts = ["tcp port 80", "tcp port 81", "udp port 53", "icmp"].map(part);
    let union = union(&parts);
    let beginnings = union.to_string().matches("== 0x800 ").count();
    assert_eq!(beginnings, 1, "{union}");
}

#[test]
fn the_first_result_that_is_not_0_counts() {
    let part = |text: &str| parse(text).unwrap();
    let parts = [
        part("v0 = length\nb0: return v0"),
        part("v0 = byte[0]\nb0: if captured >= 1 then b1 else b2\nb1: return v0\nb2: return 0"),
        part("b0: return 7"),
    ];
    let union = union(&parts);
    assert_eq!(verify(&union), Ok(()), "{union}");
    assert_eq!(union.run(&[3], 9), 9);
    assert_eq!(union.run(&[3], 0), 3);
    assert_eq!(union.run(&[0], 0), 7);
    assert_eq!(union.run(&[], 0), 7);
}

fn first_result(parts: &[Function], packet: &[u8], wire_len: u32) -> u32 {
    let results = parts.iter().map(|part| part.run(packet, wire_len));
    results.into_iter().find(|result| *result != 0).unwrap_or(0)
}

#[test]
fn expressions_together() {
    let Some(data) = data() else { return };
    let part = |expression| compile_function(expression, LinkType::ETHERNET).unwrap();
    let parts =
        ["port 53", "vlan and host 10.1.2.3", "icmp[0] = 8", "greater 1000", "arp"].map(part);
    let union = union(&parts);
    assert_eq!(verify(&union), Ok(()));
    for packet in ethernet_packets(&data.join("mix/dev-mix.pcap")).iter().step_by(101) {
        for length in (0..80).chain([packet.bytes.len()]) {
            let bytes = &packet.bytes[..length.min(packet.bytes.len())];
            let expected = first_result(&parts, bytes, packet.wire_len);
            assert_eq!(union.run(bytes, packet.wire_len), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_programs_together(
        programs in prop::collection::vec(program(), 1..4),
        packets in prop::collection::vec((packet(), any::<u32>()), 1..10),
    ) {
        let verified = programs.iter().map(|p| Program::verify(p, Profile::Libpcap).unwrap());
        let parts: Vec<_> = verified.map(|program| functions(&program)[1].clone()).collect();
        let union = union(&parts);
        prop_assert_eq!(verify(&union), Ok(()));
        for (packet, wire_len) in packets {
            let expected = first_result(&parts, &packet, wire_len);
            prop_assert_eq!(union.run(&packet, wire_len), expected);
        }
    }
}
