//! A [`Region`] is one mapping that packets lie in: memory of our own, or a ring that a
//! device shares with us.
//!
//! Invariants: the mapping is readable for its whole life and at least [`TAIL_GUARD`]
//! bytes longer than [`Region::len`]. A load of up to [`TAIL_GUARD`] bytes that starts
//! at any byte of a packet therefore never leaves mapped memory. A region of our own is
//! private, writable, and owned by exactly one `Region`; fresh pages are zero, and a
//! reused region holds what it held before.
//!
//! Of a shared region only what a [`Lease`] holds keeps still; a device may write anywhere
//! else at any time. So it is never handed out whole, only packet by packet, to batches made
//! on a lease.
#![allow(unsafe_code, reason = "maps memory and hands out slices of it")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, io, slice};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes past the end of a region that may be read, though they mean nothing: two
/// loads of AVX-512. Code that reads no farther than that from a packet's start needs
/// no care at the region's end.
pub const TAIL_GUARD: usize = 128;

/// The mapping size from which huge pages are asked for: two of x86-64's.
const HUGE_FROM: usize = 4 << 20;

/// Memory that packets lie in.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    owner: Owner,
}

/// Keeps packets in a shared region where they are: when it is dropped, a device gets their
/// memory back and writes to it.
///
/// # Safety
/// As long as a lease lives, `region` gives the same region, and no code writes to bytes of
/// it that `holds` was true for.
pub unsafe trait Lease: fmt::Debug + Send + Sync {
    /// The region.
    fn region(&self) -> &Arc<Region>;

    /// Whether packet `i` of the batch on this lease may be the `len` bytes from `start`.
    fn holds(&self, i: usize, start: usize, len: usize) -> bool;
}

/// Who unmaps a region's memory.
enum Owner {
    /// The region itself, which mapped so many bytes.
    Region { mapped: usize },
    /// What is kept here, when it is dropped.
    Shared(#[allow(dead_code, reason = "kept to be dropped")] Box<dyn Send + Sync>),
}

// SAFETY: a Region owns its mapping alone or together with a device; `&Region` gives
// only shared reads and `&mut Region` the only writes of ours, so the usual borrow rules
// carry over to other threads. What keeps a shared mapping is `Send` and `Sync` itself.
unsafe impl Send for Region {}
// SAFETY: as above; there is no interior mutability.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` zeroed bytes plus the tail guard.
    ///
    /// # Errors
    /// The system's error when the mapping cannot be had.
    pub fn new(len: usize) -> io::Result<Self> {
        let mapped = len
            .checked_add(TAIL_GUARD)
            .and_then(|n| n.checked_next_multiple_of(4096))
            .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "region size overflows"))?;
        // SAFETY: a new private anonymous mapping at an address of the
        // kernel's choosing aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        if mapped >= HUGE_FROM {
            // SAFETY: the advice covers just the mapping made above. A refusal
            // changes speed only, so it is ignored.
            let _ = unsafe { madvise(base, mapped, Advice::LinuxHugepage) };
        }
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| io::Error::other("the system mapped memory at address zero"))?;
        Ok(Self { base, len, owner: Owner::Region { mapped } })
    }

    /// Memory that a device shares with us, unmapped when `owner` is dropped.
    ///
    /// # Safety
    /// From `base` on, `len` + [`TAIL_GUARD`] bytes are mapped and readable while `owner`
    /// lives.
    #[must_use]
    pub unsafe fn shared(base: NonNull<u8>, len: usize, owner: Box<dyn Send + Sync>) -> Self {
        Self { base, len, owner: Owner::Shared(owner) }
    }

    /// Whether a device may write to the region.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.owner, Owner::Shared(_))
    }

    /// Where the region starts.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.base.as_ptr()
    }

    /// The `len` bytes from `start` on: a packet of a batch over this region, which has
    /// looked that a lease holds them if the region is shared.
    ///
    /// # Panics
    /// When they are not all in the region.
    #[inline]
    pub(crate) fn packet(&self, start: usize, len: usize) -> &[u8] {
        let end = start.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "bytes outside of the region");
        // SAFETY: in the mapping, as checked, and initialised, as is all that was mapped.
        // Of a region of our own nothing is written while `self` is shared; of a shared
        // one what a lease holds is not, which its maker promised.
        unsafe { slice::from_raw_parts(self.base.as_ptr().add(start), len) }
    }

    /// Has the line fetched into the cache that holds the byte at `at`. A hint: it may lie
    /// outside.
    #[inline]
    pub fn fetch(&self, at: usize) {
        fetch(self.base.as_ptr().wrapping_add(at));
    }

    /// Length in bytes, without the tail guard.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the region has no bytes of its own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of the region.
    ///
    /// # Panics
    /// When a device may write to them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        assert!(!self.is_shared(), "all bytes of memory that a device writes to");
        // SAFETY: `base` is mapped for at least `len` bytes, initialised (zero
        // pages or written since), and not written while `self` is shared.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// The bytes of the region, to be written.
    ///
    /// # Panics
    /// When a device may write to them, too.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(!self.is_shared(), "all bytes of memory that a device writes to");
        // SAFETY: as in `bytes`, and `&mut self` makes this the only access.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

