//! What is known of a field where a node is reached.

use crate::pe::atom::{Atom, Field};
use crate::pe::decision::{Decision, Target};

/// What is known where a node is reached of whether a field equals a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Unreached,
    Holds,
    HoldsNot,
    Nothing,
}

/// By node: what is known of whether the field equals the constant.
pub(super) fn known(decision: &Decision, guard: (Field, u32)) -> Vec<Known> {
    let mut known = vec![Known::Unreached; decision.nodes.len()];
    let reach = |known: &mut Vec<Known>, target: Target, with: Known| {
        if let Target::Node(index) = target {
            known[index] = match known[index] {
                Known::Unreached => with,
                before if before == with => with,
                _ => Known::Nothing,
            };
        }
    };
    reach(&mut known, decision.entry, Known::Nothing);
    for (index, node) in decision.nodes.iter().enumerate().rev() {
        let before = known[index];
        let told = |literals: &[(Atom, bool)], turned: bool| {
            literals.iter().find_map(|&(atom, holds)| tells(guard, atom, holds != turned))
        };
        let then = told(&node.literals, false).unwrap_or(before);
        // That a conjunction does not hold tells nothing of its parts.
        let otherwise = match &node.literals[..] {
            one @ [_] => told(one, true).unwrap_or(before),
            _ => before,
        };
        reach(&mut known, node.then, then);
        reach(&mut known, node.otherwise, otherwise);
    }
    known
}

/// What it tells of whether a field equals a constant that `atom` holds or not.
fn tells((field, constant): (Field, u32), atom: Atom, holds: bool) -> Option<Known> {
    match atom {
        Atom::Equal(other, same) if other == field => match (same == constant, holds) {
            (true, true) => Some(Known::Holds),
            (true, false) | (false, true) => Some(Known::HoldsNot),
            (false, false) => None,
        },
        _ => None,
    }
}
