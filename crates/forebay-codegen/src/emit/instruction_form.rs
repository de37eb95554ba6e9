//! From an [`Op`] and its physical registers to an instruction of the encoder.
//!
//! A register belongs to a class, and the instruction's code defines the part
//! that an operand uses: `zmm3`, `ymm3` or `xmm3`. The encoder's name of a code
//! lists its operands (`EVEX_Vpermb_zmm_k1z_zmm_zmmm512`), and [`InstructionForm`] is
//! parsed from it. The encoder also has a table of operand kinds, but that
//! table covers all its codes, and building it on first use takes longer than
//! compiling a filter.

use std::cell::RefCell;
use std::fmt::Write as _;

use iced_x86::{Code, IcedError, Instruction, OpKind, Register};
use rustc_hash::FxHashMap;

use super::assembler::{Assembler, EncodeError};
use crate::convention::Table;
use crate::mir::{Address, Base, Index, Op, Operand, Reg};

/// The kind of an operand: memory, immediate, or a part of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandForm {
    /// The low byte of a general register.
    General8,
    /// The low 16 bits of a general register.
    General16,
    /// The low 32 bits of a general register.
    General32,
    /// A whole general register.
    General64,
    /// The low 128 bits of a vector register.
    Xmm,
    /// The low 256 bits of a vector register.
    Ymm,
    /// A whole vector register of 512 bits.
    Zmm,
    /// An opmask register.
    Mask,
    /// Memory only.
    Memory,
    /// A number.
    Immediate,
}

impl OperandForm {
    fn parse(token: &str) -> Option<Self> {
        let bits = |rest: &str| {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            match &rest[..end] {
                "8" => Some(Self::General8),
                "16" => Some(Self::General16),
                "32" => Some(Self::General32),
                "64" => Some(Self::General64),
                _ => None,
            }
        };
        if token.starts_with("xmm") {
            Some(Self::Xmm)
        } else if token.starts_with("ymm") {
            Some(Self::Ymm)
        } else if token.starts_with("zmm") {
            Some(Self::Zmm)
        } else if token.starts_with("kr") || token.starts_with("km") {
            Some(Self::Mask)
        } else if token.starts_with("imm") || token == "1" {
            Some(Self::Immediate)
        } else if let Some(rest) = token.strip_prefix("rm").or_else(|| token.strip_prefix('r')) {
            bits(rest)
        } else if token.starts_with('m') {
            Some(Self::Memory)
        } else {
            None
        }
    }

    /// The part of `whole` that an operand of this form uses; `whole` is a
    /// register as the allocator names it (`rax`, `zmm3`, `k1`).
    #[must_use]
    pub fn part(self, whole: Register) -> Option<Register> {
        let general = |first: Register| {
            (Register::RAX..=Register::R15)
                .contains(&whole)
                .then(|| first + (whole as u32 - Register::RAX as u32))
        };
        let vector = |first: Register| {
            (Register::ZMM0..=Register::ZMM31)
                .contains(&whole)
                .then(|| first + (whole as u32 - Register::ZMM0 as u32))
        };
        match self {
            // In the encoder's order the low bytes of the first four registers
            // are followed by their second bytes (`ah`).
            Self::General8 if whole <= Register::RBX => general(Register::AL),
            Self::General8 => general(Register::AL + 4),
            Self::General16 => general(Register::AX),
            Self::General32 => general(Register::EAX),
            Self::General64 => general(Register::RAX),
            Self::Xmm => vector(Register::XMM0),
            Self::Ymm => vector(Register::YMM0),
            Self::Zmm => vector(Register::ZMM0),
            Self::Mask => (Register::K0..=Register::K7).contains(&whole).then_some(whole),
            Self::Memory | Self::Immediate => None,
        }
    }
}

/// The operands of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionForm {
    operands: [OperandForm; 4],
    count: usize,
    /// Whether it accepts an opmask.
    pub masked: bool,
    /// Whether masked-off lanes may be zeroed.
    pub zeroing: bool,
    /// Whether it is encoded with EVEX, and may use all 32 vector registers.
    pub evex: bool,
}

impl InstructionForm {
    /// The form of `code`; `None` for an instruction with operands that no
    /// [`Op`] can have. Forms are cached by thread: a filter uses a dozen
    /// codes, and formatting their names took a twentieth of its compilation.
    #[must_use]
    pub fn of(code: Code) -> Option<Self> {
        thread_local! {
            static KNOWN: RefCell<FxHashMap<Code, Option<InstructionForm>>> = RefCell::default();
        }
        KNOWN.with_borrow_mut(|known| *known.entry(code).or_insert_with(|| Self::read(code)))
    }

