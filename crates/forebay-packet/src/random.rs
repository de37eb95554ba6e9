//! Pseudo-random numbers, the same on every machine.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014): a counter stepped by the
//! golden ratio and mixed. Eight bytes of state are little enough to give each
//! flow its own stream, and the counter makes any byte of a stream computable
//! without the ones before it, so that a retransmitted segment is the same bytes
//! again without being stored.
//!
//! Everything here is integer arithmetic. Functions such as `powf` and `ln` may
//! differ in the last digit between platforms; none is used.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: a bijection of 64-bit numbers.
#[inline]
#[must_use]
pub fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The stream of one of a seed's parts, such as one flow of a capture.
    #[must_use]
    pub fn of_part(seed: u64, part: u64) -> Self {
        Self::new(mix(mix(seed).wrapping_add(part.wrapping_mul(GOLDEN))))
    }

    /// The seed of what is left of the stream.
    #[must_use]
    pub fn state(&self) -> u64 {
        self.state
    }

    /// The next 64 bits.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a stream without an end needs no Option")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number below `bound`, or 0 where that is 0. The bias of the multiply-
    /// and-shift reduction is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into `len` values, or 0 where that is 0.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// One of `choices`, which are not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// `count` of the numbers below `limit`, in any order, none twice.
    pub fn draw(&mut self, count: usize, limit: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..limit as u32).collect();
        let count = count.min(limit);
        for i in 0..count {
            let other = i + self.index(limit - i);
            numbers.swap(i, other);
        }
        numbers.truncate(count);
        numbers
    }

    /// A number of `low..=high`.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True once in `n` times.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// An index into `weights`, each as likely as its weight; 0 where all
    /// are zero.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (i, &weight) in weights.iter().enumerate() {
            if at < weight {
                return i;
            }
            at -= weight;
        }
        0
    }

    /// A bounded Pareto variate with shape 1 of `low..=high`, both above 0: twice
    /// the size is half as likely to be exceeded. Shape 1 is what sizes of web
    /// transfers are close to (Crovella and Bestavros, 1997), and the one whose
    /// inverse distribution is a division.
    pub fn pareto(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.clamp(1, 1 << 31), high.clamp(low.max(1), 1 << 31));
        let least = (low << 32) / high;
        let quantile = self.between(least, (1 << 32) - 1).max(1);
        ((low << 32) / quantile).clamp(low, high)
    }

    /// Puts `values` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Writes the bytes `offset..` of the endless random stream of `key`.
pub fn fill_at(key: u64, offset: u32, out: &mut [u8]) {
    let word = |n: u64| mix(key.wrapping_add(n.wrapping_mul(GOLDEN))).to_le_bytes();
    let mut n = u64::from(offset / 8);
    let skip = (offset % 8) as usize;
    let mut rest = out;
    if skip > 0 {
        let take = rest.len().min(8 - skip);
        let (head, tail) = rest.split_at_mut(take);
        head.copy_from_slice(&word(n)[skip..skip + take]);
        n += 1;
        rest = tail;
    }
    let mut chunks = rest.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&word(n));
        n += 1;
    }
    let tail = chunks.into_remainder();
    let len = tail.len();
    tail.copy_from_slice(&word(n)[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_splitmix64() {
        // First outputs of the reference implementation for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_are_drawn_once_each() {
        let mut drawn = Random::new(1).draw(100, 100);
        assert_ne!(drawn[..10], (0..10).collect::<Vec<u32>>());
        drawn.sort_unstable();
        assert_eq!(drawn, (0..100).collect::<Vec<u32>>());
        assert_eq!(Random::new(2).draw(5, 3).len(), 3);
    }

    #[test]
    fn any_window_of_a_stream_is_the_same_bytes() {
        let mut whole = [0; 100];
        fill_at(42, 3, &mut whole);
        for start in 0..40 {
            for len in 0..40 {
                let mut part = vec![0; len];
                fill_at(42, 3 + start as u32, &mut part);
                assert_eq!(part, &whole[start..start + len]);
            }
        }
    }

    #[test]
    fn pareto_halves_with_each_doubling_and_keeps_its_bounds() {
        let mut random = Random::new(9);
        let draws: Vec<u64> = (0..100_000).map(|_| random.pareto(100, 100_000)).collect();
        assert!(draws.iter().all(|x| (100..=100_000).contains(x)));
        for (size, expected) in [(200, 50_000), (400, 25_000), (1600, 6_200)] {
            let above = draws.iter().filter(|&&x| x > size).count() as i64;
            assert!((above - expected).abs() < 1_000, "{above} of 100,000 above {size}");
        }
    }

    #[test]
    fn weights_are_shares() {
        let mut random = Random::new(5);
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            counts[random.weighted(&[1, 0, 3])] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((2_300..2_700).contains(&counts[0]), "{counts:?}");
    }
}
