//! IPv4 (RFC 791) and IPv6 with its extension headers (RFC 8200), fragments included.

use super::bytes::Bytes;
use super::decoded::DecodeOutcome;
use super::protocol::{
    AUTHENTICATION, HOST_IDENTITY, IPV6_DESTINATION, IPV6_FRAGMENT, IPV6_HOP_BY_HOP,
    IPV6_NO_NEXT_HEADER, IPV6_ROUTING, MOBILITY, SHIM6, is_extension,
};
use super::walk::{Datagram, Header, Next, Walk};
use crate::flow::AddressKind;
use crate::fragment::{FragmentKey, FragmentRole, FragmentSpan};

/// Bytes of an IPv6 header.
pub(super) const IPV6_HEADER: usize = 40;

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

/// The lengths of an IPv4 header, and what it says of fragments.
#[derive(Clone, Copy)]
pub(super) struct Ipv4Lengths {
    /// Of the header, at least 20.
    header: usize,
    /// Of the datagram; 0 is left in by hosts that let the network card cut the segment.
    total: usize,
    fragment: u16,
}

impl Ipv4Lengths {
    /// Those of the header at that place.
    pub(super) fn of(bytes: Bytes<'_>, at: usize) -> Option<Self> {
        let header = usize::from(bytes.u8(at)? & 0x0f) * 4;
        let total = usize::from(bytes.u16(at + 2)?);
        let fragment = bytes.u16(at + 6)?;
        (header >= 20).then_some(Self { header, total, fragment })
    }

    /// The bytes up to the datagram's end.
    fn datagram<'a>(&self, bytes: Bytes<'a>, at: usize) -> Bytes<'a> {
        if self.total == 0 { bytes } else { bytes.until(at + self.total.max(self.header)) }
    }

    /// Where a fragment begins, in units of 8 bytes.
    fn offset(&self) -> u16 {
        self.fragment & 0x1fff
    }
}

/// The bytes up to the end of the IPv6 packet at that place, and the length of its payload;
/// 0 is a jumbogram (RFC 2675), or left in for the network card.
fn ipv6_payload(bytes: Bytes<'_>, at: usize) -> Option<(Bytes<'_>, usize)> {
    let len = usize::from(bytes.u16(at + 4)?);
    Some((if len == 0 { bytes } else { bytes.until(at + IPV6_HEADER + len) }, len))
}

/// Where the transport header of the IP packet at the start of `bytes` begins, and the bytes
/// up to the packet's end. None for a later fragment, for what is cut, and where extension
/// headers have to be followed.
pub(super) fn plain_transport<'a>(
    bytes: Bytes<'a>,
    datagram: &Datagram,
) -> Option<(usize, Bytes<'a>)> {
    if datagram.kind == AddressKind::Ipv4 {
        let lengths = Ipv4Lengths::of(bytes, 0)?;
        let is_later = lengths.offset() != 0;
        return (!is_later).then(|| (lengths.header, lengths.datagram(bytes, 0)));
    }
    let (bytes, _) = ipv6_payload(bytes, 0)?;
    (!is_extension(datagram.protocol)).then_some((IPV6_HEADER, bytes))
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
        let lengths = Ipv4Lengths::of(self.bytes, at)?;
        self.bytes = lengths.datagram(self.bytes, at);
        self.note_content(at + lengths.header);
        let (offset, more) = (lengths.offset(), lengths.fragment & 0x2000 != 0);
        if offset != 0 || more {
            let span = span(offset, lengths.total.saturating_sub(lengths.header), !more);
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
        Some((self.transport_of(datagram), at + lengths.header))
    }

    fn ipv6(&mut self, mut datagram: Datagram, at: usize) -> Next {
        let (bytes, len) = ipv6_payload(self.bytes, at)?;
        self.bytes = bytes;
        self.note_content(at + IPV6_HEADER);
        self.extensions(&mut datagram, at + IPV6_HEADER, at + IPV6_HEADER + len)
    }

    /// Follows extension headers to the transport header.
    fn extensions(&mut self, datagram: &mut Datagram, mut at: usize, end: usize) -> Next {
        for _ in 0..MAX_EXTENSIONS {
            let len = match datagram.protocol {
                // Usually nothing follows these, and the packet is then one of theirs.
                MOBILITY | HOST_IDENTITY | SHIM6
                    if self.bytes.u8(at) == Some(IPV6_NO_NEXT_HEADER) =>
                {
                    return Some((self.transport_of(*datagram), at));
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
                _ => return Some((self.transport_of(*datagram), at)),
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
        self.note_content(at + 8);
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

    /// The transport header of a packet.
    fn transport_of(&mut self, datagram: Datagram) -> Header {
        self.datagram = datagram;
        Header::Transport(datagram.protocol)
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