    fn read(code: Code) -> Option<Self> {
        let mut name = String::with_capacity(64);
        write!(name, "{code:?}").ok()?;
        let mut tokens = name.split('_').peekable();
        let evex = tokens.peek() == Some(&"EVEX");
        if evex || tokens.peek() == Some(&"VEX") {
            tokens.next();
        }
        // These take the other operand's lane where the mask has no bit.
        let blends = tokens.next()?.starts_with("Vpblendm");
        let mut form = Self {
            operands: [OperandForm::Immediate; 4],
            count: 0,
            masked: false,
            zeroing: false,
            evex,
        };
        for token in tokens {
            match token {
                "k1" => form.masked = true,
                "k1z" => (form.masked, form.zeroing) = (true, !blends),
                "er" | "sae" => {}
                _ => {
                    *form.operands.get_mut(form.count)? = OperandForm::parse(token)?;
                    form.count += 1;
                }
            }
        }
        Some(form)
    }

    /// The operands.
    #[must_use]
    pub fn operands(&self) -> &[OperandForm] {
        &self.operands[..self.count]
    }

    /// Whether an operand is wider than 128 bits.
    #[must_use]
    pub fn wide(&self) -> bool {
        self.operands().iter().any(|form| matches!(form, OperandForm::Ymm | OperandForm::Zmm))
    }
}

/// Registers and iteration distance of one copy of an instruction.
pub struct Placement<'a> {
    /// The physical register of each virtual one.
    pub registers: &'a dyn Fn(Reg) -> Register,
    /// The register that holds a table's address.
    pub tables: &'a dyn Fn(Table) -> Register,
    /// The register that holds the packet number.
    pub packet: Register,
    /// Packets from the packet number to those of this copy.
    pub ahead: i64,
}

/// An [`Op`] prepared for encoding; copies can be appended any number of times.
pub struct Encoding<'a> {
    op: &'a Op,
    /// The operands of its code.
    pub form: InstructionForm,
    /// The instruction, but for its registers.
    template: Instruction,
}

impl<'a> Encoding<'a> {
    /// Prepares `op`.
    ///
    /// # Errors
    /// If its operands do not match its code.
    pub fn new(op: &'a Op) -> Result<Self, EncodeError> {
        let form = InstructionForm::of(op.code)
            .ok_or_else(|| mistake(op, "its operands are of unknown kinds"))?;
        if op.tied && (op.dest.is_none() || !matches!(op.operands.first(), Some(Operand::Reg(_)))) {
            return Err(mistake(op, "it is tied, but not from register to register"));
        }
        let count = usize::from(op.dest.is_some()) + op.operands.len() - usize::from(op.tied);
        if count != form.count {
            let reason = format!("it takes {} operands, not {count}", form.count);
            return Err(mistake(op, reason));
        }
        let template = match op.operands.last() {
            Some(&Operand::Immediate(number)) => with_immediate(op.code, count, number),
            _ => {
                let mut instruction = Instruction::default();
                instruction.set_code(op.code);
                Ok(instruction)
            }
        }
        .map_err(|error| mistake(op, error))?;
        Ok(Self { op, form, template })
    }

