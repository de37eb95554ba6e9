//! Two vectors for a bucket; a block of AES for a key.

use std::arch::x86_64::*;

use super::{Choices, PLACES, View, prefetch, probe_first_with, probe_one_with, probe_second_with};
use crate::key::{KEY_MASK, ShortKey};
use crate::table::bucket::Bucket;

/// The bits of a key in two entries.
const MASK: [u128; 2] = [KEY_MASK; 2];

/// Moves the low half of each word of a block to the block's low word.
const LOW_HALVES: i32 = 0b10_00;

/// Moves the high half of each word of a block to the block's low word.
const HIGH_HALVES: i32 = 0b11_01;

/// Moves the low word of each block to the vector's low block.
const LOW_WORDS: i32 = 0b10_00;

#[target_feature(enable = "aes")]
fn block(bits: &u128) -> __m128i {
    // SAFETY: 16 bytes are read, from a value of that size.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(bits).cast()) }
}

#[target_feature(enable = "aes")]
#[inline]
pub(crate) fn hash(round_keys: &[u128; 5], key: u128) -> u64 {
    let [first, rest @ ..] = round_keys;
    let mut state = _mm_xor_si128(block(&key), block(first));
    for round_key in rest {
        state = _mm_aesenc_si128(state, block(round_key));
    }
    _mm_cvtsi128_si64(_mm_shuffle_epi32::<LOW_HALVES>(state)) as u64
}

#[target_feature(enable = "avx2,aes,bmi1")]
pub(super) fn choose(view: View<'_>, keys: &[ShortKey], choices: &mut [Choices]) {
    let [first, rest @ ..] = view.secret.round_keys.each_ref().map(|key| block(key));
    let count = _mm256_set1_epi64x(view.buckets.len() as i64);
    let hash = |key: &ShortKey| {
        let state = _mm_xor_si128(block(&key.0), first);
        rest.into_iter().fold(state, |state, round_key| _mm_aesenc_si128(state, round_key))
    };
    let two = |[a, b]: &[ShortKey; 2], choices: &mut [Choices; 2]| {
        // Of each word the low half.
        let products = _mm256_mul_epu32(_mm256_set_m128i(hash(b), hash(a)), count);
        let halves = _mm256_shuffle_epi32::<HIGH_HALVES>(products);
        let numbers = _mm256_permute4x64_epi64::<LOW_WORDS>(halves);
        // SAFETY: 16 bytes are written, to a value of that size.
        unsafe {
            _mm_storeu_si128(choices.as_mut_ptr().cast(), _mm256_castsi256_si128(numbers));
        }
        for [first, _] in choices {
            prefetch(&view.buckets[*first as usize]);
        }
    };
    let (twos, last) = keys.as_chunks();
    let (to_twos, to_last) = choices.as_chunks_mut();
    for (keys, choices) in twos.iter().zip(to_twos) {
        two(keys, choices);
    }
    if let ([key], [choice]) = (last, to_last) {
        let mut both = [[0; 2]; 2];
        two(&[*key; 2], &mut both);
        *choice = both[0];
    }
}

/// Where in a bucket a key is.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn place(bucket: &Bucket, key: u128) -> u8 {
    // SAFETY: 32 bytes are read, from a value of that size.
    let mask = unsafe { _mm256_loadu_si256(MASK.as_ptr().cast()) };
    let key = _mm256_broadcastsi128_si256(block(&key));
    let equal = |half: usize| {
        // SAFETY: 32 bytes are read: half of the bucket, which is aligned.
        let entries = unsafe { _mm256_load_si256(bucket.0.as_ptr().add(2 * half).cast()) };
        let different = _mm256_and_si256(_mm256_xor_si256(entries, key), mask);
        let equal = _mm256_cmpeq_epi64(different, _mm256_setzero_si256());
        _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u8
    };
    PLACES[usize::from(equal(0) | equal(1) << 4)]
}

#[target_feature(enable = "avx2,aes,bmi1")]
pub(super) fn probe_first(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
) -> u64 {
    probe_first_with(view, keys, choices, slots, |bucket, key| place(bucket, key))
}

#[target_feature(enable = "avx2,aes,bmi1")]
pub(super) fn probe_second(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
    missed: u64,
) -> u64 {
    probe_second_with(view, keys, choices, slots, missed, |bucket, key| place(bucket, key))
}

#[target_feature(enable = "avx2,aes,bmi1")]
pub(super) fn probe_one(view: View<'_>, key: ShortKey, choices: Choices) -> Option<u32> {
    probe_one_with(view, key, choices, |bucket, key| place(bucket, key))
}
