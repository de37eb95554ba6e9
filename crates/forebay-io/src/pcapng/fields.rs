//! Numbers and text within blocks, in either byte order.

use super::blocks::BYTE_ORDER;

/// Whether a section whose header has this body is big-endian; what is wrong with it if
/// that cannot be told.
pub(super) fn byte_order(body: &[u8]) -> Result<bool, String> {
    match (number(body, 0, false), number(body, 0, true)) {
        (BYTE_ORDER, _) => Ok(false),
        (_, BYTE_ORDER) => Ok(true),
        (_, found) => Err(format!(
            "a section whose byte-order number is {found:08x}; expected {BYTE_ORDER:08x} or {:08x}",
            BYTE_ORDER.swap_bytes()
        )),
    }
}

/// An option's text. Some writers append zeros, contrary to the specification.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

/// Four bytes as a number; zero past the end, which callers exclude.
pub(super) fn number(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// Two bytes as a number; zero past the end, which callers exclude.
pub(super) fn short(bytes: &[u8], at: usize, big_endian: bool) -> u16 {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}
