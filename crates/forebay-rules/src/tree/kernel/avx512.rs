//! The kernel with AVX-512: a block of eight atoms at once.
#![allow(unsafe_code, reason = "vector loads of whole fields")]

use super::key::{BATCH, TreeKey};
use super::steps::{self, Level, shift_right_256, shift_right_512};
use crate::tree::block::Block;
use crate::tree::matcher::Matcher;
use crate::tree::wildcards::{Chunk, FIELDS};
use std::arch::x86_64::*;

/// Lowers each label to that of the first atom that its key matches.
///
/// # Safety
/// The machine has AVX-512 F, BW, DQ and VL, and BMI1 and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
pub(super) unsafe fn classify<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    // SAFETY: as the caller promises.
    unsafe { steps::classify::<Avx512, Q, K>(matcher, keys, labels) }
}

struct Avx512;

impl Level for Avx512 {
    /// # Safety
    /// The machine has the level.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn above(numbers: &[u32; BATCH], least: u32) -> u64 {
        let least = _mm512_set1_epi32(least as i32);
        let mut set = 0;
        for (part, numbers) in numbers.chunks_exact(16).enumerate() {
            // SAFETY: a chunk is 16 numbers.
            let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
            set |= u64::from(_mm512_cmpgt_epu32_mask(numbers, least)) << (16 * part);
        }
        set
    }

    /// # Safety
    /// The machine has the level.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn compare<const Q: usize, K: TreeKey>(
        block: &Block<Q>,
        key: &K,
        ports: u64,
        failed: u32,
    ) -> u32 {
        // SAFETY: all loads are of whole fields of `block`.
        unsafe {
            let bounds = _mm512_load_si512((&raw const block.ports).cast());
            // What is left of a bound is what the packet's word lacks.
            let mut wrong = _mm512_subs_epu16(bounds, _mm512_set1_epi64(ports as i64));
            let tests = _mm256_cvtepu8_epi32(_mm_loadl_epi64((&raw const block.tests).cast()));
            let failed = shift_right_256(_mm256_set1_epi32(failed as i32), tests);
            let passing = _mm256_testn_epi32_mask(failed, _mm256_set1_epi32(1));
            for word in 0..Q {
                let mine = _mm512_set1_epi64(key.word(word) as i64);
                let theirs = _mm512_load_si512((&raw const block.addresses[word]).cast());
                let shifts =
                    _mm512_cvtepu8_epi32(_mm_load_si128((&raw const block.shifts[word]).cast()));
                wrong =
                    _mm512_or_si512(wrong, shift_right_512(_mm512_xor_si512(mine, theirs), shifts));
            }
            _mm512_mask_testn_epi64_mask(passing, wrong, wrong).into()
        }
    }

    /// # Safety
    /// The machine has the level.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn first_common(chunks: [&Chunk; FIELDS + 1]) -> usize {
        // SAFETY: a chunk is a vector.
        let load = |chunk: &Chunk| unsafe { _mm512_load_si512((&raw const *chunk).cast()) };
        let [a, b, c, d, e, f, g] = chunks.map(load);
        const AND: i32 = 0x80;
        let all = _mm512_ternarylogic_epi64::<AND>(a, b, c);
        let all = _mm512_ternarylogic_epi64::<AND>(all, d, e);
        let all = _mm512_ternarylogic_epi64::<AND>(all, f, g);
        let words = _mm512_test_epi64_mask(all, all);
        let word = _mm512_maskz_compress_epi64(words, all);
        let bits = _mm_cvtsi128_si64(_mm512_castsi512_si128(word)) as u64;
        _tzcnt_u32(u32::from(words) | 1 << 8) as usize * 64 + _tzcnt_u64(bits) as usize
    }
}
