//! One vector for a bucket; with VAES, four keys in a vector of AES.

use std::arch::x86_64::*;

use super::{
    Choices, NONE, STRETCH, Swept, View, bits, choose_with, places_of_bucket, places_of_half,
    probe_one_with,
};
use crate::key::{KEY_MASK, PRESENT, ShortKey};
use crate::table::bucket::{AGE_AT, AGES, Bucket, Clock, SLOTS};

/// The bits of a key in four entries.
const MASK: [u128; 4] = [KEY_MASK; 4];

#[target_feature(enable = "avx512f")]
fn block(bits: &u128) -> __m512i {
    // SAFETY: 16 bytes are read, from a value of that size.
    let block = unsafe { _mm_loadu_si128(std::ptr::from_ref(bits).cast()) };
    _mm512_broadcast_i32x4(block)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes,bmi1")]
pub(super) fn choose(view: View<'_>, keys: &[ShortKey], choices: &mut [Choices]) {
    let [first, rest @ ..] = view.secret.round_keys.each_ref().map(|key| block(key));
    let count = _mm512_set1_epi64(view.buckets.len() as i64);
    choose_with(view, keys, choices, |keys| {
        // SAFETY: 64 bytes are read, from a value of that size: keys are 16 bytes each.
        let keys = unsafe { _mm512_loadu_si512(keys.as_ptr().cast()) };
        let mut state = _mm512_xor_si512(keys, first);
        for round_key in rest {
            state = _mm512_aesenc_epi128(state, round_key);
        }
        // Of each word the low half.
        let products = _mm512_mul_epu32(state, count);
        let numbers = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(products));
        let mut choices = [[0; 2]; 4];
        // SAFETY: 32 bytes are written, to a value of that size.
        unsafe { _mm256_storeu_si256(choices.as_mut_ptr().cast(), numbers) };
        choices
    });
}

/// The places by the words of each half of a bucket that are equal to those of a key.
const HALVES: [[u8; 16]; 2] = [places_of_half([0, 1]), places_of_half([2, 3])];
static PLACES: [u8; 256] = places_of_bucket(HALVES);

/// Where in a bucket a key is.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn place(bucket: &Bucket, key: u128) -> u8 {
    PLACES[usize::from(equal_words(bucket, key))]
}

/// The words of a bucket that are equal to those of a key, a bit for each.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn equal_words(bucket: &Bucket, key: u128) -> u8 {
    // SAFETY: 64 bytes are read, from a value of that size.
    let mask = unsafe { _mm512_loadu_si512(MASK.as_ptr().cast()) };
    // SAFETY: 64 bytes are read: the bucket, which is aligned.
    let entries = unsafe { _mm512_load_si512(bucket.0.as_ptr().cast()) };
    _mm512_testn_epi64_mask(_mm512_xor_si512(entries, block(&key)), mask)
}

/// First all buckets are compared, and what is equal of each is kept as a byte; from these follow
/// all places at once, and which keys are not there.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
pub(super) fn probe_first(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
) -> u64 {
    let count = keys.len();
    assert!(count <= STRETCH && count == choices.len() && count == slots.len());
    let mut words = [0; STRETCH];
    for ((words, key), [bucket, _]) in words.iter_mut().zip(keys).zip(choices) {
        *words = equal_words(&view.buckets[*bucket as usize], key.0);
    }
    let all = u64::MAX.checked_shr((STRETCH - count) as u32).unwrap_or(0);
    let (places, present) = places_by(&words);
    // SAFETY: there are as many choices and slots as keys, which was asserted.
    unsafe { write_slots::<0>(choices, all, places, present, slots) };
    let missed = all & !present;
    for i in bits(missed) {
        view.prefetch(choices[i][1]);
    }
    missed
}

/// As [`probe_first`]; keys that it did not find have the slot [`NONE`] already.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
pub(super) fn probe_second(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
    missed: u64,
) -> u64 {
    let count = keys.len();
    assert!(count <= STRETCH && count == choices.len() && count == slots.len());
    let mut words = [0; STRETCH];
    for i in bits(missed) {
        words[i] = equal_words(&view.buckets[choices[i][1] as usize], keys[i].0);
    }
    let (places, present) = places_by(&words);
    // SAFETY: there are as many choices and slots as keys, which was asserted; those whose bits
    // are set are among them, as `keys` was indexed by each.
    unsafe { write_slots::<32>(choices, present, places, present, slots) };
    missed & !present
}

/// By the equal words of each bucket the places, and a bit for each key that has one.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn places_by(words: &[u8; STRETCH]) -> (__m512i, u64) {
    // SAFETY: 64 bytes are read, from a value of that size.
    let words = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    // A shift of words of two bytes, whose stray bits are not of interest.
    let halves = [words, _mm512_srli_epi16::<4>(words)];
    let halves = halves.map(|half| _mm512_and_si512(half, _mm512_set1_epi8(0x0f)));
    let tables = HALVES.map(|places| block(&u128::from_le_bytes(places)));
    let of_half = |half: usize| _mm512_shuffle_epi8(tables[half], halves[half]);
    let places = _mm512_min_epu8(of_half(0), of_half(1));
    (places, !_mm512_movepi8_mask(places))
}

