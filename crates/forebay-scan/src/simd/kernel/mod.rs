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
mod prefetch;
mod scalar;

use forebay_packet::Vectors;

use super::bitmap::Bitmap;
use super::bloom::Bloom;
use super::buckets::Buckets;
use super::buffer::{BACK, Bytes, CAPACITY, FRONT};
use super::hash::{self, FIRST_BIT, SECOND_BIT};
use super::pairs::Pairs;
use super::regions::{Candidates, Shape, TOGETHER};
use super::runs;

pub use prefetch::{prefetch, prefetch_all};

/// Bytes that a step of a filter's loop takes.
const STEP: usize = 64;

const _: () = assert!(CAPACITY.is_multiple_of(STEP) && BACK >= STEP + 8 && FRONT >= 8);

/// The instructions that loops use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(Proof),
    /// AVX-512 F and BW, in filters of few windows; otherwise AVX2, which is faster on Cascade
    /// Lake.
    #[cfg(target_arch = "x86_64")]
    Avx512(Proof),
    /// The same with VBMI and VBMI2: Ice Lake, Zen 4 and later.
    #[cfg(target_arch = "x86_64")]
    Avx512Vbmi(Proof),
}

/// Proves that the machine was asked for the instructions of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

impl Level {
    /// The widest level of this machine within `limit`.
    pub fn within(limit: Vectors) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if limit >= Vectors::Avx512 && avx512::is_here() {
                let vbmi = limit >= Vectors::Avx512Vbmi && avx512::vbmi::is_here();
                return if vbmi { Self::Avx512Vbmi(Proof(())) } else { Self::Avx512(Proof(())) };
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
            Self::Avx2(_) | Self::Avx512(_) => 40,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vbmi(_) => 500,
        }
    }

    /// The same for windows of 2 bytes, for which the other filter takes longer.
    pub fn most_in_short_buckets(self) -> usize {
        match self {
            Self::Scalar => 0,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) | Self::Avx512(_) => 150,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vbmi(_) => 6000,
        }
    }
}

/// Positions in a buffer, with room for what vectors write behind the last one.
pub type Positions = [u16; CAPACITY + STEP];

/// Writes the positions from `start` on whose bits are set behind `count` others, and returns how
/// many there are then. It is compiled into its callers, with their instructions.
///
/// # Safety
/// `count` is at most `start`, which is less than `CAPACITY`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn write(mut set: u64, start: usize, mut count: usize, found: &mut Positions) -> usize {
    let end = count + set.count_ones() as usize;
    loop {
        // Four at a time, of which the last can be too many: the loop's end is mispredicted less
        // often.
        for at in 0..4 {
            let position = start as u32 + set.trailing_zeros();
            // SAFETY: less than 64 positions more than `start` were written before, of which the
            // last is the 60th at most, and there is room for 64.
            unsafe { *found.get_unchecked_mut(count + at) = position as u16 };
            set &= set.wrapping_sub(1);
        }
        count += 4;
        if count >= end {
            return end;
        }
    }
}

/// Writes `text` to `to`, with ASCII capitals as small letters. Up to [`STEP`] further bytes of
/// `to` are overwritten.
#[inline]
pub fn fold(level: Level, text: &[u8], to: &mut [u8]) {
    assert!(to.len() >= text.len() + STEP);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi(_) => {
            // SAFETY: the machine has the instructions; the room was checked.
            unsafe { avx512::fold(text, to) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(_) | Level::Avx2(_) => {
            // SAFETY: likewise.
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
        Level::Avx512Vbmi(_) | Level::Avx512(_) | Level::Avx2(_) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx2::probe_fourths(text, len, bloom, found) }
        }
        Level::Scalar => {
            // SAFETY: `len` was checked.
            unsafe { scalar::probe_fourths(text, len, bloom, found) }
        }
    }
}

/// Writes the positions, of the first `len`, whose 4 bytes pass `pairs`, to `found`, in order, and
/// returns their number. Some can be behind the text.
#[inline]
pub fn probe_pairs(
    level: Level,
    text: &Bytes,
    len: usize,
    pairs: &Pairs,
    found: &mut Positions,
) -> usize {
    assert!(len <= CAPACITY);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi(_) | Level::Avx512(_) | Level::Avx2(_) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx2::probe_pairs(text, len, pairs, found) }
        }
        Level::Scalar => {
            // SAFETY: `len` was checked.
            unsafe { scalar::probe_pairs(text, len, pairs, found) }
        }
    }
}

