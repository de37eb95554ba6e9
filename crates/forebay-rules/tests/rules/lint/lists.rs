//! Small lists at random, of few values that often meet.

use super::enumeration::PORT_PROTOCOLS;
use forebay_rules::rule::{
    Action, Family, FlagTest, ICMP, ICMPV6, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TCP,
    TransportTest, UDP,
};
use forebay_rules::sets::{ProtocolSet, RangeSet};
use proptest::prelude::*;

const GRE: u8 = 47;
const SCTP: u8 = 132;

/// One of few ranges of small numbers or at the end of all.
fn range(greatest: u128) -> impl Strategy<Value = (u128, u128)> {
    prop_oneof![
        4 => (0..4_u128, 0..4_u128).prop_map(|(a, b)| (a.min(b), a.max(b))),
        2 => Just((0, greatest)),
        1 => (0..3_u128).prop_map(move |first| (first, greatest)),
        1 => Just((greatest, greatest)),
    ]
}

fn set(greatest: u128) -> impl Strategy<Value = RangeSet<u128>> {
    prop_oneof![
        3 => prop::collection::vec(range(greatest), 1),
        1 => prop::collection::vec(range(greatest), 2..4),
    ]
    .prop_filter_map("empty", RangeSet::from_ranges)
}

fn ports() -> impl Strategy<Value = PortTest> {
    let ports = set(u16::MAX.into()).prop_filter_map("empty", |set| {
        let ranges = set.ranges().iter().map(|&(first, last)| (first as u16, last as u16));
        RangeSet::from_ranges(ranges).map(PortTest::In)
    });
    prop_oneof![3 => Just(PortTest::Any), 1 => ports]
}

fn message_field() -> impl Strategy<Value = RangeSet<u8>> {
    set(u8::MAX.into()).prop_filter_map("empty", |set| {
        RangeSet::from_ranges(set.ranges().iter().map(|&(a, b)| (a as u8, b as u8)))
    })
}

fn flag_test() -> impl Strategy<Value = FlagTest> {
    (0..4_u8, 0..4_u8, any::<bool>()).prop_map(|(mask, value, equal)| match equal {
        true => FlagTest::Equal { mask, value },
        false => FlagTest::NotEqual { mask, value },
    })
}

fn protocol() -> impl Strategy<Value = ProtocolTest> {
    let known = [TCP, UDP, ICMP, ICMPV6, GRE, SCTP, 43, 0];
    let few = prop::sample::subsequence(known.to_vec(), 0..4);
    let protocols = prop_oneof![
        4 => few.clone().prop_map(ProtocolSet::from_iter),
        1 => few.prop_map(|few| ProtocolSet::from_iter(few).complement()),
        1 => Just(PORT_PROTOCOLS.into_iter().collect()),
    ];
    let icmp =
        (message_field(), message_field()).prop_map(|(types, codes)| IcmpTest { types, codes });
    let flags = prop::collection::vec(flag_test(), 0..3);
    let test =
        (protocols, flags, prop::option::of(icmp)).prop_map(|(protocols, tcp_flags, icmp)| {
            ProtocolTest::Only(TransportTest { protocols, tcp_flags, icmp })
        });
    prop_oneof![1 => Just(ProtocolTest::Any), 2 => test]
}

fn rule() -> impl Strategy<Value = Rule> {
    let family = prop::sample::select(vec![Family::Ipv4, Family::Ipv4, Family::Ipv6]);
    family.prop_flat_map(|family| {
        let addresses = || set(family.greatest());
        let action = prop::sample::select(vec![Action::Pass, Action::Reject]);
        (addresses(), addresses(), protocol(), ports(), ports(), action).prop_map(
            move |(source, destination, protocol, source_ports, destination_ports, action)| Rule {
                source,
                destination,
                protocol,
                source_ports,
                destination_ports,
                ..Rule::any(0, family, action)
            },
        )
    })
}

pub fn list() -> impl Strategy<Value = RuleList> {
    let default = prop::sample::select(vec![Action::Pass, Action::Reject]);
    (prop::collection::vec(rule(), 0..8), default).prop_map(|(mut rules, default)| {
        rules.iter_mut().zip(1..).for_each(|(rule, number)| rule.number = number);
        RuleList { rules, default }
    })
}

/// Lists of rules that differ in two fields only, so that unions cover much.
pub fn narrow_list() -> impl Strategy<Value = RuleList> {
    let action = prop::sample::select(vec![Action::Pass, Action::Reject]);
    let fields = (set(u32::MAX.into()), ports(), flag_test(), 0..4_u8, action);
    let rule = fields.prop_map(|(source, destination_ports, flags, kind, action)| {
        let tcp =
            TransportTest { tcp_flags: vec![flags], ..TransportTest::of(ProtocolSet::one(TCP)) };
        let protocol = match kind {
            0 => ProtocolTest::Only(tcp),
            1 => ProtocolTest::Only(TransportTest::of(ProtocolSet::one(TCP))),
            2 => ProtocolTest::Only(TransportTest::of(PORT_PROTOCOLS.into_iter().collect())),
            _ => ProtocolTest::Any,
        };
        Rule { source, destination_ports, protocol, ..Rule::any(0, Family::Ipv4, action) }
    });
    let default = prop::sample::select(vec![Action::Pass, Action::Reject]);
    (prop::collection::vec(rule, 0..14), default)
        .prop_map(|(rules, default)| RuleList { rules, default })
}
