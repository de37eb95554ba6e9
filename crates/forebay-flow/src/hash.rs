//! The keyed hash by which a table finds its buckets.
//!
//! With AES instructions, a key is one block under four rounds with secret round keys, and 64
//! bits of the result are used. No difference of two blocks leads to a certain difference of
//! the results with more than a probability of about 2^-110 (Keliher and Sui, "Exact maximum
//! expected differential and linear probability for two-round AES", 2007, for four rounds); that
//! parts of the result are as hard to aim at is usual to assume, not proven. Elsewhere it is
//! SipHash-1-3. A table keeps one hash as long as it lives.

use forebay_packet::{HashKey, siphash13};

use crate::level::Level;

/// Rounds of AES.
const ROUNDS: usize = 4;

/// The key of a table's hash.
#[derive(Clone, Debug)]
pub struct Secret {
    pub(crate) key: HashKey,
    /// One before the first round, one for each round.
    pub(crate) round_keys: [u128; ROUNDS + 1],
    /// The one before the first round, where a key is several blocks.
    pub(crate) first_of_many: u128,
    /// One that this machine has.
    pub(crate) level: Level,
    /// This machine has VAES: the same rounds for four blocks at once.
    pub(crate) has_vaes: bool,
}

impl Secret {
    pub(crate) fn new(key: HashKey, level: Level) -> Self {
        let word = |n: usize| u128::from(siphash13(&key, &[n as u64]));
        let round_keys = std::array::from_fn(|n| word(2 * n) | word(2 * n + 1) << 64);
        let first_of_many = word(2 * ROUNDS + 2) | word(2 * ROUNDS + 3) << 64;
        // Kernels are called by the level, which the machine must have.
        let level = if level.is_here() { level } else { Level::Scalar };
        #[cfg(target_arch = "x86_64")]
        let has_vaes = is_x86_feature_detected!("vaes");
        #[cfg(not(target_arch = "x86_64"))]
        let has_vaes = false;
        Self { key, round_keys, first_of_many, level, has_vaes }
    }

    /// SipHash of an entry's key.
    pub(crate) fn siphash(&self, key: u128) -> u64 {
        siphash13(&self.key, &[key as u64, (key >> 64) as u64])
    }
}
