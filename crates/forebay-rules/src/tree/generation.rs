//! A list between two rebuilds.
//!
//! Readers use a [`Version`], which never changes. Changes are made on a copy of the parts that
//! they touch, and the copy becomes the next version.

use super::arena::Full;
use super::build::multiplies;
use super::error::TreeError;
use super::kernel::{TreeKey, least_labels};
use super::labels::{Labels, NO_LABEL};
use super::matcher::Matcher;
use super::rate::Cost;
use super::side::{MAX_OUTSIDE, Side, Vectors};
use super::wildcards::WildcardIndex;
use crate::atom::{Atom, Extent};
use crate::engine::{Engine, NO_RULE};
use crate::packed::{Key4, Key6};
use crate::rule::{Action, Family, Rule};
use forebay_codegen::code::Isa;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rules that are put in between two rebuilds, at most.
const MOST_INSERTED: usize = 8192;

/// Rules put in from which on a rebuild is due: leaves that have got longer than
/// a block slow readers down.
const DUE_INSERTED: usize = 512;

/// Free labels between two rules that have become few.
const TIGHT: u32 = 64;

/// Four places for each of them.
const INSERTED_BITS: u32 = MOST_INSERTED.ilog2() + 2;

/// The bit of a rule's name in a version that is set if the rule rejects.
pub(crate) const REJECTS: u32 = 1 << 31;

/// The list as readers see it.
pub(crate) struct Version {
    how: How,
    default: Action,
    isa: Isa,
}

/// How packets are matched.
pub(crate) enum How {
    /// By trees that can be changed.
    Trees { v4: Vec<Matcher<1>>, v6: Vec<Matcher<4>>, names: Arc<Names> },
    /// By an engine that cannot be changed, with the name of each rule.
    Engine(Box<dyn Engine>, Vec<u32>),
}

impl Version {
    pub fn new(how: How, default: Action, isa: Isa) -> Self {
        Self { how, default, isa }
    }

    /// The action for packets that no rule matches.
    pub fn default(&self) -> Action {
        self.default
    }

    /// Writes for each key the name of the first rule that matches it, or [`NO_RULE`].
    pub fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        match &self.how {
            How::Trees { v4, names, .. } => self.by_trees(v4, names, keys, rules),
            How::Engine(engine, names) => {
                engine.classify4(keys, rules);
                name(names, rules);
            }
        }
    }

    /// As [`Version::classify4`], for IPv6.
    pub fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        match &self.how {
            How::Trees { v6, names, .. } => self.by_trees(v6, names, keys, rules),
            How::Engine(engine, names) => {
                engine.classify6(keys, rules);
                name(names, rules);
            }
        }
    }

    fn by_trees<const Q: usize, K: TreeKey>(
        &self,
        matchers: &[Matcher<Q>],
        names: &Names,
        keys: &[K],
        rules: &mut [u32],
    ) {
        least_labels(self.isa, matchers, keys, rules);
        rules.iter_mut().for_each(|rule| *rule = names.rule(*rule));
    }
}

/// Replaces indices by names.
fn name(names: &[u32], rules: &mut [u32]) {
    for rule in rules {
        *rule = names.get(*rule as usize).copied().unwrap_or(NO_RULE);
    }
}

/// The [`Held::name`] of each label's rule.
pub(crate) struct Names {
    labels: Labels,
    /// Of the rules that the list was built with, by their place.
    built: Vec<u32>,
    /// Of the others: label and rule, a word each, by open addressing; 0 is
    /// free. Entries are added before a reader can see the label, and stay.
    inserted: Box<[AtomicU64]>,
}

impl Names {
    fn new(built: Vec<u32>) -> Self {
        let free = std::iter::repeat_with(|| AtomicU64::new(0)).take(1 << INSERTED_BITS);
        Self { labels: Labels::of(built.len()), built, inserted: free.collect() }
    }

    /// The rule of `label`, or [`NO_RULE`].
    #[inline]
    pub fn rule(&self, label: u32) -> u32 {
        if label == NO_LABEL {
            return NO_RULE;
        }
        match self.labels.index(label).and_then(|index| self.built.get(index)) {
            Some(&rule) => rule,
            None => self.inserted_rule(label).unwrap_or(NO_RULE),
        }
    }

    fn places(&self, label: u32) -> impl Iterator<Item = &AtomicU64> {
        // Labels differ in their high bits, which only reach the product's.
        let hash = label.wrapping_mul(0x9e37_79b1) >> (32 - INSERTED_BITS);
        let start = hash as usize % self.inserted.len();
        self.inserted[start..].iter().chain(&self.inserted[..start])
    }

    fn inserted_rule(&self, label: u32) -> Option<u32> {
        let words = self.places(label).map(|place| place.load(Ordering::Acquire));
        let mut words = words.take_while(|&word| word != 0);
        words.find(|&word| (word >> 32) as u32 == label).map(|word| word as u32)
    }

    /// Whether `label` has been given out.
    fn knows(&self, label: u32) -> bool {
        self.rule(label) != NO_RULE
    }

    fn add(&self, label: u32, rule: u32) {
        let free = self.places(label).find(|place| place.load(Ordering::Relaxed) == 0);
        if let Some(place) = free {
            place.store(u64::from(label) << 32 | u64::from(rule), Ordering::Release);
        }
    }
}

