//! Headers of the packets, written from the inside out.
//!
//! A [`Frame`] is one buffer. The length of all headers of a packet is known before any is
//! written, so a session first writes its transport header and payload at their final place
//! ([`Frame::room`]), and [`Frame::seal`] then writes the checksums and every header before
//! them. Nothing is moved.

mod encapsulation;
mod internet;
mod transport;

pub use encapsulation::{Encapsulation, Tags, Tunnel, TunnelKind};
pub use internet::{Fragment, InternetHeader, pseudo_header_sum};
pub use transport::{TcpFlags, TcpHeader, TcpOptions, UDP_HEADER, write_tcp, write_udp};

/// The shortest Ethernet frame without its check sequence (IEEE 802.3 clause
/// 4A.4.2: minFrameSize of 64 octets).
pub const MIN_FRAME: usize = 60;

/// IP protocol numbers (IANA "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IPv4 in IP.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 in IP.
    pub const IPV6: u8 = 41;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// Generic routing encapsulation.
    pub const GRE: u8 = 47;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the end that started the flow.
    ToServer,
    /// To that end.
    ToClient,
}

impl Direction {
    /// The opposite direction.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }

    /// 0 to the server, 1 to the client: an index into pairs by sender.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The sum of 16-bit words of RFC 1071 without the carries; an odd last byte
/// counts as if a zero followed. Sums of parts of even length can be added.
///
/// The sum does not depend on the order of the bytes of a word (section 2(B)),
/// so 32-bit words are added as the machine has them and swapped at the end.
#[must_use]
pub fn sum_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    let mut tail = [0; 4];
    tail[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_le_bytes(tail));
    u64::from((!fold(sum)).swap_bytes())
}

/// Folds a sum to 16 bits and complements it (RFC 1071 section 1).
#[must_use]
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Writes a 16-bit number in network order.
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a 32-bit number in network order.
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A buffer in which one packet after another is built.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    internet_at: usize,
    end: usize,
}

impl Frame {
    /// A buffer for frames of up to `longest` bytes.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        Self { bytes: vec![0; longest.max(MIN_FRAME)], internet_at: 0, end: 0 }
    }

    /// The longest frame the buffer takes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.bytes.len()
    }

    /// The buffer for transport header and payload after these headers.
    pub fn room(
        &mut self,
        encapsulation: &Encapsulation,
        direction: Direction,
        header: &InternetHeader,
    ) -> &mut [u8] {
        let start = encapsulation.len(direction) + header.len();
        &mut self.bytes[start..]
    }

    /// Completes the packet whose transport header and payload, `len` bytes,
    /// are in place: checksums, internet header, encapsulation, padding.
    pub fn seal(
        &mut self,
        encapsulation: &Encapsulation,
        direction: Direction,
        header: &InternetHeader,
        len: usize,
    ) {
        let internet_at = encapsulation.len(direction);
        let transport_at = internet_at + header.len();
        let end = transport_at + len;
        if header.fragment.is_none() {
            transport::write_checksum(header, &mut self.bytes[transport_at..end]);
        }
        header.write(&mut self.bytes[internet_at..], len);
        encapsulation.write(direction, &mut self.bytes, end - internet_at, header.is_ipv6());
        if end < MIN_FRAME {
            self.bytes[end..MIN_FRAME].fill(0);
        }
        self.internet_at = internet_at;
        self.end = end;
    }

    /// The frame that was sealed last.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.bytes[..self.end.max(MIN_FRAME)]
    }

    /// The innermost internet packet of the frame that was sealed last.
    #[must_use]
    pub fn internet_packet(&self) -> &[u8] {
        &self.bytes[self.internet_at..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_example_in_rfc_1071() {
        // Section 3: 0001 f203 f4f5 f6f7 sums to 2ddf0, folded ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum_words(&bytes)), !0xddf2);
        assert_eq!(
            fold(sum_words(&bytes[..7])),
            fold(sum_words(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0]))
        );
    }

    #[test]
    fn chunks_sum_as_the_whole_at_even_cuts() {
        let bytes: Vec<u8> = (0..101_u8).collect();
        for cut in (0..100).step_by(2) {
            let parts = sum_words(&bytes[..cut]) + sum_words(&bytes[cut..]);
            assert_eq!(fold(parts), fold(sum_words(&bytes)));
        }
    }
}
