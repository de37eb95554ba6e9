//! The short way for what most packets are: Ethernet, IPv4 without options or fragments,
//! TCP or UDP. It finds what the long way finds, or nothing.

use super::decoded::Carried;
use super::decoder::Decoder;
use super::ether_type::IPV4;
use super::protocol::{TCP, UDP};
use super::tunnel::{GENEVE_PORT, UDP_HEADER, is_tunnel_port};
use crate::flow::{AddressKind, FlowKey};

/// Bytes up to the end of the ports.
const HEAD: usize = 38;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Where in a frame TCP's control bits are.
const CONTROL_BITS: usize = 47;

/// The least lengths of IPv4 datagrams that hold the ports, and the control bits.
const WITH_PORTS: u16 = 24;
const WITH_CONTROL_BITS: u16 = 34;

/// Fields of the headers of an Ethernet frame that holds IPv4 without options, not a later
/// fragment, with TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainHead {
    /// Source address.
    pub source: u32,
    /// Destination address.
    pub destination: u32,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// TCP's control bits; none for UDP.
    pub tcp_flags: Option<u8>,
    /// Fragments follow.
    is_first: bool,
}

impl PlainHead {
    /// The fields, where the frame is that plain: all of them.
    #[inline]
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD] = frame.first_chunk()?;
        let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let u32_at =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (protocol, total_len, fragment) = (head[23], u16_at(16), u16_at(20));
        let (is_tcp, control_bits) = (protocol == TCP, frame.get(CONTROL_BITS));
        let least = if is_tcp { WITH_CONTROL_BITS } else { WITH_PORTS };
        // Zero is left in by hosts that let the network card cut the segment.
        let is_whole = ((total_len == 0) | (total_len >= least)) & (fragment & 0x1fff == 0);
        let is_ipv4 = (u16_at(12) == IPV4) & (head[14] == 0x45);
        // Without a branch for the protocol, which nothing predicts.
        let is_known = is_tcp & control_bits.is_some() | (protocol == UDP);
        let tcp_flags = is_tcp.then(|| control_bits.copied().unwrap_or(0));
        (is_ipv4 & is_whole & is_known).then(|| Self {
            source: u32_at(26),
            destination: u32_at(30),
            ports: (u16_at(34), u16_at(36)),
            tcp_flags,
            is_first: fragment & 0x2000 != 0,
        })
    }

    /// TCP or UDP.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        if self.tcp_flags.is_some() { TCP } else { UDP }
    }
}

/// The flow of a plain packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The flow the packet is part of.
    pub key: FlowKey,
    /// Whether the packet goes from the key's high end to its low end.
    pub reversed: bool,
    /// What must be equal of two packets that may not be parted.
    pub affinity: FlowKey,
    /// TCP's control bits; none for UDP.
    pub tcp_flags: Option<u8>,
}

/// Bytes in front of the transport header.
const NETWORK: usize = 34;

impl Decoder {
    /// As [`Decoder::decode_plain`], with what is behind the TCP or UDP header. What is found is
    /// what [`Decoder::decode_with_carried`] finds, and the packet hides nothing.
    #[inline]
    #[must_use]
    pub fn decode_plain_with_carried<'a>(&self, frame: &'a [u8]) -> Option<(Plain, Carried<'a>)> {
        let plain = self.decode_plain(frame)?;
        let head: &[u8; HEAD] = frame.first_chunk()?;
        let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (total_len, source) = (usize::from(u16_at(16)), u16_at(NETWORK));
        let end = if total_len == 0 { usize::MAX } else { ETHERNET + total_len };
        let datagram = &frame[..end.min(frame.len())];
        let (header, tcp_numbers) = if plain.tcp_flags.is_some() {
            let header: &[u8; 20 - 6] = datagram.get(NETWORK..)?.first_chunk()?;
            let u32_at =
                |at: usize| header[at..].first_chunk().map(|&four| u32::from_be_bytes(four));
            let numbers = u32_at(4).zip(u32_at(8));
            (usize::from(header[12] >> 4) * 4, numbers)
        } else {
            (UDP_HEADER, None)
        };
        if header < UDP_HEADER || plain.tcp_flags.is_none() && source == GENEVE_PORT {
            return None;
        }
        let payload = datagram.get(NETWORK + header..).unwrap_or_default();
        Some((plain, Carried { payload, tcp_numbers, is_in_tunnel: false }))
    }

    /// The flow of an Ethernet frame, where it is plain to see. What is found is what
    /// [`Decoder::decode`] finds; where nothing is, that has to look.
    #[inline]
    #[must_use]
    pub fn decode_plain(&self, frame: &[u8]) -> Option<Plain> {
        let head = PlainHead::of(frame)?;
        let protocol = head.protocol();
        if head.is_first || protocol == UDP && is_tunnel_port(head.ports.1) {
            return None;
        }
        // As `FlowKey::two_way`, without a branch for the direction, which nothing predicts.
        let end = |address: u32, port: u16| u64::from(address) << 16 | u64::from(port);
        let source = end(head.source, head.ports.0);
        let destination = end(head.destination, head.ports.1);
        let (low, high) = (source.min(destination), source.max(destination));
        let key = FlowKey {
            low: (low >> 16).into(),
            high: (high >> 16).into(),
            scope: 0,
            port_low: low as u16,
            port_high: high as u16,
            protocol,
            kind: AddressKind::Ipv4,
            has_ports: true,
        };
        let reversed = source > destination;
        let affinity = self.options.affinity.of(key, reversed);
        Some(Plain { key, reversed, affinity, tcp_flags: head.tcp_flags })
    }
}
