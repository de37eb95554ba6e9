//! The extraction loop with AVX2: from headers to signatures.
//!
//! As with AVX-512, in vectors of 32 bytes. There are no opmask registers:
//! `vpcmpeqb` and its like leave a vector of ones where lanes agree, and
//! `vpmovmskb` takes a bit of each byte from it. Order is compared by way of
//! the unsigned maximum, for AVX2 has no unsigned comparison.

use forebay_filter::ir::Function;
use iced_x86::Code;

use super::Unsuited;
use super::constants::{lanes, shuffle, whole_bytes};
use super::extract::{Builder, listed, pieces, raw_tables};
use super::layout::{Comparison, Layout, Lookup, Plane};
use super::packets::header;
use crate::code::Options;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{LoopBody, Operand, PoolId, Reg, RegClass};
use crate::tables::SetTable;

/// Slots of a bucket of a set: one comparison of 256 bits.
const BUCKET: usize = 8;

/// The extraction loop.
///
/// # Errors
/// A set that no table was found for.
pub(super) fn body(
    function: &Function,
    layout: &Layout,
    options: &Options,
    pool: &mut Pool,
) -> Result<LoopBody, Unsuited> {
    let mut builder = Builder::new(layout, Code::VEX_Vmovdqu_ymm_ymmm256, options);
    let mut vectors: Vec<Option<Reg>> = vec![None; layout.sources.len()];
    for (index, plane) in layout.planes.iter().enumerate() {
        let vector = match vectors[plane.source] {
            Some(reg) => reg,
            None => builder.load_ymm(plane.source),
        };
        vectors[plane.source] = Some(vector);
        builder.plane_ymm(index, plane, vector, pool);
    }
    let (id, tables) = raw_tables(function, layout, BUCKET, pool)?;
    for (index, (lookup, table)) in layout.lookups.iter().zip(&tables).enumerate() {
        builder.lookup_ymm(layout.planes.len() + index, lookup, table, id);
    }
    Ok(builder.body)
}

impl Builder<'_> {
    fn load_ymm(&mut self, source: usize) -> Reg {
        let chunks = self.layout.sources[source].chunks.clone();
        let share = (self.layout.vector / self.layout.packets / 16) as usize;
        let note = self.body.note(format!("header bytes from {}", listed(&chunks)));
        let mut vector: Option<Reg> = None;
        for packet in 0..self.layout.packets as usize {
            for (chunk, count) in pieces(&chunks) {
                let memory = Operand::Memory(header(self.offsets[packet], chunks[chunk]));
                let position = packet * share + chunk;
                let loaded = match vector {
                    None => {
                        let code = if count == 2 {
                            Code::VEX_Vmovdqu_ymm_ymmm256
                        } else {
                            Code::VEX_Vmovdqu_xmm_xmmm128
                        };
                        self.body.op(code, RegClass::Vector, vec![memory], (Units::LOAD, 0), note)
                    }
                    Some(rest) => {
                        let at = Operand::Immediate(position as i32);
                        let cost = (Units::LOGIC.with_load(), latency::SIMPLE);
                        let code = Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
                        let operands = vec![Operand::Reg(rest), memory, at];
                        self.body.op(code, RegClass::Vector, operands, cost, note)
                    }
                };
                vector = Some(loaded);
            }
        }
        // A source has a chunk at least, and a vector a packet.
        vector.unwrap_or(self.offsets[0])
    }

    fn plane_ymm(&mut self, index: usize, plane: &Plane, source: Reg, pool: &mut Pool) {
        let layout = self.layout;
        let note = self.body.note(format!("plane {index}: {} lanes", plane.elements.len()));
        let indices = shuffle(layout, plane, pool);
        let indices = self.constants.operand(&mut self.body, indices);
        let mut vector = self.body.op(
            Code::VEX_Vpshufb_ymm_ymm_ymmm256,
            RegClass::Vector,
            vec![Operand::Reg(source), indices],
            (units(Units::SHUFFLE, indices), latency::SIMPLE),
            note,
        );
        if !whole_bytes(plane) {
            let mask = lanes(layout, plane, pool, |element| element.mask);
            let mask = self.constants.operand(&mut self.body, mask);
            let code = Code::VEX_Vpand_ymm_ymm_ymmm256;
            let cost = (units(Units::LOGIC, mask), latency::SIMPLE);
            vector =
                self.body.op(code, RegClass::Vector, vec![Operand::Reg(vector), mask], cost, note);
        }
        let constant = lanes(layout, plane, pool, |element| element.constant);
        let constant = self.constants.operand(&mut self.body, constant);
        let (maximum, equal) = match plane.lane_bytes {
            1 => (Code::VEX_Vpmaxub_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqb_ymm_ymm_ymmm256),
            2 => (Code::VEX_Vpmaxuw_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256),
            _ => (Code::VEX_Vpmaxud_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256),
        };
        let cost = (units(Units::COMPARE, constant), latency::SIMPLE);
        let other = match plane.comparison {
            Comparison::Equal => constant,
            // At least the constant is what is the greater of both.
            Comparison::AtLeast => {
                let operands = vec![Operand::Reg(vector), constant];
                Operand::Reg(self.body.op(maximum, RegClass::Vector, operands, cost, note))
            }
        };
        let operands = vec![Operand::Reg(vector), other];
        let agrees = self.body.op(equal, RegClass::Vector, operands, cost, note);
        let bits = self.body.op(
            Code::VEX_Vpmovmskb_r32_ymm,
            RegClass::General,
            vec![Operand::Reg(agrees)],
            (Units::PORT_0, latency::CROSSING),
            note,
        );
        let address = self.signature(index, 0);
        self.body.store(Code::Mov_rm32_r32, address, bits, Units::STORE, note);
    }

    fn lookup_ymm(&mut self, plane: usize, lookup: &Lookup, table: &(SetTable, i32), id: PoolId) {
        let note = self.body.note(format!("byte {} in set {}", lookup.field.offset, lookup.set.0));
        for packet in 0..self.layout.packets as usize {
            let (raw, bucket) = self.bucket(lookup, table, id, self.offsets[packet], note);
            let moved = self.body.op(
                Code::VEX_Vmovd_xmm_rm32,
                RegClass::Vector,
                vec![Operand::Reg(raw)],
                (Units::PORT_5, latency::CROSSING),
                note,
            );
            let spread = self.body.op(
                Code::VEX_Vpbroadcastd_ymm_xmmm32,
                RegClass::Vector,
                vec![Operand::Reg(moved)],
                (Units::PORT_5, latency::CROSSING),
                note,
            );
            let found = self.body.op(
                Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
                RegClass::Vector,
                vec![Operand::Reg(spread), Operand::Memory(bucket)],
                (Units::COMPARE.with_load(), latency::SIMPLE),
                note,
            );
            let bits = self.body.op(
                Code::VEX_Vmovmskps_r32_ymm,
                RegClass::General,
                vec![Operand::Reg(found)],
                (Units::PORT_0, latency::CROSSING),
                note,
            );
            let store =
                if self.layout.bits == 16 { Code::Mov_rm16_r16 } else { Code::Mov_rm32_r32 };
            let address = self.signature(plane, packet);
            self.body.store(store, address, bits, Units::STORE, note);
        }
    }
}

/// `units`, and a load if the operand is memory.
pub(super) fn units(units: Units, operand: Operand) -> Units {
    if matches!(operand, Operand::Memory(_)) { units.with_load() } else { units }
}
