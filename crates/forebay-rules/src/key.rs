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

use crate::rule::{Family, TCP, UDP};
use forebay_packet::LinkType;
use forebay_packet::decode::ip_packet;

const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// The most extension headers that are followed; more are an attack.
const MAX_EXTENSIONS: usize = 32;

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
    #[must_use]
    pub fn of_packet(link: LinkType, bytes: &[u8]) -> Option<Self> {
        Self::of_ip(ip_packet(link, bytes)?)
    }

    /// The key of the IP packet that starts `bytes`; none if that is not the
    /// start of an IPv4 or IPv6 header whose addresses were captured.
    #[must_use]
    pub fn of_ip(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::of_ipv4(bytes),
            6 => Self::of_ipv6(bytes),
            _ => None,
        }
    }

    /// A key that has addresses only.
    fn of_addresses(family: Family, source: u128, destination: u128) -> Self {
        let protocol = None;
        Self { family, source, destination, protocol, ports: None, tcp_flags: None, icmp: None }
    }

    fn of_ipv4(bytes: &[u8]) -> Option<Self> {
        let source = u32::from_be_bytes(at(bytes, 12)?).into();
        let destination = u32::from_be_bytes(at(bytes, 16)?).into();
        let mut key = Self::of_addresses(Family::Ipv4, source, destination);
        let header_len = usize::from(bytes[0] & 0x0f) * 4;
        let total_len = usize::from(u16::from_be_bytes(at(bytes, 2)?));
        key.protocol = Some(bytes[9]);
        let later_fragment = u16::from_be_bytes(at(bytes, 6)?) & 0x1fff != 0;
        if header_len >= 20 && !later_fragment {
            key.read_transport(until(bytes, total_len).get(header_len..).unwrap_or_default());
        }
        Some(key)
    }

    fn of_ipv6(bytes: &[u8]) -> Option<Self> {
        let source = u128::from_be_bytes(at(bytes, 8)?);
        let destination = u128::from_be_bytes(at(bytes, 24)?);
        let mut key = Self::of_addresses(Family::Ipv6, source, destination);
        let payload_len = usize::from(u16::from_be_bytes(at(bytes, 4)?));
        let payload = until(&bytes[40..], payload_len);
        if let Some(upper) = upper_layer(bytes[6], payload) {
            key.protocol = Some(upper.protocol);
            key.read_transport(upper.bytes);
        }
        Some(key)
    }

    /// What the transport header says, as far as `bytes` hold it.
    fn read_transport(&mut self, bytes: &[u8]) {
        let Some(protocol) = self.protocol else { return };
        if has_ports(protocol) {
            self.ports = at(bytes, 0)
                .zip(at(bytes, 2))
                .map(|(source, port)| (u16::from_be_bytes(source), u16::from_be_bytes(port)));
        }
        if protocol == TCP {
            self.tcp_flags = bytes.get(13).copied();
        }
        if protocol == self.family.icmp() {
            self.icmp = at(bytes, 0).map(|[kind, code]| (kind, code));
        }
    }
}

/// An upper-layer header; of a later fragment, nothing but its protocol.
struct UpperLayer<'a> {
    protocol: u8,
    bytes: &'a [u8],
}

/// Follows the extension headers at the start of `bytes`, the first of which
/// is `next`, to the upper-layer header.
fn upper_layer(mut next: u8, mut bytes: &[u8]) -> Option<UpperLayer<'_>> {
    for _ in 0..MAX_EXTENSIONS {
        let following = bytes.first().copied();
        let len = match next {
            // Usually nothing follows these, and the packet is then one of theirs.
            MOBILITY | HOST_IDENTITY | SHIM6 if following == Some(NO_NEXT_HEADER) => {
                return Some(UpperLayer { protocol: next, bytes });
            }
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HOST_IDENTITY | SHIM6 => {
                usize::from(*bytes.get(1)?) * 8 + 8
            }
            AUTHENTICATION => usize::from(*bytes.get(1)?) * 4 + 8,
            FRAGMENT => {
                if u16::from_be_bytes(at(bytes, 2)?) >> 3 != 0 {
                    let protocol = following.filter(|&next| !is_extension(next))?;
                    return Some(UpperLayer { protocol, bytes: &[] });
                }
                8
            }
            protocol => return Some(UpperLayer { protocol, bytes }),
        };
        next = following?;
        bytes = bytes.get(len..)?;
    }
    None
}

/// Whether a protocol's header begins with a source and a destination port.
pub(crate) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// Whether a packet over IPv6 can be of that protocol: whether it is its last
/// header, of those that may be.
pub(crate) fn ends_ipv6_chain(protocol: u8) -> bool {
    !is_extension(protocol) || matches!(protocol, MOBILITY | HOST_IDENTITY | SHIM6)
}

/// Whether another header follows the one of that number.
fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP
            | ROUTING
            | FRAGMENT
            | AUTHENTICATION
            | DESTINATION_OPTIONS
            | MOBILITY
            | HOST_IDENTITY
            | SHIM6
    )
}

/// `N` bytes from `offset`, if there are so many.
fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// The first `len` bytes; all for 0, which hosts leave in a length field when
/// the network card cuts the segment.
fn until(bytes: &[u8], len: usize) -> &[u8] {
    if len == 0 { bytes } else { bytes.get(..len).unwrap_or(bytes) }
}
