//! Tests that the way to them has already decided.
//!
//! Blocks are visited in order with what is known on all ways to them
//! ([`Facts`]). A test decided by that goes the one way. An edge may know more
//! than all edges together: it is led past every test that it decides, straight
//! to where the test would send it. That drops length checks behind larger
//! ones, predicates implied or contradicted by earlier ones, and the repeated
//! beginnings of the parts of a disjunction.
//!
//! For functions without backward edges only. Steps past tests are bounded by
//! a multiple of the number of blocks; what lies beyond stays as it is. So are
//! the facts compared where ways meet: many ways to one block may each know
//! something else of everything; what lies beyond is forgotten. A block that
//! returns needs to know nothing, and most of the ways there are lead to such.

use forebay_packet::cancel;

use super::private::{self, private_parameters};
use crate::ir::facts::{Facts, Subject};
use crate::ir::{BlockId, Edge, Function, Terminator};

/// Tests that edges are led past, for each block of the function.
const STEPS_PER_BLOCK: usize = 8;

/// Facts compared where ways meet, for each block of the function. Lists of
/// thousands of terms take three or fewer.
const JOINED_PER_BLOCK: usize = 64;

/// Blocks up to which a function is allowed as much as one of that many.
const SMALL: usize = 1000;

/// Decides what is known in `function`, which has no backward edges. Blocks
/// may be left without an edge to them. Says whether anything changed.
pub(super) fn decide(function: &mut Function) -> bool {
    let old = function.clone();
    let mut pass = Pass {
        function: &old,
        private: private_parameters(&old),
        subject: Subject::new(&old),
        known: vec![None; old.blocks.len()],
        steps_left: STEPS_PER_BLOCK * old.blocks.len(),
        joined_left: JOINED_PER_BLOCK * old.blocks.len().max(SMALL),
    };
    pass.known[0] = Some(Facts::none());
    for index in 0..old.blocks.len() {
        cancel::check();
        // No way leads to a block of which nothing is known.
        if let Some(facts) = pass.known[index].take() {
            function.blocks[index].end = pass.end(BlockId(index as u32), &facts);
        }
    }
    function.blocks != old.blocks
}

struct Pass<'a> {
    function: &'a Function,
    private: Vec<bool>,
    subject: Subject<'a>,
    /// What is known on all ways to each block so far.
    known: Vec<Option<Facts>>,
    steps_left: usize,
    joined_left: usize,
}

impl Pass<'_> {
    fn end(&mut self, block: BlockId, facts: &Facts) -> Terminator {
        let function = self.function;
        match &function.block(block).end {
            Terminator::Return(value) => Terminator::Return(*value),
            Terminator::Jump(edge) => Terminator::Jump(self.edge(edge, facts)),
            Terminator::Test { predicate, then, otherwise } => {
                let mut assume = |holds| facts.assume(&mut self.subject, *predicate, holds);
                match (assume(true), assume(false)) {
                    (Some(true_facts), Some(false_facts)) => Terminator::Test {
                        predicate: *predicate,
                        then: self.edge(then, &true_facts),
                        otherwise: self.edge(otherwise, &false_facts),
                    },
                    (Some(facts), None) => Terminator::Jump(self.edge(then, &facts)),
                    (None, Some(facts)) => Terminator::Jump(self.edge(otherwise, &facts)),
                    // No packet comes here.
                    (None, None) => Terminator::Jump(self.edge(otherwise, facts)),
                }
            }
        }
    }

    /// `edge`, on which `facts` are known, led past all that they decide.
    fn edge(&mut self, edge: &Edge, facts: &Facts) -> Edge {
        let mut edge = edge.clone();
        let mut facts = facts.clone();
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

    /// Notes one more way to a block.
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
