//! The caches of this machine, and the latencies of its levels.
//!
//! A latency is the time of a step along a chain of pointers, one a line, in one circle of
//! random order: each load needs the one before, and no prefetcher knows the next. The chain
//! fills half of its level, eight times the last level for memory. Pages are the system's
//! usual ones, so that the longer chains include the translation of addresses, as look-ups in
//! a large table do.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use forebay_packet::random::Random;

use super::simulator::Geometry;

/// Numbers of a line.
const LINE: usize = 64 / size_of::<usize>();

/// Steps of a measurement, and the most before it.
const STEPS: usize = 1 << 16;
const WARM_UP: usize = 1 << 18;

/// The caches of a system that does not describe them.
const ASSUMED: [Geometry; 2] = [
    Geometry { bytes: 32 << 10, ways: 8, block: 64 },
    Geometry { bytes: 1 << 20, ways: 16, block: 64 },
];

/// The data caches of the first processor, from the first level, and where that is from.
pub fn caches() -> (Vec<Geometry>, &'static str) {
    let cache = |index: usize| {
        let field = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
            fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        let (ways, block) = (field("ways_of_associativity")?, field("coherency_line_size")?);
        let kib: usize = field("size")?.strip_suffix('K')?.parse().ok()?;
        let (ways, block) = (ways.parse().ok()?, block.parse().ok()?);
        let is_whole = ways > 0 && block > 0 && (kib * 1024).is_multiple_of(ways * block);
        let holds_data = field("type")? != "Instruction" && is_whole;
        holds_data.then_some(Geometry { bytes: kib * 1024, ways, block })
    };
    let caches: Vec<Geometry> = (0..8).filter_map(cache).collect();
    match caches.is_empty() {
        true => (ASSUMED.to_vec(), "that are assumed, as the system describes none"),
        false => (caches, "of this machine"),
    }
}

/// A circle of pointers.
#[derive(Debug)]
pub struct Chain {
    /// The name of the level.
    pub name: String,
    /// At each place that begins a line, the place of the next.
    places: Vec<usize>,
    at: usize,
}

impl Chain {
    /// A chain for each level and for memory.
    pub fn of(caches: &[Geometry]) -> Vec<Self> {
        let last = caches.last().map_or(0, |cache| cache.bytes);
        let levels = caches.iter().zip(1..).map(|(cache, n)| (format!("l{n}"), cache.bytes / 2));
        let memory = ("memory".to_owned(), last * 8);
        levels.chain([memory]).map(|(name, bytes)| Self::new(name, bytes)).collect()
    }

    /// One circle over all lines (Sattolo's shuffle).
    fn new(name: String, bytes: usize) -> Self {
        let lines = (bytes / size_of::<usize>() / LINE).max(1);
        let mut places = vec![0; lines * LINE];
        let mut random = Random::new(bytes as u64);
        (0..lines).for_each(|line| places[line * LINE] = line * LINE);
        for line in (1..lines).rev() {
            places.swap(line * LINE, random.index(line) * LINE);
        }
        Self { name, places, at: 0 }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// Nanoseconds of a step.
    pub fn nanos(&mut self) -> f64 {
        let mut at = self.at;
        // After a turn, a circle of this length is in its level.
        for _ in 0..(self.places.len() / LINE).min(WARM_UP) {
            at = self.places[at];
        }
        let started = Instant::now();
        for _ in 0..STEPS {
            at = self.places[at];
        }
        let nanos = started.elapsed().as_nanos() as f64;
        self.at = black_box(at);
        nanos / STEPS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_one_circle_over_all_lines() {
        let chain = Chain::new(String::new(), 100 * 64);
        let mut at = 0;
        let mut steps = 0;
        loop {
            at = chain.places[at];
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!((steps, chain.bytes()), (100, 6_400));
        assert_eq!(Chain::new(String::new(), 0).places[0], 0);
    }
}
