//! Windows to literals: a filter that a window must pass, and a hash table behind it.

use super::hash::{self, FIRST_BIT, SECOND_BIT};

/// A blocked Bloom filter: a window has two bits in one word (Putze, Sanders and Singler, "Cache-,
/// hash- and space-efficient Bloom filters", 2009), so that a test is one load.
#[derive(Clone, Debug)]
pub struct Bloom {
    words: Box<[u32]>,
    /// The number of bits that the product with [`hash::WORD`] is shifted by, to be the index of a
    /// word.
    shift: u32,
}

impl Bloom {
    /// Bits of a filter for each window, at least.
    const BITS_A_WINDOW: usize = 8;
    /// The least and most words.
    const WORDS: [usize; 2] = [1 << 8, 1 << 16];

    pub fn new(windows: impl ExactSizeIterator<Item = u32>) -> Self {
        let wanted = (windows.len() * Self::BITS_A_WINDOW / 32).next_power_of_two();
        let count = wanted.clamp(Self::WORDS[0], Self::WORDS[1]);
        let mut bloom =
            Self { words: vec![0; count].into_boxed_slice(), shift: 32 - count.trailing_zeros() };
        for window in windows {
            let bits = window.wrapping_mul(hash::BITS);
            let word = (window.wrapping_mul(hash::WORD) >> bloom.shift) as usize;
            bloom.words[word] |= 1 << (bits >> FIRST_BIT) | 1 << (bits >> SECOND_BIT & 31);
        }
        bloom
    }

    /// The words: for each window, the product with [`hash::WORD`] shifted by [`Self::shift`] is
    /// less than their number.
    #[inline(always)]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    #[inline(always)]
    pub fn shift(&self) -> u32 {
        self.shift
    }
}

/// A literal that a window can belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Entry(u32);

impl Entry {
    /// Bits of a group's number; above them are the phase, the length and the check.
    pub const GROUP_BITS: u32 = 20;
    const PHASE_BITS: u32 = 2;
    const LEN_BITS: u32 = 2;

    /// An entry for a group of literals: the window is `phase` bytes behind the start of `region`,
    /// which has at most three bytes more than the least length of the table's.
    pub fn new(group: u32, phase: usize, region: &[u8], least: usize) -> Self {
        let (phase, more) = (phase as u32, (region.len() - least) as u32);
        debug_assert!(group >> Self::GROUP_BITS == 0);
        debug_assert!(phase >> Self::PHASE_BITS == 0 && more >> Self::LEN_BITS == 0);
        let mut bytes = [0; 8];
        bytes[8 - region.len()..].copy_from_slice(region);
        let check = hash::check(u64::from_le_bytes(bytes)) << Self::LEN_BITS | more;
        Self((check << Self::PHASE_BITS | phase) << Self::GROUP_BITS | group)
    }

    #[inline(always)]
    pub fn group(self) -> u32 {
        self.0 & ((1 << Self::GROUP_BITS) - 1)
    }

    #[inline(always)]
    pub fn phase(self) -> usize {
        (self.0 >> Self::GROUP_BITS) as usize & ((1 << Self::PHASE_BITS) - 1)
    }

    /// Whether the check is that of a text's 8 bytes from the region's start on. `shift` is the
    /// number of bits that a region of the least length lacks.
    #[inline(always)]
    pub fn accepts(self, text: u64, shift: u32) -> bool {
        let after = self.0 >> (Self::GROUP_BITS + Self::PHASE_BITS);
        let more = after & ((1 << Self::LEN_BITS) - 1);
        hash::check(text << (shift - 8 * more)) == after >> Self::LEN_BITS
    }
}

/// A hash table of entries by window. It is built once.
#[derive(Clone, Debug)]
pub struct Table {
    /// The bits of a window that count.
    mask: u32,
    /// The bits that a region of the least length lacks of 8 bytes.
    region_shift: u32,
    bits: u32,
    /// For each slot the index of its first entry, and the end of the last slot.
    first: Box<[u32]>,
    entries: Box<[Entry]>,
}

impl Table {
    /// A table of windows of `window_len` bytes, in regions of at least `least_region`.
    pub fn new(window_len: usize, least_region: usize, windows: &[(u32, Entry)]) -> Self {
        let bits = Self::bits_for(windows.len());
        let mask = u32::MAX >> (32 - 8 * window_len);
        let mut first = vec![0_u32; (1 << bits) + 1];
        for (window, _) in windows {
            first[hash::slot(*window, bits) + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut first {
            sum += *count;
            *count = sum;
        }
        let mut next = first.clone();
        let mut entries = vec![Entry::default(); windows.len()];
        for (window, entry) in windows {
            let at = &mut next[hash::slot(*window, bits)];
            entries[*at as usize] = *entry;
            *at += 1;
        }
        let region_shift = 64 - 8 * least_region as u32;
        Self { mask, region_shift, bits, first: first.into(), entries: entries.into() }
    }

    /// The number of bits of a slot's number in a table of so many windows: one slot for one to
    /// two windows.
    pub fn bits_for(windows: usize) -> u32 {
        windows.max(2).ilog2()
    }

    #[inline(always)]
    pub fn region_shift(&self) -> u32 {
        self.region_shift
    }

    /// The slot of a window, for [`Self::entries`].
    #[inline(always)]
    pub fn slot(&self, window: u32) -> usize {
        hash::slot(window & self.mask, self.bits)
    }

    /// The bounds of a slot in all entries, to prefetch.
    #[inline(always)]
    pub fn first(&self) -> &[u32] {
        &self.first
    }

    /// The entries of all slots.
    #[inline(always)]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.first) + size_of_val(&*self.entries)
    }
}
