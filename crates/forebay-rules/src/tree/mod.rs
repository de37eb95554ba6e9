//! `tree`: the classifier for large lists.
//!
//! Three structures, each exact, whose least label decides:
//!
//! 1. **Trees** (`cut`, `cut_tree`, `layout`). Atoms are parted into at most three
//!    groups by which of their addresses are specific. Within a group there are
//!    key bits that nearly every atom tests; each node takes up to 16 of
//!    them at once (one `pext`), so that 100,000 atoms come down to lists of
//!    eight or less within a few steps, with next to no copies. A list is held
//!    against the packet in one go (`Block`).
//! 2. **Bit vectors** (`wildcards`) for the atoms that say little of addresses.
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
mod bits;
mod block;
mod budget;
mod build;
mod cut;
mod cut_tree;
mod error;
pub(crate) mod generation;
pub(crate) mod kernel;
mod labels;
mod layout;
mod matcher;
mod ranges;
mod rate;
pub(crate) mod side;
mod update;
mod wildcards;

use crate::engine::{Engine, NO_RULE};
use crate::packed::{Key4, Key6};
use crate::rule::{Family, Rule, RuleList};
use build::{Built, matchers};
pub use error::{LEAST_RATE, MAX_RULES, TreeError};
use forebay_codegen::code::Isa;
use kernel::TreeKey;
use labels::Labels;
use matcher::Matcher;
pub use rate::{Bound, Estimate};

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
        kernel::least_labels(self.isa, matchers, keys, rules);
        for rule in rules {
            *rule = self.labels.index(*rule).map_or(NO_RULE, |index| index as u32);
        }
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
