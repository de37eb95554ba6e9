//! Splits a program into regions and computes live registers.
//!
//! A *region* is a sequence of instructions that is entered only at its first
//! and left only at its last. A register is *live* at the start of a region if
//! some path from there reads it before writing it; the others need not be
//! known there. Both are found in time proportional to the program's length: a
//! region is processed again only when one of its 18 registers turns out to be
//! live.

use crate::program::instruction::{ANCILLARY, Instruction, Operand, Operation};
use crate::verify::MEMORY_CELLS;

/// A set of registers, one bit each: A, X, then the memory cells.
pub(super) type Registers = u32;

/// Number of register A.
pub(super) const A: usize = 0;
/// Number of register X.
pub(super) const X: usize = 1;
/// Number of registers.
pub(super) const REGISTERS: usize = 2 + MEMORY_CELLS;

/// Number of a memory cell as a register.
pub(super) fn cell(number: u32) -> usize {
    2 + number as usize % MEMORY_CELLS
}

/// A run of instructions.
pub(super) struct Region {
    pub start: usize,
    /// One beyond its last instruction.
    pub end: usize,
    /// Successors; for a conditional jump, the one taken if the test holds
    /// comes first.
    pub next: Vec<usize>,
    /// Registers that are live at its start.
    pub live: Registers,
    /// Whether it is the target of a backward jump.
    pub looped: bool,
    /// Whether it is reachable.
    pub reached: bool,
}

/// The operation of a verified instruction; a return if there is none.
pub(super) fn operation(instruction: Instruction) -> Operation {
    instruction.decode().unwrap_or(Operation::ReturnConstant(0))
}

/// Whether `operation` always ends the program.
fn ends(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ReturnConstant(_) | Operation::ReturnA | Operation::LoadAbsolute(_, ANCILLARY..)
    )
}

/// The jump targets of `operation`, instruction number `index`, besides the
/// next instruction.
fn targets(operation: Operation, index: usize) -> Vec<usize> {
    match operation {
        Operation::Jump(distance) => vec![(index as u32 + 1).wrapping_add(distance) as usize],
        Operation::Branch(_, _, jt, jf) => {
            vec![index + 1 + usize::from(jt), index + 1 + usize::from(jf)]
        }
        _ => Vec::new(),
    }
}

/// The regions of a verified program, in its order.
pub(super) fn regions(program: &[Instruction]) -> Vec<Region> {
    let (starts, looped) = starts(program);
    let mut number = vec![0; program.len()];
    let mut count = 0;
    for (index, starts) in starts.iter().enumerate() {
        count += usize::from(*starts);
        number[index] = count - 1;
    }
    let mut regions: Vec<Region> = Vec::with_capacity(count);
    for start in (0..program.len()).filter(|index| starts[*index]) {
        let length = starts[start + 1..].iter().take_while(|starts| !**starts).count();
        let end = start + 1 + length;
        let last = operation(program[end - 1]);
        let next = match targets(last, end - 1) {
            _ if ends(last) => Vec::new(),
            none if none.is_empty() => vec![number[end]],
            targets => targets.into_iter().map(|target| number[target]).collect(),
        };
        let looped = looped[start];
        regions.push(Region { start, end, next, live: 0, looped, reached: false });
    }
    reach(&mut regions);
    find_live(&mut regions, program);
    regions
}

/// By instruction: whether a region starts there, and whether it is the target
/// of a backward jump.
fn starts(program: &[Instruction]) -> (Vec<bool>, Vec<bool>) {
    let mut starts = vec![false; program.len()];
    let mut looped = vec![false; program.len()];
    starts[0] = true;
    for (index, instruction) in program.iter().enumerate() {
        let operation = operation(*instruction);
        let targets = targets(operation, index);
        if (ends(operation) || !targets.is_empty()) && index + 1 < program.len() {
            starts[index + 1] = true;
        }
        for target in targets {
            starts[target] = true;
            looped[target] |= target <= index;
        }
    }
    (starts, looped)
}

fn reach(regions: &mut [Region]) {
    let mut stack = vec![0];
    while let Some(region) = stack.pop() {
        if !std::mem::replace(&mut regions[region].reached, true) {
            stack.extend(&regions[region].next);
        }
    }
}

/// Fills in the live registers of each region.
fn find_live(regions: &mut [Region], program: &[Instruction]) {
    let mut previous = vec![Vec::new(); regions.len()];
    let mut effects = Vec::with_capacity(regions.len());
    for (number, region) in regions.iter().enumerate() {
        for &next in &region.next {
            previous[next].push(number);
        }
        effects.push(Effect::of(&program[region.start..region.end]));
    }
    // The last region is on top: without loops each is processed once.
    let mut queue: Vec<usize> = (0..regions.len()).collect();
    let mut queued = vec![true; regions.len()];
    while let Some(number) = queue.pop() {
        queued[number] = false;
        let after = regions[number].next.iter().fold(0, |live, next| live | regions[*next].live);
        let live = effects[number].before(after);
        if live != regions[number].live {
            regions[number].live = live;
            for &previous in &previous[number] {
                if !std::mem::replace(&mut queued[previous], true) {
                    queue.push(previous);
                }
            }
        }
    }
}

/// The registers that a region reads and writes.
struct Effect {
    read_first: Registers,
    written: Registers,
}

impl Effect {
    fn of(instructions: &[Instruction]) -> Self {
        let mut effect = Self { read_first: 0, written: 0 };
        for instruction in instructions {
            let (read, written) = uses(operation(*instruction));
            effect.read_first |= read & !effect.written;
            effect.written |= written;
        }
        effect
    }

    fn before(&self, after: Registers) -> Registers {
        self.read_first | after & !self.written
    }
}

/// The registers that an operation reads, and those it writes.
fn uses(operation: Operation) -> (Registers, Registers) {
    const ACCUMULATOR: Registers = 1 << A;
    const INDEX: Registers = 1 << X;
    let of = |operand| if operand == Operand::X { INDEX } else { 0 };
    let memory = |number| 1 << cell(number);
    match operation {
        Operation::LoadAbsolute(..) | Operation::LoadLength | Operation::LoadImmediate(_) => {
            (0, ACCUMULATOR)
        }
        Operation::LoadIndirect(..) => (INDEX, ACCUMULATOR),
        Operation::LoadMemory(number) => (memory(number), ACCUMULATOR),
        Operation::LoadXLength | Operation::LoadXImmediate(_) | Operation::LoadXHeader(_) => {
            (0, INDEX)
        }
        Operation::LoadXMemory(number) => (memory(number), INDEX),
        Operation::Store(number) => (ACCUMULATOR, memory(number)),
        Operation::StoreX(number) => (INDEX, memory(number)),
        Operation::Arithmetic(_, operand) => (ACCUMULATOR | of(operand), ACCUMULATOR),
        Operation::Negate => (ACCUMULATOR, ACCUMULATOR),
        Operation::Branch(_, operand, ..) => (ACCUMULATOR | of(operand), 0),
        Operation::ReturnA => (ACCUMULATOR, 0),
        Operation::MoveAToX => (ACCUMULATOR, INDEX),
        Operation::MoveXToA => (INDEX, ACCUMULATOR),
        Operation::Jump(_) | Operation::ReturnConstant(_) => (0, 0),
    }
}
