//! Loops without vectors.

use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::table::{Bloom, Entry};
use super::{ACCEPTED, Accepted, Hit, Positions, passes, window};

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

pub fn accept(
    text: &Bytes,
    hits: &mut [Hit],
    entries: &[Entry],
    shift: u32,
    accepted: &mut Accepted,
) -> usize {
    for (done, hit) in hits.iter_mut().enumerate() {
        let at = FRONT + usize::from(hit.position);
        let room = ACCEPTED - accepted.count;
        let all = &entries[hit.first as usize..hit.end as usize];
        for entry in &all[..all.len().min(room)] {
            let start = at - entry.phase();
            let region = *text[start..].first_chunk().expect("the buffer has room behind the text");
            // Without a branch, which would be predicted badly.
            accepted.entries[accepted.count] = *entry;
            accepted.positions[accepted.count] = hit.position.into();
            accepted.count += usize::from(entry.accepts(u64::from_le_bytes(region), shift));
        }
        hit.first += all.len().min(room) as u32;
        if hit.first < hit.end {
            return done;
        }
    }
    hits.len()
}

pub fn repeats(text: &Bytes, len: usize, repeats: &mut [u64; CAPACITY / 64]) {
    let words = text[FRONT..].windows(65).step_by(64).take(len.div_ceil(64));
    for (word, bytes) in repeats.iter_mut().zip(words) {
        let mut bits = 0;
        for (at, pair) in bytes.windows(2).enumerate() {
            bits |= u64::from(pair[0] == pair[1]) << at;
        }
        *word = bits;
    }
}
