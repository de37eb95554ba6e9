//! `tree`: the classifier for large lists.
//!
//! Three structures, each exact, whose least label decides:
//!
//! 1. **Trees** (`cut`, `plan`, `layout`). Atoms are parted into at most three
//!    groups by which of their addresses are specific. Within a group there are
//!    key bits that nearly every atom asks for; each node takes up to 16 of
//!    them at once (one `pext`), so that 100,000 atoms come down to lists of
//!    eight or less within a few steps, with next to no copies. A list is held
//!    against the packet in one go (`Block`).
//! 2. **Bit vectors** (`wild`) for the atoms that say little of addresses.
//! 3. A [`Tests`] dictionary for protocols and flags.
//!
//! The ideas of parting by specificity are of EffiCuts (Vamanan, Voskuilen and
//! Vijaykumar, SIGCOMM 2010), of cutting by chosen bits of BitCuts (Liu et al.,
//! 2017) and ByteCuts (Daly and Torng, INFOCOM 2018).
//!
//! What the work for a packet is at most is known when the structure is built:
//! [`Tree::bound`].

mod arena;
mod cut;
mod generation;
mod kernel;
mod labels;
mod layout;
mod live;
mod plan;
mod readers;
mod side;
mod update;
mod wild;

use crate::atom::{Atom, Tests, TooManyAtoms};
use crate::engine::{Engine, NO_RULE};
use crate::packed::{Key4, Key6};
use crate::rule::{Family, Rule, RuleList};
use cut::Limits;
use forebay_codegen::code::Isa;
use forebay_packet::cancel;
use kernel::{Matcher, TreeKey};
use labels::{Labels, NO_LABEL};
use layout::{Forest, LANES};
pub use live::{Live, LiveError, Reading, RuleId};
use plan::{Entry, Plan};
use std::sync::Arc;
use wild::{ADDRESS_BITS, Wild};

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
}

