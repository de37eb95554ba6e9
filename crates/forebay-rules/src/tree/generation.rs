//! A list between two rebuilds: what readers see of it, and how it is changed.

use super::TreeError;
use super::arena::Full;
use super::build::multiplies;
use super::kernel::Matcher;
use super::labels::{Labels, NO_LABEL};
use super::rate::Cost;
use super::side::{Side, Vectors};
use super::wildcards::WildcardIndex;
use crate::atom::Atom;
use crate::engine::NO_RULE;
use crate::rule::{Family, Rule};
use std::collections::HashMap;
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

/// What a reader goes by, from one look to the next.
pub(super) struct Version {
    /// For IPv4.
    pub v4: Vec<Matcher<1>>,
    /// For IPv6.
    pub v6: Vec<Matcher<4>>,
    /// Whose labels are whose.
    pub names: Arc<Names>,
}

/// Which rule a label is of.
pub(super) struct Names {
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

/// A change cannot be made in place: the list has to be built anew first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

impl From<Full> for Exhausted {
    fn from(_: Full) -> Self {
        Self
    }
}

/// A rule, by its number among all that the list has ever held.
#[derive(Clone)]
pub(super) struct Held {
    pub id: u32,
    pub rule: Arc<Rule>,
}

/// Makes a version the one that readers see.
pub(super) type Publish<'a> = &'a dyn Fn(&Arc<Version>);

/// The list as its one writer knows it.
pub(super) struct Generation {
    /// What readers are to see.
    pub version: Arc<Version>,
    v4: Side<1>,
    v6: Side<4>,
    /// The labels of the rules, in order.
    order: Vec<u32>,
    by_label: HashMap<u32, Held>,
    /// By a rule's number.
    labels: HashMap<u32, u32>,
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
    pub fn build(rules: Vec<Held>) -> Result<Self, TreeError> {
        let names = Arc::new(Names::new(rules.iter().map(|held| held.id).collect()));
        let spread = names.labels;
        let of_family = |family| {
            let all = rules.iter().enumerate();
            all.filter(move |(_, held)| held.rule.family == family)
                .map(move |(index, held)| (spread.label(index), &*held.rule))
        };
        let v4 = Side::build(of_family(Family::Ipv4), Family::Ipv4)?;
        let v6 = Side::build(of_family(Family::Ipv6), Family::Ipv6)?;
        let order: Vec<_> = (0..rules.len()).map(|index| spread.label(index)).collect();
        let ids = rules.iter().map(|held| held.id);
        Ok(Self {
            version: Arc::new(Version { v4: v4.matchers(), v6: v6.matchers(), names }),
            v4,
            v6,
            labels: ids.zip(order.iter().copied()).collect(),
            by_label: order.iter().copied().zip(rules).collect(),
            order,
            inserted: 0,
            tight: false,
        })
    }

    /// What packets of either family cost when the list was built.
    pub fn costs(&self) -> [Cost; 2] {
        [self.v4.cost(), self.v6.cost()]
    }

