//! A [`Region`] is one anonymous mapping that packets lie in.
//!
//! Invariants: the mapping is private, readable and writable for its whole
//! life, at least [`TAIL_GUARD`] bytes longer than [`Region::len`], and owned
//! by exactly one `Region`. A load of up to [`TAIL_GUARD`] bytes that starts at
//! any byte of a packet therefore never leaves mapped memory. Fresh pages are
//! zero; a reused region holds what it held before.
#![allow(unsafe_code, reason = "maps memory and hands out slices of it")]

use std::ptr::NonNull;
use std::{fmt, io, slice};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes past the end of a region that may be read, though they mean nothing:
/// one AVX-512 load.
pub const TAIL_GUARD: usize = 128;

/// The mapping size from which huge pages are asked for: two of x86-64's.
const HUGE_FROM: usize = 4 << 20;

/// Page-aligned anonymous memory that packets lie in.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    mapped: usize,
}

// SAFETY: a Region owns its mapping alone; `&Region` gives only shared reads
// and `&mut Region` the only writes, so the usual borrow rules carry over to
// other threads.
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
        Ok(Self { base, len, mapped })
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
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `base` is mapped for at least `len` bytes, initialised (zero
        // pages or written since), and not written while `self` is shared.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }

    /// The bytes of the region, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only access.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `base` and `mapped` are the mapping made in `new`, unmapped
        // only here; nothing borrowed from it can outlive `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_zero_then_what_was_written() {
        let mut region = Region::new(10_000).unwrap();
        assert!(region.bytes().iter().all(|&b| b == 0));
        region.bytes_mut()[9_999] = 7;
        assert_eq!(region.bytes()[9_999], 7);
        assert_eq!(region.len(), 10_000);
    }

    #[test]
    fn an_empty_region_is_allowed_and_an_absurd_one_refused() {
        assert!(Region::new(0).unwrap().bytes().is_empty());
        assert!(Region::new(usize::MAX - 10).is_err());
    }
}
