//! Values of a batch's packets, selected by vectors: sixteen at once where the machine
//! has AVX-512, else one after another.
//!
//! Measured by `forebay-bench pipeline`, stage `filter`.
#![allow(unsafe_code, reason = "intrinsics, and the choice of them at run time")]

use crate::batch_size::BATCH;
#[cfg(target_arch = "x86_64")]
use crate::vectors::Vectors;

/// Values of a vector.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

/// A bit for each packet of a batch.
pub(crate) type Bits = [u64; BATCH / 64];

/// Which of the values, [`BATCH`] at the most, are not 0.
pub(crate) fn nonzero(values: &[u32]) -> Bits {
    #[cfg(target_arch = "x86_64")]
    if Vectors::Avx512.are_wanted() {
        // SAFETY: the machine has the instructions.
        return unsafe { avx512::nonzero(values) };
    }
    nonzero_one_by_one(values)
}

/// Puts the values that `bits` has side by side, in order, at the start of `to`, and returns
/// how many they are. Of `from`, [`BATCH`] values at the most are looked at.
pub(crate) fn select(from: &[u32], bits: &Bits, to: &mut [u32; BATCH]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if Vectors::Avx512.are_wanted() {
        // SAFETY: the machine has the instructions.
        return unsafe { avx512::select(from, bits, to) };
    }
    select_one_by_one(from, bits, to)
}

fn nonzero_one_by_one(values: &[u32]) -> Bits {
    let mut bits = Bits::default();
    for (word, values) in bits.iter_mut().zip(values.chunks(64)) {
        for (i, &value) in values.iter().enumerate() {
            *word |= u64::from(value != 0) << i;
        }
    }
    bits
}

fn select_one_by_one(from: &[u32], bits: &Bits, to: &mut [u32; BATCH]) -> usize {
    let mut count = 0;
    for (word, values) in bits.iter().zip(from.chunks(64)) {
        for (i, &value) in values.iter().enumerate() {
            to[count] = value;
            count += (word >> i & 1) as usize;
        }
    }
    count
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use crate::batch_size::BATCH;
    use crate::select::{Bits, LANES};

    /// The sixteen bits of vector `i`.
    #[inline]
    fn of_vector(bits: &Bits, i: usize) -> u16 {
        (bits[i / 4] >> (i % 4 * LANES)) as u16
    }

    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn nonzero(values: &[u32]) -> Bits {
        let mut bits = Bits::default();
        let values = &values[..values.len().min(BATCH)];
        for (i, chunk) in values.chunks(LANES).enumerate() {
            let there = u16::MAX >> (LANES - chunk.len());
            // SAFETY: only the values of the chunk are read.
            let vector = unsafe { _mm512_maskz_loadu_epi32(there, chunk.as_ptr().cast()) };
            let set = _mm512_test_epi32_mask(vector, vector);
            bits[i / 4] |= u64::from(set) << (i % 4 * LANES);
        }
        bits
    }

    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn select(from: &[u32], bits: &Bits, to: &mut [u32; BATCH]) -> usize {
        let mut count = 0;
        let from = &from[..from.len().min(BATCH)];
        for (i, chunk) in from.chunks(LANES).enumerate() {
            let there = u16::MAX >> (LANES - chunk.len());
            let which = of_vector(bits, i) & there;
            // SAFETY: only the values of the chunk are read.
            let vector = unsafe { _mm512_maskz_loadu_epi32(there, chunk.as_ptr().cast()) };
            let selected = _mm512_maskz_compress_epi32(which, vector);
            // SAFETY: no more were selected than the vectors before this one had; so the
            // store ends where this vector does or before, and there is room for a batch.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(count).cast(), selected) };
            count += which.count_ones() as usize;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in no order.
    fn numbers(count: usize, seed: u64) -> Vec<u64> {
        let next = |x: &mut u64| {
            *x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some(*x >> 7 ^ *x << 13)
        };
        std::iter::successors(Some(seed), |x| next(&mut x.clone())).take(count).collect()
    }

    /// [`nonzero`] by the widest vectors of this machine, whatever limit there is just now.
    fn by_vectors(values: &[u32]) -> Bits {
        #[cfg(target_arch = "x86_64")]
        if Vectors::Avx512.are_here() {
            // SAFETY: the machine has the instructions.
            return unsafe { avx512::nonzero(values) };
        }
        nonzero(values)
    }

    /// [`select`], likewise.
    fn selected_by_vectors(from: &[u32], bits: &Bits, to: &mut [u32; BATCH]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if Vectors::Avx512.are_here() {
            // SAFETY: the machine has the instructions.
            return unsafe { avx512::select(from, bits, to) };
        }
        select(from, bits, to)
    }

    #[test]
    fn vectors_select_what_a_loop_selects() {
        for len in [0, 1, 15, 16, 17, 63, 64, 65, 200, 255, 256] {
            for seed in 0..20 {
                let values: Vec<u32> =
                    numbers(len, seed).into_iter().map(|x| x as u32 % 3).collect();
                let bits = by_vectors(&values);
                assert_eq!(bits, nonzero_one_by_one(&values), "{len}");
                assert_eq!(bits, nonzero(&values), "{len}");
                let bits: Bits = std::array::from_fn(|i| bits[i] ^ numbers(8, seed + 9)[i + 3]);
                let values: Vec<u32> = (0..len as u32).collect();
                let (mut ours, mut expected) = ([0; BATCH], [0; BATCH]);
                let count = select_one_by_one(&values, &bits, &mut expected);
                assert_eq!(count, selected_by_vectors(&values, &bits, &mut ours), "{len}");
                assert_eq!(ours[..count], expected[..count], "{len}");
                assert_eq!(count, select(&values, &bits, &mut ours), "{len}");
                assert_eq!(ours[..count], expected[..count], "{len}");
            }
        }
    }
}
