//! The decision loop with AVX2: from the signatures of 8 or 16 packets to their
//! verdicts.
//!
//! A mask is a vector with all ones or zeros in each packet's lane. A signature
//! has a bit set where a predicate holds, so a conjunction holds where all
//! relevant bits are set.

use iced_x86::Code;

use super::algebra::{Accepted, Mask, Masks, Test, evaluate, literals, tests};
use super::constants::{Constants, repeated};
use super::decision::Decision;
use super::layout::Layout;
use super::wide::loads;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Operand, PoolId, Reg, RegClass};

struct Builder<'a> {
    body: LoopBody,
    constants: Constants,
    pool: &'a mut Pool,
    layout: &'a Layout,
    planes: Vec<Option<Reg>>,
    captured: Option<Reg>,
    wire: Option<Reg>,
    note: u32,
}

/// The decision loop.
pub(super) fn body(decision: &Decision, layout: &Layout, pool: &mut Pool) -> LoopBody {
    let mut builder = Builder {
        body: LoopBody::new("decision", 256 / layout.bits),
        constants: Constants::new(Code::VEX_Vmovdqu_ymm_ymmm256, 3),
        pool,
        layout,
        planes: vec![None; layout.planes.len() + layout.lookups.len()],
        captured: None,
        wire: None,
        note: 0,
    };
    let outcome = evaluate(decision, |node| literals(&node.literals, layout), &mut builder);
    builder.verdicts(outcome, decision.accept);
    builder.leaves(decision);
    builder.body
}

