//! Fields of packets, and the names of their values.

use crate::language::catalogue::Direction;
use crate::language::names;
use crate::language::words::number;
use crate::rule::Family;
use serde_json::Value;

/// A field that a rule can ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field {
    Address {
        family: Family,
        source: bool,
    },
    /// A port of a protocol; none where the rule has it elsewhere.
    Port {
        protocol: Option<u8>,
        source: bool,
    },
    Protocol {
        family: Option<Family>,
    },
    IcmpType(Family),
    IcmpCode(Family),
    TcpFlags,
    /// IPv4 or IPv6.
    Family,
    Interface(Direction),
}

/// Reads a field; none if no rule can ask for it.
pub(super) fn field(value: &Value) -> Option<Field> {
    if let Some(key) = value["meta"]["key"].as_str() {
        return Some(match key {
            "l4proto" => Field::Protocol { family: None },
            "nfproto" | "protocol" => Field::Family,
            "iifname" | "iif" => Field::Interface(Direction::In),
            "oifname" | "oif" => Field::Interface(Direction::Out),
            _ => return None,
        });
    }
    let payload = &value["payload"];
    let (header, name) = (payload["protocol"].as_str()?, payload["field"].as_str()?);
    let family = match header {
        "ip" | "icmp" => Family::Ipv4,
        _ => Family::Ipv6,
    };
    Some(match (header, name) {
        ("ip" | "ip6", "saddr" | "daddr") => Field::Address { family, source: name == "saddr" },
        ("ip", "protocol") => Field::Protocol { family: Some(Family::Ipv4) },
        ("ip" | "ip6", "version") | ("ether", "type") => Field::Family,
        ("icmp" | "icmpv6", "type") => Field::IcmpType(family),
        ("icmp" | "icmpv6", "code") => Field::IcmpCode(family),
        ("tcp", "flags") => Field::TcpFlags,
        (_, "sport" | "dport") => {
            let protocol = match header {
                "th" => None,
                "tcp" | "udp" | "sctp" | "dccp" | "udplite" => Some(names::protocol(header)?),
                _ => return None,
            };
            Field::Port { protocol, source: name == "sport" }
        }
        _ => return None,
    })
}

/// A number, or a name of `named`.
pub(super) fn scalar<T: TryFrom<u64> + Copy + std::str::FromStr>(
    value: &Value,
    named: impl Fn(&str) -> Option<T>,
) -> Option<(T, T)> {
    let found = match (value.as_u64(), value.as_str()) {
        (Some(number), _) => T::try_from(number).ok(),
        (_, Some(name)) => named(name).or_else(|| number(name)),
        _ => None,
    }?;
    Some((found, found))
}

pub(super) fn protocol_number(name: &str) -> Option<u8> {
    const OTHERS: [(&str, u8); 8] = [
        ("ip", 0),
        ("hopopt", 0),
        ("ipv6-route", 43),
        ("ipv6-frag", 44),
        ("ipv6-nonxt", 59),
        ("ipv6-opts", 60),
        ("mobility-header", 135),
        ("mpls-in-ip", 137),
    ];
    let other = || OTHERS.iter().find(|entry| entry.0 == name).map(|entry| entry.1);
    names::protocol(name).or_else(other)
}

pub(super) fn message_type(family: Family, name: &str) -> Option<u8> {
    const V4: [(&str, u8); 2] = [("info-request", 15), ("info-reply", 16)];
    const V6: [(&str, u8); 13] = [
        ("mld-listener-query", 130),
        ("mld-listener-report", 131),
        ("mld-listener-done", 132),
        ("mld-listener-reduction", 132),
        ("nd-router-solicit", 133),
        ("nd-router-advert", 134),
        ("nd-neighbor-solicit", 135),
        ("nd-neighbor-advert", 136),
        ("nd-redirect", 137),
        ("router-renumbering", 138),
        ("ind-neighbor-solicit", 141),
        ("ind-neighbor-advert", 142),
        ("mld2-listener-report", 143),
    ];
    let own: &[(&str, u8)] = if family == Family::Ipv4 { &V4 } else { &V6 };
    let found = own.iter().find(|entry| entry.0 == name).map(|entry| entry.1);
    let shared = || names::icmp_message(family, name).filter(|found| found.1.is_none());
    found.or_else(|| shared().map(|found| found.0))
}

pub(super) fn message_code(family: Family, name: &str) -> Option<u8> {
    const V4: [(&str, u8); 8] = [
        ("net-unreachable", 0),
        ("host-unreachable", 1),
        ("prot-unreachable", 2),
        ("port-unreachable", 3),
        ("frag-needed", 4),
        ("net-prohibited", 9),
        ("host-prohibited", 10),
        ("admin-prohibited", 13),
    ];
    const V6: [(&str, u8); 6] = [
        ("no-route", 0),
        ("admin-prohibited", 1),
        ("addr-unreachable", 3),
        ("port-unreachable", 4),
        ("policy-fail", 5),
        ("reject-route", 6),
    ];
    let own: &[(&str, u8)] = if family == Family::Ipv4 { &V4 } else { &V6 };
    own.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// Flags by name, by number, or several of them.
pub(super) fn flags(value: &Value) -> Option<u8> {
    if let Some(bits) = value.as_u64() {
        return u8::try_from(bits).ok();
    }
    if let Some(several) = value.as_array().or_else(|| value["|"].as_array()) {
        return several.iter().try_fold(0, |all, one| Some(all | flags(one)?));
    }
    match value.as_str()? {
        "ecn" => Some(0x40),
        "cwr" => Some(0x80),
        name => names::tcp_flag(name),
    }
}
