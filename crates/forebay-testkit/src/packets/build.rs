//! Packets for tests, built from the inside out: every function puts one header before what it
//! is given. Checksums are left zero, for nothing here looks at them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// IP protocol numbers.
pub mod protocol {
    pub const ICMP: u8 = 1;
    pub const IP_IN_IP: u8 = 4;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const DCCP: u8 = 33;
    pub const IPV6_IN_IP: u8 = 41;
    pub const IPV6_ROUTING: u8 = 43;
    pub const IPV6_FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const ESP: u8 = 50;
    pub const AUTHENTICATION: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const IPV6_DESTINATION: u8 = 60;
    pub const OSPF: u8 = 89;
    pub const COMPRESSION: u8 = 108;
    pub const SCTP: u8 = 132;
    pub const MOBILITY: u8 = 135;
    pub const UDP_LITE: u8 = 136;
}

/// EtherTypes.
pub mod ether_type {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const VLAN: u16 = 0x8100;
    pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
    pub const IPV6: u16 = 0x86dd;
    pub const MPLS: u16 = 0x8847;
    pub const PPPOE: u16 = 0x8864;
    pub const PPP: u16 = 0x880b;
    pub const PROVIDER_VLAN: u16 = 0x88a8;
    pub const ERSPAN: u16 = 0x88be;
    pub const BACKBONE: u16 = 0x88e7;
    pub const E_TAG: u16 = 0x893f;
    pub const ERSPAN_3: u16 = 0x22eb;
}

/// Puts `head` before `payload`.
pub fn before(head: &[u8], payload: &[u8]) -> Vec<u8> {
    [head, payload].concat()
}

fn length(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).expect("a length of 16 bits").to_be_bytes()
}

/// Which way a packet goes: everything in it that has a direction turns with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// From the first end to the second.
    pub forth: bool,
}

pub const FORTH: Way = Way { forth: true };
pub const BACK: Way = Way { forth: false };

impl Way {
    fn ends<T>(self, first: T, second: T) -> (T, T) {
        if self.forth { (first, second) } else { (second, first) }
    }

    pub fn ports(self, first: u16, second: u16) -> (u16, u16) {
        self.ends(first, second)
    }

    /// An Ethernet frame between two hosts.
    pub fn ethernet(self, ether_type: u16, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = self.ends([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        [&destination[..], &source, &ether_type.to_be_bytes(), payload].concat()
    }

    /// An IPv4 packet of subnet `net`: `10.net.0.1` and `10.net.0.2`.
    pub fn ip4(self, net: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        self.fragment4(net, protocol, (0, 0), payload)
    }

    /// An IPv4 fragment; `place` is the identification and the flags-and-offset field.
    pub fn fragment4(self, net: u8, protocol: u8, place: (u16, u16), payload: &[u8]) -> Vec<u8> {
        self.ip4_with_options(net, protocol, place, &[], payload)
    }

    pub fn ip4_with_options(
        self,
        net: u8,
        protocol: u8,
        (id, offset): (u16, u16),
        options: &[u8],
        payload: &[u8],
    ) -> Vec<u8> {
        let (source, destination) = self.ends(host4(net, 1), host4(net, 2));
        let mut ip = vec![0x45 + u8::try_from(options.len() / 4).expect("few options"), 0];
        ip.extend((20 + options.len() as u16 + payload.len() as u16).to_be_bytes());
        ip.extend(id.to_be_bytes());
        ip.extend(offset.to_be_bytes());
        ip.extend([64, protocol, 0, 0]);
        ip.extend(source.octets());
        ip.extend(destination.octets());
        ip.extend(options);
        ip.extend(payload);
        ip
    }

    /// An IPv6 packet of subnet `net`: `fd00:net::1` and `fd00:net::2`.
    pub fn ip6(self, net: u8, next_header: u8, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = self.ends(host6(net, 1), host6(net, 2));
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend(length(payload));
        ip.extend([next_header, 64]);
        ip.extend(source.octets());
        ip.extend(destination.octets());
        ip.extend(payload);
        ip
    }

    /// A UDP datagram between two ports.
    pub fn udp(self, first: u16, second: u16, payload: &[u8]) -> Vec<u8> {
        let (from, to) = self.ports(first, second);
        udp(from, to, payload)
    }

    /// A TCP header between two ports.
    pub fn tcp(self, first: u16, second: u16) -> Vec<u8> {
        let (from, to) = self.ports(first, second);
        let mut tcp = [from.to_be_bytes(), to.to_be_bytes()].concat();
        tcp.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
        tcp
    }
}

pub fn host4(net: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, net, 0, host)
}

pub fn host6(net: u8, host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, u16::from(net), 0, 0, 0, 0, 0, u16::from(host))
}

/// A UDP datagram that goes the same way whichever way its packet goes, as tunnels' do.
pub fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = [from.to_be_bytes(), to.to_be_bytes()].concat();
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

