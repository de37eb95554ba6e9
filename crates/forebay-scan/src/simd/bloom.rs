//! A filter that a window must pass.

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

    pub fn new(windows: &[u32]) -> Self {
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
