//! A filter of windows of 4 bytes at all positions, with a look-up for every second one.
//!
//! Two windows at successive positions have three bytes in common. These select a word; in its low
//! half there is a bit for the byte in front of them, and in its high half one for the byte behind
//! them. A window is therefore in two words: in one by its last three bytes, in one by its first.

use super::hash;

/// The filter.
#[derive(Clone, Debug)]
pub struct Pairs {
    words: Box<[u32]>,
    shift: u32,
    /// Whether a window is a run of one byte. Otherwise those of the text do not pass: text that is
    /// full of zeros would, as the bit of a zero is that of other bytes too.
    has_run: bool,
}

impl Pairs {
    /// Words for each window, at least.
    const WORDS_A_WINDOW: usize = 4;
    /// The least and most words.
    const WORDS: [usize; 2] = [1 << 8, 1 << 16];

    pub fn new(windows: &[u32]) -> Self {
        let wanted = (windows.len() * Self::WORDS_A_WINDOW).next_power_of_two();
        let count = wanted.clamp(Self::WORDS[0], Self::WORDS[1]);
        let mut pairs = Self {
            words: vec![0; count].into_boxed_slice(),
            shift: 32 - count.trailing_zeros(),
            has_run: windows.iter().any(|&window| is_run(window)),
        };
        for window in windows {
            let [first, .., last] = window.to_le_bytes();
            let [behind, before] = [window >> 8, window & 0xff_ffff].map(|at| pairs.index(at));
            pairs.words[behind] |= 1 << bit(first);
            pairs.words[before] |= 1 << (HIGH + bit(last));
        }
        pairs
    }

    fn index(&self, three: u32) -> usize {
        (three.wrapping_mul(hash::WORD) >> self.shift) as usize
    }

    /// The words: for three bytes as a number, the product with [`hash::WORD`] shifted by
    /// [`Self::shift`] is less than their number.
    #[inline(always)]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    #[inline(always)]
    pub fn has_run(&self) -> bool {
        self.has_run
    }

    #[inline(always)]
    pub fn shift(&self) -> u32 {
        self.shift
    }
}

/// Whether the bytes of a window are the same.
#[inline(always)]
pub fn is_run(window: u32) -> bool {
    window == window.rotate_left(8)
}

/// The first bit of a word's high half.
pub const HIGH: u32 = 16;

/// The bit of a byte in a half: letters and digits differ in these bits.
#[inline(always)]
pub fn bit(byte: u8) -> u32 {
    u32::from(byte & 15)
}
