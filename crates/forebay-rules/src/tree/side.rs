//! One family's part of a list that is changed while it is read.
//!
//! An atom goes into the leaves of the tree of its class. Atoms that no tree
//! takes (they say little of addresses, they would go into too many leaves, or
//! the tests of the dictionary are used up) wait outside, in blocks that every
//! packet is held against. Those that say little of addresses leave them again
//! as soon as new bit vectors have been built, the others when the whole list
//! is built anew.
//!
//! Forests, dictionaries and vectors of the version that readers have are copied before
//! they are changed.

use super::arena::Full;
use super::block::Entry;
use super::build::{Built, class, matchers, paged};
use super::cut_tree::CutTree;
use super::error::TreeError;
use super::layout::Forest;
use super::matcher::Matcher;
use super::rate::Cost;
use super::wildcards::{MAX_MEMBERS, WildcardIndex};
use crate::atom::Atom;
use crate::rule::{Family, Rule};
use std::collections::HashSet;
use std::sync::Arc;

/// The most atoms that wait outside the trees: a nanosecond of a packet's time for every ten or
/// so.
pub(super) const MAX_OUTSIDE: usize = 1024;

/// The most leaves that an atom is put into; beyond, it waits outside.
const MOST_LEAVES: usize = 2048;

/// Room for blocks, in percent of those there are. What is not used takes no memory.
const SPARE: usize = 200;

/// Rules taken out of ranges from which on a rebuild is due.
const DUE_GONE: usize = 1024;

/// The rules of one family.
pub(super) struct Side<const Q: usize> {
    family: Family,
    /// Trees and bit vectors, by pages of tests.
    pages: Vec<Matcher<Q>>,
    /// Blocks that the pages had room for at first.
    room: Vec<usize>,
    /// Atoms that are in no page, and their labels; least label first.
    outside: Vec<(u32, Atom)>,
    /// The blocks of those.
    overlay: Vec<Matcher<Q>>,
    /// The atoms in the bit vectors of the first page, and their labels.
    wild: Vec<(u32, Atom)>,
    /// What packets cost when it was built.
    cost: Cost,
}

/// Atoms that are to have new bit vectors.
pub(crate) struct Vectors {
    family: Family,
    atoms: Vec<(u32, Atom)>,
}

impl Vectors {
    /// Builds them, which takes milliseconds.
    pub fn build(&self) -> WildcardIndex {
        let entry = |&(label, atom)| Entry { label, atom, test: 0, words: Vec::new() };
        let entries: Vec<_> = self.atoms.iter().map(entry).collect();
        WildcardIndex::new(&entries.iter().collect::<Vec<_>>(), self.family.bits())
    }
}

impl<const Q: usize> Side<Q> {
    /// Builds the trees of `rules`.
    ///
    /// # Errors
    /// If a rule has too many atoms.
    pub fn build<'a>(
        rules: impl Iterator<Item = (u32, &'a Rule)>,
        family: Family,
    ) -> Result<Self, TreeError> {
        let rules: Vec<_> = rules.collect();
        let Built { matchers: pages, cost, .. } = matchers::<Q>(&rules, family, SPARE)?;
        let room = pages.iter().map(|page| page.forest.blocks.spare()).collect();
        let mut wild = Vec::new();
        let members = pages.first().and_then(|page| page.wild.as_ref());
        let members = members.map(|wild| wild.members()).unwrap_or_default();
        for (label, rule) in rules.iter().filter(|(label, _)| members.contains(label)) {
            let atoms = Atom::of_rule(rule)?;
            wild.extend(atoms.into_iter().filter(is_wild).map(|atom| (*label, atom)));
        }
        Ok(Self { family, pages, room, outside: Vec::new(), overlay: Vec::new(), wild, cost })
    }

    /// What packets are to be matched against.
    pub fn matchers(&self) -> Vec<Matcher<Q>> {
        self.pages.iter().chain(&self.overlay).cloned().collect()
    }

    /// Whether the trees should be built anew before long.
    pub fn needs_rebuild(&self) -> bool {
        let used = |(page, room): (&Matcher<Q>, &usize)| page.forest.blocks.spare() < room / 2;
        self.outside.iter().any(|(_, atom)| !self.takes(atom))
            || self.pages.iter().any(|page| page.gone.len() >= DUE_GONE)
            || self.pages.iter().zip(&self.room).any(used)
    }

    /// What packets cost when the list was built.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Whether bit vectors should be built for atoms that wait outside.
    pub fn needs_vectors(&self) -> bool {
        self.outside.iter().any(|(_, atom)| self.takes(atom))
    }

    /// The bit vectors that should be built for them.
    pub fn wanted_vectors(&self) -> Option<Vectors> {
        if !self.needs_vectors() {
            return None;
        }
        let mut atoms = self.wild.clone();
        atoms.extend(self.outside.iter().filter(|(_, atom)| self.takes(atom)));
        atoms.sort_by_key(|(label, _)| *label);
        Some(Vectors { family: self.family, atoms })
    }

