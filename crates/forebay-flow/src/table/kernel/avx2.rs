//! Two vectors for a bucket; a block of AES for a key.

use std::arch::x86_64::*;

use super::{
    Choices, STRETCH, View, bits, choose_with, places_of_bucket, places_of_half, probe_one_with,
    probe_second_with,
};
use crate::key::{KEY_MASK, ShortKey};
use crate::table::bucket::{Bucket, SLOTS};

/// The bits of a key in two entries.
const MASK: [u128; 2] = [KEY_MASK; 2];

/// Moves the low halves of the words of a block to its low word, and those of another one's to its
/// high word.
const LOW_HALVES_OF_TWO: i32 = 0b10_00_10_00;

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

/// The places by the words of each half of [`equal_words`].
const HALVES: [[u8; 16]; 2] = [places_of_half([0, 2]), places_of_half([1, 3])];
static PLACES: [u8; 256] = places_of_bucket(HALVES);

/// The words of a bucket that are equal to those of a key, a bit for each: the entries lie in the
/// order 0, 2, 1, 3, in which the halves of two vectors become one vector. No key has a bit beyond
/// [`KEY_MASK`].
#[target_feature(enable = "avx2,aes")]
#[inline]
fn equal_words(bucket: &Bucket, key: u128) -> u8 {
    // SAFETY: 32 bytes are read, from a value of that size.
    let mask = unsafe { _mm256_loadu_si256(MASK.as_ptr().cast()) };
    let key = _mm256_broadcastsi128_si256(block(&key));
    let equal = |half: usize| {
        // SAFETY: 32 bytes are read: half of the bucket, which is aligned.
        let entries = unsafe { _mm256_load_si256(bucket.0.as_ptr().add(2 * half).cast()) };
        _mm256_castsi256_ps(_mm256_cmpeq_epi64(_mm256_and_si256(entries, mask), key))
    };
    _mm256_movemask_ps(_mm256_shuffle_ps::<LOW_HALVES_OF_TWO>(equal(0), equal(1))) as u8
}

/// Where in a bucket a key is.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn place(bucket: &Bucket, key: u128) -> u8 {
    PLACES[usize::from(equal_words(bucket, key))]
}

/// First all buckets are compared, and what is equal of each is kept as a byte; from these follow
/// all places at once, and which keys are not there.
#[target_feature(enable = "avx2,aes,bmi1,bmi2")]
pub(super) fn probe_first(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
) -> u64 {
    let count = keys.len();
    assert!(count <= STRETCH && count == choices.len() && count == slots.len());
    let mut words = [0; STRETCH];
    let pairs = words.as_chunks_mut().0.iter_mut().zip(keys.as_chunks().0);
    for (([first, second], keys), choices) in pairs.zip(choices.as_chunks().0) {
        let [one, other]: &[ShortKey; 2] = keys;
        let [[to_one, _], [to_other, _]]: &[Choices; 2] = choices;
        *first = equal_words(&view.buckets[*to_one as usize], one.0);
        *second = equal_words(&view.buckets[*to_other as usize], other.0);
    }
    if let (1, [.., key], [.., [bucket, _]]) = (count % 2, keys, choices) {
        words[count - 1] = equal_words(&view.buckets[*bucket as usize], key.0);
    }
    let (places, absent) = places_by(&words);
    write_slots(choices, &places, slots);
    let missed = absent & u64::MAX.checked_shr((STRETCH - count) as u32).unwrap_or(0);
    for i in bits(missed) {
        view.prefetch(choices[i][1]);
    }
    missed
}

/// By the equal words of each bucket the places, and a bit for each key that has none.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn places_by(words: &[u8; STRETCH]) -> ([u8; STRETCH], u64) {
    let tables = HALVES.map(|of| _mm256_broadcastsi128_si256(block(&u128::from_le_bytes(of))));
    let (mut places, mut absent) = ([0; STRETCH], 0);
    for first in (0..STRETCH).step_by(size_of::<__m256i>()) {
        // SAFETY: 32 bytes are read, of which `words` has two times as many.
        let words = unsafe { _mm256_loadu_si256(words.as_ptr().add(first).cast()) };
        // A shift of words of two bytes, whose stray bits are not of interest.
        let halves = [words, _mm256_srli_epi16::<4>(words)];
        let halves = halves.map(|half| _mm256_and_si256(half, _mm256_set1_epi8(0x0f)));
        let of_half = |half: usize| _mm256_shuffle_epi8(tables[half], halves[half]);
        let found = _mm256_min_epu8(of_half(0), of_half(1));
        // SAFETY: 32 bytes are written, of which `places` has two times as many.
        unsafe { _mm256_storeu_si256(places.as_mut_ptr().add(first).cast(), found) };
        absent |= u64::from(_mm256_movemask_epi8(found).cast_unsigned()) << first;
    }
    (places, absent)
}

/// Writes the slots of keys with these places in their first buckets.
#[target_feature(enable = "avx2")]
#[inline]
fn write_slots(choices: &[Choices], places: &[u8; STRETCH], slots: &mut [u32]) {
    const LANES: usize = 8;
    let (eights, last) = choices.as_chunks::<LANES>();
    let (to_eights, to_last) = slots.as_chunks_mut::<LANES>();
    let (places, _) = places.as_chunks::<LANES>();
    for ((choices, slots), places) in eights.iter().zip(to_eights).zip(places) {
        // SAFETY: 32 bytes are read, of which `choices` has two times as many.
        let four = |at: usize| unsafe { _mm256_loadu_ps(choices.as_ptr().add(at).cast()) };
        let first = _mm256_shuffle_ps::<LOW_HALVES_OF_TWO>(four(0), four(4));
        let buckets = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(first));
        let places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*places)));
        let numbers = _mm256_slli_epi32::<{ SLOTS.ilog2().cast_signed() }>(buckets);
        let numbers = _mm256_add_epi32(numbers, places);
        // SAFETY: 32 bytes are written, to a value of that size.
        unsafe { _mm256_storeu_si256(slots.as_mut_ptr().cast(), numbers) };
    }
    let places = places.get(eights.len()).into_iter().flatten();
    for ((slot, [bucket, _]), place) in to_last.iter_mut().zip(last).zip(places) {
        *slot = bucket * SLOTS as u32 + u32::from(*place);
    }
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
