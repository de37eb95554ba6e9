//! Community IDs against the baselines of the specification's own test captures.
//!
//! A baseline is the set of distinct directed flows over all captures: protocol, addresses, and
//! ports or ICMP type and code (or type and counterpart), `null` for protocols that have none.
//! Packets without IP are in none; repetitions count once.

use forebay_packet::flow::AddressKind;
use forebay_packet::{Decoded, Decoder, LinkType, community_id};
use forebay_testkit::capture;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The baseline's line for a packet; nothing for one without IP addresses.
fn line(found: &Decoded, seed: u16) -> Option<Value> {
    let key = &found.key;
    let address = |address: u128| match key.kind {
        AddressKind::Ipv4 => Some(Ipv4Addr::from(u32::try_from(address).ok()?).to_string()),
        AddressKind::Ipv6 => Some(Ipv6Addr::from(address).to_string()),
        AddressKind::Opaque | AddressKind::Mac | AddressKind::Arp => None,
    };
    let (low, high) = ((address(key.low)?, key.port_low), (address(key.high)?, key.port_high));
    let (source, destination) = if found.reversed { (high, low) } else { (low, high) };
    let port = |port: u16| if key.has_ports { json!(port) } else { Value::Null };
    Some(json!({
        "proto": key.protocol,
        "saddr": source.0,
        "daddr": destination.0,
        "sport": port(source.1),
        "dport": port(destination.1),
        "communityid": community_id(key, seed)?,
    }))
}

#[test]
fn ids_of_the_specifications_captures() {
    let Some(data) = forebay_testkit::data::external() else { return };
    let folder = data.join("captures/corelight__community-id-spec");
    let decoder = Decoder::default();
    let mut packets: Vec<(LinkType, Vec<u8>)> = Vec::new();
    for entry in std::fs::read_dir(folder.join("pcaps")).expect("the captures") {
        let capture = capture::read(entry.expect("an entry").path());
        assert!(!capture.cut);
        packets.extend(capture.packets.into_iter().map(|p| (LinkType(p.link), p.data)));
    }
    for (seed, name) in [(0, "baseline_deflt.json"), (1, "baseline_seed1.json")] {
        let text = std::fs::read_to_string(folder.join("baseline").join(name)).expect("a baseline");
        let expected: Vec<Value> = serde_json::from_str(&text).expect("a list");
        let expected: BTreeSet<String> = expected.iter().map(Value::to_string).collect();
        let found: BTreeSet<String> = packets
            .iter()
            .filter_map(|(link, data)| line(&decoder.decode(*link, data), seed))
            .map(|line| line.to_string())
            .collect();
        assert_eq!(found, expected, "{name}");
    }
}
