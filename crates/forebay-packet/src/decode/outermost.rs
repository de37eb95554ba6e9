//! The outermost IP packet that was captured: rules match its headers, and copies of a packet
//! have it in common.

use super::bytes::Bytes;
use super::decoded::DecodeOutcome;
use super::link;
use super::network::{IPV6_HEADER, datagram, plain_transport};
use super::options::DecodeOptions;
use super::protocol::{ICMP, ICMPV6, TCP, has_ports, is_extension};
use super::transport::{control_bits, icmp, ports};
use super::walk::{Datagram, Header, MAX_LAYERS, Walk};
use crate::flow::AddressKind;
use crate::link::LinkType;

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: usize = 20;

/// An IP packet whose addresses were captured.
#[derive(Clone, Copy)]
pub struct IpPacket<'a> {
    datagram: Datagram,
    /// From its header on, with what is behind it in the frame.
    bytes: Bytes<'a>,
}

/// What the headers behind an IP header say. What cannot be reached is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UpperLayer {
    /// The protocol, in IPv6 that behind all extension headers.
    pub protocol: Option<u8>,
    /// Source and destination port.
    pub ports: Option<(u16, u16)>,
    /// TCP's control bits.
    pub tcp_flags: Option<u8>,
    /// Type and code of an ICMP message of the packet's family.
    pub icmp: Option<(u8, u8)>,
}

/// The outermost IP packet, captured on a link of that type; none if no IP header can be
/// reached, or one that is cut before its addresses end.
#[must_use]
pub fn ip_packet(link: LinkType, packet: &[u8]) -> Option<IpPacket<'_>> {
    let bytes = Bytes::new(packet);
    let (mut header, mut at) = link::first(bytes, link, 0)?;
    for _ in 0..MAX_LAYERS {
        if let Header::Ip = header {
            let bytes = Bytes::new(bytes.from(at));
            return Some(IpPacket { datagram: datagram(bytes, 0)?, bytes });
        }
        (header, at) = link::next(bytes, header, at)?;
    }
    None
}

impl<'a> IpPacket<'a> {
    /// Whether it is IPv6, and not IPv4.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.datagram.kind == AddressKind::Ipv6
    }

    /// Source and destination address.
    #[must_use]
    pub fn addresses(&self) -> (u128, u128) {
        (self.datagram.source, self.datagram.destination)
    }

    /// The captured bytes from its header on, with what is behind the packet in the frame.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes.from(0)
    }

    /// What the headers behind the IP header say; no tunnel is entered.
    #[inline]
    #[must_use]
    pub fn upper_layer(&self) -> UpperLayer {
        let known = self.datagram.protocol;
        let (protocol, at, bytes) = match plain_transport(self.bytes, &self.datagram) {
            Some((at, bytes)) => (known, at, bytes),
            // A later fragment, or a header that is cut or malformed.
            None if !self.is_ipv6() => {
                return UpperLayer { protocol: Some(known), ..Default::default() };
            }
            None => match self.behind_extensions() {
                Ok(transport) => transport,
                Err(protocol) => return UpperLayer { protocol, ..Default::default() },
            },
        };
        let own_icmp = if self.is_ipv6() { ICMPV6 } else { ICMP };
        UpperLayer {
            protocol: Some(protocol),
            ports: ports(bytes, at).filter(|_| has_ports(protocol)),
            tcp_flags: control_bits(bytes, at).filter(|_| protocol == TCP),
            icmp: icmp(bytes, at).filter(|_| protocol == own_icmp),
        }
    }

    /// The protocol behind the extension headers, where its header begins, and the bytes up to
    /// the packet's end; or at least the protocol, if it is known.
    #[cold]
    fn behind_extensions(&self) -> Result<(u8, usize, Bytes<'a>), Option<u8>> {
        let mut walk = Walk::new(DecodeOptions::default(), self.bytes);
        walk.passes_authentication = true;
        match walk.ip(0) {
            Some((Header::Transport(protocol), at)) if at <= walk.bytes.len() => {
                Ok((protocol, at, walk.bytes))
            }
            _ => {
                let known = walk.found.outcome == DecodeOutcome::LaterFragment;
                let protocol = Some(walk.found.key.protocol);
                Err(protocol.filter(|&next| known && !is_extension(next)))
            }
        }
    }

    /// What is the same in front of a router and behind it: the header without its options,
    /// and without hop limit and checksum, then the rest of the packet.
    #[must_use]
    pub fn routed_alike(&self) -> ([u8; IPV6_HEADER], &'a [u8]) {
        let (len, changed, total) = if self.is_ipv6() {
            let payload = self.bytes.u16(4).map_or(0, usize::from);
            let total = if payload == 0 { 0 } else { IPV6_HEADER + payload };
            (IPV6_HEADER, &[7][..], total)
        } else {
            (IPV4_HEADER, &[8, 10, 11][..], self.bytes.u16(2).map_or(0, usize::from))
        };
        let whole = self.bytes();
        let (start, rest) = whole.split_at(len.min(whole.len()));
        let mut header = [0; IPV6_HEADER];
        header[..start.len()].copy_from_slice(start);
        changed.iter().for_each(|&at| header[at] = 0);
        // Zero is left in by hosts that let the network card cut the segment.
        let end = if total < len { rest.len() } else { rest.len().min(total - len) };
        (header, &rest[..end])
    }
}
