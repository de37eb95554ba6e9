//! Functions without block parameters.
//!
//! libpcap lets the test of a port follow both the load from an IPv4 and that
//! from an IPv6 packet: one block, whose parameter is what was loaded. A
//! Boolean function has no such thing, so the block is copied for each set of
//! arguments, with all that uses the parameter further on. Blocks are copied in
//! order, so that edges still lead forward; copies are bounded.

use std::collections::HashMap;

use forebay_filter::ir::simplify::simplify;
use forebay_filter::ir::{Block, BlockId, Edge, Function, Predicate, Terminator, Value, ValueId};

/// Copies that may come for each block, and some for small functions.
const COPIES: usize = 4;
const COPIES_BESIDES: usize = 64;

/// What parameters in scope stand for: values of the new function.
type Scope = Vec<(ValueId, ValueId)>;

/// `function` without block parameters; nothing if it has none to begin with,
/// loops, or would grow too large.
#[must_use]
pub(super) fn straighten(function: &Function) -> Option<Function> {
    let none = function.blocks.iter().all(|block| block.parameters.is_empty());
    if none || function.has_backward_edges() {
        return None;
    }
    let live = live_parameters(function);
    let mut straight = Straight { function, live, result: Function::new(), copies: Vec::new() };
    straight.copies.resize(function.blocks.len(), Vec::new());
    straight.copies[0].push(Scope::new());
    let blocks = straight.discover()?;
    straight.result.sets = function.sets.clone();
    straight.result.blocks = blocks;
    simplify(&mut straight.result);
    Some(straight.result)
}

/// For each block, the parameters of other blocks that it or what follows uses,
/// ascending.
fn live_parameters(function: &Function) -> Vec<Vec<ValueId>> {
    let mut live: Vec<Vec<ValueId>> = vec![Vec::new(); function.blocks.len()];
    for (index, block) in function.blocks.iter().enumerate().rev() {
        let mut used = Vec::new();
        match &block.end {
            Terminator::Return(value) => parameters_of(function, *value, &mut used),
            Terminator::Test { predicate, .. } => {
                for value in operands(predicate) {
                    parameters_of(function, value, &mut used);
                }
            }
            Terminator::Jump(_) => {}
        }
        for edge in block.end.edges() {
            for &argument in &edge.arguments {
                parameters_of(function, argument, &mut used);
            }
            used.extend(&live[edge.target.0 as usize]);
        }
        used.retain(|parameter| !block.parameters.contains(parameter));
        used.sort_unstable();
        used.dedup();
        live[index] = used;
    }
    live
}

fn operands(predicate: &Predicate) -> impl Iterator<Item = ValueId> {
    let (first, second) = match *predicate {
        Predicate::Captured { index, .. } => (index, None),
        Predicate::Compare { left, right, .. } => (Some(left), Some(right)),
        Predicate::Member { value, .. } => (Some(value), None),
    };
    first.into_iter().chain(second)
}

fn parameters_of(function: &Function, value: ValueId, found: &mut Vec<ValueId>) {
    match function.get(value) {
        Value::Parameter { .. } => found.push(value),
        Value::Load { index: Some(index), .. } => parameters_of(function, index, found),
        Value::Binary { left, right, .. } => {
            parameters_of(function, left, found);
            parameters_of(function, right, found);
        }
        Value::Constant(_) | Value::WireLength | Value::Load { index: None, .. } => {}
    }
}

struct Straight<'a> {
    function: &'a Function,
    live: Vec<Vec<ValueId>>,
    result: Function,
    /// The scopes in which each block is needed: a copy for each.
    copies: Vec<Vec<Scope>>,
}

