//! Checks that one scheduled loop is right.
//!
//! The checker takes the source loop and the generated code, and derives
//! everything else anew; of the schedulers it uses only their data types. Its
//! rules:
//!
//! 1. **Body.** Every op of the source is present once, in the order given, and
//!    is unchanged but for the first operand of a tied op, which may be a copy
//!    of the original operand. Every other op is such a copy, of at least the
//!    part of the register that the tied op reads. Every op but a copy takes
//!    units; a load takes a load unit and a store a store unit, of the kinds
//!    that selection assigns. No op loads from a table that another stores to,
//!    since the dependence graph has no edges through memory.
//! 2. **Dependences.** An op starts no earlier than the latency of each of its
//!    operands allows.
//! 3. **Reservations.** In every row of the reservation table there is a unit
//!    for each choice of each op, all different (a matching, found by
//!    augmenting paths), and there are no more ops than issue slots.
//! 4. **Registers.** Each virtual register has physical ones of its class, and
//!    none that the level lacks or the frame uses.
//! 5. **Values** (`run`). Prologue, kernel, epilogue and rolled loop are run on
//!    symbols, for batches of none to several times as many iterations as there
//!    are stages: each op runs once for each iteration, reads the values that
//!    the same iteration defined, and accesses later packets only within the
//!    batch. A register that is overwritten too early shows as a wrong value.

mod run;
mod violation;

use iced_x86::{Mnemonic, Register};

pub use violation::Violation;

use super::{Latencies, Placed, Schedule, ScheduledLoop};
use crate::code::Isa;
use crate::convention::Table;
use crate::emit::instruction_form::{InstructionForm, OperandForm};
use crate::machine::unit::{LOAD_0, LOAD_1, STORE_0, STORE_1};
use crate::machine::{ISSUE_WIDTH, UNITS};
use crate::mir::{Address, Base, Index, LoopBody, Op, Operand, Reg, RegClass};

/// Checks that `scheduled` does what `source` specifies.
///
/// # Errors
/// The first violation.
pub fn check(source: &LoopBody, scheduled: &ScheduledLoop) -> Result<(), Violation> {
    check_body(source, scheduled)?;
    let pipelined = scheduled.pipelined.iter().map(|loops| (&loops.placed, loops.latencies));
    for (placed, latencies) in pipelined.chain([(&scheduled.single, scheduled.latencies)]) {
        check_dependences(&scheduled.body, &placed.schedule, latencies)?;
        check_reservations(&scheduled.body, &placed.schedule)?;
        check_registers(scheduled, placed)?;
    }
    run::check_values(source, scheduled)
}

/// Rule 1.
fn check_body(source: &LoopBody, scheduled: &ScheduledLoop) -> Result<(), Violation> {
    let mut next = 0;
    for (number, op) in scheduled.body.ops.iter().enumerate() {
        let broken = |reason| Err(Violation::Body { op: number, reason });
        match scheduled.origin.get(number).copied().flatten() {
            Some(origin) => {
                let asked = source.ops.get(origin as usize).filter(|_| origin == next);
                let Some(asked) = asked else { return broken("source ops are expected in order") };
                next += 1;
                let mut same = op.clone();
                if op.tied && !op.operands.is_empty() && !asked.operands.is_empty() {
                    same.operands[0] = asked.operands[0];
                }
                if &same != asked {
                    return broken("another op is expected");
                }
            }
            None if !is_copy(op) => return broken("only a copy may be added"),
            None if !copies_enough(op, &scheduled.body) => {
                return broken("a copy of all that is read of the register is expected");
            }
            None => {}
        }
    }
    let body = &scheduled.body;
    check_units(body)?;
    let whole = next as usize == source.ops.len()
        && (body.step, body.lookahead) == (source.step, source.lookahead)
        && body.invariants == source.invariants
        && body.classes.starts_with(&source.classes);
    if whole {
        Ok(())
    } else {
        let reason = "all ops, invariants and registers of the source are expected";
        Err(Violation::Body { op: body.ops.len(), reason })
    }
}

/// Units of loads and of stores.
const LOADS: u16 = LOAD_0 | LOAD_1;
const STORES: u16 = STORE_0 | STORE_1;

