//! Hashes of windows.
//!
//! Each is the high bits of a product with an odd constant (Dietzfelbinger et al., "A reliable
//! randomized algorithm for the closest-pair problem", 1997), because vectors multiply at once and
//! rotate, shift and add in more instructions.

/// Selects the word of a [`Bloom`](super::table::Bloom) filter.
pub const WORD: u32 = 0x9e37_79b1;
/// Selects two bits in the word.
pub const BITS: u32 = 0x85eb_ca6b;
/// Selects the slot of a [`Table`](super::table::Table).
const SLOT: u32 = 0xc2b2_ae35;
/// Makes the check of an entry.
pub const CHECK: u64 = 0xd6e8_feb8_6659_fd93;

/// Shifts that leave of the product with [`BITS`] the numbers of two bits.
pub const FIRST_BIT: u32 = 27;
/// See [`FIRST_BIT`].
pub const SECOND_BIT: u32 = 22;

/// Bits of a check.
pub const CHECK_BITS: u32 = 8;

/// The slot of a window, of 2 to the power `bits`.
#[inline(always)]
pub fn slot(window: u32, bits: u32) -> usize {
    (u64::from(window.wrapping_mul(SLOT)) >> (32 - bits)) as usize
}

/// The check of a region, whose bytes are the highest of the number.
#[inline(always)]
pub fn check(region: u64) -> u32 {
    (region.wrapping_mul(CHECK) >> (64 - CHECK_BITS)) as u32
}
