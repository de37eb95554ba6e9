//! The decoder against the independent flow check, over every capture of the test data.
//!
//! The check (see its module) names each packet's flow from the protocol definitions and shares
//! nothing with the decoder. It is silent on packets whose flow cannot be known. Wherever it
//! speaks, the decoder must let the packet travel with that flow, and its notes on fragments
//! must lead from a later fragment to a first one of the same flow.

use forebay_packet::flow::AddressKind;
use forebay_packet::fragment::{FragmentKey, FragmentRole};
use forebay_packet::{Decoded, Decoder, FlowKey, LinkType};
use forebay_testkit::capture::{self, Capture, Packet};
use forebay_testkit::data::{at_least, captures, folder};
use forebay_testkit::independent::{self, Identity};
use forebay_testkit::packets::build::{BACK, FORTH};
use forebay_testkit::packets::table::cases;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// The key of a flow that the check names.
fn key(identity: &Identity) -> FlowKey {
    let address = |address| match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    };
    let [(low, port_low), (high, port_high)] = identity.ends;
    let kind = if low.is_ipv4() { AddressKind::Ipv4 } else { AddressKind::Ipv6 };
    let (protocol, low, high) = (identity.protocol, address(low), address(high));
    let has_ports = matches!(protocol, 6 | 17 | 33 | 132 | 136);
    FlowKey { low, high, scope: 0, port_low, port_high, protocol, kind, has_ports }
}

fn decode(packet: &Packet) -> Decoded {
    Decoder::default().decode(LinkType(packet.link), &packet.data)
}

/// Says of one capture where the decoder gives a packet to another flow than the check does.
fn wrong_flows(name: &str, capture: &Capture) -> Vec<String> {
    let identities = independent::identities_without_fragments(capture);
    let wrong = |(index, (packet, identity)): (usize, (&Packet, Option<Identity>))| {
        let expected = key(&identity?);
        let found = decode(packet).affinity;
        let number = index + 1;
        (found != expected).then(|| format!("{name}: packet {number}: {found:?}, not {expected:?}"))
    };
    capture.packets.iter().zip(identities).enumerate().filter_map(wrong).collect()
}

/// Says of one capture which later fragments do not lead to a first of the same flow.
fn lost_fragments(name: &str, capture: &Capture) -> (usize, Vec<String>) {
    let notes = |packet| {
        let found = decode(packet).fragments.into_iter().flatten();
        found.map(|one| (one.role, one.key)).collect::<Vec<_>>()
    };
    let flows = independent::identities(capture);
    let mut firsts: HashMap<FragmentKey, HashSet<Identity>> = HashMap::new();
    for (packet, flow) in capture.packets.iter().zip(&flows) {
        for (role, datagram) in notes(packet) {
            if role == FragmentRole::First {
                firsts.entry(datagram).or_default().extend(*flow);
            }
        }
    }
    let alone = independent::identities_without_fragments(capture);
    let (mut later, mut lost) = (0, Vec::new());
    for (index, packet) in capture.packets.iter().enumerate() {
        let (Some(flow), None) = (flows[index], alone[index]) else { continue };
        later += 1;
        let followed = matches!(notes(packet).last(), Some((FragmentRole::Later, datagram))
            if firsts.get(datagram).is_some_and(|flows| flows.contains(&flow)));
        if !followed {
            lost.push(format!("{name}: packet {} leads to no first of {flow:?}", index + 1));
        }
    }
    (later, lost)
}

fn assert_none(found: &[String]) {
    let shown = found.iter().take(50).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{} disagreements, beginning with\n{shown}", found.len());
}

/// What the check names of the table's packets is what the table says, either way.
#[test]
fn the_check_and_the_decoder_agree_on_every_kind_of_packet() {
    for case in cases() {
        for way in [FORTH, BACK] {
            let data = (case.build)(way);
            let (link, wire_len) = (case.link.0, data.len() as u32);
            let packet = Packet { link, data, wire_len, nanos: 0, interface: 0 };
            let capture = Capture { packets: vec![packet], cut: false };
            let named = independent::identities_without_fragments(&capture)[0];
            assert_eq!(named.as_ref().map(key), Some(case.key), "{}", case.name);
            assert!(wrong_flows(&case.name, &capture).is_empty(), "{}", case.name);
        }
    }
}

#[test]
fn every_packet_of_every_capture_travels_with_its_flow() {
    let (mut wrong, mut lost) = (Vec::new(), Vec::new());
    let (mut packets, mut named, mut fragments) = (0, 0, 0);
    for path in captures(&folder()) {
        let (name, capture) = (path.display().to_string(), capture::read(&path));
        packets += capture.packets.len();
        named += independent::identities(&capture).iter().flatten().count();
        wrong.extend(wrong_flows(&name, &capture));
        let (later, leading_nowhere) = lost_fragments(&name, &capture);
        fragments += later;
        lost.extend(leading_nowhere);
    }
    println!("{packets} packets, {named} of a known flow, {fragments} of these later fragments");
    assert!(named > at_least(150_000, 6_000), "the check names only {named} of {packets} packets");
    assert!(fragments > at_least(5_000, 5), "the check follows only {fragments} later fragments");
    assert_none(&wrong);
    assert_none(&lost);
}
