//! Building: which rules go into trees, which into bit vectors, and which are
//! matched by their ranges.
//!
//! Prefixes and cuts are fast, but some lists they multiply: a range is dozens
//! of prefixes, two in one rule are the product, and a rule that leaves the bits
//! of a cut open is copied. What is spent is therefore counted (the atoms of a
//! list, and a [`Budget`] for each way to part them), and what does not come within it is
//! left to [`Ranges`], whose memory is in proportion to the list.

use super::block::{Entry, LANES};
use super::budget::Budget;
use super::cut::Limits;
use super::cut_tree::CutTree;
use super::error::TreeError;
use super::layout::Forest;
use super::matcher::Matcher;
use super::ranges::Ranges;
use super::rate::{Bound, Cost, Work};
use super::wildcards::{self, ADDRESS_BITS, WildcardIndex};
use crate::atom::{Atom, Extent, Tests};
use crate::rule::{Family, Rule};
use forebay_codegen::code::Isa;
use forebay_packet::cancel;

/// Prefixes for each range from which on a rule is matched by its ranges: more
/// than one range of IPv4 can be, so that one of them alone is none too many.
const MOST_PREFIXES: usize = 64;

/// Atoms of one rule that trees take.
const MOST_OF_RULE: usize = 4096;

/// Atoms that the trees of a list take for each of its rules, and of a short
/// list in all.
const ATOMS_EACH: usize = 4;
const ATOMS: usize = 1 << 18;

/// Dictionaries of tests: each is matched by itself.
const MOST_PAGES: usize = 8;

/// What a packet may cost in trees before the ranges of their rules are tried,
/// in cycles.
const SLOW: f64 = 500.0;

/// The rules of one family, ready to be matched.
pub(super) struct Built<const Q: usize> {
    pub matchers: Vec<Matcher<Q>>,
    pub bound: Bound,
    pub cost: Cost,
}

/// Builds the matchers of `rules`, which are in the order of their labels: one,
/// unless the rules have more distinct tests than a dictionary holds, and one
/// of ranges. `spare` is room for changes, in percent of the blocks.
///
/// # Errors
/// If the blocks cannot be numbered.
pub(super) fn matchers<const Q: usize>(
    rules: &[(u32, &Rule)],
    family: Family,
    spare: usize,
) -> Result<Built<Q>, TreeError> {
    let extents: Vec<Extent> = rules.iter().map(|(_, rule)| Extent::of(rule)).collect();
    let mut ranged = multiplied(&extents);
    let leave = |labels: &mut dyn Iterator<Item = u32>, ranged: &mut [bool]| {
        let places = labels.map(|label| rules.binary_search_by_key(&label, |rule| rule.0));
        places.flatten().for_each(|at| ranged[at] = true);
    };
    let in_trees = rules.iter().zip(&ranged).filter(|(_, ranged)| !**ranged);
    let mut refused = None;
    let atoms = in_trees.map_while(|(&(label, rule), _)| match Atom::of_rule(rule) {
        Ok(atoms) => Some(atoms.into_iter().map(move |atom| (label, atom))),
        Err(error) => {
            refused = Some(error);
            None
        }
    });
    let (pages, left) = paged(atoms.flatten(), family, MOST_PAGES);
    if let Some(error) = refused {
        return Err(error.into());
    }
    leave(&mut left.into_iter(), &mut ranged);
    let mut planned = Vec::new();
    for (tests, entries) in pages {
        match parted(&entries, family) {
            Some((cost, parts)) => planned.push((cost, tests, entries, parts)),
            None => leave(&mut entries.iter().map(|entry| entry.label), &mut ranged),
        }
    }
    let ranges_of = |trees: f64, ranged: &[bool]| -> (Option<Ranges>, Cost) {
        let own = rules.iter().zip(ranged).filter(|(_, ranged)| **ranged);
        let built = Ranges::new(&own.map(|(rule, _)| *rule).collect::<Vec<_>>(), family);
        let work = built.as_ref().map(|(ranges, boxes)| Work::of(ranges, boxes));
        let own = ranged.iter().zip(&extents).filter(|(ranged, _)| **ranged);
        let cost = Cost {
            trees,
            work: work.unwrap_or_default(),
            ranged: own.clone().count(),
            atoms: own.fold(0, |all, (_, extent)| all.saturating_add(extent.atoms)),
        };
        (built.map(|(ranges, _)| ranges), cost)
    };
    let (mut ranges, mut cost) = ranges_of(planned.iter().map(|page| page.0).sum(), &ranged);
    if cost.trees > SLOW {
        let (whole, instead) = ranges_of(0.0, &vec![true; rules.len()]);
        // The choice is that for AVX-512, on every machine.
        let isa = Isa::Avx512Vbmi;
        if instead.cycles(isa) < cost.cycles(isa) {
            (ranges, cost) = (whole, instead);
            planned.clear();
        }
    }
    let mut bound = Bound::default();
    let mut matchers = Vec::with_capacity(planned.len() + 1);
    for (_, tests, entries, parts) in planned {
        matchers.push(laid_out(tests, &entries, parts, spare, &mut bound)?);
    }
    bound.ranges = ranges.as_ref().map_or(0, |ranges| ranges.blocks.len());
    matchers.extend(ranges.map(Matcher::of_ranges));
    Ok(Built { matchers, bound, cost })
}

