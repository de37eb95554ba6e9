//! Rule lists that are hard on engines: few distinct values, so that rules
//! overlap, and those values at the borders of what engines tell apart.
#![allow(dead_code, reason = "each test uses its part")]

use super::draw::Draw;
use forebay_rules::rule::{
    Action, Family, FlagTest, ICMP, ICMPV6, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TCP,
    TransportTest, UDP,
};
use forebay_rules::sets::{ProtocolSet, RangeSet};

/// Stems of addresses, 32 bits each.
const STEMS: [u32; 7] =
    [0, 0x0a00_0000, 0x0a00_0100, 0x0a01_0000, 0xc0a8_0000, 0x7fff_ffff, 0xffff_ff00];

/// Lengths of prefixes of IPv4. Engines tell those of less than a byte from others.
const LENGTHS: [u8; 12] = [0, 1, 4, 7, 8, 9, 16, 23, 24, 25, 31, 32];

/// Lengths of prefixes of IPv6, at and beside the ends of words.
const LENGTHS_6: [u8; 16] = [0, 1, 7, 8, 31, 32, 33, 48, 63, 64, 65, 96, 97, 126, 127, 128];

const PORTS: [u16; 14] = [0, 1, 22, 53, 80, 255, 256, 1023, 1024, 5000, 6000, 0x8000, 65534, 65535];

/// The list of `rules`, numbered from 1 in their order.
pub fn list(rules: impl IntoIterator<Item = Rule>) -> RuleList {
    let rules = (1..).zip(rules).map(|(number, rule)| Rule { number, ..rule }).collect();
    RuleList { rules, default: Action::Reject }
}

/// Rules of the given families with anything in any field.
pub fn overlapping(draw: &mut Draw, families: &[Family], count: usize) -> RuleList {
    list((0..count).map(|_| {
        let family = draw.pick(families);
        rule(draw, family)
    }))
}

/// A list with about as many of its rules once more, anywhere.
pub fn doubled(draw: &mut Draw, from: RuleList) -> RuleList {
    let mut rules = from.rules;
    for _ in 0..rules.len() {
        let again = rules[draw.below(rules.len())].clone();
        rules.insert(draw.below(rules.len() + 1), again);
    }
    list(rules)
}

/// Rules each with a test of protocol and flags that no other has.
pub fn distinct_tests(draw: &mut Draw, family: Family, count: usize) -> RuleList {
    list((0..count).map(|at| {
        let value = at as u8;
        let protocol = match at / 256 {
            // By all flags, and by one of two values of them.
            0 => tcp(vec![FlagTest::Equal { mask: 0xff, value }]),
            1 => tcp(vec![FlagTest::set(value), FlagTest::Equal { mask: 0xff, value: !value }]),
            _ => TransportTest::of(ProtocolSet::one(value)),
        };
        let protocol = ProtocolTest::Only(protocol);
        Rule { protocol, source_ports: PortTest::Any, ..rule(draw, family) }
    }))
}

/// Rules that say next to nothing of addresses, each with ports of its own.
pub fn wildcards(draw: &mut Draw, family: Family, count: usize) -> RuleList {
    list((0..count).map(|at| {
        let any = Rule::any(0, family, Action::Pass);
        let last = at as u16;
        let ports = [PortTest::Any, one_range(last / 2, last), one_range(last, last)];
        let mut rule = Rule {
            protocol: protocol(draw, family),
            source_ports: ports[draw.below(3)].clone(),
            destination_ports: ports[1 + draw.below(2)].clone(),
            ..any
        };
        if draw.one_in(4) {
            let (stem, length) = (stem(draw, family), draw.pick(&[1, 3, 5, 7]));
            rule.source = set([family.prefix(stem, length)], family);
        }
        if draw.one_in(4) {
            let (stem, length) = (stem(draw, family), draw.pick(&[1, 3, 5, 7]));
            rule.destination = set([family.prefix(stem, length)], family);
        }
        rule
    }))
}

