//! Copies a function with some values replaced and everything folded.
//!
//! Every pass that replaces values or decides predicates ends here: values are
//! created anew, operands first, and folded after replacement. Blocks keep
//! their numbers; unreachable ones are removed by [`super::compact`].

use forebay_packet::cancel;

use super::fold::Folder;
use super::predicate::Folded;
use crate::ir::{Arithmetic, Block, Edge, Function, Predicate, Terminator, Value, ValueId};

/// `function` with each value `v` replaced by `replacement[v]`, folded.
///
/// Replacements are followed until a value replaces itself. They must have no
/// other cycle, also through operands. A replaced parameter is removed from its
/// block and from the edges to it.
pub(in crate::ir) fn rebuild(function: &Function, replacement: &[ValueId]) -> Function {
    let mut copy = Copy {
        old: function,
        replacement,
        folder: Folder::with_capacity(function.values().len()),
        numbers: vec![None; function.values().len()],
        divisors: vec![false; function.values().len()],
        stack: Vec::new(),
    };
    for value in function.values() {
        if let Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, right, .. } = value {
            let divisor = copy.replaced(*right);
            copy.divisors[divisor.0 as usize] = true;
        }
    }
    copy.folder.function.sets.clone_from(&function.sets);
    copy.folder.function.blocks.reserve(function.blocks.len());
    for block in &function.blocks {
        cancel::check();
        let mut parameters = Vec::with_capacity(block.parameters.len());
        for &parameter in &block.parameters {
            if copy.is_kept(parameter) {
                parameters.push(copy.import(parameter));
            }
        }
        let end = copy.end(&block.end);
        copy.folder.function.blocks.push(Block { parameters, end });
    }
    copy.folder.function
}

/// `function`, folded.
pub(in crate::ir) fn fold(function: &Function) -> Function {
    let itself: Vec<_> = (0..function.values().len() as u32).map(ValueId).collect();
    rebuild(function, &itself)
}

struct Copy<'a> {
    old: &'a Function,
    replacement: &'a [ValueId],
    folder: Folder,
    /// The new numbers of old values, as far as they are known.
    numbers: Vec<Option<ValueId>>,
    /// By old value: whether it is a divisor.
    divisors: Vec<bool>,
    /// Old values whose operands come first; kept to reuse its memory.
    stack: Vec<ValueId>,
}

impl Copy<'_> {
    /// The final replacement of old value `id`.
    fn replaced(&self, mut id: ValueId) -> ValueId {
        while self.replacement[id.0 as usize] != id {
            id = self.replacement[id.0 as usize];
        }
        id
    }

    fn import(&mut self, id: ValueId) -> ValueId {
        let id = self.replaced(id);
        if let Some(known) = self.numbers[id.0 as usize] {
            return known;
        }
        self.stack.push(id);
        // An expression may be as deep as the program is long: no recursion.
        while let Some(&top) = self.stack.last() {
            if self.numbers[top.0 as usize].is_some() {
                self.stack.pop();
                continue;
            }
            if let Some(new) = self.with_operands(top) {
                self.numbers[top.0 as usize] = Some(new);
                self.stack.pop();
            }
        }
        self.numbers[id.0 as usize].unwrap_or(id)
    }

    /// The new number of old value `id`; `None` if its operands have none yet,
    /// after pushing them on the stack.
    fn with_operands(&mut self, id: ValueId) -> Option<ValueId> {
        let value = match self.old.get(id) {
            Value::Binary { op, left, right } => {
                let operands = (self.operand(left), self.operand(right));
                Value::Binary { op, left: operands.0?, right: operands.1? }
            }
            Value::Load { width, index: Some(index), displacement } => {
                Value::Load { width, index: Some(self.operand(index)?), displacement }
            }
            Value::Parameter { block, position } => {
                let before = &self.old.block(block).parameters[..position as usize];
                let position = before.iter().filter(|id| self.is_kept(**id)).count() as u32;
                Value::Parameter { block, position }
            }
            other => other,
        };
        Some(self.folder.value(value))
    }

    fn operand(&mut self, id: ValueId) -> Option<ValueId> {
        let id = self.replaced(id);
        let known = self.numbers[id.0 as usize];
        if known.is_none() {
            self.stack.push(id);
        }
        known
    }

    /// Whether a parameter stays one.
    fn is_kept(&self, parameter: ValueId) -> bool {
        self.replacement[parameter.0 as usize] == parameter
    }

    fn edge(&mut self, edge: &Edge) -> Edge {
        let mut arguments = Vec::with_capacity(edge.arguments.len());
        for (parameter, &value) in
            self.old.block(edge.target).parameters.iter().zip(&edge.arguments)
        {
            if self.is_kept(*parameter) {
                arguments.push(self.import(value));
            }
        }
        Edge { target: edge.target, arguments }
    }

    fn end(&mut self, end: &Terminator) -> Terminator {
        match end {
            Terminator::Return(value) => Terminator::Return(self.import(*value)),
            Terminator::Jump(edge) => Terminator::Jump(self.edge(edge)),
            Terminator::Test { predicate, then, otherwise } => {
                let predicate = self.predicate(*predicate);
                match predicate {
                    Folded::Always(true) => Terminator::Jump(self.edge(then)),
                    Folded::Always(false) => Terminator::Jump(self.edge(otherwise)),
                    Folded::Test { predicate, negated } => {
                        let edges = (self.edge(then), self.edge(otherwise));
                        let (then, otherwise) = if negated { (edges.1, edges.0) } else { edges };
                        if then == otherwise {
                            Terminator::Jump(then)
                        } else {
                            Terminator::Test { predicate, then, otherwise }
                        }
                    }
                }
            }
        }
    }

    fn predicate(&mut self, predicate: Predicate) -> Folded {
        let divisor = match predicate {
            Predicate::Compare { left, .. } => self.divisors[self.replaced(left).0 as usize],
            _ => false,
        };
        let predicate = predicate.with_operands(|operand| self.import(operand));
        if divisor {
            self.folder.divisors.extend(predicate.operands().next());
        }
        self.folder.predicate(predicate)
    }
}