    /// Takes in what was built of `vectors`, as far as their atoms are still in
    /// the list.
    pub fn install(&mut self, vectors: Vectors, wild: WildcardIndex) {
        let Some(page) = self.pages.first_mut() else { return };
        let there: HashSet<_> = self.wild.iter().chain(&self.outside).copied().collect();
        let (kept, gone): (Vec<_>, Vec<_>) =
            vectors.atoms.into_iter().partition(|atom| there.contains(atom));
        let mut live = wild.all();
        gone.iter().for_each(|(label, _)| wild.clear(*label, &mut live));
        page.live = live;
        page.wild = Some(Arc::new(wild));
        let taken: HashSet<_> = kept.iter().copied().collect();
        self.outside.retain(|atom| !taken.contains(atom));
        self.wild = kept;
        // Fewer atoms than fitted before.
        let _ = self.lay_out();
    }

    /// Whether bit vectors can take `atom`, which waits outside. A matcher of ranges has none.
    fn takes(&self, atom: &Atom) -> bool {
        let has_room =
            |page: &Matcher<Q>| page.ranges.is_none() && page.trees[class(atom)].is_none();
        is_wild(atom)
            && self.wild.len() + self.outside.len() <= MAX_MEMBERS
            && self.pages.first().is_some_and(has_room)
    }

    /// Enters the tests of `atoms` into the dictionaries.
    fn admit(&mut self, atoms: &[Atom]) {
        for atom in atoms {
            if self.page_of(atom).is_some() {
                continue;
            }
            for page in &mut self.pages {
                let mut tests = (*page.tests).clone();
                if tests.id(&atom.test).is_some() {
                    page.tests = Arc::new(tests);
                    break;
                }
            }
        }
    }

    /// Puts `atoms` in, under one label; outside the trees if `outside`.
    ///
    /// # Errors
    /// If there is no room; some atoms may be in then.
    pub fn insert(&mut self, label: u32, atoms: &[Atom], outside: bool) -> Result<(), Full> {
        self.admit(atoms);
        let before = self.outside.len();
        for atom in atoms {
            if outside || !self.insert_into_tree(label, atom) {
                self.outside.push((label, *atom));
            }
        }
        if self.outside.len() > MAX_OUTSIDE {
            return Err(Full);
        }
        if self.outside.len() != before {
            self.lay_out()?;
        }
        Ok(())
    }

    /// Takes `atoms`, which have this label, out.
    ///
    /// # Errors
    /// If there is no room; some atoms may be out then.
    pub fn remove(&mut self, label: u32, atoms: &[Atom]) -> Result<(), Full> {
        let before = self.outside.len();
        self.outside.retain(|(other, _)| *other != label);
        if self.outside.len() != before {
            self.lay_out()?;
        }
        for atom in atoms {
            // The number of the test does not matter to find the leaves.
            let entry = self.entry(label, atom, 0);
            for page in &mut self.pages {
                if let Some(tree) = page.trees[class(atom)] {
                    Arc::make_mut(&mut page.forest).remove(tree, &entry)?;
                }
            }
        }
        for page in &mut self.pages {
            if page.ranges.as_ref().is_some_and(|ranges| ranges.has(label)) {
                let gone = Arc::make_mut(&mut page.gone);
                let at = gone.partition_point(|&other| other < label);
                gone.insert(at, label);
            }
            if let Some(wild) = &page.wild {
                wild.clear(label, &mut page.live);
            }
        }
        self.wild.retain(|(other, _)| *other != label);
        Ok(())
    }

    /// Whether a tree has taken the atom.
    fn insert_into_tree(&mut self, label: u32, atom: &Atom) -> bool {
        let Some((page, test)) = self.page_of(atom) else { return false };
        let entry = self.entry(label, atom, test);
        let page = &mut self.pages[page];
        let Some(tree) = page.trees[class(atom)] else { return false };
        // One that finds no room for its blocks has changed nothing.
        Arc::make_mut(&mut page.forest).insert(tree, &entry, MOST_LEAVES).unwrap_or(false)
    }

    fn entry(&self, label: u32, atom: &Atom, test: u8) -> Entry {
        Entry { label, atom: *atom, test, words: atom.ternary(self.family) }
    }

    /// The page whose dictionary has the test of `atom`, and its number there.
    fn page_of(&self, atom: &Atom) -> Option<(usize, u8)> {
        let mut pages = self.pages.iter().enumerate();
        pages.find_map(|(at, page)| page.tests.known(&atom.test).map(|test| (at, test)))
    }

    /// Lays the atoms that wait outside out in blocks.
    fn lay_out(&mut self) -> Result<(), Full> {
        self.outside.sort_by_key(|(label, _)| *label);
        let (pages, _) = paged(self.outside.iter().copied(), self.family, usize::MAX);
        let matcher = |(tests, entries): (_, Vec<Entry>)| {
            let list = CutTree::Leaf((0..entries.len() as u32).collect());
            let forest = Forest::new(&entries, &[list], 0).map_err(|_| Full)?;
            Ok(Matcher::of_forest(forest, tests))
        };
        self.overlay = pages.into_iter().map(matcher).collect::<Result<_, Full>>()?;
        Ok(())
    }
}

/// Whether bit vectors could take `atom`.
fn is_wild(atom: &Atom) -> bool {
    class(atom) == 0
}
