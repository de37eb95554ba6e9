//! Loops over vectors of 512 bits, with what all processors with AVX-512 have (F, BW, DQ, VL).
//!
//! All but [`probe_all`] is for processors with VBMI only: on Cascade Lake, AVX2 is faster, as vectors
//! of 512 bits lower the frequency, and leave fewer units for the loads of the filters.

pub mod vbmi;

use std::arch::x86_64::*;

use forebay_packet::Vectors;

use super::super::bloom::Bloom;
use super::super::buckets::Buckets;
use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::hash::{self, FIRST_BIT, SECOND_BIT};
use super::super::pairs::{HIGH, Pairs};
use super::super::runs;
use super::{Positions, STEP, avx2, write};

pub fn is_here() -> bool {
    avx2::is_here()
        && Vectors::Avx512.are_here()
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512vl")
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

/// The words with these indices.
///
/// # Safety
/// The indices are less than the number of words.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather(words: &[u32], index: __m512i) -> __m512i {
    // SAFETY: as the caller promises.
    unsafe { _mm512_i32gather_epi32::<4>(index, words.as_ptr().cast()) }
}

/// A Bloom filter in registers.
struct Filter<'a> {
    words: &'a [u32],
    shift: __m128i,
}

impl<'a> Filter<'a> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(bloom: &'a Bloom) -> Self {
        Self { words: bloom.words(), shift: _mm_cvtsi32_si128(bloom.shift() as i32) }
    }

    /// A bit for each window that passes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn pass(&self, windows: __m512i) -> __mmask16 {
        let product = _mm512_mullo_epi32(windows, _mm512_set1_epi32(hash::WORD as i32));
        let index = _mm512_srl_epi32(product, self.shift);
        // SAFETY: an index is of as many bits as the filter has words for.
        let words = unsafe { gather(self.words, index) };
        let product = _mm512_mullo_epi32(windows, _mm512_set1_epi32(hash::BITS as i32));
        // Rotations take the number of bits modulo 32.
        let first = _mm512_rorv_epi32(words, _mm512_srli_epi32::<FIRST_BIT>(product));
        let second = _mm512_rorv_epi32(words, _mm512_srli_epi32::<SECOND_BIT>(product));
        _mm512_test_epi32_mask(_mm512_and_si512(first, second), _mm512_set1_epi32(1))
    }

    /// Writes the positions, of the first `len` that are multiples of 4, that pass.
    ///
    /// # Safety
    /// `len` is at most `CAPACITY`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    unsafe fn probe_fourths(&self, text: &Bytes, len: usize, found: &mut Positions) -> usize {
        let lanes = _mm512_set_epi32(60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
        let mut count = 0;
        for start in (0..len).step_by(STEP) {
            // SAFETY: the position is less than `CAPACITY`.
            let passed = self.pass(unsafe { load(text, start) });
            let positions = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(passed, lanes));
            let positions = _mm256_add_epi16(positions, _mm256_set1_epi16(start as i16));
            // SAFETY: 32 bytes are written behind at most one position for each 4 bytes before
            // `start`.
            unsafe { _mm256_storeu_si256(found.as_mut_ptr().add(count).cast(), positions) };
            count += passed.count_ones() as usize;
        }
        count
    }
}

