//! Snap lengths as interpreted by libpcap 1.10, for captures exchanged with its users.

use forebay_packet::LinkType;

/// The most bytes of a packet in a capture, for most link types.
const ORDINARY_LIMIT: u32 = 262_144;

/// The most bytes of a packet in a capture of this link type.
pub(crate) fn limit(link: LinkType) -> u32 {
    const DBUS: LinkType = LinkType(231);
    const USBPCAP: LinkType = LinkType(249);
    const EBHSCR: LinkType = LinkType(279);
    match link {
        DBUS => 128 << 20,
        EBHSCR => 8 << 20,
        USBPCAP => 1 << 20,
        _ => ORDINARY_LIMIT,
    }
}

/// The same if records longer than `longest` are not read, but at least the limit of most
/// link types.
pub(crate) fn within(link: LinkType, longest: u64) -> u32 {
    let longest = u32::try_from(longest).unwrap_or(u32::MAX);
    limit(link).min(longest.max(ORDINARY_LIMIT))
}

/// The meaning of a stored snap length: zero, and values that are negative as signed
/// numbers, mean the limit of the link type.
pub(crate) fn effective(link: LinkType, stored: u32) -> u32 {
    if stored == 0 || i32::try_from(stored).is_err() { limit(link) } else { stored }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_negative_mean_the_limit() {
        let cases = [(0, 262_144), (u32::MAX, 262_144), (1 << 31, 262_144), (96, 96)];
        for (stored, meant) in cases {
            assert_eq!(effective(LinkType::ETHERNET, stored), meant);
        }
        assert_eq!(effective(LinkType(231), 0), 128 << 20);
        assert_eq!(effective(LinkType::ETHERNET, 0x7fff_ffff), 0x7fff_ffff);
    }
}