/// Part of rule 1: kinds of units, and no dependence through memory.
fn check_units(body: &LoopBody) -> Result<(), Violation> {
    let stored = |op: &Op| memory(op).filter(|_| accesses(op) == Access::Store);
    let tables: Vec<Base> = body.ops.iter().filter_map(stored).collect();
    for (number, op) in body.ops.iter().enumerate() {
        let broken = |reason| Err(Violation::Body { op: number, reason });
        let asks = |units: u16| op.units.0.iter().any(|&ask| ask != 0 && ask & !units == 0);
        match accesses(op) {
            Access::None if op.units.0 == [0; 2] && !is_copy(op) => {
                return broken("it requests no unit");
            }
            Access::Load if !asks(LOADS) => return broken("a load requests no load unit"),
            Access::Store if !asks(STORES) => return broken("a store requests no store unit"),
            Access::Load if memory(op).is_some_and(|base| tables.contains(&base)) => {
                return broken("it loads from a table that the loop stores to");
            }
            Access::Store if !matches!(memory(op), Some(Base::Table(_))) => {
                return broken("only tables are stored to");
            }
            Access::None | Access::Load | Access::Store => {}
        }
    }
    Ok(())
}

/// The access of an op to its memory operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    None,
    /// Includes prefetches.
    Load,
    Store,
}

fn accesses(op: &Op) -> Access {
    let is_memory = |operand: &Operand| matches!(operand, Operand::Memory(_));
    if op.code.mnemonic() == Mnemonic::Lea || !op.operands.iter().any(is_memory) {
        return Access::None;
    }
    match op.code.mnemonic() {
        Mnemonic::Prefetcht0 | Mnemonic::Prefetcht1 | Mnemonic::Prefetcht2 => Access::Load,
        _ if op.dest.is_none() => Access::Store,
        _ => Access::Load,
    }
}

/// The base of the memory operand.
fn memory(op: &Op) -> Option<Base> {
    op.operands.iter().find_map(|operand| match operand {
        Operand::Memory(address) => Some(address.base),
        Operand::Reg(_) | Operand::Immediate(_) => None,
    })
}

/// Whether `copy` moves all bits that are read of its result.
fn copies_enough(copy: &Op, body: &LoopBody) -> bool {
    let Some(dest) = copy.dest else { return false };
    let read = body.ops.iter().map(|op| bits_read(op, dest)).max();
    let moved =
        InstructionForm::of(copy.code).and_then(|form| form.operands().first().map(|&f| bits(f)));
    moved >= read
}

/// The number of bits that `op` reads of `reg`.
fn bits_read(op: &Op, reg: Reg) -> u32 {
    if !op.reads().any(|read| read == reg) {
        return 0;
    }
    let Some(form) = InstructionForm::of(op.code) else { return u32::MAX };
    // An untied result is the first operand of the instruction.
    let before = usize::from(op.dest.is_some() && !op.tied);
    let as_operand = op.operands.iter().enumerate().map(|(place, operand)| match *operand {
        Operand::Reg(operand) if operand == reg => {
            form.operands().get(before + place).map_or(u32::MAX, |&form| bits(form))
        }
        Operand::Reg(_) | Operand::Immediate(_) => 0,
        Operand::Memory(Address { base, index, .. }) => match (base, index) {
            (_, Index::Reg(index, _)) if index == reg => 64,
            (Base::PoolIn(base), _) if base == reg => 64,
            _ => 0,
        },
    });
    let as_mask = if op.mask == Some(reg) { 64 } else { 0 };
    as_operand.max().unwrap_or(0).max(as_mask)
}

/// The number of bits of a register that an operand of this form uses.
fn bits(form: OperandForm) -> u32 {
    match form {
        OperandForm::General8 => 8,
        OperandForm::General16 => 16,
        OperandForm::General32 => 32,
        OperandForm::General64 | OperandForm::Mask => 64,
        OperandForm::Xmm => 128,
        OperandForm::Ymm => 256,
        OperandForm::Zmm => 512,
        OperandForm::Memory | OperandForm::Immediate => 0,
    }
}

/// Whether `op` only moves a register.
fn is_copy(op: &Op) -> bool {
    let moves = matches!(
        op.code.mnemonic(),
        Mnemonic::Mov | Mnemonic::Vmovdqa | Mnemonic::Vmovdqa64 | Mnemonic::Kmovq
    );
    moves
        && op.dest.is_some()
        && !op.tied
        && op.mask.is_none()
        && matches!(op.operands[..], [Operand::Reg(_)])
}

