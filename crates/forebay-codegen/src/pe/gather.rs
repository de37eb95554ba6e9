//! Bytes at an offset that is computed for each packet, as behind a TCP header of any length.
//!
//! A gather instruction takes as many operations on a Zen 4 core, and many times as long on those Intel cores
//! whose microcode keeps its data from leaking (Gather Data Sampling, CVE-2022-40982).

use forebay_filter::ir::Arithmetic;
use iced_x86::Code;

use super::packets::{entry, halves, header};
use super::vectors::Vectors;
use crate::convention::Table;
use crate::machine::{Units, latency};
use crate::mir::{Operand, Reg, RegClass};

/// Lanes of 128 bits.
const FOUR: u32 = 4;

/// The four bytes from `displacement` on after the computed offset in each lane of `index`, in the packet of
/// that lane. The caller has made sure that these can be read, and that no sum of offsets exceeds 32 bits.
pub(super) fn gather<V: Vectors>(vectors: &mut V, index: Reg, displacement: u32) -> Reg {
    let packets = Operand::Memory(entry(Table::Offset, 0));
    // Every level adds.
    let offsets = vectors.arithmetic(Arithmetic::Add, index, packets).unwrap_or(index);
    let note = vectors.body().ops.last().map_or(0, |op| op.note);
    let mut all = None;
    for part in 0..(V::LANES / FOUR) as i32 {
        let offsets = if part == 0 { offsets } else { four(vectors, offsets, part) };
        let mut lanes = None;
        for pair in 0..2 {
            let both = two(vectors, offsets, pair);
            for (half, offset) in (0..).zip(halves(vectors.body(), both, note)) {
                let from = Operand::Memory(header(offset, displacement));
                lanes = Some(insert(vectors, lanes, from, 2 * pair + half));
            }
        }
        all = match (all, lanes) {
            (Some(all), Some(lanes)) => Some(joined(vectors, all, lanes, part)),
            (_, lanes) => lanes,
        };
    }
    all.unwrap_or(offsets)
}

/// Four lanes of a vector.
fn four<V: Vectors>(vectors: &mut V, lanes: Reg, part: i32) -> Reg {
    let codes =
        [Code::EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8, Code::VEX_Vextracti128_xmmm128_ymm_imm8];
    let operands = vec![Operand::Reg(lanes), Operand::Immediate(part)];
    vectors.instruction(codes, RegClass::Vector, operands, (Units::PORT_5, latency::CROSSING))
}

/// The first or the second two of four lanes, in a general register.
fn two<V: Vectors>(vectors: &mut V, lanes: Reg, pair: i32) -> Reg {
    let moved = Operand::Reg(lanes);
    if pair == 0 {
        let codes = [Code::EVEX_Vmovq_rm64_xmm, Code::VEX_Vmovq_rm64_xmm];
        let cost = (Units::PORT_0, latency::CROSSING);
        return vectors.instruction(codes, RegClass::General, vec![moved], cost);
    }
    let codes = [Code::EVEX_Vpextrq_rm64_xmm_imm8, Code::VEX_Vpextrq_rm64_xmm_imm8];
    let operands = vec![moved, Operand::Immediate(pair)];
    let cost = (Units::PORT_0_AND_5, latency::CROSSING + latency::SIMPLE);
    vectors.instruction(codes, RegClass::General, operands, cost)
}

/// Four bytes from memory as a lane of four; the first one makes the vector.
fn insert<V: Vectors>(vectors: &mut V, lanes: Option<Reg>, from: Operand, lane: i32) -> Reg {
    let Some(lanes) = lanes else {
        let codes = [Code::EVEX_Vmovd_xmm_rm32, Code::VEX_Vmovd_xmm_rm32];
        return vectors.instruction(codes, RegClass::Vector, vec![from], (Units::LOAD, 0));
    };
    let codes = [Code::EVEX_Vpinsrd_xmm_xmm_rm32_imm8, Code::VEX_Vpinsrd_xmm_xmm_rm32_imm8];
    let operands = vec![Operand::Reg(lanes), from, Operand::Immediate(lane)];
    let cost = (Units::PORT_5.with_load(), latency::SIMPLE);
    vectors.instruction(codes, RegClass::Vector, operands, cost)
}

/// A vector with four lanes in `part`.
fn joined<V: Vectors>(vectors: &mut V, all: Reg, lanes: Reg, part: i32) -> Reg {
    let codes = [
        Code::EVEX_Vinserti32x4_zmm_k1z_zmm_xmmm128_imm8,
        Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8,
    ];
    let operands = vec![Operand::Reg(all), Operand::Reg(lanes), Operand::Immediate(part)];
    vectors.instruction(codes, RegClass::Vector, operands, (Units::PORT_5, latency::CROSSING))
}
