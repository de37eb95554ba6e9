//! Look-ups of many keys at once.
//!
//! All keys are hashed and their first buckets prefetched; then the first buckets are
//! compared, and the second ones only of keys that were not found. A bucket is one cache
//! line, compared with a key as a whole.
//!
//! Measured by `forebay-bench flows`.
#![allow(unsafe_code, reason = "vector instructions, chosen at run time")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::bucket::{Bucket, SLOTS};
use crate::hash::Secret;
use crate::key::{KEY_MASK, ShortKey};
use crate::level::Level;

/// Keys that are looked up at a time.
pub(crate) const STRETCH: usize = 64;

/// The slot of a key that is not in the table.
pub(crate) const NONE: u32 = u32::MAX;

/// A table as look-ups see it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// A power of two of them.
    pub(crate) buckets: &'a [Bucket],
    pub(crate) secret: &'a Secret,
}

impl View<'_> {
    /// The two buckets of a hash, which may be one.
    #[inline(always)]
    pub(crate) fn choices(&self, hash: u64) -> [usize; 2] {
        let mask = self.buckets.len() - 1;
        [hash as u32 as usize & mask, (hash >> 32) as usize & mask]
    }
}

/// The hash of a key.
#[inline]
pub(crate) fn hash(secret: &Secret, key: u128) -> u64 {
    match secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx2::hash(&secret.round_keys, key) }
        }
        _ => secret.siphash(key),
    }
}

/// Writes the slot of each key, or [`NONE`]. There are as many slots as keys, at most
/// [`STRETCH`].
pub(crate) fn find(view: View<'_>, keys: &[ShortKey], slots: &mut [u32]) {
    match view.secret.level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: a secret has no level that this machine has not.
            unsafe { avx512::find(view, keys, slots) }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            // SAFETY: likewise.
            unsafe { avx2::find(view, keys, slots) }
        }
        _ => {
            let hashes = |keys: &[ShortKey], hashes: &mut [u64]| {
                for (key, hash) in keys.iter().zip(hashes) {
                    *hash = view.secret.siphash(key.0);
                }
            };
            find_with(view, keys, slots, hashes, matches);
        }
    }
}

/// Bit 2·n for the entry `n` of a bucket that has this key, if one has.
fn matches(bucket: &Bucket, key: u128) -> u32 {
    let equal = |n: usize| u32::from((bucket.0[n] ^ key) & KEY_MASK == 0) << (2 * n);
    (0..SLOTS).map(equal).sum()
}

/// As [`find`], with functions for a machine: `hashes` writes the hash of each key, `matches`
/// is as [`matches()`].
#[inline(always)]
fn find_with(
    view: View<'_>,
    keys: &[ShortKey],
    slots: &mut [u32],
    hashes: impl Fn(&[ShortKey], &mut [u64]),
    matches: impl Fn(&Bucket, u128) -> u32,
) {
    assert!(keys.len() <= STRETCH && keys.len() == slots.len(), "a slot for each key");
    let mut found = [0_u64; STRETCH];
    let found = &mut found[..keys.len()];
    hashes(keys, found);
    for &hash in &*found {
        prefetch(&view.buckets[view.choices(hash)[0]]);
    }
    let mut missed = [0_u8; STRETCH];
    let mut misses = 0;
    for (i, (key, hash)) in keys.iter().zip(&*found).enumerate() {
        let at = view.choices(*hash)[0];
        let equal = matches(&view.buckets[at], key.0);
        slots[i] = (at * SLOTS) as u32 + equal.trailing_zeros() / 2;
        // Without a branch, which would be taken at random.
        missed[misses & (STRETCH - 1)] = i as u8;
        misses += usize::from(equal == 0);
    }
    let missed = &missed[..misses];
    for &i in missed {
        prefetch(&view.buckets[view.choices(found[usize::from(i)])[1]]);
    }
    for &i in missed {
        let i = usize::from(i);
        let at = view.choices(found[i])[1];
        let equal = matches(&view.buckets[at], keys[i].0);
        let slot = (at * SLOTS) as u32 + equal.trailing_zeros() / 2;
        slots[i] = if equal == 0 { NONE } else { slot };
    }
}

/// Fetches a bucket into the cache ahead of its use.
#[inline(always)]
pub(crate) fn prefetch(bucket: &Bucket) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(bucket).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bucket;
}
