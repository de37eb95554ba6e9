//! Edges led through blocks that only go on.
//!
//! A block that ends in a jump decides nothing: an edge into it may as well go
//! where the jump goes, with the jump's arguments. Not if that changed how many
//! backward edges a run takes, which are counted; nor if the block's parameters
//! are used elsewhere.

use super::private::{self, private_parameters};
use crate::ir::{BlockId, Edge, Function, Terminator};

/// Leads edges of `function` past blocks that only jump. Those blocks stay,
/// with no edge to them. Says whether there were any.
///
/// Backward edges come last, when the jumps where they lead are short: each
/// edge is then led past one block or two, however long the chain of jumps was.
pub(super) fn thread(function: &mut Function) -> bool {
    let private = private_parameters(function);
    let forward = lead(function, &private, |from, edge| edge.target > from);
    let all = lead(function, &private, |_, _| true);
    forward | all
}

/// Leads the edges that `may_go_on` says may go on, after each step again.
fn lead(
    function: &mut Function,
    private: &[bool],
    may_go_on: impl Fn(BlockId, &Edge) -> bool,
) -> bool {
    let mut any = false;
    // From the last block on, so that forward jumps are final when met.
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

/// Where `edge` out of `from` goes on after a block that only jumps.
///
/// Following it again and again ends: once around a circle of jumps, one more
/// backward edge would be taken than is counted.
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

/// Makes an entry that only jumps forward, to a block entered from nowhere
/// else, that block, which is then unreached. Says whether it did.
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