/// Rules of the same two addresses, with ports that overlap those of many others.
pub fn one_pair_of_addresses(draw: &mut Draw, family: Family, count: usize) -> RuleList {
    let (source, destination) = (stem(draw, family), stem(draw, family));
    list((0..count).map(|at| {
        let any = draw.half();
        let bit = 1 << draw.below(16);
        let (low, high) = match draw.below(3) {
            // All numbers that agree in the bits above one, and no others.
            0 => (any & !(bit | (bit - 1)), any | bit | (bit - 1)),
            // As little beyond as possible.
            1 => (any & !bit, any | bit),
            _ => (any, any.saturating_add(draw.pick(&[0, 1, 100, 10_000, 65_535]))),
        };
        Rule {
            source: set([(source, source)], family),
            destination: set([(destination, destination)], family),
            protocol: ProtocolTest::Only(TransportTest::of(ProtocolSet::one([TCP, UDP][at % 2]))),
            source_ports: if draw.one_in(2) {
                PortTest::Any
            } else {
                one_range(at as u16, low.max(at as u16))
            },
            destination_ports: one_range(low, high),
            ..Rule::any(0, family, Action::Pass)
        }
    }))
}

/// Rules that no packet matches.
pub fn never(family: Family) -> RuleList {
    let any = Rule::any(0, family, Action::Pass);
    let only = |test| ProtocolTest::Only(test);
    let icmp = TransportTest::of(ProtocolSet::one(family.icmp()));
    let ports = one_range(0, 65535);
    let impossible = FlagTest::Equal { mask: 1, value: 2 };
    list([
        Rule { protocol: only(TransportTest::of(ProtocolSet::default())), ..any.clone() },
        Rule { protocol: only(icmp.clone()), destination_ports: ports.clone(), ..any.clone() },
        Rule {
            protocol: only(TransportTest {
                icmp: Some(IcmpTest { types: RangeSet::full(), codes: RangeSet::full() }),
                ..icmp
            }),
            source_ports: ports.clone(),
            ..any.clone()
        },
        Rule { protocol: only(tcp(vec![impossible])), ..any.clone() },
        Rule {
            protocol: only(TransportTest::of(ProtocolSet::one(47))),
            source_ports: ports,
            ..any
        },
    ])
}

/// The list for IPv6: prefixes as they are, but hosts with 128 bits.
pub fn over_ipv6(from: &RuleList) -> RuleList {
    let long = |ranges: &RangeSet<u128>| {
        let ranges = ranges.ranges().iter().map(|&(first, last)| match first == last {
            true => {
                let host = first << 96 | u128::from(first as u32 ^ 0x5bd1_e995);
                (host, host)
            }
            false => (first << 96, (last << 96) | (u128::MAX >> 32)),
        });
        set(ranges, Family::Ipv6)
    };
    list(from.rules.iter().map(|rule| {
        let family = Family::Ipv6;
        let (source, destination) = (long(&rule.source), long(&rule.destination));
        Rule { family, source, destination, ..rule.clone() }
    }))
}

/// Any rule.
pub fn rule(draw: &mut Draw, family: Family) -> Rule {
    Rule {
        source: addresses(draw, family),
        destination: addresses(draw, family),
        protocol: protocol(draw, family),
        source_ports: ports(draw),
        destination_ports: ports(draw),
        ..Rule::any(0, family, Action::Pass)
    }
}

fn tcp(tcp_flags: Vec<FlagTest>) -> TransportTest {
    TransportTest { tcp_flags, ..TransportTest::of(ProtocolSet::one(TCP)) }
}

fn one_range(first: u16, last: u16) -> PortTest {
    RangeSet::range(first..=last).map_or(PortTest::Any, PortTest::In)
}

fn set(ranges: impl IntoIterator<Item = (u128, u128)>, family: Family) -> RangeSet<u128> {
    RangeSet::from_ranges(ranges).unwrap_or_else(|| family.all())
}

/// One of few addresses.
pub fn stem(draw: &mut Draw, family: Family) -> u128 {
    let low = draw.pick(&STEMS) | draw.below(4) as u32;
    match family {
        Family::Ipv4 => low.into(),
        Family::Ipv6 => {
            let high = u128::from(draw.pick(&STEMS));
            let middle = u128::from(draw.pick(&[0, 1, 0x8000_0000_0000_0000_u64]));
            high << 96 | middle << 32 | u128::from(low)
        }
    }
}

/// Everything, a prefix, a host, or a list of prefixes and short ranges.
fn addresses(draw: &mut Draw, family: Family) -> RangeSet<u128> {
    let prefix = |draw: &mut Draw| {
        let lengths: &[u8] = if family == Family::Ipv4 { &LENGTHS } else { &LENGTHS_6 };
        family.prefix(stem(draw, family), draw.pick(lengths))
    };
    match draw.below(8) {
        0 | 1 => family.all(),
        2..=4 => set([prefix(draw)], family),
        5 => RangeSet::one(stem(draw, family)),
        6 => set([prefix(draw), prefix(draw)], family),
        _ => {
            let first = stem(draw, family);
            let length = u128::from(draw.pick(&[1_u16, 2, 3, 6, 200, 4095]));
            let last = first.saturating_add(length).min(family.greatest());
            set([(first, last), prefix(draw)], family)
        }
    }
}

