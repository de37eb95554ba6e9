//! Redirects edges past blocks that only jump.
//!
//! An edge into a block that ends in a jump can lead to the jump's target, with
//! the jump's arguments. Exceptions: if that changed the number of backward
//! edges in a run, which are counted, or if the block's parameters are used
//! elsewhere.

use super::private::{self, private_parameters};
use crate::ir::{Block, BlockId, Edge, Function, Terminator};

/// Redirects edges of `function` past blocks that only jump. Those blocks stay,
/// unreachable. Returns whether there were any.
///
/// Backward edges come last, when the jumps at their targets are short: each
/// edge is then redirected past one block or two, however long the chain of
/// jumps was.
pub(super) fn thread(function: &mut Function) -> bool {
    let jumps = |block: &Block| matches!(block.end, Terminator::Jump(_));
    if !function.blocks.iter().any(jumps) {
        return false;
    }
    let private = private_parameters(function);
    let forward = lead(function, &private, |from, edge| edge.target > from);
    let all = lead(function, &private, |_, _| true);
    forward | all
}

/// Redirects each edge that `may_go_on` admits, repeatedly.
fn lead(
    function: &mut Function,
    private: &[bool],
    may_go_on: impl Fn(BlockId, &Edge) -> bool,
) -> bool {
    let mut any = false;
    // From the last block on, so that forward jumps are final when visited.
    for index in (0..function.blocks.len()).rev() {
        let mut end = function.blocks[index].end.clone();
        let here = BlockId(index as u32);
        let mut changed = false;
        for edge in end.edges_mut() {
            while may_go_on(here, edge)
                && let Some(next) = past(function, private, here, edge)
            {
                *edge = next;
                changed = true;
            }
        }
        if changed {
            function.blocks[index].end = end;
            any = true;
        }
    }
    any
}

/// The redirection of `edge` out of `from` past a block that only jumps.
///
/// Repeating it terminates: a cycle of jumps adds a backward edge, which would
/// change the count.
fn past(function: &Function, private: &[bool], from: BlockId, edge: &Edge) -> Option<Edge> {
    let through = edge.target;
    let block = function.block(through);
    let Terminator::Jump(next) = &block.end else {
        return None;
    };
    let backward = |from: BlockId, to: BlockId| usize::from(to <= from);
    let before = backward(from, through) + backward(through, next.target);
    if before != backward(from, next.target) || !private[through.0 as usize] {
        return None;
    }
    Some(private::past(block, edge, next))
}

/// If the entry only jumps forward, to a block with no other predecessor, makes
/// that block the entry and leaves it unreachable itself. Returns whether it
/// did.
pub(super) fn enter(function: &mut Function) -> bool {
    let Terminator::Jump(edge) = &function.blocks[0].end else { return false };
    let target = edge.target;
    let block = function.block(target);
    let entered = function.blocks.iter().flat_map(|block| block.end.edges());
    let ways = entered.filter(|edge| edge.target == target).count();
    let forward = block.end.edges().all(|edge| edge.target > target);
    if target.0 == 0 || ways > 1 || !forward || !block.parameters.is_empty() {
        return false;
    }
    let unused = Terminator::Jump(Edge::to(target));
    function.blocks[0].end = std::mem::replace(&mut function.blocks[target.0 as usize].end, unused);
    true
}