    /// Appends a copy with the registers of `placement`.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn push(
        &self,
        assembler: &mut Assembler,
        placement: &Placement<'_>,
    ) -> Result<(), EncodeError> {
        let mut instruction = self.template;
        let mut position = 0;
        if let Some(dest) = self.op.dest {
            self.set_register(&mut instruction, position, placement, dest)?;
            position += 1;
        }
        let mut constant = None;
        for operand in &self.op.operands[usize::from(self.op.tied)..] {
            match *operand {
                Operand::Reg(reg) => {
                    self.set_register(&mut instruction, position, placement, reg)?;
                }
                Operand::Memory(address) => {
                    instruction
                        .try_set_op_kind(position, OpKind::Memory)
                        .map_err(|error| mistake(self.op, error))?;
                    self.set_address(&mut instruction, &address, placement, assembler)?;
                    if let Base::Pool(id) = address.base {
                        constant = Some((id, address.displacement));
                    }
                }
                // Already in the template.
                Operand::Immediate(_) => {}
            }
            position += 1;
        }
        if let Some(mask) = self.op.mask {
            instruction.set_op_mask(self.register(placement, mask, OperandForm::Mask)?);
            let zeroing = self.form.zeroing && self.op.dest.is_some() && !self.op.tied;
            instruction.set_zeroing_masking(zeroing);
        }
        match constant {
            Some((id, plus)) => assembler.push_with_constant(&instruction, id, plus),
            None => assembler.push(&instruction),
        }
    }

    /// The part of `reg`'s physical register that `form` requires.
    fn register(
        &self,
        placement: &Placement<'_>,
        reg: Reg,
        form: OperandForm,
    ) -> Result<Register, EncodeError> {
        let whole = (placement.registers)(reg);
        form.part(whole)
            .ok_or_else(|| mistake(self.op, format!("{whole:?} for an operand {form:?}")))
    }

    fn set_register(
        &self,
        instruction: &mut Instruction,
        position: u32,
        placement: &Placement<'_>,
        reg: Reg,
    ) -> Result<(), EncodeError> {
        let register = self.register(placement, reg, self.form.operands()[position as usize])?;
        instruction.try_set_op_register(position, register).map_err(|error| mistake(self.op, error))
    }

    fn set_address(
        &self,
        instruction: &mut Instruction,
        address: &Address,
        placement: &Placement<'_>,
        assembler: &Assembler,
    ) -> Result<(), EncodeError> {
        let mut displacement = i64::from(address.displacement);
        match address.index {
            Index::None => {}
            Index::Reg(reg, scale) => {
                let index = self.register(placement, reg, OperandForm::General64)?;
                instruction.set_memory_index(index);
                instruction.set_memory_index_scale(u32::from(scale));
            }
            Index::Packet(scale) => {
                instruction.set_memory_index(placement.packet);
                instruction.set_memory_index_scale(u32::from(scale));
                displacement += placement.ahead * i64::from(scale);
            }
        }
        instruction.set_is_broadcast(address.broadcast);
        match address.base {
            Base::Table(table) => instruction.set_memory_base((placement.tables)(table)),
            Base::PoolIn(reg) => {
                let base = self.register(placement, reg, OperandForm::General64)?;
                instruction.set_memory_base(base);
            }
            Base::Pool(_) => {
                let place = assembler.constant();
                instruction.set_memory_base(place.base);
                instruction.set_memory_displ_size(8);
                instruction.set_memory_displacement64(place.displacement as u64);
                return Ok(());
            }
        }
        instruction.set_memory_displ_size(u32::from(displacement != 0));
        instruction.set_memory_displacement64(displacement as u64);
        Ok(())
    }
}

/// An instruction of `count` operands whose last one is the immediate `number`,
/// in the width and extension of `code`; the other operands are not set yet.
fn with_immediate(code: Code, count: usize, number: i32) -> Result<Instruction, IcedError> {
    const ANY: Register = Register::None;
    match count {
        2 => Instruction::with2(code, ANY, number),
        3 => Instruction::with3(code, ANY, ANY, number),
        _ => Instruction::with4(code, ANY, ANY, ANY, number),
    }
}

fn mistake(op: &Op, reason: impl ToString) -> EncodeError {
    EncodeError { instruction: format!("{:?}", op.code), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use iced_x86::Encoder;

    use super::*;

    /// An instruction of `code` with a register or else memory for each
    /// operand.
    fn example(code: Code, form: &InstructionForm) -> Instruction {
        let mut instruction = match form.operands().last() {
            Some(OperandForm::Immediate) => with_immediate(code, form.count, 1)
                .unwrap_or_else(|error| panic!("{code:?} takes a number: {error}")),
            _ => Instruction::default(),
        };
        instruction.set_code(code);
        for (position, operand) in (0u32..).zip(form.operands()) {
            let position_dependent = position + 1;
            let register = match operand {
                OperandForm::Immediate => continue,
                OperandForm::Memory => {
                    instruction.set_op_kind(position, OpKind::Memory);
                    instruction.set_memory_base(Register::RSI);
                    continue;
                }
                OperandForm::Mask => Register::K0 + position_dependent,
                OperandForm::Xmm | OperandForm::Ymm | OperandForm::Zmm => {
                    Register::ZMM0 + position_dependent
                }
                _ => Register::RAX + position_dependent,
            };
            let part = operand.part(register).expect("the register is of the operand's class");
            instruction.set_op_register(position, part);
        }
        if form.masked {
            instruction.set_op_mask(Register::K5);
        }
        instruction
    }

    /// Name prefixes of the codes that filters may need.
    const KINDS: [&str; 17] = [
        "EVEX_V", "VEX_", "Mov_r", "Movzx_", "Movsx_", "Movbe_", "Add_r", "Sub_r", "And_r", "Or_r",
        "Xor_r", "Cmp_r", "Shl_r", "Shr_r", "Imul_r", "Lea_r", "Prefetch",
    ];

    #[test]
    fn the_encoder_takes_what_forms_say_of_operands() {
        let mut known = 0;
        for code in Code::values() {
            let name = format!("{code:?}");
            if !KINDS.iter().any(|kind| name.starts_with(kind)) {
                continue;
            }
            let Some(form) = InstructionForm::of(code) else { continue };
            known += 1;
            let encoded = Encoder::new(64).encode(&example(code, &form), 0);
            let error = encoded.err().map(|error| error.to_string());
            assert_eq!(error, None, "{name}");
        }
        assert!(known > 1000, "{known} forms");
    }
}