impl Builder<'_> {
    fn op(
        &mut self,
        code: Code,
        class: RegClass,
        operands: Vec<Operand>,
        cost: (Units, u8),
    ) -> Reg {
        self.body.op(code, class, operands, cost, self.note)
    }

    /// Vector logic or arithmetic of two operands.
    fn vector(&mut self, code: Code, units_of: Units, a: Reg, b: Operand) -> Reg {
        let cost = (loads(units_of, b), latency::SIMPLE);
        self.op(code, RegClass::Vector, vec![Operand::Reg(a), b], cost)
    }

    fn store(&mut self, code: Code, address: Address, reg: Reg) {
        self.body.store(code, address, reg, Units::STORE, self.note);
    }

    fn narrow(&self) -> bool {
        self.layout.bits == 16
    }

    /// A constant that repeats `number` in each lane.
    fn lanes(&mut self, number: u32) -> PoolId {
        let bytes = number.to_le_bytes();
        let width = self.layout.bits as usize / 8;
        repeated(self.pool, &bytes[..width], 32)
    }

    fn equal(&mut self, a: Reg, b: Operand) -> Reg {
        let code = if self.narrow() {
            Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256
        } else {
            Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256
        };
        self.vector(code, Units::COMPARE, a, b)
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
        let code = Code::VEX_Vmovdqu_ymm_ymmm256;
        let memory = vec![Operand::Memory(address)];
        let reg = self.op(code, RegClass::Vector, memory, (Units::LOAD, 0));
        self.planes[plane] = Some(reg);
        reg
    }

    /// Lengths of `table` in the lanes; 16-bit lanes hold at most 65,535.
    fn lengths(&mut self, table: Table) -> Reg {
        let address = |displacement: i32| {
            Operand::Memory(Address {
                base: Base::Table(table),
                index: Index::Packet(4),
                displacement,
                broadcast: false,
            })
        };
        if !self.narrow() {
            let code = Code::VEX_Vmovdqu_ymm_ymmm256;
            return self.op(code, RegClass::Vector, vec![address(0)], (Units::LOAD, 0));
        }
        let most = repeated(self.pool, &0xffff_u32.to_le_bytes(), 32);
        let most = self.constants.register(&mut self.body, most);
        let minimum = Code::VEX_Vpminud_ymm_ymm_ymmm256;
        let low = self.vector(minimum, Units::COMPARE, most, address(0));
        let high = self.vector(minimum, Units::COMPARE, most, address(32));
        let code = Code::VEX_Vpackusdw_ymm_ymm_ymmm256;
        let packed = self.vector(code, Units::SHUFFLE, low, Operand::Reg(high));
        // Packing works on pairs of 128-bit lanes: exchange the middle
        // quarters.
        const ORDER: i32 = 0b11_01_10_00;
        self.op(
            Code::VEX_Vpermq_ymm_ymmm256_imm8,
            RegClass::Vector,
            vec![Operand::Reg(packed), Operand::Immediate(ORDER)],
            (Units::PORT_5, latency::CROSSING),
        )
    }

    fn at_least(&mut self, lengths: Reg, bytes: u32) -> Reg {
        let id = self.lanes(bytes);
        let constant = self.constants.operand(&mut self.body, id);
        let code = if self.narrow() {
            Code::VEX_Vpmaxuw_ymm_ymm_ymmm256
        } else {
            Code::VEX_Vpmaxud_ymm_ymm_ymmm256
        };
        let greater = self.vector(code, Units::COMPARE, lengths, constant);
        self.equal(lengths, Operand::Reg(greater))
    }

    fn verdicts(&mut self, outcome: Accepted, accept: u32) {
        self.note("verdicts");
        let accept = if outcome == Accepted::Always(false) { 0 } else { accept };
        let kept = repeated(self.pool, &accept.to_le_bytes(), 32);
        let kept = self.constants.register(&mut self.body, kept);
        let parts = self.packets_as_words(outcome);
        for (index, part) in parts.into_iter().enumerate() {
            let verdicts = match part {
                None => kept,
                Some(mask) => {
                    let code = if mask.inverted {
                        Code::VEX_Vpandn_ymm_ymm_ymmm256
                    } else {
                        Code::VEX_Vpand_ymm_ymm_ymmm256
                    };
                    self.vector(code, Units::LOGIC, mask.reg, Operand::Reg(kept))
                }
            };
            let address = Address {
                base: Base::Table(Table::Verdict),
                index: Index::Packet(4),
                displacement: 32 * index as i32,
                broadcast: false,
            };
            self.store(Code::VEX_Vmovdqu_ymmm256_ymm, address, verdicts);
        }
    }

    /// The outcome in 32-bit lanes, eight packets after another; `None` where
    /// it is the same for all.
    fn packets_as_words(&mut self, outcome: Accepted) -> Vec<Option<Mask>> {
        let halves = if self.narrow() { 2 } else { 1 };
        let Accepted::Packets(mask) = outcome else { return vec![None; halves] };
        if !self.narrow() {
            return vec![Some(mask)];
        }
        let upper = self.upper_half(mask.reg);
        [mask.reg, upper]
            .map(|half| {
                let code = Code::VEX_Vpmovsxwd_ymm_xmmm128;
                let cost = (Units::PORT_5, latency::CROSSING);
                let reg = self.op(code, RegClass::Vector, vec![Operand::Reg(half)], cost);
                Some(Mask { reg, inverted: mask.inverted })
            })
            .to_vec()
    }

    fn upper_half(&mut self, reg: Reg) -> Reg {
        self.op(
            Code::VEX_Vextracti128_xmmm128_ymm_imm8,
            RegClass::Vector,
            vec![Operand::Reg(reg), Operand::Immediate(1)],
            (Units::PORT_5, latency::CROSSING),
        )
    }

    fn leaves(&mut self, decision: &Decision) {
        let mut all: Option<Reg> = None;
        for leave in &decision.leaves {
            self.note("left to list");
            let mut under = None;
            for test in leave.guard.iter().flat_map(|guard| tests(&[*guard], self.layout)) {
                let guarded = self.test(test, true, under);
                under = Some(if guarded.inverted { self.not(guarded.reg) } else { guarded.reg });
            }
            let (atom, holds) = leave.literal;
            for test in tests(&[atom], self.layout) {
                let wrong = self.test(test, holds, under);
                let wrong = if wrong.inverted { self.not(wrong.reg) } else { wrong.reg };
                all = Some(match all {
                    Some(others) => self.or(others, wrong),
                    None => wrong,
                });
            }
        }
        let Some(reg) = all else { return };
        let (bits, store) = if self.narrow() {
            let upper = self.upper_half(reg);
            let code = Code::VEX_Vpacksswb_xmm_xmm_xmmm128;
            let packed = self.vector(code, Units::SHUFFLE, reg, Operand::Reg(upper));
            (self.sign_bits(Code::VEX_Vpmovmskb_r32_xmm, packed), Code::Mov_rm16_r16)
        } else {
            (self.sign_bits(Code::VEX_Vmovmskps_r32_ymm, reg), Code::Mov_rm8_r8)
        };
        let address = Address {
            base: Base::Table(Table::Slow),
            index: Index::Packet(1),
            displacement: 0,
            broadcast: false,
        };
        self.store(store, address, bits);
    }

    fn sign_bits(&mut self, code: Code, reg: Reg) -> Reg {
        let cost = (Units::PORT_0, latency::CROSSING);
        self.op(code, RegClass::General, vec![Operand::Reg(reg)], cost)
    }

    /// The mask of the lanes for which `test` holds, or its complement.
    fn lanes_of(&mut self, test: Test) -> Mask {
        match test {
            Test::Signature { plane, care } => {
                let signatures = self.plane(plane);
                let id = self.lanes(care);
                let care = self.constants.operand(&mut self.body, id);
                let code = Code::VEX_Vpand_ymm_ymm_ymmm256;
                let cared = self.vector(code, Units::LOGIC, signatures, care);
                Mask::plain(self.equal(cared, care))
            }
            // With AVX2, bits are set where predicates hold.
            Test::NoneOf { plane, care } => {
                let signatures = self.plane(plane);
                let id = self.lanes(care);
                let care = self.constants.operand(&mut self.body, id);
                let code = Code::VEX_Vpand_ymm_ymm_ymmm256;
                let cared = self.vector(code, Units::LOGIC, signatures, care);
                let id = self.lanes(0);
                let zero = self.constants.operand(&mut self.body, id);
                Mask::plain(self.equal(cared, zero))
            }
            Test::Found { plane } => {
                let signatures = self.plane(plane);
                let id = self.lanes(0);
                let zero = self.constants.operand(&mut self.body, id);
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
            Test::Lanes(_) => Mask::plain(self.body.reg(RegClass::Vector)),
            Test::WireEqual(bytes) => {
                let lengths = self.wire();
                let id = self.lanes(bytes);
                let constant = self.constants.operand(&mut self.body, id);
                Mask::plain(self.equal(lengths, constant))
            }
        }
    }

    fn wire(&mut self) -> Reg {
        let reg = self.wire.unwrap_or_else(|| self.lengths(Table::WireLen));
        *self.wire.insert(reg)
    }

    fn ones(&mut self) -> Operand {
        let id = self.lanes(u32::MAX);
        self.constants.operand(&mut self.body, id)
    }
}

