//! Hash tables of 32-bit constants, for membership tests in generated code.
//!
//! Buckets are as wide as one vector comparison. The bucket of a number is the
//! high bits of its product with an odd multiplier (multiplicative hashing:
//! Knuth, "The Art of Computer Programming", section 6.4), so a lookup is a
//! multiplication, a shift and one comparison of a whole bucket, without
//! probing. The multiplier is searched for, so that no bucket overflows. Such a
//! family of functions is almost universal (Dietzfelbinger et al., "A reliable
//! randomized algorithm for the closest-pair problem"), so a few tries suffice,
//! and more buckets where they do not.
//!
//! Slots have no "free" flag. A free slot repeats a constant of its own bucket,
//! or, in a bucket without any, holds a constant of another bucket, which no
//! lookup in this bucket has.

use forebay_packet::random::Random;

/// Multipliers tried before the number of buckets is doubled.
const TRIES: u32 = 24;

/// The most slots that a table may have for each constant.
const MAX_SLOTS_PER_CONSTANT: usize = 1024;

/// A set of 32-bit constants, laid out for lookup by generated code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTable {
    /// The multiplier, modulo 2³².
    pub multiplier: u32,
    /// The right shift of the product that gives the bucket; 32 for a table of
    /// one bucket, which needs no computation.
    pub shift: u32,
    /// Slots a bucket, each of four bytes.
    pub bucket: usize,
    /// The slots, one bucket after another.
    pub slots: Vec<u32>,
}

impl SetTable {
    /// The table of `constants` with `bucket` slots a bucket. The same
    /// constants give the same table.
    ///
    /// Returns `None` if there are no constants, or if no multiplier that was
    /// tried spreads them over at most a thousand times as many slots: a set
    /// constructed against the multipliers.
    #[must_use]
    pub fn build(constants: &[u32], bucket: usize) -> Option<Self> {
        if constants.is_empty() || bucket == 0 {
            return None;
        }
        if constants.len() <= bucket {
            let mut slots = constants.to_vec();
            slots.resize(bucket, constants[0]);
            return Some(Self { multiplier: 1, shift: 32, bucket, slots });
        }
        let most = constants.len().saturating_mul(MAX_SLOTS_PER_CONSTANT) / bucket;
        let mut sequence = multipliers(constants);
        let mut bits = first_bits(constants.len(), bucket);
        let mut counts = Vec::new();
        while bits < 32 && 1_usize << bits <= most {
            for _ in 0..TRIES {
                let multiplier = multiplier(&mut sequence);
                if fits(constants, multiplier, bits, bucket, &mut counts) {
                    return Some(fill(constants, multiplier, 32 - bits, bucket, &mut counts));
                }
            }
            bits += 1;
        }
        None
    }

    /// The number of buckets, a power of two.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.slots.len() / self.bucket
    }

    /// The bucket of `number`.
    #[must_use]
    pub fn bucket_of(&self, number: u32) -> usize {
        number.wrapping_mul(self.multiplier).checked_shr(self.shift).unwrap_or(0) as usize
    }

    /// Whether `number` is in the set, by the lookup of generated code.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        let start = self.bucket_of(number) * self.bucket;
        self.slots[start..start + self.bucket].contains(&number)
    }

    /// The slots as they lie in memory, to be aligned to the size of a bucket.
    ///
    /// # Panics
    /// If a number could be looked up outside the table, which generated code
    /// does not check.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let last = u32::MAX.checked_shr(self.shift).unwrap_or(0) as usize;
        assert!((last + 1) * self.bucket <= self.slots.len(), "a bucket for each number");
        self.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect()
    }
}

/// Logarithm of the initial number of buckets, for which a good part of all
/// multipliers fit. Wide buckets may be filled more than narrow ones.
fn first_bits(constants: usize, bucket: usize) -> u32 {
    let mean = match bucket {
        0..=4 => 1,
        5..=8 => 2,
        _ => bucket / 2,
    };
    constants.div_ceil(mean).next_power_of_two().trailing_zeros().max(1)
}

