//! Merges equivalent blocks.
//!
//! From the last block to the first, each is replaced by the latest block with
//! the same terminator, whose edges have been replaced before. Keeping the
//! latest keeps edges forward. Facts that hold on every path to both blocks
//! hold on every path to the merged one, so loads stay guarded by their tests.
//!
//! In the same walk two consecutive length tests with the same successor on
//! failure become the one for more bytes.
//!
//! For functions without backward edges, and blocks without parameters.

use rustc_hash::FxHashMap;

use crate::ir::{BlockId, Edge, Function, Predicate, Terminator};

/// Merges blocks of `function`, which has no backward edges. Merged blocks
/// stay, unreachable. Returns whether anything changed.
pub(super) fn merge(function: &mut Function) -> bool {
    let mut any = false;
    let count = function.blocks.len();
    let mut kept: Vec<BlockId> = (0..count as u32).map(BlockId).collect();
    let mut latest: FxHashMap<Terminator, BlockId> = FxHashMap::default();
    for index in (0..count).rev() {
        let mut end = function.blocks[index].end.clone();
        for edge in end.edges_mut() {
            edge.target = kept[edge.target.0 as usize];
        }
        let end = longer_test(function, one_way(end));
        if end != function.blocks[index].end {
            function.blocks[index].end = end.clone();
            any = true;
        }
        if !function.blocks[index].parameters.is_empty() {
            continue;
        }
        kept[index] = match end {
            Terminator::Jump(Edge { target, arguments }) if arguments.is_empty() => target,
            end => *latest.entry(end).or_insert(BlockId(index as u32)),
        };
    }
    any
}

/// Turns a test with equal successors into a jump.
fn one_way(end: Terminator) -> Terminator {
    match end {
        Terminator::Test { then, otherwise, .. } if then == otherwise => Terminator::Jump(then),
        end => end,
    }
}

/// For a length test followed by a longer one, with the same successor on
/// failure: the longer one.
fn longer_test(function: &Function, end: Terminator) -> Terminator {
    if let Terminator::Test {
        predicate: Predicate::Captured { index: None, bytes },
        then,
        otherwise,
    } = &end
        && function.block(then.target).parameters.is_empty()
        && let Terminator::Test {
            predicate: Predicate::Captured { index: None, bytes: more },
            otherwise: other,
            ..
        } = &function.block(then.target).end
        && more >= bytes
        && otherwise == other
    {
        return function.block(then.target).end.clone();
    }
    end
}
