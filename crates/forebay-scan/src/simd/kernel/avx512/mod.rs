//! Loops over vectors of 512 bits, with F and BW, which nearly all processors with AVX-512 have.
//!
//! All but [`probe_all`] is for processors with VBMI only: on Cascade Lake, AVX2 is faster, as vectors
//! of 512 bits lower the frequency. Filters that read words are those of AVX2 at all levels: loads one by
//! one take no longer than the instruction that gathers, measured on Cascade Lake and Zen 4.

pub mod vbmi;

use std::arch::x86_64::*;

use forebay_packet::Vectors;

use super::super::buckets::Buckets;
use super::super::buffer::{Bytes, CAPACITY, FRONT};
use super::super::runs;
use super::{Positions, STEP, avx2, write};

pub fn is_here() -> bool {
    avx2::is_here() && Vectors::Avx512.are_here()
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
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
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
