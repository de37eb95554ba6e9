//! Look-ups of many keys at once.
//!
//! First all keys are hashed, each to its two buckets, and the first of each is prefetched.
//! Then the first buckets are compared with their keys; where the key is not there, the second
//! bucket is prefetched, at once or with AVX-512 when all first ones of a stretch are compared, and
//! these are compared in the end. A bucket is one cache
//! line, compared with a key as a whole.
//!
//! A bucket's number is the product of 32 bits of the hash and the number of buckets, divided
//! by 2^32 (Lemire, "Fast random integer generation in an interval", 2019), so that a table
//! need not have a power of two of them.
//!
//! Measured by `forebay-bench flows`.
#![allow(unsafe_code, reason = "vector instructions, chosen at run time")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod flows;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use super::bucket::{Bucket, Clock, SLOTS};
use crate::hash::Secret;
use crate::key::{KEY_MASK, ShortKey};
use crate::level::Level;

pub(crate) use flows::{digest_flows, hash_flow, hash_flows};

/// Keys that are looked up at a time.
pub(crate) const STRETCH: usize = 64;

/// The slot of a key that is not in the table.
pub(crate) const NONE: u32 = u32::MAX;

/// The numbers of a key's two buckets, which may be one.
pub(crate) type Choices = [u32; 2];

/// The place of a key that is not in a bucket: above all others, as a signed number below 0.
const ABSENT: u8 = u8::MAX;
const ABSENT_AT: u32 = 7;

/// A table as look-ups see it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Fewer than 2^32 of them.
    pub(crate) buckets: &'a [Bucket],
    pub(crate) secret: &'a Secret,
}

impl View<'_> {
    /// The two buckets of a hash.
    #[inline(always)]
    fn of_hash(&self, hash: u64) -> Choices {
        let count = self.buckets.len() as u64;
        [hash & u64::from(u32::MAX), hash >> 32].map(|half| ((half * count) >> 32) as u32)
    }

    /// Fetches a bucket into the cache. Its number is not checked, as nothing is read.
    #[inline(always)]
    fn prefetch(&self, bucket: u32) {
        prefetch_line(self.buckets.as_ptr().wrapping_add(bucket as usize).cast());
    }

    /// The two buckets of an entry's key.
    #[inline]
    pub(crate) fn choices(&self, key: u128) -> Choices {
        self.of_hash(match self.secret.level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => {
                // SAFETY: a secret has no level that this machine has not.
                unsafe { avx2::hash(&self.secret.round_keys, key) }
            }
            _ => self.secret.siphash(key),
        })
    }
}

/// Writes the two buckets of each key, and prefetches the first. There are as many choices as
/// keys, at most [`STRETCH`].
#[inline(never)]
pub(crate) fn choose(view: View<'_>, keys: &[ShortKey], choices: &mut [Choices]) {
    match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if view.secret.has_vaes => {
            // SAFETY: a secret has no level that this machine has not, and it has VAES.
            unsafe { avx512::choose(view, keys, choices) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not; the last one has all that
            // the one before has.
            unsafe { avx2::choose(view, keys, choices) }
        }
        _ => {
            for (key, choices) in keys.iter().zip(choices) {
                *choices = view.choices(key.0);
                view.prefetch(choices[0]);
            }
        }
    }
}

/// As [`choose`], with a function for a machine that gives the buckets of four keys.
///
/// Those of four are prefetched when those of the next four have been written: their numbers are
/// then read from memory, which takes half the instructions of taking them out of a vector.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn choose_with(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &mut [Choices],
    of_four: impl Fn(&[ShortKey; 4]) -> [Choices; 4],
) {
    let prefetch =
        |choices: &[Choices]| choices.iter().for_each(|[first, _]| view.prefetch(*first));
    let (fours, last) = keys.as_chunks();
    let (to_fours, to_last) = choices.as_chunks_mut();
    let mut before: &[Choices] = &[];
    for (keys, choices) in fours.iter().zip(to_fours) {
        *choices = of_four(keys);
        prefetch(before);
        before = choices;
    }
    prefetch(before);
    if !last.is_empty() {
        let mut padded = [last[0]; 4];
        padded[..last.len()].copy_from_slice(last);
        to_last.copy_from_slice(&of_four(&padded)[..last.len()]);
        prefetch(to_last);
    }
}

/// Writes the slot of each key that is in the first of its buckets. Returns a bit for each other
/// key, whose second bucket is prefetched. There are as many choices and slots as keys, at most
/// [`STRETCH`].
#[inline(never)]
pub(crate) fn probe_first(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
) -> u64 {
    match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx512::probe_first(view, keys, choices, slots) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            // SAFETY: likewise.
            unsafe { avx2::probe_first(view, keys, choices, slots) }
        }
        _ => probe_first_with(view, keys, choices, slots, place),
    }
}

