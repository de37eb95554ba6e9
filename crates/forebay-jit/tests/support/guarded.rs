//! Memory beside which there is none.

use std::{ptr, slice};

use forebay_jit::Packets;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// An end of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first byte.
    Low,
    /// The last byte.
    High,
}

/// Some pages with an inaccessible page on either side: whoever touches a byte
/// that is not theirs dies at once.
pub struct Guarded {
    map: *mut u8,
    len: usize,
}

impl Guarded {
    /// `pages` zeroed pages. Only those that are written take memory.
    pub fn new(pages: usize) -> Self {
        let len = pages * PAGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new private mapping aliases nothing.
        let map =
            unsafe { mmap_anonymous(ptr::null_mut(), len + 2 * PAGE, ProtFlags::empty(), flags) };
        let map = map.unwrap().cast::<u8>();
        // SAFETY: the pages are part of the mapping, which nothing refers to.
        unsafe {
            let inner = map.add(PAGE).cast();
            mprotect(inner, len, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
        }
        Self { map, len }
    }

    /// Pages for `len` bytes.
    pub fn of_bytes(len: usize) -> Self {
        Self::new(len.div_ceil(PAGE).max(1))
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

    /// `len` bytes at one end.
    pub fn bytes_at(&mut self, end: End, len: usize) -> &mut [u8] {
        let bytes = self.bytes_mut();
        let start = if end == End::Low { 0 } else { bytes.len() - len };
        &mut bytes[start..start + len]
    }

    /// `len` numbers at one end.
    pub fn words_at(&mut self, end: End, len: usize) -> &mut [u32] {
        let bytes = self.bytes_at(end, 4 * len);
        // SAFETY: any bytes are numbers.
        let parts = unsafe { bytes.align_to_mut() };
        let (before, words, after) = parts;
        assert!(before.is_empty() && after.is_empty(), "pages hold whole numbers");
        words
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nothing borrowed outlives `self`.
        unsafe { munmap(self.map.cast(), self.len + 2 * PAGE) }.unwrap();
    }
}

/// Room for packets, the tables that describe them and the verdicts on them,
/// each beside memory that is not there.
pub struct GuardedPackets {
    memory: Guarded,
    tables: [Guarded; 3],
    verdict: Guarded,
}

impl GuardedPackets {
    /// Room for `packets` packets in `memory` bytes.
    pub fn new(memory: usize, packets: usize) -> Self {
        let words = || Guarded::of_bytes(4 * packets);
        let tables = [words(), words(), words()];
        Self { memory: Guarded::of_bytes(memory), tables, verdict: words() }
    }

    /// The `len` bytes that packets lie in at one end.
    pub fn memory(&mut self, end: End, len: usize) -> &mut [u8] {
        self.memory.bytes_at(end, len)
    }

    /// Packets in the `len` bytes at one end, with their tables and room for
    /// the verdicts at that end too. The tables are offsets, captured lengths
    /// and lengths on the wire.
    pub fn describe(&mut self, end: End, len: usize, tables: [&[u32]; 3]) -> Described<'_> {
        let count = tables[0].len();
        let [offset, cap_len, wire_len] = &mut self.tables;
        let copied =
            |to: &'_ mut Guarded, table: &[u32]| to.words_at(end, count).copy_from_slice(table);
        copied(offset, tables[0]);
        copied(cap_len, tables[1]);
        copied(wire_len, tables[2]);
        let packets = Packets::new(
            self.memory.bytes_at(end, len),
            offset.words_at(end, count),
            cap_len.words_at(end, count),
            wire_len.words_at(end, count),
        );
        let packets = packets.expect("tables of packets in the memory");
        Described { packets, verdict: self.verdict.words_at(end, count) }
    }
}

/// Packets and room for a verdict on each.
pub struct Described<'a> {
    pub packets: Packets<'a>,
    pub verdict: &'a mut [u32],
}
