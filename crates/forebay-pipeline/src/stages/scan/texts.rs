//! What is scanned of a packet.

use forebay_packet::decode::Carried;
use forebay_scan::reassembly::{Uncertainties, Uncertainty};

/// The texts of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Texts {
    /// Where the text that is scanned by itself starts in the packet, and its bytes.
    pub(super) block: (u32, u32),
    /// The part of a stream.
    pub(super) segment: Option<TcpPart>,
    pub(super) causes: Uncertainties,
    /// Bytes before some of the stream are missing.
    pub(super) waits: bool,
    /// Bytes that were sent have not come so far.
    pub(super) lacks: bool,
    /// The connection has certainly ended, with this packet or before.
    pub(super) closes: bool,
    /// Bytes behind the TCP or UDP header, if that is known.
    pub(super) payload_len: Option<u32>,
    /// The packet is in a tunnel: the text by itself has the headers around it, too.
    pub(super) is_layered: bool,
    /// The packet may begin a stream of HTTP, or may be of a stream that is not known.
    pub(super) may_begin_http: bool,
    /// The tunnels that are looked into.
    pub(super) tunnel_depth: u8,
}

/// The part of a stream that a packet has.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpPart {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) sent: u32,
}

/// Whether a payload is as long as the header of UDP says: sensors go by that.
fn has_length(packet: &[u8], carried: &Carried<'_>, start: u32) -> bool {
    // Where the payload is empty, the header is not found by it.
    if carried.tcp_numbers.is_some() || carried.payload.is_empty() {
        return true;
    }
    let header = (start as usize).checked_sub(4).and_then(|at| packet.get(at..at + 2));
    let says = |len: &[u8]| usize::from(u16::from_be_bytes([len[0], len[1]]));
    header.map(says) == Some(carried.payload.len() + 8)
}

impl Texts {
    /// Bytes that are scanned, the block and the segment together.
    pub(super) fn scanned(&self) -> usize {
        (self.block.1 + self.segment.map_or(0, |part| part.len)) as usize
    }

    /// Takes what is behind a TCP or UDP header. `missing` bytes at the end of the packet are not
    /// captured.
    pub(super) fn take(
        &mut self,
        packet: &[u8],
        carried: &Carried<'_>,
        missing: u32,
        by_stream: bool,
    ) {
        let len = carried.payload.len() as u32;
        // Where the payload is empty, it may point anywhere.
        let start = match len {
            0 => packet.len() as u32,
            _ => (carried.payload.as_ptr() as usize - packet.as_ptr() as usize) as u32,
        };
        // Where the datagram ends before the packet does, the rest is padding.
        let is_cut = missing > 0 && (start + len) as usize == packet.len();
        self.payload_len = (!is_cut && has_length(packet, carried, start)).then_some(len);
        self.is_layered = carried.is_in_tunnel;
        let sent = if is_cut { len.saturating_add(missing) } else { len };
        match carried.tcp_numbers.filter(|_| by_stream) {
            Some((sequence, acknowledgment)) => {
                self.segment = Some(TcpPart { sequence, acknowledgment, start, len, sent });
                if !carried.is_in_tunnel {
                    self.block = (0, 0);
                }
            }
            None => {
                if !carried.is_in_tunnel {
                    self.block = (start, len);
                }
                if carried.tcp_numbers.is_none() && is_teredo(packet, carried.payload) {
                    self.causes.insert(Uncertainty::Undecoded);
                }
                if is_cut {
                    self.causes.insert(Uncertainty::Truncated);
                }
            }
        }
    }
}

/// Whether the payload of a UDP datagram in a packet is an IPv6 packet (Teredo, RFC 4380), perhaps
/// behind an indication of its origin: sensors see a packet in it, which is not decoded here.
fn is_teredo(packet: &[u8], payload: &[u8]) -> bool {
    let number =
        |bytes: &[u8], at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    // The datagram may end before the packet around it.
    let start = payload.as_ptr().addr().wrapping_sub(packet.as_ptr().addr());
    let Some(header) = start.checked_sub(8).filter(|_| payload.len() >= 40) else { return false };
    let len = number(packet, header + 4).saturating_sub(8).min(payload.len());
    let inner = match payload {
        [0, 0, ..] => &payload[8..len.max(8)],
        _ => &payload[..len],
    };
    inner.len() >= 40 && inner[0] >> 4 == 6 && number(inner, 4) == inner.len() - 40
}
