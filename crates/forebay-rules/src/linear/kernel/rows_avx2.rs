//! Rows of rules against packets with AVX2.
#![allow(unsafe_code, reason = "intrinsics")]

use std::arch::x86_64::*;

use super::rows::{self, LaneContent, LaneVector};
use crate::atom::Tests;
use crate::linear::table::{Key, Rows};

/// Eight lanes.
#[derive(Clone, Copy)]
struct Vector(__m256i);

// SAFETY: eight lanes divide the 16 rows of a block.
unsafe impl LaneVector for Vector {
    const LANES: usize = 8;

    // SAFETY: as the trait says.
    #[inline(always)]
    unsafe fn load(start: *const u32) -> Self {
        // SAFETY: as the trait says.
        unsafe { Self(_mm256_loadu_si256(start.cast())) }
    }

    // SAFETY: as the trait says.
    #[inline(always)]
    unsafe fn splat(number: u32) -> Self {
        // SAFETY: as the trait says.
        unsafe { Self(_mm256_set1_epi32(number as i32)) }
    }

    #[inline(always)]
    fn differing(self, value: Self, mask: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX2.
        unsafe { Self(_mm256_and_si256(_mm256_xor_si256(self.0, value.0), mask.0)) }
    }

    #[inline(always)]
    fn beyond(self, low: Self, span: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX2.
        unsafe { Self(_mm256_subs_epu16(_mm256_sub_epi16(self.0, low.0), span.0)) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX2.
        unsafe { Self(_mm256_or_si256(self.0, other.0)) }
    }

    #[inline(always)]
    fn or_both(self, one: Self, other: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX2.
        unsafe { Self(_mm256_or_si256(self.0, _mm256_and_si256(one.0, other.0))) }
    }

    #[inline(always)]
    fn zeros(self) -> u32 {
        // SAFETY: where there is a vector, there is AVX2.
        unsafe {
            let zero = _mm256_cmpeq_epi32(self.0, _mm256_setzero_si256());
            _mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u32
        }
    }
}

/// See [`rows::classify`].
///
/// # Safety
/// AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) unsafe fn classify<K: Key<N>, const N: usize>(
    lanes: LaneContent,
    rows: &Rows<N>,
    tests: &Tests,
    keys: &[K],
    rules: &mut [u32],
) {
    // SAFETY: as the caller promises.
    unsafe { rows::classify::<Vector, K, N, 2>(lanes, rows, tests, keys, rules) };
}
