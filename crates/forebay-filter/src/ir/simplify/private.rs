//! Blocks with parameters past which an edge can be redirected.
//!
//! A parameter that is used only by the terminator of its own block is not
//! needed by later blocks: its argument replaces it in the arguments that the
//! block passes on.

use crate::ir::{Block, Edge, Function, Terminator, ValueId};

/// By block: whether its parameters are used only by its own terminator, and
/// directly, not in expressions.
pub(super) fn private_parameters(function: &Function) -> Vec<bool> {
    let mut owner = vec![None; function.values().len()];
    for (index, block) in function.blocks.iter().enumerate() {
        for parameter in &block.parameters {
            owner[parameter.0 as usize] = Some(index);
        }
    }
    let mut private = vec![true; function.blocks.len()];
    let mut used = |value: ValueId, by: Option<usize>| {
        if let Some(index) = owner[value.0 as usize]
            && by != Some(index)
        {
            private[index] = false;
        }
    };
    for value in function.values() {
        value.operands().for_each(|operand| used(operand, None));
    }
    for (index, block) in function.blocks.iter().enumerate() {
        let index = Some(index);
        match &block.end {
            Terminator::Return(value) => used(*value, index),
            Terminator::Jump(_) => {}
            Terminator::Test { predicate, .. } => {
                predicate.operands().for_each(|value| used(value, index));
            }
        }
        for edge in block.end.edges() {
            edge.arguments.iter().for_each(|&value| used(value, index));
        }
    }
    private
}

/// The edge equivalent to `edge` into `block` followed by `next` out of it.
pub(super) fn past(block: &Block, edge: &Edge, next: &Edge) -> Edge {
    let passed = |&value: &ValueId| {
        let position = block.parameters.iter().position(|&parameter| parameter == value);
        position.map_or(value, |position| edge.arguments[position])
    };
    Edge { target: next.target, arguments: next.arguments.iter().map(passed).collect() }
}
