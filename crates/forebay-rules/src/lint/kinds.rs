//! Kinds of packets: all that a rule can ask besides addresses, ports, and ICMP
//! type and code.
//!
//! A packet's kind is its protocol, how much of the transport header it has, and
//! TCP's control bits. There are 519 kinds, numbered; what a rule's protocol
//! field admits is a set of them. Only what [`crate::key`] can really find in
//! some packet is a kind of the family: a packet with TCP flags has ports, ports
//! are of five protocols only, an IPv6 extension header is no upper-layer
//! protocol, and the protocol of an IPv4 packet can always be reached.
//!
//! Which kinds a rule admits is asked of the oracle itself, with a key whose
//! other values are the rule's own. That suffices since no test of a rule looks
//! at two of these values together.

use super::report::Impossible;
use crate::key::{Key, ends_ipv6_chain};
use crate::rule::{Family, PortTest, ProtocolTest, Rule, TCP, UDP};
use std::collections::HashMap;

const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Protocols whose header starts with two ports.
const WITH_PORTS: [u8; 5] = [UDP, TCP, DCCP, SCTP, UDP_LITE];

/// Number of kinds.
pub const KINDS: usize = 519;

const FIRST_PORTS: usize = 256;
/// The number of [`Kind::Icmp`].
pub const ICMP_KIND: usize = FIRST_PORTS + WITH_PORTS.len();
const FIRST_BARE: usize = ICMP_KIND + 1;
const UNREACHABLE: usize = FIRST_BARE + 256;

/// A kind of packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP with ports and these control bits.
    Tcp(u8),
    /// Of this protocol, with ports; of TCP, cut before the control bits.
    Ports(u8),
    /// ICMP of the packet's family, with type and code.
    Icmp,
    /// Of this protocol, and no more: it has no such header, or a fragment other
    /// than the first, or cut. None if not even the protocol can be reached.
    Bare(Option<u8>),
}

impl Kind {
    /// The kind of that number, which is below [`KINDS`].
    fn numbered(number: usize) -> Self {
        match number {
            0..FIRST_PORTS => Self::Tcp(number as u8),
            FIRST_PORTS..ICMP_KIND => Self::Ports(WITH_PORTS[number - FIRST_PORTS]),
            ICMP_KIND => Self::Icmp,
            FIRST_BARE..UNREACHABLE => Self::Bare(Some((number - FIRST_BARE) as u8)),
            _ => Self::Bare(None),
        }
    }

    /// Whether some packet of `family` is of the kind.
    fn occurs(self, family: Family) -> bool {
        match (family, self) {
            (Family::Ipv4, kind) => kind != Self::Bare(None),
            (Family::Ipv6, Self::Bare(Some(protocol))) => ends_ipv6_chain(protocol),
            (Family::Ipv6, _) => true,
        }
    }

    /// The key of a packet of the kind, `values` being its ports or its ICMP
    /// type and code if it has these.
    pub fn key(self, family: Family, addresses: [u128; 2], values: [u16; 2]) -> Key {
        let [source, destination] = addresses;
        let [first, second] = values;
        let bare = |protocol| Key {
            family,
            source,
            destination,
            protocol,
            ports: None,
            tcp_flags: None,
            icmp: None,
        };
        let ports = Some((first, second));
        match self {
            Self::Tcp(flags) => Key { ports, tcp_flags: Some(flags), ..bare(Some(TCP)) },
            Self::Ports(protocol) => Key { ports, ..bare(Some(protocol)) },
            Self::Icmp => {
                let [kind, code] = values.map(|value| value.min(255) as u8);
                Key { icmp: Some((kind, code)), ..bare(Some(family.icmp())) }
            }
            Self::Bare(protocol) => bare(protocol),
        }
    }

    /// How good an example the kind is of a set that it is in: whole packets of
    /// the best-known protocols first.
    fn strangeness(self) -> u8 {
        match self {
            Self::Tcp(0x02) => 0,
            Self::Tcp(0x10) => 1,
            Self::Ports(UDP) => 2,
            Self::Icmp => 3,
            Self::Tcp(_) => 4,
            Self::Ports(_) => 5,
            Self::Bare(Some(_)) => 6,
            Self::Bare(None) => 7,
        }
    }
}

const WORDS: usize = KINDS.div_ceil(64);

