//! Loops without vectors.

use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::table::Bloom;
use super::{Positions, passes, window};

pub fn fold(text: &[u8], to: &mut [u8]) {
    for (to, byte) in to.iter_mut().zip(text) {
        *to = byte.to_ascii_lowercase();
    }
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[inline(always)]
pub unsafe fn probe(
    text: &Bytes,
    len: usize,
    stride: usize,
    mask: u32,
    bloom: &Bloom,
    found: &mut Positions,
) -> usize {
    let mut count = 0;
    for position in (0..len).step_by(stride) {
        // SAFETY: the positions are less than `CAPACITY`, and `count` is at most their number.
        unsafe {
            *found.get_unchecked_mut(count) = position as u16;
            count += passes(bloom, window(text, position) & mask);
        }
    }
    count
}

pub fn repeats(text: &Bytes, len: usize, repeats: &mut [u64; CAPACITY / 64]) {
    for (word, bytes) in repeats.iter_mut().zip(text[FRONT..].windows(65).step_by(64)) {
        let mut bits = 0;
        for (at, pair) in bytes.windows(2).enumerate() {
            bits |= u64::from(pair[0] == pair[1]) << at;
        }
        *word = bits;
    }
    let _ = len;
}
