//! Snap lengths as libpcap 1.10 understands them, so that what is read and
//! written here means to its users what it means to us.

use forebay_packet::LinkType;

/// The most bytes of a packet that a capture may hold, for most link types.
const ORDINARY_LIMIT: u32 = 262_144;

/// The most bytes of a packet that a capture of this link type may hold.
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

/// The same where no record longer than `longest` is read, but for those that all link types
/// may have.
pub(crate) fn within(link: LinkType, longest: u64) -> u32 {
    let longest = u32::try_from(longest).unwrap_or(u32::MAX);
    limit(link).min(longest.max(ORDINARY_LIMIT))
}

/// What a stored snap length means: zero, and what is negative as a signed
/// number, mean the limit of the link type.
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
