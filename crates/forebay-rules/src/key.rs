//! The key of a packet: all that a rule can ask of it.
//!
//! The walk starts at the outermost IP header, behind link headers, VLAN tags
//! and MPLS labels, never enters a tunnel, and never looks behind the captured
//! bytes or behind the end that the IP header gives the datagram. What it cannot reach
//! is absent, and a rule that names it does not match: a fragment other than
//! the first has no ports, TCP flags or ICMP type, nor has a packet cut before
//! them. The protocol of an IPv6 packet is that of its upper-layer header
//! (RFC 8200 section 4), behind all extension headers; where that cannot be
//! reached, the protocol itself is absent and only `*` matches.

use crate::rule::Family;
use forebay_packet::LinkType;
pub(crate) use forebay_packet::decode::has_ports;
use forebay_packet::decode::{UpperLayer, ip_packet, is_extension};

const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// What rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Source address.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// IP protocol, if it can be reached.
    pub protocol: Option<u8>,
    /// Source and destination port of TCP, UDP, DCCP, SCTP and UDP-Lite.
    pub ports: Option<(u16, u16)>,
    /// TCP's control bits.
    pub tcp_flags: Option<u8>,
    /// Type and code of an ICMP message of the packet's family.
    pub icmp: Option<(u8, u8)>,
}

impl Key {
    /// The key of a packet captured on a link of type `link`. None if no IP
    /// header can be reached in it, or one that is cut before its addresses end.
    #[inline]
    #[must_use]
    pub fn of_packet(link: LinkType, bytes: &[u8]) -> Option<Self> {
        let ip = ip_packet(link, bytes)?;
        let family = if ip.is_ipv6() { Family::Ipv6 } else { Family::Ipv4 };
        let (source, destination) = ip.addresses();
        let UpperLayer { protocol, ports, tcp_flags, icmp } = ip.upper_layer();
        Some(Self { family, source, destination, protocol, ports, tcp_flags, icmp })
    }

    /// The key of the IP packet that starts `bytes`; none if that is not the
    /// start of an IPv4 or IPv6 header whose addresses were captured.
    #[must_use]
    pub fn of_ip(bytes: &[u8]) -> Option<Self> {
        Self::of_packet(LinkType::RAW, bytes)
    }
}

/// Whether a packet over IPv6 can be of that protocol: whether it is its last
/// header, of those that may be.
pub(crate) fn ends_ipv6_chain(protocol: u8) -> bool {
    !is_extension(protocol) || matches!(protocol, MOBILITY | HOST_IDENTITY | SHIM6)
}
