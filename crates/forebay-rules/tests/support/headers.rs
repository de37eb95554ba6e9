//! Packets' keys drawn from the rules of a list, at and beside their borders.
#![allow(dead_code, reason = "each test uses its part")]

use super::draw::Draw;
use super::lists::stem;
use forebay_rules::key::Key;
use forebay_rules::rule::{
    Family, FlagTest, ICMP, ICMPV6, PortTest, ProtocolTest, Rule, RuleList, TCP, UDP,
};
use forebay_rules::sets::{Number, RangeSet};

const GRE: u8 = 47;
const SCTP: u8 = 132;

/// How much of its transport header a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All.
    Whole,
    /// Ports without TCP's control bits.
    BeforeFlags,
    /// Nothing: a later fragment, or cut before it.
    Before,
}

const CUTS: [Cut; 3] = [Cut::Whole, Cut::BeforeFlags, Cut::Before];

/// What a packet says; its protocol decides what of it there is.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub family: Family,
    pub source: u128,
    pub destination: u128,
    /// None where it cannot be reached.
    pub protocol: Option<u8>,
    pub ports: (u16, u16),
    pub flags: u8,
    pub message: (u8, u8),
    pub cut: Cut,
}

impl Header {
    /// The key of such a packet.
    pub fn key(&self) -> Key {
        let there = |kind: bool, cut: &[Cut]| kind && cut.contains(&self.cut);
        let of = |numbers: &[u8]| self.protocol.is_some_and(|number| numbers.contains(&number));
        let beginning = &[Cut::Whole, Cut::BeforeFlags];
        Key {
            family: self.family,
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            ports: there(of(&[TCP, UDP, 33, SCTP, 136]), beginning).then_some(self.ports),
            tcp_flags: there(of(&[TCP]), &[Cut::Whole]).then_some(self.flags),
            icmp: there(of(&[self.family.icmp()]), beginning).then_some(self.message),
        }
    }

    /// A packet of anything, with addresses that rules have.
    pub fn any(draw: &mut Draw, family: Family) -> Self {
        let protocol = draw.pick(&[TCP, TCP, UDP, ICMP, ICMPV6, SCTP, GRE, 0]);
        Self {
            family,
            source: stem(draw, family),
            destination: stem(draw, family),
            protocol: (!draw.one_in(16)).then_some(protocol),
            ports: (draw.half(), draw.half()),
            flags: draw.byte(),
            message: (draw.byte(), draw.byte()),
            cut: draw.pick(&[Cut::Whole, Cut::Whole, Cut::Whole, Cut::BeforeFlags, Cut::Before]),
        }
    }

    /// A packet that matches `rule`, if any does.
    pub fn inside(draw: &mut Draw, rule: &Rule) -> Self {
        let mut header = Self::any(draw, rule.family);
        header.source = one_of(draw, &rule.source);
        header.destination = one_of(draw, &rule.destination);
        let mut port = |test: &PortTest, any: u16| match test {
            PortTest::Any => any,
            PortTest::In(set) => {
                let (first, last) = draw.pick(set.ranges());
                draw.within((first.into(), last.into())) as u16
            }
        };
        header.ports.0 = port(&rule.source_ports, header.ports.0);
        header.ports.1 = port(&rule.destination_ports, header.ports.1);
        let named =
            [&rule.source_ports, &rule.destination_ports].iter().any(|p| **p != PortTest::Any);
        let ProtocolTest::Only(test) = &rule.protocol else {
            if named {
                header.protocol = Some(draw.pick(&[TCP, UDP]));
            }
            return header;
        };
        let numbers: Vec<u8> = test.protocols.iter().collect();
        if numbers.is_empty() {
            return header;
        }
        let likely: Vec<u8> =
            [TCP, UDP, rule.family.icmp()].into_iter().filter(|n| numbers.contains(n)).collect();
        let from = if likely.is_empty() || draw.one_in(4) { &numbers } else { &likely };
        header.protocol = Some(draw.pick(from));
        let met = |&flags: &u8| test.tcp_flags.iter().any(|test| test.admits(flags));
        let flags: Vec<u8> = flag_values(rule).into_iter().filter(met).collect();
        if !flags.is_empty() {
            header.flags = draw.pick(&flags);
        }
        if let Some(icmp) = &test.icmp {
            header.message = (one_byte(draw, &icmp.types), one_byte(draw, &icmp.codes));
        }
        header
    }

