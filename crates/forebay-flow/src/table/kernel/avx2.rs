//! Two vectors for a bucket; a block of AES for a key.

use std::arch::x86_64::*;

use super::{
    Choices, PLACES, View, choose_with, probe_first_with, probe_one_with, probe_second_with,
};
use crate::key::{KEY_MASK, ShortKey};
use crate::table::bucket::Bucket;

/// The bits of a key in two entries.
const MASK: [u128; 2] = [KEY_MASK; 2];

/// Moves the low half of each word of a block to the block's low word.
const LOW_HALVES: i32 = 0b10_00;

/// Moves the high halves of the words of a block to its low word, and those of another one's to its
/// high word.
const HIGH_HALVES: i32 = 0b11_01_11_01;

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

/// A function that gives the buckets of four keys.
#[target_feature(enable = "avx2,aes,bmi1")]
#[inline]
fn numbers(view: View<'_>) -> impl Fn(&[ShortKey; 4]) -> [Choices; 4] {
    let [first, rest @ ..] = view.secret.round_keys.each_ref().map(|key| block(key));
    let count = _mm256_set1_epi64x(view.buckets.len() as i64);
    move |keys| {
        let mut states = keys.each_ref().map(|key| _mm_xor_si128(block(&key.0), first));
        for round_key in rest {
            states = states.map(|state| _mm_aesenc_si128(state, round_key));
        }
        // Of each word the low half.
        let products = |low, high| _mm256_mul_epu32(_mm256_set_m128i(high, low), count);
        let [even, odd] = [products(states[0], states[2]), products(states[1], states[3])];
        let [even, odd] = [even, odd].map(|words| _mm256_castsi256_ps(words));
        let numbers = _mm256_castps_si256(_mm256_shuffle_ps::<HIGH_HALVES>(even, odd));
        let mut choices = [[0; 2]; 4];
        // SAFETY: 32 bytes are written, to a value of that size.
        unsafe { _mm256_storeu_si256(choices.as_mut_ptr().cast(), numbers) };
        choices
    }
}

/// The buckets of four keys.
#[target_feature(enable = "avx2,aes,bmi1")]
pub(super) fn choices_of(view: View<'_>, keys: &[ShortKey; 4]) -> [Choices; 4] {
    numbers(view)(keys)
}

/// Four keys at a time: on Skylake to Cascade Lake a round takes four cycles, and one can begin in
/// each.
#[target_feature(enable = "avx2,aes,bmi1")]
pub(super) fn choose(view: View<'_>, keys: &[ShortKey], choices: &mut [Choices]) {
    choose_with(view, keys, choices, numbers(view));
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

#[target_feature(enable = "avx2,aes,bmi1,bmi2")]
pub(super) fn call<R>(function: impl FnOnce() -> R) -> R {
    function()
}
