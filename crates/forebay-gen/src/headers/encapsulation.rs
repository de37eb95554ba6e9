//! Everything before the innermost internet header: Ethernet, VLAN tags
//! (IEEE 802.1Q, 802.1ad) and tunnels over IPv4: VXLAN (RFC 7348), GENEVE (RFC
//! 8926), GRE (RFC 2784, keys of RFC 2890), GTP-U (3GPP TS 29.281), IPv4 in IPv4
//! (RFC 2003) and IPv6 in IPv4 (RFC 4213).
//!
//! Tunnel end points send atomic datagrams: don't-fragment set, identification
//! zero (RFC 6864 section 4). Outer UDP checksums are zero, as RFC 7348 section
//! 4.1 asks for and the others allow over IPv4.

use std::net::{IpAddr, Ipv4Addr};

use super::direction::Direction;
use super::fields::{put16, put32};
use super::internet::InternetHeader;
use super::protocol;
use super::transport::{UDP_HEADER, write_udp};

const ETHERNET_HEADER: usize = 14;
const VLAN_TAG: usize = 4;
const OUTER_IPV4_HEADER: usize = 20;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
const ETHERTYPE_BRIDGED: u16 = 0x6558;
const OUTER_TTL: u8 = 63;

/// VLAN tags of a flow's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tags {
    /// 802.1Q identifier, 12 bits.
    pub vlan: Option<u16>,
    /// 802.1ad service identifier before it, 12 bits.
    pub service: Option<u16>,
    /// Frames to the client carry no tags: the tap sees one side of a router
    /// port untagged.
    pub one_way: bool,
}

impl Tags {
    /// The tags of one direction, outermost first.
    fn of(self, direction: Direction) -> [Option<(u16, u16)>; 2] {
        if self.one_way && direction == Direction::ToClient {
            return [None, None];
        }
        [
            self.service.map(|id| (ETHERTYPE_SERVICE_VLAN, id)),
            self.vlan.map(|id| (ETHERTYPE_VLAN, id)),
        ]
    }
}

/// Protocols of tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    /// Ethernet in UDP port 4789.
    Vxlan,
    /// Ethernet in UDP port 6081.
    Geneve,
    /// IP in GRE.
    Gre,
    /// IP in GRE with a key.
    GreKey,
    /// IP in UDP port 2152.
    GtpU,
    /// IP in IPv4: IPIP or 6in4.
    Ip,
}

impl TunnelKind {
    /// Destination port, of kinds that run over UDP.
    fn port(self) -> Option<u16> {
        match self {
            Self::Vxlan => Some(4789),
            Self::Geneve => Some(6081),
            Self::GtpU => Some(2152),
            Self::Gre | Self::GreKey | Self::Ip => None,
        }
    }

    /// Whether it carries Ethernet.
    fn carries_ethernet(self) -> bool {
        matches!(self, Self::Vxlan | Self::Geneve)
    }

    /// Bytes of the tunnel's own header.
    fn header(self) -> usize {
        match self {
            Self::Vxlan | Self::Geneve | Self::GtpU | Self::GreKey => 8,
            Self::Gre => 4,
            Self::Ip => 0,
        }
    }
}

/// A tunnel that a flow runs through.
#[derive(Clone, Copy, Debug)]
pub struct Tunnel {
    /// Which protocol.
    pub kind: TunnelKind,
    /// The end points: the client's side, the server's side.
    pub ends: [Ipv4Addr; 2],
    /// Network identifier, key or tunnel end point identifier; 24 bits are used.
    pub id: u32,
    /// Source port of kinds over UDP, by the hash of the inner flow.
    pub source_port: u16,
}

impl Tunnel {
    fn len(&self) -> usize {
        let udp = if self.kind.port().is_some() { UDP_HEADER } else { 0 };
        let ethernet = if self.kind.carries_ethernet() { ETHERNET_HEADER } else { 0 };
        OUTER_IPV4_HEADER + udp + self.kind.header() + ethernet
    }

