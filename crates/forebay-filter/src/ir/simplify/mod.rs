//! Simplifications before code.
//!
//! Each pass is linear in the size of the function, or nearly so, if need be by
//! a bound on what it does; all of them run in turn until nothing changes, a
//! fixed number of times at most.
//!
//! | pass | does |
//! |---|---|
//! | `rebuild` | copies a function with some values replaced, all of them folded |
//! | `fold` | values: constants computed and brought together, one form of each |
//! | `predicate` | predicates: decided by the shape of operands, one form of each |
//! | `thread` | ways through blocks that only go on |
//! | `parameters` | parameters that always carry one value |
//! | `known` | tests decided by what is known on the way to them |
//! | `chains` | long `or` chains into look-ups in sets |
//! | `merge` | blocks that do the same |
//! | `specialise` | blocks that differ by a parameter, one for each value |
//! | `compact` | unreached blocks, unneeded values |
//!
//! `known`, `chains`, `merge` and `specialise` are for functions without backward edges: a
//! loop over the headers of one packet is rare, and not worth their care.

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

/// Rounds of all passes at most. What one round leaves to the next shrinks
/// quickly; the bound keeps the time in proportion to the function's size.
const ROUNDS: usize = 6;

/// Blocks of a function that is large: it gets [`LARGE_ROUNDS`] while it is.
/// The disjunction of 3,000 terms that are all different has several times as
/// many, and a round of it takes some 200 ms.
const LARGE: usize = 10_000;

/// Rounds of a large function.
const LARGE_ROUNDS: usize = 2;

/// Simplifies `function`, which `verify` accepts: what it returns stays the
/// same for every packet, captured to whatever length.
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
