//! Removes block parameters by copying blocks.
//!
//! libpcap shares code between header formats: one comparison of ports, say,
//! takes the port from whichever load led to it. In the IR such blocks have
//! parameters. Here they are copied, once for each set of arguments, so that
//! the operand of every test is known and can be loaded early. The number of
//! copies is bounded.

use std::borrow::Cow;

use forebay_filter::cancel;
use forebay_filter::ir::{Block, BlockId, Edge, Function, Predicate, Terminator, Value, ValueId};
use rustc_hash::FxHashMap;

use super::error::EmsError;

/// The values of the parameters that a block needs, in order of their numbers.
type Environment = Vec<(ValueId, ValueId)>;

/// `function` without parameters, with at most `most` blocks; borrowed if it
/// has none.
///
/// # Errors
/// [`EmsError::ControlFlow`] if there is a backward edge, [`EmsError::Copies`]
/// if there would be more blocks.
pub(super) fn specialise(function: &Function, most: usize) -> Result<Cow<'_, Function>, EmsError> {
    if function.has_backward_edges() {
        return Err(EmsError::ControlFlow);
    }
    if function.blocks.iter().all(|block| block.parameters.is_empty()) {
        return Ok(Cow::Borrowed(function));
    }
    let depends = dependent_values(function);
    let needed = needed_parameters(function, &depends);
    // Values keep their numbers; replacements are appended.
    let mut made = function.clone();
    made.blocks.clear();
    let specialiser = Specialiser { function, depends, needed, made };
    specialiser.run(most).map(Cow::Owned)
}

/// By value: the parameters that it depends on, ascending.
fn dependent_values(function: &Function) -> Vec<Vec<ValueId>> {
    let mut depends: Vec<Vec<ValueId>> = Vec::with_capacity(function.values().len());
    for (index, value) in function.values().iter().enumerate() {
        let mut here: Vec<ValueId> = match value {
            Value::Parameter { .. } => vec![ValueId(index as u32)],
            _ => value.operands().flat_map(|id| depends[id.0 as usize].clone()).collect(),
        };
        here.sort_unstable();
        here.dedup();
        depends.push(here);
    }
    depends
}

/// By block: the parameters, its own and others', that it or a later block
/// needs, ascending.
fn needed_parameters(function: &Function, depends: &[Vec<ValueId>]) -> Vec<Vec<ValueId>> {
    let mut needed: Vec<Vec<ValueId>> = vec![Vec::new(); function.blocks.len()];
    for (index, block) in function.blocks.iter().enumerate().rev() {
        let mut here: Vec<ValueId> = Vec::new();
        let read: Vec<ValueId> = match &block.end {
            Terminator::Test { predicate, .. } => predicate.operands().collect(),
            Terminator::Return(value) => vec![*value],
            Terminator::Jump(_) => Vec::new(),
        };
        here.extend(read.iter().flat_map(|id| &depends[id.0 as usize]));
        for edge in block.end.edges() {
            let later = &needed[edge.target.0 as usize];
            let own = &function.block(edge.target).parameters;
            here.extend(later.iter().filter(|parameter| !own.contains(parameter)));
            let passed = own.iter().zip(&edge.arguments);
            let passed = passed.filter(|(parameter, _)| later.contains(parameter));
            here.extend(passed.flat_map(|(_, argument)| &depends[argument.0 as usize]));
        }
        here.sort_unstable();
        here.dedup();
        needed[index] = here;
    }
    needed
}

struct Specialiser<'f> {
    function: &'f Function,
    depends: Vec<Vec<ValueId>>,
    needed: Vec<Vec<ValueId>>,
    made: Function,
}

