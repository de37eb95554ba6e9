//! Memory beside which there is none.

use std::{ptr, slice};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// Some pages with an inaccessible page on either side: whoever touches a byte
/// that is not theirs dies at once.
pub struct Guarded {
    map: *mut u8,
    len: usize,
}

impl Guarded {
    /// `pages` zeroed pages.
    pub fn new(pages: usize) -> Self {
        let len = pages * PAGE;
        // SAFETY: a new private mapping aliases nothing.
        let map = unsafe {
            mmap_anonymous(ptr::null_mut(), len + 2 * PAGE, ProtFlags::empty(), MapFlags::PRIVATE)
        };
        let map = map.unwrap().cast::<u8>();
        // SAFETY: the pages are part of the mapping, which nothing refers to.
        unsafe {
            let inner = map.add(PAGE).cast();
            mprotect(inner, len, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
        }
        Self { map, len }
    }

    /// All bytes that may be touched.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, zeroed and owned by `self` alone.
        unsafe { slice::from_raw_parts(self.map.add(PAGE), self.len) }
    }

    /// The same, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes this the only access.
        unsafe { slice::from_raw_parts_mut(self.map.add(PAGE), self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nothing borrowed outlives `self`.
        unsafe { munmap(self.map.cast(), self.len + 2 * PAGE) }.unwrap();
    }
}
