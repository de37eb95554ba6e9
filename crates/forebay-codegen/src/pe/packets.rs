//! Packet offsets in registers, and addresses of packet bytes.
//!
//! Every packet costs a load of its offset besides those of its bytes, and a
//! core loads twice a cycle. So one load fetches two offsets, and two integer
//! instructions separate them.

use iced_x86::Code;

use crate::convention::Table;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Op, Operand, Reg, RegClass};

/// Bits of an offset.
const OFFSET_BITS: i32 = 32;

/// An entry of a table of 32-bit numbers, `displacement` bytes on.
pub(super) fn entry(table: Table, displacement: i32) -> Address {
    Address { base: Base::Table(table), index: Index::Packet(4), displacement, broadcast: false }
}

/// The bytes from `at` on of the packet at `offset`. Atoms are checked to end
/// within the range of signed displacements.
pub(super) fn header(offset: Reg, at: u32) -> Address {
    Address {
        base: Base::Table(Table::Base),
        index: Index::Reg(offset, 1),
        displacement: at as i32,
        broadcast: false,
    }
}

/// Loads the offsets of `count` packets from `packet` on: one, or pairs.
pub(super) fn offsets(body: &mut LoopBody, packet: i32, count: i32, note: u32) -> Vec<Reg> {
    if count == 1 {
        let memory = Operand::Memory(entry(Table::Offset, 4 * packet));
        let cost = (Units::LOAD, 0);
        return vec![body.op(Code::Mov_r32_rm32, RegClass::General, vec![memory], cost, note)];
    }
    let pairs = (0..count).step_by(2).flat_map(|pair| two_offsets(body, packet + pair, note));
    pairs.collect()
}

/// Loads the offsets of a packet and the one after it.
pub(super) fn two_offsets(body: &mut LoopBody, packet: i32, note: u32) -> [Reg; 2] {
    let memory = Operand::Memory(entry(Table::Offset, 4 * packet));
    let both = body.op(Code::Mov_r64_rm64, RegClass::General, vec![memory], (Units::LOAD, 0), note);
    halves(body, both, note)
}

/// The low and the high 32 bits of a register.
pub(super) fn halves(body: &mut LoopBody, both: Reg, note: u32) -> [Reg; 2] {
    let simple = (Units::ALU, latency::SIMPLE);
    // A 32-bit move clears the upper half.
    let first =
        body.op(Code::Mov_r32_rm32, RegClass::General, vec![Operand::Reg(both)], simple, note);
    let shift = vec![Operand::Reg(both), Operand::Immediate(OFFSET_BITS)];
    let simple = (Units::SHIFT, latency::SIMPLE);
    let second = body.op(Code::Shr_rm64_imm8, RegClass::General, shift, simple, note);
    if let Some(op) = body.ops.last_mut() {
        op.tied = true;
    }
    [first, second]
}

/// Prefetches byte `first` of the packets that are `distance` packets after
/// those of the iteration; nothing if no byte is read, or at distance 0.
pub(super) fn prefetches(body: &mut LoopBody, first: Option<u32>, distance: u16) {
    let Some(first) = first.filter(|_| distance > 0) else { return };
    body.lookahead = u32::from(distance);
    let note = body.note(format!("prefetch, {distance} packets ahead"));
    let step = body.step as i32;
    let start = body.ops.len();
    for packet in (0..step).step_by(2) {
        let packet = packet + i32::from(distance);
        for offset in offsets(body, packet, step.min(2), note) {
            body.push(Op {
                code: Code::Prefetcht0_m8,
                dest: None,
                tied: false,
                operands: vec![Operand::Memory(header(offset, first))],
                mask: None,
                latency: 0,
                units: Units::LOAD,
                note,
                ahead: false,
            });
        }
    }
    // The loads of offsets serve nothing but the prefetches.
    for op in &mut body.ops[start..] {
        op.ahead = true;
    }
}
