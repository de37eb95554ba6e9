//! The loops over text: folding, filters, runs; for each width of vectors.
//!
//! A filter writes the positions that pass to a list, without branches, because a branch on them
//! would be predicted badly. What is behind the filters is in safe code.
//!
//! Measured by `forebay-bench scan`; `docs/scan-engine.md` has the instructions of each loop.
#![allow(unsafe_code, reason = "vector instructions, chosen at run time; loads within the buffer")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use forebay_packet::Vectors;

use super::buckets::Buckets;
use super::buffer::{BACK, Bytes, CAPACITY, FRONT};
use super::hash::{self, FIRST_BIT, SECOND_BIT};
use super::table::{Bloom, Entry};

/// Bytes that a step of a filter's loop takes.
const STEP: usize = 64;

const _: () = assert!(CAPACITY.is_multiple_of(STEP) && BACK >= STEP + 8 && FRONT >= 8);

/// The instructions that loops use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(Proof),
    #[cfg(target_arch = "x86_64")]
    Avx512(Proof),
}

/// Proves that the machine was asked for the instructions of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

impl Level {
    /// The widest level of this machine within `limit`. AVX-512 is used with its extensions VBMI
    /// and VBMI2 (Ice Lake, Zen 4); on machines without them AVX2 is.
    pub fn within(limit: Vectors) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if limit >= Vectors::Avx512 && avx512::is_here() {
                return Self::Avx512(Proof(()));
            }
            if limit >= Vectors::Avx2 && avx2::is_here() {
                return Self::Avx2(Proof(()));
            }
        }
        let _ = limit;
        Self::Scalar
    }

    /// The most windows that buckets serve: with more, most of the text passes them, and the
    /// filter behind them reads all of it faster. By `forebay-bench scan`.
    pub fn most_in_buckets(self) -> usize {
        match self {
            Self::Scalar => 0,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => 150,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => 6000,
        }
    }
}

/// Positions in a buffer, with room for what vectors write behind the last one.
pub type Positions = [u16; CAPACITY + STEP];

/// Writes `text` to `to`, with ASCII capitals as small letters. Up to [`STEP`] further bytes of
/// `to` are overwritten.
#[inline]
pub fn fold(level: Level, text: &[u8], to: &mut [u8]) {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(Proof(())) => {
            assert!(to.len() >= text.len() + STEP);
            // SAFETY: the machine has the instructions; the room was checked.
            unsafe { avx512::fold(text, to) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(Proof(())) => {
            // SAFETY: the machine has the instructions.
            unsafe { avx2::fold(text, to) }
        }
        Level::Scalar => scalar::fold(text, to),
    }
}

/// Writes the positions, of the first `len` that are multiples of 4, whose 4 bytes pass `bloom`,
/// to `found`, in order, and returns their number. Some can be behind the text.
#[inline]
pub fn probe_fourths(
    level: Level,
    text: &Bytes,
    len: usize,
    bloom: &Bloom,
    found: &mut Positions,
) -> usize {
    assert!(len <= CAPACITY);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(Proof(())) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx512::probe_fourths(text, len, bloom, found) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(Proof(())) => {
            // SAFETY: likewise.
            unsafe { avx2::probe_fourths(text, len, bloom, found) }
        }
        Level::Scalar => {
            // SAFETY: `len` was checked.
            unsafe { scalar::probe(text, len, 4, u32::MAX, bloom, found) }
        }
    }
}

/// Writes the positions, of the first `len`, whose first `W` bytes pass `bloom`, and `buckets`
/// before it if there are, to `found`, in order, and returns their number.
#[inline]
pub fn probe_all<const W: usize>(
    level: Level,
    text: &Bytes,
    len: usize,
    (buckets, bloom): (Option<&Buckets>, &Bloom),
    found: &mut Positions,
) -> usize {
    assert!(len <= CAPACITY);
    let mask = u32::MAX >> (32 - 8 * W);
    let filter = (mask, bloom);
    match (level, buckets) {
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512(Proof(())), Some(buckets)) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            let count = unsafe { avx512::probe_all::<W>(text, len, buckets, found) };
            // SAFETY: likewise; the positions are those of vectors that start at less than `len`.
            unsafe { avx512::retain(text, filter, found, count) }
        }
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512(Proof(())), None) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx512::probe_each(text, len, filter, found) }
        }
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2(Proof(())), Some(buckets)) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            let count = unsafe { avx2::probe_all::<W>(text, len, buckets, found) };
            // SAFETY: the positions are those of vectors that start at less than `len`.
            unsafe { retain(text, mask, bloom, found, count) }
        }
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2(Proof(())), None) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx2::probe_each(text, len, filter, found) }
        }
        (Level::Scalar, _) => {
            // SAFETY: `len` was checked.
            unsafe { scalar::probe(text, len, 1, mask, bloom, found) }
        }
    }
}

