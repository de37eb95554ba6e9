//! The memory of a table: zeroed pages, that cost nothing until they are used.
#![allow(unsafe_code, reason = "maps memory")]

use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::bucket::{Bucket, SLOTS};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Has the pages that lie in unused memory whole be huge, where the system has them.
pub(crate) fn advise_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    let start = memory.as_mut_ptr().cast::<u8>();
    let before = start.addr().next_multiple_of(HUGE) - start.addr();
    let len = size_of_val(memory).saturating_sub(before) / HUGE * HUGE;
    if len > 0 {
        // A refusal leaves small pages.
        // SAFETY: the range is within `memory`, and the advice changes no content.
        let _ = unsafe { madvise(start.add(before).cast(), len, Advice::LinuxHugepage) };
    }
}

/// Buckets in a mapping of their own.
#[derive(Debug)]
pub(crate) struct Buckets {
    base: NonNull<Bucket>,
    count: usize,
}

// SAFETY: it owns its mapping alone, and hands out references as a `Vec` does.
unsafe impl Send for Buckets {}
// SAFETY: likewise.
unsafe impl Sync for Buckets {}

impl Buckets {
    /// Free buckets, on huge pages where the system has them.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        let len = count
            .checked_mul(size_of::<Bucket>())
            .filter(|&len| len > 0 && isize::try_from(len).is_ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping where the kernel chooses overlaps nothing.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        let base = NonNull::new(base.cast::<Bucket>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // A refusal leaves small pages.
        // SAFETY: the mapping is ours, and the advice changes no content.
        let _ = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(Self { base, count })
    }
}

impl Buckets {
    /// All entries, by their slots.
    #[inline]
    pub(crate) fn entries(&self) -> &[u128] {
        // SAFETY: a bucket is so many entries and nothing else.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast(), self.count * SLOTS) }
    }

    /// As [`Buckets::entries`].
    #[inline]
    pub(crate) fn entries_mut(&mut self) -> &mut [u128] {
        // SAFETY: likewise; the borrow of `self` is the only one.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.count * SLOTS) }
    }
}

impl Deref for Buckets {
    type Target = [Bucket];

    #[inline]
    fn deref(&self) -> &[Bucket] {
        // SAFETY: so many buckets are mapped, aligned to pages; zero bytes are a free bucket.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl DerefMut for Buckets {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Bucket] {
        // SAFETY: as above; the borrow of `self` is the only one.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.count) }
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        let len = self.count * size_of::<Bucket>();
        // SAFETY: the mapping is ours, of this length, and no reference to it is left.
        // A failure leaves it mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), len) };
    }
}