/// Whether no bucket of 2^`bits` overflows under `multiplier`; leaves the load
/// of each in `counts`.
fn fits(
    constants: &[u32],
    multiplier: u32,
    bits: u32,
    bucket: usize,
    counts: &mut Vec<u32>,
) -> bool {
    counts.clear();
    counts.resize(1 << bits, 0);
    constants.iter().all(|constant| {
        let count = &mut counts[(constant.wrapping_mul(multiplier) >> (32 - bits)) as usize];
        *count += 1;
        *count as usize <= bucket
    })
}

/// The table for a multiplier that fits.
fn fill(
    constants: &[u32],
    multiplier: u32,
    shift: u32,
    bucket: usize,
    counts: &mut [u32],
) -> SetTable {
    let hash = |constant: u32| (constant.wrapping_mul(multiplier) >> shift) as usize;
    let mut slots = vec![constants[0]; counts.len() * bucket];
    counts.fill(0);
    for &constant in constants {
        let index = hash(constant);
        let row = &mut slots[index * bucket..(index + 1) * bucket];
        if counts[index] == 0 {
            row.fill(constant);
        } else {
            row[counts[index] as usize] = constant;
        }
        counts[index] += 1;
    }
    SetTable { multiplier, shift, bucket, slots }
}

/// Odd multipliers in an order that depends on the constants.
fn multipliers(constants: &[u32]) -> Random {
    Random::new(constants.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |seed, &constant| {
        (seed ^ u64::from(constant)).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29)
    }))
}

/// The next multiplier.
fn multiplier(sequence: &mut Random) -> u32 {
    (sequence.next() >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets of the kinds that filters have: spread, consecutive, and equal in
    /// their low or high bits.
    fn sets(size: u32) -> [Vec<u32>; 4] {
        let mut sequence = Random::new(u64::from(size));
        let mut spread: Vec<u32> = (0..size).map(|_| multiplier(&mut sequence)).collect();
        spread.sort_unstable();
        spread.dedup();
        [
            spread,
            (0..size).map(|i| 0x0a00_0000 + i).collect(),
            (0..size).map(|i| i << 16).collect(),
            (0..size).map(|i| 0xc0a8_0001 + (i << 8)).collect(),
        ]
    }

    #[test]
    fn holds_what_it_was_built_of_and_nothing_else() {
        for size in [1, 2, 4, 5, 8, 9, 16, 17, 100, 1000, 3000, 20_000] {
            for set in sets(size) {
                for bucket in [4, 8, 16] {
                    let table = SetTable::build(&set, bucket).expect("it can be spread");
                    assert_eq!(table.slots.len(), table.buckets() * bucket);
                    assert!(table.buckets().is_power_of_two());
                    let mut sorted = set.clone();
                    sorted.sort_unstable();
                    for &constant in &set {
                        assert!(table.contains(constant));
                        for near in [constant.wrapping_add(1), !constant, constant.swap_bytes()] {
                            assert_eq!(table.contains(near), sorted.binary_search(&near).is_ok());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_set_that_fits_one_bucket_needs_no_hash() {
        let table = SetTable::build(&[7, 9], 8).expect("two constants");
        assert_eq!((table.buckets(), table.shift), (1, 32));
        assert_eq!(table.slots, [7, 9, 7, 7, 7, 7, 7, 7]);
        assert!(SetTable::build(&[], 8).is_none());
    }

    #[test]
    #[should_panic(expected = "a bucket for each number")]
    fn a_table_that_lacks_a_bucket_is_refused() {
        let mut table = SetTable::build(&[1, 2, 3, 4, 5, 6], 4).expect("it can be spread");
        assert_eq!(table.bytes().len(), 4 * table.slots.len());
        table.slots.pop();
        let _ = table.bytes();
    }

    #[test]
    fn tables_stay_small() {
        for set in sets(3000) {
            for (bucket, most) in [(4, 16 * 4096 * 4), (8, 4096 * 32), (16, 1024 * 64)] {
                let table = SetTable::build(&set, bucket).expect("it can be spread");
                assert!(table.bytes().len() <= most, "{} bytes", table.bytes().len());
            }
        }
    }
}