/// A list that could not be made into an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A rule has too many combinations.
    #[error(transparent)]
    Atoms(#[from] TooManyAtoms),
    /// The list's rules have too many combinations together.
    #[error("the rules of the list make {atoms} combinations, expected at most {MAX_ATOMS}")]
    TooLarge {
        /// How many there are.
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

/// The most atoms of a list.
pub const MAX_ATOMS: usize = 1 << 22;

/// The longest list.
pub const MAX_RULES: usize = (1 << 24) - 1;

/// The classifier for large lists.
pub struct Tree {
    v4: Vec<Matcher<1>>,
    v6: Vec<Matcher<4>>,
    labels: Labels,
    isa: Isa,
    bounds: [Bound; 2],
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
        let of_family = |family| {
            let rules = list.rules.iter().enumerate();
            rules
                .filter(move |(_, rule)| rule.family == family)
                .map(move |(index, rule)| (labels.label(index), rule))
        };
        let (v4, bound4) = matchers(of_family(Family::Ipv4), Family::Ipv4, 0)?;
        let (v6, bound6) = matchers(of_family(Family::Ipv6), Family::Ipv6, 0)?;
        Ok(Self { v4, v6, labels, isa: kernel::supported(isa), bounds: [bound4, bound6] })
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

/// The matchers of one family: one, unless the list's rules have more distinct
/// tests than a dictionary holds. `spare` is room for changes, in percent of
/// the blocks.
fn matchers<'a, const Q: usize>(
    rules: impl Iterator<Item = (u32, &'a Rule)>,
    family: Family,
    spare: usize,
) -> Result<(Vec<Matcher<Q>>, Bound), TreeError> {
    let mut atoms = Vec::new();
    for (label, rule) in rules {
        cancel::check();
        atoms.extend(Atom::of_rule(rule)?.into_iter().map(|atom| (label, atom)));
        if atoms.len() > MAX_ATOMS {
            return Err(TreeError::TooLarge { atoms: atoms.len() });
        }
    }
    let mut bound = Bound::default();
    let of_page = |(tests, entries): (Tests, Vec<Entry>)| {
        let parts = parted(&entries, family);
        for plan in &parts.plans {
            bound.trees += 1;
            bound.nodes += plan.depth();
            bound.blocks += plan.longest().div_ceil(LANES);
        }
        bound.vectors += parts.wild.as_ref().map_or(0, |wild| wild.width * wild::FIELDS);
        let live = parts.wild.as_ref().map_or_else(Vec::new, Wild::all);
        Ok(Matcher {
            forest: Arc::new(Forest::new(&entries, &parts.plans, spare)?),
            trees: parts.trees,
            wild: parts.wild.map(Arc::new),
            live,
            tests: Arc::new(tests),
        })
    };
    let matchers: Result<_, TreeError> = paged(atoms, family).into_iter().map(of_page).collect();
    Ok((matchers?, bound))
}

/// Atoms with their labels, in as few pages as there are dictionaries needed for
/// their tests.
fn paged(atoms: impl IntoIterator<Item = (u32, Atom)>, family: Family) -> Vec<(Tests, Vec<Entry>)> {
    let mut pages: Vec<(Tests, Vec<Entry>)> = Vec::new();
    for (label, atom) in atoms {
        cancel::check();
        let words = atom.ternary(family);
        let known = pages
            .iter_mut()
            .find_map(|(tests, entries)| tests.id(&atom.test).map(|test| (entries, test)));
        if let Some((entries, test)) = known {
            entries.push(Entry { label, atom, test, words });
        } else {
            let mut tests = Tests::default();
            let test = tests.id(&atom.test).unwrap_or_default();
            pages.push((tests, vec![Entry { label, atom, test, words }]));
        }
    }
    pages
}

/// Which addresses of an atom are specific: 1 source, 2 destination, 3 both, 0
/// none.
fn class(atom: &Atom) -> usize {
    let specific = |length: u8| usize::from(length >= ADDRESS_BITS);
    specific(atom.source.length) + 2 * specific(atom.destination.length)
}

/// The ways to part atoms by their class, a tree for each group; what no group
/// names is left to bit vectors.
const PARTINGS: [&[&[usize]]; 7] = [
    &[&[0, 1, 2, 3]],
    &[&[1, 2, 3]],
    &[&[1, 3], &[2]],
    &[&[2, 3], &[1]],
    &[&[1, 3], &[0, 2]],
    &[&[2, 3], &[0, 1]],
    &[&[3], &[1], &[2]],
];

/// The parts that the atoms of a list are matched in.
struct Parts {
    plans: Vec<Plan>,
    /// By class: which of the plans.
    trees: [Option<usize>; 4],
    wild: Option<Wild>,
}

/// The trees and vectors that are expected to be fastest.
fn parted(entries: &[Entry], family: Family) -> Parts {
    // Many children make the way short; where the tree is out of the caches'
    // reach anyway, their memory costs more than that saves.
    let children = if entries.len() < 1 << 15 { 8 } else { 4 };
    let limits = Limits { leaf: LANES, bits: 16, growth: 2.5, children };
    let members_of = |group: &[usize]| -> Vec<u32> {
        let of = (0..entries.len() as u32).zip(entries);
        of.filter(|(_, entry)| group.contains(&class(&entry.atom))).map(|(at, _)| at).collect()
    };
    let wildest = members_of(&[0]);
    let mut best: Option<(f64, Parts)> = None;
    for parting in PARTINGS {
        let mut parts = Parts { plans: Vec::new(), trees: [None; 4], wild: None };
        for &group in parting {
            let members = members_of(group);
            if !members.is_empty() {
                group.iter().for_each(|&class| parts.trees[class] = Some(parts.plans.len()));
                parts.plans.push(Plan::of(entries, members, &limits));
            }
        }
        let left = if parting.concat().contains(&0) { 0 } else { wildest.len() };
        let cost = parts.plans.iter().map(Plan::cost).sum::<f64>() + Wild::cost(left);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, parts));
        }
    }
    let Some((_, mut parts)) = best else {
        return Parts { plans: Vec::new(), trees: [None; 4], wild: None };
    };
    if parts.trees[0].is_none() && !wildest.is_empty() {
        let members: Vec<_> = wildest.iter().map(|&at| &entries[at as usize]).collect();
        parts.wild = Some(Wild::new(&members, family.bits()));
    }
    parts
}