/// Has the line fetched into the cache that holds the start of a value. A hint.
#[inline]
pub fn fetch_value<T>(value: &T) {
    fetch(std::ptr::from_ref(value).cast());
}

#[inline]
fn fetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint for any address whatever, which reads nothing that can be seen.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Owner::Region { mapped } = self.owner {
            // SAFETY: `base` and `mapped` are the mapping made in `new`, unmapped
            // only here; nothing borrowed from it can outlive `self`.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), mapped) };
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{Batch, Interface, PacketMeta};

    #[test]
    fn bytes_are_zero_then_what_was_written() {
        let mut region = Region::new(10_000).unwrap();
        assert!(region.bytes().iter().all(|&b| b == 0));
        region.bytes_mut()[9_999] = 7;
        assert_eq!(region.bytes()[9_999], 7);
        assert_eq!(region.len(), 10_000);
    }

    /// Memory that keeps a note of its end.
    struct Kept(Box<[u8; 16 + TAIL_GUARD]>, std::sync::Arc<std::sync::atomic::AtomicBool>);

    impl Drop for Kept {
        fn drop(&mut self) {
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn shared_memory_is_given_out_by_packets_and_kept_as_long_as_the_region() {
        let gone = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut kept = Kept(Box::new([7; 16 + TAIL_GUARD]), std::sync::Arc::clone(&gone));
        let base = NonNull::new(kept.0.as_mut_ptr()).unwrap();
        // SAFETY: 16 bytes and the guard, on the heap, kept by the owner; no code writes to them.
        let region = unsafe { Region::shared(base, 16, Box::new(kept)) };
        assert!(region.is_shared());
        assert_eq!(region.packet(10, 6), [7; 6]);
        for refused in [(10, 7), (usize::MAX, 2)] {
            let outside =
                catch_unwind(AssertUnwindSafe(|| region.packet(refused.0, refused.1).len()));
            assert!(outside.is_err(), "{refused:?}");
        }
        assert!(catch_unwind(AssertUnwindSafe(|| region.bytes().len())).is_err());
        assert!(!gone.load(std::sync::atomic::Ordering::Relaxed));
        drop(region);
        assert!(gone.load(std::sync::atomic::Ordering::Relaxed));
    }

    /// Holds the first eight bytes of a region still, for the first packet of a batch.
    #[derive(Debug)]
    struct Half(Arc<Region>);

    // SAFETY: no code writes to the region.
    unsafe impl Lease for Half {
        fn region(&self) -> &Arc<Region> {
            &self.0
        }

        fn holds(&self, i: usize, start: usize, len: usize) -> bool {
            i == 0 && start + len <= 8
        }
    }

    #[test]
    fn a_batch_over_shared_memory_has_only_what_its_lease_holds() {
        let mut memory = Box::new([7; 16 + TAIL_GUARD]);
        let base = NonNull::new(memory.as_mut_ptr()).unwrap();
        // SAFETY: 16 bytes and the guard, on the heap, kept by the owner; no code writes to them.
        let region = Arc::new(unsafe { Region::shared(base, 16, Box::new(memory)) });
        let lease = Arc::new(Half(Arc::clone(&region)));
        let interfaces = Arc::new(vec![Interface::default()]);
        let meta = |offset, cap_len| PacketMeta {
            offset,
            cap_len,
            wire_len: cap_len,
            ticks: 0,
            interface: 0,
        };
        let batch = |packets: &[PacketMeta]| {
            let packets = packets.iter().copied();
            Batch::leased(Arc::clone(&lease), Arc::clone(&interfaces), packets)
        };
        let held = batch(&[meta(2, 6)]);
        assert_eq!(held.packet(0), [7; 6]);
        let copy = held.clone();
        drop(held);
        assert_eq!(Arc::strong_count(&lease), 2, "a copy keeps the lease");
        for refused in [&[meta(3, 6)][..], &[meta(0, 1), meta(1, 1)]] {
            assert!(catch_unwind(AssertUnwindSafe(|| batch(refused).len())).is_err());
        }
        // Neither does a batch get in later what no lease was asked for.
        for mut batch in [copy, Batch::new(Arc::clone(&region), Arc::clone(&interfaces))] {
            let pushed = catch_unwind(AssertUnwindSafe(|| batch.push(meta(0, 1)).is_ok()));
            assert!(pushed.is_err());
        }
        assert_eq!(Arc::strong_count(&lease), 1);
    }

    #[test]
    fn an_empty_region_is_allowed_and_an_absurd_one_refused() {
        assert!(Region::new(0).unwrap().bytes().is_empty());
        assert!(Region::new(usize::MAX - 10).is_err());
    }
}
