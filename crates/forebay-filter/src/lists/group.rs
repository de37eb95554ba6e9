//! Functions of primitives, and of many that differ only in one constant.
//!
//! libpcap's programs for `host 10.0.0.1` and `host 10.0.0.2` are equal except
//! for the constant of a few comparisons. If the programs of a list are equal
//! except for the constant of equality comparisons, and each program has one
//! constant in all these places, then the disjunction of them all is the
//! program with each of these comparisons replaced by a lookup in the set of
//! constants, provided that a comparison that holds accepts the packet at once.
//!
//! Proof: take a packet. Up to the first lookup that succeeds, the function and
//! every program take the same path, because where a lookup fails, so does the
//! comparison in each program. If no lookup succeeds, they all have the same
//! result. If one does, the function accepts, and so does the program whose
//! constant was found, in that place. Conversely, if some program accepts by a
//! comparison, the lookup in its place succeeds, if not one before it. All
//! accept with the same number.

use crate::ir::build::build;
use crate::ir::{Edge, Function, Predicate, Relation, SetId, Terminator, ValueId};
use crate::libpcap::SNAP_LEN;
use crate::program::Program;
use crate::program::instruction::{Instruction, Operand, Operation, Test};
use crate::verify::Profile;

/// The number of programs from which on they are combined.
pub(super) const GROUP: usize = 4;

/// The result of a function of [`three_valued`] for a packet that does not
/// match its primitive.
pub(super) const FALSE: u32 = 1;

/// The function of a primitive: it returns [`SNAP_LEN`] if the primitive
/// matches, [`FALSE`] if it does not, and 0 if the program ended early, at a
/// load of bytes that were not captured. An early end also ends the program of
/// any expression that contains the primitive. `None` if the program returns
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

/// The instructions, with constants removed from equality comparisons.
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
    // Each comparison became one test; otherwise the mark also occurs
    // elsewhere.
    (replaced == places.len()).then_some(function)
}

/// The program with a new, unique constant in all `places`, and that constant.
fn template(instructions: &[Instruction], places: &[usize]) -> Option<(Program, u32)> {
    let mark = (0..u32::MAX).rev().find(|mark| instructions.iter().all(|i| i.k != *mark))?;
    let mut instructions = instructions.to_vec();
    for &place in places {
        instructions[place].k = mark;
    }
    Some((Program::verify(&instructions, Profile::Libpcap).ok()?, mark))
}

/// Replaces comparisons with `mark` by lookups in `constants`; returns their
/// number. `None` if one of them does not accept at once.
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

/// The constant returned at the end of an edge, if the target only returns.
fn returned(function: &Function, edge: &Edge) -> Option<u32> {
    match &function.block(edge.target).end {
        Terminator::Return(value) => function.as_constant(*value),
        _ => None,
    }
}
