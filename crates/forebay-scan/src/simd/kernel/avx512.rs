//! Loops over vectors of 512 bits.

use std::arch::x86_64::*;

use super::super::buckets::Buckets;
use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::hash::{self, FIRST_BIT, SECOND_BIT};
use super::super::table::{Bloom, Entry};
use super::{ACCEPTED, Accepted, Hit, Positions, STEP, VECTOR};

pub fn is_here() -> bool {
    std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512vbmi")
        && std::is_x86_feature_detected!("avx512vbmi2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
}

/// The 64 bytes at a position.
///
/// # Safety
/// It is less than `CAPACITY + 64`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(text: &Bytes, position: usize) -> __m512i {
    debug_assert!(position < CAPACITY + 64);
    // SAFETY: the buffer has 128 bytes behind `CAPACITY`.
    unsafe { _mm512_loadu_si512(text.as_ptr().add(FRONT + position).cast()) }
}

/// # Safety
/// `to` is at least 64 bytes longer than `text`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
pub unsafe fn fold(text: &[u8], to: &mut [u8]) {
    let (first, letters) = (_mm512_set1_epi8(b'A' as i8), _mm512_set1_epi8(26));
    let small = _mm512_set1_epi8(0x20);
    let mut start = 0;
    while start < text.len() {
        let valid = match text.len() - start {
            rest @ 0..64 => (1 << rest) - 1,
            _ => u64::MAX,
        };
        // SAFETY: the bytes of `text` are read that there are. 64 bytes are written, less than 64
        // behind the bytes that were read, where `to` has room.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(valid, text.as_ptr().add(start).cast());
            let capital = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, first), letters);
            let folded = _mm512_mask_add_epi8(bytes, capital, bytes, small);
            _mm512_storeu_si512(to.as_mut_ptr().add(start).cast(), folded);
        }
        start += STEP;
    }
}

/// A filter in registers.
struct Filter<'a> {
    words: &'a [u32],
    shift: __m128i,
    mask: __m512i,
}

impl<'a> Filter<'a> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(bloom: &'a Bloom, mask: u32) -> Self {
        let shift = _mm_cvtsi32_si128(bloom.shift() as i32);
        Self { words: bloom.words(), shift, mask: _mm512_set1_epi32(mask as i32) }
    }

    /// A bit for each window that passes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn pass(&self, windows: __m512i) -> __mmask16 {
        let windows = _mm512_and_si512(windows, self.mask);
        let product = _mm512_mullo_epi32(windows, _mm512_set1_epi32(hash::WORD as i32));
        let index = _mm512_srl_epi32(product, self.shift);
        // SAFETY: an index is of as many bits as the filter has words for.
        let words = unsafe { _mm512_i32gather_epi32::<4>(index, self.words.as_ptr().cast()) };
        let product = _mm512_mullo_epi32(windows, _mm512_set1_epi32(hash::BITS as i32));
        // Rotations take the number of bits modulo 32.
        let first = _mm512_rorv_epi32(words, _mm512_srli_epi32::<FIRST_BIT>(product));
        let second = _mm512_rorv_epi32(words, _mm512_srli_epi32::<SECOND_BIT>(product));
        _mm512_test_epi32_mask(_mm512_and_si512(first, second), _mm512_set1_epi32(1))
    }
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2,popcnt")]
pub unsafe fn probe_fourths(
    text: &Bytes,
    len: usize,
    bloom: &Bloom,
    found: &mut Positions,
) -> usize {
    let filter = Filter::new(bloom, u32::MAX);
    let lanes = _mm512_set_epi32(60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
    let mut count = 0;
    for start in (0..len).step_by(STEP) {
        // SAFETY: the position is less than `CAPACITY`.
        let passed = filter.pass(unsafe { load(text, start) });
        let positions = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(passed, lanes));
        let positions = _mm256_add_epi16(positions, _mm256_set1_epi16(start as i16));
        // SAFETY: 32 bytes are written behind at most one position for each 4 bytes before `start`.
        unsafe { _mm256_storeu_si256(found.as_mut_ptr().add(count).cast(), positions) };
        count += passed.count_ones() as usize;
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_each(
    text: &Bytes,
    len: usize,
    (mask, bloom): (u32, &Bloom),
    found: &mut Positions,
) -> usize {
    let filter = Filter::new(bloom, mask);
    let mut count = 0;
    for start in (0..len).step_by(STEP) {
        let mut passed = 0;
        for phase in 0..4 {
            // SAFETY: the position is less than `CAPACITY + 4`.
            let fourth = filter.pass(unsafe { load(text, start + phase) });
            passed |= _pdep_u64(fourth.into(), 0x1111_1111_1111_1111 << phase);
        }
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed, start, count, found) };
    }
    count
}

