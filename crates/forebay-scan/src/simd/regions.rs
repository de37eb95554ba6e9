//! Regions to literals. A region is bytes of a literal around the window that it is found by, up to
//! 7; literals can have it in common.
//!
//! Where in its region a window is, and how long that is, is not known of a window in the text. All
//! ways of a [`Shape`] are tried, each by a test of two bits in a word, without a branch; the regions
//! that pass are nearly all those of literals, and have the literals in a hash table.

use super::buffer::{Bytes, CAPACITY, FRONT};
use super::kernel::{self, Level};

/// Ways in which a window can be in a region.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Bytes of the region in front of the window: the ways with most first, so that regions are
    /// found in the order of their starts.
    pub before: [u8; WAYS],
    /// For each byte of each region, as a number of 8 bytes, its place in the 16 bytes that start
    /// [`AROUND`] bytes in front of the window; with the high bit where there is none.
    pub places: [[u8; 8]; WAYS],
    /// The bits of each region in the 8 bytes from its start on.
    pub masks: [u64; WAYS],
}

/// Bytes in front of a window that regions have at most.
pub const AROUND: usize = 3;

/// The ways of a shape.
pub const WAYS: usize = 4;

/// Of windows of 4 bytes at every fourth position.
pub static FOURTHS: Shape = Shape::new([(3, 7), (2, 7), (1, 7), (0, 7)]);
/// Of windows of 4 bytes at every position.
pub static LONG: Shape = Shape::new([(1, 5), (0, 4), (0, 5), (0, 7)]);

impl Shape {
    /// Of bytes in front of the window and bytes of the region.
    const fn new(ways: [(u8, u8); WAYS]) -> Self {
        let (places, masks) = ([[0x80; 8]; WAYS], [0; WAYS]);
        let mut shape = Self { before: [0; WAYS], places, masks };
        let mut at = 0;
        while at < 8 * WAYS {
            let (way, byte) = (at / 8, at as u8 % 8);
            let (before, len) = ways[way];
            shape.before[way] = before;
            if byte < len {
                shape.places[way][byte as usize] = AROUND as u8 - before + byte;
                shape.masks[way] |= 0xff << (8 * byte);
            }
            at += 1;
        }
        shape
    }
}

/// Windows whose regions are looked up together.
pub const TOGETHER: usize = 256;

/// Regions that passed: their hashes, with the start in the buffer's bytes from the bit
/// [`START_AT`] on. There is room for a vector behind the last one.
pub type Candidates = [u64; WAYS * (TOGETHER + 1)];

/// Where in a hash the number of a word is, in the low bits; the numbers of two bits in it; the
/// check; the number of a slot is in the high bits of the low half.
pub const BITS_AT: [u32; 2] = [32, 37];
const CHECK_AT: u32 = 42;
const CHECK_BITS: u32 = 8;
pub const START_AT: u32 = CHECK_AT + CHECK_BITS;

/// A literal with a region: the number of its group, and a check of the region's hash.
#[derive(Clone, Copy, Debug, Default)]
struct Entry(u32);

impl Entry {
    const GROUP_BITS: u32 = 20;

    fn new(group: u32, hash: u64) -> Self {
        debug_assert!(group >> Self::GROUP_BITS == 0);
        Self(Self::check(hash) << Self::GROUP_BITS | group)
    }

    fn check(hash: u64) -> u32 {
        (hash >> CHECK_AT) as u32 & ((1 << CHECK_BITS) - 1)
    }

    fn group(self) -> u32 {
        self.0 & ((1 << Self::GROUP_BITS) - 1)
    }

    fn has(self, hash: u64) -> bool {
        self.0 >> Self::GROUP_BITS == Self::check(hash)
    }
}

/// A group of literals whose region is in the text.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub group: u32,
    /// The start of the region in the buffer's bytes.
    pub start: u32,
}

const _: () = assert!((FRONT + CAPACITY) >> (64 - START_AT) == 0 && FRONT >= AROUND);

/// Groups that are found at most at a time.
const MOST_FOUND: usize = 1024;

/// A filter of regions and a hash table. It is built once.
#[derive(Clone, Debug)]
pub struct Regions {
    shape: &'static Shape,
    filter: Box<[u32]>,
    bits: u32,
    /// For each slot the index of its first entry, and the end of the last slot.
    first: Box<[u32]>,
    entries: Box<[Entry]>,
}

impl Regions {
    /// Bits of the filter for each region, at least.
    const BITS_A_REGION: usize = 16;
    /// The least and most words of the filter.
    const WORDS: [usize; 2] = [1 << 8, 1 << 16];

    /// The regions, by hash, of groups.
    pub fn new(shape: &'static Shape, regions: &[(u64, u32)]) -> Self {
        let wanted = (regions.len() * Self::BITS_A_REGION / 32).next_power_of_two();
        let mut filter = vec![0; wanted.clamp(Self::WORDS[0], Self::WORDS[1])].into_boxed_slice();
        let bits = regions.len().max(2).ilog2();
        let mut first = vec![0_u32; (1 << bits) + 1];
        for &(hash, _) in regions {
            let word = hash as usize & (filter.len() - 1);
            BITS_AT.iter().for_each(|at| filter[word] |= 1 << (hash >> at & 31));
            first[slot(hash, bits) + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut first {
            sum += *count;
            *count = sum;
        }
        let mut next = first.clone();
        let mut entries = vec![Entry::default(); regions.len()];
        for &(hash, group) in regions {
            let at = &mut next[slot(hash, bits)];
            entries[*at as usize] = Entry::new(group, hash);
            *at += 1;
        }
        Self { shape, filter, bits, first: first.into(), entries: entries.into() }
    }

    /// Writes the regions about windows that pass the filter to `candidates`, and returns their
    /// number. There are at most [`TOGETHER`] windows.
    #[inline]
    pub fn probe(
        &self,
        level: Level,
        text: &Bytes,
        windows: &[u16],
        candidates: &mut Candidates,
    ) -> usize {
        kernel::probe_regions(level, text, windows, (self.shape, &self.filter), candidates)
    }

    /// Calls `found` with the groups that have the regions, some at a time, in the order of the
    /// starts; and with others whose hashes are alike.
    pub fn look_up(
        &self,
        candidates: &[u64],
        list: &mut Vec<Found>,
        mut found: impl FnMut(&[Found]),
    ) {
        for &candidate in candidates {
            kernel::prefetch(&self.first, slot(candidate, self.bits));
        }
        for &candidate in candidates {
            let first = self.first[slot(candidate, self.bits)];
            kernel::prefetch(&self.entries, first as usize);
        }
        list.clear();
        for &candidate in candidates {
            let slot = slot(candidate, self.bits);
            let [first, end] = [self.first[slot], self.first[slot + 1]];
            let start = (candidate >> START_AT) as u32;
            for entries in self.entries[first as usize..end as usize].chunks(MOST_FOUND) {
                if list.len() + entries.len() > MOST_FOUND {
                    found(list);
                    list.clear();
                }
                for entry in entries {
                    if entry.has(candidate) {
                        list.push(Found { group: entry.group(), start });
                    }
                }
            }
        }
        found(list);
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.filter) + size_of_val(&*self.first) + size_of_val(&*self.entries)
    }
}

/// The slot of a hash, of 2 to the power `bits`.
#[inline(always)]
fn slot(hash: u64, bits: u32) -> usize {
    (hash as u32 >> (32 - bits)) as usize
}
