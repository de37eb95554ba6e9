//! Loops over vectors of 512 bits that VBMI and VBMI2 make shorter.

use std::arch::x86_64::*;

use forebay_packet::Vectors;

use super::super::super::buckets::Buckets;
use super::super::super::buffer::Bytes;
use super::super::{Positions, STEP};
use super::load;

pub fn is_here() -> bool {
    super::is_here() && Vectors::Avx512Vbmi.are_here()
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
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
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