/// Whether prefixes would multiply `rule`, so that it goes into no tree.
pub(super) fn multiplies(rule: &Rule) -> bool {
    is_multiplied(&Extent::of(rule))
}

fn is_multiplied(extent: &Extent) -> bool {
    extent.atoms > extent.ranges.saturating_mul(MOST_PREFIXES) || extent.atoms > MOST_OF_RULE
}

/// Which rules prefixes would multiply: each by itself, or, those with most
/// first, together.
fn multiplied(extents: &[Extent]) -> Vec<bool> {
    let mut multiplied: Vec<bool> = extents.iter().map(is_multiplied).collect();
    let mut rest: Vec<usize> = (0..extents.len()).filter(|&at| !multiplied[at]).collect();
    rest.sort_by_key(|&at| extents[at].atoms);
    let mut room = ATOMS.max(ATOMS_EACH.saturating_mul(extents.len()));
    for at in rest {
        room = room.checked_sub(extents[at].atoms).unwrap_or_else(|| {
            multiplied[at] = true;
            0
        });
    }
    multiplied
}

/// The trees and vectors of a page in memory.
fn laid_out<const Q: usize>(
    tests: Tests,
    entries: &[Entry],
    parts: Parts,
    spare: usize,
    bound: &mut Bound,
) -> Result<Matcher<Q>, TreeError> {
    for tree in &parts.cut_trees {
        bound.trees += 1;
        bound.nodes += tree.depth();
        bound.blocks += tree.longest().div_ceil(LANES);
    }
    bound.vectors += parts.wild.as_ref().map_or(0, |wild| wild.width * wildcards::FIELDS);
    let forest = Forest::new(entries, &parts.cut_trees, spare)?;
    Ok(Matcher {
        trees: parts.trees,
        live: parts.wild.as_ref().map_or_else(Vec::new, WildcardIndex::all),
        wild: parts.wild.map(Into::into),
        ..Matcher::of_forest(forest, tests)
    })
}

/// Atoms with their labels, in as few pages as there are dictionaries needed for
/// their tests, and the labels of those that would need more than `most`.
pub(super) fn paged(
    atoms: impl IntoIterator<Item = (u32, Atom)>,
    family: Family,
    most: usize,
) -> (Vec<(Tests, Vec<Entry>)>, Vec<u32>) {
    let mut pages: Vec<(Tests, Vec<Entry>)> = Vec::new();
    let mut left = Vec::new();
    for (label, atom) in atoms {
        cancel::check();
        let words = atom.ternary(family);
        let known = pages
            .iter_mut()
            .find_map(|(tests, entries)| tests.id(&atom.test).map(|test| (entries, test)));
        if let Some((entries, test)) = known {
            entries.push(Entry { label, atom, test, words });
        } else if pages.len() == most {
            left.push(label);
        } else {
            let mut tests = Tests::default();
            let test = tests.id(&atom.test).unwrap_or_default();
            pages.push((tests, vec![Entry { label, atom, test, words }]));
        }
    }
    (pages, left)
}

/// Which addresses of an atom are specific: 1 source, 2 destination, 3 both, 0
/// none.
pub(super) fn class(atom: &Atom) -> usize {
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
    cut_trees: Vec<CutTree>,
    /// By class: which of the trees.
    trees: [Option<usize>; 4],
    wild: Option<WildcardIndex>,
}

/// The trees and vectors that are expected to be fastest, and what they cost;
/// none if there are none within the budget.
fn parted(entries: &[Entry], family: Family) -> Option<(f64, Parts)> {
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
        let mut budget = Budget::of(entries.len());
        let mut parts = Parts { cut_trees: Vec::new(), trees: [None; 4], wild: None };
        let groups = parting.iter().map(|&group| (members_of(group), group));
        let mut groups: Vec<_> = groups.filter(|(members, _)| !members.is_empty()).collect();
        // A packet that matches in one passes over those that begin behind that label.
        groups.sort_by_key(|(members, _)| members[0]);
        for (members, group) in groups {
            group.iter().for_each(|&class| parts.trees[class] = Some(parts.cut_trees.len()));
            parts.cut_trees.push(CutTree::of(entries, members, &limits, &mut budget));
        }
        let left = if parting.concat().contains(&0) { 0 } else { wildest.len() };
        let cost =
            parts.cut_trees.iter().map(CutTree::cost).sum::<f64>() + WildcardIndex::cost(left);
        let better = best.as_ref().is_none_or(|(least, _)| cost < *least);
        if better && cost.is_finite() && !budget.is_spent() {
            best = Some((cost, parts));
        }
    }
    let (cost, mut parts) = best?;
    if parts.trees[0].is_none() && !wildest.is_empty() {
        let members: Vec<_> = wildest.iter().map(|&at| &entries[at as usize]).collect();
        parts.wild = Some(WildcardIndex::new(&members, family.bits()));
    }
    Some((cost, parts))
}
