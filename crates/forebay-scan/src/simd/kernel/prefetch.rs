//! Prefetches of memory that is used later.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Fetches the cache line of an element ahead of its use.
#[inline(always)]
pub fn prefetch<T>(values: &[T], index: usize) {
    prefetch_line(values.as_ptr().wrapping_add(index).cast());
}

/// Fetches all cache lines of a value ahead of its use.
#[inline(always)]
pub fn prefetch_all<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    let before = start.addr() % LINE;
    for line in (0..size_of_val(value) + before).step_by(LINE) {
        prefetch_line(start.wrapping_sub(before).wrapping_add(line));
    }
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
