//! The common form of a rule, which every language is read into.
//!
//! A rule is of one address family and is the conjunction of its fields. What a
//! field *names*, a packet must have: a test of ports, TCP flags or ICMP type
//! fails on a packet without them, while `Any` tests nothing.

use crate::sets::{ProtocolSet, RangeSet};
use std::fmt;

/// Protocol number of ICMP for IPv4.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;

/// TCP's control bits in the order of RFC 9293 section 3.1.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push function.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is significant.
    pub const URG: u8 = 0x20;
}

/// Which kind of address a rule or a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4: addresses in the low 32 bits.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Bits of an address.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }

    /// The text before the word `rule` in messages.
    pub(crate) fn before_rule(self) -> &'static str {
        match self {
            Self::Ipv4 => "",
            Self::Ipv6 => "IPv6 ",
        }
    }

    /// The greatest address.
    #[must_use]
    pub fn greatest(self) -> u128 {
        match self {
            Self::Ipv4 => u128::from(u32::MAX),
            Self::Ipv6 => u128::MAX,
        }
    }

    /// All addresses.
    #[must_use]
    pub fn all(self) -> RangeSet<u128> {
        RangeSet::from_ranges([(0, self.greatest())]).unwrap_or_else(RangeSet::full)
    }

    /// The addresses that agree with `address` in the leading `length` bits,
    /// first and last; bits of `address` beyond these do not count.
    #[must_use]
    pub fn prefix(self, address: u128, length: u8) -> (u128, u128) {
        let host_bits = self.bits().saturating_sub(length);
        let host = 1_u128.checked_shl(host_bits.into()).map_or(u128::MAX, |size| size - 1);
        (address & !host, (address & !host) | host)
    }

    /// The protocol number of the family's ICMP.
    #[must_use]
    pub fn icmp(self) -> u8 {
        match self {
            Self::Ipv4 => ICMP,
            Self::Ipv6 => ICMPV6,
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Action {
    /// It goes on.
    Pass,
    /// It is dropped.
    #[default]
    Reject,
}

/// A test of TCP's control bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlagTest {
    /// The bits of `mask` are exactly `value`. Never met if `value` has others.
    Equal {
        /// The bits looked at.
        mask: u8,
        /// What they must be.
        value: u8,
    },
    /// The bits of `mask` are anything but `value`.
    NotEqual {
        /// The bits looked at.
        mask: u8,
        /// What they must not be.
        value: u8,
    },
}

impl FlagTest {
    /// One bit, or all of several, set.
    #[must_use]
    pub const fn set(bits: u8) -> Self {
        Self::Equal { mask: bits, value: bits }
    }

    /// None of `bits` set.
    #[must_use]
    pub const fn clear(bits: u8) -> Self {
        Self::Equal { mask: bits, value: 0 }
    }

    /// `established` of YAMAHA RT routers: ACK is set.
    pub const ESTABLISHED_YAMAHA: Self = Self::set(flag::ACK);

    /// `established` of Cisco routers: ACK or RST is set.
    pub const ESTABLISHED_CISCO: Self = Self::NotEqual { mask: flag::ACK | flag::RST, value: 0 };

    /// Whether `flags` meet the test.
    #[must_use]
    pub fn admits(self, flags: u8) -> bool {
        match self {
            Self::Equal { mask, value } => flags & mask == value,
            Self::NotEqual { mask, value } => flags & mask != value,
        }
    }
}

/// A test of an ICMP message's type and code: both must be in their set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IcmpTest {
    /// Types.
    pub types: RangeSet<u8>,
    /// Codes.
    pub codes: RangeSet<u8>,
}

/// The protocols that a rule names, and its tests of their headers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportTest {
    /// The protocols.
    pub protocols: ProtocolSet,
    /// If not empty, a TCP packet must meet one of these. Packets of other
    /// protocols in the set are not asked: `udp,established` is any UDP, and
    /// TCP with ACK.
    pub tcp_flags: Vec<FlagTest>,
    /// If given, an ICMP packet (of the rule's family) must meet it.
    pub icmp: Option<IcmpTest>,
}

impl TransportTest {
    /// Packets of `protocols`, whatever their transport header.
    #[must_use]
    pub fn of(protocols: ProtocolSet) -> Self {
        Self { protocols, tcp_flags: Vec::new(), icmp: None }
    }
}

/// A rule's protocol field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum ProtocolTest {
    /// Any packet, also one whose protocol cannot be reached.
    #[default]
    Any,
    /// Packets of certain protocols.
    Only(TransportTest),
}

/// A rule's port field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum PortTest {
    /// Any packet, also one without ports.
    #[default]
    Any,
    /// Packets with a port of the set.
    In(RangeSet<u16>),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The rule's number, unique among the rules of its list and family. What
    /// order numbers say, if any, is up to the language.
    pub number: u32,
    /// Which packets the rule is for at all.
    pub family: Family,
    /// What becomes of a packet that matches.
    pub action: Action,
    /// Whether a match is to be logged.
    pub log: bool,
    /// Source addresses.
    pub source: RangeSet<u128>,
    /// Destination addresses.
    pub destination: RangeSet<u128>,
    /// Protocols and what is asked of their headers.
    pub protocol: ProtocolTest,
    /// Source ports.
    pub source_ports: PortTest,
    /// Destination ports.
    pub destination_ports: PortTest,
}

impl Rule {
    /// The rule that matches every packet of `family`.
    #[must_use]
    pub fn any(number: u32, family: Family, action: Action) -> Self {
        Self {
            number,
            family,
            action,
            log: false,
            source: family.all(),
            destination: family.all(),
            protocol: ProtocolTest::Any,
            source_ports: PortTest::Any,
            destination_ports: PortTest::Any,
        }
    }
}

/// The greatest number of a rule.
pub const MAX_NUMBER: u32 = 2_147_483_647;

/// A rule of a list, in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleName {
    /// Its index in the list.
    pub index: usize,
    /// Its number, unique within the family.
    pub number: u32,
    /// Its family.
    pub family: Family,
}

impl RuleName {
    /// The name of `rule`, which is at `index`.
    pub(crate) fn new(index: usize, rule: &Rule) -> Self {
        Self { index, number: rule.number, family: rule.family }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}rule {}", self.family.before_rule(), self.number)
    }
}

/// Rules in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuleList {
    /// The rules, first tried first.
    pub rules: Vec<Rule>,
    /// What becomes of a packet that no rule matches.
    pub default: Action,
}
