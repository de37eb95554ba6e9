//! Simplifications before code generation.
//!
//! Each pass takes time linear in the size of the function, or nearly so, if
//! necessary by a bound on its work; they run in turn as long as one of them
//! leaves something to another, for a bounded number of rounds.
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
    // Whether values or predicates may be new, and so not folded.
    let mut is_new = true;
    for done in 0..ROUNDS {
        if done >= LARGE_ROUNDS && function.blocks.len() > LARGE {
            break;
        }
        cancel::check();
        if is_new {
            *function = compact(&rebuild::fold(function));
        }
        // The passes after `tidy` leave nothing to each other but what `tidy` finds,
        // and what is new.
        let tidied = tidy(function);
        if done > 0 && !tidied && !is_new {
            break;
        }
        is_new = !function.has_backward_edges() && restructure(function);
    }
    if is_new {
        *function = compact(&rebuild::fold(function));
    }
}

/// Removes blocks that only jump, and parameters with one value. Returns whether there were any.
fn tidy(function: &mut Function) -> bool {
    let mut any = false;
    if thread::thread(function) {
        *function = compact(function);
        any = true;
    }
    if let Some(pruned) = parameters::prune(function) {
        *function = compact(&pruned);
        any = true;
    }
    if thread::enter(function) {
        *function = compact(function);
        any = true;
    }
    any
}

/// Decides and merges tests of a function without backward edges. Returns whether there are
/// new values or predicates.
fn restructure(function: &mut Function) -> bool {
    if known::decide(function) | merge::merge(function) {
        *function = compact(function);
    }
    let values = function.values().len();
    let gathered = chains::gather(function);
    // It adds values even if it replaces nothing.
    if gathered || function.values().len() > values {
        *function = compact(function);
    }
    specialise::specialise(function) || gathered
}
