//! Removes block parameters.
//!
//! libpcap lets one test of a port follow both the load from an IPv4 and that
//! from an IPv6 packet: one block, whose parameter is the loaded value. A
//! Boolean function has no parameters, so the block is copied for each set of
//! arguments, and so are later blocks that use the parameter. Blocks are copied
//! in order, so edges still lead forward; the number of copies is bounded.
//!
//! Values are read as trees here, at most [`MAX_OPERATIONS`] nodes of each. A
//! function with greater values is rejected: no lane could evaluate its
//! predicates.

use forebay_filter::cancel;
use forebay_filter::ir::simplify::simplify;
use forebay_filter::ir::{Block, BlockId, Edge, Function, Predicate, Terminator, Value, ValueId};
use rustc_hash::FxHashMap;

use super::atom::{MAX_OPERATIONS, operations};

/// Copies allowed for each block, plus some for small functions.
const COPIES: usize = 4;
const COPIES_BESIDES: usize = 64;

/// The most parameters in scope: a filter has one or two, and copies are
/// distinguished by all of them.
const MAX_IN_SCOPE: usize = 64;

/// The arguments of parameters in scope: values of the new function.
type Scope = Vec<(ValueId, ValueId)>;

/// `function` without block parameters; `None` if it has none to begin with,
/// has loops, or would grow too large.
#[must_use]
pub(super) fn straighten(function: &Function) -> Option<Function> {
    let none = function.blocks.iter().all(|block| block.parameters.is_empty());
    if none || function.has_backward_edges() {
        return None;
    }
    let live = live_parameters(function)?;
    let copies = vec![Vec::new(); function.blocks.len()];
    let numbers = FxHashMap::default();
    let mut straight = Straight { function, live, result: Function::new(), copies, numbers };
    straight.copies.first_mut()?.push(Scope::new());
    let blocks = straight.discover()?;
    straight.result.sets = function.sets.clone();
    straight.result.blocks = blocks;
    simplify(&mut straight.result);
    Some(straight.result)
}

/// By block: the parameters of other blocks that it or its successors use,
/// ascending; `None` if they are too many, or a value is too large a tree.
fn live_parameters(function: &Function) -> Option<Vec<Vec<ValueId>>> {
    let operations = operations(function);
    let is_small = |value: &ValueId| operations[value.0 as usize] <= MAX_OPERATIONS;
    let mut live: Vec<Vec<ValueId>> = vec![Vec::new(); function.blocks.len()];
    for (index, block) in function.blocks.iter().enumerate().rev() {
        cancel::check();
        let mut read: Vec<ValueId> = match &block.end {
            Terminator::Return(value) => vec![*value],
            Terminator::Test { predicate, .. } => predicate.operands().collect(),
            Terminator::Jump(_) => Vec::new(),
        };
        read.extend(block.end.edges().flat_map(|edge| &edge.arguments));
        if !read.iter().all(is_small) {
            return None;
        }
        let mut used = Vec::new();
        read.iter().for_each(|&value| parameters_of(function, value, &mut used));
        used.extend(block.end.edges().flat_map(|edge| &live[edge.target.0 as usize]));
        used.sort_unstable();
        used.dedup();
        used.retain(|parameter| !block.parameters.contains(parameter));
        if used.len() + block.parameters.len() > MAX_IN_SCOPE {
            return None;
        }
        live[index] = used;
    }
    Some(live)
}

/// Adds the parameters that a value within the limit depends on.
fn parameters_of(function: &Function, value: ValueId, found: &mut Vec<ValueId>) {
    let value_is = function.get(value);
    if matches!(value_is, Value::Parameter { .. }) {
        found.push(value);
    }
    value_is.operands().for_each(|operand| parameters_of(function, operand, found));
}

struct Straight<'a> {
    function: &'a Function,
    live: Vec<Vec<ValueId>>,
    result: Function,
    /// By block: the scopes in which it is needed, a copy for each.
    copies: Vec<Vec<Scope>>,
    /// The number of a block's copy for a scope.
    numbers: FxHashMap<(usize, Scope), usize>,
}