/// Rule 2.
fn check_dependences(
    body: &LoopBody,
    schedule: &Schedule,
    latencies: Latencies,
) -> Result<(), Violation> {
    for (from, maker) in body.ops.iter().enumerate() {
        let Some(dest) = maker.dest else { continue };
        let from_memory = maker.code.mnemonic() != Mnemonic::Lea
            && maker.operands.iter().any(|operand| matches!(operand, Operand::Memory(_)));
        let load = if from_memory { latencies.load } else { 0 };
        let latency = u32::from(load) + u32::from(maker.latency.min(latencies.work));
        let ready = schedule.times[from] + latency;
        for (to, reader) in body.ops.iter().enumerate() {
            let start = schedule.times[to];
            if reader.reads().any(|reg| reg == dest) && start < ready {
                return Err(Violation::Dependence { from, to, start, ready });
            }
        }
    }
    Ok(())
}

/// Rule 3.
fn check_reservations(body: &LoopBody, schedule: &Schedule) -> Result<(), Violation> {
    for row in 0..schedule.ii {
        let ops = (0..body.ops.len()).filter(|&op| schedule.times[op] % schedule.ii == row);
        let count = ops.clone().count();
        if count > ISSUE_WIDTH as usize {
            return Err(Violation::Issue { row, ops: count });
        }
        let mut matching = Matching { asks: Vec::new(), ask_of: [None; UNITS] };
        for op in ops {
            for choice in body.ops[op].units.0.into_iter().filter(|&choice| choice != 0) {
                matching.asks.push(choice);
                if !matching.extend(matching.asks.len() - 1, &mut [false; UNITS]) {
                    return Err(Violation::Units { row, op });
                }
            }
        }
    }
    Ok(())
}

/// Requests for units, each with its unit.
struct Matching {
    asks: Vec<u16>,
    ask_of: [Option<usize>; UNITS],
}

impl Matching {
    /// Finds a unit for `ask` along an augmenting path of units not `visited`.
    fn extend(&mut self, ask: usize, visited: &mut [bool; UNITS]) -> bool {
        for unit in 0..UNITS {
            if self.asks[ask] & (1 << unit) == 0 || std::mem::replace(&mut visited[unit], true) {
                continue;
            }
            let free = match self.ask_of[unit] {
                None => true,
                Some(other) => self.extend(other, visited),
            };
            if free {
                self.ask_of[unit] = Some(ask);
                return true;
            }
        }
        false
    }
}

/// Rule 4.
fn check_registers(scheduled: &ScheduledLoop, placed: &Placed) -> Result<(), Violation> {
    let body = &scheduled.body;
    let set = body.ops.iter().filter_map(|op| op.dest);
    for reg in set.chain(body.invariants.iter().map(|invariant| invariant.reg)) {
        for name in 0..placed.allocation.unroll {
            let register = placed.allocation.register(reg, name);
            if let Some(reason) = unfit(register, body.class(reg), body, scheduled.isa) {
                return Err(Violation::Register { reg: reg.0 as usize, register, reason });
            }
        }
    }
    Ok(())
}

/// Why `register` is not allowed for a register of `class`.
fn unfit(register: Register, class: RegClass, body: &LoopBody, isa: Isa) -> Option<&'static str> {
    const ZMM15: Register = Register::ZMM15;
    match class {
        RegClass::Vector if !(Register::ZMM0..=Register::ZMM31).contains(&register) => {
            Some("a vector register is expected")
        }
        RegClass::Vector if register > ZMM15 && isa < Isa::Avx512Bw => {
            Some("the level has 16 vector registers")
        }
        RegClass::Mask if !(Register::K1..=Register::K7).contains(&register) => {
            Some("an opmask register from k1 on is expected")
        }
        RegClass::Mask if isa < Isa::Avx512Bw => Some("the level has no opmask registers"),
        RegClass::General => match register {
            Register::RAX | Register::RBX | Register::RBP | Register::R14 | Register::R15 => None,
            Register::RSI => of_table(body, Table::Base),
            Register::RDX => of_table(body, Table::Offset),
            Register::RCX => of_table(body, Table::CapLen),
            Register::R8 => of_table(body, Table::WireLen),
            Register::R9 => of_table(body, Table::Verdict),
            Register::R10 => of_table(body, Table::Slow),
            Register::R11 => of_table(body, Table::Scratch),
            _ => Some("a general register that the frame does not use is expected"),
        },
        RegClass::Vector | RegClass::Mask => None,
    }
}

fn of_table(body: &LoopBody, table: Table) -> Option<&'static str> {
    let used = body.ops.iter().flat_map(|op| &op.operands).any(|operand| match operand {
        Operand::Memory(address) => address.base == Base::Table(table),
        Operand::Reg(_) | Operand::Immediate(_) => false,
    });
    used.then_some("it holds a table's address")
}
