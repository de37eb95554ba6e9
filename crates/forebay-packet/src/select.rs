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

/// Moves the values that `bits` has to the front, in order, and returns how many they are. What is
/// behind them then is not specified. Of `values`, [`BATCH`] at the most are looked at.
pub(crate) fn move_to_front(values: &mut [u32], bits: &Bits) -> usize {
    #[cfg(target_arch = "x86_64")]
    if Vectors::Avx512.are_wanted() {
        // SAFETY: the machine has the instructions.
        return unsafe { avx512::move_to_front(values, bits) };
    }
    move_one_by_one(values, bits)
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

fn move_one_by_one(values: &mut [u32], bits: &Bits) -> usize {
    let mut count = 0;
    for i in 0..values.len().min(BATCH) {
        values[count] = values[i];
        count += (bits[i / 64] >> (i % 64) & 1) as usize;
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
    pub(super) fn move_to_front(values: &mut [u32], bits: &Bits) -> usize {
        let (len, start) = (values.len().min(BATCH), values.as_mut_ptr());
        let mut count = 0;
        for (i, at) in (0..len).step_by(LANES).enumerate() {
            let there = u16::MAX >> LANES.saturating_sub(len - at);
            let which = of_vector(bits, i) & there;
            // SAFETY: only values of the slice are read.
            let vector = unsafe { _mm512_maskz_loadu_epi32(there, start.add(at).cast()) };
            let moved = _mm512_maskz_compress_epi32(which, vector);
            // SAFETY: as many values are written as this vector has, behind those moved before, which
            // are no more than those in front of it: within the slice, and read already.
            unsafe { _mm512_mask_storeu_epi32(start.add(count).cast(), there, moved) };
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

    /// [`move_to_front`], likewise.
    fn moved_by_vectors(values: &mut [u32], bits: &Bits) -> usize {
        #[cfg(target_arch = "x86_64")]
        if Vectors::Avx512.are_here() {
            // SAFETY: the machine has the instructions.
            return unsafe { avx512::move_to_front(values, bits) };
        }
        move_to_front(values, bits)
    }

    #[test]
    fn vectors_do_what_a_loop_does() {
        for len in [0, 1, 15, 16, 17, 63, 64, 65, 200, 255, 256, 257, 300] {
            for seed in 0..20 {
                let values: Vec<u32> =
                    numbers(len, seed).into_iter().map(|x| x as u32 % 3).collect();
                let bits = by_vectors(&values);
                assert_eq!(bits, nonzero_one_by_one(&values), "{len}");
                assert_eq!(bits, nonzero(&values), "{len}");
                let bits: Bits = std::array::from_fn(|i| bits[i] ^ numbers(8, seed + 9)[i + 3]);
                let values: Vec<u32> = (0..len as u32).collect();
                let expected: Vec<u32> = values
                    .iter()
                    .copied()
                    .take(BATCH)
                    .filter(|&i| bits[i as usize / 64] >> (i % 64) & 1 == 1)
                    .collect();
                for moved in [move_one_by_one, moved_by_vectors, move_to_front] {
                    let mut padded = [values.as_slice(), &[u32::MAX; 32]].concat();
                    let count = moved(&mut padded[..len], &bits);
                    assert_eq!(padded[..count], expected, "{len}");
                    assert!(padded[len..].iter().all(|&value| value == u32::MAX), "{len}");
                }
            }
        }
    }
}
