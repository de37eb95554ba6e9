//! The tests in lanes of a node, and those that several nodes have.

use forebay_filter::ir::SetId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::algebra::{Literal, Mask, Test};
use super::atom::{Atom, Field};
use super::columns::{Columns, span};
use super::decision::{Decision, Node};
use super::sharing::{Region, made_once};

/// The tests of a node: one for each literal, except that only the greatest
/// captured length is tested, and fields of one column are compared at once.
pub(super) fn group(node: &Node, columns: &Columns) -> Vec<Literal> {
    let mut group: Vec<Literal> = Vec::new();
    for &(atom, holds) in &node.literals {
        let atom = match atom {
            Atom::Equal(field, constant) if holds => columns.whole_word(field, constant),
            _ => atom,
        };
        let joins = group.iter().enumerate().find_map(|(index, (test, known))| match test {
            Test::Lanes(other) if *known && holds => Some((index, joined(*other, atom)?)),
            _ => None,
        });
        let literal = (Test::Lanes(atom), holds);
        match joins {
            Some((index, both)) => group[index].0 = Test::Lanes(both),
            None if group.contains(&literal) => {}
            None => group.push(literal),
        }
    }
    group
}

/// The tests that are made once, though several nodes or regions have them.
pub(super) fn recurring(
    groups: &[Vec<Literal>],
    columns: &Columns,
    halves: &FxHashSet<Half>,
) -> FxHashMap<Atom, Option<Mask>> {
    let guards = columns.regions.iter().map(|region| (Test::Lanes(columns.guard(region)), true));
    let mut seen = FxHashSet::default();
    let mut once = FxHashMap::default();
    for (test, _) in groups.iter().flatten().copied().chain(guards) {
        if let Test::Lanes(atom) = test
            && !seen.insert(atom)
            && made_once(atom, columns.wide)
            && !(columns.wide && half_of(columns, atom).is_some_and(|half| halves.contains(&half)))
        {
            once.insert(atom, None);
        }
    }
    once
}

/// The half of a column that an atom looks for in a set: the column's start, the set, and whether it is the
/// second half.
pub(super) type Half = (u32, SetId, bool);

pub(super) fn half_of(columns: &Columns, atom: Atom) -> Option<Half> {
    match atom {
        Atom::Member(field, set) if field.bytes == 2 && field.mask == 0xffff => {
            let start = columns.word(span(field))?;
            matches!(field.offset - start, 0 | 2).then_some((start, set, field.offset > start))
        }
        _ => None,
    }
}

/// The halves of which the other one is looked for in the same set.
pub(super) fn both_halves(decision: &Decision, columns: &Columns) -> FxHashSet<Half> {
    let all: FxHashSet<Half> = decision.atoms().filter_map(|atom| half_of(columns, atom)).collect();
    let other = |&(start, set, second): &Half| all.contains(&(start, set, !second));
    all.iter().copied().filter(other).collect()
}

/// The atom that holds if both do, if there is one.
fn joined(a: Atom, b: Atom) -> Option<Atom> {
    match (a, b) {
        (Atom::Captured(a), Atom::Captured(b)) => {
            (Region::of(a) == Region::of(b)).then_some(Atom::Captured(a.max(b)))
        }
        (Atom::Equal(a, of_a), Atom::Equal(b, of_b)) => {
            let common = a.mask & b.mask;
            let alike = a.offset == b.offset && a.bytes == b.bytes;
            (alike && of_a & common == of_b & common)
                .then_some(Atom::Equal(Field { mask: a.mask | b.mask, ..a }, of_a | of_b))
        }
        _ => None,
    }
}
