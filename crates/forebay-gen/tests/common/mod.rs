//! What the tests look at captures with: a parser of frames that shares no code
//! with the product, and a writer of pcap files for other programs to read.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeSet;

use forebay_gen::{Config, Generator};
use forebay_testkit::make::{ETHERNET, Pcap};

/// All packets of a capture with their times in nanoseconds.
pub fn packets_of(config: Config) -> Vec<(u64, Vec<u8>)> {
    let mut generator = Generator::new(config).unwrap();
    let mut packets = Vec::new();
    while let Some(batch) = generator.next_batch().unwrap() {
        for i in 0..batch.len() {
            assert_eq!(batch.wire_len(i), batch.cap_len(i));
            packets.push((batch.ticks(i), batch.packet(i).to_vec()));
        }
    }
    packets
}

/// A capture file in nanoseconds, little-endian.
pub fn pcap(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let pcap = Pcap { nanoseconds: true, ..Pcap::of(ETHERNET) };
    let mut file = pcap.header();
    for (time, packet) in packets {
        file.extend(pcap.record(*time, packet, packet.len() as u32));
    }
    file
}

/// One end: address, port.
pub type End = (Vec<u8>, u16);

/// A two-way 5-tuple: protocol, lower end, higher end.
pub type Key = (u8, End, End);

/// What a fragment is recognised by: addresses, identification.
pub type FragmentKey = (Vec<u8>, Vec<u8>, u32);

/// A TCP segment.
#[derive(Debug)]
pub struct Segment {
    pub from: End,
    pub to: End,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
    pub payload: Vec<u8>,
    pub sack: Option<(u32, u32)>,
}

/// What the parser found innermost.
#[derive(Debug)]
pub enum Inner {
    /// A packet of this flow; of a fragmented datagram the first part.
    Flow(Key),
    /// A later fragment.
    Later,
}

