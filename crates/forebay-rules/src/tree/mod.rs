//! `tree`: the classifier for large lists.
//!
//! Three structures, each exact, whose least label decides:
//!
//! 1. **Trees** (`cut`, `plan`, `layout`). Atoms are parted into at most three
//!    groups by which of their addresses are specific. Within a group there are
//!    key bits that nearly every atom tests; each node takes up to 16 of
//!    them at once (one `pext`), so that 100,000 atoms come down to lists of
//!    eight or less within a few steps, with next to no copies. A list is held
//!    against the packet in one go (`Block`).
//! 2. **Bit vectors** (`wild`) for the atoms that say little of addresses.
//! 3. **Ranges** (`ranges`) for the rules that prefixes and cuts would multiply
//!    beyond what their building may spend.
//!
//! Protocols and flags are a dictionary's ([`Tests`](crate::atom::Tests)).
//!
//! The ideas of parting by specificity are of EffiCuts (Vamanan, Voskuilen and
//! Vijaykumar, SIGCOMM 2010), of cutting by chosen bits of BitCuts (Liu et al.,
//! 2017) and ByteCuts (Daly and Torng, INFOCOM 2018).
//!
//! What the work for a packet is at most is known when the structure is built:
//! [`Tree::bound`].

mod arena;
mod build;
mod cut;
mod generation;
mod kernel;
mod labels;
mod layout;
mod live;
mod plan;
mod ranges;
mod rate;
mod side;
mod update;
mod wildcards;

use crate::atom::TooManyAtoms;
use crate::engine::{Engine, NO_RULE};
use crate::packed::{Key4, Key6};
use crate::rule::{Family, Rule, RuleList, RuleName};
use build::{Built, matchers};
use forebay_codegen::code::Isa;
use kernel::{Matcher, TreeKey};
use labels::{Labels, NO_LABEL};
pub use live::{
    Difference, Edit, InForce, Live, LiveError, LiveReader, Named, Place, Reading, RuleId, View,
};
pub use rate::{Estimate, LEAST_RATE};

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

/// A list that could not be made into an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A rule has too many combinations.
    #[error(transparent)]
    Atoms(#[from] TooManyAtoms),
    /// The list would be matched too slowly.
    #[error(
        "the list would be matched at about {rate} packets a second and core, expected at least \
         {LEAST_RATE}: {ranged} of its {rules} rules overlap in too many fields to be told apart; \
         {worst} has most combinations of address and port ranges, {atoms}"
    )]
    TooSlow {
        /// Packets a second that are expected.
        rate: u64,
        /// Rules that are matched by their ranges.
        ranged: usize,
        /// Rules of the list.
        rules: usize,
        /// The rule that has most combinations.
        worst: RuleName,
        /// How many those are.
        atoms: usize,
    },
    /// The list takes too many blocks.
    #[error(
        "the list takes {blocks} blocks of rules and {slots} places to find them, \
         expected at most {} and {}",
        layout::MAX_BLOCKS,
        layout::MAX_SLOTS
    )]
    Blocks {
        /// Blocks of eight rules.
        blocks: usize,
        /// Children of nodes.
        slots: usize,
    },
    /// The list is too long.
    #[error("{rules} rules in a list, expected at most {MAX_RULES}")]
    Rules {
        /// How many rules there are.
        rules: usize,
    },
}

/// The longest list.
pub const MAX_RULES: usize = (1 << 24) - 1;

/// The classifier for large lists.
pub struct Tree {
    v4: Vec<Matcher<1>>,
    v6: Vec<Matcher<4>>,
    labels: Labels,
    isa: Isa,
    bounds: [Bound; 2],
    estimate: Estimate,
}

impl Tree {
    /// Builds the classifier for `list`, to run with the instructions of `isa`.
    ///
    /// # Errors
    /// If the list is too long, or one of its rules too large.
    ///
    /// # Panics
    /// If this machine has not got `isa`.
    pub fn new(list: &RuleList, isa: Isa) -> Result<Self, TreeError> {
        assert_eq!(forebay_jit::cpu::require(isa), Ok(()), "the machine has the level");
        let rules = list.rules.len();
        if rules > MAX_RULES {
            return Err(TreeError::Rules { rules });
        }
        let labels = Labels::of(rules);
        let of_family = |family| -> Vec<(u32, &Rule)> {
            let rules = list.rules.iter().enumerate();
            rules
                .filter(|(_, rule)| rule.family == family)
                .map(|(index, rule)| (labels.label(index), rule))
                .collect()
        };
        let four: Built<1> = matchers(&of_family(Family::Ipv4), Family::Ipv4, 0)?;
        let six: Built<4> = matchers(&of_family(Family::Ipv6), Family::Ipv6, 0)?;
        let isa = kernel::supported(isa);
        Ok(Self {
            bounds: [four.bound, six.bound],
            estimate: Estimate::of([four.cost, six.cost], isa),
            v4: four.matchers,
            v6: six.matchers,
            labels,
            isa,
        })
    }

    /// How fast the list is expected to be matched, and how.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// The most work that a packet of `family` can make.
    #[must_use]
    pub fn bound(&self, family: Family) -> Bound {
        self.bounds[usize::from(family == Family::Ipv6)]
    }

    fn classify<const Q: usize, K: TreeKey>(
        &self,
        matchers: &[Matcher<Q>],
        keys: &[K],
        rules: &mut [u32],
    ) {
        least_labels(self.isa, matchers, keys, rules);
        for rule in rules {
            *rule = self.labels.index(*rule).map_or(NO_RULE, |index| index as u32);
        }
    }
}

/// Writes the least label that each key matches.
fn least_labels<const Q: usize, K: TreeKey>(
    isa: Isa,
    matchers: &[Matcher<Q>],
    keys: &[K],
    labels: &mut [u32],
) {
    assert_eq!(keys.len(), labels.len(), "a place for each key");
    labels.fill(NO_LABEL);
    for matcher in matchers {
        kernel::classify(isa, matcher, keys, labels);
    }
}

impl Engine for Tree {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        self.classify(&self.v4, keys, rules);
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        self.classify(&self.v6, keys, rules);
    }

    fn bytes(&self) -> usize {
        self.v4.iter().map(Matcher::bytes).sum::<usize>()
            + self.v6.iter().map(Matcher::bytes).sum::<usize>()
    }
}
