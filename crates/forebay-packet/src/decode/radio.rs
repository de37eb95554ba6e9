//! IEEE 802.11 data frames, and the headers that capturing hosts put before them: radiotap,
//! AVS, PPI.

use super::bytes::Bytes;
use super::undecoded::Undecoded;
use super::walk::{Header, Next};
use crate::link::LinkType;

/// The most words that say which fields a radiotap header has.
const MAX_PRESENT: usize = 32;

/// Flags of a frame's second byte.
const TO_DS: u8 = 0x01;
const FROM_DS: u8 = 0x02;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;

/// A radiotap header (<https://www.radiotap.org>). The flags say whether the payload of the
/// frame is aligned to 4 bytes.
pub(super) fn radiotap(bytes: Bytes<'_>, at: usize) -> Next {
    const TIME: u32 = 1;
    const FLAGS: u32 = 1 << 1;
    const MORE: u32 = 1 << 31;
    const PADDED: u8 = 0x20;
    let len = usize::from(bytes.u16_le(at + 2)?);
    let present = bytes.u32_le(at + 4)?;
    if bytes.u8(at)? != 0 || len < 8 {
        return None;
    }
    let (mut fields, mut last) = (8, present);
    while last & MORE != 0 {
        if fields > 4 * MAX_PRESENT {
            return None;
        }
        last = bytes.u32_le(at + fields)?;
        fields += 4;
    }
    // The time stamp comes first, of 8 bytes and aligned to as many.
    let flags_at = if present & TIME != 0 { fields.next_multiple_of(8) + 8 } else { fields };
    let padded = present & FLAGS != 0 && flags_at < len && bytes.u8(at + flags_at)? & PADDED != 0;
    Some((Header::Wireless { padded }, at + len))
}

/// The header of the AVS capture format: a magic number with a version, then its length.
pub(super) fn avs(bytes: Bytes<'_>, at: usize) -> Next {
    let is_known = bytes.u32(at)? & 0xffff_f000 == 0x8021_1000;
    let len = usize::try_from(bytes.u32(at + 4)?).ok().filter(|len| (8..0x1_0000).contains(len))?;
    is_known.then_some((Header::Wireless { padded: false }, at + len))
}

/// Per-packet information: its length, then the type of the packet behind it.
pub(super) fn per_packet_information(bytes: Bytes<'_>, at: usize) -> Next {
    let len = usize::from(bytes.u16_le(at + 2)?);
    let link = LinkType(bytes.u32_le(at + 4)?);
    (len >= 8).then_some((Header::Link(link), at + len))
}

/// A frame: of data that is not encrypted what is behind its header.
pub(super) fn frame(bytes: Bytes<'_>, at: usize, padded: bool) -> Next {
    let (kind, flags) = (bytes.u8(at)?, bytes.u8(at + 1)?);
    let (is_data, has_payload, has_qos) = (kind & 0x0f == 0x08, kind & 0x40 == 0, kind & 0x80 != 0);
    // A later fragment of a frame starts with no header; the number is of the low four bits.
    let is_readable = is_data && has_payload && flags & PROTECTED == 0;
    if !is_readable || bytes.u8(at + 22)? & 0x0f != 0 {
        return Some((Header::Undecoded(Undecoded::Wireless), at));
    }
    let mut len = if flags & (TO_DS | FROM_DS) == TO_DS | FROM_DS { 30 } else { 24 };
    let mut is_aggregate = false;
    if has_qos {
        is_aggregate = bytes.u8(at + len)? & 0x80 != 0;
        len += if flags & ORDER != 0 { 6 } else { 2 };
    }
    if padded {
        len = len.next_multiple_of(4);
    }
    // The first of several frames in one has a header like Ethernet's, with a length.
    Some((if is_aggregate { Header::Ethernet(0) } else { Header::Llc }, at + len))
}

/// The station that a management or data frame is from, and the one that it is to.
pub(super) fn stations(bytes: Bytes<'_>, at: usize) -> Option<(u128, u128)> {
    let (kind, flags) = (bytes.u8(at)?, bytes.u8(at + 1)?);
    // Control frames have other addresses.
    if kind & 0x0c == 0x04 {
        return None;
    }
    let (to, from) = match (flags & TO_DS != 0, flags & FROM_DS != 0) {
        (false, false) => (4, 10),
        (true, false) => (16, 10),
        (false, true) => (4, 16),
        (true, true) => (16, 24),
    };
    Some((bytes.mac(at + from)?, bytes.mac(at + to)?))
}
