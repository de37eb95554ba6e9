//! Removes unreachable and unused parts.
//!
//! Unreachable blocks, and parameters, values and sets that no test and no
//! result needs, are removed, and the rest is renumbered. Blocks keep their
//! order, so forward edges stay forward and backward edges backward. Constants
//! come first among the values, ascending, then the others in their order; sets
//! are in the order of their first use, equal ones merged.

use rustc_hash::FxHashMap;

use crate::ir::{Block, BlockId, Edge, Function, Predicate, SetId, Terminator, Value, ValueId};

/// `function` without its unused parts.
pub(in crate::ir) fn compact(function: &Function) -> Function {
    let reached = reached(function);
    let needed = Needed::of(function, &reached);
    let mut copy = Copy {
        old: function,
        new: Function::with_capacity(function.values().len()),
        blocks: new_block_numbers(&reached),
        values: vec![ValueId(0); function.values().len()],
        needed,
        sets: vec![None; function.sets.len()],
        known_sets: FxHashMap::default(),
    };
    copy.values();
    copy.new.blocks.reserve(function.blocks.len());
    for (index, block) in function.blocks.iter().enumerate() {
        if reached[index] {
            let block = copy.block(block);
            copy.new.blocks.push(block);
        }
    }
    copy.new
}

/// By block: whether it is reachable.
pub(in crate::ir) fn reached(function: &Function) -> Vec<bool> {
    let mut reached = vec![false; function.blocks.len()];
    let mut stack = vec![BlockId(0)];
    while let Some(id) = stack.pop() {
        if !std::mem::replace(&mut reached[id.0 as usize], true) {
            stack.extend(function.block(id).end.edges().map(|edge| edge.target));
        }
    }
    reached
}

fn new_block_numbers(reached: &[bool]) -> Vec<BlockId> {
    let mut next = 0;
    let number = |&reached: &bool| {
        let number = BlockId(next);
        next += u32::from(reached);
        number
    };
    reached.iter().map(number).collect()
}

/// The values that some test or result of a reachable block needs.
struct Needed {
    values: Vec<bool>,
    stack: Vec<ValueId>,
}

impl Needed {
    fn of(function: &Function, reached: &[bool]) -> Self {
        let mut needed = Self { values: vec![false; function.values().len()], stack: Vec::new() };
        // The arguments of edges, by block and position.
        let mut arguments: Vec<Vec<&[ValueId]>> = vec![Vec::new(); function.blocks.len()];
        for (block, _) in function.blocks.iter().zip(reached).filter(|(_, reached)| **reached) {
            for edge in block.end.edges().filter(|edge| !edge.arguments.is_empty()) {
                arguments[edge.target.0 as usize].push(&edge.arguments);
            }
            match &block.end {
                Terminator::Test { predicate, .. } => {
                    predicate.operands().for_each(|value| needed.mark(value));
                }
                Terminator::Return(value) => needed.mark(*value),
                Terminator::Jump(_) => {}
            }
        }
        while let Some(value) = needed.stack.pop() {
            function.get(value).operands().for_each(|operand| needed.mark(operand));
            if let Value::Parameter { block, position } = function.get(value) {
                for passed in &arguments[block.0 as usize] {
                    needed.mark(passed[position as usize]);
                }
            }
        }
        needed
    }

    fn mark(&mut self, value: ValueId) {
        if !std::mem::replace(&mut self.values[value.0 as usize], true) {
            self.stack.push(value);
        }
    }

    fn has(&self, value: ValueId) -> bool {
        self.values[value.0 as usize]
    }
}

struct Copy<'a> {
    old: &'a Function,
    new: Function,
    blocks: Vec<BlockId>,
    values: Vec<ValueId>,
    needed: Needed,
    sets: Vec<Option<SetId>>,
    known_sets: FxHashMap<&'a [u32], SetId>,
}

impl Copy<'_> {
    /// Numbers the needed values.
    fn values(&mut self) {
        let old = self.old;
        let mut constants = Vec::with_capacity(old.values().len());
        for (id, &value) in (0..).map(ValueId).zip(old.values()) {
            if let Value::Constant(constant) = value
                && self.needed.has(id)
            {
                constants.push((constant, id));
            }
        }
        constants.sort_unstable();
        for (constant, id) in constants {
            self.values[id.0 as usize] = self.new.constant(constant);
        }
        for (id, &value) in (0..).map(ValueId).zip(old.values()) {
            if !matches!(value, Value::Constant(_)) && self.needed.has(id) {
                let value = self.value(value);
                self.values[id.0 as usize] = self.new.value(value);
            }
        }
    }

    /// `value` with renumbered operands, which come before it.
    fn value(&self, value: Value) -> Value {
        match value {
            Value::Parameter { block, position } => {
                let before = &self.old.block(block).parameters[..position as usize];
                let position = before.iter().filter(|id| self.needed.has(**id)).count() as u32;
                Value::Parameter { block: self.blocks[block.0 as usize], position }
            }
            other => other.with_operands(|operand| self.values[operand.0 as usize]),
        }
    }

    fn block(&mut self, block: &Block) -> Block {
        let kept = block.parameters.iter().filter(|id| self.needed.has(**id));
        let parameters = kept.map(|id| self.values[id.0 as usize]).collect();
        let end = match &block.end {
            Terminator::Return(value) => Terminator::Return(self.values[value.0 as usize]),
            Terminator::Jump(edge) => Terminator::Jump(self.edge(edge)),
            Terminator::Test { predicate, then, otherwise } => {
                let predicate = self.predicate(*predicate);
                let (then, otherwise) = (self.edge(then), self.edge(otherwise));
                Terminator::Test { predicate, then, otherwise }
            }
        };
        Block { parameters, end }
    }

    fn edge(&self, edge: &Edge) -> Edge {
        let parameters = &self.old.block(edge.target).parameters;
        let kept = parameters.iter().zip(&edge.arguments).filter(|(id, _)| self.needed.has(**id));
        let arguments = kept.map(|(_, value)| self.values[value.0 as usize]).collect();
        Edge { target: self.blocks[edge.target.0 as usize], arguments }
    }

    fn predicate(&mut self, predicate: Predicate) -> Predicate {
        match predicate.with_operands(|operand| self.values[operand.0 as usize]) {
            Predicate::Member { value, set } => Predicate::Member { value, set: self.set(set) },
            other => other,
        }
    }

    fn set(&mut self, set: SetId) -> SetId {
        if let Some(known) = self.sets[set.0 as usize] {
            return known;
        }
        let constants = self.old.sets[set.0 as usize].as_slice();
        let next = SetId(self.new.sets.len() as u32);
        let number = *self.known_sets.entry(constants).or_insert(next);
        if number == next {
            self.new.sets.push(constants.to_vec());
        }
        self.sets[set.0 as usize] = Some(number);
        number
    }
}
