//! Prefetches the headers of later packets: a mispredicted branch discards the loads of packets behind
//! it, but not prefetches.

use forebay_filter::ir::Value;
use iced_x86::{Code, MemoryOperand};

use super::generate::Generator;
use super::output::Output;
use super::registers::{BASE, Gpr, NUMBER, OFFSET};
use crate::emit::assembler::{Label, indexed};

/// Packets that are read from here on only are not prefetched.
const FAR: i64 = 1 << 16;

/// Where code with branches finds packets.
pub(crate) struct Places {
    /// Packet memory.
    pub base: Gpr,
    /// The end of the table of offsets.
    pub offsets: Gpr,
    /// The number of a packet, which counts up to 0.
    pub number: Gpr,
}

impl Places {
    /// Prefetches byte `first_byte` of the first packets, which no packet before them prefetches: as many as
    /// the prefetch distance, or all. Needs three registers and a label.
    pub(crate) fn prefetch_first(
        &self,
        distance: u32,
        first_byte: i64,
        [at, limit, packet]: [Gpr; 3],
        again: Label,
        output: &mut Output,
    ) {
        let later = MemoryOperand::with_base_displ(self.number.r64(), i64::from(distance));
        output.rm(Code::Lea_r64_m, limit.r64(), later);
        output.rr(Code::Xor_r32_rm32, at.r32(), at.r32());
        output.rr(Code::Test_rm64_r64, limit.r64(), limit.r64());
        output.rr(Code::Cmovg_r64_rm64, limit.r64(), at.r64());
        output.rr(Code::Mov_r64_rm64, at.r64(), self.number.r64());
        output.bind(again);
        let offset = indexed(self.offsets.r64(), at.r64(), 4, 0);
        output.rm(Code::Mov_r32_rm32, packet.r32(), offset);
        let line = indexed(self.base.r64(), packet.r64(), 1, first_byte);
        output.m(Code::Prefetcht0_m8, line);
        output.ri(Code::Add_rm64_imm8, at.r64(), 1);
        output.rr(Code::Cmp_r64_rm64, at.r64(), limit.r64());
        output.jump(Code::Jl_rel32_64, again);
    }
}

impl Generator<'_> {
    /// The first byte of a packet that is read wherever the packet's headers end; none if none is.
    pub(super) fn first_byte(&self) -> Option<i64> {
        let of = |value: &Value| match *value {
            Value::Load { displacement, index: None, .. } => Some(i64::from(displacement)),
            _ => None,
        };
        self.function.values().iter().filter_map(of).min().filter(|&byte| byte < FAR)
    }

    /// Prefetches the packets that [`Generator::prefetch_later`] does not reach.
    pub(super) fn prefetch_first(&mut self, first_byte: i64) {
        let [first, second] = self.two_registers();
        let third = self.registers.take(&[first, second], &mut self.output);
        let places = Places { base: BASE, offsets: OFFSET, number: NUMBER };
        let again = self.assembler.label();
        let distance = u32::from(self.prefetch);
        places.prefetch_first(
            distance,
            first_byte,
            [first, second, third],
            again,
            &mut self.output,
        );
    }

    /// Prefetches a later packet, if there is one.
    pub(super) fn prefetch_later(&mut self, first_byte: i64) {
        let [number, packet] = self.two_registers();
        let none = self.assembler.label();
        self.output.rr(Code::Mov_r64_rm64, number.r64(), NUMBER.r64());
        self.output.ri(Code::Add_rm64_imm32, number.r64(), u32::from(self.prefetch));
        self.output.jump(Code::Jns_rel32_64, none);
        let offset = indexed(OFFSET.r64(), number.r64(), 4, 0);
        self.output.rm(Code::Mov_r32_rm32, packet.r32(), offset);
        self.output.m(Code::Prefetcht0_m8, indexed(BASE.r64(), packet.r64(), 1, first_byte));
        self.output.bind(none);
    }

    /// Two registers for the start of a packet, when no value is in any.
    fn two_registers(&mut self) -> [Gpr; 2] {
        let first = self.registers.take(&[], &mut self.output);
        [first, self.registers.take(&[first], &mut self.output)]
    }
}
