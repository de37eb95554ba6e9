//! The decision loop with AVX-512: from the signatures of 32 packets to their
//! verdicts.
//!
//! A signature has a bit set where a predicate does not hold, so a conjunction
//! holds where no relevant bit is set: `vptestnmw`, and `vptestmw` for its
//! negation. Both take an opmask, so testing under a mask takes no instruction
//! more. Lengths are saturated to 16 bits, to be compared in the same 32 lanes.

use iced_x86::Code;

use super::algebra::{Mask, Masks, Test, evaluate, left, literals, tests};
use super::decision::Decision;
use super::layout::Layout;
use super::packets::entry;
use super::vectors::Vectors;
use super::wide::{Wide, loads};
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Operand, Reg, RegClass};

/// Packets of a group.
const LANES: u32 = 32;

/// Constants kept in registers.
const CONSTANTS: usize = 12;

/// Kinds of comparison of `vpcmpuw`.
const EQUAL: i32 = 0;
const LESS: i32 = 1;
const NOT_EQUAL: i32 = 4;
const NOT_LESS: i32 = 5;

struct Builder<'a> {
    wide: Wide<'a>,
    layout: &'a Layout,
    planes: Vec<Option<Reg>>,
    captured: Option<Reg>,
    wire: Option<Reg>,
}

/// The decision loop.
pub(super) fn body(decision: &Decision, layout: &Layout, pool: &mut Pool) -> LoopBody {
    let mut builder = Builder {
        wide: Wide::new("decision", LANES, CONSTANTS, pool),
        layout,
        planes: vec![None; layout.planes.len() + layout.lookups.len()],
        captured: None,
        wire: None,
    };
    let outcome = evaluate(decision, |node| literals(&node.literals, layout), &mut builder);
    builder.wide.verdicts(outcome, decision.accept);
    if let Some(left) = left(decision, |atom| tests(&[atom], layout), &mut builder) {
        builder.wide.leave(left);
    }
    builder.wide.finish()
}

impl Builder<'_> {
    /// The signatures of `plane`, loaded on first use.
    fn plane(&mut self, plane: usize) -> Reg {
        if let Some(reg) = self.planes[plane] {
            return reg;
        }
        let address = Address {
            base: Base::Table(Table::Scratch),
            index: Index::Packet(2),
            displacement: (plane * self.layout.plane_bytes()) as i32,
            broadcast: false,
        };
        let reg = self.wide.load(address);
        self.planes[plane] = Some(reg);
        reg
    }

    /// 32 lengths of `table` as 16-bit lanes.
    fn lengths(&mut self, table: Table) -> Reg {
        const ORDER: [u64; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
        let wide = &mut self.wide;
        let most = wide.number_in_register(0xffff);
        let mut halves = [most; 2];
        for (half, displacement) in halves.iter_mut().zip([0, 64]) {
            let operands = vec![Operand::Reg(most), Operand::Memory(entry(table, displacement))];
            let code = Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32;
            let cost = (Units::LOGIC_512.with_load(), latency::SIMPLE);
            *half = wide.op(code, RegClass::Vector, operands, cost, None);
        }
        let packed = wide.op(
            Code::EVEX_Vpackusdw_zmm_k1z_zmm_zmmm512b32,
            RegClass::Vector,
            halves.map(Operand::Reg).to_vec(),
            (Units::PORT_5, latency::SIMPLE),
            None,
        );
        // `vpackusdw` packs pairs of 128-bit lanes; this restores the order.
        let order: Vec<u8> = ORDER.iter().flat_map(|index| index.to_le_bytes()).collect();
        let order = wide.pool.add(&order, 64);
        let order = wide.constants.register(&mut wide.body, order);
        wide.op(
            Code::EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64,
            RegClass::Vector,
            vec![Operand::Reg(order), Operand::Reg(packed)],
            (Units::PORT_5, latency::CROSSING),
            None,
        )
    }

    fn captured(&mut self) -> Reg {
        let reg = self.captured.unwrap_or_else(|| self.lengths(Table::CapLen));
        *self.captured.insert(reg)
    }

    fn wire(&mut self) -> Reg {
        let reg = self.wire.unwrap_or_else(|| self.lengths(Table::WireLen));
        *self.wire.insert(reg)
    }

    fn compare(&mut self, lengths: Reg, kind: i32, bytes: u32, under: Option<Reg>) -> Reg {
        let constant = self.wide.repeated(&(bytes as u16).to_le_bytes());
        let code = Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8;
        self.wide.test(code, (lengths, constant), Some(kind), under)
    }
}

impl<'a> Masks for Builder<'a> {
    type Logic = Wide<'a>;

    fn logic(&mut self) -> &mut Wide<'a> {
        &mut self.wide
    }

    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask {
        let reg = match test {
            Test::Signature { plane, care } => {
                let code = if holds {
                    Code::EVEX_Vptestnmw_kr_k1_zmm_zmmm512
                } else {
                    Code::EVEX_Vptestmw_kr_k1_zmm_zmmm512
                };
                let signatures = self.plane(plane);
                let care = self.wide.repeated(&(care as u16).to_le_bytes());
                self.wide.test(code, (signatures, care), None, under)
            }
            Test::NoneOf { plane, care } => {
                let signatures = self.plane(plane);
                let care = self.wide.repeated(&(care as u16).to_le_bytes());
                let cared = self.wide.op(
                    Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
                    RegClass::Vector,
                    vec![Operand::Reg(signatures), care],
                    (loads(Units::LOGIC_512, care), latency::SIMPLE),
                    None,
                );
                let kind = if holds { EQUAL } else { NOT_EQUAL };
                let code = Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8;
                self.wide.test(code, (cared, care), Some(kind), under)
            }
            Test::Found { plane } => {
                let code = if holds {
                    Code::EVEX_Vptestmw_kr_k1_zmm_zmmm512
                } else {
                    Code::EVEX_Vptestnmw_kr_k1_zmm_zmmm512
                };
                let found = self.plane(plane);
                self.wide.test(code, (found, Operand::Reg(found)), None, under)
            }
            // Layouts hold no such atom. A register that is never set makes the
            // encoder fail, so no code results.
            Test::Lanes(_) => self.wide.body.reg(RegClass::Mask),
            Test::Captured(bytes) => {
                let lengths = self.captured();
                self.compare(lengths, if holds { NOT_LESS } else { LESS }, bytes, under)
            }
            Test::WireAtLeast(bytes) => {
                let lengths = self.wire();
                self.compare(lengths, if holds { NOT_LESS } else { LESS }, bytes, under)
            }
            Test::WireEqual(bytes) => {
                let lengths = self.wire();
                self.compare(lengths, if holds { EQUAL } else { NOT_EQUAL }, bytes, under)
            }
        };
        Mask::plain(reg)
    }
}
