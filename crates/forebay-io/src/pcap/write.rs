//! Writes pcap version 2.4, little-endian.

use forebay_packet::{Clock, Interface};

use super::layout::{FILE_HEADER, MAGIC_MICROS, MAGIC_NANOS, RECORD_HEADER};
use crate::snap_len;

/// The last second that a record can represent, in the year 2106.
pub(crate) const MAX_SECONDS: u64 = u32::MAX as u64;

/// Ticks a second of a clock that a pcap file can have, `None` for others.
pub(crate) fn ticks_per_second(clock: Clock) -> Option<u64> {
    match clock {
        Clock::MICROS => Some(1_000_000),
        Clock::NANOS => Some(1_000_000_000),
        _ => None,
    }
}

/// The header of a file for packets of `interface`. Captured lengths are cut to `cut`.
pub(crate) fn file_header(interface: &Interface, cut: u32) -> [u8; FILE_HEADER] {
    let magic = if interface.clock == Clock::NANOS { MAGIC_NANOS } else { MAGIC_MICROS };
    let snap_len = snap_len::effective(interface.link, interface.snap_len).min(cut);
    let mut header = [0; FILE_HEADER];
    header[..4].copy_from_slice(&magic.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&snap_len.to_le_bytes());
    let link = interface.link.0 | interface.link_flags;
    header[20..].copy_from_slice(&link.to_le_bytes());
    header
}

/// A record header. Ticks past [`MAX_SECONDS`] stay in the fraction, which may exceed a
/// second; the caller excludes times that do not fit.
pub(crate) fn record_header(
    ticks: u64,
    ticks_per_second: u64,
    cap_len: u32,
    wire_len: u32,
) -> [u8; RECORD_HEADER] {
    let seconds = (ticks / ticks_per_second).min(MAX_SECONDS);
    let fraction = ticks - seconds * ticks_per_second;
    let mut header = [0; RECORD_HEADER];
    header[..4].copy_from_slice(&(seconds as u32).to_le_bytes());
    header[4..8].copy_from_slice(&(fraction as u32).to_le_bytes());
    header[8..12].copy_from_slice(&cap_len.to_le_bytes());
    header[12..].copy_from_slice(&wire_len.to_le_bytes());
    header
}