impl Straight<'_> {
    /// All copies, in order. Edges first name a copy by its block and number,
    /// and are numbered when all are known.
    fn discover(&mut self) -> Option<Vec<Block>> {
        let most = COPIES * self.function.blocks.len() + COPIES_BESIDES;
        let mut ends: Vec<(Terminator, Vec<usize>)> = Vec::new();
        let mut first_copy = Vec::with_capacity(self.function.blocks.len());
        for index in 0..self.function.blocks.len() {
            first_copy.push(ends.len());
            for copy in 0..self.copies[index].len() {
                let scope = self.copies[index][copy].clone();
                let end = self.end(index, &scope);
                ends.push(end);
                if ends.len() > most {
                    return None;
                }
            }
        }
        let blocks = ends.into_iter().map(|(mut end, copies)| {
            let mut copies = copies.into_iter();
            let mut number = |edge: &mut Edge| {
                let copy = copies.next().unwrap_or_default();
                *edge = Edge::to(BlockId((first_copy[edge.target.0 as usize] + copy) as u32));
            };
            match &mut end {
                Terminator::Test { then, otherwise, .. } => {
                    number(then);
                    number(otherwise);
                }
                Terminator::Jump(edge) => number(edge),
                Terminator::Return(_) => {}
            }
            Block { parameters: Vec::new(), end }
        });
        Some(blocks.collect())
    }

    /// The end of a block's copy in `scope`; for each of its edges the number
    /// of the target's copy.
    fn end(&mut self, index: usize, scope: &Scope) -> (Terminator, Vec<usize>) {
        let mut known = HashMap::new();
        let mut end = self.function.blocks[index].end.clone();
        let copies = end.edges().map(|edge| self.copy_for(edge, scope, &mut known)).collect();
        match &mut end {
            Terminator::Return(value) => *value = self.rewrite(*value, scope, &mut known),
            Terminator::Test { predicate, .. } => match predicate {
                Predicate::Captured { index, .. } => {
                    *index = index.map(|value| self.rewrite(value, scope, &mut known));
                }
                Predicate::Compare { left, right, .. } => {
                    *left = self.rewrite(*left, scope, &mut known);
                    *right = self.rewrite(*right, scope, &mut known);
                }
                Predicate::Member { value, .. } => {
                    *value = self.rewrite(*value, scope, &mut known);
                }
            },
            Terminator::Jump(_) => {}
        }
        (end, copies)
    }

    /// The number of the copy that `edge` leads to from `scope`.
    fn copy_for(
        &mut self,
        edge: &Edge,
        scope: &Scope,
        known: &mut HashMap<ValueId, ValueId>,
    ) -> usize {
        let target = edge.target.0 as usize;
        let mut inner = Scope::new();
        for (position, &parameter) in self.function.blocks[target].parameters.iter().enumerate() {
            let argument = self.rewrite(edge.arguments[position], scope, known);
            inner.push((parameter, argument));
        }
        let still = |pair: &&(ValueId, ValueId)| self.live[target].contains(&pair.0);
        inner.extend(scope.iter().filter(still));
        let copies = &mut self.copies[target];
        copies.iter().position(|copy| *copy == inner).unwrap_or_else(|| {
            copies.push(inner);
            copies.len() - 1
        })
    }

    /// `value` in the new function, parameters replaced.
    fn rewrite(
        &mut self,
        value: ValueId,
        scope: &Scope,
        known: &mut HashMap<ValueId, ValueId>,
    ) -> ValueId {
        if let Some(&done) = known.get(&value) {
            return done;
        }
        let new = match self.function.get(value) {
            Value::Parameter { .. } => {
                let stands = scope.iter().find(|(parameter, _)| *parameter == value);
                // A parameter is only used where its block dominates.
                stands.map_or_else(|| self.result.constant(0), |(_, argument)| *argument)
            }
            Value::Load { width, index: Some(index), displacement } => {
                let index = Some(self.rewrite(index, scope, known));
                self.result.value(Value::Load { width, index, displacement })
            }
            Value::Binary { op, left, right } => {
                let left = self.rewrite(left, scope, known);
                let right = self.rewrite(right, scope, known);
                self.result.value(Value::Binary { op, left, right })
            }
            plain => self.result.value(plain),
        };
        known.insert(value, new);
        new
    }
}
