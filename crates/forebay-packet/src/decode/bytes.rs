//! Bounded big-endian reads. Every header is read through these: an offset past
//! the end of what was captured gives `None`, never a wrong byte.

/// The captured bytes of a packet, cut to the part that a header may use.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn len(self) -> usize {
        self.0.len()
    }

    /// The same bytes, none from `end` on.
    pub(super) fn until(self, end: usize) -> Self {
        Self(&self.0[..end.min(self.0.len())])
    }

    /// All bytes from `at` on; none where `at` is past the end.
    pub(super) fn from(self, at: usize) -> &'a [u8] {
        self.0.get(at..).unwrap_or_default()
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    pub(super) fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    pub(super) fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }

    pub(super) fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }

    pub(super) fn u16_le(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32_le(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u128(self, at: usize) -> Option<u128> {
        self.array(at).map(u128::from_be_bytes)
    }

    /// A MAC address in the low 48 bits.
    pub(super) fn mac(self, at: usize) -> Option<u128> {
        Some(u128::from(self.u16(at)?) << 32 | u128::from(self.u32(at + 2)?))
    }
}
