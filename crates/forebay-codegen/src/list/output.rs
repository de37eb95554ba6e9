//! Instructions collected before the saved registers and the frame size are
//! known.
//!
//! Slots are addressed from the stack pointer as if the frame began there.
//! [`Output::write`] puts a small frame into the 128 bytes below the stack
//! pointer that System V reserves for leaf functions, and moves the stack
//! pointer for a larger one.

use forebay_filter::ir::Arithmetic;
use iced_x86::{Code, Instruction, MemoryOperand, Register};
use rustc_hash::FxHashSet;

use super::registers::{Gpr, VALUES, is_callee_saved};
use crate::emit::assembler::{Assembler, EncodeError, Label};
use crate::mir::PoolId;

/// Bytes below the stack pointer that a leaf function may use.
const RED_ZONE: i64 = 128;

/// Size of a page. A frame is touched in steps of a page, so that no guard page
/// is skipped.
const PAGE: i64 = 4096;

#[derive(Clone, Debug)]
enum Item {
    Instruction(Instruction),
    /// With a memory operand in the pool.
    Constant(Instruction, PoolId),
    /// A store that is omitted if the slot is never read.
    Copy(Instruction),
    Jump(Code, Label),
    Bind(Label),
    Note(String),
    /// The epilogue: restores the registers and returns.
    Leave,
}

/// The body of a function.
#[derive(Default)]
pub(crate) struct Output {
    items: Vec<Item>,
    /// Callee-saved registers that are written: a bit each, by number.
    saved: u16,
    /// Bytes of the frame allocated.
    frame: i64,
    /// Slots whose copies are read, by their start.
    read_slots: FxHashSet<i64>,
    /// Whether upper halves of `ymm` registers are written.
    pub dirty_vectors: bool,
    error: Option<EncodeError>,
}

/// A position in an [`Output`].
pub(crate) type Position = usize;

impl Output {
    pub(crate) fn position(&self) -> Position {
        self.items.len()
    }

    /// A new slot of `bytes` bytes, a power of two.
    pub(crate) fn slot(&mut self, bytes: i64) -> MemoryOperand {
        let start = (self.frame + bytes - 1) & !(bytes - 1);
        self.frame = start + bytes;
        MemoryOperand::with_base_displ(Register::RSP, start)
    }

    /// Copies a register to a slot; omitted unless [`Output::reads_slot`] is
    /// called for the slot.
    pub(crate) fn copy_to_slot(&mut self, slot: MemoryOperand, register: Register) {
        let code = Code::Mov_rm32_r32;
        match Instruction::with2(code, slot, register) {
            Ok(instruction) => self.items.push(Item::Copy(instruction)),
            Err(error) => self.refuse(code, &error),
        }
    }

    /// Records that copies in `slot` are read.
    pub(crate) fn reads_slot(&mut self, slot: MemoryOperand) {
        self.read_slots.insert(slot.displacement);
    }

    /// Records that `register` is written.
    pub(crate) fn writes(&mut self, register: Gpr) {
        if is_callee_saved(register) {
            self.saved |= 1 << register.0;
        }
    }

    /// Whether `register` can be used without saving one more register.
    pub(crate) fn is_paid(&self, register: Gpr) -> bool {
        !is_callee_saved(register) || self.saved & (1 << register.0) != 0
    }

    pub(crate) fn note(&mut self, text: String) {
        self.items.push(Item::Note(text));
    }

    pub(crate) fn bind(&mut self, label: Label) {
        self.items.push(Item::Bind(label));
    }

    pub(crate) fn jump(&mut self, code: Code, label: Label) {
        self.items.push(Item::Jump(code, label));
    }

    pub(crate) fn leave(&mut self) {
        self.items.push(Item::Leave);
    }

    fn add(&mut self, code: Code, instruction: Result<Instruction, iced_x86::IcedError>) {
        match instruction {
            Ok(instruction) => self.items.push(Item::Instruction(instruction)),
            Err(error) => self.refuse(code, &error),
        }
    }

