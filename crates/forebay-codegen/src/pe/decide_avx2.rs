//! The decision loop with AVX2: from the signatures of 8 or 16 packets to their
//! verdicts.
//!
//! A mask is a vector with all ones or zeros in each packet's lane. A signature
//! has a bit set where a predicate holds, so a conjunction holds where all
//! relevant bits are set.

use iced_x86::Code;

use super::algebra::{Accepted, Logic, Mask, Masks, Test, evaluate, left, literals, tests};
use super::decision::Decision;
use super::layout::Layout;
use super::narrow::Narrow;
use super::packets::entry;
use super::vectors::Vectors;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Operand, Reg, RegClass};

/// Constants kept in registers.
const CONSTANTS: usize = 4;

struct Builder<'a> {
    narrow: Narrow<'a>,
    layout: &'a Layout,
    planes: Vec<Option<Reg>>,
    captured: Option<Reg>,
    wire: Option<Reg>,
}

/// The decision loop.
pub(super) fn body(decision: &Decision, layout: &Layout, pool: &mut Pool) -> LoopBody {
    let mut builder = Builder {
        narrow: Narrow::new("decision", 256 / layout.bits, CONSTANTS, pool),
        layout,
        planes: vec![None; layout.planes.len() + layout.lookups.len()],
        captured: None,
        wire: None,
    };
    let outcome = evaluate(decision, |node| literals(&node.literals, layout), &mut builder);
    builder.verdicts(outcome, decision.accept);
    if let Some(left) = left(decision, |atom| tests(&[atom], layout), &mut builder) {
        builder.leave(left);
    }
    builder.narrow.finish()
}

