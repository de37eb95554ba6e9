//! The memory of a table, in mappings of its own: no allocator moves it, and lines and pages
//! are aligned.
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

/// Bytes of the smallest pages, to which mappings are aligned.
const PAGE: usize = 4096;

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

/// The place of the upper word among the two of an entry.
pub(crate) const UPPER: usize = if cfg!(target_endian = "big") { 0 } else { 1 };

/// Values in a mapping of their own, or nowhere if they have no bytes.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    base: NonNull<T>,
    count: usize,
}

/// The buckets of a table.
pub(crate) type Buckets = Mapped<Bucket>;

// SAFETY: it owns its values alone, and hands out references as a `Vec` does.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: likewise.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T: Copy + Default> Mapped<T> {
    /// So many values, on huge pages where the system has them. All are written, so that the
    /// system has no page to zero later.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= PAGE) };
        let len = count
            .checked_mul(size_of::<T>())
            .filter(|&len| isize::try_from(len).is_ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        if len == 0 {
            return Ok(Self { base: NonNull::dangling(), count });
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping where the kernel chooses overlaps nothing.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        let base = NonNull::new(base.cast::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // A refusal leaves small pages.
        // SAFETY: the mapping is ours, and the advice changes no content.
        let _ = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        // SAFETY: so many values are mapped, aligned to pages, and nothing else refers to them.
        let values =
            unsafe { slice::from_raw_parts_mut(base.as_ptr().cast::<MaybeUninit<T>>(), count) };
        values.fill(MaybeUninit::new(T::default()));
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

    /// The words of all entries, by their slots. [`UPPER`] is the place of the upper one.
    #[inline(always)]
    pub(crate) fn words_mut(&mut self) -> &mut [[u64; 2]] {
        // SAFETY: as above; the borrow of `self` is the only one.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.count * SLOTS) }
    }

    /// As [`Buckets::entries`].
    #[inline]
    pub(crate) fn entries_mut(&mut self) -> &mut [u128] {
        // SAFETY: likewise; the borrow of `self` is the only one.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.count * SLOTS) }
    }
}

impl<T> Mapped<T> {
    /// A value. Values without bytes are not counted.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline(always)]
    pub(crate) fn value_mut(&mut self, at: usize) -> &mut T {
        assert!(size_of::<T>() == 0 || at < self.count, "a value of the mapping");
        // SAFETY: the place was checked, unless the value has no bytes, and so is anywhere that is
        // aligned. The borrow of `self` is the only one.
        unsafe { &mut *self.base.as_ptr().add(at) }
    }
}

impl<T> Deref for Mapped<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: so many values are mapped, if they have bytes, and written.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Mapped<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; the borrow of `self` is the only one.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.count) }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        let len = self.count * size_of::<T>();
        if len > 0 {
            // SAFETY: the mapping is ours, of this length, and no reference to it is left; values
            // are `Copy`, so nothing is to be dropped. A failure leaves it mapped.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), len) };
        }
    }
}