    fn refuse(&mut self, code: Code, error: &iced_x86::IcedError) {
        self.error.get_or_insert_with(|| EncodeError {
            instruction: format!("{code:?}"),
            reason: error.to_string(),
        });
    }

    /// Appends an instruction with one register.
    pub(crate) fn r(&mut self, code: Code, register: Register) {
        self.add(code, Instruction::with1(code, register));
    }

    /// With a memory operand.
    pub(crate) fn m(&mut self, code: Code, memory: MemoryOperand) {
        self.add(code, Instruction::with1(code, memory));
    }

    /// With two registers.
    pub(crate) fn rr(&mut self, code: Code, first: Register, second: Register) {
        self.add(code, Instruction::with2(code, first, second));
    }

    /// `to` op `other`, in `to`; not for shifts and divisions.
    pub(crate) fn arithmetic(&mut self, op: Arithmetic, to: Gpr, other: Gpr) {
        let code = match op {
            Arithmetic::Add => Code::Add_r32_rm32,
            Arithmetic::Sub => Code::Sub_r32_rm32,
            Arithmetic::Mul => Code::Imul_r32_rm32,
            Arithmetic::And => Code::And_r32_rm32,
            Arithmetic::Or => Code::Or_r32_rm32,
            _ => Code::Xor_r32_rm32,
        };
        self.rr(code, to.r32(), other.r32());
    }

    /// With a register and an immediate.
    pub(crate) fn ri(&mut self, code: Code, register: Register, immediate: u32) {
        let instruction = match code {
            Code::Cmp_rm16_imm16 | Code::Test_rm16_imm16 => {
                Instruction::with2(code, register, immediate & 0xffff)
            }
            _ => Instruction::with2(code, register, immediate as i32),
        };
        self.add(code, instruction);
    }

    /// With a register and a 64-bit immediate.
    pub(crate) fn ri64(&mut self, code: Code, register: Register, immediate: u64) {
        self.add(code, Instruction::with2(code, register, immediate));
    }

    /// With a register and memory.
    pub(crate) fn rm(&mut self, code: Code, register: Register, memory: MemoryOperand) {
        self.add(code, Instruction::with2(code, register, memory));
    }

    /// With memory and a register.
    pub(crate) fn mr(&mut self, code: Code, memory: MemoryOperand, register: Register) {
        self.add(code, Instruction::with2(code, memory, register));
    }

    /// With memory and an immediate, sign-extended as by the instruction.
    pub(crate) fn mi(&mut self, code: Code, memory: MemoryOperand, immediate: i32) {
        self.add(code, Instruction::with2(code, memory, immediate));
    }

    /// With two registers and an immediate.
    pub(crate) fn rri(&mut self, code: Code, first: Register, second: Register, immediate: u32) {
        self.add(code, Instruction::with3(code, first, second, immediate as i32));
    }

    /// With two registers and memory.
    pub(crate) fn rrm(
        &mut self,
        code: Code,
        first: Register,
        second: Register,
        memory: MemoryOperand,
    ) {
        self.add(code, Instruction::with3(code, first, second, memory));
    }

    /// Loads the address of a constant.
    pub(crate) fn address_of(&mut self, register: Register, id: PoolId) {
        let code = Code::Lea_r64_m;
        self.constant(code, Instruction::with2(code, register, pool_operand()), id);
    }

    /// With two registers and a constant.
    pub(crate) fn rrc(&mut self, code: Code, first: Register, second: Register, id: PoolId) {
        self.constant(code, Instruction::with3(code, first, second, pool_operand()), id);
    }

    fn constant(
        &mut self,
        code: Code,
        instruction: Result<Instruction, iced_x86::IcedError>,
        id: PoolId,
    ) {
        match instruction {
            Ok(instruction) => self.items.push(Item::Constant(instruction, id)),
            Err(error) => self.refuse(code, &error),
        }
    }

    /// Reorders the items of `ranges` to the given order.
    pub(crate) fn arrange(&mut self, ranges: &[(Position, Position)]) {
        let mut items: Vec<Option<Item>> = self.items.drain(..).map(Some).collect();
        for &(start, end) in ranges {
            self.items.extend(items[start..end].iter_mut().filter_map(Option::take));
        }
    }

