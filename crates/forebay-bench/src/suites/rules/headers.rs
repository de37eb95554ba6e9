//! Headers: drawn from rules and from beside them, and those of the paper's comparison.
//!
//! A header of a list is a random point of a random rule. Half of them are then moved to the
//! number just outside a boundary of one of the rule's fields. Headers that were drawn before
//! are drawn again, so that all are different and in random order.

use std::collections::HashSet;

use forebay_packet::random::Random;
use forebay_rules::key::Key;
use forebay_rules::packed::Key4;
use forebay_rules::rule::{Family, ICMP, TCP, UDP, flag};
use forebay_rules::sets::Number;
use forebay_rules::{FlagTest, PortTest, ProtocolTest, RangeSet, Rule, RuleList};

use super::frames::packed;

/// What the headers are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// Packets, which have the ports, flags or ICMP type of their protocol.
    Packets,
    /// Five-tuples: ports whatever the protocol, and nothing else.
    FiveTuples,
}

impl HeaderKind {
    pub const ALL: [Self; 2] = [Self::Packets, Self::FiveTuples];
}

/// Headers drawn in vain before a list is taken to have no more.
const VAIN: usize = 1_000_000;

/// `count` different headers, or as many as there are.
pub fn draw(list: &RuleList, count: usize, kind: HeaderKind, seed: u64) -> Vec<Key4> {
    let mut random = Random::new(seed);
    let mut seen = HashSet::with_capacity(count);
    let mut headers = Vec::with_capacity(count);
    let mut vain = 0;
    while headers.len() < count && vain < VAIN && !list.rules.is_empty() {
        let rule = &list.rules[random.index(list.rules.len())];
        match packed(&header(rule, kind, &mut random)) {
            Some(key) if seen.insert(key) => headers.push(key),
            _ => vain += 1,
        }
    }
    headers
}

/// A header of `rule`, or one beside it.
fn header(rule: &Rule, kind: HeaderKind, random: &mut Random) -> Key {
    let mut source = member(&rule.source, random);
    let mut destination = member(&rule.destination, random);
    let mut ports = [&rule.source_ports, &rule.destination_ports].map(|test| port(test, random));
    let mut protocol = protocol(rule, random);
    if random.index(2) == 0 {
        match random.index(5) {
            0 => source = beside(&rule.source, source, u128::from(u32::MAX), random),
            1 => destination = beside(&rule.destination, destination, u128::from(u32::MAX), random),
            2 => ports[0] = port_beside(&rule.source_ports, ports[0], random),
            3 => ports[1] = port_beside(&rule.destination_ports, ports[1], random),
            _ => protocol = usual_protocol(random),
        }
    }
    let mut key = Key {
        family: Family::Ipv4,
        source,
        destination,
        protocol: Some(protocol),
        ports: None,
        tcp_flags: None,
        icmp: None,
    };
    match (kind, protocol) {
        (HeaderKind::FiveTuples, _) => key.ports = Some(ports.into()),
        (HeaderKind::Packets, TCP) => {
            key.ports = Some(ports.into());
            key.tcp_flags = Some(flags(rule, random));
        }
        (HeaderKind::Packets, _) if has_ports(protocol) => key.ports = Some(ports.into()),
        (HeaderKind::Packets, ICMP) => key.icmp = Some(icmp(rule, random)),
        (HeaderKind::Packets, _) => {}
    }
    key
}