/// A bit for each of the 64 positions from `start` on whose window passes.
///
/// # Safety
/// `start` is less than `CAPACITY`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn pass_pairs(text: &Bytes, start: usize, pairs: &Pairs) -> u64 {
    let shift = _mm_cvtsi32_si128(pairs.shift() as i32);
    let factor = _mm512_set1_epi32(hash::WORD as i32);
    let (one, nibble) = (_mm512_set1_epi32(1), _mm512_set1_epi32(15));
    let high = _mm512_set1_epi32(HIGH as i32);
    let text: [_; 4] = std::array::from_fn(|phase| {
        // SAFETY: the position is less than `CAPACITY + 4`.
        unsafe { load(text, start + phase) }
    });
    let both = |[first, second]: [__m512i; 2]| {
        let product = _mm512_mullo_epi32(_mm512_srli_epi32::<8>(first), factor);
        // SAFETY: an index is of as many bits as the filter has words for.
        let words = unsafe { gather(pairs.words(), _mm512_srl_epi32(product, shift)) };
        let first = _mm512_srlv_epi32(words, _mm512_and_si512(first, nibble));
        let last = _mm512_and_si512(_mm512_srli_epi32::<24>(second), nibble);
        let second = _mm512_srlv_epi32(words, _mm512_or_si512(last, high));
        let second = _mm512_slli_epi32::<8>(_mm512_and_si512(second, one));
        _mm512_or_si512(_mm512_and_si512(first, one), second)
    };
    // Now a byte for each position.
    let [first, second, third, fourth] = text;
    let passed =
        _mm512_or_si512(both([first, second]), _mm512_slli_epi32::<16>(both([third, fourth])));
    let passed = _mm512_test_epi8_mask(passed, _mm512_set1_epi8(1));
    if pairs.has_run() {
        return passed;
    }
    let equal = _mm512_cmpeq_epi8_mask(first, second);
    let equal = _mm512_mask_cmpeq_epi8_mask(equal, second, third);
    passed & !_mm512_mask_cmpeq_epi8_mask(equal, third, fourth)
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
pub unsafe fn probe_all<const W: usize>(
    text: &Bytes,
    len: usize,
    buckets: &Buckets,
    found: &mut Positions,
) -> usize {
    let tables: [[__m512i; 2]; W] =
        std::array::from_fn(|at| buckets.nibbles()[at].each_ref().map(|half| table(half)));
    let nibble = _mm512_set1_epi8(15);
    let mut count = 0;
    for start in (0..len).step_by(STEP) {
        let mut all = _mm512_set1_epi8(-1);
        for (at, [low, high]) in tables.iter().enumerate() {
            // SAFETY: the position is less than `CAPACITY + 4`.
            let bytes = unsafe { load(text, start + at) };
            let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), nibble);
            let low = _mm512_shuffle_epi8(*low, _mm512_and_si512(bytes, nibble));
            all = _mm512_and_si512(all, _mm512_and_si512(low, _mm512_shuffle_epi8(*high, upper)));
        }
        let passed = _mm512_test_epi8_mask(all, all);
        // SAFETY: at most `start` positions are written.
        count = unsafe { write(passed, start, count, found) };
    }
    count
}

/// Four times the bytes of a table.
#[inline]
#[target_feature(enable = "avx512f")]
fn table(bytes: &[u8; 16]) -> __m512i {
    // SAFETY: 16 bytes are read, from a value of that size.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// # Safety
/// `len` is at most `CAPACITY`.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn repeats(
    text: &Bytes,
    len: usize,
    among: &runs::Bytes,
    repeats: &mut [u64; CAPACITY / 64],
) {
    let (low, high) = (table(&among.low), table(&among.high));
    let nibble = _mm512_set1_epi8(15);
    for (word, start) in repeats.iter_mut().zip((0..len).step_by(STEP)) {
        // SAFETY: the position is less than `CAPACITY`.
        let bytes = unsafe { load(text, start) };
        // SAFETY: it is at most `CAPACITY`.
        let next = unsafe { load(text, start + 1) };
        let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), nibble);
        let low = _mm512_shuffle_epi8(low, _mm512_and_si512(bytes, nibble));
        let is_among = _mm512_test_epi8_mask(low, _mm512_shuffle_epi8(high, upper));
        *word = _mm512_mask_cmpeq_epi8_mask(is_among, bytes, next);
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::scalar;
    use super::*;

    /// Asserts that filters which only processors with VBMI use pass what those without vectors
    /// do. The machine has AVX-512.
    pub fn agrees(text: &Bytes, len: usize, bloom: &Bloom, pairs: &Pairs) {
        assert!(is_here() && len.is_multiple_of(STEP));
        let [mut found, mut expected] = [0, 0].map(|_| Box::new([0; _]));
        // SAFETY: the machine has the instructions; `len` is that of a text in a buffer.
        unsafe {
            let count = Filter::new(bloom).probe_fourths(text, len, &mut found);
            let least = scalar::probe_fourths(text, len, bloom, &mut expected);
            assert_eq!(found[..count], expected[..least]);
            let least = scalar::probe_pairs(text, len, pairs, &mut expected);
            assert_eq!(positions(len, |at| pass_pairs(text, at, pairs)), expected[..least]);
        }
    }

    fn positions(len: usize, pass: impl Fn(usize) -> u64) -> Vec<u16> {
        let all = (0..len).step_by(STEP).flat_map(|start| {
            let passed = pass(start);
            (0..STEP).filter(move |at| passed >> at & 1 == 1).map(move |at| (start + at) as u16)
        });
        all.collect()
    }
}
