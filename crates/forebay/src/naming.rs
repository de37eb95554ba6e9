//! Names of flows: addresses, ports and protocols as usually written.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;
use forebay_pipeline::Remarks;
use serde_json::{Map, Value, json};

use crate::show::human;

/// Protocol numbers with a name; others are printed as numbers.
const PROTOCOLS: &[(u8, &str)] = &[
    (1, "icmp"),
    (2, "igmp"),
    (4, "ipip"),
    (6, "tcp"),
    (17, "udp"),
    (33, "dccp"),
    (41, "ipv6"),
    (46, "rsvp"),
    (47, "gre"),
    (50, "esp"),
    (51, "ah"),
    (58, "icmp6"),
    (88, "eigrp"),
    (89, "ospf"),
    (103, "pim"),
    (112, "vrrp"),
    (132, "sctp"),
    (136, "udplite"),
];

/// A sentence about the packets that end at undecoded headers, if there are any.
#[must_use]
pub fn undecoded(remarks: &Remarks) -> Option<String> {
    let mut all: Vec<_> = remarks.undecoded().collect();
    all.sort_by_key(|(_, packets)| Reverse(*packets));
    let each = all.iter().map(|(header, packets)| format!("{header} ({})", human::count(*packets)));
    let headers = each.collect::<Vec<_>>().join(", ");
    (!headers.is_empty())
        .then(|| format!("headers that are not decoded, with their packets: {headers}"))
}

/// The packets that end at undecoded headers, by the header.
#[must_use]
pub fn undecoded_json(remarks: &Remarks) -> Value {
    remarks.undecoded().map(|(header, packets)| (header, Value::from(packets))).collect()
}

/// The protocol of a flow.
#[must_use]
pub fn protocol(key: &FlowKey) -> String {
    match key.kind {
        AddressKind::Ipv4 | AddressKind::Ipv6 => protocol_name(key.protocol),
        AddressKind::Arp => "arp".to_owned(),
        AddressKind::Mac => format!("ether-0x{:04x}", key.port_low),
        AddressKind::Opaque => "other".to_owned(),
    }
}

/// The name of an IP protocol, or its number.
#[must_use]
pub fn protocol_name(protocol: u8) -> String {
    match PROTOCOLS.iter().find(|(number, _)| *number == protocol) {
        Some((_, name)) => (*name).to_owned(),
        None => protocol.to_string(),
    }
}

/// An address in its usual form; empty for packets without one.
fn address(kind: AddressKind, address: u128) -> String {
    match kind {
        AddressKind::Ipv4 | AddressKind::Arp => Ipv4Addr::from_bits(address as u32).to_string(),
        AddressKind::Ipv6 => Ipv6Addr::from_bits(address).to_string(),
        AddressKind::Mac => {
            let bytes = (address as u64).to_be_bytes();
            bytes[2..].iter().fold(String::new(), |mut text, byte| {
                let colon = if text.is_empty() { "" } else { ":" };
                let _ = write!(text, "{colon}{byte:02x}");
                text
            })
        }
        AddressKind::Opaque => String::new(),
    }
}

/// The ends of a flow, with the one selected by `a_is_high` first, with ports if the
/// protocol has them: `10.0.0.1:80`, `[2001:db8::1]:80`.
#[must_use]
pub fn ends(key: &FlowKey, a_is_high: bool) -> (String, String) {
    let low = end(key, key.low, key.port_low);
    let high = end(key, key.high, key.port_high);
    if a_is_high { (high, low) } else { (low, high) }
}

fn end(key: &FlowKey, at: u128, port: u16) -> String {
    let address = address(key.kind, at);
    match key.kind {
        _ if !has_ports(key) => address,
        AddressKind::Ipv6 => format!("[{address}]:{port}"),
        _ => format!("{address}:{port}"),
    }
}

/// Whether the key's ports are ports; ICMP types are not.
fn has_ports(key: &FlowKey) -> bool {
    key.has_ports && !matches!(key.protocol, 1 | 58)
}

/// The ends as in [`ends`], addresses and ports separately, as `NAME_address` and
/// `NAME_port`, the form of all JSON output. Missing values are null.
#[must_use]
pub fn ends_json(names: [&str; 2], key: &FlowKey, a_is_high: bool) -> Map<String, Value> {
    let low = (key.low, key.port_low);
    let high = (key.high, key.port_high);
    let ends = if a_is_high { [high, low] } else { [low, high] };
    let mut fields = Map::new();
    for (name, (at, port)) in names.into_iter().zip(ends) {
        let address = Some(address(key.kind, at)).filter(|address| !address.is_empty());
        fields.insert(format!("{name}_address"), json!(address));
        fields.insert(format!("{name}_port"), json!(has_ports(key).then_some(port)));
    }
    fields
}

/// `object` with `fields` added.
#[must_use]
pub fn with_fields(mut object: Value, fields: Map<String, Value>) -> Value {
    if let Value::Object(own) = &mut object {
        own.extend(fields);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_read_as_people_write_them() {
        let v4 = |text: &str| u128::from(text.parse::<Ipv4Addr>().unwrap().to_bits());
        let (key, _) =
            FlowKey::two_way(AddressKind::Ipv4, 6, (v4("10.0.0.2"), 80), (v4("10.0.0.1"), 4000));
        let key = FlowKey { has_ports: true, ..key };
        assert_eq!(ends(&key, true), ("10.0.0.2:80".into(), "10.0.0.1:4000".into()));
        assert_eq!(protocol(&key), "tcp");
        let fields = |key| Value::from(ends_json(["a", "b"], &key, true));
        let expected = json!({
            "a_address": "10.0.0.2", "a_port": 80, "b_address": "10.0.0.1", "b_port": 4000,
        });
        assert_eq!(fields(key), expected);
        let icmp = fields(FlowKey { protocol: 1, ..key });
        assert_eq!((&icmp["a_address"], &icmp["a_port"]), (&json!("10.0.0.2"), &Value::Null));
        assert_eq!(fields(FlowKey::default())["a_address"], Value::Null);
        let v6 = FlowKey { kind: AddressKind::Ipv6, low: 1, high: 2, port_high: 9, ..key };
        assert_eq!(ends(&v6, false).1, "[::2]:9");
        let mac = FlowKey { kind: AddressKind::Mac, low: 0x0102_0304_0506, ..FlowKey::default() };
        assert_eq!(ends(&mac, false).0, "01:02:03:04:05:06");
        assert_eq!(protocol(&FlowKey { protocol: 99, ..key }), "99");
    }
}
