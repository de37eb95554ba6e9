//! The fields of entries: addresses with their masks, ports, protocols, ICMP messages.

use super::config::System;
use crate::language::error::ParseError;
use crate::language::masks::{MAX_MASK_RANGES, matching};
use crate::language::names;
use crate::language::words::{Words, address, number, prefix};
use crate::rule::{Family, IcmpTest, TCP, UDP};
use crate::sets::RangeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// Addresses of both families, none of one where there are none.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    pub v4: Option<Rc<RangeSet<u128>>>,
    pub v6: Option<Rc<RangeSet<u128>>>,
    /// What names addresses that the configuration does not have.
    pub unknown: Option<String>,
}

impl Addresses {
    pub fn all(family: Family) -> Self {
        Self::of(family, family.all())
    }

    pub fn of(family: Family, set: RangeSet<u128>) -> Self {
        let set = Some(Rc::new(set));
        match family {
            Family::Ipv4 => Self { v4: set, ..Self::default() },
            Family::Ipv6 => Self { v6: set, ..Self::default() },
        }
    }

    pub fn both() -> Self {
        Self { v6: Self::all(Family::Ipv6).v6, ..Self::all(Family::Ipv4) }
    }

    pub fn unknown(what: &str) -> Self {
        Self { unknown: Some(what.to_owned()), ..Self::both() }
    }

    pub fn of_family(&self, family: Family) -> Option<&RangeSet<u128>> {
        match family {
            Family::Ipv4 => self.v4.as_deref(),
            Family::Ipv6 => self.v6.as_deref(),
        }
    }

    pub fn ranges(&self) -> usize {
        [&self.v4, &self.v6].into_iter().flatten().map(|set| set.ranges().len()).sum()
    }

    /// The union of several.
    pub fn union(all: &[Self]) -> Self {
        let of = |family| {
            let sets = all.iter().filter_map(|addresses| addresses.of_family(family));
            RangeSet::from_ranges(sets.flat_map(|set| set.ranges().iter().copied())).map(Rc::new)
        };
        let unknown = all.iter().find_map(|addresses| addresses.unknown.clone());
        Self { v4: of(Family::Ipv4), v6: of(Family::Ipv6), unknown }
    }
}

/// How the ones of a mask are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    /// These bits may be anything.
    Wildcard,
    /// These bits count.
    Netmask,
}

/// The family of an address, and the address.
pub(super) fn host(word: &str) -> Option<(Family, u128)> {
    let v4 = word.parse().ok().map(|found: Ipv4Addr| (Family::Ipv4, u128::from(u32::from(found))));
    v4.or_else(|| word.parse().ok().map(|found: Ipv6Addr| (Family::Ipv6, found.into())))
}

/// `word`, and what follows it, as `A/LENGTH`, or `A MASK`; none if `word` is no address.
pub(super) fn network(
    word: &str,
    mask: Mask,
    words: &mut Words,
) -> Result<Option<Addresses>, ParseError> {
    if word.contains('/') {
        let family = if word.contains(':') { Family::Ipv6 } else { Family::Ipv4 };
        let range = prefix(family, word).and_then(|range| RangeSet::from_ranges([range]));
        return Ok(range.map(|set| Addresses::of(family, set)));
    }
    let Some((family, base)) = host(word) else { return Ok(None) };
    let has_mask = words.peek().is_some_and(|next| next.contains(':'));
    let set = match family {
        Family::Ipv4 => masked(base as u32, mask, words)?,
        Family::Ipv6 if has_mask => return Ok(None),
        Family::Ipv6 => RangeSet::one(base),
    };
    Ok(Some(Addresses::of(family, set)))
}

/// The addresses that agree with `base` in the bits that the mask behind it names.
fn masked(base: u32, mask: Mask, words: &mut Words) -> Result<RangeSet<u128>, ParseError> {
    let expected = match mask {
        Mask::Wildcard => "a wildcard mask",
        Mask::Netmask => "a network mask",
    };
    let word = words.need(expected)?;
    let bits = match word.strip_prefix('/').and_then(number::<u8>).filter(|bits| *bits <= 32) {
        Some(length) => Some(u32::MAX.checked_shr(length.into()).unwrap_or(0)),
        None => address(Family::Ipv4, word).map(|bits| bits as u32).map(|bits| match mask {
            Mask::Wildcard => bits,
            Mask::Netmask => !bits,
        }),
    };
    let free = bits.ok_or_else(|| words.error(word, expected))?;
    matching(Family::Ipv4, base.into(), free.into()).ok_or_else(|| {
        let expected = format!("a mask that admits at most {MAX_MASK_RANGES} ranges");
        words.error(word, expected)
    })
}

/// Ports, and the other tests of an entry for one protocol.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Service {
    /// None is any.
    pub protocol: Option<u8>,
    pub source: Option<RangeSet<u16>>,
    pub destination: Option<RangeSet<u16>>,
    /// Messages, of the ICMP of a family.
    pub icmp: Option<IcmpTest>,
}

impl Service {
    pub fn of(protocol: Option<u8>) -> Self {
        Self { protocol, ..Self::default() }
    }

    pub fn has_ports(&self) -> bool {
        const SCTP: u8 = 132;
        matches!(self.protocol, Some(TCP | UDP | SCTP))
    }
}

