//! Instructions that compute values.

use forebay_filter::ir::{Arithmetic, Width};
use iced_x86::Code;

use super::generate::Generator;
use super::patterns::Packet;
use super::value::{Work, work};
use crate::list::registers::Gpr;
use crate::list::select::{Key, Meaning};

impl Generator<'_> {
    /// Computes `key` of `packet` in `to`, which already holds `known` if that
    /// is given. Uses as many shared registers as [`super::value::Cost`] gives,
    /// starting with number `from`.
    pub(super) fn evaluate(
        &mut self,
        key: Key,
        known: Option<Key>,
        packet: Packet,
        to: Gpr,
        from: usize,
    ) {
        if known == Some(key) {
            return;
        }
        // Plans never hold a captured length in a register.
        let (Meaning::Raw(value) | Meaning::Full(value)) = key.meaning() else { return };
        match work(self.function, value) {
            None => {}
            Some(Work::Constant(number)) => {
                self.output.ri(Code::Mov_r32_imm32, to.r32(), number);
            }
            Some(Work::WireLength) => {
                let length = self.wire_length(packet);
                self.output.rm(Code::Mov_r32_rm32, to.r32(), length);
            }
            Some(Work::Load { width, .. }) if key != Key::raw(value) => {
                self.evaluate(Key::raw(value), known, packet, to, from);
                match width {
                    Width::Byte => {}
                    Width::Half => self.output.ri(Code::Rol_rm16_imm8, to.r16(), 8),
                    Width::Word => self.output.r(Code::Bswap_r32, to.r32()),
                }
            }
            Some(Work::Load { width, index, displacement }) => {
                let mut place = self.place(packet);
                if let Some(index) = index {
                    self.evaluate(Key::full(self.function, index), known, packet, to, from);
                    self.output.rr(Code::Add_r64_rm64, to.r64(), place.r64());
                    place = to;
                }
                let code = match width {
                    Width::Byte => Code::Movzx_r32_rm8,
                    Width::Half => Code::Movzx_r32_rm16,
                    Width::Word => Code::Mov_r32_rm32,
                };
                let bytes = self.packet_bytes(place, displacement);
                self.output.rm(code, to.r32(), bytes);
            }
            Some(Work::WithConstant { op, left, constant }) => {
                self.evaluate(Key::full(self.function, left), known, packet, to, from);
                self.with_constant(op, to, constant);
            }
            Some(Work::Both { op, left, right }) => {
                let other = self.temporary(from);
                self.evaluate(Key::full(self.function, left), known, packet, to, from);
                self.evaluate(Key::full(self.function, right), None, packet, other, from + 1);
                self.with_register(op, to, other);
            }
        }
    }

    /// `to` op `other`, in `to`.
    fn with_register(&mut self, op: Arithmetic, to: Gpr, other: Gpr) {
        // `work` admits no shift or division of two registers.
        self.output.arithmetic(op, to, other);
    }

    /// `to` op `constant`, in `to`.
    fn with_constant(&mut self, op: Arithmetic, to: Gpr, constant: u32) {
        let register = to.r32();
        let shift = constant.trailing_zeros();
        match op {
            Arithmetic::Add => {
                self.number(Code::Add_rm32_imm8, Code::Add_rm32_imm32, register, constant);
            }
            Arithmetic::Sub => {
                self.number(Code::Sub_rm32_imm8, Code::Sub_rm32_imm32, register, constant);
            }
            Arithmetic::And => {
                self.number(Code::And_rm32_imm8, Code::And_rm32_imm32, register, constant);
            }
            Arithmetic::Or => {
                self.number(Code::Or_rm32_imm8, Code::Or_rm32_imm32, register, constant);
            }
            Arithmetic::Xor => {
                self.number(Code::Xor_rm32_imm8, Code::Xor_rm32_imm32, register, constant);
            }
            Arithmetic::Mul if constant.is_power_of_two() => {
                self.output.ri(Code::Shl_rm32_imm8, register, shift);
            }
            Arithmetic::Mul => {
                self.output.rri(Code::Imul_r32_rm32_imm32, register, register, constant);
            }
            Arithmetic::Div => self.output.ri(Code::Shr_rm32_imm8, register, shift),
            Arithmetic::Mod => {
                let rest = constant.wrapping_sub(1);
                self.number(Code::And_rm32_imm8, Code::And_rm32_imm32, register, rest);
            }
            Arithmetic::Lsh | Arithmetic::Rsh if constant >= 32 => {
                self.output.rr(Code::Xor_r32_rm32, register, register);
            }
            Arithmetic::Lsh => self.output.ri(Code::Shl_rm32_imm8, register, constant),
            Arithmetic::Rsh => self.output.ri(Code::Shr_rm32_imm8, register, constant),
        }
    }
}
