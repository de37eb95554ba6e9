//! IPv4 (RFC 791) and IPv6 with its extension headers (RFC 8200), fragments included.

use super::bytes::Bytes;
use super::decoded::DecodeOutcome;
use super::protocol::{
    AUTHENTICATION, HOST_IDENTITY, IPV6_DESTINATION, IPV6_FRAGMENT, IPV6_HOP_BY_HOP,
    IPV6_NO_NEXT_HEADER, IPV6_ROUTING, MOBILITY, SHIM6,
};
use super::walk::{Datagram, Header, Next, Walk};
use crate::flow::AddressKind;
use crate::fragment::{FragmentKey, FragmentRole, FragmentSpan};

/// The most extension headers that are followed; more are an attack.
const MAX_EXTENSIONS: usize = 32;

/// Addresses and protocol of an IP header; its version field decides which.
pub(super) fn datagram(bytes: Bytes<'_>, at: usize) -> Option<Datagram> {
    Some(match bytes.u8(at)? >> 4 {
        4 => Datagram {
            kind: AddressKind::Ipv4,
            protocol: bytes.u8(at + 9)?,
            source: u128::from(bytes.u32(at + 12)?),
            destination: u128::from(bytes.u32(at + 16)?),
        },
        6 => Datagram {
            kind: AddressKind::Ipv6,
            protocol: bytes.u8(at + 6)?,
            source: bytes.u128(at + 8)?,
            destination: bytes.u128(at + 24)?,
        },
        _ => return None,
    })
}

impl Walk<'_> {
    /// An IP header.
    pub(super) fn ip(&mut self, at: usize) -> Next {
        let datagram = datagram(self.bytes, at)?;
        match datagram.kind {
            AddressKind::Ipv4 => self.ipv4(datagram, at),
            _ => self.ipv6(datagram, at),
        }
    }

    fn ipv4(&mut self, datagram: Datagram, at: usize) -> Next {
        let header_len = usize::from(self.bytes.u8(at)? & 0x0f) * 4;
        let total_len = usize::from(self.bytes.u16(at + 2)?);
        let fragment = self.bytes.u16(at + 6)?;
        if header_len < 20 {
            return None;
        }
        // Zero is left in by hosts that let the network card cut the segment.
        if total_len != 0 {
            self.bytes = self.bytes.until(at + total_len.max(header_len));
        }
        let (offset, more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
        if offset != 0 || more {
            let span = span(offset, total_len.saturating_sub(header_len), !more);
            let key = FragmentKey {
                source: datagram.source,
                destination: datagram.destination,
                scope: self.scope,
                id: u32::from(self.bytes.u16(at + 4)?),
                protocol: datagram.protocol,
                ipv6: false,
            };
            if offset != 0 {
                return self.later_fragment(datagram, key, span);
            }
            self.note_fragment(FragmentRole::First, key, span);
        }
        Some((Header::Transport(datagram), at + header_len))
    }

    fn ipv6(&mut self, mut datagram: Datagram, at: usize) -> Next {
        let payload_len = usize::from(self.bytes.u16(at + 4)?);
        // Zero: a jumbogram (RFC 2675), or left in for the network card.
        if payload_len != 0 {
            self.bytes = self.bytes.until(at + 40 + payload_len);
        }
        self.extensions(&mut datagram, at + 40, at + 40 + payload_len)
    }

    /// Follows extension headers to the transport header.
    fn extensions(&mut self, datagram: &mut Datagram, mut at: usize, end: usize) -> Next {
        for _ in 0..MAX_EXTENSIONS {
            let len = match datagram.protocol {
                // Usually nothing follows these, and the packet is then one of theirs.
                MOBILITY | HOST_IDENTITY | SHIM6
                    if self.bytes.u8(at) == Some(IPV6_NO_NEXT_HEADER) =>
                {
                    return Some((Header::Transport(*datagram), at));
                }
                IPV6_HOP_BY_HOP | IPV6_ROUTING | IPV6_DESTINATION | MOBILITY | HOST_IDENTITY
                | SHIM6 => self.bytes.u8(at + 1).map(|units| usize::from(units) * 8 + 8),
                AUTHENTICATION if self.passes_authentication => {
                    self.bytes.u8(at + 1).map(|units| usize::from(units) * 4 + 8)
                }
                IPV6_FRAGMENT => match self.ipv6_fragment(datagram, at, end) {
                    Ipv6Fragment::Cut => None,
                    Ipv6Fragment::Later => return None,
                    Ipv6Fragment::FirstOrWhole => Some(8),
                },
                _ => return Some((Header::Transport(*datagram), at)),
            };
            let (Some(len), Some(next)) = (len, self.bytes.u8(at)) else {
                break;
            };
            datagram.protocol = next;
            at += len;
        }
        self.cut(*datagram);
        None
    }

    fn ipv6_fragment(&mut self, datagram: &Datagram, at: usize, end: usize) -> Ipv6Fragment {
        let fields = (self.bytes.u8(at), self.bytes.u16(at + 2), self.bytes.u32(at + 4));
        let (Some(protocol), Some(place), Some(id)) = fields else { return Ipv6Fragment::Cut };
        let (offset, more) = (place >> 3, place & 1 == 1);
        if offset == 0 && !more {
            // An atomic fragment is a whole datagram (RFC 6946).
            return Ipv6Fragment::FirstOrWhole;
        }
        let key = FragmentKey {
            source: datagram.source,
            destination: datagram.destination,
            scope: self.scope,
            id,
            protocol: 0,
            ipv6: true,
        };
        let span = span(offset, end.saturating_sub(at + 8), !more);
        if offset == 0 {
            self.note_fragment(FragmentRole::First, key, span);
            return Ipv6Fragment::FirstOrWhole;
        }
        let _: Next = self.later_fragment(Datagram { protocol, ..*datagram }, key, span);
        Ipv6Fragment::Later
    }

    /// A later fragment has no transport header; its address pair takes the place of
    /// until the first is known.
    fn later_fragment(&mut self, datagram: Datagram, key: FragmentKey, span: FragmentSpan) -> Next {
        self.note_fragment(FragmentRole::Later, key, span);
        self.addresses(datagram, DecodeOutcome::LaterFragment);
        None
    }

    /// The transport header, or one before it, is not in the packet.
    pub(super) fn cut(&mut self, datagram: Datagram) {
        self.addresses(datagram, DecodeOutcome::Cut);
    }

    pub(super) fn addresses(&mut self, datagram: Datagram, outcome: DecodeOutcome) {
        let Datagram { kind, protocol, source, destination } = datagram;
        self.found_pair(kind, protocol, (source, 0), (destination, 0), outcome);
    }
}

/// The part of a datagram from `start`, in units of 8 bytes, of `len` bytes.
fn span(start: u16, len: usize, last: bool) -> FragmentSpan {
    let end = usize::from(start) + len.div_ceil(8);
    FragmentSpan { start, end: u16::try_from(end).unwrap_or(u16::MAX), last }
}

enum Ipv6Fragment {
    FirstOrWhole,
    Later,
    Cut,
}