fn ports(draw: &mut Draw) -> PortTest {
    let range = |draw: &mut Draw| match draw.below(4) {
        0 => (draw.pick(&PORTS), draw.pick(&PORTS)),
        1 => (draw.half(), u16::MAX),
        _ => {
            let port = draw.pick(&PORTS);
            (port, port)
        }
    };
    let ranges: Vec<_> = match draw.below(6) {
        0..=2 => return PortTest::Any,
        3 | 4 => vec![range(draw)],
        _ => vec![range(draw), range(draw), range(draw)],
    };
    RangeSet::from_ranges(ranges).map_or(PortTest::Any, PortTest::In)
}

fn protocol(draw: &mut Draw, family: Family) -> ProtocolTest {
    let sets: [&[u8]; 8] = [
        &[TCP],
        &[UDP],
        &[TCP, UDP],
        &[family.icmp()],
        &[ICMP, ICMPV6],
        &[TCP, ICMP, ICMPV6],
        &[TCP, UDP, 132],
        &[],
    ];
    let protocols: ProtocolSet = match draw.below(12) {
        0..=2 => return ProtocolTest::Any,
        3..=7 => draw.pick(&sets[..7]).iter().copied().collect(),
        8 => draw.pick(&sets).iter().copied().collect(),
        9 => ProtocolSet::one(draw.byte()),
        10 => ProtocolSet::one(draw.byte()).complement(),
        _ => [draw.byte(), draw.byte(), TCP].into_iter().collect(),
    };
    let tcp_flags = (0..draw.pick(&[0, 0, 1, 1, 2, 3])).map(|_| flag_test(draw)).collect();
    let icmp = if draw.one_in(2) { icmp_test(draw) } else { None };
    ProtocolTest::Only(TransportTest { protocols, tcp_flags, icmp })
}

fn flag_test(draw: &mut Draw) -> FlagTest {
    let (mask, value) = (draw.byte(), draw.byte());
    match draw.below(6) {
        0 => FlagTest::ESTABLISHED_CISCO,
        1 => FlagTest::ESTABLISHED_YAMAHA,
        2 => FlagTest::Equal { mask, value: value & mask },
        // Not to be met, or always met, where the value has other bits.
        3 => FlagTest::Equal { mask, value },
        4 => FlagTest::NotEqual { mask, value },
        _ => FlagTest::NotEqual { mask, value: value & mask },
    }
}

fn icmp_test(draw: &mut Draw) -> Option<IcmpTest> {
    let set = |draw: &mut Draw| match draw.below(5) {
        0 => Some(RangeSet::full()),
        1 => RangeSet::range(draw.pick(&[0, 3, 8, 127, 128])..=255),
        2 => RangeSet::range(0..=draw.byte()),
        3 => Some(RangeSet::one(draw.pick(&[0, 3, 8, 128, 255]))),
        _ => RangeSet::from_ranges([(3, 4), (11, 11), (draw.byte(), 255)]),
    };
    Some(IcmpTest { types: set(draw)?, codes: set(draw)? })
}

/// Shapes of [`adversarial`] lists.
pub const ADVERSARIAL: [&str; 13] = [
    "random", "random6", "narrow", "narrow6", "nested", "crossing", "planes", "quarters", "sets",
    "stars", "pair", "octets", "tests",
];

