//! Hashes of windows and regions.
//!
//! Those of windows are the high bits of a product with an odd constant (Dietzfelbinger et al., "A
//! reliable randomized algorithm for the closest-pair problem", 1997), because vectors multiply at
//! once and rotate, shift and add in more instructions.

/// Selects the word of a [`Bloom`](super::bloom::Bloom) filter, or of
/// [`Pairs`](super::pairs::Pairs).
pub const WORD: u32 = 0x9e37_79b1;
/// Selects two bits in the word.
pub const BITS: u32 = 0x85eb_ca6b;
/// Make the hash of a region.
pub const REGION: [u64; 2] = [0x9e37_79b1, 0xc2b2_ae35];
/// See [`region`].
pub const LARGE: u64 = 0xd6e8_feb8_a659_fd93;

/// Shifts that leave of the product with [`BITS`] the numbers of two bits.
pub const FIRST_BIT: u32 = 27;
/// See [`FIRST_BIT`].
pub const SECOND_BIT: u32 = 22;

/// The hash of a region, whose bytes are the lowest of the number: the sum of the products of its
/// halves, with the high bits, which depend on all bytes, in the low half as well. Regions that are
/// small numbers, of which traffic is full, are made large ones before.
#[inline(always)]
pub fn region(bytes: u64) -> u64 {
    let bytes = bytes ^ LARGE;
    let low = (bytes & u64::from(u32::MAX)) * REGION[0];
    let sum = low.wrapping_add((bytes >> 32) * REGION[1]);
    sum ^ sum >> 32
}
