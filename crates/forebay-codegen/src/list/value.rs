//! Instructions that compute values.

use forebay_filter::ir::{Arithmetic, Value, ValueId, Width};
use iced_x86::{Code, MemoryOperand, Register};

use super::block::{Op, Work};
use super::generate::{Generator, element};
use super::registers::{CAP_LEN, Gpr, PACKET};
use super::select::{Key, Meaning};
use crate::emit::assembler::indexed;

impl Generator<'_> {
    /// The operands of arithmetic that must be in registers.
    pub(crate) fn operands(
        &self,
        op: Arithmetic,
        left: ValueId,
        right: ValueId,
    ) -> [Option<Key>; 2] {
        let key = |value| Some(Key::full(self.function, value));
        match (self.function.as_constant(left), self.function.as_constant(right)) {
            (Some(_), None) if commutes(op) => [key(right), None],
            (_, Some(divisor)) if takes_constant(op, divisor) => [key(left), None],
            _ => [key(left), key(right)],
        }
    }

    /// The constant operand of an operation, if it can be an immediate.
    fn constant_operand(&self, op: Arithmetic, left: ValueId, right: ValueId) -> Option<u32> {
        match (self.function.as_constant(left), self.function.as_constant(right)) {
            (Some(constant), None) if commutes(op) => Some(constant),
            (_, Some(constant)) if takes_constant(op, constant) => Some(constant),
            _ => None,
        }
    }

    /// Emits `op` and records the register of its result.
    pub(crate) fn operation(&mut self, op: &Op) {
        let (Meaning::Raw(value) | Meaning::Full(value)) = op.key.meaning() else {
            let gpr = self.registers.take(&[], &mut self.output);
            self.output.rm(Code::Mov_r32_rm32, gpr.r32(), element(CAP_LEN.r64()));
            return self.registers.put(gpr, op.key);
        };
        let gpr = match (op.work, self.function.get(value)) {
            (Work::Binary, Value::Binary { op: by, left, right }) => {
                self.arithmetic(op.sources, by, self.constant_operand(by, left, right))
            }
            (Work::Reverse, Value::Load { width, .. }) => self.reversed(op.sources, width),
            (work, Value::Load { width, .. }) => self.load(value, width, work),
            (Work::Constant, Value::Constant(constant)) => {
                let gpr = self.registers.take(&[], &mut self.output);
                self.output.ri(Code::Mov_r32_imm32, gpr.r32(), constant);
                gpr
            }
            (Work::Slot, _) => {
                let slot = self.parameter(value);
                self.output.reads_slot(slot);
                let gpr = self.registers.take(&[], &mut self.output);
                self.output.rm(Code::Mov_r32_rm32, gpr.r32(), slot);
                gpr
            }
            _ => {
                let gpr = self.registers.take(&[], &mut self.output);
                let table =
                    self.wire_len.expect("a slot where the function reads lengths on the wire");
                self.output.rm(Code::Mov_r64_rm64, gpr.r64(), table);
                self.output.rm(Code::Mov_r32_rm32, gpr.r32(), element(gpr.r64()));
                gpr
            }
        };
        self.registers.put(gpr, op.key);
    }

    /// The address of bytes of a load, `plus` bytes from its start. Reads the
    /// index, which must be available.
    ///
    /// A displacement too large for an instruction is put into a register,
    /// which is the second result.
    pub(crate) fn field(&mut self, load: ValueId, plus: u32) -> (MemoryOperand, Option<Gpr>) {
        let Value::Load { index, displacement, .. } = self.function.get(load) else {
            return (MemoryOperand::with_base(PACKET.r64()), None);
        };
        let displacement = i64::from(displacement) + i64::from(plus);
        let index = index.map(|index| Key::full(self.function, index));
        let by = index.map(|index| self.registers.read(index, &[], &mut self.output));
        let fits = i32::try_from(displacement).is_ok();
        if fits {
            if let Some(index) = index {
                self.registers.consumed(index);
            }
            let by = by.map_or(Register::None, Gpr::r64);
            return (packet_bytes(by, displacement), None);
        }
        let pinned: Vec<Gpr> = by.into_iter().collect();
        let far = self.registers.take(&pinned, &mut self.output);
        self.output.ri64(Code::Mov_r64_imm64, far.r64(), displacement as u64);
        if let Some(by) = by {
            self.output.rr(Code::Add_r64_rm64, far.r64(), by.r64());
        }
        if let Some(index) = index {
            self.registers.consumed(index);
        }
        (packet_bytes(far.r64(), 0), Some(far))
    }

    fn load(&mut self, value: ValueId, width: Width, work: Work) -> Gpr {
        let (field, far) = self.field(value, 0);
        let gpr = far.unwrap_or_else(|| self.registers.take(&[], &mut self.output));
        let code = match (work, width) {
            (Work::LoadReversed, _) => Code::Movbe_r32_m32,
            (_, Width::Byte) => Code::Movzx_r32_rm8,
            (_, Width::Half) => Code::Movzx_r32_rm16,
            (_, Width::Word) => Code::Mov_r32_rm32,
        };
        self.output.rm(code, gpr.r32(), field);
        gpr
    }

    /// Byte-swaps the bytes of a load in a register.
    fn reversed(&mut self, sources: [Option<Key>; 2], width: Width) -> Gpr {
        let gpr = self.copy_of(sources[0], &[]);
        match width {
            Width::Byte => {}
            Width::Half => self.output.ri(Code::Rol_rm16_imm8, gpr.r16(), 8),
            Width::Word => self.output.r(Code::Bswap_r32, gpr.r32()),
        }
        gpr
    }

    /// A register that starts with the value of `source` and may be
    /// overwritten.
    fn copy_of(&mut self, source: Option<Key>, pinned: &[Gpr]) -> Gpr {
        let Some(source) = source else { return self.registers.take(pinned, &mut self.output) };
        let from = self.registers.read(source, pinned, &mut self.output);
        let last = self.registers.is_last_read(source);
        let to = if last {
            from
        } else {
            let pinned: Vec<Gpr> = pinned.iter().copied().chain([from]).collect();
            self.registers.take(&pinned, &mut self.output)
        };
        if !last {
            self.output.rr(Code::Mov_r32_rm32, to.r32(), from.r32());
        }
        self.registers.consumed(source);
        to
    }

    fn arithmetic(&mut self, sources: [Option<Key>; 2], op: Arithmetic, by: Option<u32>) -> Gpr {
        match by {
            Some(constant) => self.with_constant(sources[0], op, constant),
            None => self.with_register(sources, op),
        }
    }

    /// `source` op `constant`.
    fn with_constant(&mut self, source: Option<Key>, op: Arithmetic, constant: u32) -> Gpr {
        match op {
            Arithmetic::Mul if !constant.is_power_of_two() => {
                return self.product(source, constant);
            }
            Arithmetic::Add | Arithmetic::Sub => {
                let addend = if op == Arithmetic::Sub { constant.wrapping_neg() } else { constant };
                return self.sum(source, addend);
            }
            _ => {}
        }
        let gpr = self.copy_of(source, &[]);
        let shift = constant.trailing_zeros();
        match op {
            Arithmetic::And => {
                self.immediate(Code::And_rm32_imm8, Code::And_rm32_imm32, gpr, constant)
            }
            Arithmetic::Or => {
                self.immediate(Code::Or_rm32_imm8, Code::Or_rm32_imm32, gpr, constant)
            }
            Arithmetic::Xor => {
                self.immediate(Code::Xor_rm32_imm8, Code::Xor_rm32_imm32, gpr, constant)
            }
            Arithmetic::Mod => {
                self.immediate(Code::And_rm32_imm8, Code::And_rm32_imm32, gpr, constant - 1);
            }
            Arithmetic::Mul => self.output.ri(Code::Shl_rm32_imm8, gpr.r32(), shift),
            Arithmetic::Div => self.output.ri(Code::Shr_rm32_imm8, gpr.r32(), shift),
            Arithmetic::Lsh if constant < 32 => {
                self.output.ri(Code::Shl_rm32_imm8, gpr.r32(), constant);
            }
            Arithmetic::Rsh if constant < 32 => {
                self.output.ri(Code::Shr_rm32_imm8, gpr.r32(), constant);
            }
            _ => self.output.rr(Code::Xor_r32_rm32, gpr.r32(), gpr.r32()),
        }
        gpr
    }

    /// An instruction with an immediate that may fit one byte.
    pub(crate) fn immediate(&mut self, short: Code, long: Code, gpr: Gpr, constant: u32) {
        let code = if i8::try_from(constant as i32).is_ok() { short } else { long };
        self.output.ri(code, gpr.r32(), constant);
    }

    fn sum(&mut self, source: Option<Key>, addend: u32) -> Gpr {
        let Some(key) = source else { return self.copy_of(source, &[]) };
        if self.registers.is_last_read(key) {
            let gpr = self.copy_of(source, &[]);
            self.immediate(Code::Add_rm32_imm8, Code::Add_rm32_imm32, gpr, addend);
            return gpr;
        }
        let from = self.registers.read(key, &[], &mut self.output);
        let to = self.registers.take(&[from], &mut self.output);
        let sum = MemoryOperand::with_base_displ(from.r64(), i64::from(addend as i32));
        self.output.rm(Code::Lea_r32_m, to.r32(), sum);
        self.registers.consumed(key);
        to
    }

    fn product(&mut self, source: Option<Key>, factor: u32) -> Gpr {
        let Some(key) = source else { return self.copy_of(source, &[]) };
        let from = self.registers.read(key, &[], &mut self.output);
        let to = if self.registers.is_last_read(key) {
            from
        } else {
            self.registers.take(&[from], &mut self.output)
        };
        self.registers.consumed(key);
        let code = match i8::try_from(factor as i32) {
            Ok(_) => Code::Imul_r32_rm32_imm8,
            Err(_) => Code::Imul_r32_rm32_imm32,
        };
        self.output.rri(code, to.r32(), from.r32(), factor);
        to
    }

    /// An operation on two registers.
    fn with_register(&mut self, sources: [Option<Key>; 2], op: Arithmetic) -> Gpr {
        let [Some(left), Some(right)] = sources else { return self.copy_of(sources[0], &[]) };
        match op {
            Arithmetic::Div | Arithmetic::Mod => return self.quotient(left, right, op),
            Arithmetic::Lsh | Arithmetic::Rsh => return self.shift(left, right, op),
            _ => {}
        }
        let (left, right) = if commutes(op) && self.registers.is_last_read(right) {
            (right, left)
        } else {
            (left, right)
        };
        let other = self.registers.read(right, &[], &mut self.output);
        // If both are the same key, the second read is the last.
        let to = self.copy_of(Some(left), &[other]);
        self.output.arithmetic(op, to, other);
        self.registers.consumed(right);
        to
    }

    /// Quotient or remainder. `rax` and `rdx` are reserved in functions that
    /// need this.
    fn quotient(&mut self, left: Key, right: Key, op: Arithmetic) -> Gpr {
        let dividend = self.registers.read(left, &[], &mut self.output);
        let divisor = self.registers.read(right, &[dividend], &mut self.output);
        self.output.rr(Code::Mov_r32_rm32, Register::EAX, dividend.r32());
        self.output.rr(Code::Xor_r32_rm32, Register::EDX, Register::EDX);
        self.output.r(Code::Div_rm32, divisor.r32());
        self.registers.consumed(left);
        self.registers.consumed(right);
        let to = self.registers.take(&[], &mut self.output);
        let from = if op == Arithmetic::Div { Register::EAX } else { Register::EDX };
        self.output.rr(Code::Mov_r32_rm32, to.r32(), from);
        to
    }

    /// A shift by a variable distance. `rcx` is reserved in functions that need
    /// this.
    ///
    /// The shift is of 64 bits by at most 63, so that distances from 32 up
    /// leave 0 in the low half.
    fn shift(&mut self, left: Key, right: Key, op: Arithmetic) -> Gpr {
        let distance = self.registers.read(right, &[], &mut self.output);
        let to = self.copy_of(Some(left), &[distance]);
        self.output.ri(Code::Mov_r32_imm32, Register::ECX, 63);
        self.output.rr(Code::Cmp_r32_rm32, distance.r32(), Register::ECX);
        self.output.rr(Code::Cmovb_r32_rm32, Register::ECX, distance.r32());
        self.registers.consumed(right);
        if op == Arithmetic::Lsh {
            self.output.rr(Code::Shl_rm64_CL, to.r64(), Register::CL);
            self.output.rr(Code::Mov_r32_rm32, to.r32(), to.r32());
        } else {
            self.output.rr(Code::Shr_rm64_CL, to.r64(), Register::CL);
        }
        to
    }
}

/// Whether `op` is commutative.
fn commutes(op: Arithmetic) -> bool {
    match op {
        Arithmetic::Add | Arithmetic::Mul | Arithmetic::And | Arithmetic::Or | Arithmetic::Xor => {
            true
        }
        Arithmetic::Sub | Arithmetic::Div | Arithmetic::Mod | Arithmetic::Lsh | Arithmetic::Rsh => {
            false
        }
    }
}

/// Whether `op` has an instruction with this constant as its right operand.
fn takes_constant(op: Arithmetic, constant: u32) -> bool {
    !matches!(op, Arithmetic::Div | Arithmetic::Mod) || constant.is_power_of_two()
}

/// Bytes of the packet.
fn packet_bytes(index: Register, displacement: i64) -> MemoryOperand {
    match index {
        Register::None => MemoryOperand::with_base_displ(PACKET.r64(), displacement),
        _ => indexed(PACKET.r64(), index, 1, displacement),
    }
}