    /// Appends the function to `assembler`: prologue, body, epilogue.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub(crate) fn write(self, assembler: &mut Assembler) -> Result<Label, EncodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let frame = Frame {
            saved: VALUES.into_iter().filter(|gpr| self.saved & (1 << gpr.0) != 0).collect(),
            bytes: (self.frame + 15) & !15,
            dirty_vectors: self.dirty_vectors,
        };
        let entry = assembler.label();
        assembler.bind(entry);
        frame.enter(assembler)?;
        for item in self.items {
            match item {
                Item::Instruction(mut instruction) => {
                    frame.place(&mut instruction);
                    assembler.push(&instruction)?;
                }
                Item::Copy(mut instruction) => {
                    let slot = instruction.memory_displacement64() as i64;
                    if self.read_slots.contains(&slot) {
                        frame.place(&mut instruction);
                        assembler.push(&instruction)?;
                    }
                }
                Item::Constant(mut instruction, id) => {
                    instruction.set_memory_displacement64(assembler.position() as u64);
                    assembler.push_with_constant(&instruction, id, 0)?;
                }
                Item::Jump(code, label) => assembler.jump(code, label)?,
                Item::Bind(label) => assembler.bind(label),
                Item::Note(text) => assembler.note(text),
                Item::Leave => frame.leave(assembler)?,
            }
        }
        Ok(entry)
    }
}

/// A placeholder memory operand in the pool; its distance is known only when
/// the instruction is written.
fn pool_operand() -> MemoryOperand {
    MemoryOperand::with_base_displ(Register::RIP, 0)
}

/// The stack frame of a function.
struct Frame {
    saved: Vec<Gpr>,
    bytes: i64,
    dirty_vectors: bool,
}

impl Frame {
    /// Bytes by which the stack pointer moves.
    fn moved(&self) -> i64 {
        if self.bytes <= RED_ZONE { 0 } else { self.bytes }
    }

    fn enter(&self, assembler: &mut Assembler) -> Result<(), EncodeError> {
        for gpr in &self.saved {
            push(assembler, Code::Push_r64, Instruction::with1(Code::Push_r64, gpr.r64()))?;
        }
        let mut below = self.moved();
        while below > PAGE {
            let touched =
                MemoryOperand::with_base_displ(Register::RSP, below - self.moved() - PAGE);
            let code = Code::Or_rm32_imm8;
            push(assembler, code, Instruction::with2(code, touched, 0))?;
            below -= PAGE;
        }
        self.adjust(assembler, Code::Sub_rm64_imm32)
    }

    fn leave(&self, assembler: &mut Assembler) -> Result<(), EncodeError> {
        if self.dirty_vectors {
            assembler.push(&Instruction::with(Code::VEX_Vzeroupper))?;
        }
        self.adjust(assembler, Code::Add_rm64_imm32)?;
        for gpr in self.saved.iter().rev() {
            push(assembler, Code::Pop_r64, Instruction::with1(Code::Pop_r64, gpr.r64()))?;
        }
        assembler.push(&Instruction::with(Code::Retnq))
    }

    fn adjust(&self, assembler: &mut Assembler, code: Code) -> Result<(), EncodeError> {
        if self.moved() == 0 {
            return Ok(());
        }
        push(assembler, code, Instruction::with2(code, Register::RSP, self.moved() as i32))
    }

    /// Turns a slot's offset in the frame into one from the stack pointer.
    fn place(&self, instruction: &mut Instruction) {
        if instruction.memory_base() == Register::RSP && self.moved() == 0 {
            let offset = instruction.memory_displacement64() as i64 - self.bytes;
            instruction.set_memory_displacement64(offset as u64);
        }
    }
}

fn push(
    assembler: &mut Assembler,
    code: Code,
    instruction: Result<Instruction, iced_x86::IcedError>,
) -> Result<(), EncodeError> {
    let instruction = instruction.map_err(|error| EncodeError {
        instruction: format!("{code:?}"),
        reason: error.to_string(),
    })?;
    assembler.push(&instruction)
}