/// Keeps of the first `count` positions those whose windows pass, and returns their number.
///
/// # Safety
/// The positions are less than `CAPACITY`; `count` is at most that.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn retain(
    text: &Bytes,
    (mask, bloom): (u32, &Bloom),
    found: &mut Positions,
    count: usize,
) -> usize {
    let filter = Filter::new(bloom, mask);
    let mut kept = 0;
    for at in (0..count).step_by(16) {
        let valid = u16::MAX >> (16 - (count - at).min(16));
        // SAFETY: 32 bytes are read from a position that is less than `count`; those that are not
        // valid become 0.
        let positions = unsafe { _mm256_maskz_loadu_epi16(valid, found.as_ptr().add(at).cast()) };
        let wide = _mm512_cvtepu16_epi32(positions);
        // SAFETY: 4 bytes are read from positions that are less than `CAPACITY`.
        let windows = unsafe { _mm512_i32gather_epi32::<1>(wide, text.as_ptr().add(FRONT).cast()) };
        let passed = filter.pass(windows) & valid;
        let positions = _mm256_maskz_compress_epi16(passed, positions);
        // SAFETY: 32 bytes are written, over positions that were read.
        unsafe { _mm256_storeu_si256(found.as_mut_ptr().add(kept).cast(), positions) };
        kept += passed.count_ones() as usize;
    }
    kept
}

/// For each phase, from 0, the 8 bytes that are as many in front of the fourth; twice.
static REGIONS: [u8; 64] = {
    let mut regions = [0; 64];
    let mut at = 0;
    while at < 64 {
        regions[at] = (3 - at / 8 % 4 + at % 8) as u8;
        at += 1;
    }
    regions
};

/// As the scalar loop; the checks of all phases and lengths are computed once for a hit, and 16
/// entries are compared at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi1,bmi2,popcnt")]
pub fn accept(
    text: &Bytes,
    hits: &mut [Hit],
    entries: &[Entry],
    shift: u32,
    accepted: &mut Accepted,
) -> usize {
    // SAFETY: 64 bytes are read, from a value of that size.
    let regions = unsafe { _mm512_loadu_si512(REGIONS.as_ptr().cast()) };
    // Of the lengths of regions: an 8-byte lane for each phase. A shift by too many bits gives 0.
    let shifts = |more: u32| {
        let [low, high] = [more, more + 1].map(|more| (shift as i32 - 8 * more as i32).into());
        _mm512_set_epi64(high, high, high, high, low, low, low, low)
    };
    let (short, long) = (shifts(0), shifts(2));
    let factor = _mm512_set1_epi64(hash::CHECK as i64);
    let low_halves = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let check = |regions, shifts| {
        let product = _mm512_mullo_epi64(_mm512_sllv_epi64(regions, shifts), factor);
        _mm512_srli_epi64::<{ 64 - hash::CHECK_BITS }>(product)
    };
    for (done, hit) in hits.iter_mut().enumerate() {
        let at = FRONT + usize::from(hit.position) - 3;
        let around = text[at..at + 16].as_ptr();
        // SAFETY: 16 bytes are read, of a slice of that length.
        let bytes = unsafe { _mm_loadu_si128(around.cast()) };
        let regions = _mm512_permutexvar_epi8(regions, _mm512_castsi128_si512(bytes));
        let (short, long) = (check(regions, short), check(regions, long));
        let checks = _mm512_permutex2var_epi32(short, low_halves, long);
        for chunk in entries[hit.first as usize..hit.end as usize].chunks(VECTOR) {
            if accepted.count > ACCEPTED {
                return done;
            }
            let valid = u16::MAX >> (VECTOR - chunk.len());
            // SAFETY: the entries of the chunk are read.
            let entries = unsafe { _mm512_maskz_loadu_epi32(valid, chunk.as_ptr().cast()) };
            // Of the index, the permutation takes the low 4 bits: the phase and the length.
            let phase = _mm512_srli_epi32::<{ Entry::GROUP_BITS }>(entries);
            let expected = _mm512_permutexvar_epi32(phase, checks);
            let checks = _mm512_srli_epi32::<{ 32 - hash::CHECK_BITS }>(entries);
            let equal = _mm512_mask_cmpeq_epi32_mask(valid, checks, expected);
            let position = _mm512_set1_epi32(hit.position.into());
            // SAFETY: 64 bytes are written behind at most `ACCEPTED` elements, of arrays that have
            // so many more.
            unsafe {
                let entries = _mm512_maskz_compress_epi32(equal, entries);
                let to = accepted.entries.as_mut_ptr().add(accepted.count);
                _mm512_storeu_si512(to.cast(), entries);
                let to = accepted.positions.as_mut_ptr().add(accepted.count);
                _mm512_storeu_si512(to.cast(), position);
            }
            accepted.count += equal.count_ones() as usize;
            hit.first += chunk.len() as u32;
        }
    }
    hits.len()
}