/// Rules that are hard on engines that take prefixes and cut by bits, of one of
/// the shapes [`ADVERSARIAL`].
pub fn adversarial(draw: &mut Draw, shape: &str, count: usize) -> RuleList {
    let family = if shape.ends_with('6') { Family::Ipv6 } else { Family::Ipv4 };
    list((0..count).map(|at| {
        let mut rule =
            Rule::any(0, family, if at % 3 == 0 { Action::Reject } else { Action::Pass });
        let share = |part: u64, of: u64| u128::from(part) * (family.greatest() / u128::from(of));
        let (this, all) = (at as u64, count as u64);
        let half = family.greatest() / 2;
        let some = |draw: &mut Draw, width: u128| {
            let first = draw.wide() % (family.greatest() - width).saturating_add(1);
            set([(first, first.saturating_add(draw.wide() % width.saturating_add(1)))], family)
        };
        let greatest = family.greatest();
        match shape {
            "random" | "random6" => {
                rule.source = some(draw, greatest);
                rule.destination = some(draw, greatest);
                rule.source_ports = two_ends(draw);
                rule.destination_ports = two_ends(draw);
            }
            "narrow" | "narrow6" => {
                let width = |draw: &mut Draw| greatest >> (4 + draw.below(20));
                let widths = [width(draw), width(draw)];
                rule.source = some(draw, widths[0]);
                rule.destination = some(draw, widths[1]);
                rule.source_ports = two_ends(draw);
                rule.destination_ports = two_ends(draw);
            }
            // The innermost first.
            "nested" => {
                let inset = half - share(this, all) / 2;
                let range = set([(inset, greatest - inset)], family);
                (rule.source, rule.destination) = (range.clone(), range);
                let inset = (32_767 - this * 32_767 / all) as u16;
                rule.source_ports = one_range(inset, 65_535 - inset);
                rule.destination_ports = one_range(inset, 65_535 - inset);
            }
            // A grid: each line crosses all of the other direction.
            "crossing" => {
                let thin = some(draw, greatest / u128::from(4 * all));
                *(if at % 2 == 0 { &mut rule.source } else { &mut rule.destination }) = thin;
                let port = draw.half();
                *(if at % 4 < 2 { &mut rule.source_ports } else { &mut rule.destination_ports }) =
                    one_range(port, port.saturating_add(3));
            }
            // Half planes that nothing on the diagonal is in.
            "planes" => {
                let at = draw.wide() % greatest;
                rule.source = set([(at, greatest)], family);
                rule.destination = set([(0, at.saturating_sub(1))], family);
                let port = draw.half().max(1);
                rule.source_ports = one_range(port, 65_535);
                rule.destination_ports = one_range(0, port - 1);
            }
            // A range of a twentieth in each field.
            "quarters" => {
                rule.source = some(draw, greatest / 10);
                rule.destination = some(draw, greatest / 10);
                let ports = |draw: &mut Draw| {
                    let first = draw.half();
                    one_range(first, first.saturating_add((draw.half()) / 10))
                };
                rule.source_ports = ports(draw);
                rule.destination_ports = ports(draw);
            }
            _ => of_lists(draw, shape, at, &mut rule),
        }
        rule
    }))
}

/// The rest of the shapes: few values of some fields, and anything in the others.
fn of_lists(draw: &mut Draw, shape: &str, at: usize, rule: &mut Rule) {
    let family = rule.family;
    let address = |draw: &mut Draw| RangeSet::one(draw.wide() % family.greatest());
    match shape {
        // Any address, and lists of ports.
        "sets" => {
            let ports = |draw: &mut Draw| {
                let range = |draw: &mut Draw| {
                    let first = draw.half();
                    (first, first.saturating_add(draw.below(40) as u16))
                };
                let ranges: Vec<_> = (0..5).map(|_| range(draw)).collect();
                RangeSet::from_ranges(ranges).map_or(PortTest::Any, PortTest::In)
            };
            rule.source_ports = ports(draw);
            rule.destination_ports = ports(draw);
        }
        // One address or one port, and anything else.
        "stars" => match at % 4 {
            0 => rule.source = address(draw),
            1 => rule.destination = address(draw),
            2 => rule.source_ports = one_range(at as u16, at as u16),
            _ => rule.destination_ports = one_range(at as u16, at as u16),
        },
        "pair" => {
            rule.source = RangeSet::one(0x0a00_0001);
            rule.destination = RangeSet::one(0x0a00_0002);
            let ports = |draw: &mut Draw| {
                let first = draw.half();
                one_range(first, first.saturating_add(draw.half() >> draw.below(12)))
            };
            rule.source_ports = ports(draw);
            rule.destination_ports = ports(draw);
        }
        "octets" => {
            let low = |draw: &mut Draw| draw.wide() & 0xff_ffff;
            let open =
                |low: u128| set((0..256).map(|high| (high << 24 | low, high << 24 | low)), family);
            rule.source = open(low(draw));
            rule.destination = open(low(draw));
        }
        _ => {
            let protocols = (0..=255).filter(|_| draw.one_in(9)).collect();
            rule.protocol = ProtocolTest::Only(TransportTest::of(protocols));
            rule.source = address(draw);
        }
    }
}

/// Ports between two, any.
fn two_ends(draw: &mut Draw) -> PortTest {
    let (a, b) = (draw.half(), draw.half());
    one_range(a.min(b), a.max(b))
}