    /// Writes outer headers of a packet to `direction` that carries an internet
    /// packet of `inner` bytes.
    fn write(
        &self,
        direction: Direction,
        bytes: &mut [u8],
        macs: [[u8; 6]; 2],
        inner: usize,
        ipv6: bool,
    ) {
        let ethertype = if ipv6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
        let after_ip = self.len() - OUTER_IPV4_HEADER + inner;
        let outer_protocol = match self.kind {
            TunnelKind::Gre | TunnelKind::GreKey => protocol::GRE,
            TunnelKind::Ip if ipv6 => protocol::IPV6,
            TunnelKind::Ip => protocol::IPV4,
            _ => protocol::UDP,
        };
        let from = direction.index();
        let outer = InternetHeader {
            source: IpAddr::V4(self.ends[from]),
            destination: IpAddr::V4(self.ends[1 - from]),
            protocol: outer_protocol,
            ttl: OUTER_TTL,
            identification: 0,
            label: 0,
            fragment: None,
            dont_fragment: true,
        };
        outer.write(bytes, after_ip);
        let mut at = OUTER_IPV4_HEADER;
        if let Some(port) = self.kind.port() {
            write_udp(&mut bytes[at..], [self.source_port, port], after_ip - UDP_HEADER);
            at += UDP_HEADER;
        }
        self.write_own_header(&mut bytes[at..], inner, ethertype);
        at += self.kind.header();
        if self.kind.carries_ethernet() {
            write_ethernet(&mut bytes[at..], direction, macs, [None, None], ethertype);
        }
    }

    fn write_own_header(&self, bytes: &mut [u8], inner: usize, ethertype: u16) {
        match self.kind {
            TunnelKind::Vxlan => {
                // Flag I: the identifier is valid.
                put32(bytes, 0, 0x0800_0000);
                put32(bytes, 4, self.id << 8);
            }
            TunnelKind::Geneve => {
                put16(bytes, 0, 0);
                put16(bytes, 2, ETHERTYPE_BRIDGED);
                put32(bytes, 4, self.id << 8);
            }
            TunnelKind::Gre => put32(bytes, 0, u32::from(ethertype)),
            TunnelKind::GreKey => {
                put32(bytes, 0, 0x2000_0000 | u32::from(ethertype));
                put32(bytes, 4, self.id);
            }
            TunnelKind::GtpU => {
                // Version 1, protocol type GTP, message type G-PDU.
                put16(bytes, 0, 0x30ff);
                put16(bytes, 2, inner as u16);
                put32(bytes, 4, self.id);
            }
            TunnelKind::Ip => {}
        }
    }
}

/// The headers around the internet packets of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Encapsulation {
    /// Addresses of the stations: the client's side, the server's side. With a
    /// tunnel that carries Ethernet they are the inner ones, and the stations
    /// outside are derived from the tunnel's ends.
    pub macs: [[u8; 6]; 2],
    /// VLAN tags of the outer frame.
    pub tags: Tags,
    /// A tunnel, if there is one.
    pub tunnel: Option<Tunnel>,
}

impl Encapsulation {
    /// Bytes before the innermost internet header.
    #[must_use]
    pub fn len(&self, direction: Direction) -> usize {
        let tags = self.tags.of(direction).iter().flatten().count();
        ETHERNET_HEADER + tags * VLAN_TAG + self.tunnel.map_or(0, |tunnel| tunnel.len())
    }

    /// Writes all headers before an internet packet of `inner` bytes.
    pub fn write(&self, direction: Direction, bytes: &mut [u8], inner: usize, ipv6: bool) {
        let tags = self.tags.of(direction);
        match &self.tunnel {
            None => {
                let ethertype = if ipv6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
                write_ethernet(bytes, direction, self.macs, tags, ethertype);
            }
            Some(tunnel) => {
                let outer = tunnel.ends.map(station_of);
                let at = write_ethernet(bytes, direction, outer, tags, ETHERTYPE_IPV4);
                tunnel.write(direction, &mut bytes[at..], self.macs, inner, ipv6);
            }
        }
    }
}

/// A locally administered station address derived from an IPv4 address.
#[must_use]
pub fn station_of(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x00, a, b, c, d]
}

/// Writes an Ethernet header with tags; returns its length.
fn write_ethernet(
    bytes: &mut [u8],
    direction: Direction,
    macs: [[u8; 6]; 2],
    tags: [Option<(u16, u16)>; 2],
    ethertype: u16,
) -> usize {
    let from = direction.index();
    bytes[0..6].copy_from_slice(&macs[1 - from]);
    bytes[6..12].copy_from_slice(&macs[from]);
    let mut at = 12;
    for (tag_type, id) in tags.into_iter().flatten() {
        put16(bytes, at, tag_type);
        put16(bytes, at + 2, id);
        at += VLAN_TAG;
    }
    put16(bytes, at, ethertype);
    at + 2
}
