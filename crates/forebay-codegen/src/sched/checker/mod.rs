//! Proves one scheduled loop right.
//!
//! The checker takes the loop that was asked for and the code that came out,
//! and derives all it needs anew; of the schedulers it uses nothing but their
//! data types. Its rules:
//!
//! 1. **Body.** Every op asked for is there once, in the order given, and is
//!    unchanged but for the first operand of a tied op, which may be a copy of
//!    what was asked for. Every other op is such a copy, of a whole register.
//! 2. **Dependences.** An op starts no earlier than the latency of each op
//!    whose result it reads allows.
//! 3. **Reservations.** In every row of the reservation table there is a unit
//!    for each choice of each op, all different (a matching, found by
//!    augmenting paths), and there are no more ops than issue slots.
//! 4. **Registers.** Each virtual register has physical ones of its class, and
//!    none that the level lacks or the frame uses.
//! 5. **Values** (`run`). Prologue, kernel, epilogue and rolled loop are run
//!    on symbols, for batches of none to several times as many iterations as
//!    there are stages: each op runs once for each iteration, reads the values
//!    that the same iteration made, and looks ahead only within the batch.
//!    Whatever overwrites a register too early shows as a wrong value.

mod run;

use iced_x86::{Mnemonic, Register};

use super::{Latencies, Placed, Schedule, ScheduledLoop};
use crate::code::Isa;
use crate::convention::Table;
use crate::machine::{ISSUE_WIDTH, UNITS};
use crate::mir::{Base, LoopBody, Op, Operand, RegClass};

/// What is wrong with a scheduled loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The ops are not those asked for.
    #[error("op {op} of the scheduled loop: {reason}")]
    Body {
        /// The op's number in the scheduled loop.
        op: usize,
        /// What was expected.
        reason: &'static str,
    },
    /// An op starts before an operand is there.
    #[error("op {to} starts in cycle {start}, but the result of op {from} is there in {ready}")]
    Dependence {
        /// The op that makes the operand.
        from: usize,
        /// The op that reads it.
        to: usize,
        /// When it starts.
        start: u32,
        /// When it may.
        ready: u32,
    },
    /// A row has ops for which there are not enough units.
    #[error("row {row} of the reservation table has no unit left for op {op}")]
    Units {
        /// The row.
        row: u32,
        /// The op without a unit.
        op: usize,
    },
    /// A row has more ops than issue slots.
    #[error("row {row} of the reservation table issues {ops} ops")]
    Issue {
        /// The row.
        row: u32,
        /// Its ops.
        ops: usize,
    },
    /// A virtual register became one it may not be.
    #[error("register {register:?} for virtual register {reg}: {reason}")]
    Register {
        /// The virtual register.
        reg: usize,
        /// The physical one.
        register: Register,
        /// Why not.
        reason: &'static str,
    },
    /// An op reads something else than it should.
    #[error("batch of {count}: op {op} for packet {packet} reads {found} from {register:?}")]
    Value {
        /// Packets of the batch.
        count: u32,
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of its iteration.
        packet: u32,
        /// Where it reads.
        register: Register,
        /// What it finds.
        found: String,
    },
    /// A tied op whose first operand is not in its destination register.
    #[error("op {op} for packet {packet} is tied, but its operand is in another register")]
    Tied {
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of its iteration.
        packet: u32,
    },
    /// An op does not run once for an iteration.
    #[error("batch of {count}: op {op} runs {times} times for packet {packet}")]
    Times {
        /// Packets of the batch.
        count: u32,
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of the iteration.
        packet: u32,
        /// How often it runs.
        times: u32,
    },
    /// An op looks beyond the batch.
    #[error("batch of {count}: op {op} for packet {packet} looks beyond the last packet")]
    Beyond {
        /// Packets of the batch.
        count: u32,
        /// The op's number in the scheduled loop.
        op: usize,
        /// The first packet of its iteration.
        packet: u32,
    },
}

/// Checks that `scheduled` does what `source` asks for.
///
/// # Errors
/// The first violation found.
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
                let Some(asked) = asked else { return broken("ops are asked for in order") };
                next += 1;
                let mut same = op.clone();
                if op.tied && !op.operands.is_empty() && !asked.operands.is_empty() {
                    same.operands[0] = asked.operands[0];
                }
                if &same != asked {
                    return broken("another op is asked for");
                }
            }
            None if !is_copy(op) => return broken("a copy is expected where nothing is asked for"),
            None => {}
        }
    }
    let body = &scheduled.body;
    let whole = next as usize == source.ops.len()
        && (body.step, body.lookahead) == (source.step, source.lookahead)
        && body.invariants == source.invariants
        && body.classes.starts_with(&source.classes);
    if whole {
        Ok(())
    } else {
        let reason = "all ops, invariants and registers asked for are expected";
        Err(Violation::Body { op: body.ops.len(), reason })
    }
}

/// Whether `op` moves a whole register and does nothing else.
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
        let after =
            |op: usize| (row + schedule.ii - schedule.times[op] % schedule.ii) % schedule.ii;
        let ops = (0..body.ops.len()).filter(|&op| after(op) == 0).count();
        if ops > ISSUE_WIDTH as usize {
            return Err(Violation::Issue { row, ops });
        }
        let mut matching = Matching { asks: Vec::new(), ask_of: [None; UNITS] };
        for op in (0..body.ops.len()).filter(|&op| after(op) < body.ops[op].units.cycles()) {
            if body.ops[op].units.cycles() > schedule.ii {
                return Err(Violation::Units { row, op });
            }
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

/// Asks for units, each with a unit of its own.
struct Matching {
    asks: Vec<u16>,
    ask_of: [Option<usize>; UNITS],
}

impl Matching {
    /// Finds a unit for `ask`, by way of units not `visited`.
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

/// Why a register of `class` may not be `register`.
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