impl Straight<'_> {
    /// All copies, in order. An edge first names a copy by its block and
    /// number, and is renumbered when all are known.
    fn discover(&mut self) -> Option<Vec<Block>> {
        let most = COPIES * self.function.blocks.len() + COPIES_BESIDES;
        let mut ends: Vec<(Terminator, Vec<usize>)> = Vec::new();
        let mut first_copy = Vec::with_capacity(self.function.blocks.len());
        for index in 0..self.function.blocks.len() {
            first_copy.push(ends.len());
            for copy in 0..self.copies[index].len() {
                cancel::check();
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

    /// The terminator of a block's copy in `scope`; for each of its edges the
    /// number of the target's copy.
    fn end(&mut self, index: usize, scope: &Scope) -> (Terminator, Vec<usize>) {
        let mut known = FxHashMap::default();
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

    /// The number of the copy for `edge` from `scope`.
    fn copy_for(
        &mut self,
        edge: &Edge,
        scope: &Scope,
        known: &mut FxHashMap<ValueId, ValueId>,
    ) -> usize {
        let target = edge.target.0 as usize;
        let mut inner = Scope::new();
        for (position, &parameter) in self.function.blocks[target].parameters.iter().enumerate() {
            let argument = self.rewrite(edge.arguments[position], scope, known);
            inner.push((parameter, argument));
        }
        let still = |pair: &&(ValueId, ValueId)| self.live[target].binary_search(&pair.0).is_ok();
        inner.extend(scope.iter().filter(still));
        let copies = &mut self.copies[target];
        *self.numbers.entry((target, inner)).or_insert_with_key(|(_, inner)| {
            copies.push(inner.clone());
            copies.len() - 1
        })
    }

    /// `value` in the new function, with parameters replaced.
    fn rewrite(
        &mut self,
        value: ValueId,
        scope: &Scope,
        known: &mut FxHashMap<ValueId, ValueId>,
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

#[cfg(test)]
mod tests {
    use forebay_filter::ir::{Arithmetic, Relation, Width};

    use super::*;

    /// A block that is entered from two tests with different values, `doublings`
    /// times added to themselves, and compares its parameter with 5.
    fn diamond(doublings: usize) -> Function {
        let mut function = Function::new();
        let entered = BlockId(1);
        let parameter = function.value(Value::Parameter { block: entered, position: 0 });
        let five = function.constant(5);
        let mut values = [0, 1].map(|displacement| {
            function.value(Value::Load { width: Width::Byte, index: None, displacement })
        });
        for _ in 0..doublings {
            values = values.map(|value| {
                function.value(Value::Binary { op: Arithmetic::Add, left: value, right: value })
            });
        }
        let edges = values.map(|value| Edge { target: entered, arguments: vec![value] });
        let [then, otherwise] = edges;
        let compare = |left| Predicate::Compare { relation: Relation::Equal, left, right: five };
        let end = Terminator::Test { predicate: compare(values[0]), then, otherwise };
        function.blocks.push(Block { parameters: Vec::new(), end });
        let (then, otherwise) = (Edge::to(BlockId(2)), Edge::to(BlockId(3)));
        let end = Terminator::Test { predicate: compare(parameter), then, otherwise };
        function.blocks.push(Block { parameters: vec![parameter], end });
        for verdict in [1, 0] {
            let end = Terminator::Return(function.constant(verdict));
            function.blocks.push(Block { parameters: Vec::new(), end });
        }
        function
    }

    #[test]
    fn a_block_is_copied_for_each_value_of_its_parameter() {
        let straight = straighten(&diamond(0)).expect("it is small");
        assert!(straight.blocks.iter().all(|block| block.parameters.is_empty()));
        for bytes in [[5, 5], [5, 6], [6, 5], [6, 6]] {
            assert_eq!(straight.run(&bytes, 2), diamond(0).run(&bytes, 2), "{bytes:?}");
        }
    }

    #[test]
    fn values_that_are_large_trees_are_given_up() {
        assert!(straighten(&diamond(5)).is_some());
        for doublings in [6, 100, 2000] {
            assert!(straighten(&diamond(doublings)).is_none());
        }
    }
}
