//! Caches in levels: set-associative, the least recently used block of a set replaced.
//!
//! An access is to each block of the first level that it touches, and goes from level to level
//! until one has the block; all levels that missed it take it. Writes and prefetches are not
//! simulated: look-ups have no writes.

use std::fmt;

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub bytes: usize,
    pub ways: usize,
    /// Bytes of a block (of a line).
    pub block: usize,
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, ways, block } = self;
        write!(f, "{}K/{ways}/{block}", bytes / 1024)
    }
}

/// A read of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub address: usize,
    pub len: usize,
}

#[derive(Debug)]
struct Cache {
    geometry: Geometry,
    /// The numbers of the blocks it has, set by set, the last used first; `usize::MAX` is none.
    blocks: Vec<usize>,
}

impl Cache {
    fn new(geometry: Geometry) -> Self {
        Self { geometry, blocks: vec![usize::MAX; geometry.bytes / geometry.block] }
    }

    /// Uses the block of an address. Returns whether it was there.
    fn touch(&mut self, address: usize) -> bool {
        let Geometry { ways, block, .. } = self.geometry;
        let number = address / block;
        let set = number % (self.blocks.len() / ways) * ways;
        let set = &mut self.blocks[set..set + ways];
        let place = set.iter().position(|&other| other == number);
        set[..=place.unwrap_or(ways - 1)].rotate_right(1);
        set[0] = number;
        place.is_some()
    }
}

/// What became of accesses: how many were answered by each level, and at last by memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered(pub Vec<u64>);

impl Answered {
    /// Accesses to blocks that a level did not have; 0 is the first level.
    pub fn missed(&self, level: usize) -> u64 {
        self.0[level + 1..].iter().sum()
    }

    /// The part of the accesses to a level that missed.
    pub fn ratio(&self, level: usize) -> f64 {
        self.missed(level) as f64 / self.0[level..].iter().sum::<u64>() as f64
    }
}

/// Sends accesses through empty caches, the one next to the processor first. Those of `warm`
/// fill them and are not counted.
pub fn simulate(levels: &[Geometry], warm: &[Access], counted: &[Access]) -> Answered {
    let mut levels: Vec<Cache> = levels.iter().map(|&geometry| Cache::new(geometry)).collect();
    let mut pass = |accesses: &[Access]| {
        let mut answered = vec![0; levels.len() + 1];
        let block = levels[0].geometry.block;
        for Access { address, len } in accesses {
            for number in address / block..=(address + len - 1) / block {
                let level = levels.iter_mut().position(|level| level.touch(number * block));
                answered[level.unwrap_or(levels.len())] += 1;
            }
        }
        Answered(answered)
    };
    pass(warm);
    pass(counted)
}

#[cfg(test)]
mod tests {
    use forebay_packet::random::Random;

    use super::*;

    /// Reads of single bytes.
    fn bytes(addresses: impl IntoIterator<Item = usize>) -> Vec<Access> {
        addresses.into_iter().map(|address| Access { address, len: 1 }).collect()
    }

    fn one(bytes: usize, ways: usize, block: usize) -> Geometry {
        Geometry { bytes, ways, block }
    }

    /// A level as a list of all blocks ever used, with the time of the last use.
    struct Naive {
        geometry: Geometry,
        used: Vec<(usize, usize)>,
    }

    impl Naive {
        /// A block is there if less than `ways` others of its set were used since.
        fn touch(&mut self, address: usize, now: usize) -> bool {
            let Geometry { bytes, ways, block } = self.geometry;
            let (number, sets) = (address / block, bytes / block / ways);
            let last = self.used.iter().find(|&&(other, _)| other == number).map(|&(_, at)| at);
            let since =
                |&&(other, at): &&(usize, usize)| other % sets == number % sets && Some(at) > last;
            let is_there = last.is_some() && self.used.iter().filter(since).count() < ways;
            self.used.retain(|&(other, _)| other != number);
            self.used.push((number, now));
            is_there
        }
    }

    #[test]
    fn caches_are_those_of_a_naive_model() {
        let mut random = Random::new(1);
        for round in 0..60 {
            let block = 16 << random.below(3);
            let geometry = |size: u64, random: &mut Random| {
                let ways = 1 << random.below(4);
                one((block * ways) << random.below(size), ways, block)
            };
            let levels = [geometry(4, &mut random), geometry(6, &mut random)];
            let space = 1 << random.between(8, 14);
            let accesses: Vec<Access> = (0..1_000)
                .map(|_| {
                    let address = random.below(space).min(random.below(space)) as usize;
                    Access { address, len: 1 + random.index(70) }
                })
                .collect();
            let mut naive = levels.map(|geometry| Naive { geometry, used: Vec::new() });
            let mut answered = [0; 3];
            for (now, &Access { address, len }) in accesses.iter().enumerate() {
                let mut blocks: Vec<usize> =
                    (address..address + len).map(|at| at / block).collect();
                blocks.dedup();
                for at in blocks {
                    let now = now * 100 + at - address / block;
                    let level = naive.iter_mut().position(|level| level.touch(at * block, now));
                    answered[level.unwrap_or(2)] += u64::from(now >= 30_000);
                }
            }
            let (warm, counted) = accesses.split_at(300);
            let simulated = simulate(&levels, warm, counted);
            assert_eq!(simulated.0, answered, "{round}: {levels:?}");
        }
    }

    #[test]
    fn known_traces_have_known_misses() {
        let misses = |geometry, accesses: &[Access]| simulate(&[geometry], &[], accesses).missed(0);
        // Byte by byte through 1,024: each block once, and again if the cache is smaller.
        let twice = bytes((0..1_024).chain(0..1_024));
        assert_eq!(misses(one(1_024, 4, 32), &twice), 32);
        assert_eq!(misses(one(1_024, 1, 64), &twice), 16);
        assert_eq!(misses(one(512, 16, 32), &twice), 64);
        // Two blocks of one set: one way misses each time, two ways twice.
        let alternating = bytes([0, 1_024].repeat(50));
        assert_eq!(misses(one(1_024, 1, 32), &alternating), 100);
        assert_eq!(misses(one(1_024, 2, 32), &alternating), 2);
        // The least recently used of a, b, c is replaced: a, b, a, c, a hits; b misses.
        let order = bytes([0, 64, 0, 128, 0, 64]);
        assert_eq!(misses(one(64, 2, 32), &order), 4);
        // A read over a border is of two blocks.
        let wide = [Access { address: 60, len: 8 }];
        assert_eq!(simulate(&[one(1_024, 4, 32)], &[], &wide).0, [0, 2]);
    }

    #[test]
    fn the_second_level_gets_what_the_first_missed() {
        let levels = [one(64, 2, 32), one(256, 8, 32)];
        let round = bytes((0..4).map(|block| block * 32));
        let answered = simulate(&levels, &round, &round);
        assert_eq!(answered.0, [0, 4, 0]);
        assert_eq!((answered.ratio(0), answered.ratio(1)), (1.0, 0.0));
        let warm = simulate(&levels, &round, &bytes([96, 64, 0]));
        assert_eq!(warm.0, [2, 1, 0]);
    }
}