    /// The rules, in order.
    pub fn rules(&self) -> impl Iterator<Item = &Held> {
        self.order.iter().filter_map(|label| self.by_label.get(label))
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is a rule of that number.
    pub fn has(&self, id: u32) -> bool {
        self.labels.contains_key(&id)
    }

    /// Whether the list should be built anew before long.
    pub fn needs_rebuild(&self) -> bool {
        self.v4.needs_rebuild()
            || self.v6.needs_rebuild()
            || self.tight
            || self.inserted >= DUE_INSERTED
    }

    /// Whether there is work that need not hold up a writer.
    pub fn wants_work(&self) -> bool {
        self.needs_rebuild() || self.v4.wants_vectors() || self.v6.wants_vectors()
    }

    /// The bit vectors that should be built, of either family.
    pub fn wanted_vectors(&self) -> Option<(Family, Vectors)> {
        let of = |family, wanted: Option<Vectors>| wanted.map(|vectors| (family, vectors));
        of(Family::Ipv4, self.v4.wanted_vectors())
            .or_else(|| of(Family::Ipv6, self.v6.wanted_vectors()))
    }

    /// Takes in bit vectors that were built meanwhile.
    pub fn install(
        &mut self,
        family: Family,
        vectors: Vectors,
        wild: WildcardIndex,
        publish: Publish,
    ) {
        match family {
            Family::Ipv4 => self.v4.install(vectors, wild),
            Family::Ipv6 => self.v6.install(vectors, wild),
        }
        self.publish_if(true, publish);
    }

    /// Puts a rule before the one at `position`, or at the end.
    ///
    /// # Errors
    /// If there is no room in place; readers may then see the rule for some
    /// of the packets that it matches.
    pub fn insert(
        &mut self,
        held: Held,
        position: usize,
        publish: Publish,
    ) -> Result<(), Exhausted> {
        if self.inserted == MOST_INSERTED || multiplies(&held.rule) {
            return Err(Exhausted);
        }
        let label = self.free_label(position).ok_or(Exhausted)?;
        self.version.names.add(label, held.id);
        self.inserted += 1;
        let atoms = Atom::of_rule(&held.rule).map_err(|_| Exhausted)?;
        let four = held.rule.family == Family::Ipv4;
        let news = if four { self.v4.admit(&atoms) } else { self.v6.admit(&atoms) };
        self.publish_if(news, publish);
        let outside =
            if four { self.v4.insert(label, &atoms)? } else { self.v6.insert(label, &atoms)? };
        self.publish_if(outside, publish);
        self.order.insert(position, label);
        self.labels.insert(held.id, label);
        self.by_label.insert(label, held);
        Ok(())
    }

    /// Takes a rule out, if there is one of that number.
    ///
    /// # Errors
    /// If there is no room in place; readers may then still see the rule for
    /// some packets.
    pub fn delete(&mut self, id: u32, publish: Publish) -> Result<(), Exhausted> {
        self.labels.remove(&id).map_or(Ok(()), |label| self.take_out(label, publish))
    }

    /// Moves a rule, if there is one of that number, so that it comes to stand
    /// at `position`. It is in both places until `wait` has waited for readers
    /// that may not have seen the new one, and the first decides: that is the
    /// list from before or the one from after.
    ///
    /// # Errors
    /// As [`Generation::insert`] and [`Generation::delete`].
    pub fn relocate(
        &mut self,
        id: u32,
        position: usize,
        publish: Publish,
        wait: &dyn Fn(),
    ) -> Result<(), Exhausted> {
        let Some(&old) = self.labels.get(&id) else { return Ok(()) };
        let Some(held) = self.by_label.get(&old).cloned() else { return Ok(()) };
        let from = self.order.partition_point(|&label| label < old);
        let before = if position > from { position + 1 } else { position };
        self.insert(held, before, publish)?;
        wait();
        self.take_out(old, publish)
    }

    fn take_out(&mut self, label: u32, publish: Publish) -> Result<(), Exhausted> {
        let place = self.order.partition_point(|&other| other < label);
        self.order.remove(place);
        let Some(held) = self.by_label.remove(&label) else { return Ok(()) };
        // One that multiplies is in no tree.
        let atoms = match multiplies(&held.rule) {
            true => Vec::new(),
            false => Atom::of_rule(&held.rule).unwrap_or_default(),
        };
        let news = match held.rule.family {
            Family::Ipv4 => self.v4.remove(label, &atoms)?,
            Family::Ipv6 => self.v6.remove(label, &atoms)?,
        };
        self.publish_if(news, publish);
        Ok(())
    }

    fn publish_if(&mut self, news: bool, publish: Publish) {
        if news {
            let names = Arc::clone(&self.version.names);
            let (v4, v6) = (self.v4.matchers(), self.v6.matchers());
            self.version = Arc::new(Version { v4, v6, names });
            publish(&self.version);
        }
    }

    /// A label for a rule at `position`, which none has had before.
    fn free_label(&mut self, position: usize) -> Option<u32> {
        let before = position.checked_sub(1).and_then(|at| self.order.get(at)).copied();
        let after = self.order.get(position).copied();
        let (label, room) = self.version.names.labels.between(before, after)?;
        self.tight |= room < TIGHT;
        let high = after.unwrap_or(NO_LABEL);
        (label..high).take(MOST_INSERTED).find(|&label| !self.version.names.knows(label))
    }
}
