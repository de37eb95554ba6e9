//! The function that runs scheduled loops over a batch.
//!
//! Code of each loop; `r12` holds the packet number and `r13` its bound:
//!
//! ```text
//!         tables and invariants into their registers
//!         prefetches of the first packets, if the loop prefetches later ones
//!         r12 = 0;  r13 = ⌊(count − lookahead) / step⌋ · step − least · step
//!         if r13 < 0 goto rest
//!         prologue
//! kernel: u copies;  r12 += u · step;  if r12 ≤ r13 goto kernel
//!         epilogue;  r12 += drained · step
//! rest:   r13 = ⌊count / step⌋ · step
//!         if r12 ≥ r13 goto ragged
//! rolled: one iteration;  r12 += step;  if r12 < r13 goto rolled
//! ragged: r13 = count;  if r12 ≥ r13 goto done
//!         r12 = count − step;  goto rolled
//! done:
//! ```
//!
//! If the remaining packets do not fill an iteration, one more iteration runs
//! over the last `step` packets of the batch: `rolled` runs with `r13 = count`,
//! which ends it after one pass.

use std::fmt::Write as _;

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::assembler::{Assembler, EncodeError, Label, indexed};
use super::instruction_form::{Encoding, InstructionForm, Placement};
use crate::convention::{CALLEE_SAVED, Table, argument};
use crate::mir::{Address, Base, InvariantSource, LoopBody, Operand, PoolId};
use crate::regalloc::{ARGUMENTS, Allocation, BOUND, PACKET, table_register, tables_used};
use crate::sched::ScheduledLoop;
use crate::sched::expand::Instance;

/// Transfers a number to an opmask register, and holds offsets, before the loop.
const TEMPORARY: Register = Register::RAX;

/// Whether a function has the instructions that only prefetch ([`crate::mir::Op::ahead`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetches {
    /// It has.
    Kept,
    /// It has not.
    LeftOut,
}

/// Packets that the loop in front prefetches in an iteration.
const AT_ONCE: i32 = 4;

/// Appends a function that runs `loops` one after another over all packets of a
/// batch, and returns the label of its start. The batch must have at least as
/// many packets as an iteration of each loop.
///
/// # Errors
/// If an op cannot be encoded.
pub fn emit_batch_function(
    assembler: &mut Assembler,
    loops: &[ScheduledLoop],
    prefetches: Prefetches,
) -> Result<Label, EncodeError> {
    let entry = assembler.label();
    assembler.align(64)?;
    assembler.bind(entry);
    let saved = registers_to_save(loops);
    assembler.note(match prefetches {
        Prefetches::Kept => "entry: registers saved",
        Prefetches::LeftOut => "entry for packets in the cache: registers saved",
    });
    for &register in &saved {
        push(assembler, Instruction::with1(Code::Push_r64, register))?;
    }
    let mut wide = false;
    for scheduled in loops {
        wide |= LoopEmitter::new(assembler, scheduled, prefetches)?.emit()?;
    }
    assembler.note("exit: registers restored");
    if wide {
        assembler.push(&Instruction::with(Code::VEX_Vzeroupper))?;
    }
    for &register in saved.iter().rev() {
        push(assembler, Instruction::with1(Code::Pop_r64, register))?;
    }
    assembler.push(&Instruction::with(Code::Retnq))?;
    Ok(entry)
}

fn registers_to_save(loops: &[ScheduledLoop]) -> Vec<Register> {
    let used = |register: &Register| {
        [PACKET, BOUND].contains(register)
            || loops.iter().any(|scheduled| {
                let pipelined = scheduled.pipelined.as_ref().map(|loops| &loops.placed);
                [Some(&scheduled.single), pipelined]
                    .into_iter()
                    .flatten()
                    .any(|placed| placed.allocation.registers.contains(register))
            })
    };
    CALLEE_SAVED.into_iter().filter(used).collect()
}

/// Emits one loop.
struct LoopEmitter<'a> {
    assembler: &'a mut Assembler,
    scheduled: &'a ScheduledLoop,
    encodings: Vec<Encoding<'a>>,
    step: i32,
    /// The distance in packets of the `ahead` ops; 0 if they are left out.
    lookahead: i32,
}