impl Builder<'_> {
    /// Whether lanes have 16 bits, a packet each, and not 32.
    fn short(&self) -> bool {
        self.layout.bits == 16
    }

    /// A constant that repeats `number` in each lane.
    fn lanes(&mut self, number: u32) -> Operand {
        self.narrow.repeated(&number.to_le_bytes()[..self.layout.bits as usize / 8])
    }

    fn equal(&mut self, a: Reg, b: Operand) -> Reg {
        let code = if self.short() {
            Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256
        } else {
            Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256
        };
        self.narrow.vector(code, Units::COMPARE, a, b)
    }

    fn plane(&mut self, plane: usize) -> Reg {
        if let Some(reg) = self.planes[plane] {
            return reg;
        }
        let address = Address {
            base: Base::Table(Table::Scratch),
            index: Index::Packet((self.layout.bits / 8) as u8),
            displacement: (plane * self.layout.plane_bytes()) as i32,
            broadcast: false,
        };
        let reg = self.narrow.load(address);
        self.planes[plane] = Some(reg);
        reg
    }

    /// Lengths of `table` in the lanes; 16-bit lanes hold at most 65,535.
    fn lengths(&mut self, table: Table) -> Reg {
        if !self.short() {
            return self.narrow.load(entry(table, 0));
        }
        let most = self.narrow.number_in_register(0xffff);
        let minimum = Code::VEX_Vpminud_ymm_ymm_ymmm256;
        let mut half = |displacement| {
            let lengths = Operand::Memory(entry(table, displacement));
            self.narrow.vector(minimum, Units::COMPARE, most, lengths)
        };
        let (low, high) = (half(0), half(32));
        let code = Code::VEX_Vpackusdw_ymm_ymm_ymmm256;
        let packed = self.narrow.vector(code, Units::SHUFFLE, low, Operand::Reg(high));
        // Packing works on pairs of 128-bit lanes: exchange the middle
        // quarters.
        const ORDER: i32 = 0b11_01_10_00;
        self.narrow.op(
            Code::VEX_Vpermq_ymm_ymmm256_imm8,
            RegClass::Vector,
            vec![Operand::Reg(packed), Operand::Immediate(ORDER)],
            (Units::PORT_5, latency::CROSSING),
        )
    }

    fn at_least(&mut self, lengths: Reg, bytes: u32) -> Reg {
        let constant = self.lanes(bytes);
        let code = if self.short() {
            Code::VEX_Vpmaxuw_ymm_ymm_ymmm256
        } else {
            Code::VEX_Vpmaxud_ymm_ymm_ymmm256
        };
        let greater = self.narrow.vector(code, Units::COMPARE, lengths, constant);
        self.equal(lengths, Operand::Reg(greater))
    }

    fn verdicts(&mut self, outcome: Accepted, accept: u32) {
        if !self.short() {
            return self.narrow.verdicts(outcome, accept);
        }
        self.narrow.note("verdicts");
        let halves = match outcome {
            Accepted::Always(_) => [outcome; 2],
            Accepted::Packets(mask) => {
                let upper = self.upper_half(mask.reg);
                [mask.reg, upper].map(|reg| Accepted::Packets(Mask { reg, ..mask }))
            }
        };
        for (half, packet) in halves.into_iter().zip([0, 8]) {
            let eight = match half {
                Accepted::Always(_) => half,
                Accepted::Packets(mask) => {
                    // From 16 to 32 bits.
                    let code = Code::VEX_Vpmovsxwd_ymm_xmmm128;
                    let cost = (Units::PORT_5, latency::CROSSING);
                    let words = vec![Operand::Reg(mask.reg)];
                    let reg = self.narrow.op(code, RegClass::Vector, words, cost);
                    Accepted::Packets(Mask { reg, ..mask })
                }
            };
            self.narrow.eight_verdicts(eight, accept, packet);
        }
    }

    fn upper_half(&mut self, reg: Reg) -> Reg {
        self.narrow.op(
            Code::VEX_Vextracti128_xmmm128_ymm_imm8,
            RegClass::Vector,
            vec![Operand::Reg(reg), Operand::Immediate(1)],
            (Units::PORT_5, latency::CROSSING),
        )
    }

    fn leave(&mut self, reg: Reg) {
        if !self.short() {
            return self.narrow.leave(reg);
        }
        let upper = Operand::Reg(self.upper_half(reg));
        let code = Code::VEX_Vpacksswb_xmm_xmm_xmmm128;
        let packed = self.narrow.vector(code, Units::SHUFFLE, reg, upper);
        let bits = self.narrow.sign_bits(Code::VEX_Vpmovmskb_r32_xmm, packed);
        self.narrow.leave_bits(Code::Mov_rm16_r16, bits);
    }

    /// The mask of the lanes for which `test` holds, or its complement.
    fn lanes_of(&mut self, test: Test) -> Mask {
        match test {
            Test::Signature { plane, care } => {
                let signatures = self.plane(plane);
                let care = self.lanes(care);
                let code = Code::VEX_Vpand_ymm_ymm_ymmm256;
                let cared = self.narrow.vector(code, Units::LOGIC, signatures, care);
                Mask::plain(self.equal(cared, care))
            }
            // With AVX2, bits are set where predicates hold.
            Test::NoneOf { plane, care } => {
                let signatures = self.plane(plane);
                let care = self.lanes(care);
                let code = Code::VEX_Vpand_ymm_ymm_ymmm256;
                let cared = self.narrow.vector(code, Units::LOGIC, signatures, care);
                let zero = self.lanes(0);
                Mask::plain(self.equal(cared, zero))
            }
            Test::Found { plane } => {
                let signatures = self.plane(plane);
                let zero = self.lanes(0);
                Mask { reg: self.equal(signatures, zero), inverted: true }
            }
            Test::Captured(bytes) => {
                let lengths = self.captured.unwrap_or_else(|| self.lengths(Table::CapLen));
                self.captured = Some(lengths);
                Mask::plain(self.at_least(lengths, bytes))
            }
            Test::WireAtLeast(bytes) => {
                let lengths = self.wire();
                Mask::plain(self.at_least(lengths, bytes))
            }
            // Layouts hold no such atom. A register that is never set makes the
            // encoder fail, so no code results.
            Test::Lanes(_) => Mask::plain(self.narrow.body.reg(RegClass::Vector)),
            Test::WireEqual(bytes) => {
                let lengths = self.wire();
                let constant = self.lanes(bytes);
                Mask::plain(self.equal(lengths, constant))
            }
        }
    }

    fn wire(&mut self) -> Reg {
        let reg = self.wire.unwrap_or_else(|| self.lengths(Table::WireLen));
        *self.wire.insert(reg)
    }
}

impl<'a> Masks for Builder<'a> {
    type Logic = Narrow<'a>;

    fn logic(&mut self) -> &mut Narrow<'a> {
        &mut self.narrow
    }

    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask {
        let mask = self.lanes_of(test);
        self.narrow.among(mask.reg, mask.inverted != holds, under)
    }
}