/// A rule of the list.
#[derive(Clone)]
pub(crate) struct Held {
    /// Its number, with [`REJECTS`] if it rejects.
    pub name: u32,
    pub rule: Arc<Rule>,
}

/// A change of the list.
#[derive(Clone)]
pub(crate) enum Change {
    /// Inserts a rule at a place.
    Insert(usize, Held),
    /// Removes the rule at a place.
    Delete(usize, Arc<Rule>),
}

/// The list of its one writer.
pub(crate) struct Generation {
    v4: Side<1>,
    v6: Side<4>,
    names: Arc<Names>,
    /// The labels of the rules, in order.
    order: Vec<u32>,
    /// Rules put in since the list was built.
    inserted: usize,
    /// Whether room for labels has become short somewhere.
    tight: bool,
}

impl Generation {
    /// Builds the list of `rules`.
    ///
    /// # Errors
    /// If one of them has too many atoms.
    pub fn build(rules: &[Held]) -> Result<Self, TreeError> {
        let names = Arc::new(Names::new(rules.iter().map(|held| held.name).collect()));
        let spread = names.labels;
        let of_family = |family| {
            let all = rules.iter().enumerate();
            all.filter(move |(_, held)| held.rule.family == family)
                .map(move |(index, held)| (spread.label(index), &*held.rule))
        };
        let v4 = Side::build(of_family(Family::Ipv4), Family::Ipv4)?;
        let v6 = Side::build(of_family(Family::Ipv6), Family::Ipv6)?;
        let order = (0..rules.len()).map(|index| spread.label(index)).collect();
        Ok(Self { v4, v6, names, order, inserted: 0, tight: false })
    }

    /// The next version's way to match.
    pub fn how(&self) -> How {
        let names = Arc::clone(&self.names);
        How::Trees { v4: self.v4.matchers(), v6: self.v6.matchers(), names }
    }

    /// What packets of either family cost when the list was built.
    pub fn costs(&self) -> [Cost; 2] {
        [self.v4.cost(), self.v6.cost()]
    }

    /// Whether the list should be built anew before long.
    pub fn needs_rebuild(&self) -> bool {
        self.v4.needs_rebuild()
            || self.v6.needs_rebuild()
            || self.tight
            || self.inserted >= DUE_INSERTED
    }

    /// Whether bit vectors should be built.
    pub fn needs_vectors(&self) -> bool {
        self.v4.needs_vectors() || self.v6.needs_vectors()
    }

    /// The bit vectors that should be built, of either family.
    pub fn wanted_vectors(&self) -> Option<(Family, Vectors)> {
        let of = |family, wanted: Option<Vectors>| wanted.map(|vectors| (family, vectors));
        of(Family::Ipv4, self.v4.wanted_vectors())
            .or_else(|| of(Family::Ipv6, self.v6.wanted_vectors()))
    }

    /// Takes in bit vectors that were built meanwhile.
    pub fn install(&mut self, family: Family, vectors: Vectors, wild: WildcardIndex) {
        match family {
            Family::Ipv4 => self.v4.install(vectors, wild),
            Family::Ipv6 => self.v6.install(vectors, wild),
        }
    }

    /// Makes changes one after another.
    ///
    /// # Errors
    /// If there is no room for one of them; those before it are made, and it may be made in part.
    pub fn make(&mut self, changes: &[Change]) -> Result<(), Full> {
        changes.iter().try_for_each(|change| match change {
            Change::Insert(at, held) => self.insert(*at, held),
            Change::Delete(at, rule) => self.delete(*at, rule),
        })
    }

    fn insert(&mut self, at: usize, Held { name, rule }: &Held) -> Result<(), Full> {
        // Rules that multiply go into no tree; those of too many atoms need a new list.
        let outside = multiplies(rule);
        let too_many = outside && Extent::of(rule).atoms > MAX_OUTSIDE;
        if self.inserted == MOST_INSERTED || too_many {
            return Err(Full);
        }
        let label = self.free_label(at).ok_or(Full)?;
        self.names.add(label, *name);
        self.inserted += 1;
        let atoms = Atom::of_rule(rule).map_err(|_| Full)?;
        match rule.family {
            Family::Ipv4 => self.v4.insert(label, &atoms, outside)?,
            Family::Ipv6 => self.v6.insert(label, &atoms, outside)?,
        }
        self.order.insert(at, label);
        Ok(())
    }

    fn delete(&mut self, at: usize, rule: &Rule) -> Result<(), Full> {
        let label = self.order.remove(at);
        // One that multiplies is in no tree; atoms outside are removed by their label.
        let atoms = match multiplies(rule) {
            true => Vec::new(),
            false => Atom::of_rule(rule).unwrap_or_default(),
        };
        match rule.family {
            Family::Ipv4 => self.v4.remove(label, &atoms),
            Family::Ipv6 => self.v6.remove(label, &atoms),
        }
    }

    /// A label for a rule at `position`, which none has had before.
    fn free_label(&mut self, position: usize) -> Option<u32> {
        let before = position.checked_sub(1).and_then(|at| self.order.get(at)).copied();
        let after = self.order.get(position).copied();
        let (label, room) = self.names.labels.between(before, after)?;
        self.tight |= room < TIGHT;
        let high = after.unwrap_or(NO_LABEL);
        (label..high).take(MOST_INSERTED).find(|&label| !self.names.knows(label))
    }
}