/// The numbers from 0 to 63.
static COUNT: [u8; 64] = {
    let mut count = [0; 64];
    let mut at = 0;
    while at < 64 {
        count[at] = at as u8;
        at += 1;
    }
    count
};

/// Writes the positions behind `start` whose bits are set behind `count` others, and returns how
/// many there are then.
///
/// # Safety
/// `count` is at most `start`, which is less than `CAPACITY`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,popcnt")]
unsafe fn write(set: u64, start: usize, count: usize, found: &mut Positions) -> usize {
    // SAFETY: 64 bytes are read, from a value of that size.
    let lanes = unsafe { _mm512_loadu_si512(COUNT.as_ptr().cast()) };
    let positions = _mm512_maskz_compress_epi8(set, lanes);
    let base = _mm512_set1_epi16(start as i16);
    let half = |half: __m256i| _mm512_add_epi16(_mm512_cvtepu8_epi16(half), base);
    let to = found[count..].as_mut_ptr();
    let low = half(_mm512_castsi512_si256(positions));
    // SAFETY: 64 bytes are written behind at most `start` positions.
    unsafe { _mm512_storeu_si512(to.cast(), low) };
    let more = set.count_ones() as usize;
    if more > 32 {
        let high = half(_mm512_extracti64x4_epi64::<1>(positions));
        // SAFETY: 64 bytes are written behind at most `start + 32` positions.
        unsafe { _mm512_storeu_si512(to.add(32).cast(), high) };
    }
    count + more
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_all<const W: usize>(
    text: &Bytes,
    len: usize,
    buckets: &Buckets,
    found: &mut Positions,
) -> usize {
    let table = |halves: &[[u8; 64]; 2]| {
        // SAFETY: 64 bytes are read, from values of that size.
        halves.each_ref().map(|half| unsafe { _mm512_loadu_si512(half.as_ptr().cast()) })
    };
    let bytes: [[__m512i; 2]; W] = std::array::from_fn(|at| table(&buckets.halves()[at]));
    // Of a window of 2 bytes there is one pair; the last of the tables is not used.
    let pairs: [[__m512i; 2]; W] = std::array::from_fn(|at| table(&buckets.pairs()[at.min(2)]));
    // The index is of 7 bits; the instruction leaves out the highest.
    let look_up = |[low, high]: [__m512i; 2], index| _mm512_permutex2var_epi8(low, index, high);
    let mut count = 0;
    for start in (0..len).step_by(STEP) {
        let window: [__m512i; W] = std::array::from_fn(|at| {
            // SAFETY: the position is less than `CAPACITY + 4`.
            unsafe { load(text, start + at) }
        });
        let mut all = look_up(bytes[0], window[0]);
        for at in 1..W {
            let twice = _mm512_add_epi8(window[at - 1], window[at - 1]);
            let pair = look_up(pairs[at - 1], _mm512_add_epi8(twice, window[at]));
            let both = _mm512_and_si512(pair, look_up(bytes[at], window[at]));
            all = _mm512_and_si512(all, both);
        }
        let passed = _mm512_test_epi8_mask(all, all);
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed, start, count, found) };
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn repeats(text: &Bytes, len: usize, repeats: &mut [u64; CAPACITY / 64]) {
    for (word, start) in repeats.iter_mut().zip((0..len).step_by(STEP)) {
        // SAFETY: the position is less than `CAPACITY`.
        let bytes = unsafe { load(text, start) };
        // SAFETY: it is at most `CAPACITY`.
        let next = unsafe { load(text, start + 1) };
        *word = _mm512_cmpeq_epi8_mask(bytes, next);
    }
}
