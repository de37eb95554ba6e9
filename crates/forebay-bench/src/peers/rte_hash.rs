//! DPDK's hash table, where `librte_hash` is installed.
//!
//! Keys have 16 or 48 bytes, which the library compares with SSE. Its own CRC-32 is an inline
//! function of its headers, so that the same instructions are here. Tables have no locks, as each is used
//! by one thread.
#![allow(unsafe_code, reason = "calls DPDK")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::dpdk::{functions, heap_bytes};
use crate::failure::Result;

/// `RTE_HASH_LOOKUP_BULK_MAX` of `<rte_hash.h>`.
pub const MOST_KEYS: usize = 64;

/// A key of so many words, an even number.
pub type Key<const WORDS: usize = 4> = [u32; WORDS];

// SAFETY: a type, `rte_hash_function` of `rte_hash.h`.
type Hash = unsafe extern "C" fn(key: *const c_void, bytes: u32, initial: u32) -> u32;

/// `struct rte_hash_parameters`.
#[repr(C)]
struct Parameters {
    name: *const c_char,
    entries: u32,
    reserved: u32,
    key_bytes: u32,
    hash: Hash,
    initial: u32,
    socket: c_int,
    flags: u8,
}

const _: () = assert!(size_of::<Parameters>() == 48);

// The types are those of `rte_hash.h`.
functions! { Dpdk of "hash" {
    create(*const Parameters) -> *mut c_void = c"rte_hash_create",
    free(*mut c_void) = c"rte_hash_free",
    add(*const c_void, *const c_void) -> i32 = c"rte_hash_add_key",
    delete(*const c_void, *const c_void) -> i32 = c"rte_hash_del_key",
    lookup(*const c_void, *const c_void) -> i32 = c"rte_hash_lookup",
    lookup_bulk(*const c_void, *const *const c_void, u32, *mut i32) -> c_int
        = c"rte_hash_lookup_bulk",
    key(*const c_void, i32, *mut *const c_void) -> c_int = c"rte_hash_get_key_with_position",
} }

/// CRC-32C of a [`Key`] of so many words, as `rte_hash_crc`.
///
/// # Safety
/// The processor must have SSE 4.2, and `key` be that of such a [`Key`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
unsafe extern "C" fn crc<const WORDS: usize>(key: *const c_void, _bytes: u32, initial: u32) -> u32 {
    // SAFETY: as the caller promises.
    let key = unsafe { key.cast::<Key<WORDS>>().read_unaligned() };
    let (pairs, _) = key.as_chunks::<2>();
    let words = pairs.iter().map(|&[low, high]| u64::from(low) | u64::from(high) << 32);
    let step = |crc, word| std::arch::x86_64::_mm_crc32_u64(crc, word);
    words.fold(initial.into(), step) as u32
}

/// A table of keys of so many words.
#[derive(Debug)]
pub struct RteHash<const WORDS: usize = 4> {
    dpdk: &'static Dpdk,
    table: *mut c_void,
    pub bytes: usize,
}

impl<const WORDS: usize> RteHash<WORDS> {
    /// A table with room for so many keys.
    pub fn new(entries: usize) -> Result<Self> {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        const { assert!(WORDS.is_multiple_of(2)) };
        #[cfg(not(target_arch = "x86_64"))]
        return Err("only its hash of x86-64 is here".into());
        #[cfg(target_arch = "x86_64")]
        {
            if !is_x86_feature_detected!("sse4.2") {
                return Err("this machine has no SSE 4.2".into());
            }
            let dpdk = Dpdk::get()?;
            let name = format!("forebay-{}", TABLES.fetch_add(1, Ordering::Relaxed));
            let name = CString::new(name)?;
            let parameters = Parameters {
                name: name.as_ptr(),
                entries: entries as u32,
                reserved: 0,
                key_bytes: size_of::<Key<WORDS>>() as u32,
                hash: crc::<WORDS>,
                initial: 0,
                socket: -1,
                flags: 0,
            };
            let before = heap_bytes()?;
            // SAFETY: the parameters are those of `rte_hash.h`; the name is copied.
            let table = unsafe { (dpdk.create)(&raw const parameters) };
            if table.is_null() {
                return Err("rte_hash makes no table".into());
            }
            let mut made = Self { dpdk, table, bytes: 0 };
            made.bytes = heap_bytes()?.saturating_sub(before);
            Ok(made)
        }
    }

