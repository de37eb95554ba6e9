//! Programs that differ in one constant only, as one function.
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

use std::collections::{BTreeSet, HashMap};

use crate::ir::build::build;
use crate::ir::{Block, Edge, Function, Predicate, Relation, SetId, Terminator, ValueId};
use crate::program::Program;
use crate::program::instruction::{Instruction, Operand, Operation, Test};
use crate::verify::Profile;

/// Programs from which on they are brought together.
const GROUP: usize = 4;

/// Functions whose disjunction is that of `programs`, each of which has the
/// qualifiers of its term: programs of the same qualifiers may be alike.
pub(super) fn functions(programs: Vec<(&str, Program)>) -> Vec<Function> {
    // Groups in the order of their first programs.
    let mut groups: Vec<Vec<Program>> = Vec::new();
    let mut numbers: HashMap<(&str, Vec<Instruction>), usize> = HashMap::new();
    for (qualifiers, program) in programs {
        let next = groups.len();
        let number = *numbers.entry((qualifiers, shape(&program))).or_insert(next);
        if number == next {
            groups.push(Vec::new());
        }
        groups[number].push(program);
    }
    groups.into_iter().flat_map(|group| of_group(&group)).collect()
}

/// The instructions, with no constants in comparisons for equality.
fn shape(program: &Program) -> Vec<Instruction> {
    let without_constant = |&instruction: &Instruction| match instruction.decode() {
        Some(Operation::Branch(Test::Eq, Operand::K(_), ..)) => Instruction { k: 0, ..instruction },
        _ => instruction,
    };
    program.instructions().iter().map(without_constant).collect()
}

/// One function for programs of one shape, or one for each.
fn of_group(programs: &[Program]) -> Vec<Function> {
    let together = if programs.len() < GROUP { None } else { with_set(programs) };
    match together {
        Some(function) => vec![function],
        None => programs.iter().map(build).collect(),
    }
}

/// The function for programs of one shape that differ in one constant.
fn with_set(programs: &[Program]) -> Option<Function> {
    let first = programs.first()?.instructions();
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
    let mut function = build(&template);
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
/// many there were. Nothing if one of them does not accept there and then, or
/// the packets it accepts are not accepted with the number that others are.
fn look_up(function: &mut Function, mark: u32, constants: Vec<u32>) -> Option<usize> {
    let accepted = accepted(function)?;
    let set = SetId(function.sets.len() as u32);
    let mark = function.constant(mark);
    let mut replaced = 0;
    for index in 0..function.blocks.len() {
        let Terminator::Test { predicate, then, .. } = &function.blocks[index].end else {
            continue;
        };
        let Some(value) = compared_with(*predicate, mark) else { continue };
        if returned(function, then) != Some(accepted) {
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

/// The one number other than 0 that a function returns.
fn accepted(function: &Function) -> Option<u32> {
    let mut numbers = BTreeSet::new();
    for Block { end, .. } in &function.blocks {
        if let Terminator::Return(value) = end {
            numbers.insert(function.as_constant(*value)?);
        }
    }
    numbers.remove(&0);
    numbers.first().copied().filter(|_| numbers.len() == 1)
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