/// Writes a bit for each of the first `len` positions, whether the byte is as the one behind it.
#[inline]
pub fn repeats(level: Level, text: &Bytes, len: usize, repeats: &mut [u64; CAPACITY / 64]) {
    assert!(len <= CAPACITY);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(Proof(())) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx512::repeats(text, len, repeats) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(Proof(())) => {
            // SAFETY: likewise.
            unsafe { avx2::repeats(text, len, repeats) }
        }
        Level::Scalar => scalar::repeats(text, len, repeats),
    }
}

/// The 4 bytes at a position.
///
/// # Safety
/// The position is less than `CAPACITY`.
#[inline(always)]
unsafe fn window(text: &Bytes, position: usize) -> u32 {
    debug_assert!(position < CAPACITY);
    // SAFETY: the buffer has more than 4 bytes behind all positions.
    let bytes = unsafe { text.as_ptr().add(FRONT + position).cast::<[u8; 4]>().read() };
    u32::from_le_bytes(bytes)
}

/// Whether a window passes, as 1 or 0.
#[inline(always)]
fn passes(bloom: &Bloom, window: u32) -> usize {
    let bits = window.wrapping_mul(hash::BITS);
    let word = (window.wrapping_mul(hash::WORD) >> bloom.shift()) as usize;
    // SAFETY: the filter has a word for each number of so many bits.
    let word = unsafe { *bloom.words().get_unchecked(word) };
    (word >> (bits >> FIRST_BIT) & word >> (bits >> SECOND_BIT & 31) & 1) as usize
}

/// Keeps of the first `count` positions those whose windows pass, and returns their number.
///
/// # Safety
/// The first `count` positions are less than `CAPACITY`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn retain(
    text: &Bytes,
    mask: u32,
    bloom: &Bloom,
    found: &mut Positions,
    count: usize,
) -> usize {
    assert!(count <= found.len());
    let mut kept = 0;
    for i in 0..count {
        // SAFETY: `kept` ≤ `i` < `count`, which is at most the length; the caller proves the rest.
        unsafe {
            let position = *found.get_unchecked(i);
            let window = window(text, position.into()) & mask;
            *found.get_unchecked_mut(kept) = position;
            kept += passes(bloom, window);
        }
    }
    kept
}

/// A window that a table has.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// Less than [`CAPACITY`].
    pub position: u16,
    /// The bounds of its entries.
    pub first: u32,
    pub end: u32,
}

/// Entries that are accepted at most at a time, and further ones that vectors write behind them.
const ACCEPTED: usize = 1024;
const VECTOR: usize = 16;

/// Entries whose checks are those of the text, with the positions of their windows.
#[derive(Clone, Debug)]
pub struct Accepted {
    count: usize,
    entries: [Entry; ACCEPTED + VECTOR],
    positions: [u32; ACCEPTED + VECTOR],
}

impl Accepted {
    pub fn new() -> Self {
        let entries = [Entry::default(); _];
        Self { count: 0, entries, positions: [0; _] }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Entry, usize)> {
        let positions = self.positions[..self.count].iter().map(|&position| position as usize);
        self.entries[..self.count].iter().copied().zip(positions)
    }
}

/// Writes entries of hits that accept the text to `accepted`, in order, and takes them from the
/// hits. Returns how many hits have no entries left; it is called again for the others.
/// `shift` is that of [`Entry::accepts`].
#[inline]
pub fn accept(
    level: Level,
    text: &Bytes,
    hits: &mut [Hit],
    (entries, shift): (&[Entry], u32),
    accepted: &mut Accepted,
) -> usize {
    accepted.count = 0;
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(Proof(())) => {
            // SAFETY: the machine has the instructions.
            unsafe { avx512::accept(text, hits, entries, shift, accepted) }
        }
        _ => scalar::accept(text, hits, entries, shift, accepted),
    }
}

/// Fetches the cache line of an element ahead of its use.
#[inline(always)]
pub fn prefetch<T>(values: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}
