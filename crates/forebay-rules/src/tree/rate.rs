//! How fast a list is matched, as estimated when it is built.

use super::TreeError;
use super::ranges::Work;
use crate::atom::Extent;
use crate::rule::{Rule, RuleList, RuleName};
use forebay_codegen::code::Isa;
use std::fmt;

/// Packets a second, on one core, that a list has to be matched with at least.
pub const LEAST_RATE: u64 = 500_000;

/// What a packet costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
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
            Isa::Avx2 | Isa::Avx512Bw => (2.0, 80.0),
            Isa::Avx512Vbmi => (1.0, 65.0),
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
    pub(super) fn of(costs: [Cost; 2], isa: Isa) -> Self {
        let rates = costs.map(|cost| cost.rate(isa) as u64);
        Self {
            rate: rates[0].min(rates[1]),
            ranged: costs.iter().map(|cost| cost.ranged).sum(),
            atoms: costs.iter().fold(0, |all, cost| all.saturating_add(cost.atoms)),
        }
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
