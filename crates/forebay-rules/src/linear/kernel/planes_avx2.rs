//! Bit planes with AVX2: as with AVX-512, 32 keys a step.
//!
//! Key `8m + 2i + j` is byte `16j + 4m + i` of a vector.
#![allow(unsafe_code, reason = "intrinsics, and memory that the caller checked")]

use std::arch::x86_64::*;

use forebay_jit::planes::Line;

use super::key_blocks::{Bit, Block, Key};
use crate::engine::NO_RULE;

/// Keys of a step.
const STEP: usize = 32;

/// Steps of a group, and words of 32 packets of a plane.
const STEPS: usize = 8;

/// Four vectors whose lanes are rows of 32-bit elements, into four vectors whose
/// lanes are columns.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [__m256i; 4]) -> [__m256i; 4] {
    let low = [_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpacklo_epi32(rows[2], rows[3])];
    let high = [_mm256_unpackhi_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[2], rows[3])];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}

/// Fills the planes of the block's fields.
///
/// # Safety
/// AVX2; 256 keys that hold the block; `planes` hold all planes of its fields.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn slice<K: Key>(keys: &[K], block: &Block, planes: &mut [Line]) {
    let together = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
    ));
    let planes = planes.as_mut_ptr().cast::<i32>();
    for (word, keys) in keys.chunks_exact(STEP).take(STEPS).enumerate() {
        let fields: [[__m256i; 4]; 4] = std::array::from_fn(|m| {
            let rows = std::array::from_fn(|i| {
                let part = |j: usize| {
                    // SAFETY: a key of the step's 32, which holds the block.
                    unsafe {
                        let key = keys.as_ptr().add(8 * m + 2 * i + j);
                        _mm_loadu_si128(key.byte_add(block.offset).cast())
                    }
                };
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(part(0)), part(1))
            });
            transpose(rows)
        });
        for (field, first) in block.fields.iter().enumerate() {
            let Some(first) = *first else { continue };
            let rows = std::array::from_fn(|m| _mm256_shuffle_epi8(fields[m][field], together));
            for (byte, mut bytes) in transpose(rows).into_iter().enumerate() {
                for bit in (0..8).rev() {
                    let plane = first + 8 * byte + bit;
                    let mask = _mm256_movemask_epi8(bytes);
                    // SAFETY: a word of a plane that the caller has memory for.
                    unsafe { planes.add(plane * STEPS + word).write(mask) };
                    bytes = _mm256_add_epi8(bytes, bytes);
                }
            }
        }
    }
}

/// The numbers of 256 packets.
///
/// # Safety
/// AVX2; `results` hold all planes of `bits`; 256 numbers.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unslice(results: &[Line], bits: &[Bit], default: u32, numbers: &mut [u32]) {
    let results = results.as_ptr().cast::<i32>();
    let default = _mm256_set1_epi32(default as i32);
    // Byte n of a word's 32 has bit n, in byte n / 8 of the word.
    let spread = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3,
        3, 3,
    );
    let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    for (word, numbers) in numbers.chunks_exact_mut(STEP).take(STEPS).enumerate() {
        let mut halves = [_mm256_setzero_si256(); 2];
        for (half, bits) in halves.iter_mut().zip(bits.chunks(8)) {
            for (place, bit) in bits.iter().enumerate() {
                let mask = match *bit {
                    Bit::Constant(set) => {
                        if set {
                            -1
                        } else {
                            0
                        }
                    }
                    Bit::Plane { plane, inverted } => {
                        // SAFETY: a word of a plane that the results hold.
                        let mask = unsafe { results.add(plane * STEPS + word).read() };
                        if inverted { !mask } else { mask }
                    }
                };
                let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(mask), spread);
                let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own), own);
                let value = _mm256_set1_epi8((1_u8 << place) as i8);
                *half = _mm256_or_si256(*half, _mm256_and_si256(set, value));
            }
        }
        for (m, numbers) in numbers.chunks_exact_mut(8).enumerate() {
            let places = _mm256_setr_epi32(m as i32, 4 + m as i32, 0, 0, 0, 0, 0, 0);
            let pairs = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, -1, -1, -1, -1, -1, -1, -1, -1);
            let widen = |half: __m256i| {
                let bytes = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(half, places));
                _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, pairs))
            };
            let low = widen(halves[0]);
            let all = _mm256_or_si256(low, _mm256_slli_epi32::<8>(widen(halves[1])));
            // All ones, which is NO_RULE, where the number is the default's.
            const { assert!(NO_RULE == u32::MAX) };
            let all = _mm256_or_si256(all, _mm256_cmpeq_epi32(all, default));
            // SAFETY: eight numbers.
            unsafe { _mm256_storeu_si256(numbers.as_mut_ptr().cast(), all) };
        }
    }
}
