//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, whole packets and fragments.

use std::net::IpAddr;

use super::checksum::{fold, sum_words};
use super::fields::{put16, put32};
use super::protocol;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const FRAGMENT_HEADER: usize = 8;

/// The part of a datagram in a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in the datagram's payload: bytes, a multiple of eight.
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
}

/// The fields of an IPv4 or IPv6 header that differ between packets.
#[derive(Clone, Copy, Debug)]
pub struct InternetHeader {
    /// Sender.
    pub source: IpAddr,
    /// Receiver, of the same family as the sender.
    pub destination: IpAddr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Identification: 16 bits in IPv4, 32 in the fragment header of IPv6.
    pub identification: u32,
    /// IPv6's flow label, 20 bits.
    pub label: u32,
    /// The fragment; `None` for a whole datagram.
    pub fragment: Option<Fragment>,
    /// IPv4's "don't fragment".
    pub dont_fragment: bool,
}

impl InternetHeader {
    /// Whether this is IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.source.is_ipv6()
    }

    /// Length of the header, the fragment header of IPv6 included, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match (self.is_ipv6(), self.fragment) {
            (false, _) => IPV4_HEADER,
            (true, None) => IPV6_HEADER,
            (true, Some(_)) => IPV6_HEADER + FRAGMENT_HEADER,
        }
    }

    /// Writes the header of a packet with `payload` bytes behind it.
    pub fn write(&self, bytes: &mut [u8], payload: usize) {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let addresses = [source.octets(), destination.octets()];
                self.write_ipv4(bytes, payload, addresses);
            }
            (source, destination) => {
                self.write_ipv6(bytes, payload, [octets_of(source), octets_of(destination)]);
            }
        }
    }

    fn write_ipv4(&self, bytes: &mut [u8], payload: usize, addresses: [[u8; 4]; 2]) {
        bytes[0] = 0x45;
        bytes[1] = 0;
        put16(bytes, 2, (IPV4_HEADER + payload) as u16);
        put16(bytes, 4, self.identification as u16);
        let mut flags = u16::from(self.dont_fragment) << 14;
        if let Some(fragment) = self.fragment {
            flags |= (u16::from(fragment.more) << 13) | (fragment.offset / 8);
        }
        put16(bytes, 6, flags);
        bytes[8] = self.ttl;
        bytes[9] = self.protocol;
        put16(bytes, 10, 0);
        bytes[12..16].copy_from_slice(&addresses[0]);
        bytes[16..20].copy_from_slice(&addresses[1]);
        let checksum = fold(sum_words(&bytes[..IPV4_HEADER]));
        put16(bytes, 10, checksum);
    }

    fn write_ipv6(&self, bytes: &mut [u8], payload: usize, addresses: [[u8; 16]; 2]) {
        put32(bytes, 0, (6 << 28) | (self.label & 0xf_ffff));
        put16(bytes, 4, (self.len() - IPV6_HEADER + payload) as u16);
        bytes[6] = self.protocol;
        bytes[7] = self.ttl;
        bytes[8..24].copy_from_slice(&addresses[0]);
        bytes[24..40].copy_from_slice(&addresses[1]);
        if let Some(fragment) = self.fragment {
            bytes[6] = protocol::FRAGMENT;
            bytes[40] = self.protocol;
            bytes[41] = 0;
            put16(bytes, 42, (fragment.offset & !7) | u16::from(fragment.more));
            put32(bytes, 44, self.identification);
        }
    }
}

/// An address as 16 bytes; IPv4 in its mapped form, which no header here contains.
fn octets_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The sum of the pseudo-header for a transport packet of `len` bytes (RFC 768,
/// RFC 9293 section 3.1, RFC 8200 section 8.1).
#[must_use]
pub fn pseudo_header_sum(header: &InternetHeader, len: usize) -> u64 {
    let addresses = match (header.source, header.destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => sum_words(&a.octets()) + sum_words(&b.octets()),
        (a, b) => sum_words(&octets_of(a)) + sum_words(&octets_of(b)),
    };
    addresses + len as u64 + u64::from(header.protocol)
}