/// What may follow in place of ports.
pub(super) const OPERATORS: [&str; 5] = ["eq", "neq", "gt", "lt", "range"];

/// `eq P …`, `neq P …`, `gt P`, `lt P`, `range A B`; none if none of these follows.
pub(super) fn ports(
    system: System,
    words: &mut Words,
) -> Result<Option<RangeSet<u16>>, ParseError> {
    let Some(operator) = words.peek().filter(|word| OPERATORS.contains(word)) else {
        return Ok(None);
    };
    words.take();
    compared_ports(operator, system, words).map(Some)
}

/// The ports behind an operator.
pub(super) fn compared_ports(
    operator: &str,
    system: System,
    words: &mut Words,
) -> Result<RangeSet<u16>, ParseError> {
    let first = port(system, words)?;
    let set = match operator {
        "eq" | "neq" => {
            let mut listed = vec![(first, first)];
            while let Some(port) = words.peek().and_then(|word| port_value(system, word)) {
                words.take();
                listed.push((port, port));
            }
            let listed = RangeSet::from_ranges(listed);
            let except = |set: RangeSet<u16>| set.complement(0..=u16::MAX);
            if operator == "eq" { listed } else { listed.and_then(except) }
        }
        "gt" => first.checked_add(1).and_then(|low| RangeSet::range(low..=u16::MAX)),
        "lt" => first.checked_sub(1).and_then(|high| RangeSet::range(0..=high)),
        _ => {
            let second = port(system, words)?;
            RangeSet::range(first.min(second)..=first.max(second))
        }
    };
    set.ok_or_else(|| words.error(operator, "a test that some port meets"))
}

/// Names that ASA gives other ports than IOS, or that IOS does not have.
const ASA_PORTS: &[(&str, u16)] = &[
    ("aol", 5190),
    ("cifs", 3020),
    ("citrix-ica", 1494),
    ("ctiqbe", 2748),
    ("h323", 1720),
    ("imap4", 143),
    ("kerberos", 750),
    ("lotusnotes", 1352),
    ("nfs", 2049),
    ("pcanywhere-data", 5631),
    ("pcanywhere-status", 5632),
    ("pptp", 1723),
    ("radius", 1645),
    ("radius-acct", 1646),
    ("rsh", 514),
    ("rtsp", 554),
    ("secureid-udp", 5510),
    ("sip", 5060),
    ("sqlnet", 1521),
    ("vxlan", 4789),
];

/// Names of newer releases of IOS.
const IOS_PORTS: &[(&str, u16)] = &[
    ("bfd", 3784),
    ("bfd-echo", 3785),
    ("msrpc", 135),
    ("connectedapps-plain", 15001),
    ("onep-plain", 15001),
    ("connectedapps-tls", 15002),
    ("onep-tls", 15002),
];

fn port_value(system: System, word: &str) -> Option<u16> {
    let of = |table: &[(&str, u16)]| table.iter().find(|entry| entry.0 == word).map(|e| e.1);
    let own = if system.is_asa() { of(ASA_PORTS) } else { of(IOS_PORTS) };
    number(word).or(own).or_else(|| names::service(word))
}

fn port(system: System, words: &mut Words) -> Result<u16, ParseError> {
    const EXPECTED: &str = "a port, 0 to 65535 or a name";
    let word = words.need(EXPECTED)?;
    port_value(system, word).ok_or_else(|| words.error(word, EXPECTED))
}

/// A protocol's number; none for `ip`, which is any. `icmp` is the family's.
pub(super) fn protocol(family: Family, word: &str) -> Option<Option<u8>> {
    let found = match word {
        "ip" | "ipv4" | "ipv6" => return Some(None),
        "icmp" => Some(family.icmp()),
        "nos" => Some(4),
        "snp" => Some(109),
        "pptp" => Some(47),
        "hbh" => Some(0),
        _ => number(word).or_else(|| names::protocol(word)),
    };
    found.map(Some)
}

/// Names of ICMPv6 messages of ASA and of newer releases.
const OTHER_MESSAGES_V6: &[(&str, u8)] = &[
    ("membership-query", 130),
    ("membership-report", 131),
    ("membership-reduction", 132),
    ("neighbor-solicitation", 135),
    ("neighbor-advertisement", 136),
    ("neighbor-redirect", 137),
    ("echo", 128),
    ("mldv2", 143),
];

/// A type and perhaps a code, by number or name, or nothing.
pub(super) fn messages(family: Family, words: &mut Words) -> Result<Option<IcmpTest>, ParseError> {
    let Some(word) = words.peek() else { return Ok(None) };
    let asa = || {
        let own = OTHER_MESSAGES_V6.iter().find(|entry| entry.0 == word);
        own.filter(|_| family == Family::Ipv6).map(|entry| (entry.1, None))
    };
    let named = names::icmp_message(family, word).or_else(asa);
    let Some((kind, code)) = named.or_else(|| number(word).map(|kind| (kind, None))) else {
        return Ok(None);
    };
    words.take();
    let given = words.peek().filter(|_| named.is_none()).and_then(number::<u8>);
    if given.is_some() {
        words.take();
    }
    Ok(Some(crate::language::conjunction::message(kind, code.or(given))))
}