impl<'a> LoopEmitter<'a> {
    fn new(
        assembler: &'a mut Assembler,
        scheduled: &'a ScheduledLoop,
        prefetches: Prefetches,
    ) -> Result<Self, EncodeError> {
        let body = &scheduled.body;
        let encodings = body.ops.iter().map(Encoding::new).collect::<Result<_, _>>()?;
        let lookahead = match prefetches {
            Prefetches::Kept => body.lookahead as i32,
            Prefetches::LeftOut => 0,
        };
        Ok(Self { assembler, scheduled, encodings, step: body.step as i32, lookahead })
    }

    /// Emits the loop. Returns whether it uses vectors wider than 128 bits.
    fn emit(mut self) -> Result<bool, EncodeError> {
        let body = &self.scheduled.body;
        self.note("set-up");
        self.set_up(body)?;
        self.pipelined()?;
        self.one_by_one()?;
        let invariants = body.invariants.iter().any(|invariant| match invariant.source {
            InvariantSource::Vector(code, _) => {
                InstructionForm::of(code).is_some_and(|form| form.wide())
            }
            InvariantSource::Mask(..) | InvariantSource::Address(_) => false,
        });
        Ok(invariants || self.encodings.iter().any(|encoding| encoding.form.wide()))
    }

    fn note(&mut self, part: &str) {
        self.assembler.note(format!("{}: {part}", self.scheduled.body.name));
    }

    /// Loads tables, invariants and the packet number.
    fn set_up(&mut self, body: &LoopBody) -> Result<(), EncodeError> {
        for invariant in &body.invariants {
            let register = self.scheduled.single.allocation.register(invariant.reg, 0);
            match invariant.source {
                InvariantSource::Mask(code, bits) => self.set_mask(code, register, bits)?,
                InvariantSource::Vector(code, id) => self.load_vector(code, register, id)?,
                InvariantSource::Address(_) => {}
            }
        }
        for table in tables_used(body) {
            self.load_argument(table_register(table), table.argument())?;
        }
        self.prefetch_first(body)?;
        // General registers last: one is temporary until here.
        for invariant in &body.invariants {
            if let InvariantSource::Address(id) = invariant.source {
                let register = self.scheduled.single.allocation.register(invariant.reg, 0);
                let constant = self.assembler.constant();
                let lea = created(Instruction::with2(Code::Lea_r64_m, register, constant))?;
                self.assembler.push_with_constant(&lea, id, 0)?;
            }
        }
        self.clear_packet()
    }

    fn clear_packet(&mut self) -> Result<(), EncodeError> {
        let low = Register::EAX + (PACKET as u32 - Register::RAX as u32);
        self.push(Instruction::with2(Code::Xor_r32_rm32, low, low))
    }

    /// Prefetches the packets that no iteration prefetches: as many as the lookahead, or all if the pipelined
    /// form does not run. Up to [`AT_ONCE`] - 1 of the last ones are left out.
    fn prefetch_first(&mut self, body: &LoopBody) -> Result<(), EncodeError> {
        let distance = self.lookahead;
        let Some((prefetch, byte)) = prefetched(body).filter(|_| distance > 0) else {
            return Ok(());
        };
        self.note("prefetch of the first packets");
        let pipelined = self.scheduled.pipelined.as_ref();
        let enough = pipelined
            .map_or(i32::MAX, |pipelined| distance + pipelined.expansion.least as i32 * self.step);
        let at_once = AT_ONCE.min(self.step).min(distance);
        let (few, again) = (self.assembler.label(), self.assembler.label());
        let done = self.assembler.label();
        self.load_argument(BOUND, argument::COUNT)?;
        self.with_number(Code::Cmp_rm64_imm8, Code::Cmp_rm64_imm32, BOUND, enough)?;
        self.assembler.jump(Code::Jl_rel32_64, few)?;
        self.push(Instruction::with2(Code::Mov_rm64_imm32, BOUND, distance))?;
        self.assembler.bind(few);
        self.with_number(Code::Sub_rm64_imm8, Code::Sub_rm64_imm32, BOUND, at_once)?;
        self.assembler.jump(Code::Jl_rel32_64, done)?;
        self.clear_packet()?;
        self.assembler.bind(again);
        let (offsets, base) = (table_register(Table::Offset), table_register(Table::Base));
        for packet in 0..i64::from(at_once) {
            let offset = indexed(offsets, PACKET, 4, 4 * packet);
            self.push(Instruction::with2(Code::Mov_r32_rm32, Register::EAX, offset))?;
            self.push(Instruction::with1(prefetch, indexed(base, TEMPORARY, 1, i64::from(byte))))?;
        }
        self.add(PACKET, at_once)?;
        self.push(Instruction::with2(Code::Cmp_r64_rm64, PACKET, BOUND))?;
        self.assembler.jump(Code::Jle_rel32_64, again)?;
        self.assembler.bind(done);
        Ok(())
    }

