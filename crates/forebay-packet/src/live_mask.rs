//! A [`LiveMask`] marks the packets that are still in a batch.

use crate::batch_size::BATCH;
use crate::select::{self, Bits};

/// One bit a packet: set while the packet is still in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LiveMask(Bits);

impl LiveMask {
    /// No bit is set.
    pub const EMPTY: Self = Self([0; BATCH / 64]);

    /// Whether bit `i` is set. Bits past the mask are never set.
    #[must_use]
    pub fn contains(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// The first `packets` bits.
    pub(crate) fn first(packets: usize) -> Self {
        let bits = |start: usize| match packets.saturating_sub(start) {
            0 => 0,
            some => u64::MAX >> (64 - some.min(64)),
        };
        Self(std::array::from_fn(|word| bits(64 * word)))
    }

    /// The packets whose values are not 0.
    #[must_use]
    pub fn nonzero(values: &[u32]) -> Self {
        Self(select::nonzero(values))
    }

    /// Moves the values of the packets in the mask to the front, in order, and returns how many they
    /// are.
    pub(crate) fn move_to_front(&self, values: &mut [u32]) -> usize {
        select::move_to_front(values, &self.0)
    }

    /// The packets of whose values `test` holds.
    #[inline]
    #[must_use]
    pub fn of<T: Copy>(values: &[T], test: impl Fn(T) -> bool) -> Self {
        let mut mask = Self::default();
        for (word, values) in mask.0.iter_mut().zip(values.chunks(64)) {
            let mut flags = [0; 64];
            for (flag, &value) in flags.iter_mut().zip(values) {
                *flag = u8::from(test(value));
            }
            let (eights, _) = flags.as_chunks::<8>();
            for (i, eight) in eights.iter().enumerate() {
                // Eight bytes of one bit each; the product has them side by side on top.
                let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
                *word |= bits << (8 * i);
            }
        }
        mask
    }

    /// Sets bit `i`.
    ///
    /// # Panics
    /// When `i` is not below [`BATCH`].
    pub fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Sets bits `32 * i` to `32 * i + 31`, which were clear, to those of `bits`.
    pub(crate) fn set_half(&mut self, i: usize, bits: u32) {
        self.0[i / 2] |= u64::from(bits) << (i % 2 * 32);
    }

    /// Clears bit `i`.
    ///
    /// # Panics
    /// When `i` is not below [`BATCH`].
    pub fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    /// The bits that `other` has not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The bits that both have.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The bits that either has.
    #[must_use]
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Whether no bit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The bits of the packets in `which`, numbered by their rank among these.
    #[must_use]
    pub(crate) fn renumbered(&self, which: &Self) -> Self {
        let mut mask = Self::default();
        if !self.is_empty() {
            let ranked = which.iter().enumerate().filter(|&(_, i)| self.contains(i));
            ranked.for_each(|(rank, _)| mask.insert(rank));
        }
        mask
    }

    /// Number of bits set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The set bits, ascending.
    #[inline]
    pub fn iter(&self) -> LivePackets {
        LivePackets { words: self.0, word: 0, rest: self.0[0] }
    }
}

/// The set bits of a [`LiveMask`], ascending.
#[derive(Clone, Debug)]
pub struct LivePackets {
    words: [u64; BATCH / 64],
    word: usize,
    /// Of the word at `word`.
    rest: u64,
}

impl Iterator for LivePackets {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.rest == 0 {
            self.word += 1;
            self.rest = *self.words.get(self.word)?;
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some(self.word * 64 + bit)
    }

    #[inline]
    fn fold<B, F: FnMut(B, usize) -> B>(self, init: B, mut f: F) -> B {
        let Self { words, word, rest } = self;
        let mut folded = init;
        for (i, &all) in words.iter().enumerate().skip(word) {
            let mut bits = if i == word { rest } else { all };
            while bits != 0 {
                folded = f(folded, i * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_packets_that_pass_a_test() {
        for len in [0, 1, 7, 8, 63, 64, 65, 200, 255, 256] {
            let values: Vec<u32> = (0..len).map(|i| i * 7 % 11).collect();
            let mask = LiveMask::of(&values, |value| value < 4);
            let expected: Vec<usize> = (0..values.len()).filter(|&i| values[i] < 4).collect();
            assert_eq!(mask.iter().collect::<Vec<_>>(), expected, "{len}");
        }
    }
}
