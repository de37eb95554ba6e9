//! Prefetches the headers of later packets: a mispredicted branch discards the loads of packets behind
//! it, but not prefetches.

use forebay_filter::ir::Value;
use iced_x86::{Code, MemoryOperand};

use super::generate::Generator;
use super::registers::{BASE, Gpr, NUMBER, OFFSET};

/// Packets that are read from here on only are not prefetched.
const FAR: i64 = 1 << 16;

impl Generator<'_> {
    /// The first byte of a packet that is read wherever the packet's headers end; none if none is.
    pub(super) fn first_byte(&self) -> Option<i64> {
        let of = |value: &Value| match *value {
            Value::Load { displacement, index: None, .. } => Some(i64::from(displacement)),
            _ => None,
        };
        self.function.values().iter().filter_map(of).min().filter(|&byte| byte < FAR)
    }

    /// Prefetches the packets that [`Generator::prefetch_later`] does not reach, in a call with more of them.
    pub(super) fn prefetch_first(&mut self, first_byte: i64) {
        let [number, packet] = self.two_registers();
        let (begin, again) = (self.assembler.label(), self.assembler.label());
        self.later(number);
        self.output.jump(Code::Jns_rel32_64, begin);
        self.output.bind(again);
        let before =
            MemoryOperand::with_base_index_scale_displ_size(OFFSET.r64(), number.r64(), 4, -4, 1);
        self.output.rm(Code::Mov_r32_rm32, packet.r32(), before);
        self.prefetch(packet, first_byte);
        self.output.r(Code::Dec_rm64, number.r64());
        self.output.rr(Code::Cmp_r64_rm64, number.r64(), NUMBER.r64());
        self.output.jump(Code::Jne_rel32_64, again);
        self.output.bind(begin);
    }

    /// Prefetches a later packet, if there is one.
    pub(super) fn prefetch_later(&mut self, first_byte: i64) {
        let [number, packet] = self.two_registers();
        let none = self.assembler.label();
        self.later(number);
        self.output.jump(Code::Jns_rel32_64, none);
        let offset = MemoryOperand::with_base_index_scale(OFFSET.r64(), number.r64(), 4);
        self.output.rm(Code::Mov_r32_rm32, packet.r32(), offset);
        self.prefetch(packet, first_byte);
        self.output.bind(none);
    }

    /// The number of the packet that is prefetched with this one; not negative if there is none.
    fn later(&mut self, to: Gpr) {
        self.output.rr(Code::Mov_r64_rm64, to.r64(), NUMBER.r64());
        self.output.ri(Code::Add_rm64_imm32, to.r64(), u32::from(self.prefetch));
    }

    /// Two registers for the start of a packet, when no value is in any.
    fn two_registers(&mut self) -> [Gpr; 2] {
        let first = self.registers.take(&[], &mut self.output);
        [first, self.registers.take(&[first], &mut self.output)]
    }

    /// Prefetches a byte of the packet whose offset is in a register, which is overwritten.
    fn prefetch(&mut self, packet: Gpr, first_byte: i64) {
        self.output.rr(Code::Add_r64_rm64, packet.r64(), BASE.r64());
        let line = MemoryOperand::with_base_displ(packet.r64(), first_byte);
        self.output.m(Code::Prefetcht0_m8, line);
    }
}
