//! No byte outside a text is read: texts lie beside pages that cannot be.

mod support;

use std::{ptr, slice};

use forebay_packet::random::Random;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use support::{Engines, set, string};

const PAGE: usize = 4096;
const PAGES: usize = 5;

/// Pages between two that cannot be accessed.
struct Guarded(*mut u8);

impl Guarded {
    fn new() -> Self {
        let len = (PAGES + 2) * PAGE;
        // SAFETY: a new private mapping aliases nothing.
        let map =
            unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE) };
        let map = map.unwrap().cast::<u8>();
        // SAFETY: the pages are part of the mapping, which nothing refers to.
        unsafe {
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            mprotect(map.add(PAGE).cast(), PAGES * PAGE, access).unwrap();
        }
        Self(map)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the pages are mapped, and `&mut self` makes this the only access.
        unsafe { slice::from_raw_parts_mut(self.0.add(PAGE), PAGES * PAGE) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nothing borrowed outlives `self`.
        unsafe { munmap(self.0.cast(), (PAGES + 2) * PAGE) }.unwrap();
    }
}

#[test]
fn texts_at_both_ends_of_memory() {
    let mut random = Random::new(5);
    let (mut guarded, alphabet) = (Guarded::new(), b"abAB");
    let literals: Vec<(Vec<u8>, bool)> = (0..60)
        .map(|number| (string(&mut random, alphabet, 1 + number % 30), number % 2 == 0))
        .collect();
    let engines = Engines::new(&set(&literals));
    let text = string(&mut random, alphabet, PAGES * PAGE);
    guarded.bytes().copy_from_slice(&text);
    for len in (0..300).chain([PAGE - 1, PAGE, 2 * PAGE + 1, 8192, 8193, PAGES * PAGE]) {
        let bytes = guarded.bytes();
        let (low, high) = (&bytes[..len], &bytes[bytes.len() - len..]);
        engines.assert_equal(&[low, high], &format!("{len} bytes"));
        engines.assert_equal_stream(&[low, high], &format!("{len} bytes"));
    }
}
