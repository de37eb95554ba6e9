//! Removes tests that are decided by the path to them.
//!
//! Blocks are visited in order with the facts that hold on all paths to them
//! ([`Facts`]). A test decided by them becomes a jump. More facts may hold on
//! one edge than on all: an edge is redirected past every test that its facts
//! decide, to the test's successor. That removes length tests implied by larger
//! ones, predicates implied or contradicted by earlier ones, and the repeated
//! beginnings of the parts of a disjunction.
//!
//! For functions without backward edges only. The number of redirections is
//! bounded by a multiple of the number of blocks; tests beyond stay. The number
//! of facts compared at merges is bounded too, since many paths to one block
//! may each have different facts about everything; facts beyond are dropped.
//! Facts at blocks that return are not needed, and most paths to a merge lead
//! to those.

use forebay_packet::cancel;

use super::private::{self, private_parameters};
use crate::ir::facts::{Facts, Subject};
use crate::ir::{BlockId, Edge, Function, Terminator};

/// Redirections past tests, for each block of the function.
const STEPS_PER_BLOCK: usize = 8;

/// Facts compared at merges, for each block of the function. Lists of thousands
/// of terms take three or fewer.
const JOINED_PER_BLOCK: usize = 64;

/// Smaller functions get the bounds of a function of this many blocks.
const SMALL: usize = 1000;

/// Decides tests in `function`, which has no backward edges. May leave
/// unreachable blocks. Returns whether anything changed.
pub(super) fn decide(function: &mut Function) -> bool {
    let blocks = function.blocks.len();
    let mut pass = Pass {
        function,
        private: private_parameters(function),
        subject: Subject::new(function),
        known: vec![None; blocks],
        steps_left: STEPS_PER_BLOCK * blocks,
        joined_left: JOINED_PER_BLOCK * blocks.max(SMALL),
    };
    pass.known[0] = Some(Facts::none());
    let mut changed = Vec::new();
    for (index, block) in function.blocks.iter().enumerate() {
        cancel::check();
        // A block without facts is unreachable.
        if let Some(facts) = pass.known[index].take() {
            let end = pass.end(BlockId(index as u32), facts);
            if end != block.end {
                changed.push((index, end));
            }
        }
    }
    let any = !changed.is_empty();
    for (index, end) in changed {
        function.blocks[index].end = end;
    }
    any
}

struct Pass<'a> {
    function: &'a Function,
    private: Vec<bool>,
    subject: Subject<'a>,
    /// By block: the facts on all paths found so far.
    known: Vec<Option<Facts>>,
    steps_left: usize,
    joined_left: usize,
}

impl Pass<'_> {
    fn end(&mut self, block: BlockId, facts: Facts) -> Terminator {
        let function = self.function;
        match &function.block(block).end {
            Terminator::Return(value) => Terminator::Return(*value),
            Terminator::Jump(edge) => Terminator::Jump(self.edge(edge, facts)),
            Terminator::Test { predicate, then, otherwise } => {
                let mut assume = |holds| facts.assume(&mut self.subject, *predicate, holds);
                match (assume(true), assume(false)) {
                    (Some(true_facts), Some(false_facts)) => Terminator::Test {
                        predicate: *predicate,
                        then: self.edge(then, true_facts),
                        otherwise: self.edge(otherwise, false_facts),
                    },
                    (Some(facts), None) => Terminator::Jump(self.edge(then, facts)),
                    (None, Some(facts)) => Terminator::Jump(self.edge(otherwise, facts)),
                    // No packet gets here.
                    (None, None) => Terminator::Jump(self.edge(otherwise, facts)),
                }
            }
        }
    }

    /// `edge` with `facts`, redirected past all tests that they decide.
    fn edge(&mut self, edge: &Edge, mut facts: Facts) -> Edge {
        let mut edge = edge.clone();
        loop {
            let target = edge.target.0 as usize;
            let block = &self.function.blocks[target];
            facts.pass(&self.subject, &block.parameters, &edge.arguments);
            let next = match &block.end {
                Terminator::Test { predicate, then, otherwise } => {
                    let decided = facts.decide(&self.subject, *predicate);
                    decided.map(|holds| if holds { then } else { otherwise })
                }
                Terminator::Jump(next) => Some(next),
                Terminator::Return(_) => None,
            };
            let Some(next) = next.filter(|_| self.private[target] && self.steps_left > 0) else {
                self.arrive(target, facts);
                return edge;
            };
            self.steps_left -= 1;
            edge = private::past(block, &edge, next);
        }
    }

    /// Merges the facts of one more path to a block.
    fn arrive(&mut self, target: usize, facts: Facts) {
        let returns = matches!(self.function.blocks[target].end, Terminator::Return(_));
        let known = &mut self.known[target];
        *known = Some(match known.take() {
            None if returns => Facts::none(),
            None => facts,
            Some(others) if returns => others,
            Some(others) => others.join(&facts, &mut self.joined_left),
        });
    }
}