    /// Adds a key if it is not in the table. Returns its position.
    pub fn add(&mut self, key: &Key<WORDS>) -> Result<usize> {
        // SAFETY: the table is alive, and its keys have this length.
        let position = unsafe { (self.dpdk.add)(self.table, ptr::from_ref(key).cast()) };
        usize::try_from(position).map_err(|_| "rte_hash is full".into())
    }

    /// Removes the key at a position, if one is there.
    pub fn remove(&mut self, position: usize) {
        let mut key = ptr::null();
        // SAFETY: the table is alive; the key stays where it is while it is removed.
        unsafe {
            if (self.dpdk.key)(self.table, position as i32, &raw mut key) == 0 {
                (self.dpdk.delete)(self.table, key);
            }
        }
    }

    /// The position of a key; negative if it is not in the table.
    pub fn lookup(&self, key: &Key<WORDS>) -> i32 {
        // SAFETY: the table is alive, and its keys have this length.
        unsafe { (self.dpdk.lookup)(self.table, ptr::from_ref(key).cast()) }
    }

    /// The positions of at most [`MOST_KEYS`] keys, as [`RteHash::lookup`].
    pub fn lookup_bulk(&self, keys: &Keys<WORDS>, range: Range<usize>, positions: &mut [i32]) {
        let keys = &keys.pointers[range];
        assert!(keys.len() <= MOST_KEYS && keys.len() == positions.len(), "a position for each");
        let count = keys.len() as u32;
        // SAFETY: the table is alive, the pointers are to keys that live as long as they, and
        // there is a position for each.
        unsafe {
            (self.dpdk.lookup_bulk)(
                self.table,
                keys.as_ptr().cast(),
                count,
                positions.as_mut_ptr(),
            );
        }
    }
}

impl<const WORDS: usize> Drop for RteHash<WORDS> {
    fn drop(&mut self) {
        // SAFETY: `new` made it, and nothing else frees it.
        unsafe { (self.dpdk.free)(self.table) };
    }
}

/// Keys with the pointers that a call for many takes.
#[derive(Debug, Default)]
pub struct Keys<const WORDS: usize = 4> {
    keys: Vec<Key<WORDS>>,
    pointers: Vec<*const Key<WORDS>>,
}

impl<const WORDS: usize> Keys<WORDS> {
    pub fn new(keys: Vec<Key<WORDS>>) -> Self {
        let pointers = keys.iter().map(ptr::from_ref).collect();
        Self { keys, pointers }
    }

    /// Reads keys and pointers, so that they are in the cache.
    pub fn touch(&self, range: Range<usize>) {
        self.keys[range.clone()].iter().for_each(|key| _ = black_box(*key));
        self.pointers[range].iter().for_each(|pointer| _ = black_box(*pointer));
    }
}

impl<const WORDS: usize> std::ops::Deref for Keys<WORDS> {
    type Target = [Key<WORDS>];

    fn deref(&self) -> &[Key<WORDS>] {
        &self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_one_by_one_and_in_bulk_until_they_are_removed() {
        add_and_remove::<4>();
        add_and_remove::<12>();
    }

    fn add_and_remove<const WORDS: usize>() {
        let mut table = match RteHash::<WORDS>::new(1_000) {
            Ok(table) => table,
            Err(why) => return eprintln!("skipped: {}", why.0),
        };
        assert!(table.bytes > 0);
        let key = |n| std::array::from_fn(|word| n * (word as u32 + 1));
        let keys = Keys::new((0..64).map(key).collect());
        let added: Vec<usize> = keys[..60].iter().map(|key| table.add(key).unwrap()).collect();
        assert_eq!(table.add(&keys[9]).unwrap(), added[9]);
        let mut positions = [0; 64];
        table.lookup_bulk(&keys, 0..64, &mut positions);
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(positions[n], table.lookup(key));
            assert_eq!(usize::try_from(positions[n]).ok(), added.get(n).copied());
        }
        table.remove(added[5]);
        assert!(table.lookup(&keys[5]) < 0 && table.lookup(&keys[6]) >= 0);
    }
}