/// One packet.
#[derive(Debug)]
pub struct Parsed {
    pub inner: Inner,
    pub segment: Option<Segment>,
    /// Offset, payload and whether more follow.
    pub fragment: Option<(FragmentKey, usize, Vec<u8>, bool)>,
    /// What occurs in the packet, in words.
    pub traits: BTreeSet<&'static str>,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// The ones' complement sum of 16-bit words, the plainest way.
pub fn ones_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for (i, &byte) in part.iter().enumerate() {
            sum += if i % 2 == 0 { u32::from(byte) << 8 } else { u32::from(byte) };
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    sum as u16
}

/// An internet header.
struct Internet {
    source: Vec<u8>,
    destination: Vec<u8>,
    protocol: u8,
    ipv6: bool,
}

impl Internet {
    fn pseudo(&self, len: usize) -> Vec<u8> {
        let mut bytes = [self.source.clone(), self.destination.clone()].concat();
        bytes.extend((len as u32).to_be_bytes());
        bytes.extend([0, 0, 0, self.protocol]);
        bytes
    }
}

/// Parses a frame and checks every length and checksum in it.
pub fn parse(frame: &[u8]) -> Parsed {
    let mut parsed =
        Parsed { inner: Inner::Later, segment: None, fragment: None, traits: BTreeSet::new() };
    assert!(frame.len() >= 60, "runt of {} bytes", frame.len());
    parse_ethernet(frame, &mut parsed, true);
    parsed
}

fn parse_ethernet(frame: &[u8], parsed: &mut Parsed, outer: bool) {
    for mac in [&frame[..6], &frame[6..12]] {
        assert_eq!(mac[0] & 3, 2, "locally administered unicast");
    }
    let mut at = 12;
    let mut tags = 0;
    while matches!(be16(frame, at), 0x8100 | 0x88a8) {
        assert!((1..4095).contains(&(be16(frame, at + 2) & 0xfff)));
        at += 4;
        tags += 1;
    }
    match tags {
        0 => {}
        1 => _ = parsed.traits.insert("vlan"),
        _ => _ = parsed.traits.insert("qinq"),
    }
    let used = at + 2 + parse_internet(be16(frame, at), &frame[at + 2..], parsed);
    let padding = &frame[used..];
    assert!(padding.iter().all(|&b| b == 0), "padding of zeros");
    assert!(padding.is_empty() || (outer && frame.len() == 60), "padding only to 60 bytes");
}

/// Returns the bytes of the packet.
fn parse_internet(ethertype: u16, bytes: &[u8], parsed: &mut Parsed) -> usize {
    match ethertype {
        0x0800 => {
            assert_eq!(bytes[0], 0x45);
            assert_eq!(ones_sum(&[&bytes[..20]]), 0xffff, "IPv4 header checksum");
            let total = usize::from(be16(bytes, 2));
            let header = Internet {
                source: bytes[12..16].to_vec(),
                destination: bytes[16..20].to_vec(),
                protocol: bytes[9],
                ipv6: false,
            };
            let fragment = be16(bytes, 6);
            let more = fragment & 0x2000 != 0;
            let offset = usize::from(fragment & 0x1fff) * 8;
            let cut = (more || offset > 0).then(|| (u32::from(be16(bytes, 4)), offset, more));
            parse_cut(&header, &bytes[20..total], cut, parsed);
            total
        }
        0x86dd => {
            assert_eq!(bytes[0] >> 4, 6);
            parsed.traits.insert("ipv6");
            let total = 40 + usize::from(be16(bytes, 4));
            let mut header = Internet {
                source: bytes[8..24].to_vec(),
                destination: bytes[24..40].to_vec(),
                protocol: bytes[6],
                ipv6: true,
            };
            let (mut start, mut cut) = (40, None);
            if header.protocol == 44 {
                header.protocol = bytes[40];
                let field = be16(bytes, 42);
                cut = Some((be32(bytes, 44), usize::from(field & !7), field & 1 == 1));
                start = 48;
            }
            parse_cut(&header, &bytes[start..total], cut, parsed);
            total
        }
        other => panic!("EtherType {other:#x}"),
    }
}

fn parse_cut(
    header: &Internet,
    payload: &[u8],
    cut: Option<(u32, usize, bool)>,
    parsed: &mut Parsed,
) {
    let Some((identification, offset, more)) = cut else {
        return parse_transport(header, payload, parsed);
    };
    assert!(!more || payload.len().is_multiple_of(8));
    parsed.traits.insert(if header.ipv6 { "fragment6" } else { "fragment4" });
    let key = (header.source.clone(), header.destination.clone(), identification);
    parsed.fragment = Some((key, offset, payload.to_vec(), more));
    if offset == 0 {
        parsed.inner = Inner::Flow(key_of(header, be16(payload, 0), be16(payload, 2)));
    }
}

fn key_of(header: &Internet, source: u16, destination: u16) -> Key {
    let a = (header.source.clone(), source);
    let b = (header.destination.clone(), destination);
    if a < b { (header.protocol, a, b) } else { (header.protocol, b, a) }
}

fn parse_transport(header: &Internet, bytes: &[u8], parsed: &mut Parsed) {
    let pseudo = header.pseudo(bytes.len());
    match header.protocol {
        6 => {
            assert_eq!(ones_sum(&[&pseudo, bytes]), 0xffff, "TCP checksum");
            parsed.traits.insert("tcp");
            parsed.inner = Inner::Flow(key_of(header, be16(bytes, 0), be16(bytes, 2)));
            parsed.segment = Some(parse_tcp(header, bytes));
        }
        17 => parse_udp(header, bytes, &pseudo, parsed),
        1 => {
            assert!(!header.ipv6);
            assert_eq!(ones_sum(&[bytes]), 0xffff, "ICMP checksum");
            parse_icmp(header, bytes, parsed);
        }
        58 => {
            assert!(header.ipv6);
            assert_eq!(ones_sum(&[&pseudo, bytes]), 0xffff, "ICMPv6 checksum");
            parse_icmp(header, bytes, parsed);
        }
        4 => {
            parsed.traits.insert("ipip");
            assert_eq!(parse_internet(0x0800, bytes, parsed), bytes.len());
        }
        41 => {
            parsed.traits.insert("6in4");
            assert_eq!(parse_internet(0x86dd, bytes, parsed), bytes.len());
        }
        47 => {
            parsed.traits.insert("gre");
            let at = if be16(bytes, 0) & 0x2000 != 0 { 8 } else { 4 };
            let rest = &bytes[at..];
            assert_eq!(parse_internet(be16(bytes, 2), rest, parsed), rest.len());
        }
        other => panic!("protocol {other}"),
    }
}

fn parse_tcp(header: &Internet, bytes: &[u8]) -> Segment {
    let start = usize::from(bytes[12] >> 4) * 4;
    let mut sack = None;
    let mut at = 20;
    while at < start {
        match bytes[at] {
            0 => break,
            1 => at += 1,
            kind => {
                let len = usize::from(bytes[at + 1]);
                assert!(len >= 2 && at + len <= start, "option {kind} of {len} bytes");
                if kind == 5 {
                    sack = Some((be32(bytes, at + 2), be32(bytes, at + 6)));
                }
                at += len;
            }
        }
    }
    Segment {
        from: (header.source.clone(), be16(bytes, 0)),
        to: (header.destination.clone(), be16(bytes, 2)),
        sequence: be32(bytes, 4),
        acknowledgement: be32(bytes, 8),
        flags: bytes[13],
        payload: bytes[start..].to_vec(),
        sack,
    }
}

fn parse_udp(header: &Internet, bytes: &[u8], pseudo: &[u8], parsed: &mut Parsed) {
    assert_eq!(usize::from(be16(bytes, 4)), bytes.len(), "UDP length");
    let (source, port) = (be16(bytes, 0), be16(bytes, 2));
    let none = be16(bytes, 6) == 0;
    assert!(!none || !header.ipv6, "UDP over IPv6 has a checksum");
    assert!(none || ones_sum(&[pseudo, bytes]) == 0xffff, "UDP checksum");
    let inner = &bytes[8..];
    match port {
        4789 => {
            parsed.traits.insert("vxlan");
            assert!(none && inner[0] == 8 && inner[7] == 0);
            parse_ethernet(&inner[8..], parsed, false);
        }
        6081 => {
            parsed.traits.insert("geneve");
            assert!(inner[0] == 0 && be16(inner, 2) == 0x6558);
            parse_ethernet(&inner[8..], parsed, false);
        }
        2152 => {
            parsed.traits.insert("gtp-u");
            assert_eq!(be16(inner, 0), 0x30ff);
            assert_eq!(usize::from(be16(inner, 2)), inner.len() - 8);
            let ethertype = if inner[8] >> 4 == 6 { 0x86dd } else { 0x0800 };
            assert_eq!(parse_internet(ethertype, &inner[8..], parsed), inner.len() - 8);
        }
        _ => {
            assert!(!none, "the inner datagrams all have checksums");
            parsed.inner = Inner::Flow(key_of(header, source, port));
            parsed.traits.insert(match source.min(port) {
                53 => "dns",
                123 => "ntp",
                443 => "quic",
                _ => "udp",
            });
        }
    }
}

fn parse_icmp(header: &Internet, bytes: &[u8], parsed: &mut Parsed) {
    match (header.ipv6, bytes[0]) {
        (false, 0 | 8) | (true, 128 | 129) => {
            parsed.traits.insert("echo");
            parsed.inner = Inner::Flow(key_of(header, 0, 0));
        }
        (false, 3) | (true, 1) => {
            parsed.traits.insert("icmp-error");
            let quote = &bytes[8..];
            let at = if header.ipv6 { 40 } else { 20 };
            if !header.ipv6 {
                assert_eq!(ones_sum(&[&quote[..20]]), 0xffff, "quoted header checksum");
            }
            assert!(quote.len() >= at + 8);
            let quoted = Internet {
                source: if header.ipv6 { quote[8..24].to_vec() } else { quote[12..16].to_vec() },
                destination: quote[at - if header.ipv6 { 16 } else { 4 }..at].to_vec(),
                protocol: if header.ipv6 { quote[6] } else { quote[9] },
                ipv6: header.ipv6,
            };
            assert_eq!(quoted.source, header.destination, "goes to the sender of the quoted");
            let key = key_of(&quoted, be16(quote, at), be16(quote, at + 2));
            parsed.inner = Inner::Flow(key);
        }
        (_, kind) => panic!("ICMP type {kind}"),
    }
}
