//! TCP (RFC 9293, options of RFC 7323 and RFC 2018) and UDP (RFC 768) headers, and
//! transport checksums.

use super::checksum::{fold, sum_words};
use super::fields::{put16, put32};
use super::internet::{InternetHeader, pseudo_header_sum};
use super::protocol;

/// Length of a UDP header in bytes.
pub const UDP_HEADER: usize = 8;

/// Bits of the TCP flags field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// SYN.
    pub const SYN: Self = Self(0x02);
    /// SYN and ACK.
    pub const SYN_ACK: Self = Self(0x12);
    /// ACK alone.
    pub const ACK: Self = Self(0x10);
    /// PSH and ACK.
    pub const PUSH_ACK: Self = Self(0x18);
    /// FIN and ACK.
    pub const FIN_ACK: Self = Self(0x11);
    /// RST alone.
    pub const RESET: Self = Self(0x04);
    /// RST and ACK.
    pub const RESET_ACK: Self = Self(0x14);
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpOptions {
    /// Maximum segment size; on SYN segments.
    pub mss: Option<u16>,
    /// "SACK permitted"; on SYN segments.
    pub sack_permitted: bool,
    /// Window scale; on SYN segments.
    pub window_scale: Option<u8>,
    /// Time stamp value and echo reply.
    pub timestamps: Option<[u32; 2]>,
    /// One block of a selective acknowledgement: left and right edge.
    pub sack: Option<[u32; 2]>,
}

/// The fields of a TCP header.
#[derive(Clone, Copy, Debug)]
pub struct TcpHeader {
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// Window as sent, not scaled.
    pub window: u16,
    /// Options.
    pub options: TcpOptions,
}

const NOP: u8 = 1;

/// Writes a TCP header with a zero checksum; returns its length in bytes.
pub fn write_tcp(bytes: &mut [u8], header: &TcpHeader) -> usize {
    put16(bytes, 0, header.ports[0]);
    put16(bytes, 2, header.ports[1]);
    put32(bytes, 4, header.sequence);
    put32(bytes, 8, header.acknowledgement);
    put16(bytes, 14, header.window);
    put32(bytes, 16, 0);
    let len = write_options(bytes, &header.options);
    bytes[12] = (len as u8 / 4) << 4;
    bytes[13] = header.flags.0;
    len
}

/// Writes the options behind the fixed header, aligned as Linux does; returns
/// the length of the header.
fn write_options(bytes: &mut [u8], options: &TcpOptions) -> usize {
    let mut at = 20;
    let mut put = |option: &[u8]| {
        bytes[at..at + option.len()].copy_from_slice(option);
        at += option.len();
    };
    if let Some(mss) = options.mss {
        put(&[2, 4]);
        put(&mss.to_be_bytes());
    }
    if let Some([value, echo]) = options.timestamps {
        // SACK-permitted fills the two bytes that align the time stamps.
        put(if options.sack_permitted { &[4, 2] } else { &[NOP, NOP] });
        put(&[8, 10]);
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
    } else if options.sack_permitted {
        put(&[NOP, NOP, 4, 2]);
    }
    if let Some(shift) = options.window_scale {
        put(&[NOP, 3, 3, shift]);
    }
    if let Some([left, right]) = options.sack {
        put(&[NOP, NOP, 5, 10]);
        put(&left.to_be_bytes());
        put(&right.to_be_bytes());
    }
    at
}

/// Writes a UDP header with a zero checksum for `payload` bytes behind it.
pub fn write_udp(bytes: &mut [u8], ports: [u16; 2], payload: usize) {
    put16(bytes, 0, ports[0]);
    put16(bytes, 2, ports[1]);
    put16(bytes, 4, (UDP_HEADER + payload) as u16);
    put16(bytes, 6, 0);
}

/// Computes and writes the checksum of a whole transport packet, whatever its checksum
/// field contains.
pub fn write_checksum(header: &InternetHeader, bytes: &mut [u8]) {
    let (at, with_pseudo_header) = match header.protocol {
        protocol::TCP => (16, true),
        protocol::UDP => (6, true),
        protocol::ICMPV6 => (2, true),
        protocol::ICMP => (2, false),
        _ => return,
    };
    put16(bytes, at, 0);
    let pseudo = if with_pseudo_header { pseudo_header_sum(header, bytes.len()) } else { 0 };
    let checksum = match fold(pseudo + sum_words(bytes)) {
        // Zero means "no checksum" in UDP; its complement is sent instead.
        0 if header.protocol == protocol::UDP => 0xffff,
        sum => sum,
    };
    put16(bytes, at, checksum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_options_are_multiples_of_four() {
        let mut bytes = [0; 80];
        let mut header = TcpHeader {
            ports: [1, 2],
            sequence: 3,
            acknowledgement: 4,
            flags: TcpFlags::SYN,
            window: 5,
            options: TcpOptions::default(),
        };
        assert_eq!(write_tcp(&mut bytes, &header), 20);
        header.options = TcpOptions {
            mss: Some(1460),
            sack_permitted: true,
            window_scale: Some(7),
            timestamps: Some([9, 0]),
            sack: None,
        };
        assert_eq!(write_tcp(&mut bytes, &header), 40);
        assert_eq!(bytes[12], 0xa0);
        header.options.timestamps = None;
        assert_eq!(write_tcp(&mut bytes, &header), 32);
        header.options =
            TcpOptions { timestamps: Some([1, 2]), sack: Some([3, 4]), ..TcpOptions::default() };
        assert_eq!(write_tcp(&mut bytes, &header), 44);
        assert_eq!(&bytes[20..24], &[1, 1, 8, 10]);
        assert_eq!(&bytes[32..36], &[1, 1, 5, 10]);
    }
}
