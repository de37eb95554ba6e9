//! Rows of rules against packets without vectors.
#![allow(unsafe_code, reason = "the trait's functions are unsafe")]

use super::rows::{self, LaneContent, LaneVector};
use crate::atom::Tests;
use crate::linear::table::{Key, Rows};

/// A vector of one lane.
#[derive(Clone, Copy)]
struct Scalar(u32);

// SAFETY: there are no special instructions, and one lane divides everything.
unsafe impl LaneVector for Scalar {
    const LANES: usize = 1;

    // SAFETY: as the trait says.
    #[inline(always)]
    unsafe fn load(start: *const u32) -> Self {
        // SAFETY: one number, as the trait says.
        Self(unsafe { start.read() })
    }

    // SAFETY: as the trait says.
    #[inline(always)]
    unsafe fn splat(number: u32) -> Self {
        Self(number)
    }

    #[inline(always)]
    fn differing(self, value: Self, mask: Self) -> Self {
        Self((self.0 ^ value.0) & mask.0)
    }

    #[inline(always)]
    fn beyond(self, low: Self, span: Self) -> Self {
        let half = |shift: u32| {
            let [port, low, span] = [self.0, low.0, span.0].map(|word| (word >> shift) as u16);
            u32::from(port.wrapping_sub(low).saturating_sub(span))
        };
        Self(half(0) | half(16))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline(always)]
    fn or_both(self, one: Self, other: Self) -> Self {
        Self(self.0 | (one.0 & other.0))
    }

    #[inline(always)]
    fn zeros(self) -> u32 {
        u32::from(self.0 == 0)
    }
}

/// See [`rows::classify`].
pub(super) fn classify<K: Key<N>, const N: usize>(
    lanes: LaneContent,
    rows: &Rows<N>,
    tests: &Tests,
    keys: &[K],
    rules: &mut [u32],
) {
    // SAFETY: nothing is asked of the machine.
    unsafe { rows::classify::<Scalar, K, N, 4>(lanes, rows, tests, keys, rules) };
}
