//! Simplifications before code generation.
//!
//! Each pass takes time linear in the size of the function, or nearly so, if
//! necessary by a bound on its work; all of them run in turn until nothing
//! changes, for a bounded number of rounds.
//!
//! | pass | does |
//! |---|---|
//! | `rebuild` | copies a function with some values replaced, all of them folded |
//! | `fold` | values: computes and combines constants, canonical forms |
//! | `predicate` | predicates: decided by bounds of operands, canonical forms |
//! | `thread` | redirects edges past blocks that only jump |
//! | `parameters` | removes parameters that always have one value |
//! | `known` | decides tests by facts on the path to them |
//! | `chains` | long `or` chains into set lookups |
//! | `merge` | merges equivalent blocks |
//! | `specialise` | copies blocks for each value of a parameter |
//! | `compact` | removes unreachable blocks and unused values |
//!
//! `known`, `chains`, `merge` and `specialise` are for functions without
//! backward edges: loops over the headers of one packet are rare, and the gain
//! is not worth the code.

mod chains;
pub(super) mod compact;
pub(super) mod fold;
mod known;
mod merge;
pub(super) mod parameters;
mod predicate;
mod private;
mod rebuild;
mod specialise;
mod thread;

use forebay_packet::cancel;

use super::Function;
use compact::compact;

/// The most rounds of all passes. The gain of a round shrinks quickly; the
/// bound keeps the time proportional to the function's size.
const ROUNDS: usize = 6;

/// Number of blocks from which a function is large and gets [`LARGE_ROUNDS`]. A
/// disjunction of 3,000 distinct terms has several times as many, and a round
/// of it takes some 200 ms.
const LARGE: usize = 10_000;

/// Rounds of a large function.
const LARGE_ROUNDS: usize = 2;

/// Simplifies `function`, which must pass `verify`: its verdict stays the same
/// for every packet, with any captured length.
pub fn simplify(function: &mut Function) {
    for done in 0..ROUNDS {
        if done >= LARGE_ROUNDS && function.blocks.len() > LARGE {
            break;
        }
        cancel::check();
        let simpler = round(function);
        if simpler == *function {
            break;
        }
        *function = simpler;
    }
}

fn round(function: &Function) -> Function {
    let mut simpler = rebuild::fold(function);
    if thread::thread(&mut simpler) {
        simpler = compact(&simpler);
    }
    if let Some(pruned) = parameters::prune(&simpler) {
        simpler = compact(&pruned);
    }
    if thread::enter(&mut simpler) {
        simpler = compact(&simpler);
    }
    if !simpler.has_backward_edges() {
        if known::decide(&mut simpler) {
            simpler = compact(&simpler);
        }
        if chains::gather(&mut simpler) | merge::merge(&mut simpler) {
            simpler = compact(&simpler);
        }
        specialise::specialise(&mut simpler);
    }
    compact(&simpler)
}
