//! All packets that rules can tell apart, and what these show of the rules.
//!
//! Nothing here is shared with the lint. Where rules' ranges start, and where they
//! have just ended, are all the numbers that matter.

use forebay_rules::Key;
use forebay_rules::rule::{
    Action, Family, FlagTest, PortTest, ProtocolTest, Rule, RuleList, TCP, TransportTest, UDP,
};
use forebay_rules::sets::{Number, RangeSet};
use std::collections::BTreeSet;

/// Protocols with ports: TCP, UDP, DCCP, SCTP and UDP-Lite.
pub const PORT_PROTOCOLS: [u8; 5] = [TCP, UDP, 33, 132, 136];

/// Extension headers of IPv6 that are never a packet's last.
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];

/// The numbers at which a set of ranges starts, or has just ended.
fn edges<T: Number + Into<u128>>(set: &RangeSet<T>) -> Vec<u128> {
    let ranges = set.ranges().iter();
    ranges.flat_map(|&(first, last)| [first.into(), last.into().saturating_add(1)]).collect()
}

/// What of `edges`, and of 0 and the starts of `within`, lies in `within`.
fn values(edges: impl Iterator<Item = u128>, within: &RangeSet<u128>) -> Vec<u128> {
    let starts = within.ranges().iter().map(|range| range.0);
    let all: BTreeSet<_> = edges.chain(starts).filter(|&value| within.contains(value)).collect();
    all.into_iter().collect()
}

fn transport(rule: &Rule) -> Option<&TransportTest> {
    match &rule.protocol {
        ProtocolTest::Any => None,
        ProtocolTest::Only(test) => Some(test),
    }
}

fn port_edges(test: &PortTest) -> Vec<u128> {
    match test {
        PortTest::Any => vec![0],
        PortTest::In(ports) => [vec![0], edges(ports)].concat(),
    }
}

/// A packet for each way in which packets of `within` can differ for `rules`.
pub fn packets(rules: &[&Rule], within: &Rule) -> Vec<Key> {
    let family = within.family;
    let sources = values(rules.iter().flat_map(|rule| edges(&rule.source)), &within.source);
    let destinations =
        values(rules.iter().flat_map(|rule| edges(&rule.destination)), &within.destination);
    let mut packets = Vec::new();
    for header in headers(rules, family) {
        for &source in sources.iter().filter(|&&source| source <= family.greatest()) {
            for &destination in destinations.iter().filter(|&&other| other <= family.greatest()) {
                packets.push(Key { source, destination, ..header });
            }
        }
    }
    packets.retain(|key| within.matches(key));
    packets
}

/// Packets without addresses for each way in which `rules` can tell them apart.
fn headers(rules: &[&Rule], family: Family) -> Vec<Key> {
    let bytes = |edges: Vec<u128>| edges.into_iter().filter_map(|edge| u8::try_from(edge).ok());
    let port_values = |test: fn(&Rule) -> &PortTest| -> BTreeSet<u16> {
        let edges = rules.iter().flat_map(|rule| port_edges(test(rule)));
        edges.filter_map(|edge| u16::try_from(edge).ok()).collect()
    };
    let tests: Vec<_> = rules.iter().filter_map(|rule| transport(rule)).collect();
    let icmp: Vec<_> = tests.iter().filter_map(|test| test.icmp.as_ref()).collect();
    let types: BTreeSet<_> =
        icmp.iter().flat_map(|icmp| bytes(edges(&icmp.types))).chain([0]).collect();
    let codes: BTreeSet<_> =
        icmp.iter().flat_map(|icmp| bytes(edges(&icmp.codes))).chain([0]).collect();
    let flag_bits = tests.iter().flat_map(|test| &test.tcp_flags).fold(0, |bits, test| {
        let (FlagTest::Equal { mask, .. } | FlagTest::NotEqual { mask, .. }) = test;
        bits | mask
    });

    let bare = Key {
        family,
        source: 0,
        destination: 0,
        protocol: None,
        ports: None,
        tcp_flags: None,
        icmp: None,
    };
    let mut headers = Vec::new();
    if family == Family::Ipv6 {
        headers.push(bare);
    }
    for protocol in 0..=u8::MAX {
        if family == Family::Ipv6 && EXTENSIONS.contains(&protocol) {
            continue;
        }
        // Two protocols that are in the same sets and of no special kind are alike.
        let alike = |other: u8| {
            tests
                .iter()
                .all(|test| test.protocols.contains(other) == test.protocols.contains(protocol))
        };
        let special = |protocol| PORT_PROTOCOLS.contains(&protocol) || protocol == family.icmp();
        let skipped = |other: u8| family == Family::Ipv6 && EXTENSIONS.contains(&other);
        if !special(protocol)
            && (0..protocol).any(|other| !special(other) && !skipped(other) && alike(other))
        {
            continue;
        }
        let bare = Key { protocol: Some(protocol), ..bare };
        headers.push(bare);
        if protocol == family.icmp() {
            let pairs = types.iter().flat_map(|&kind| codes.iter().map(move |&code| (kind, code)));
            headers.extend(pairs.map(|pair| Key { icmp: Some(pair), ..bare }));
        }
        if PORT_PROTOCOLS.contains(&protocol) {
            for &source in &port_values(|rule| &rule.source_ports) {
                for &destination in &port_values(|rule| &rule.destination_ports) {
                    let whole = Key { ports: Some((source, destination)), ..bare };
                    headers.push(whole);
                    let flags = (0..=u8::MAX).filter(|&flags| flags & !flag_bits == 0);
                    let flags = flags.filter(|_| protocol == TCP);
                    headers.extend(flags.map(|flags| Key { tcp_flags: Some(flags), ..whole }));
                }
            }
        }
    }
    headers
}

