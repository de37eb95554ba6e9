//! The function that runs scheduled loops over a batch.
//!
//! Code of each loop; `r12` holds the packet number and `r13` its bound:
//!
//! ```text
//!         tables and invariants into their registers
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

use super::assembler::{Assembler, EncodeError, Label};
use super::instruction_form::{Encoding, InstructionForm, Placement};
use crate::convention::{CALLEE_SAVED, argument};
use crate::mir::{InvariantSource, LoopBody, PoolId};
use crate::regalloc::{ARGUMENTS, Allocation, BOUND, PACKET, table_register, tables_used};
use crate::sched::ScheduledLoop;
use crate::sched::expand::Instance;

/// Transfers a number to an opmask register, before the loop.
const TEMPORARY: Register = Register::RAX;

/// Appends a function that runs `loops` one after another over all packets of a
/// batch, and returns the label of its start. The batch must have at least as
/// many packets as an iteration of each loop.
///
/// # Errors
/// If an op cannot be encoded.
pub fn emit_batch_function(
    assembler: &mut Assembler,
    loops: &[ScheduledLoop],
) -> Result<Label, EncodeError> {
    let entry = assembler.label();
    assembler.align(64)?;
    assembler.bind(entry);
    let saved = registers_to_save(loops);
    assembler.note("entry: registers saved");
    for &register in &saved {
        push(assembler, Instruction::with1(Code::Push_r64, register))?;
    }
    let mut wide = false;
    for scheduled in loops {
        wide |= LoopEmitter::new(assembler, scheduled)?.emit()?;
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
}

impl<'a> LoopEmitter<'a> {
    fn new(
        assembler: &'a mut Assembler,
        scheduled: &'a ScheduledLoop,
    ) -> Result<Self, EncodeError> {
        let body = &scheduled.body;
        let encodings = body.ops.iter().map(Encoding::new).collect::<Result<_, _>>()?;
        Ok(Self { assembler, scheduled, encodings, step: body.step as i32 })
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
        // General registers last: opmasks are loaded through one.
        for invariant in &body.invariants {
            if let InvariantSource::Address(id) = invariant.source {
                let register = self.scheduled.single.allocation.register(invariant.reg, 0);
                let constant = self.assembler.constant();
                let lea = created(Instruction::with2(Code::Lea_r64_m, register, constant))?;
                self.assembler.push_with_constant(&lea, id, 0)?;
            }
        }
        for table in tables_used(body) {
            self.load_argument(table_register(table), table.argument())?;
        }
        let (low, code) =
            (Register::EAX + (PACKET as u32 - Register::RAX as u32), Code::Xor_r32_rm32);
        self.push(Instruction::with2(code, low, low))
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
        if self.scheduled.body.lookahead > 0 {
            self.add(BOUND, -(self.scheduled.body.lookahead as i32))?;
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
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
    use proptest::prelude::*;

    use super::*;
    use crate::code::{Isa, Scheduling};
    use crate::convention::Table;
    use crate::emit::assembler::Assembled;
    use crate::mir::Operand;
    use crate::sched::samples::{extraction, random_body};
    use crate::sched::{Options, schedule_loop};

    /// Runs the frame of `code` over a batch of `count`. Returns, for each access
    /// to a table, the packet number plus displacement in bytes, and the
    /// instruction's memory base.
    fn accesses(code: &Assembled, count: i64) -> Vec<(Mnemonic, Register, i64)> {
        let options = DecoderOptions::NONE;
        let (mut packet, mut bound, mut flags) = (i64::MIN, i64::MIN, 0);
        let mut seen = Vec::new();
        let mut ip = 0;
        loop {
            let instruction =
                Decoder::with_ip(64, &code.bytes[ip as usize..code.constants_at], ip, options)
                    .decode();
            assert!(!instruction.is_invalid(), "no instruction at byte {ip}");
            ip = instruction.next_ip();
            let number = || match instruction.op1_kind() {
                OpKind::Register if instruction.op1_register() == BOUND => bound,
                OpKind::Memory if instruction.memory_base() == ARGUMENTS => count,
                OpKind::Memory => bound + instruction.memory_displacement64() as i64,
                _ => instruction.immediate(1) as i64,
            };
            let jumps = match instruction.mnemonic() {
                Mnemonic::Ret => return seen,
                Mnemonic::Jmp => true,
                Mnemonic::Jl | Mnemonic::Jb => flags < 0,
                Mnemonic::Jle => flags <= 0,
                Mnemonic::Jae => flags >= 0,
                _ => false,
            };
            if jumps {
                ip = instruction.near_branch_target();
            }
            match (instruction.op0_register(), instruction.mnemonic()) {
                (Register::R12D, Mnemonic::Xor) => packet = 0,
                (PACKET, Mnemonic::Add) => packet += number(),
                (PACKET, Mnemonic::Lea) => packet = number(),
                (PACKET, Mnemonic::Cmp) => flags = packet - number(),
                (BOUND, Mnemonic::Mov) => bound = number(),
                (BOUND, Mnemonic::Add) => bound += number(),
                (BOUND, Mnemonic::And) => bound &= number(),
                (BOUND, Mnemonic::Sub) => (bound, flags) = (bound - number(), bound - number()),
                (_, mnemonic) if instruction.memory_index() == PACKET => {
                    let scale = i64::from(instruction.memory_index_scale());
                    let at = packet * scale + instruction.memory_displacement64() as i64;
                    seen.push((mnemonic, instruction.memory_base(), at));
                }
                _ => {}
            }
        }
    }

    fn assembled(body: &LoopBody, scheduling: Scheduling) -> Option<Assembled> {
        let options = Options { load_latency: 5, scheduling };
        let scheduled = schedule_loop(body, &options, Isa::Avx512Vbmi).ok()?;
        let mut assembler = Assembler::default();
        for entry in 0..2u8 {
            assembler.pool.add(&[entry; 64], 64);
        }
        let entry = emit_batch_function(&mut assembler, &[scheduled]).expect("it can be encoded");
        let assembled = assembler.finish().expect("labels are bound");
        assert_eq!(assembled.offset(entry), Some(0));
        Some(assembled)
    }

    /// The accesses of the ops of `body` in a batch of `count`; for ops with
    /// lookahead, all that are permitted.
    fn expected(body: &LoopBody, count: i64, ahead: bool) -> Vec<(Mnemonic, Register, i64)> {
        let step = i64::from(body.step);
        let whole = (0..count / step).map(|iteration| iteration * step);
        let ragged = (count % step != 0).then(|| count - step);
        let mut result = Vec::new();
        for packet in whole.chain(ragged) {
            for op in body.ops.iter().filter(|op| op.ahead == ahead) {
                for operand in &op.operands {
                    if let Operand::Memory(address) = operand
                        && let crate::mir::Index::Packet(scale) = address.index
                        && let crate::mir::Base::Table(table) = address.base
                    {
                        let at = packet * i64::from(scale) + i64::from(address.displacement);
                        result.push((op.code.mnemonic(), table_register(table), at));
                    }
                }
            }
        }
        result.sort_unstable();
        result
    }

    #[test]
    fn every_packet_is_done_once_and_nothing_looks_beyond_the_batch() {
        let body = extraction(2, 32);
        let code = assembled(&body, Scheduling::Modulo).expect("registers suffice");
        for count in 0..=256 {
            let (offsets, mut rest): (Vec<_>, Vec<_>) = accesses(&code, count)
                .into_iter()
                .partition(|access| access.1 == table_register(Table::Offset));
            rest.sort_unstable();
            let stores = expected(&body, count, false);
            let stores: Vec<_> =
                stores.into_iter().filter(|a| a.1 == table_register(Table::Scratch)).collect();
            assert_eq!(rest, stores, "batch of {count}");
            assert!(offsets.iter().all(|access| (0..4 * count).contains(&access.2)));
        }
        let looks = accesses(&code, 256).iter().filter(|access| access.2 >= 4 * 32).count();
        assert!(looks > 200, "most packets are looked at ahead of time");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn random_loops_access_what_they_should(
            body in random_body(20),
            scheduling in prop::sample::select(vec![
                Scheduling::None, Scheduling::List, Scheduling::Modulo, Scheduling::Modulo,
            ]),
            whole in 0i64..70,
            more in 0i64..32,
        ) {
            let step = i64::from(body.step);
            let count = whole * step + if whole > 0 { more % step } else { 0 };
            if let Some(code) = assembled(&body, scheduling) {
                let mut seen = accesses(&code, count);
                seen.sort_unstable();
                prop_assert_eq!(seen, expected(&body, count, false));
            }
        }
    }
}
