//! Random numbers, the same in every run.

/// Random numbers that need not be good: a Weyl sequence, mixed (Steele et al., "Fast
/// splittable pseudorandom number generators", 2014).
#[derive(Debug)]
pub struct Lots(u64);

impl Lots {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// `count` of the numbers below `limit`, in any order, none twice.
    pub fn draw(&mut self, count: usize, limit: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..limit as u32).collect();
        let count = count.min(limit);
        for i in 0..count {
            let other = i + self.below(limit - i);
            numbers.swap(i, other);
        }
        numbers.truncate(count);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lots_are_drawn_once_each() {
        let mut drawn = Lots::new(1).draw(100, 100);
        assert_ne!(drawn[..10], (0..10).collect::<Vec<u32>>());
        drawn.sort_unstable();
        assert_eq!(drawn, (0..100).collect::<Vec<u32>>());
        assert_eq!(Lots::new(2).draw(5, 3).len(), 3);
    }
}
