//! The extraction loop's planes and lookups with AVX2.
//!
//! As with AVX-512, in vectors of 32 bytes. There are no opmask registers:
//! `vpcmpeqb` and its like produce a vector with ones where lanes match, and
//! `vpmovmskb` extracts a bit of each byte. Order is compared through the
//! unsigned maximum, since AVX2 has no unsigned comparison.

use iced_x86::Code;

use super::constants::{lanes, shuffle, whole_bytes};
use super::extract::Builder;
use super::layout::{Comparison, Lookup, Plane};
use super::wide::loads;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Operand, PoolId, RegClass};
use crate::tables::SetTable;

impl Builder<'_> {
    pub(super) fn plane_ymm(
        &mut self,
        index: usize,
        plane: &Plane,
        source: Operand,
        pool: &mut Pool,
    ) {
        let layout = self.layout;
        let note = self.body.note(format!("plane {index}: {} lanes", plane.elements.len()));
        let indices = shuffle(layout, plane, pool);
        let indices = self.constants.operand(indices);
        let mut vector = self.body.op(
            Code::VEX_Vpshufb_ymm_ymm_ymmm256,
            RegClass::Vector,
            vec![source, indices],
            (loads(Units::SHUFFLE, indices), latency::SIMPLE),
            note,
        );
        if !whole_bytes(plane) {
            let mask = lanes(layout, plane, pool, |element| element.mask);
            let mask = self.constants.operand(mask);
            let code = Code::VEX_Vpand_ymm_ymm_ymmm256;
            let cost = (loads(Units::LOGIC, mask), latency::SIMPLE);
            vector =
                self.body.op(code, RegClass::Vector, vec![Operand::Reg(vector), mask], cost, note);
        }
        let constant = lanes(layout, plane, pool, |element| element.constant);
        let constant = self.constants.operand(constant);
        let (maximum, equal) = match plane.lane_bytes {
            1 => (Code::VEX_Vpmaxub_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqb_ymm_ymm_ymmm256),
            2 => (Code::VEX_Vpmaxuw_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256),
            _ => (Code::VEX_Vpmaxud_ymm_ymm_ymmm256, Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256),
        };
        let cost = (loads(Units::COMPARE, constant), latency::SIMPLE);
        let other = match plane.comparison {
            Comparison::Equal => constant,
            // `x >= c` if and only if `max(x, c) == x`.
            Comparison::AtLeast => {
                let operands = vec![Operand::Reg(vector), constant];
                Operand::Reg(self.body.op(maximum, RegClass::Vector, operands, cost, note))
            }
        };
        let cost = (loads(Units::COMPARE, other), latency::SIMPLE);
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

    pub(super) fn lookup_ymm(
        &mut self,
        plane: usize,
        lookup: &Lookup,
        table: &(SetTable, i32),
        id: PoolId,
    ) {
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
