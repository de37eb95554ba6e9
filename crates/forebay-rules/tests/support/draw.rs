//! The numbers that generators draw: the same in every run, or a fuzzer's.
#![allow(dead_code, reason = "each test uses its part")]

use forebay_packet::random::Random;

/// Draws numbers.
pub enum Draw<'a> {
    /// Pseudo-random ones (SplitMix64).
    Seed(u64),
    /// The bytes of an input, then zeros.
    Bytes(&'a [u8]),
}

impl Draw<'_> {
    /// The next `bytes` bytes, at most 8.
    fn take(&mut self, bytes: usize) -> u64 {
        match self {
            Self::Seed(state) => {
                let mut random = Random::new(*state);
                let drawn = random.next();
                *state = random.state();
                drawn
            }
            Self::Bytes(rest) => {
                let (taken, left) = rest.split_at(bytes.min(rest.len()));
                *rest = left;
                taken.iter().fold(0, |all, &byte| all << 8 | u64::from(byte))
            }
        }
    }

    /// Whether an input has been used up, which a seed never is.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Bytes([]))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bytes = (bound - 1).checked_ilog2().map_or(0, |bits| bits as usize / 8 + 1);
        if bytes == 0 { 0 } else { (self.take(bytes) % bound as u64) as usize }
    }

    pub fn byte(&mut self) -> u8 {
        self.below(1 << 8) as u8
    }

    pub fn half(&mut self) -> u16 {
        self.below(1 << 16) as u16
    }

    /// A number of 128 bits.
    pub fn wide(&mut self) -> u128 {
        u128::from(self.take(8)) << 64 | u128::from(self.take(8))
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A number of a range, given by its first and last; every fourth time one
    /// of these.
    pub fn within(&mut self, (first, last): (u128, u128)) -> u128 {
        if first == last {
            return first;
        }
        match self.below(8) {
            0 => first,
            1 => last,
            _ => {
                let drawn = if last - first < 1 << 16 { self.half().into() } else { self.wide() };
                first + (last - first).checked_add(1).map_or(drawn, |size| drawn % size)
            }
        }
    }
}
