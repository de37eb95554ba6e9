//! Names of flows: addresses, ports and protocols as usually written.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};

use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;
use serde_json::{Map, Value, json};

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

/// An address in its usual form; nothing for packets without one.
fn address(kind: AddressKind, address: u128) -> Option<String> {
    Some(match kind {
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
        AddressKind::Opaque => return None,
    })
}

/// An end of a flow. As text: `10.0.0.1:80`, `[2001:db8::1]:80`, or an address alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The address, if the flow has addresses.
    pub address: Option<String>,
    /// The port, if the protocol has ports; ICMP types are none.
    pub port: Option<u16>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.as_deref().unwrap_or_default();
        match self.port {
            None => f.write_str(address),
            Some(port) if address.contains(':') => write!(f, "[{address}]:{port}"),
            Some(port) => write!(f, "{address}:{port}"),
        }
    }
}

/// The ends of a flow, with the one selected by `a_is_high` first.
#[must_use]
pub fn both_ends(key: &FlowKey, a_is_high: bool) -> [End; 2] {
    let has_ports = key.has_ports && !matches!(key.protocol, 1 | 58);
    let end = |at, port| End { address: address(key.kind, at), port: has_ports.then_some(port) };
    let (low, high) = (end(key.low, key.port_low), end(key.high, key.port_high));
    if a_is_high { [high, low] } else { [low, high] }
}

/// The ends as in [`both_ends`], as text.
#[must_use]
pub fn ends(key: &FlowKey, a_is_high: bool) -> (String, String) {
    both_ends(key, a_is_high).map(|end| end.to_string()).into()
}

/// The ends as in [`both_ends`], addresses and ports separately, as `NAME_address` and
/// `NAME_port`, the form of all JSON output. Missing values are null.
#[must_use]
pub fn ends_json(names: [&str; 2], key: &FlowKey, a_is_high: bool) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, End { address, port }) in names.into_iter().zip(both_ends(key, a_is_high)) {
        fields.insert(format!("{name}_address"), json!(address));
        fields.insert(format!("{name}_port"), json!(port));
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