/// Writes the positions, of the first `len`, whose 2 bytes are among `windows`, to `found`, in
/// order, and returns their number. Some can be behind the text.
#[inline]
pub fn probe_each(
    level: Level,
    text: &Bytes,
    len: usize,
    windows: &Bitmap,
    found: &mut Positions,
) -> usize {
    assert!(len <= CAPACITY);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi(_) | Level::Avx512(_) | Level::Avx2(_) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx2::probe_each(text, len, windows, found) }
        }
        Level::Scalar => scalar::probe_each(text, len, windows, found),
    }
}

/// Writes the positions, of the first `len`, whose first `W` bytes pass `buckets`, to `found`, in
/// order, and returns their number. Some can be behind the text.
#[inline]
pub fn probe_all<const W: usize>(
    level: Level,
    text: &Bytes,
    len: usize,
    buckets: &Buckets,
    found: &mut Positions,
) -> usize {
    assert!(len <= CAPACITY);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi(_) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx512::vbmi::probe_all::<W>(text, len, buckets, found) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(_) => {
            // SAFETY: likewise.
            unsafe { avx512::probe_all::<W>(text, len, buckets, found) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(_) => {
            // SAFETY: likewise.
            unsafe { avx2::probe_all::<W>(text, len, buckets, found) }
        }
        Level::Scalar => {
            (0..len as u16).zip(&mut *found).for_each(|(at, found)| *found = at);
            len
        }
    }
}

/// Keeps of the first `count` positions, each less than [`CAPACITY`], those whose 4 bytes pass
/// `bloom`, and returns their number.
#[inline]
pub fn retain(text: &Bytes, bloom: &Bloom, found: &mut Positions, count: usize) -> usize {
    assert!(found[..count].iter().all(|&position| usize::from(position) < CAPACITY));
    let mut kept = 0;
    for i in 0..count {
        let position = found[i];
        found[kept] = position;
        // SAFETY: positions were checked.
        let window = unsafe { window(text, position.into()) };
        kept += passes(bloom, window);
    }
    kept
}

/// Writes a bit for each of the first `len` positions, whether the byte is as the one behind it and
/// among `bytes`.
#[inline]
pub fn repeats(
    level: Level,
    text: &Bytes,
    len: usize,
    bytes: &runs::Bytes,
    repeats: &mut [u64; CAPACITY / 64],
) {
    assert!(len <= CAPACITY);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi(_) => {
            // SAFETY: the machine has the instructions, and `len` was checked.
            unsafe { avx512::repeats(text, len, bytes, repeats) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(_) | Level::Avx2(_) => {
            // SAFETY: likewise.
            unsafe { avx2::repeats(text, len, bytes, repeats) }
        }
        Level::Scalar => scalar::repeats(text, len, bytes, repeats),
    }
}

/// Writes the regions about windows that pass the filter, whose words are a power of two, to
/// `candidates`, and returns their number. There are at most [`TOGETHER`] windows.
#[inline]
pub fn probe_regions(
    level: Level,
    text: &Bytes,
    windows: &[u16],
    (shape, filter): (&Shape, &[u32]),
    candidates: &mut Candidates,
) -> usize {
    assert!(windows.len() <= TOGETHER && filter.len().is_power_of_two());
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vbmi(_) | Level::Avx512(_) | Level::Avx2(_) => {
            // SAFETY: the machine has the instructions; windows and words were counted.
            unsafe { avx2::probe_regions(text, windows, (shape, filter), candidates) }
        }
        Level::Scalar => scalar::probe_regions(text, windows, (shape, filter), candidates),
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use forebay_packet::random::Random;

    use super::super::buffer::Buffer;
    use super::super::pairs;
    use super::super::regions::{FOURTHS, LONG};
    use super::*;

    /// All levels of this machine, narrowest first, those that are not chosen too.
    fn levels() -> Vec<Level> {
        let mut levels = vec![Level::Scalar];
        for (level, is_here) in [
            (Level::Avx2(Proof(())), avx2::is_here()),
            (Level::Avx512(Proof(())), avx512::is_here()),
            (Level::Avx512Vbmi(Proof(())), avx512::vbmi::is_here()),
        ] {
            levels.extend(is_here.then_some(level));
        }
        levels
    }

    fn text(random: &mut Random, len: usize) -> Vec<u8> {
        (0..len).map(|_| b"aAbZ@[{\0\0\0\xff"[random.below(11) as usize]).collect()
    }

    #[test]
    fn levels_agree() {
        let mut random = Random::new(1);
        for round in 0..200 {
            let len = [random.below(200), random.below(8193)][round % 2] as usize;
            let text = text(&mut random, len);
            let mut windows: Vec<u32> = (0..1 + random.below(60))
                .map(|_| text[..].get(random.below(len as u64 + 1) as usize..).map_or(7, four))
                .collect();
            if round % 3 > 0 {
                // Then runs of the text do not pass.
                windows.retain(|&window| !pairs::is_run(window));
                windows.push(7);
            }
            let (bloom, pairs) = (Bloom::new(&windows), Pairs::new(&windows));
            let twos = Bitmap::new(windows.iter().map(|&window| window as u16));
            let runs = runs::Bytes::new(b"a\0".iter().copied());
            let mut filter = vec![0; 1 << random.below(9)];
            filter.iter_mut().for_each(|word| *word = random.next() as u32);
            let results = levels().into_iter().map(|level| {
                let mut buffer = Buffer::new();
                buffer.append(&text, level);
                buffer.seal();
                let (bytes, len) = (buffer.bytes(), buffer.len());
                let mut lists = Vec::new();
                let mut list = |probe: &dyn Fn(&mut Positions) -> usize| {
                    let mut found = Box::new([0; _]);
                    let count = probe(&mut found);
                    let positions = found[..count].iter().copied();
                    lists.push(positions.filter(|&at| usize::from(at) < len).collect::<Vec<_>>());
                };
                list(&|found| probe_fourths(level, bytes, len, &bloom, found));
                list(&|found| probe_pairs(level, bytes, len, &pairs, found));
                list(&|found| probe_each(level, bytes, len, &twos, found));
                let mut repeated = [0; CAPACITY / 64];
                repeats(level, bytes, len, &runs, &mut repeated);
                let positions: Vec<u16> = (0..len.min(TOGETHER) as u16).collect();
                let regions = [&LONG, &FOURTHS].map(|shape| {
                    let mut found = Box::new([0; _]);
                    let found_in = (shape, &filter[..]);
                    let count = probe_regions(level, bytes, &positions, found_in, &mut found);
                    found[..count].to_vec()
                });
                (bytes[FRONT..][..len].to_vec(), lists, repeated, regions)
            });
            let results: Vec<_> = results.collect();
            assert_eq!(results[0].0, text.to_ascii_lowercase());
            for (level, result) in levels().iter().zip(&results) {
                assert!(result == &results[0], "round {round}: {level:?} differs");
            }
        }
    }

    fn four(bytes: &[u8]) -> u32 {
        bytes.first_chunk().map_or(9, |bytes| u32::from_le_bytes(*bytes))
    }

    #[test]
    fn loops_of_512_bits_agree() {
        if !avx512::is_here() {
            return eprintln!("skipped: the machine has no AVX-512");
        }
        let mut random = Random::new(2);
        for _ in 0..100 {
            let text = text(&mut random, 1_000);
            let mut buffer = Buffer::new();
            buffer.append(&text, Level::Scalar);
            buffer.seal();
            let mut folded = vec![0; text.len() + STEP];
            // SAFETY: the machine has the instructions, and there is room.
            unsafe { avx512::fold(&text, &mut folded) };
            assert_eq!(folded[..text.len()], text.to_ascii_lowercase());
            let runs = runs::Bytes::new(b"aZ\0".iter().copied());
            let [mut repeated, mut expected] = [[0; CAPACITY / 64]; 2];
            // SAFETY: the machine has the instructions; `len` is that of a text in a buffer.
            unsafe { avx512::repeats(buffer.bytes(), 960, &runs, &mut repeated) };
            scalar::repeats(buffer.bytes(), 960, &runs, &mut expected);
            assert_eq!(repeated, expected);
        }
    }
}
