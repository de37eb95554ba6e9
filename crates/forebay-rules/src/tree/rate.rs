//! What matching costs: bounds and estimates, made when a list is built.

use super::error::{LEAST_RATE, TreeError};
use super::kernel::ranges::{Numbers, Tally, visit};
use super::labels::NO_LABEL;
use super::ranges::{ALWAYS, Cuboid, FIELDS, Ranges};
use crate::atom::Extent;
use crate::rule::{Rule, RuleList, RuleName};
use forebay_codegen::code::Isa;
use forebay_packet::cancel;
use forebay_packet::random::Random;
use std::fmt;

/// The most work that a packet can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bound {
    /// Trees that it descends.
    pub trees: usize,
    /// Nodes that it passes in all of them.
    pub nodes: usize,
    /// Blocks of eight rules that it is held against.
    pub blocks: usize,
    /// Vectors of 512 bits that are joined for it.
    pub vectors: usize,
    /// Blocks of sixteen ranges that it is held against, if it is in all.
    pub ranges: usize,
}

/// Steps of a search in ranges, on the average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Blocks that a packet is held against.
    pub blocks: f64,
    /// Checks that it is put to.
    pub checks: f64,
    /// Bytes of all blocks.
    pub bytes: f64,
    /// Whether its addresses have to be numbered.
    pub numbers: bool,
}

impl Work {
    /// What packets cost that lie in boxes, or in one box by some of their
    /// numbers and in others by the rest.
    pub fn of(ranges: &Ranges, boxes: &[Cuboid]) -> Self {
        const SAMPLES: u64 = 2048;
        let mut random = Random::new(1);
        let mut tally = Tally::default();
        for sample in 0..SAMPLES {
            cancel::check();
            let of = |random: &mut Random| &boxes[random.below(boxes.len() as u64) as usize];
            let (one, other) = (*of(&mut random), *of(&mut random));
            // In the box; in another by one number; in others by every one.
            let from_other = match sample % 4 {
                0 => 0,
                1 | 2 => 1 << random.below(FIELDS as u64),
                _ => random.below(1 << FIELDS),
            };
            let number = |field: usize, random: &mut Random| {
                let of = if from_other >> field & 1 == 0 { &one } else { &other };
                match random.below(3) {
                    0 => of.low[field],
                    1 => of.high[field],
                    _ => {
                        let size = u64::from(of.high[field] - of.low[field]) + 1;
                        of.low[field] + random.below(size) as u32
                    }
                }
            };
            let numbers = std::array::from_fn(|field| number(field, &mut random));
            let packet = Numbers::of(numbers, one.tests | ALWAYS);
            visit(ranges, &[], &packet, NO_LABEL, &mut tally);
        }
        let mean = |count: u64| count as f64 / SAMPLES as f64;
        Self {
            blocks: mean(tally.blocks),
            checks: mean(tally.checks),
            bytes: size_of_val(&ranges.blocks[..]) as f64,
            numbers: ranges.axes.is_some(),
        }
    }
}

/// What a packet costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Cycles that it is expected to take in trees and bit vectors.
    pub trees: f64,
    /// Steps in ranges, of a packet that is hard on the list.
    pub work: Work,
    /// Rules that are matched by their ranges.
    pub ranged: usize,
    /// Atoms that those would have made.
    pub atoms: usize,
}

/// What is in reach of a processor's caches, beside what else it does.
const NEAR_BYTES: f64 = 8e6;

/// What a block of ranges takes besides where it comes from memory, what a check takes and
/// numbering the addresses of an IPv6 packet, in cycles. Measured with the suite `shapes` of
/// the benchmarks.
const FAR: f64 = 240.0;
const CHECK: f64 = 400.0;
const NUMBERING: f64 = 1500.0;

/// Cycles of a second, of the processors that rates are given for.
const CLOCK: f64 = 3e9;

impl Cost {
    /// Cycles with the instructions of `isa`.
    pub fn cycles(&self, isa: Isa) -> f64 {
        // A tree's cycles are those of AVX-512.
        let (tree, block) = match isa {
            Isa::Scalar => (8.0, 180.0),
            Isa::Avx2 => (1.1, 80.0),
            Isa::Avx512Bw | Isa::Avx512Vbmi => (1.0, 65.0),
        };
        let Work { blocks, checks, bytes, numbers } = self.work;
        let far = FAR * (1.0 - NEAR_BYTES / bytes.max(NEAR_BYTES));
        let numbering = if numbers { NUMBERING } else { 0.0 };
        tree * self.trees + (block + far) * blocks + CHECK * checks + numbering
    }

    /// Packets a second with the instructions of `isa`.
    pub fn rate(&self, isa: Isa) -> f64 {
        CLOCK / self.cycles(isa).max(1.0)
    }
}

/// What is known of a list that has been built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Packets a second that one core is expected to match, where they are hard
    /// on the list.
    pub rate: u64,
    /// Rules that are matched by their ranges.
    pub ranged: usize,
    /// Conjunctions of prefixes that those would have been.
    pub atoms: usize,
}

impl Estimate {
    /// Of the rules of both families, for a machine of level `isa`.
    pub(crate) fn of(costs: [Cost; 2], isa: Isa) -> Self {
        let rates = costs.map(|cost| cost.rate(isa) as u64);
        Self {
            rate: rates[0].min(rates[1]),
            ranged: costs.iter().map(|cost| cost.ranged).sum(),
            atoms: costs.iter().fold(0, |all, cost| all.saturating_add(cost.atoms)),
        }
    }

    /// Cycles of a packet, on the average of ClassBench lists of a thousand rules: 1.5 to 1.8 times
    /// those of the rate on a Cascade Lake, by AVX2 and AVX-512.
    pub(crate) fn mean_cycles(&self) -> f64 {
        1.65 * CLOCK / self.rate.max(1) as f64
    }

    /// Whether the list, which this is of, is matched fast enough to be used.
    ///
    /// # Errors
    /// [`TreeError::TooSlow`], with the rule that has the most combinations.
    pub fn require(&self, list: &RuleList) -> Result<(), TreeError> {
        if self.rate >= LEAST_RATE {
            return Ok(());
        }
        let atoms = |rule: &Rule| Extent::of(rule).atoms;
        // Of rules alike, the first.
        let rules = list.rules.iter().enumerate().rev();
        let Some((index, worst)) = rules.max_by_key(|(_, rule)| atoms(rule)) else {
            return Ok(());
        };
        Err(TreeError::TooSlow {
            rate: self.rate,
            ranged: self.ranged,
            rules: list.rules.len(),
            worst: RuleName::new(index, worst),
            atoms: atoms(worst),
        })
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millions = self.rate as f64 / 1e6;
        if self.ranged == 0 {
            return write!(f, "at least about {millions:.1} million packets a second and core");
        }
        write!(
            f,
            "{} of the rules are matched by their ranges, since as prefixes and cuts they would \
             multiply ({} combinations); packets that are hard on them are matched at about \
             {millions:.1} million a second and core",
            self.ranged, self.atoms
        )
    }
}