/// Writes the slots of the keys whose bits are in `which`: those with these places in their
/// buckets, and [`NONE`] for keys that are not `present`. A bucket is the first one after a shift
/// of the choices by 0, and the second by 32. Eight are written at a time: a loop over single ones
/// would be compiled to one of 32 at a time and up to 32 by themselves at the end.
///
/// # Safety
/// There are as many choices as slots, and at least as many as the number of the highest bit in `which`
/// and one.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
unsafe fn write_slots<const SHIFT: u32>(
    choices: &[Choices],
    which: u64,
    places: __m512i,
    present: u64,
    slots: &mut [u32],
) {
    const LANES: usize = 8;
    let mut places_of = [0_u8; STRETCH];
    // SAFETY: 64 bytes are written, to a value of that size.
    unsafe { _mm512_storeu_si512(places_of.as_mut_ptr().cast(), places) };
    let (places, _) = places_of.as_chunks::<LANES>();
    for (first, places) in (0..slots.len()).step_by(LANES).zip(places) {
        let [lanes, present] = [which, present].map(|bits| (bits >> first) as u8);
        // SAFETY: the lanes of the mask are of choices that there are, of eight bytes.
        let words = unsafe { _mm512_maskz_loadu_epi64(lanes, choices.as_ptr().add(first).cast()) };
        let buckets = _mm512_cvtepi64_epi32(_mm512_srli_epi64::<SHIFT>(words));
        let places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*places)));
        let numbers = _mm256_slli_epi32::<{ SLOTS.ilog2().cast_signed() }>(buckets);
        let none = _mm256_set1_epi32(NONE.cast_signed());
        let numbers = _mm256_mask_add_epi32(none, present, numbers, places);
        // SAFETY: the lanes of the mask are of slots that there are.
        unsafe { _mm256_mask_storeu_epi32(slots.as_mut_ptr().add(first).cast(), lanes, numbers) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1")]
pub(super) fn probe_one(view: View<'_>, key: ShortKey, choices: Choices) -> Option<u32> {
    probe_one_with(view, key, choices, |bucket, key| place(bucket, key))
}

/// The high words of a bucket's entries, and of those of four buckets.
const HIGH_WORDS: __mmask8 = 0b1010_1010;
const HIGH_WORDS_OF_FOUR: u32 = 0xaaaa_aaaa;

#[target_feature(enable = "avx512f,bmi2")]
#[inline]
pub(super) fn free_of<const COUNT: usize>(view: View<'_>, buckets: [u32; COUNT]) -> u32 {
    let present = _mm512_set1_epi64(1 << (PRESENT - 64));
    places_of(view, buckets, |entries| _mm512_testn_epi64_mask(entries, present))
}

#[target_feature(enable = "avx512f,bmi2")]
pub(super) fn idle_of(view: View<'_>, clock: Clock, buckets: Choices) -> u32 {
    places_of(view, buckets, idle(clock))
}

/// The entries of buckets whose high words are so, a bit for each, the first bucket's lowest.
#[target_feature(enable = "avx512f,bmi2")]
#[inline]
fn places_of<const COUNT: usize>(
    view: View<'_>,
    buckets: [u32; COUNT],
    words: impl Fn(__m512i) -> __mmask8,
) -> u32 {
    let words = buckets.map(|bucket| {
        let bucket = &view.buckets[bucket as usize];
        // SAFETY: 64 bytes are read: the bucket, which is aligned.
        words(unsafe { _mm512_load_si512(bucket.0.as_ptr().cast()) })
    });
    let words = words.iter().rev().fold(0, |words, of_one| words << 8 | u32::from(*of_one));
    _pext_u32(words, HIGH_WORDS_OF_FOUR)
}

/// A function that gives the high words of the entries of idle flows.
#[target_feature(enable = "avx512f")]
#[inline]
fn idle(clock: Clock) -> impl Fn(__m512i) -> __mmask8 {
    // None of low words, whose lifetime is longer than any age.
    let lifetime =
        _mm512_mask_set1_epi64(_mm512_set1_epi64(i64::MAX), HIGH_WORDS, clock.lifetime.into());
    let now = _mm512_set1_epi64(clock.epoch as i64);
    let ages = _mm512_set1_epi64(AGES as i64 - 1);
    let present = _mm512_set1_epi64(1 << (PRESENT - 64));
    move |entries| {
        let epochs = _mm512_srli_epi64::<{ AGE_AT - 64 }>(entries);
        let age = _mm512_and_si512(_mm512_sub_epi64(now, epochs), ages);
        let present = _mm512_test_epi64_mask(entries, present);
        _mm512_mask_cmpge_epi64_mask(present, age, lifetime)
    }
}

#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn take_idle(clock: Clock, buckets: &mut [Bucket], idle: &mut Swept) -> usize {
    let is_idle = self::idle(clock);
    let mut count = 0;
    for (bucket, slots) in buckets.iter_mut().zip(&mut idle.slots) {
        // SAFETY: 64 bytes are read: the bucket, which is aligned.
        let entries = unsafe { _mm512_load_si512(bucket.0.as_ptr().cast()) };
        let old = is_idle(entries);
        let words = old | old >> 1;
        *slots = old;
        // SAFETY: 64 bytes are written, to the room of another bucket: of each bucket before, of
        // which `slots` has fewer than `SWEPT_TOGETHER`, at most `SLOTS` entries were taken.
        unsafe {
            let taken = _mm512_maskz_compress_epi64(words, entries);
            _mm512_storeu_si512(idle.entries.as_mut_ptr().add(count).cast(), taken);
        }
        // SAFETY: words of the bucket are written, which is aligned.
        unsafe {
            let free = _mm512_setzero_si512();
            _mm512_mask_store_epi64(bucket.0.as_mut_ptr().cast(), words, free);
        }
        count += old.count_ones() as usize;
    }
    count
}
