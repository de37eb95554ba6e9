//! The headers of the paper's comparison.
//!
//! The paper's 10,000 packets were captured in a laboratory, and hardly any of its rules
//! matched them: with all five lists α, the number of rules that a packet is held
//! against on average, is nearly the size of the list. These are drawn by a fixed seed to
//! be like that: traffic between other networks than the rules', of common services, with
//! a few packets to the networks of the rules' servers and a few DNS queries, which one of the rules lets
//! pass.

use forebay_rules::key::Key;
use forebay_rules::packed::Key4;
use forebay_rules::rule::{Family, ICMP, TCP, UDP, flag};

use super::frames::packed;
use forebay_packet::random::Random;

/// The seed.
pub const SEED: u64 = 20_080_225;

/// How many headers.
const HEADERS: usize = 10_000;

/// In a thousand headers: DNS queries, and packets to the networks of the rules' servers.
const QUERIES: usize = 19;
const TO_SERVERS: usize = 6;

/// Networks that the traffic is between, as first address and number of addresses:
/// private ones (RFC 1918), shared ones (RFC 6598), and a part of all others.
const NETWORKS: [(u32, usize); 3] =
    [(0xac10_0000, 1 << 20), (0x6440_0000, 1 << 22), (0x0b00_0000, 0x5800_0000)];

/// Networks of the rules' servers.
const SERVERS: [(u32, usize); 3] = [(0xc000_0200, 256), (0xc612_1400, 512), (0xc613_0700, 256)];

/// Ports of services.
const TCP_SERVICES: [u16; 8] = [80, 443, 443, 22, 25, 993, 445, 8080];
const UDP_SERVICES: [u16; 4] = [123, 443, 5060, 51820];

/// The headers.
pub fn headers() -> Vec<Key4> {
    let mut random = Random::new(SEED);
    (0..HEADERS).filter_map(|_| packed(&header(&mut random))).collect()
}

fn header(random: &mut Random) -> Key {
    let address = |(first, count): (u32, usize), random: &mut Random| {
        u128::from(first) + random.index(count) as u128
    };
    let source = address(NETWORKS[random.index(NETWORKS.len())], random);
    let kind = random.index(1_000);
    let networks = if kind < TO_SERVERS { &SERVERS } else { &NETWORKS };
    let destination = address(networks[random.index(networks.len())], random);
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
        _ => services[random.index(services.len())],
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
    use super::super::engines::first_match;
    use super::super::lists;
    use super::super::paper::{ALPHA, alpha};
    use super::*;

    #[test]
    fn packets_are_held_against_as_many_rules_as_in_the_paper() {
        let headers = headers();
        assert_eq!(headers.len(), HEADERS);
        for (list, theirs) in lists::paper().unwrap().iter().zip(ALPHA) {
            let expected: Vec<u32> = headers.iter().map(|key| first_match(list, key)).collect();
            let ours = alpha(&expected, list.rules.len());
            assert!((ours / theirs - 1.0).abs() < 0.02, "{ours} instead of {theirs}");
        }
    }
}
