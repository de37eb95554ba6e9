//! Instructions that evaluate predicates.

use forebay_filter::ir::{Value, ValueId, Width};
use iced_x86::{Code, MemoryOperand};

use super::generate::{Generator, element};
use super::registers::{CAP_LEN, Gpr};
use super::select::{Action, Condition, Field, Key, Test};

impl Generator<'_> {
    /// Sets the flags by `test`; returns the condition under which it holds.
    pub(crate) fn flags(&mut self, test: Test) -> Condition {
        match test {
            Test::Constant(_) => Condition::Equal,
            Test::Captured { bytes } => self.captured(bytes),
            Test::CapturedAt { index, bytes } => self.captured_at(index, bytes),
            Test::Immediate { key, mask, minus, action, immediate, condition, field } => {
                match field.filter(|field| self.stays_in_memory(key, mask, *field)) {
                    Some(field) => self.with_field(field, action),
                    None => {
                        let gpr = self.key_to_compare(key, mask);
                        let gpr = self.less(gpr, minus);
                        self.with_number(gpr, action, immediate);
                        self.registers.consumed(key);
                    }
                }
                condition
            }
            Test::Pair { left, right, action, condition } => {
                self.compute(&[left, right]);
                let first = self.registers.read(left, &[], &mut self.output);
                let second = self.registers.read(right, &[first], &mut self.output);
                let code = match action {
                    Action::Compare => Code::Cmp_r32_rm32,
                    Action::Test => Code::Test_rm32_r32,
                };
                self.output.rr(code, first.r32(), second.r32());
                self.registers.consumed(left);
                self.registers.consumed(right);
                condition
            }
            Test::Few { key, few } => self.one_of_few(key, &few),
            Test::Member { key, mask, set, reversed } => self.member(key, mask, set, reversed),
        }
    }

    fn captured(&mut self, bytes: u32) -> Condition {
        let alone = self.registers.use_count(Key::LENGTH) == 1;
        if alone && self.registers.find(Key::LENGTH).is_none() {
            let length = element(CAP_LEN.r64());
            let code = if is_short(bytes) { Code::Cmp_rm32_imm8 } else { Code::Cmp_rm32_imm32 };
            self.output.mi(code, length, bytes as i32);
        } else {
            let length = self.key_to_compare(Key::LENGTH, u32::MAX);
            self.with_number(length, Action::Compare, bytes);
            self.registers.consumed(Key::LENGTH);
        }
        Condition::AboveOrEqual
    }

    /// The sum has 33 bits and is compared in 64.
    fn captured_at(&mut self, index: Key, bytes: u32) -> Condition {
        self.compute(&[Key::LENGTH, index]);
        let length = self.registers.read(Key::LENGTH, &[], &mut self.output);
        let by = self.registers.read(index, &[length], &mut self.output);
        let end = self.registers.take(&[length, by], &mut self.output);
        if i32::try_from(bytes).is_ok() {
            let sum = MemoryOperand::with_base_displ(by.r64(), i64::from(bytes));
            self.output.rm(Code::Lea_r64_m, end.r64(), sum);
        } else {
            self.output.ri(Code::Mov_r32_imm32, end.r32(), bytes);
            self.output.rr(Code::Add_r64_rm64, end.r64(), by.r64());
        }
        self.output.rr(Code::Cmp_r64_rm64, end.r64(), length.r64());
        self.registers.consumed(Key::LENGTH);
        self.registers.consumed(index);
        Condition::BelowOrEqual
    }

    /// Whether a field is better compared in memory: it has no other reader, or
    /// would have to be masked in a register.
    pub(crate) fn stays_in_memory(&self, key: Key, mask: u32, field: Field) -> bool {
        let Value::Load { displacement, .. } = self.function.get(field.load) else { return false };
        let reachable = i32::try_from(i64::from(displacement) + i64::from(field.plus)).is_ok();
        let alone = self.registers.use_count(key) <= 1 && self.registers.find(key).is_none();
        reachable && (alone || mask != u32::MAX)
    }

    fn with_field(&mut self, field: Field, action: Action) {
        let memory = self.operand(field.load, field.plus);
        let immediate = field.immediate;
        let short = is_short(sign_extended(field.width, immediate));
        let code = match (action, field.width) {
            (Action::Compare, Width::Byte) => Code::Cmp_rm8_imm8,
            (Action::Compare, Width::Half) if short => Code::Cmp_rm16_imm8,
            (Action::Compare, Width::Half) => Code::Cmp_rm16_imm16,
            (Action::Compare, Width::Word) if short => Code::Cmp_rm32_imm8,
            (Action::Compare, Width::Word) => Code::Cmp_rm32_imm32,
            (Action::Test, Width::Byte) => Code::Test_rm8_imm8,
            (Action::Test, Width::Half) => Code::Test_rm16_imm16,
            (Action::Test, Width::Word) => Code::Test_rm32_imm32,
        };
        self.output.mi(code, memory, sign_extended(field.width, immediate) as i32);
    }

    /// A memory operand for bytes of a load whose index is computed.
    pub(crate) fn operand(&mut self, load: ValueId, plus: u32) -> MemoryOperand {
        if let Value::Load { index: Some(index), .. } = self.function.get(load) {
            self.compute(&[Key::full(self.function, index)]);
        }
        self.field(load, plus).0
    }

    /// A register with the bits of `mask` of `key`, which must be computed; the
    /// caller still has to consume `key`.
    pub(crate) fn key_to_compare(&mut self, key: Key, mask: u32) -> Gpr {
        self.compute(&[key]);
        let gpr = self.registers.read(key, &[], &mut self.output);
        if mask == u32::MAX {
            return gpr;
        }
        let masked = self.registers.take(&[gpr], &mut self.output);
        self.output.rr(Code::Mov_r32_rm32, masked.r32(), gpr.r32());
        self.immediate(Code::And_rm32_imm8, Code::And_rm32_imm32, masked, mask);
        masked
    }

    /// A register with the value of `gpr` minus `minus`.
    fn less(&mut self, gpr: Gpr, minus: u32) -> Gpr {
        if minus == 0 {
            return gpr;
        }
        let rest = self.registers.take(&[gpr], &mut self.output);
        let minus = i64::from(minus.wrapping_neg() as i32);
        let difference = MemoryOperand::with_base_displ(gpr.r64(), minus);
        self.output.rm(Code::Lea_r32_m, rest.r32(), difference);
        rest
    }

    fn with_number(&mut self, gpr: Gpr, action: Action, immediate: u32) {
        match action {
            Action::Compare if immediate == 0 => self.test_itself(gpr),
            Action::Compare => {
                self.immediate(Code::Cmp_rm32_imm8, Code::Cmp_rm32_imm32, gpr, immediate);
            }
            Action::Test if immediate <= 0xff => {
                self.output.ri(Code::Test_rm8_imm8, gpr.r8(), u32::from(immediate as u8));
            }
            Action::Test => self.output.ri(Code::Test_rm32_imm32, gpr.r32(), immediate),
        }
    }

    /// Compares `gpr` with 0.
    pub(crate) fn test_itself(&mut self, gpr: Gpr) {
        self.output.rr(Code::Test_rm32_r32, gpr.r32(), gpr.r32());
    }
}

/// Whether `number` fits a one-byte immediate.
fn is_short(number: u32) -> bool {
    i8::try_from(number as i32).is_ok()
}

/// A number of the width of a field, sign-extended as the encoder requires.
fn sign_extended(width: Width, number: u32) -> u32 {
    match width {
        Width::Byte => i32::from(number as u8 as i8) as u32,
        Width::Half => i32::from(number as u16 as i16) as u32,
        Width::Word => number,
    }
}
