//! The short way for what most packets are: Ethernet, IPv4 without options or fragments,
//! TCP or UDP. It finds what the long way finds, or nothing.

use super::Decoder;
use super::transport::{TCP, UDP};
use super::tunnel::is_tunnel_port;
use crate::flow::{AddressKind, FlowKey};

/// Bytes up to the end of the ports.
const HEAD: usize = 38;

/// The least length of an IPv4 datagram that holds the ports.
const WITH_PORTS: u16 = 24;

/// The flow of a plain packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The flow the packet is part of.
    pub key: FlowKey,
    /// Whether the packet goes from the key's high end to its low end.
    pub reversed: bool,
    /// What must be equal of two packets that may not be parted.
    pub affinity: FlowKey,
}

impl Decoder {
    /// The flow of an Ethernet frame, where it is plain to see. What is found is what
    /// [`Decoder::decode`] finds; where nothing is, that has to look.
    #[inline]
    #[must_use]
    pub fn decode_plain(&self, frame: &[u8]) -> Option<Plain> {
        let head: &[u8; HEAD] = frame.first_chunk()?;
        let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let u32_at =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let total_len = u16_at(16);
        let whole = u16_at(20) & 0x3fff == 0 && (total_len == 0 || total_len >= WITH_PORTS);
        let (protocol, destination_port) = (head[23], u16_at(36));
        let plain = protocol == TCP || protocol == UDP && !is_tunnel_port(destination_port);
        if u16_at(12) != 0x0800 || head[14] != 0x45 || !whole || !plain {
            return None;
        }
        let source = (u128::from(u32_at(26)), u16_at(34));
        let destination = (u128::from(u32_at(30)), destination_port);
        let (key, reversed) = FlowKey::two_way(AddressKind::Ipv4, protocol, source, destination);
        let key = FlowKey { has_ports: true, ..key };
        let affinity = self.options.affinity.of(key, reversed);
        Some(Plain { key, reversed, affinity })
    }
}
