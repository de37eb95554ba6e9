//! Blocks that an edge may be led past although they have parameters.
//!
//! A parameter that only its own block's end uses is not missed by the blocks
//! behind: what would have been passed to it takes its place in what the block
//! passes on.

use crate::ir::{Block, Edge, Function, Terminator, ValueId};

/// For each block, whether nothing but its own end uses its parameters, and
/// that as they are, not in expressions.
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

/// The edge that leads where `edge` into `block`, then `next` out of it lead.
pub(super) fn past(block: &Block, edge: &Edge, next: &Edge) -> Edge {
    let passed = |&value: &ValueId| {
        let position = block.parameters.iter().position(|&parameter| parameter == value);
        position.map_or(value, |position| edge.arguments[position])
    };
    Edge { target: next.target, arguments: next.arguments.iter().map(passed).collect() }
}
