//! The layers of a packet, and what the steps between them yield.

use std::net::IpAddr;

pub(super) const ICMP: u8 = 1;
pub(super) const IP_IN_IP: u8 = 4;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const DCCP: u8 = 33;
pub(super) const IPV6_IN_IP: u8 = 41;
pub(super) const ROUTING: u8 = 43;
pub(super) const FRAGMENT: u8 = 44;
pub(super) const GRE: u8 = 47;
pub(super) const ICMPV6: u8 = 58;
pub(super) const NO_NEXT_HEADER: u8 = 59;
pub(super) const SCTP: u8 = 132;
pub(super) const UDP_LITE: u8 = 136;

/// What makes fragments one datagram: RFC 791 (with the protocol), RFC 8200 section 4.5 (without).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Datagram {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: Option<u8>,
    pub(super) id: u32,
}

/// What the next bytes of a packet are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    Ethernet,
    /// What follows this EtherType; below 0x0600 it is a length and an LLC header follows.
    EtherType(u16),
    LogicalLinkControl,
    Mpls,
    PointToPoint,
    /// An IP packet of the version its first nibble names.
    Ip,
    Ipv4,
    Ipv6,
}

/// One step of the descent.
pub(super) enum Step<'a> {
    Into(Layer, &'a [u8]),
    Transport(Transport<'a>),
    LaterFragment(Datagram),
}

/// What an IP packet carries once its own headers are taken off.
pub(super) struct Transport<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) payload: &'a [u8],
    /// The packet said that it has more payload than was captured.
    pub(super) cut: bool,
    /// The datagram, when this is its first fragment and others follow.
    pub(super) first_of: Option<Datagram>,
}

/// What comes after a tunnel's header.
pub(super) enum Inside<'a> {
    /// A packet or frame.
    Packet(Layer, &'a [u8]),
    /// Nothing that could be a packet: the carrier is the innermost.
    Opaque,
}

pub(super) fn point_to_point_protocol(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let bytes = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
    // The last byte of a protocol number is odd and no other is: one byte when compressed.
    if bytes.first()? & 1 == 1 {
        Some((u16::from(bytes[0]), &bytes[1..]))
    } else {
        Some((be16(bytes, 0)?, &bytes[2..]))
    }
}

pub(super) fn point_to_point_layer(protocol: u16) -> Option<Layer> {
    match protocol {
        0x0021 => Some(Layer::Ipv4),
        0x0057 => Some(Layer::Ipv6),
        0x0281 | 0x0283 => Some(Layer::Mpls),
        _ => None,
    }
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