    fn set_mask(&mut self, code: Code, register: Register, bits: u64) -> Result<(), EncodeError> {
        self.push(Instruction::with2(Code::Mov_r64_imm64, TEMPORARY, bits))?;
        let whole = InstructionForm::of(code).is_some_and(|form| {
            form.operands().contains(&super::instruction_form::OperandForm::General64)
        });
        let source = if whole { TEMPORARY } else { Register::EAX };
        self.push(Instruction::with2(code, register, source))
    }

    fn load_vector(
        &mut self,
        code: Code,
        register: Register,
        id: PoolId,
    ) -> Result<(), EncodeError> {
        let part = InstructionForm::of(code)
            .and_then(|form| form.operands().first()?.part(register))
            .ok_or_else(|| EncodeError {
                instruction: format!("{code:?}"),
                reason: format!("it cannot load {register:?}"),
            })?;
        let constant = self.assembler.constant();
        let load = created(Instruction::with2(code, part, constant))?;
        self.assembler.push_with_constant(&load, id, 0)
    }

    /// The pipelined form, if there is one. Leaves the packet number after the
    /// iterations that it ran.
    fn pipelined(&mut self) -> Result<(), EncodeError> {
        let Some(pipelined) = &self.scheduled.pipelined else {
            return Ok(());
        };
        let expansion = &pipelined.expansion;
        let allocation = &pipelined.placed.allocation;
        let least = expansion.least as i32 * self.step;
        let (rest, kernel) = (self.assembler.label(), self.assembler.label());
        self.load_argument(BOUND, argument::COUNT)?;
        if self.lookahead > 0 {
            self.add(BOUND, -self.lookahead)?;
        }
        self.round_bound()?;
        self.with_number(Code::Sub_rm64_imm8, Code::Sub_rm64_imm32, BOUND, least)?;
        self.assembler.jump(Code::Jl_rel32_64, rest)?;
        self.note("prologue");
        self.instances(&expansion.prologue, allocation)?;
        self.assembler.align(32)?;
        self.note("kernel");
        self.assembler.bind(kernel);
        self.instances(&expansion.kernel, allocation)?;
        self.add(PACKET, expansion.trip as i32 * self.step)?;
        self.push(Instruction::with2(Code::Cmp_r64_rm64, PACKET, BOUND))?;
        self.assembler.jump(Code::Jle_rel32_64, kernel)?;
        self.note("epilogue");
        self.instances(&expansion.epilogue, allocation)?;
        if expansion.drained > 0 {
            self.add(PACKET, expansion.drained as i32 * self.step)?;
        }
        self.assembler.bind(rest);
        Ok(())
    }

    /// Rounds the bound down to whole iterations.
    fn round_bound(&mut self) -> Result<(), EncodeError> {
        if self.step > 1 {
            self.with_number(Code::And_rm64_imm8, Code::And_rm64_imm32, BOUND, -self.step)?;
        }
        Ok(())
    }

