//! Keys as engines read them: plain words of fixed layout, one array a family.
//!
//! A [`Key4`] is 16 bytes and a [`Key6`] 48, both in the machine's byte order.
//! ICMP's type and code stand where other protocols have ports; no packet has
//! both. What a packet lacks is 0 in its field, and `kind` and `flags` say so.

use crate::key::Key;
use crate::rule::{Family, TCP};
use forebay_packet::LinkType;
use forebay_packet::decode::PlainHead;

/// In `kind`: the protocol cannot be reached.
pub const UNREACHABLE: u16 = 256;
/// In `kind`: the packet has ports.
pub const HAS_PORTS: u16 = 512;
/// In `kind`: the packet has an ICMP type and code, of its family's ICMP.
pub const HAS_ICMP: u16 = 1024;
/// The values of `kind` are below this.
pub const KINDS: usize = 2048;

/// In `flags`: a TCP packet whose control bits are not there.
pub const NO_FLAGS: u16 = 256;
/// In `flags`: not a TCP packet.
pub const NOT_TCP: u16 = 257;
/// The values of `flags` are below this.
pub const FLAG_VALUES: usize = 258;

/// The key of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(C, align(16))]
pub struct Key4 {
    /// Source address.
    pub source: u32,
    /// Destination address.
    pub destination: u32,
    /// Source port, or ICMP type.
    pub first: u16,
    /// Destination port, or ICMP code.
    pub second: u16,
    /// Protocol or [`UNREACHABLE`], with [`HAS_PORTS`] or [`HAS_ICMP`].
    pub kind: u16,
    /// TCP's control bits, [`NO_FLAGS`] or [`NOT_TCP`].
    pub flags: u16,
}

/// The key of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(C, align(16))]
pub struct Key6 {
    /// Source address, the most significant word first.
    pub source: [u32; 4],
    /// Destination address, likewise.
    pub destination: [u32; 4],
    /// Source port, or ICMP type.
    pub first: u16,
    /// Destination port, or ICMP code.
    pub second: u16,
    /// Protocol or [`UNREACHABLE`], with [`HAS_PORTS`] or [`HAS_ICMP`].
    pub kind: u16,
    /// TCP's control bits, [`NO_FLAGS`] or [`NOT_TCP`].
    pub flags: u16,
}

/// A key of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packed {
    /// Of an IPv4 packet.
    V4(Key4),
    /// Of an IPv6 packet.
    V6(Key6),
}

impl Packed {
    /// The key of a packet, as [`Key::of_packet`] finds it.
    #[inline]
    #[must_use]
    pub fn of_packet(link: LinkType, packet: &[u8]) -> Option<Self> {
        let plain = if link == LinkType::ETHERNET { PlainHead::of(packet) } else { None };
        match plain {
            Some(head) => Some(Self::V4(head.into())),
            None => Key::of_packet(link, packet).as_ref().map(Self::from),
        }
    }
}

impl From<PlainHead> for Key4 {
    #[inline]
    fn from(head: PlainHead) -> Self {
        Self {
            source: head.source,
            destination: head.destination,
            first: head.ports.0,
            second: head.ports.1,
            kind: u16::from(head.protocol()) | HAS_PORTS,
            flags: head.tcp_flags.map_or(NOT_TCP, u16::from),
        }
    }
}

impl From<&Key> for Packed {
    #[inline]
    fn from(key: &Key) -> Self {
        let (first, second) = match (key.ports, key.icmp) {
            (Some(ports), _) => ports,
            (None, Some((kind, code))) => (kind.into(), code.into()),
            (None, None) => (0, 0),
        };
        let present = match (key.ports, key.icmp) {
            (Some(_), _) => HAS_PORTS,
            (None, Some(_)) => HAS_ICMP,
            (None, None) => 0,
        };
        let kind = key.protocol.map_or(UNREACHABLE, u16::from) | present;
        let flags = match key.protocol {
            Some(TCP) => key.tcp_flags.map_or(NO_FLAGS, u16::from),
            _ => NOT_TCP,
        };
        match key.family {
            Family::Ipv4 => {
                let (source, destination) = (key.source as u32, key.destination as u32);
                Self::V4(Key4 { source, destination, first, second, kind, flags })
            }
            Family::Ipv6 => {
                let (source, destination) = (words(key.source), words(key.destination));
                Self::V6(Key6 { source, destination, first, second, kind, flags })
            }
        }
    }
}

/// The words of an IPv6 address, the most significant first.
pub(crate) fn words(address: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (address >> shift) as u32)
}