    /// A packet inside one rule but for a field, which is at or beside a border
    /// of another.
    pub fn near(draw: &mut Draw, list: &RuleList) -> Self {
        if list.rules.is_empty() {
            let family = draw.pick(&[Family::Ipv4, Family::Ipv6]);
            return Self::any(draw, family);
        }
        let rule = &list.rules[draw.below(list.rules.len())];
        let mut header = Self::inside(draw, rule);
        let other = &list.rules[draw.below(list.rules.len())];
        let kinds = kinds(other);
        match draw.below(8) {
            0 | 1 => {}
            2 if other.family == rule.family => {
                header.source = draw.pick(&edges(&other.source, other.family.greatest()));
            }
            3 if other.family == rule.family => {
                header.destination = draw.pick(&edges(&other.destination, other.family.greatest()));
            }
            4 => header.ports.0 = draw.pick(&port_edges(&other.source_ports)),
            5 => header.ports.1 = draw.pick(&port_edges(&other.destination_ports)),
            6 => (header.protocol, header.cut) = draw.pick(&kinds),
            _ => {
                header.flags = draw.pick(&flag_values(other));
                header.message = draw.pick(&messages(other));
            }
        }
        header
    }
}

/// Keys inside `rule` but for one field, for each of the field's values at and
/// beside its borders.
pub fn at_and_beside(draw: &mut Draw, rule: &Rule) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut add = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::inside(draw, rule);
        change(&mut header);
        keys.push(header.key());
    };
    let greatest = rule.family.greatest();
    for at in edges(&rule.source, greatest) {
        add(&|header| header.source = at);
    }
    for at in edges(&rule.destination, greatest) {
        add(&|header| header.destination = at);
    }
    for at in port_edges(&rule.source_ports) {
        add(&|header| header.ports.0 = at);
    }
    for at in port_edges(&rule.destination_ports) {
        add(&|header| header.ports.1 = at);
    }
    for (protocol, cut) in kinds(rule) {
        add(&|header| (header.protocol, header.cut) = (protocol, cut));
    }
    for flags in flag_values(rule) {
        add(&|header| (header.protocol, header.flags) = (Some(TCP), flags));
    }
    for message in messages(rule) {
        add(&|header| (header.protocol, header.message) = (Some(rule.family.icmp()), message));
    }
    keys
}

/// The values at and beside the borders of a set: of its first range, of its
/// second, and of its last.
fn edges<T: Number>(set: &RangeSet<T>, greatest: T) -> Vec<T> {
    let ranges = set.ranges();
    let mut all: Vec<T> = ranges
        .iter()
        .take(2)
        .chain(ranges.last())
        .flat_map(|&(first, last)| [first.predecessor(), Some(first), Some(last), last.successor()])
        .flatten()
        .filter(|&value| value <= greatest)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn port_edges(test: &PortTest) -> Vec<u16> {
    match test {
        PortTest::Any => vec![0, u16::MAX],
        PortTest::In(set) => edges(set, u16::MAX),
    }
}

/// The protocols at and beside the borders of a rule's, with and without what
/// packets of them have.
fn kinds(rule: &Rule) -> Vec<(Option<u8>, Cut)> {
    let mut numbers = vec![TCP, rule.family.icmp()];
    if let ProtocolTest::Only(test) = &rule.protocol {
        let (first, last) = (test.protocols.iter().next(), test.protocols.iter().last());
        for number in [first, last].into_iter().flatten() {
            numbers.extend([number.wrapping_sub(1), number, number.wrapping_add(1)]);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    let mut kinds = vec![(None, Cut::Before)];
    for number in numbers {
        let cuts: &[Cut] = match number {
            TCP => &CUTS,
            UDP | ICMP | ICMPV6 => &[Cut::Whole, Cut::Before],
            _ => &[Cut::Whole],
        };
        kinds.extend(cuts.iter().map(|&cut| (Some(number), cut)));
    }
    kinds
}

/// Values of TCP's control bits that tests of `rule` may take for each other.
fn flag_values(rule: &Rule) -> Vec<u8> {
    let mut values = vec![0];
    if let ProtocolTest::Only(test) = &rule.protocol {
        for test in &test.tcp_flags {
            let (FlagTest::Equal { mask, value } | FlagTest::NotEqual { mask, value }) = *test;
            values.extend([value, value | !mask, value ^ (mask & mask.wrapping_neg()), !value]);
        }
    }
    values
}

/// Types and codes at and beside the borders of a rule's.
fn messages(rule: &Rule) -> Vec<(u8, u8)> {
    let mut values = vec![(0, 0)];
    if let ProtocolTest::Only(test) = &rule.protocol
        && let Some(icmp) = &test.icmp
    {
        let (types, codes) = (edges(&icmp.types, u8::MAX), edges(&icmp.codes, u8::MAX));
        let (inner_type, inner_code) = (icmp.types.ranges()[0].0, icmp.codes.ranges()[0].0);
        values.extend(types.iter().map(|&at| (at, inner_code)));
        values.extend(codes.iter().map(|&at| (inner_type, at)));
    }
    values
}

fn one_of(draw: &mut Draw, set: &RangeSet<u128>) -> u128 {
    let range = draw.pick(set.ranges());
    draw.within(range)
}

fn one_byte(draw: &mut Draw, set: &RangeSet<u8>) -> u8 {
    let (first, last) = draw.pick(set.ranges());
    draw.within((first.into(), last.into())) as u8
}