    /// The rolled loop, to the end of the batch.
    fn one_by_one(&mut self) -> Result<(), EncodeError> {
        let (rolled, ragged) = (self.assembler.label(), self.assembler.label());
        let done = self.assembler.label();
        self.note("rest");
        self.load_argument(BOUND, argument::COUNT)?;
        self.round_bound()?;
        self.push(Instruction::with2(Code::Cmp_r64_rm64, PACKET, BOUND))?;
        self.assembler.jump(Code::Jae_rel32_64, ragged)?;
        if self.scheduled.pipelined.is_none() {
            self.assembler.align(32)?;
        }
        self.assembler.bind(rolled);
        self.note("one iteration");
        let single = &self.scheduled.single;
        self.instances(&self.scheduled.rolled(), &single.allocation)?;
        self.add(PACKET, self.step)?;
        self.push(Instruction::with2(Code::Cmp_r64_rm64, PACKET, BOUND))?;
        self.assembler.jump(Code::Jb_rel32_64, rolled)?;
        self.assembler.bind(ragged);
        self.note("ragged end");
        if self.step > 1 {
            self.load_argument(BOUND, argument::COUNT)?;
            self.push(Instruction::with2(Code::Cmp_r64_rm64, PACKET, BOUND))?;
            self.assembler.jump(Code::Jae_rel32_64, done)?;
            let start = MemoryOperand::with_base_displ(BOUND, i64::from(-self.step));
            self.push(Instruction::with2(Code::Lea_r64_m, PACKET, start))?;
            self.assembler.jump(Code::Jmp_rel32_64, rolled)?;
        }
        self.assembler.bind(done);
        Ok(())
    }

    fn instances(
        &mut self,
        instances: &[Instance],
        allocation: &Allocation,
    ) -> Result<(), EncodeError> {
        for instance in instances {
            let encoding = &self.encodings[instance.op as usize];
            let op = &self.scheduled.body.ops[instance.op as usize];
            if op.ahead && self.lookahead == 0 {
                continue;
            }
            if self.assembler.explains()
                && let Some(note) = self.scheduled.body.notes.get(op.note as usize)
            {
                let mut text = String::with_capacity(note.len() + 6);
                text.push_str(note);
                if instance.iteration > 0 {
                    let _ = write!(text, " [+{}]", instance.iteration);
                }
                self.assembler.note(text);
            }
            let placement = Placement {
                registers: &|reg| allocation.register(reg, instance.iteration),
                tables: &table_register,
                packet: PACKET,
                ahead: i64::from(instance.iteration) * i64::from(self.step),
            };
            encoding.push(self.assembler, &placement)?;
        }
        Ok(())
    }

    fn add(&mut self, register: Register, number: i32) -> Result<(), EncodeError> {
        self.with_number(Code::Add_rm64_imm8, Code::Add_rm64_imm32, register, number)
    }

    /// The shorter of two encodings of an instruction with an immediate.
    fn with_number(
        &mut self,
        short: Code,
        long: Code,
        register: Register,
        number: i32,
    ) -> Result<(), EncodeError> {
        let code = if i8::try_from(number).is_ok() { short } else { long };
        self.push(Instruction::with2(code, register, number))
    }

    fn load_argument(&mut self, register: Register, offset: i64) -> Result<(), EncodeError> {
        let place = MemoryOperand::with_base_displ(ARGUMENTS, offset);
        self.push(Instruction::with2(Code::Mov_r64_rm64, register, place))
    }

    fn push(&mut self, instruction: Result<Instruction, IcedError>) -> Result<(), EncodeError> {
        push(self.assembler, instruction)
    }
}

/// The instruction by which a loop prefetches packets, and the byte that it prefetches.
fn prefetched(body: &LoopBody) -> Option<(Code, i32)> {
    body.ops.iter().find_map(|op| match op.operands[..] {
        [Operand::Memory(Address { base: Base::Table(Table::Base), displacement, .. })]
            if op.ahead && op.dest.is_none() =>
        {
            Some((op.code, displacement))
        }
        _ => None,
    })
}

fn push(
    assembler: &mut Assembler,
    instruction: Result<Instruction, IcedError>,
) -> Result<(), EncodeError> {
    assembler.push(&created(instruction)?)
}

/// An instruction of the loop frame.
fn created(instruction: Result<Instruction, IcedError>) -> Result<Instruction, EncodeError> {
    instruction.map_err(|error| EncodeError {
        instruction: "of a loop's frame".to_owned(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