impl Specialiser<'_> {
    /// Copies the blocks in order. Edges lead only to later blocks, so all
    /// environments of a block are known when it is copied.
    fn run(mut self, most: usize) -> Result<Function, EmsError> {
        let count = self.function.blocks.len();
        let mut environments: Vec<Vec<Environment>> = vec![Vec::new(); count];
        environments[0].push(Vec::new());
        // The number of each block's first copy.
        let mut first = vec![0; count];
        for index in 0..count {
            first[index] = self.made.blocks.len();
            for environment in std::mem::take(&mut environments[index]) {
                cancel::check();
                if self.made.blocks.len() == most {
                    return Err(EmsError::Copies(most));
                }
                let end = self.end(BlockId(index as u32), &environment, &mut environments);
                self.made.blocks.push(Block { parameters: Vec::new(), end });
            }
        }
        // Until here an edge has the block, and the copy's number as its only
        // argument.
        for block in &mut self.made.blocks {
            for edge in block.end.edges_mut() {
                let copy = edge.arguments.pop().map_or(0, |ValueId(copy)| copy);
                edge.target = BlockId(first[edge.target.0 as usize] as u32 + copy);
            }
        }
        Ok(self.made)
    }

    fn end(
        &mut self,
        block: BlockId,
        environment: &Environment,
        environments: &mut [Vec<Environment>],
    ) -> Terminator {
        let mut known: FxHashMap<ValueId, ValueId> = environment.iter().copied().collect();
        match &self.function.block(block).end {
            Terminator::Return(value) => Terminator::Return(self.value(*value, &mut known)),
            Terminator::Jump(edge) => Terminator::Jump(self.edge(edge, &mut known, environments)),
            Terminator::Test { predicate, then, otherwise } => Terminator::Test {
                predicate: match *predicate {
                    Predicate::Captured { index, bytes } => {
                        let index = index.map(|index| self.value(index, &mut known));
                        Predicate::Captured { index, bytes }
                    }
                    Predicate::Compare { relation, left, right } => {
                        let left = self.value(left, &mut known);
                        Predicate::Compare { relation, left, right: self.value(right, &mut known) }
                    }
                    Predicate::Member { value, set } => {
                        Predicate::Member { value: self.value(value, &mut known), set }
                    }
                },
                then: self.edge(then, &mut known, environments),
                otherwise: self.edge(otherwise, &mut known, environments),
            },
        }
    }

    /// The edge to the copy for the arguments. Until all copies are known it
    /// has the copy's number within the block as its argument.
    fn edge(
        &mut self,
        edge: &Edge,
        known: &mut FxHashMap<ValueId, ValueId>,
        environments: &mut [Vec<Environment>],
    ) -> Edge {
        let function = self.function;
        let target = edge.target.0 as usize;
        let own = &function.block(edge.target).parameters;
        let mut environment = Environment::new();
        for parameter in self.needed[target].clone() {
            let value = match own.iter().position(|&own| own == parameter) {
                Some(position) => self.value(edge.arguments[position], known),
                None => self.value(parameter, known),
            };
            environment.push((parameter, value));
        }
        let copies = &mut environments[target];
        let copy = copies.iter().position(|other| *other == environment).unwrap_or_else(|| {
            copies.push(environment);
            copies.len() - 1
        });
        Edge { target: edge.target, arguments: vec![ValueId(copy as u32)] }
    }

    /// `value` with parameters replaced as in `known`.
    fn value(&mut self, value: ValueId, known: &mut FxHashMap<ValueId, ValueId>) -> ValueId {
        let mut pending = vec![value];
        while let Some(&id) = pending.last() {
            if known.contains_key(&id) || self.depends[id.0 as usize].is_empty() {
                pending.pop();
                continue;
            }
            let old = self.function.get(id);
            let before = pending.len();
            pending.extend(old.operands().filter(|operand| {
                !known.contains_key(operand) && !self.depends[operand.0 as usize].is_empty()
            }));
            if pending.len() > before {
                continue;
            }
            let new = |id: ValueId| known.get(&id).copied().unwrap_or(id);
            let replaced = match old {
                Value::Load { width, index, displacement } => {
                    Value::Load { width, index: index.map(new), displacement }
                }
                Value::Binary { op, left, right } => {
                    Value::Binary { op, left: new(left), right: new(right) }
                }
                Value::Constant(_) | Value::WireLength | Value::Parameter { .. } => old,
            };
            let replaced = self.made.value(replaced);
            known.insert(id, replaced);
        }
        known.get(&value).copied().unwrap_or(value)
    }
}
