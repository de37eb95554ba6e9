//! The kernel with AVX2: a block of eight atoms in two halves of four.
#![allow(unsafe_code, reason = "vector loads of whole fields")]

use super::key::{BATCH, TreeKey};
use super::steps::{self, Level, shift_right_256};
use crate::tree::block::{Block, LANES};
use crate::tree::matcher::Matcher;
use crate::tree::wildcards::{Chunk, FIELDS};
use std::arch::x86_64::*;

/// Lowers each label to that of the first atom that its key matches.
///
/// # Safety
/// The machine has AVX2, BMI1 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) unsafe fn classify<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    // SAFETY: as the caller promises.
    unsafe { steps::classify::<Avx2, Q, K>(matcher, keys, labels) }
}

struct Avx2;

impl Level for Avx2 {
    /// # Safety
    /// The machine has the level.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn above(numbers: &[u32; BATCH], least: u32) -> u64 {
        // Numbers without a sign are compared as such with one.
        let sign = _mm256_set1_epi32(i32::MIN);
        let least = _mm256_xor_si256(_mm256_set1_epi32(least as i32), sign);
        let mut set = 0;
        for (part, numbers) in numbers.chunks_exact(8).enumerate() {
            // SAFETY: a chunk is 8 numbers.
            let numbers = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
            let above = _mm256_cmpgt_epi32(_mm256_xor_si256(numbers, sign), least);
            set |= u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(above)) as u32) << (8 * part);
        }
        set
    }

    /// # Safety
    /// The machine has the level.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn compare<const Q: usize, K: TreeKey>(
        block: &Block<Q>,
        key: &K,
        ports: u64,
        failed: u32,
    ) -> u32 {
        let right = half(block, 0, key, ports) | half(block, 1, key, ports) << 4;
        right & !failing(block, failed)
    }

    /// # Safety
    /// The machine has the level.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn first_common(chunks: [&Chunk; FIELDS + 1]) -> usize {
        let half = |at: usize| {
            // SAFETY: a chunk has two halves of a vector, where `at` is 0 or 4.
            let load =
                |chunk: &Chunk| unsafe { _mm256_load_si256((&raw const chunk.0[at]).cast()) };
            let [first, rest @ ..] = chunks.map(load);
            rest.into_iter().fold(first, |all, chunk| _mm256_and_si256(all, chunk))
        };
        let (low, high) = (half(0), half(4));
        let none = |half| {
            let none = _mm256_cmpeq_epi64(half, _mm256_setzero_si256());
            _mm256_movemask_pd(_mm256_castsi256_pd(none)) as u32
        };
        let words = !(none(low) | none(high) << 4);
        // The last is of a chunk without bits.
        let mut common = [0_u64; 9];
        // SAFETY: 32 bytes are written, at words 0 and 4 of nine.
        unsafe {
            _mm256_storeu_si256(common.as_mut_ptr().cast(), low);
            _mm256_storeu_si256(common.as_mut_ptr().add(4).cast(), high);
        }
        let word = _tzcnt_u32(words) as usize;
        word * 64 + _tzcnt_u64(common[word.min(8)]) as usize
    }
}

/// Which of four lanes of `block` the packet matches, but for their tests.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn half<const Q: usize, K: TreeKey>(block: &Block<Q>, half: usize, key: &K, ports: u64) -> u32 {
    let first = half * LANES / 2;
    // SAFETY: all loads are of four whole lanes of a field of `block`, of which
    // each has eight.
    unsafe {
        let bounds = _mm256_load_si256((&raw const block.ports[first]).cast());
        // What is left of a bound is what the packet's word lacks.
        let mut wrong = _mm256_subs_epu16(bounds, _mm256_set1_epi64x(ports as i64));
        for word in 0..Q {
            let mine = _mm256_set1_epi64x(key.word(word) as i64);
            let theirs = _mm256_load_si256((&raw const block.addresses[word][first]).cast());
            let shifts = _mm_loadl_epi64((&raw const block.shifts[word][first]).cast());
            let shifts = _mm256_cvtepu8_epi32(shifts);
            wrong = _mm256_or_si256(wrong, shift_right_256(_mm256_xor_si256(mine, theirs), shifts));
        }
        let right = _mm256_cmpeq_epi64(wrong, _mm256_setzero_si256());
        _mm256_movemask_pd(_mm256_castsi256_pd(right)) as u32
    }
}

/// The lanes of `block` whose tests are among those that a packet fails.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn failing<const Q: usize>(block: &Block<Q>, failed: u32) -> u32 {
    // SAFETY: the load is of the field, which has eight bytes.
    let tests = unsafe { _mm_loadl_epi64((&raw const block.tests).cast()) };
    let failed = shift_right_256(_mm256_set1_epi32(failed as i32), _mm256_cvtepu8_epi32(tests));
    // The lowest bit of each lane becomes its sign.
    let failed = _mm256_slli_epi32::<31>(failed);
    _mm256_movemask_ps(_mm256_castsi256_ps(failed)) as u32
}
