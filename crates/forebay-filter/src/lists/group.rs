//! Functions of primitives, and of many that differ in one constant only.
//!
//! libpcap's programs for `host 10.0.0.1` and `host 10.0.0.2` are the same but
//! for the constant of a few comparisons. Where the programs of a list are the
//! same but for the constant of comparisons for equality, and each has one
//! constant in all the places, the disjunction of them all is the program with
//! each of these comparisons replaced by a look-up in the set of constants,
//! provided that a comparison that holds accepts the packet there and then.
//!
//! Why: take a packet. Up to the first look-up that succeeds, the function and
//! every one of the programs go the same way, for where a look-up fails so does
//! the comparison in each of them. If none succeeds they all end alike. If one
//! does, the function accepts; and the program whose constant was found accepts
//! in that place as well. And if some program accepts by a comparison, the
//! look-up in its place, if not one before it, succeeds. All accept with the
//! same number.

use crate::compile::SNAP_LEN;
use crate::ir::build::build;
use crate::ir::{Edge, Function, Predicate, Relation, SetId, Terminator, ValueId};
use crate::program::Program;
use crate::program::instruction::{Instruction, Operand, Operation, Test};
use crate::verify::Profile;

/// Programs from which on they are brought together.
pub(super) const GROUP: usize = 4;

/// What a function of [`three_valued`] returns for a packet that its primitive
/// does not hold for.
pub(super) const FALSE: u32 = 1;

/// The function of a primitive: it returns [`SNAP_LEN`] where the primitive
/// holds, [`FALSE`] where it does not, and 0 where the program ended early, at
/// a load of bytes that were not captured. That ends the program of any
/// expression that the primitive is part of. Nothing if the program returns
/// anything else.
pub(super) fn three_valued(program: &Program) -> Option<Function> {
    let result = |&instruction: &Instruction| match instruction.decode() {
        Some(Operation::ReturnConstant(0)) => Some(Instruction { k: FALSE, ..instruction }),
        Some(Operation::ReturnConstant(SNAP_LEN)) => Some(instruction),
        Some(Operation::ReturnConstant(_) | Operation::ReturnA) => None,
        _ => Some(instruction),
    };
    let instructions: Option<Vec<_>> = program.instructions().iter().map(result).collect();
    Some(build(&Program::verify(&instructions?, Profile::Libpcap).ok()?))
}

/// The instructions, with no constants in comparisons for equality.
pub(super) fn shape(program: &Program) -> Vec<Instruction> {
    let without_constant = |&instruction: &Instruction| match instruction.decode() {
        Some(Operation::Branch(Test::Eq, Operand::K(_), ..)) => Instruction { k: 0, ..instruction },
        _ => instruction,
    };
    program.instructions().iter().map(without_constant).collect()
}

/// The function for programs of one shape that differ in one constant.
pub(super) fn with_set(programs: &[&Program]) -> Option<Function> {
    let first = programs.first()?.instructions();
    // In the template, marks of other places would stand for constants too.
    if programs.len() < GROUP {
        return None;
    }
    let differs = |place: &usize| {
        programs.iter().any(|program| program.instructions()[*place].k != first[*place].k)
    };
    let places: Vec<usize> = (0..first.len()).filter(differs).collect();
    let mut constants = Vec::with_capacity(programs.len());
    for program in programs {
        let mut found = places.iter().map(|&place| program.instructions()[place].k);
        let constant = found.next()?;
        if found.any(|other| other != constant) {
            return None;
        }
        constants.push(constant);
    }
    constants.sort_unstable();
    constants.dedup();
    let (template, mark) = template(first, &places)?;
    let mut function = three_valued(&template)?;
    let replaced = look_up(&mut function, mark, constants)?;
    // Each comparison became one test, or the mark stands elsewhere too.
    (replaced == places.len()).then_some(function)
}

/// The program with a constant that it has nowhere else in all `places`, and
/// that constant.
fn template(instructions: &[Instruction], places: &[usize]) -> Option<(Program, u32)> {
    let mark = (0..u32::MAX).rev().find(|mark| instructions.iter().all(|i| i.k != *mark))?;
    let mut instructions = instructions.to_vec();
    for &place in places {
        instructions[place].k = mark;
    }
    Some((Program::verify(&instructions, Profile::Libpcap).ok()?, mark))
}

/// Replaces comparisons with `mark` by look-ups among `constants`; says how
/// many there were. Nothing if one of them does not accept there and then.
fn look_up(function: &mut Function, mark: u32, constants: Vec<u32>) -> Option<usize> {
    let set = SetId(function.sets.len() as u32);
    let mark = function.constant(mark);
    let mut replaced = 0;
    for index in 0..function.blocks.len() {
        let Terminator::Test { predicate, then, .. } = &function.blocks[index].end else {
            continue;
        };
        let Some(value) = compared_with(*predicate, mark) else { continue };
        if returned(function, then) != Some(SNAP_LEN) {
            return None;
        }
        if let Terminator::Test { predicate, .. } = &mut function.blocks[index].end {
            *predicate = Predicate::Member { value, set };
            replaced += 1;
        }
    }
    function.sets.push(constants);
    Some(replaced)
}

fn compared_with(predicate: Predicate, mark: ValueId) -> Option<ValueId> {
    match predicate {
        Predicate::Compare { relation: Relation::Equal, left, right } if right == mark => {
            Some(left)
        }
        _ => None,
    }
}

/// What is returned at the end of an edge, if nothing is tested there.
fn returned(function: &Function, edge: &Edge) -> Option<u32> {
    match &function.block(edge.target).end {
        Terminator::Return(value) => function.as_constant(*value),
        _ => None,
    }
}
