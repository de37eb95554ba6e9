//! Choosing the bits of a key by which a node selects a child.
//!
//! A node takes up to 16 bits out of one word of the key. They are chosen one
//! by one: each time the bit that makes the sum of the squares of what falls
//! to the children least. That sum is the expected number of rules met by a
//! packet that was drawn from a random rule, times the number of rules, and
//! counts a rule that does not care about the bit in both halves, so wildcards
//! that would be copied are paid for.

use super::budget::Budget;
use crate::atom::Ternary;
use forebay_packet::cancel;

/// The bits that a node extracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The word of the key.
    pub word: usize,
    /// The bits of it; as many as the logarithm of the children.
    pub mask: u64,
}

/// A bit is taken if it lowers the sum at least to this part of it.
const WORTH: f64 = 0.93;

/// How far a node may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Lists of this length need no cut.
    pub leaf: usize,
    /// The most bits of a node.
    pub bits: u32,
    /// Copies that are worth making, in entries after the cut for each before.
    pub growth: f64,
    /// Children for each entry.
    pub children: usize,
}

/// A word of each atom, distinguished by the bits chosen so far.
struct Split {
    /// The atoms' words, those of a child together.
    entries: Vec<Ternary>,
    /// The children that are still too long, as ranges of `entries`.
    long: Vec<(usize, usize)>,
    /// Sum of the squares of the short ones.
    settled: f64,
    /// Entries of the short ones.
    settled_entries: usize,
}

impl Cut {
    /// The best cut of atoms whose words are `words[atom][word]`; none if no
    /// cut parts them, or the budget is spent.
    pub fn choose(words: &[&[Ternary]], limits: &Limits, budget: &mut Budget) -> Option<Self> {
        let count = words.first()?.len();
        let best = |word: usize| {
            let entries: Vec<_> = words.iter().map(|of_atom| of_atom[word]).collect();
            Self::within(word, entries, limits, budget)
        };
        let cuts: Vec<_> = (0..count).filter_map(best).collect();
        if budget.is_spent() {
            return None;
        }
        let cuts = cuts.into_iter();
        cuts.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(cut, _)| cut)
    }

    /// The best cut within one word and what it costs.
    fn within(
        word: usize,
        entries: Vec<Ternary>,
        limits: &Limits,
        budget: &mut Budget,
    ) -> Option<(Self, f64)> {
        let total = entries.len();
        let mut cost = (total * total) as f64;
        let mut mask = 0_u64;
        let mut split = Split { long: vec![(0, total)], entries, settled: 0.0, settled_entries: 0 };
        while mask.count_ones() < limits.bits && !split.long.is_empty() {
            let children = 2_usize << mask.count_ones();
            if children > (limits.children * total).max(16) {
                break;
            }
            if !budget.spend(split.long.iter().map(|(start, end)| end - start).sum()) {
                return None;
            }
            let (bit, next) = split.best_bit(mask)?;
            if next >= WORTH * cost {
                break;
            }
            let parted = split.by(bit, limits.leaf);
            if parted.entries.len() + parted.settled_entries
                > (total as f64 * limits.growth) as usize
            {
                break;
            }
            split = parted;
            mask |= 1 << bit;
            cost = next;
        }
        (mask != 0).then_some((Self { word, mask }, cost))
    }
}

impl Split {
    /// The bit outside `taken` that leaves the least sum of squares, and that.
    fn best_bit(&self, taken: u64) -> Option<(u32, f64)> {
        let mut sums = [0.0_f64; 64];
        for &(start, end) in &self.long {
            let (zeros, ones) = counts(&self.entries[start..end]);
            let len = end - start;
            for ((sum, zeros), ones) in sums.iter_mut().zip(zeros).zip(ones) {
                let (low, high) = ((len - ones as usize) as f64, (len - zeros as usize) as f64);
                *sum += low * low + high * high;
            }
        }
        let free = (0..64).filter(|bit| taken >> bit & 1 == 0);
        let best = free.min_by(|&a, &b| sums[a as usize].total_cmp(&sums[b as usize]))?;
        Some((best, sums[best as usize] + self.settled))
    }

    fn by(&self, bit: u32, leaf: usize) -> Self {
        let mut next = Self {
            entries: Vec::with_capacity(self.entries.len()),
            long: Vec::with_capacity(2 * self.long.len()),
            settled: self.settled,
            settled_entries: self.settled_entries,
        };
        for &(start, end) in &self.long {
            cancel::check();
            for side in [0, 1] {
                let from = next.entries.len();
                let stays =
                    |entry: &&Ternary| entry.care >> bit & 1 == 0 || entry.value >> bit & 1 == side;
                next.entries.extend(self.entries[start..end].iter().filter(stays));
                let len = next.entries.len() - from;
                if len > leaf {
                    next.long.push((from, from + len));
                } else {
                    next.entries.truncate(from);
                    next.settled += (len * len) as f64;
                    next.settled_entries += len;
                }
            }
        }
        next
    }
}

/// For each bit, how many of `entries` ask for a 0 and how many for a 1.
fn counts(entries: &[Ternary]) -> ([u32; 64], [u32; 64]) {
    let (mut zeros, mut ones) = ([0_u32; 64], [0_u32; 64]);
    for (at, entry) in entries.iter().enumerate() {
        if at % 8192 == 0 {
            cancel::check();
        }
        let asked = entry.care & !entry.value;
        for (bit, (zero, one)) in zeros.iter_mut().zip(&mut ones).enumerate() {
            *zero += (asked >> bit) as u32 & 1;
            *one += (entry.value >> bit) as u32 & 1;
        }
    }
    (zeros, ones)
}
