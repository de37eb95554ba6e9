//! Nodes that are the same, and their order.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::pe::atom::Atom;
use crate::pe::decision::{Decision, Node, Target};

/// Nodes with the same tests and successors become the first of them.
pub(super) fn merged(mut nodes: Vec<Node>, entry: Target) -> (Vec<Node>, Target) {
    type Meaning = (Vec<(Atom, bool)>, Target, Target);
    let mut first: FxHashMap<Meaning, usize> = FxHashMap::default();
    let mut numbers: Vec<usize> = Vec::with_capacity(nodes.len());
    for index in 0..nodes.len() {
        let node = &mut nodes[index];
        node.then = node.then.renumbered(&numbers);
        node.otherwise = node.otherwise.renumbered(&numbers);
        let same = (node.literals.clone(), node.then, node.otherwise);
        let one = *first.entry(same).or_insert(index);
        if !nodes[one].text.contains(&nodes[index].text) {
            nodes[one].text = format!("{}; or {}", nodes[one].text, nodes[index].text);
        }
        numbers.push(one);
    }
    (nodes, entry.renumbered(&numbers))
}

/// The most nodes that are put in another order: the time for it grows with their square.
const MAX_ORDERED: usize = 256;

/// `decision` with its nodes in an order in which those with the same tests are near one another, so
/// that masks of tests are not kept for long: each still after its successors.
pub(in crate::pe) fn side_by_side(decision: Decision) -> Decision {
    let Decision { nodes, entry, .. } = &decision;
    if nodes.len() > MAX_ORDERED {
        return decision;
    }
    let mut numbers: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut made: FxHashSet<Atom> = FxHashSet::default();
    let mut ordered = Vec::with_capacity(nodes.len());
    let renumbered = |target: Target, numbers: &[Option<usize>]| match target {
        Target::Node(index) => numbers[index].map(Target::Node),
        end => Some(end),
    };
    while ordered.len() < nodes.len() {
        let ready = (0..nodes.len()).filter(|&index| {
            let node = &nodes[index];
            let made = |target| renumbered(target, &numbers).is_some();
            numbers[index].is_none() && made(node.then) && made(node.otherwise)
        });
        let known = |index: &usize| {
            let atoms = nodes[*index].literals.iter();
            (atoms.filter(|(atom, _)| made.contains(atom)).count(), Reverse(*index))
        };
        // The first node not taken is always ready, as its successors stand before it.
        let Some(index) = ready.max_by_key(known) else { break };
        let node = &nodes[index];
        made.extend(node.literals.iter().map(|(atom, _)| *atom));
        let way = |target| renumbered(target, &numbers).unwrap_or(target);
        let (then, otherwise) = (way(node.then), way(node.otherwise));
        numbers[index] = Some(ordered.len());
        ordered.push(Node { then, otherwise, ..node.clone() });
    }
    let entry = renumbered(*entry, &numbers).unwrap_or(*entry);
    Decision { nodes: ordered, entry, ..decision }
}