/// An IPv6 fragment header; `place` is the offset-and-flags field.
pub fn fragment6(next_header: u8, place: u16, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![next_header, 0];
    header.extend(place.to_be_bytes());
    header.extend(id.to_be_bytes());
    before(&header, payload)
}

/// An IPv6 extension header of `8 * (units + 1)` bytes.
pub fn extension(next_header: u8, units: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 8 * (usize::from(units) + 1)];
    (header[0], header[1]) = (next_header, units);
    before(&header, payload)
}

/// An authentication header with a 12-byte value.
pub fn authentication(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = [0; 24];
    (header[0], header[1]) = (next_header, 4);
    before(&header, payload)
}

/// An ICMP message with the four bytes after its checksum zero.
pub fn icmp(kind: u8, code: u8, payload: &[u8]) -> Vec<u8> {
    before(&[kind, code, 0, 0, 0, 0, 0, 0], payload)
}

/// What follows a VLAN tag's EtherType.
pub fn vlan(id: u16, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    before(&[id.to_be_bytes(), ether_type.to_be_bytes()].concat(), payload)
}

pub fn e_tag(id: u16, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut tag = vec![0, 0];
    tag.extend(id.to_be_bytes());
    tag.extend([0, 0]);
    tag.extend(ether_type.to_be_bytes());
    before(&tag, payload)
}

pub fn backbone(service: u8, frame: &[u8]) -> Vec<u8> {
    before(&[0, 0, 0, service], frame)
}

pub fn snap(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0xaa, 0xaa, 3, 0, 0, 0];
    header.extend(ether_type.to_be_bytes());
    before(&header, payload)
}

/// A stack of labels, the last of them at its bottom.
pub fn mpls(labels: &[u16], payload: &[u8]) -> Vec<u8> {
    let entry = |(i, &label): (usize, &u16)| {
        let bottom = u32::from(i + 1 == labels.len());
        (u32::from(label) << 12 | bottom << 8 | 64).to_be_bytes()
    };
    before(&labels.iter().enumerate().flat_map(entry).collect::<Vec<u8>>(), payload)
}

pub fn pppoe(session: u16, ppp: &[u8]) -> Vec<u8> {
    let mut header = vec![0x11, 0];
    header.extend(session.to_be_bytes());
    header.extend(length(ppp));
    before(&header, ppp)
}

pub fn gre(flags: u16, protocol: u16, optional: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut header = [flags.to_be_bytes(), protocol.to_be_bytes()].concat();
    header.extend(optional);
    before(&header, payload)
}

/// A GRE header with a key.
pub fn keyed_gre(key: u32, protocol: u16, payload: &[u8]) -> Vec<u8> {
    gre(0x2000, protocol, &key.to_be_bytes(), payload)
}

/// GRE and the header of ERSPAN type II.
pub fn erspan_2(session: u8, frame: &[u8]) -> Vec<u8> {
    let header = before(&[0x10, 0, 0, session, 0, 0, 0, 0], frame);
    gre(0x1000, ether_type::ERSPAN, &[0, 0, 0, 1], &header)
}

/// GRE and the header of ERSPAN type III, with its platform-specific part or without.
pub fn erspan_3(session: u8, with_subheader: bool, frame: &[u8]) -> Vec<u8> {
    let mut header = vec![0x20, 0, 0, session, 0, 0, 0, 0, 0, 0, 0, u8::from(with_subheader)];
    header.resize(if with_subheader { 20 } else { 12 }, 0);
    gre(0x1000, ether_type::ERSPAN_3, &[0, 0, 0, 1], &before(&header, frame))
}

/// A UDP datagram with a VXLAN header.
pub fn vxlan(port: u16, network: u8, frame: &[u8]) -> Vec<u8> {
    udp(ENTROPY, port, &before(&[8, 0, 0, 0, 0, 0, network, 0], frame))
}

/// A UDP datagram with a GENEVE header and `words` words of options.
pub fn geneve(network: u8, words: u8, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![words, 0];
    header.extend(protocol.to_be_bytes());
    header.extend([0, 0, network, 0]);
    header.resize(8 + 4 * usize::from(words), 0);
    udp(ENTROPY, 6081, &before(&header, payload))
}

/// A UDP datagram with a GTP-U header for a packet; `optional` follows the eight fixed bytes.
pub fn gtp_u(tunnel: u8, flags: u8, optional: &[u8], payload: &[u8]) -> Vec<u8> {
    let rest = before(optional, payload);
    let mut header = vec![0x30 | flags, 255];
    header.extend(length(&rest));
    header.extend([0, 0, 0, tunnel]);
    udp(ENTROPY, 2152, &before(&header, &rest))
}

/// The source port of UDP tunnels.
pub const ENTROPY: u16 = 49_999;