/// As [`probe_first`], for the second buckets of the keys whose bits are in `missed`. The slot of
/// a key that is not there either is [`NONE`].
#[inline(never)]
pub(crate) fn probe_second(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
    missed: u64,
) -> u64 {
    match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx512::probe_second(view, keys, choices, slots, missed) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            // SAFETY: likewise.
            unsafe { avx2::probe_second(view, keys, choices, slots, missed) }
        }
        _ => probe_second_with(view, keys, choices, slots, missed, place),
    }
}

/// The free entries of at most four buckets, a bit for each, the first bucket's lowest.
#[inline]
pub(crate) fn free_of<const COUNT: usize>(view: View<'_>, buckets: [u32; COUNT]) -> u32 {
    const { assert!(COUNT <= 4) };
    match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx512::free_of(view, buckets) }
        }
        _ => places_of(view, buckets, Bucket::free),
    }
}

/// The entries of idle flows in two buckets, likewise.
#[inline]
pub(crate) fn idle_of(view: View<'_>, clock: Clock, buckets: Choices) -> u32 {
    match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx512::idle_of(view, clock, buckets) }
        }
        _ => places_of(view, buckets, |bucket| clock.idle(bucket)),
    }
}

/// The entries of buckets that are so, a bit for each, the first bucket's lowest.
fn places_of<const COUNT: usize>(
    view: View<'_>,
    buckets: [u32; COUNT],
    are_so: impl Fn(&Bucket) -> u32,
) -> u32 {
    let of_each = buckets.iter().map(|bucket| are_so(&view.buckets[*bucket as usize]));
    of_each.rev().fold(0, |places, these| places << SLOTS | these)
}

/// The other bucket of each entry of a bucket.
#[inline]
pub(crate) fn others(view: View<'_>, bucket: u32) -> [u32; SLOTS] {
    let keys = view.buckets[bucket as usize].0.map(|bits| ShortKey(bits & KEY_MASK));
    let choices = match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx2::choices_of(view, &keys) }
        }
        _ => keys.map(|key| view.choices(key.0)),
    };
    choices.map(|[first, second]| if first == bucket { second } else { first })
}

/// Calls a function that is compiled for the instructions of the level, too: those on single bits
/// are of worth to loops over [`bits`].
#[inline(always)]
pub(crate) fn compiled_for<R>(level: Level, function: impl FnOnce() -> R) -> R {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: the level is that of a secret, which has none that this machine has not.
            unsafe { avx2::call(function) }
        }
        _ => function(),
    }
}

/// Buckets that are swept together.
pub(crate) const SWEPT_TOGETHER: usize = 16;

/// What a sweep takes out of buckets.
#[derive(Debug)]
pub(crate) struct Swept {
    /// Entries, in order, with room for those of another bucket.
    pub(crate) entries: [u128; (SWEPT_TOGETHER + 1) * SLOTS],
    /// Of each bucket the slots that the entries had: two bits for each, of which the second is
    /// set.
    slots: [u8; SWEPT_TOGETHER],
}

impl Default for Swept {
    fn default() -> Self {
        Self { entries: [0; _], slots: [0; _] }
    }
}

impl Swept {
    /// The slots of the entries of so many buckets, in the same order, from that of the first
    /// bucket on.
    pub(crate) fn slots(&self, buckets: usize) -> impl Iterator<Item = usize> {
        let slots = self.slots[..buckets].iter().enumerate();
        slots.flat_map(|(at, words)| bits((*words).into()).map(move |word| at * SLOTS + word / 2))
    }
}

/// Takes the entries of idle flows out of at most [`SWEPT_TOGETHER`] buckets, and writes them to
/// `idle`. Returns how many they are; what is behind them there has no meaning.
#[inline(never)]
pub(crate) fn take_idle(
    level: Level,
    clock: Clock,
    buckets: &mut [Bucket],
    idle: &mut Swept,
) -> usize {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: the level is that of a secret, which has none that this machine has not.
            unsafe { avx512::take_idle(clock, buckets, idle) }
        }
        _ => {
            let mut count = 0;
            for (bucket, slots) in buckets.iter_mut().zip(&mut idle.slots) {
                let mask = clock.idle(bucket);
                *slots = 0;
                for (slot, entry) in bucket.0.iter_mut().enumerate() {
                    // Without branches, which would be taken at random.
                    let is_idle = mask >> slot & 1;
                    idle.entries[count] = *entry;
                    *entry &= u128::from(is_idle).wrapping_sub(1);
                    *slots |= (is_idle as u8) << (2 * slot + 1);
                    count += is_idle as usize;
                }
            }
            count
        }
    }
}

/// The slot of a key with these buckets.
pub(crate) fn probe_one(view: View<'_>, key: ShortKey, choices: Choices) -> Option<u32> {
    match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx512::probe_one(view, key, choices) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            // SAFETY: likewise.
            unsafe { avx2::probe_one(view, key, choices) }
        }
        _ => probe_one_with(view, key, choices, place),
    }
}

