//! Loops without vectors.

use super::super::bitmap::Bitmap;
use super::super::bloom::Bloom;
use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::hash;
use super::super::pairs::{self, HIGH, Pairs};
use super::super::regions::{BITS_AT, Candidates, START_AT, Shape, WAYS};
use super::super::runs;
use super::{Positions, passes, window};

pub fn fold(text: &[u8], to: &mut [u8]) {
    for (to, byte) in to.iter_mut().zip(text) {
        *to = byte.to_ascii_lowercase();
    }
}

/// # Safety
/// `len` is at most `CAPACITY`.
pub unsafe fn probe_fourths(
    text: &Bytes,
    len: usize,
    bloom: &Bloom,
    found: &mut Positions,
) -> usize {
    let mut count = 0;
    for position in (0..len).step_by(4) {
        // SAFETY: the positions are less than `CAPACITY`, and `count` is at most their number.
        unsafe {
            *found.get_unchecked_mut(count) = position as u16;
            count += passes(bloom, window(text, position));
        }
    }
    count
}

pub fn probe_each(text: &Bytes, len: usize, windows: &Bitmap, found: &mut Positions) -> usize {
    let mut count = 0;
    for (position, pair) in text[FRONT..].windows(2).enumerate().take(len) {
        found[count] = position as u16;
        count += usize::from(windows.has(u16::from_le_bytes([pair[0], pair[1]])));
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
pub unsafe fn probe_pairs(text: &Bytes, len: usize, pairs: &Pairs, found: &mut Positions) -> usize {
    let pass = |window| usize::from(pairs.has_run() || !pairs::is_run(window));
    let mut count = 0;
    for position in (0..len).step_by(2) {
        // SAFETY: the position is less than `CAPACITY`.
        let one = unsafe { window(text, position) };
        let other = text[FRONT + position + 4];
        let next = u32::from(other) << 24 | one >> 8;
        let index = (one >> 8).wrapping_mul(hash::WORD) >> pairs.shift();
        // SAFETY: the filter has a word for each number of so many bits. `count` is at most the
        // position, which is even.
        unsafe {
            let word = *pairs.words().get_unchecked(index as usize);
            *found.get_unchecked_mut(count) = position as u16;
            count += (word >> pairs::bit(one as u8) & 1) as usize * pass(one);
            *found.get_unchecked_mut(count) = position as u16 + 1;
            count += (word >> (HIGH + pairs::bit(other)) & 1) as usize * pass(next);
        }
    }
    count
}

pub fn probe_regions(
    text: &Bytes,
    windows: &[u16],
    (shape, filter): (&Shape, &[u32]),
    candidates: &mut Candidates,
) -> usize {
    let mut count = 0;
    for &window in windows {
        let window = FRONT + usize::from(window);
        for way in 0..WAYS {
            let start = window - usize::from(shape.before[way]);
            let bytes = text[start..].first_chunk().expect("the buffer has room behind the text");
            let hash = hash::region(u64::from_le_bytes(*bytes) & shape.masks[way]);
            let word = filter[hash as usize & (filter.len() - 1)];
            // Without a branch, which would be predicted badly.
            candidates[count] = hash & !(u64::MAX << START_AT) | (start as u64) << START_AT;
            let [one, other] = BITS_AT.map(|at| word >> (hash >> at & 31));
            count += (one & other & 1) as usize;
        }
    }
    count
}

pub fn repeats(text: &Bytes, len: usize, among: &runs::Bytes, repeats: &mut [u64; CAPACITY / 64]) {
    let words = text[FRONT..].windows(65).step_by(64).take(len.div_ceil(64));
    for (word, bytes) in repeats.iter_mut().zip(words) {
        let mut bits = 0;
        for (at, pair) in bytes.windows(2).enumerate() {
            bits |= u64::from(pair[0] == pair[1] && among.has(pair[0])) << at;
        }
        *word = bits;
    }
}
