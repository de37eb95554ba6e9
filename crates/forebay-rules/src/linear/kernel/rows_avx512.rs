//! Rows of rules against packets with AVX-512 F and BW.
#![allow(unsafe_code, reason = "intrinsics")]

use std::arch::x86_64::*;

use super::rows::{self, LaneContent, LaneVector};
use crate::atom::Tests;
use crate::linear::table::{Key, Rows};

/// 16 lanes.
#[derive(Clone, Copy)]
struct Vector(__m512i);

// SAFETY: 16 lanes divide the 16 rows of a block.
unsafe impl LaneVector for Vector {
    const LANES: usize = 16;

    // SAFETY: as the trait says.
    #[inline(always)]
    unsafe fn load(start: *const u32) -> Self {
        // SAFETY: as the trait says.
        unsafe { Self(_mm512_loadu_si512(start.cast())) }
    }

    // SAFETY: as the trait says.
    #[inline(always)]
    unsafe fn splat(number: u32) -> Self {
        // SAFETY: as the trait says.
        unsafe { Self(_mm512_set1_epi32(number as i32)) }
    }

    #[inline(always)]
    fn differing(self, value: Self, mask: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX-512.
        unsafe { Self(_mm512_ternarylogic_epi32::<0x28>(self.0, value.0, mask.0)) }
    }

    #[inline(always)]
    fn beyond(self, low: Self, span: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX-512.
        unsafe { Self(_mm512_subs_epu16(_mm512_sub_epi16(self.0, low.0), span.0)) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX-512.
        unsafe { Self(_mm512_or_si512(self.0, other.0)) }
    }

    #[inline(always)]
    fn or_both(self, one: Self, other: Self) -> Self {
        // SAFETY: where there is a vector, there is AVX-512.
        unsafe { Self(_mm512_ternarylogic_epi32::<0xf8>(self.0, one.0, other.0)) }
    }

    #[inline(always)]
    fn zeros(self) -> u32 {
        // SAFETY: where there is a vector, there is AVX-512.
        unsafe { u32::from(_mm512_testn_epi32_mask(self.0, self.0)) }
    }
}

/// See [`rows::classify`].
///
/// # Safety
/// AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt,popcnt")]
pub(super) unsafe fn classify<K: Key<N>, const N: usize>(
    lanes: LaneContent,
    rows: &Rows<N>,
    tests: &Tests,
    keys: &[K],
    rules: &mut [u32],
) {
    // SAFETY: as the caller promises.
    unsafe { rows::classify::<Vector, K, N, 3>(lanes, rows, tests, keys, rules) };
}