/// Writes the slot of each key, or [`NONE`], by scalar comparisons; `read` gets the number of each
/// bucket that is compared. There are as many slots as keys.
pub(crate) fn find_recorded(
    view: View<'_>,
    keys: &[ShortKey],
    slots: &mut [u32],
    read: impl FnMut(usize),
) {
    let (read, first) = (RefCell::new(read), std::ptr::from_ref(view.buckets).addr());
    let place = |bucket: &Bucket, key| {
        read.borrow_mut()((std::ptr::from_ref(bucket).addr() - first) / size_of::<Bucket>());
        place(bucket, key)
    };
    for (keys, slots) in keys.chunks(STRETCH).zip(slots.chunks_mut(STRETCH)) {
        let choices: Vec<Choices> = keys.iter().map(|key| view.choices(key.0)).collect();
        let missed = probe_first_with(view, keys, &choices, slots, place);
        probe_second_with(view, keys, &choices, slots, missed, place);
    }
}

/// Where in a bucket this key is, or [`ABSENT`].
fn place(bucket: &Bucket, key: u128) -> u8 {
    let place = bucket.0.iter().position(|bits| (bits ^ key) & KEY_MASK == 0);
    place.map_or(ABSENT, |place| place as u8)
}

/// The places by the words of half a bucket that are equal to those of a key, a bit for each: two
/// for either of these entries. Where both are equal, which have digests, the lower place.
#[cfg(target_arch = "x86_64")]
const fn places_of_half(entries: [u8; 2]) -> [u8; 16] {
    let mut places = [ABSENT; 16];
    let mut words = 0;
    while words < places.len() {
        if words >> 2 == 0b11 {
            places[words] = entries[1];
        }
        if words & 0b11 == 0b11 {
            places[words] = entries[0];
        }
        words += 1;
    }
    places
}

/// Likewise by the words of a bucket, the first half lowest.
#[cfg(target_arch = "x86_64")]
const fn places_of_bucket(halves: [[u8; 16]; 2]) -> [u8; 256] {
    let mut places = [ABSENT; 256];
    let mut words = 0;
    while words < places.len() {
        let [first, second] = [halves[0][words & 0xf], halves[1][words >> 4]];
        places[words] = if first < second { first } else { second };
        words += 1;
    }
    places
}

/// As [`probe_first`], with a function for a machine that is as [`place()`].
#[inline(always)]
fn probe_first_with(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
    place: impl Fn(&Bucket, u128) -> u8,
) -> u64 {
    let count = keys.len();
    assert!(count <= STRETCH && count == choices.len() && count == slots.len());
    let mut missed = 0;
    for i in 0..count {
        let bucket = choices[i][0];
        let place = place(&view.buckets[bucket as usize], keys[i].0);
        slots[i] = bucket * SLOTS as u32 + u32::from(place);
        // Without a branch, which would be taken at random. What was found is in the cache.
        let is_absent = place >> ABSENT_AT;
        view.prefetch(choices[i][usize::from(is_absent)]);
        missed |= u64::from(is_absent) << i;
    }
    missed
}

/// As [`probe_second`], likewise.
#[inline(always)]
fn probe_second_with(
    view: View<'_>,
    keys: &[ShortKey],
    choices: &[Choices],
    slots: &mut [u32],
    missed: u64,
    place: impl Fn(&Bucket, u128) -> u8,
) -> u64 {
    let mut absent = 0;
    for i in bits(missed) {
        let bucket = choices[i][1];
        let place = place(&view.buckets[bucket as usize], keys[i].0);
        let slot = bucket * SLOTS as u32 + u32::from(place);
        slots[i] = if place == ABSENT { NONE } else { slot };
        absent |= u64::from(place >> ABSENT_AT) << i;
    }
    absent
}

/// The bits that are set, lowest first.
#[inline(always)]
pub(crate) fn bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (bits != 0).then(|| {
            let at = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            at
        })
    })
}

/// As [`probe_one`], likewise.
#[inline(always)]
fn probe_one_with(
    view: View<'_>,
    key: ShortKey,
    choices: Choices,
    place: impl Fn(&Bucket, u128) -> u8,
) -> Option<u32> {
    choices.into_iter().find_map(|bucket| {
        let place = place(&view.buckets[bucket as usize], key.0);
        (place != ABSENT).then_some(bucket * SLOTS as u32 + u32::from(place))
    })
}

/// Fetches a value's first line into the cache ahead of its use.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    prefetch_line(std::ptr::from_ref(value).cast());
}

/// As [`prefetch`], the last line too, of a value of at most two.
#[inline(always)]
pub(crate) fn prefetch_both<T>(value: &T) {
    let first = std::ptr::from_ref(value).cast::<u8>();
    prefetch_line(first);
    prefetch_line(first.wrapping_add(size_of::<T>() - 1));
}

#[inline(always)]
fn prefetch_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
