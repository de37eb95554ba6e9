//! A filter of all positions, in registers: windows in 8 buckets, and for each byte of a window the
//! set of buckets that have it there.
//!
//! This is Teddy, of Hyperscan (Wang et al., "Hyperscan: a fast multi-pattern regex matcher for
//! modern CPUs", NSDI 2019). AVX-512 takes 7 bits of a byte by one look-up in 128 bytes, AVX2 takes
//! its halves by two in 16.

use super::model::Probabilities;

const BUCKETS: usize = 8;

/// Buckets of windows of up to 4 bytes.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// For each byte of the window, and for each value of its low 7 bits, a bit for each bucket;
    /// the values in two halves.
    halves: [[[u8; 64]; 2]; 4],
    /// The same for pairs of bytes, by [`pair_hash`].
    pairs: [[[u8; 64]; 2]; 3],
    /// The same for the values of a byte's low and high 4 bits.
    nibbles: [[[u8; 16]; 2]; 4],
}

/// The low 7 bits of the sum of a byte, doubled, and the next one: letters of a language follow
/// each other in some pairs only.
fn pair_hash(pair: &[u8]) -> usize {
    usize::from(pair[0].wrapping_mul(2).wrapping_add(pair[1]) & 127)
}

impl Buckets {
    /// Buckets of these windows, each once. Puts each window into the bucket whose probability to pass grows least by it.
    pub fn new(mut windows: Vec<u32>, probabilities: &Probabilities) -> Self {
        // Frequent windows first: rare ones then get buckets without frequent bytes.
        let probability = |window: &u32| probabilities.of(&window.to_le_bytes());
        windows.sort_unstable_by(|one, other| {
            probability(other).total_cmp(&probability(one)).then(one.cmp(other))
        });
        let mut buckets = Self {
            halves: [[[0; 64]; 2]; 4],
            pairs: [[[0; 64]; 2]; 3],
            nibbles: [[[0; 16]; 2]; 4],
        };
        let mut sums = [[0.0; 4]; BUCKETS];
        for window in windows {
            let bytes = window.to_le_bytes();
            let grown: [[f32; 4]; BUCKETS] = std::array::from_fn(|bucket| {
                std::array::from_fn(|at| {
                    let low = bytes[at] & 127;
                    let has = buckets.has(at, low, bucket);
                    sums[bucket][at] + if has { 0.0 } else { probabilities.of_low_bits(low) }
                })
            });
            let growth = |bucket: usize| {
                grown[bucket].iter().product::<f32>() - sums[bucket].iter().product::<f32>()
            };
            let least = (0..BUCKETS).min_by(|one, other| growth(*one).total_cmp(&growth(*other)));
            let bucket = least.expect("there are buckets");
            sums[bucket] = grown[bucket];
            buckets.add(bytes, bucket);
        }
        buckets
    }

    fn has(&self, at: usize, low: u8, bucket: usize) -> bool {
        self.halves[at][usize::from(low >> 6)][usize::from(low & 63)] >> bucket & 1 == 1
    }

    fn add(&mut self, window: [u8; 4], bucket: usize) {
        for (at, byte) in window.map(usize::from).into_iter().enumerate() {
            self.halves[at][byte >> 6 & 1][byte & 63] |= 1 << bucket;
            self.nibbles[at][0][byte & 15] |= 1 << bucket;
            self.nibbles[at][1][byte >> 4] |= 1 << bucket;
        }
        for (at, pair) in window.windows(2).map(pair_hash).enumerate() {
            self.pairs[at][pair >> 6][pair & 63] |= 1 << bucket;
        }
    }

    pub fn halves(&self) -> &[[[u8; 64]; 2]; 4] {
        &self.halves
    }

    pub fn pairs(&self) -> &[[[u8; 64]; 2]; 3] {
        &self.pairs
    }

    pub fn nibbles(&self) -> &[[[u8; 16]; 2]; 4] {
        &self.nibbles
    }
}
