//! The shape of the trees before they are laid out in memory.
//!
//! Rules are parted into a few groups by how specific their addresses are, a
//! tree for each: within a group, bits exist that nearly every rule tests,
//! so that cutting by them copies little.

use super::bits::extract;
use super::block::{Entry, LANES};
use super::budget::Budget;
use super::cut::{Cut, Limits};
use crate::atom::Ternary;
use forebay_packet::cancel;

/// A node, or a list of entries that is not cut further.
pub(crate) enum CutTree {
    /// Children by the bits of a cut.
    Node(Cut, Vec<CutTree>),
    /// Entries, least label first.
    Leaf(Vec<u32>),
}

/// The deepest that nodes are nested.
const MAX_DEPTH: usize = 8;

impl CutTree {
    /// The tree of the entries numbered `members`, which are in the order of
    /// their labels.
    pub fn of(entries: &[Entry], members: Vec<u32>, limits: &Limits, budget: &mut Budget) -> Self {
        Self::below(entries, members, limits, 0, budget)
    }

    fn below(
        entries: &[Entry],
        members: Vec<u32>,
        limits: &Limits,
        depth: usize,
        budget: &mut Budget,
    ) -> Self {
        cancel::check();
        if members.len() <= limits.leaf || depth == MAX_DEPTH {
            budget.keep(members.len());
            return Self::Leaf(members);
        }
        let words: Vec<&[Ternary]> =
            members.iter().map(|&member| &entries[member as usize].words[..]).collect();
        let Some(cut) = Cut::choose(&words, limits, budget) else {
            budget.keep(members.len());
            return Self::Leaf(members);
        };
        let children = deal(&words, &members, cut);
        if children.iter().any(|child| child.len() == members.len()) && depth > 4 {
            budget.keep(members.len());
            return Self::Leaf(members);
        }
        drop((words, members));
        let subtrees = children
            .into_iter()
            .map(|child| Self::below(entries, child, limits, depth + 1, budget));
        Self::Node(cut, subtrees.collect())
    }

    /// The most nodes from here to a leaf.
    pub fn depth(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Node(_, children) => 1 + children.iter().map(Self::depth).max().unwrap_or(0),
        }
    }

    /// Entries of the longest leaf.
    pub fn longest(&self) -> usize {
        match self {
            Self::Leaf(members) => members.len(),
            Self::Node(_, children) => children.iter().map(Self::longest).max().unwrap_or(0),
        }
    }

    /// What a packet is expected to cost, in cycles, if it was drawn from a
    /// random entry. The weights were measured once: the root and a block cost
    /// least, as all packets take them in step; what only some take costs more,
    /// the more so if it has to come from behind the second-level cache.
    pub fn cost(&self) -> f64 {
        let mut totals = Totals::default();
        self.total(0, &mut totals);
        let entries = totals.entries.max(1.0);
        let bytes = totals.slots * size_of::<u32>() as f64 + entries * ATOM_BYTES;
        let far = if bytes > NEAR_BYTES { 2.0 } else { 1.0 };
        let steps = totals.steps / entries;
        let more_steps = (steps - 1.0).max(0.0);
        let more_blocks = (totals.blocks / entries - 1.0).max(0.0);
        10.0 + 4.0 * steps.min(1.0) + far * (8.0 * more_steps + 25.0 * more_blocks)
    }

    fn total(&self, depth: usize, totals: &mut Totals) {
        match self {
            Self::Leaf(members) => {
                let entries = members.len() as f64;
                totals.entries += entries;
                totals.steps += entries * depth as f64;
                totals.blocks += entries * members.len().div_ceil(LANES) as f64;
            }
            Self::Node(_, children) => {
                totals.slots += children.len() as f64;
                children.iter().for_each(|child| child.total(depth + 1, totals));
            }
        }
    }
}

/// Sums over the entries of all leaves.
#[derive(Default)]
struct Totals {
    entries: f64,
    steps: f64,
    blocks: f64,
    slots: f64,
}

/// What an atom takes in blocks that are well filled.
const ATOM_BYTES: f64 = 26.0;

/// What is surely found in a second-level cache.
const NEAR_BYTES: f64 = 1_000_000.0;

/// The members of each child.
fn deal(words: &[&[Ternary]], members: &[u32], cut: Cut) -> Vec<Vec<u32>> {
    let bits = cut.mask.count_ones();
    let mut children = vec![Vec::new(); 1 << bits];
    for (at, (of_atom, &member)) in words.iter().zip(members).enumerate() {
        if at % 64 == 0 {
            cancel::check();
        }
        let word = of_atom[cut.word];
        let fixed = extract(word.value, cut.mask);
        let free = extract(!word.care, cut.mask);
        // Every subset of the bits that the atom leaves free.
        let mut subset = 0;
        loop {
            children[(fixed | subset) as usize].push(member);
            subset = subset.wrapping_sub(free) & free;
            if subset == 0 {
                break;
            }
        }
    }
    children
}
