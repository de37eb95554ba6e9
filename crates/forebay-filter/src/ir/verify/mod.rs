//! The rules of a well-formed [`Function`].
//!
//! 1. There is a block. The first, the entry, has no parameters.
//! 2. Blocks, values and sets that are named exist.
//! 3. The operands of a value come before it.
//! 4. Parameter number `n` of a block is [`Value::Parameter`] of this block and
//!    position `n`, and every such value is the parameter of its block.
//! 5. An edge passes as many arguments as its target has parameters.
//! 6. Every block is reachable from the entry.
//! 7. A parameter is used only in blocks that its own block dominates.
//! 8. A load is used only where a test on every path to the use guarantees that
//!    its bytes were captured; a quotient or remainder only where one
//!    guarantees that the divisor is not 0. Operands of a test, arguments of an
//!    edge and results of a function use a value, and all values that it is
//!    computed from. A test guarantees its outcome on the edges out of its
//!    block, not in the block.
//! 9. A set is ascending, without repetition, not empty, and used.
//!
//! Guarantees follow from the tests on the path: bytes captured, up to a
//! constant or behind an index, and divisors that are not 0. A test with a
//! larger constant implies one with a smaller, and a test for all bytes that an
//! index of at most 60 can reach implies each of them. The verifier does not
//! exclude paths that no packet can take.
//!
//! Compiled code is safe to run because its function was verified. That does
//! not depend on any other part of the compiler, in particular not on
//! `simplify`.
//!
//! Rules 1 to 6 and 9 take time proportional to the size of the function. For
//! rules 7 and 8 each block is visited once, and again only in loops. A use of
//! a value takes constant time if it needs bytes at constant offsets only, and
//! otherwise time proportional to the size of its expression. A function with
//! thousands of indices or divisors that are guaranteed differently on each of
//! thousands of paths to a block may be rejected although it satisfies the
//! rules.

mod error;
mod ways;

use super::{BlockId, Edge, Function, Predicate, Terminator, Value, ValueId};

pub use error::IrError;

/// Checks that `function` satisfies all rules.
///
/// # Errors
/// The first violation.
pub fn verify(function: &Function) -> Result<(), IrError> {
    let entry = function.blocks.first().ok_or(IrError::NoBlock)?;
    if !entry.parameters.is_empty() {
        return Err(IrError::EntryParameters);
    }
    let mut used_sets = vec![false; function.sets.len()];
    for index in 0..function.blocks.len() {
        names(function, BlockId(index as u32), &mut used_sets)?;
    }
    for (index, &value) in function.values().iter().enumerate() {
        value_rules(function, ValueId(index as u32), value)?;
    }
    for index in 0..function.blocks.len() {
        edges(function, BlockId(index as u32))?;
    }
    let reached = super::simplify::compact::reached(function);
    if let Some(block) = reached.iter().position(|reached| !reached) {
        return Err(IrError::Unreached { block: block as u32 });
    }
    sets(function, &used_sets)?;
    ways::verify(function)
}

/// Rule 2 for one block, and the block's half of rule 4.
fn names(function: &Function, id: BlockId, used_sets: &mut [bool]) -> Result<(), IrError> {
    let block = id.0;
    let named = |value: ValueId| match function.values().get(value.0 as usize) {
        Some(_) => Ok(()),
        None => Err(IrError::NoSuchValue { block, value: value.0 }),
    };
    for (position, &parameter) in function.block(id).parameters.iter().enumerate() {
        named(parameter)?;
        let expected = Value::Parameter { block: id, position: position as u32 };
        if function.get(parameter) != expected {
            return Err(IrError::Parameter { block, position });
        }
    }
    match &function.block(id).end {
        Terminator::Return(value) => named(*value)?,
        Terminator::Jump(_) => {}
        Terminator::Test { predicate, .. } => {
            predicate.operands().try_for_each(named)?;
            if let Predicate::Member { set, .. } = predicate {
                let used = used_sets.get_mut(set.0 as usize);
                *used.ok_or(IrError::NoSuchSet { block, set: set.0 })? = true;
            }
        }
    }
    for Edge { target, arguments } in function.block(id).end.edges() {
        if target.0 as usize >= function.blocks.len() {
            return Err(IrError::NoSuchBlock { block, target: target.0 });
        }
        arguments.iter().try_for_each(|&value| named(value))?;
    }
    Ok(())
}

/// Rule 3, and the value's half of rule 4.
fn value_rules(function: &Function, id: ValueId, value: Value) -> Result<(), IrError> {
    if let Some(operand) = value.operands().find(|operand| *operand >= id) {
        return Err(IrError::OperandOrder { value: id.0, operand: operand.0 });
    }
    if let Value::Parameter { block, position } = value {
        let owner = function.blocks.get(block.0 as usize);
        let listed = owner.and_then(|owner| owner.parameters.get(position as usize));
        if listed != Some(&id) {
            return Err(IrError::StrayParameter { value: id.0, block: block.0, position });
        }
    }
    Ok(())
}

/// Rule 5 for the edges out of one block.
fn edges(function: &Function, id: BlockId) -> Result<(), IrError> {
    for Edge { target, arguments } in function.block(id).end.edges() {
        let expected = function.block(*target).parameters.len();
        let found = arguments.len();
        if found != expected {
            return Err(IrError::Arguments { block: id.0, target: target.0, expected, found });
        }
    }
    Ok(())
}

/// Rule 9.
fn sets(function: &Function, used: &[bool]) -> Result<(), IrError> {
    for (set, constants) in function.sets.iter().enumerate() {
        if constants.is_empty() || !constants.is_sorted_by(|a, b| a < b) {
            return Err(IrError::Set { set });
        }
        if !used[set] {
            return Err(IrError::UnusedSet { set });
        }
    }
    Ok(())
}
