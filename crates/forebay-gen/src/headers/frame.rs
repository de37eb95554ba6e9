//! The buffer that packets are built in.

use super::direction::Direction;
use super::encapsulation::Encapsulation;
use super::internet::InternetHeader;
use super::transport;

/// The shortest Ethernet frame without its check sequence (IEEE 802.3 clause
/// 4A.4.2: minFrameSize of 64 octets).
pub const MIN_FRAME: usize = 60;

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