/// A set of kinds, or of classes of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct KindSet([u64; WORDS]);

impl KindSet {
    /// The set of one member.
    pub fn one(member: usize) -> Self {
        let mut set = Self::default();
        set.insert(member);
        set
    }

    /// Adds a member.
    pub fn insert(&mut self, member: usize) {
        self.0[member / 64] |= 1 << (member % 64);
    }

    /// Whether `member` is in the set.
    pub fn contains(&self, member: usize) -> bool {
        self.0[member / 64] >> (member % 64) & 1 != 0
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Number of members.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The members of both.
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// The members of this set that are not in the other.
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    /// Whether the two share a member.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether all members of `other` are in this set.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| b & !a == 0)
    }

    /// The members, ascending.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

/// The kinds that `rule` admits, if its addresses, ports, type and code fit.
pub fn admitted(rule: &Rule) -> KindSet {
    let least = |set: &PortTest| match set {
        PortTest::Any => 0,
        PortTest::In(ports) => ports.ranges().first().map_or(0, |range| range.0),
    };
    let ports = [least(&rule.source_ports), least(&rule.destination_ports)];
    let message = match &rule.protocol {
        ProtocolTest::Only(test) => test.icmp.as_ref().map_or([0; 2], |icmp| {
            [&icmp.types, &icmp.codes]
                .map(|set| set.ranges().first().map_or(0, |range| u16::from(range.0)))
        }),
        ProtocolTest::Any => [0; 2],
    };
    let addresses = [&rule.source, &rule.destination]
        .map(|set| set.ranges().first().map_or(0, |range| range.0));
    let mut kinds = KindSet::default();
    for number in 0..KINDS {
        let kind = Kind::numbered(number);
        let values = if kind == Kind::Icmp { message } else { ports };
        let key = kind.key(rule.family, addresses, values);
        if kind.occurs(rule.family) && rule.matches(&key) {
            kinds.insert(number);
        }
    }
    kinds
}

/// Why a rule admits no kind at all: the test without which it would.
pub fn why_none(rule: &Rule) -> Impossible {
    let mut without_ports = rule.clone();
    without_ports.source_ports = PortTest::Any;
    without_ports.destination_ports = PortTest::Any;
    if !admitted(&without_ports).is_empty() {
        return Impossible::Ports;
    }
    let mut without_flags = rule.clone();
    if let ProtocolTest::Only(test) = &mut without_flags.protocol {
        test.tcp_flags.clear();
    }
    if !admitted(&without_flags).is_empty() {
        return Impossible::Flags;
    }
    Impossible::Protocol
}

/// [`admitted`] of many rules, each protocol field looked at once.
#[derive(Default)]
pub struct Catalogue<'a> {
    known: HashMap<(&'a ProtocolTest, bool), KindSet>,
}

impl<'a> Catalogue<'a> {
    /// The kinds that `rule` admits. All rules must be of one family.
    pub fn admitted(&mut self, rule: &'a Rule) -> KindSet {
        let asks_ports =
            rule.source_ports != PortTest::Any || rule.destination_ports != PortTest::Any;
        *self.known.entry((&rule.protocol, asks_ports)).or_insert_with(|| admitted(rule))
    }

    /// The classes of kinds that these rules tell apart. ICMP messages are a class
    /// of their own.
    pub fn classes(&self) -> Classes {
        let mut of_kind = [0; KINDS];
        of_kind[ICMP_KIND] = 1;
        let mut count = 2;
        for set in self.known.values() {
            let mut renamed = HashMap::new();
            for (number, class) in of_kind.iter_mut().enumerate() {
                let next = renamed.len();
                *class = *renamed.entry((*class, set.contains(number))).or_insert(next);
            }
            count = renamed.len();
        }
        let mut examples = vec![None; count];
        for (number, &class) in of_kind.iter().enumerate() {
            let kind = Kind::numbered(number);
            let example: &mut Option<Kind> = &mut examples[class];
            if example.is_none_or(|before| kind.strangeness() < before.strangeness()) {
                *example = Some(kind);
            }
        }
        let examples = examples.into_iter().flatten().collect();
        Classes { of_kind, examples }
    }
}

/// Kinds in classes, numbered from 0: no rule distinguishes those of one class.
pub struct Classes {
    of_kind: [usize; KINDS],
    examples: Vec<Kind>,
}

impl Classes {
    /// The classes of `kinds`, a set that a rule admits, with ICMP messages or
    /// without.
    pub fn of(&self, kinds: &KindSet) -> KindSet {
        let mut classes = KindSet::default();
        kinds.members().for_each(|number| classes.insert(self.of_kind[number]));
        classes
    }