/// Whether packets of the protocol have ports.
pub fn has_ports(protocol: u8) -> bool {
    const DCCP: u8 = 33;
    const SCTP: u8 = 132;
    const UDP_LITE: u8 = 136;
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// A random number of the set.
fn member<T: Number + Into<u128>>(set: &RangeSet<T>, random: &mut Random) -> u128 {
    let (low, high) = random.pick(set.ranges());
    let (low, high): (u128, u128) = (low.into(), high.into());
    low + random.index((high - low) as usize + 1) as u128
}

/// The number before or behind one of the set's ranges; `inside` if there is none.
fn beside<T: Number + Into<u128>>(
    set: &RangeSet<T>,
    inside: u128,
    greatest: u128,
    random: &mut Random,
) -> u128 {
    let (low, high) = random.pick(set.ranges());
    let (low, high): (u128, u128) = (low.into(), high.into());
    let outside = if random.index(2) == 0 { low.checked_sub(1) } else { high.checked_add(1) };
    outside.filter(|&number| number <= greatest).unwrap_or(inside)
}

fn port(test: &PortTest, random: &mut Random) -> u16 {
    match test {
        PortTest::Any => random.index(1 << 16) as u16,
        PortTest::In(set) => member(set, random) as u16,
    }
}

fn port_beside(test: &PortTest, inside: u16, random: &mut Random) -> u16 {
    let PortTest::In(set) = test else { return inside };
    beside(set, inside.into(), u16::MAX.into(), random) as u16
}

/// A protocol of the rule; of any, those that make up most traffic.
fn protocol(rule: &Rule, random: &mut Random) -> u8 {
    let ProtocolTest::Only(test) = &rule.protocol else { return usual_protocol(random) };
    let protocols: Vec<u8> = test.protocols.iter().collect();
    random.pick(&protocols)
}

fn usual_protocol(random: &mut Random) -> u8 {
    random.pick(&[TCP, TCP, TCP, TCP, UDP, UDP, UDP, ICMP])
}

/// Control bits that meet one of the rule's tests; for a rule without, usual ones.
fn flags(rule: &Rule, random: &mut Random) -> u8 {
    let usual = [
        flag::ACK,
        flag::ACK,
        flag::ACK | flag::PSH,
        flag::SYN,
        flag::SYN | flag::ACK,
        flag::FIN | flag::ACK,
        flag::RST,
    ];
    let drawn = random.pick(&usual);
    let ProtocolTest::Only(test) = &rule.protocol else { return drawn };
    match test.tcp_flags.first() {
        Some(FlagTest::Equal { mask, value }) => (drawn & !mask) | value,
        _ => drawn,
    }
}

/// Type and code, of the rule if it names some.
fn icmp(rule: &Rule, random: &mut Random) -> (u8, u8) {
    if let ProtocolTest::Only(test) = &rule.protocol
        && let Some(icmp) = &test.icmp
    {
        return (member(&icmp.types, random) as u8, member(&icmp.codes, random) as u8);
    }
    (random.pick(&[0, 3, 8, 11]), random.index(4) as u8)
}

/// The seed of the paper's headers.
pub const SEED: u64 = 20_080_225;

/// How many headers the paper's comparison has.
const HEADERS: usize = 10_000;

/// In a thousand headers: DNS queries, and packets to the networks of the rules' servers.
const QUERIES: usize = 19;
const TO_SERVERS: usize = 6;

/// Networks that the traffic is between, as first address and number of addresses:
/// private ones (RFC 1918), shared ones (RFC 6598), and a part of all others.
pub const NETWORKS: [(u32, usize); 3] =
    [(0xac10_0000, 1 << 20), (0x6440_0000, 1 << 22), (0x0b00_0000, 0x5800_0000)];

/// Networks of the rules' servers.
pub const SERVERS: [(u32, usize); 3] = [(0xc000_0200, 256), (0xc612_1400, 512), (0xc613_0700, 256)];

/// Ports of services.
const TCP_SERVICES: [u16; 8] = [80, 443, 443, 22, 25, 993, 445, 8080];
const UDP_SERVICES: [u16; 4] = [123, 443, 5060, 51820];

/// The headers of the paper's comparison.
///
/// The paper's 10,000 packets were captured in a laboratory, and hardly any of its rules
/// matched them: with all five lists α, the mean number of rules that a packet is compared
/// with, is nearly the size of the list. These are drawn by a fixed seed to have the same α:
/// traffic between other networks than the rules', of common services, with a few packets to
/// the networks of the rules' servers and a few DNS queries, which one of the rules passes.
pub fn of_paper() -> Vec<Key4> {
    let mut random = Random::new(SEED);
    (0..HEADERS).filter_map(|_| packed(&paper_header(&mut random))).collect()
}

/// An address of one of these networks.
pub fn address(networks: &[(u32, usize)], random: &mut Random) -> u32 {
    let (first, count) = random.pick(networks);
    first + random.index(count) as u32
}

fn paper_header(random: &mut Random) -> Key {
    let source = address(&NETWORKS, random).into();
    let kind = random.index(1_000);
    let networks = if kind < TO_SERVERS { &SERVERS } else { &NETWORKS };
    let destination = address(networks, random).into();
    let query = (TO_SERVERS..TO_SERVERS + QUERIES).contains(&kind);
    let protocol = match random.index(100) {
        _ if query => UDP,
        0..80 => TCP,
        80..97 => UDP,
        _ => ICMP,
    };
    let client = 32_768 + random.index(28_232) as u16;
    let services = if protocol == TCP { &TCP_SERVICES[..] } else { &UDP_SERVICES[..] };
    // One packet in three is of a service on a port of its own.
    let server = match random.index(3) {
        _ if query => 53,
        0 => 1_024 + random.index(31_744) as u16,
        _ => random.pick(services),
    };
    let answers = !query && random.index(2) == 0;
    let ports = if answers { (server, client) } else { (client, server) };
    let flags = match random.index(100) {
        0..50 => flag::ACK,
        50..82 => flag::ACK | flag::PSH,
        82..90 => flag::SYN,
        90..96 => flag::SYN | flag::ACK,
        96..99 => flag::FIN | flag::ACK,
        _ => flag::RST,
    };
    Key {
        family: Family::Ipv4,
        source,
        destination,
        protocol: Some(protocol),
        ports: (protocol != ICMP).then_some(ports),
        tcp_flags: (protocol == TCP).then_some(flags),
        icmp: (protocol == ICMP).then_some((8, 0)),
    }
}

#[cfg(test)]
mod tests {
    use forebay_rules::language::yamaha;

    use super::super::engines::first_match;
    use super::super::frames::unpacked;
    use super::super::lists;
    use super::super::paper::{ALPHA, alpha};
    use super::*;

    #[test]
    fn headers_differ_and_are_of_the_rules_or_beside_them() {
        let text = "ip filter 1 pass 10.0.0.0/24 192.0.2.1 tcp 1000-2000 80\n\
                    ip filter 2 pass 10.0.1.0/24 * icmp 8 *\n\
                    ip filter 3 pass 10.0.2.0/24 * established * *\n";
        let list = yamaha::parse(text).unwrap().ascending();
        let headers = draw(&list, 10_000, HeaderKind::Packets, 7);
        assert_eq!(headers.len(), 10_000);
        assert_eq!(headers.iter().collect::<HashSet<_>>().len(), 10_000);
        let decided = headers.iter().map(|key| list.decide(&unpacked(key)).rule);
        let matched: Vec<usize> = decided.flatten().collect();
        assert!((5_000..8_500).contains(&matched.len()), "{}", matched.len());
        assert_eq!(matched.iter().collect::<HashSet<_>>().len(), 3);
        let beside = headers.iter().filter(|key| key.first == 2001 || key.second == 81);
        assert!(beside.count() > 100);
        assert_eq!(draw(&list, 10_000, HeaderKind::Packets, 7), headers);
    }

    #[test]
    fn five_tuples_have_ports_and_nothing_else() {
        let list = yamaha::parse("ip filter 1 pass 10.0.0.0/8 * icmp 8 *\n").unwrap().ascending();
        for key in draw(&list, 100, HeaderKind::FiveTuples, 1) {
            let key = unpacked(&key);
            assert!(key.ports.is_some() && key.tcp_flags.is_none() && key.icmp.is_none());
        }
    }

    #[test]
    fn a_list_of_few_headers_gives_those() {
        let text = "ip filter 1 pass 10.0.0.1 10.0.0.2 udp 1 2\n";
        let list = yamaha::parse(text).unwrap().ascending();
        let headers = draw(&list, 1_000, HeaderKind::FiveTuples, 1);
        assert!((5..100).contains(&headers.len()), "{}", headers.len());
    }

    #[test]
    fn packets_of_the_paper_are_compared_with_as_many_rules() {
        let headers = of_paper();
        assert_eq!(headers.len(), HEADERS);
        for (list, theirs) in lists::paper().unwrap().iter().zip(ALPHA) {
            let expected: Vec<u32> = headers.iter().map(|key| first_match(list, key)).collect();
            let ours = alpha(&expected, list.rules.len());
            assert!((ours / theirs - 1.0).abs() < 0.02, "{ours} instead of {theirs}");
        }
    }
}