impl Masks for Builder<'_> {
    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask {
        let mask = self.lanes_of(test);
        let plain = mask.inverted != holds;
        match (under, plain) {
            (None, _) => Mask { reg: mask.reg, inverted: !plain },
            (Some(under), true) => Mask::plain(self.and(mask.reg, under)),
            (Some(under), false) => Mask::plain(self.and_not(mask.reg, under)),
        }
    }

    fn and(&mut self, a: Reg, b: Reg) -> Reg {
        self.vector(Code::VEX_Vpand_ymm_ymm_ymmm256, Units::LOGIC, a, Operand::Reg(b))
    }

    fn and_not(&mut self, a: Reg, b: Reg) -> Reg {
        self.vector(Code::VEX_Vpandn_ymm_ymm_ymmm256, Units::LOGIC, a, Operand::Reg(b))
    }

    fn or(&mut self, a: Reg, b: Reg) -> Reg {
        self.vector(Code::VEX_Vpor_ymm_ymm_ymmm256, Units::LOGIC, a, Operand::Reg(b))
    }

    fn not(&mut self, a: Reg) -> Reg {
        let ones = self.ones();
        self.vector(Code::VEX_Vpxor_ymm_ymm_ymmm256, Units::LOGIC, a, ones)
    }

    fn note(&mut self, text: &str) {
        self.note = self.body.note(text);
    }
}
