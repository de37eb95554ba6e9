//! Loops over vectors of 256 bits.

use std::arch::x86_64::*;

use super::super::buckets::Buckets;
use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::hash::{self, FIRST_BIT, SECOND_BIT};
use super::super::table::Bloom;
use super::Positions;

pub fn is_here() -> bool {
    std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("popcnt")
}

/// The 32 bytes at a position.
///
/// # Safety
/// It is less than `CAPACITY + 64`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(text: &Bytes, position: usize) -> __m256i {
    debug_assert!(position < CAPACITY + 64);
    // SAFETY: the buffer has 128 bytes behind `CAPACITY`.
    unsafe { _mm256_loadu_si256(text.as_ptr().add(FRONT + position).cast()) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub fn fold(text: &[u8], to: &mut [u8]) {
    let (whole, rest) = text.as_chunks::<64>();
    let (to_whole, to_rest) = to.as_chunks_mut::<64>();
    for (to, text) in to_whole.iter_mut().zip(whole) {
        for (to, byte) in to.iter_mut().zip(text) {
            *to = byte.to_ascii_lowercase();
        }
    }
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    last.make_ascii_lowercase();
    let to = to_whole.get_mut(whole.len()).map_or(to_rest, |to| &mut to[..]);
    to[..rest.len()].copy_from_slice(&last[..rest.len()]);
}

/// For each set of 8 lanes, their numbers, lowest first.
static LANES: [[u8; 8]; 256] = {
    let mut lanes = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut lane, mut count) = (0, 0);
        while lane < 8 {
            if set >> lane & 1 == 1 {
                lanes[set][count] = lane as u8;
                count += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    lanes
};

/// A filter in registers.
struct Filter<'a> {
    words: &'a [u32],
    shift: __m128i,
    mask: __m256i,
}

impl<'a> Filter<'a> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bloom: &'a Bloom, mask: u32) -> Self {
        let shift = _mm_cvtsi32_si128(bloom.shift() as i32);
        Self { words: bloom.words(), shift, mask: _mm256_set1_epi32(mask as i32) }
    }

    /// A bit for each window that passes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pass(&self, windows: __m256i) -> u32 {
        let windows = _mm256_and_si256(windows, self.mask);
        let product = _mm256_mullo_epi32(windows, _mm256_set1_epi32(hash::WORD as i32));
        let index = _mm256_srl_epi32(product, self.shift);
        // SAFETY: an index is of as many bits as the filter has words for.
        let words = unsafe { _mm256_i32gather_epi32::<4>(self.words.as_ptr().cast(), index) };
        let product = _mm256_mullo_epi32(windows, _mm256_set1_epi32(hash::BITS as i32));
        let first = _mm256_srli_epi32::<{ FIRST_BIT as i32 }>(product);
        let second = _mm256_srli_epi32::<{ SECOND_BIT as i32 }>(product);
        let second = _mm256_and_si256(second, _mm256_set1_epi32(31));
        let both =
            _mm256_and_si256(_mm256_srlv_epi32(words, first), _mm256_srlv_epi32(words, second));
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32::<31>(both))) as u32
    }
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_fourths(
    text: &Bytes,
    len: usize,
    bloom: &Bloom,
    found: &mut Positions,
) -> usize {
    let filter = Filter::new(bloom, u32::MAX);
    let mut count = 0;
    for start in (0..len).step_by(32) {
        // SAFETY: the position is less than `CAPACITY`.
        let passed = filter.pass(unsafe { load(text, start) });
        let lanes = &LANES[passed as usize];
        // SAFETY: 8 bytes are read, from a value of that size. 16 bytes are written behind at most
        // one position for each 4 bytes before `start`.
        unsafe {
            let lanes = _mm_cvtepu8_epi16(_mm_loadl_epi64(lanes.as_ptr().cast()));
            let positions = _mm_add_epi16(_mm_slli_epi16::<2>(lanes), _mm_set1_epi16(start as i16));
            _mm_storeu_si128(found.as_mut_ptr().add(count).cast(), positions);
        }
        count += passed.count_ones() as usize;
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_each(
    text: &Bytes,
    len: usize,
    (mask, bloom): (u32, &Bloom),
    found: &mut Positions,
) -> usize {
    let filter = Filter::new(bloom, mask);
    let mut count = 0;
    for start in (0..len).step_by(32) {
        let mut passed = 0;
        for phase in 0..4 {
            // SAFETY: the position is less than `CAPACITY + 4`.
            let fourth = filter.pass(unsafe { load(text, start + phase) });
            passed |= _pdep_u32(fourth, 0x1111_1111 << phase);
        }
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed, start, count, found) };
    }
    count
}

/// Writes the positions behind `start` whose bits are set behind `count` others, and returns how
/// many there are then.
///
/// # Safety
/// `count` is at most `start`, which is less than `CAPACITY`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn write(mut set: u32, start: usize, mut count: usize, found: &mut Positions) -> usize {
    let end = count + set.count_ones() as usize;
    while count < end {
        // Four at a time, of which the last can be too many: the loop's end is mispredicted less
        // often.
        for at in 0..4 {
            let position = start as u32 + set.trailing_zeros();
            // SAFETY: there are at most 32 positions more than `start`, and room for 64.
            unsafe { *found.get_unchecked_mut(count + at) = position as u16 };
            set &= set.wrapping_sub(1);
        }
        count += 4;
    }
    end
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn probe_all<const W: usize>(
    text: &Bytes,
    len: usize,
    buckets: &Buckets,
    found: &mut Positions,
) -> usize {
    let tables: [[__m256i; 2]; W] = std::array::from_fn(|at| {
        buckets.nibbles()[at].each_ref().map(|table| {
            // SAFETY: 16 bytes are read, from a value of that size.
            _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
        })
    });
    let nibble = _mm256_set1_epi8(15);
    let mut count = 0;
    for start in (0..len).step_by(32) {
        let mut all = _mm256_set1_epi8(-1);
        for (at, [low, high]) in tables.iter().enumerate() {
            // SAFETY: the position is less than `CAPACITY + 4`.
            let bytes = unsafe { load(text, start + at) };
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble);
            let low = _mm256_shuffle_epi8(*low, _mm256_and_si256(bytes, nibble));
            let high = _mm256_shuffle_epi8(*high, upper);
            all = _mm256_and_si256(all, _mm256_and_si256(low, high));
        }
        let none = _mm256_cmpeq_epi8(all, _mm256_setzero_si256());
        let passed = !_mm256_movemask_epi8(none) as u32;
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed, start, count, found) };
    }
    count
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub unsafe fn repeats(text: &Bytes, len: usize, repeats: &mut [u64; CAPACITY / 64]) {
    for (word, start) in repeats.iter_mut().zip((0..len).step_by(64)) {
        let half = |start: usize| {
            // SAFETY: the position is less than `CAPACITY + 32`.
            let bytes = unsafe { load(text, start) };
            // SAFETY: it is at most `CAPACITY + 32`.
            let next = unsafe { load(text, start + 1) };
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, next)) as u32
        };
        *word = u64::from(half(start + 32)) << 32 | u64::from(half(start));
    }
}
