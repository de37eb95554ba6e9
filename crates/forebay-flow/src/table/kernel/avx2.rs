//! Two vectors for a bucket; a block of AES for a key.

use std::arch::x86_64::*;

use super::{Choices, PLACES, View, prefetch, probe_one_with, probe_with};
use crate::key::{KEY_MASK, ShortKey};
use crate::table::bucket::Bucket;

/// The bits of a key in two entries.
const MASK: [u128; 2] = [KEY_MASK; 2];

/// Moves the low half of each word of a block to the block's low word.
const LOW_HALVES: i32 = 0b10_00;

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
    for (key, choices) in keys.iter().zip(choices) {
        *choices = view.of_hash(hash(&view.secret.round_keys, key.0));
        prefetch(&view.buckets[choices[0] as usize]);
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
pub(super) fn probe(view: View<'_>, keys: &[ShortKey], choices: &[Choices], slots: &mut [u32]) {
    probe_with(view, keys, choices, slots, |bucket, key| place(bucket, key));
}

#[target_feature(enable = "avx2,aes,bmi1")]
pub(super) fn probe_one(view: View<'_>, key: ShortKey, choices: Choices) -> Option<u32> {
    probe_one_with(view, key, choices, |bucket, key| place(bucket, key))
}
