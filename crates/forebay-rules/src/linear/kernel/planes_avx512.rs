//! Bit planes with AVX-512 F and BW.
//!
//! 64 keys a step. Four vectors of four keys each are transposed within their
//! 128-bit lanes, by 32 bits, so that each holds one field of 16 keys; a
//! shuffle in lanes brings equal bytes of a field together, and the same
//! transposition over four such vectors makes four vectors of one byte of 64
//! keys. `vpmovb2m` takes the top bit of every byte, doubling the bytes brings
//! the next bit there. Key `16m + 4i + j` ends up in byte `16j + 4m + i`; the way
//! back undoes that.
#![allow(unsafe_code, reason = "intrinsics, and memory that the caller checked")]

use std::arch::x86_64::*;

use forebay_jit::planes::Line;

use super::key_blocks::{Bit, Block, Key};
use crate::engine::NO_RULE;

/// Keys of a step.
const STEP: usize = 64;

/// Four vectors whose lanes are rows of 32-bit elements, into four vectors whose
/// lanes are columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transpose(rows: [__m512i; 4]) -> [__m512i; 4] {
    let low = [_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpacklo_epi32(rows[2], rows[3])];
    let high = [_mm512_unpackhi_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[2], rows[3])];
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
        _mm512_unpackhi_epi64(high[0], high[1]),
    ]
}

/// 16 bytes of four keys from `key` on, at `offset`.
///
/// # Safety
/// There are four keys, and the bytes lie within each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load<K: Key>(key: *const K, offset: usize) -> __m512i {
    // SAFETY: as the caller promises.
    unsafe {
        if size_of::<K>() == 16 {
            return _mm512_loadu_si512(key.cast());
        }
        let part = |n: usize| _mm_loadu_si128(key.add(n).byte_add(offset).cast());
        let all = _mm512_castsi128_si512(part(0));
        let all = _mm512_inserti32x4::<1>(all, part(1));
        let all = _mm512_inserti32x4::<2>(all, part(2));
        _mm512_inserti32x4::<3>(all, part(3))
    }
}

/// Fills the planes of the block's fields, `words` words of 64 packets each.
///
/// # Safety
/// AVX-512 F and BW; 64 · `words` keys that hold the block; `planes` hold all
/// planes of its fields.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn slice<K: Key>(keys: &[K], block: &Block, planes: &mut [Line], words: usize) {
    let together =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    let planes = planes.as_mut_ptr().cast::<u64>();
    for (word, keys) in keys.chunks_exact(STEP).take(words).enumerate() {
        let fields: [[__m512i; 4]; 4] = std::array::from_fn(|m| {
            // SAFETY: four keys from number 16m + 4i on of the step's 64.
            let rows = std::array::from_fn(|i| unsafe {
                load(keys.as_ptr().add(16 * m + 4 * i), block.offset)
            });
            transpose(rows)
        });
        for (field, first) in block.fields.iter().enumerate() {
            let Some(first) = *first else { continue };
            let rows = std::array::from_fn(|m| _mm512_shuffle_epi8(fields[m][field], together));
            for (byte, mut bytes) in transpose(rows).into_iter().enumerate() {
                for bit in (0..8).rev() {
                    let plane = first + 8 * byte + bit;
                    let mask = _mm512_movepi8_mask(bytes);
                    // SAFETY: a word of a plane that the caller has memory for.
                    unsafe { planes.add(plane * words + word).write(mask) };
                    bytes = _mm512_add_epi8(bytes, bytes);
                }
            }
        }
    }
}

/// The numbers of 64 · `words` packets.
///
/// # Safety
/// AVX-512 F and BW; `results` hold all planes of `bits`, of `words` words each;
/// 64 · `words` numbers.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn unslice(
    results: &[Line],
    bits: &[Bit],
    default: u32,
    numbers: &mut [u32],
    words: usize,
) {
    let results = results.as_ptr().cast::<u64>();
    let default = _mm512_set1_epi32(default as i32);
    let none = _mm512_set1_epi32(NO_RULE as i32);
    let apart = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let lanes = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    for (word, numbers) in numbers.chunks_exact_mut(STEP).take(words).enumerate() {
        let mut halves = [_mm512_setzero_si512(); 2];
        for (half, bits) in halves.iter_mut().zip(bits.chunks(8)) {
            for (place, bit) in bits.iter().enumerate() {
                let mask = match *bit {
                    Bit::Constant(set) => {
                        if set {
                            u64::MAX
                        } else {
                            0
                        }
                    }
                    Bit::Plane { plane, inverted } => {
                        // SAFETY: a word of a plane that the results hold.
                        let mask = unsafe { results.add(plane * words + word).read() };
                        if inverted { !mask } else { mask }
                    }
                };
                let value = _mm512_set1_epi8((1_u8 << place) as i8);
                *half = _mm512_mask_add_epi8(*half, mask, *half, value);
            }
        }
        for (m, numbers) in numbers.chunks_exact_mut(16).enumerate() {
            let places = _mm512_add_epi32(lanes, _mm512_set1_epi32(m as i32));
            let widen = |half: __m512i| {
                let bytes = _mm512_castsi512_si128(_mm512_permutexvar_epi32(places, half));
                _mm512_cvtepu8_epi32(_mm_shuffle_epi8(bytes, apart))
            };
            let mut all = widen(halves[0]);
            if bits.len() > 8 {
                all = _mm512_or_si512(all, _mm512_slli_epi32::<8>(widen(halves[1])));
            }
            let all = _mm512_mask_mov_epi32(all, _mm512_cmpeq_epi32_mask(all, default), none);
            // SAFETY: 16 numbers.
            unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), all) };
        }
    }
}