/// All packets that the rules of a list can tell apart, each with the rules that
/// match it as bits.
pub struct Enumerated<'a> {
    pub list: &'a RuleList,
    matches: Vec<u32>,
}

impl<'a> Enumerated<'a> {
    pub fn new(list: &'a RuleList) -> Self {
        let mut matches = BTreeSet::new();
        for family in [Family::Ipv4, Family::Ipv6] {
            let rules: Vec<_> = list.rules.iter().filter(|rule| rule.family == family).collect();
            for key in packets(&rules, &Rule::any(0, family, Action::Pass)) {
                let rules = list.rules.iter().enumerate();
                matches.insert(
                    rules.fold(0, |bits, (index, rule)| {
                        bits | u32::from(rule.matches(&key)) << index
                    }),
                );
            }
        }
        Self { list, matches: matches.into_iter().collect() }
    }

    /// The sets of rules that match a packet of one rule.
    pub fn of(&self, rule: usize) -> impl Iterator<Item = u32> + '_ {
        self.matches.iter().copied().filter(move |bits| bits >> rule & 1 != 0)
    }

    pub fn action(&self, bits: u32) -> Action {
        match bits {
            0 => self.list.default,
            _ => self.list.rules[bits.trailing_zeros() as usize].action,
        }
    }

    pub fn is_covered(&self, rule: usize, by: u32) -> bool {
        self.of(rule).all(|bits| bits & by != 0)
    }

    /// The earlier rules that alone cover a rule.
    pub fn shadows(&self, rule: usize) -> Vec<usize> {
        (0..rule).filter(|&earlier| self.is_covered(rule, 1 << earlier)).collect()
    }

    /// What there is to find of a rule, and the causes where they are certain.
    pub fn expected(&self, rule: usize) -> Vec<(&'static str, Option<Vec<usize>>)> {
        if self.of(rule).next().is_none() {
            return vec![("never-matches", Some(vec![]))];
        }
        let shadows = self.shadows(rule);
        if !shadows.is_empty() {
            return vec![("shadowed", Some(shadows))];
        }
        if self.is_covered(rule, (1 << rule) - 1) {
            return vec![("shadowed-by-union", None)];
        }
        let mut expected = Vec::new();
        let decided = self.of(rule).filter(|bits| bits.trailing_zeros() as usize == rule);
        let action = self.list.rules[rule].action;
        if decided.into_iter().all(|bits| self.action(bits & !(1 << rule)) == action) {
            expected.push(("redundant", None));
        }
        let opponents = (0..rule).filter(|&earlier| {
            self.list.rules[earlier].action != action
                && self.of(rule).any(|bits| bits.trailing_zeros() as usize == earlier)
        });
        let (inside, others): (Vec<_>, Vec<_>) =
            opponents.partition(|&earlier| self.is_covered(earlier, 1 << rule));
        for (kind, causes) in [("contradictory", others), ("exception", inside)] {
            if !causes.is_empty() {
                expected.push((kind, Some(causes)));
            }
        }
        expected
    }
}