    /// A kind of the class.
    pub fn example(&self, class: usize) -> Kind {
        self.examples[class]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::has_ports;
    use proptest::prelude::*;

    const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// A packet with `payload` behind its IP header; a later fragment where that is
    /// none.
    fn packet(family: Family, protocol: u8, payload: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = match family {
            Family::Ipv4 => {
                let mut header = vec![0; 20];
                header[0] = 0x45;
                header[7] = payload.is_none().into();
                header[9] = protocol;
                header
            }
            Family::Ipv6 => {
                let mut header = vec![0; 40];
                header[0] = 0x60;
                header[6] = protocol;
                if payload.is_none() {
                    header[6] = 44;
                    header.extend([protocol, 0, 0, 8, 0, 0, 0, 0]);
                }
                header
            }
        };
        bytes.extend(payload.unwrap_or_default());
        bytes
    }

    /// A packet of the kind with that `number`.
    fn example(family: Family, kind: Kind) -> Vec<u8> {
        let mut header = [0; 20];
        match kind {
            Kind::Tcp(flags) => {
                header[13] = flags;
                packet(family, TCP, Some(&header))
            }
            Kind::Ports(protocol) => packet(family, protocol, Some(&header[..4])),
            Kind::Icmp => packet(family, family.icmp(), Some(&header[..4])),
            // One of IPv6 that ends with what is followed by other headers else.
            Kind::Bare(Some(protocol @ (135 | 139 | 140))) if family == Family::Ipv6 => {
                packet(family, protocol, Some(&[59; 8]))
            }
            Kind::Bare(Some(protocol)) => packet(family, protocol, None),
            Kind::Bare(None) => packet(family, 0, Some(&[])),
        }
    }

    #[test]
    fn each_kind_that_occurs_is_that_of_a_packet() {
        for family in FAMILIES {
            for kind in (0..KINDS).map(Kind::numbered).filter(|kind| kind.occurs(family)) {
                let key = Key::of_ip(&example(family, kind));
                assert_eq!(key, Some(kind.key(family, [0; 2], [0; 2])), "{family:?} {kind:?}");
            }
        }
    }

    #[test]
    fn the_numbers_name_all_protocols_with_ports() {
        let protocols: Vec<_> = (0..=u8::MAX).filter(|&protocol| has_ports(protocol)).collect();
        let mut numbered = WITH_PORTS;
        numbered.sort_unstable();
        assert_eq!(protocols, numbered);
        let distinct = (0..KINDS).map(|number| format!("{:?}", Kind::numbered(number)));
        assert_eq!(distinct.collect::<std::collections::HashSet<_>>().len(), KINDS);
    }

    proptest! {
        #[test]
        fn each_packet_is_of_a_kind_that_occurs(
            family in prop::sample::select(&FAMILIES), protocol: u8, usual in 0..4_usize,
            mut payload in prop::collection::vec(any::<u8>(), 0..40),
            next in prop::sample::select(&[0_u8, 6, 17, 43, 44, 51, 58, 59, 60, 135, 139]),
            fragment: bool,
        ) {
            let protocol = [protocol, TCP, family.icmp(), next][usual];
            if let Some(first) = payload.first_mut() {
                *first = if family == Family::Ipv6 { next } else { *first };
            }
            let bytes = packet(family, protocol, (!fragment).then_some(&payload));
            let Some(key) = Key::of_ip(&bytes) else { return Ok(()) };
            let message = key.icmp.map(|(kind, code)| (kind.into(), code.into()));
            let (first, second) = key.ports.or(message).unwrap_or_default();
            let addresses = [key.source, key.destination];
            let kinds = (0..KINDS).map(Kind::numbered);
            let of_key = kinds.filter(|kind| kind.key(family, addresses, [first, second]) == key);
            prop_assert_eq!(of_key.filter(|kind| kind.occurs(family)).count(), 1);
        }
    }
}
