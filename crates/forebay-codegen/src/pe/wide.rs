//! Shared parts of loops with opmask registers.

use iced_x86::Code;

use super::algebra::{Accepted, Logic, Mask};
use super::constants::{Constants, repeated};
use super::packets::entry;
use super::vectors::{Kind, LaneComparison, Operation, Vectors};
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Operand, Reg, RegClass};

/// A loop under construction.
pub(super) struct Wide<'a> {
    pub(super) body: LoopBody,
    pub(super) constants: Constants,
    pub(super) pool: &'a mut Pool,
    pub(super) note: u32,
}

/// `units`, plus a load if the operand is memory.
pub(super) fn loads(units: Units, operand: Operand) -> Units {
    if matches!(operand, Operand::Memory(_)) { units.with_load() } else { units }
}

impl<'a> Wide<'a> {
    /// A loop that keeps `constants` of its constants in registers.
    pub(super) fn new(name: &'static str, step: u32, constants: usize, pool: &'a mut Pool) -> Self {
        let constants = Constants::new(Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, constants);
        Self { body: LoopBody::new(name, step), constants, pool, note: 0 }
    }

    pub(super) fn op(
        &mut self,
        code: Code,
        class: RegClass,
        operands: Vec<Operand>,
        cost: (Units, u8),
        mask: Option<Reg>,
    ) -> Reg {
        let dest = self.body.op(code, class, operands, cost, self.note);
        if let Some(op) = self.body.ops.last_mut() {
            op.mask = mask;
        }
        dest
    }

    pub(super) fn store(&mut self, code: Code, address: Address, reg: Reg, units: Units) {
        self.body.store(code, address, reg, units, self.note);
    }

    /// A comparison or test into an opmask register.
    pub(super) fn test(
        &mut self,
        code: Code,
        (left, right): (Reg, Operand),
        kind: Option<i32>,
        under: Option<Reg>,
    ) -> Reg {
        let cost = (loads(Units::PORT_5, right), latency::CROSSING);
        let operands = [Some(Operand::Reg(left)), Some(right), kind.map(Operand::Immediate)];
        let operands = operands.into_iter().flatten().collect();
        self.op(code, RegClass::Mask, operands, cost, under)
    }

    fn logic(&mut self, code: Code, a: Reg, b: Reg) -> Reg {
        let operands = vec![Operand::Reg(a), Operand::Reg(b)];
        self.op(code, RegClass::Mask, operands, (Units::PORT_0, latency::SIMPLE), None)
    }
}

impl Logic for Wide<'_> {
    /// A comparison under a mask has its result some cycles after the mask. On a Zen 4 core (measured on no
    /// other) the 14 reserved networks take 3.92 ns a packet as one chain, and 2.68, 2.64, 2.65, 2.72
    /// and 2.87 in parts of 2, 3, 4, 5 and 8; with parts of 2 another filter loses a seventh, with 4 none.
    /// Sets in parts gained nothing more, and 8 ports lost a twentieth.
    const CHAIN: usize = 4;
    const PREDICATED: bool = true;

    fn and(&mut self, a: Reg, b: Reg) -> Reg {
        self.logic(Code::VEX_Kandd_kr_kr_kr, a, b)
    }

    fn and_not(&mut self, a: Reg, b: Reg) -> Reg {
        self.logic(Code::VEX_Kandnd_kr_kr_kr, a, b)
    }

    fn or(&mut self, a: Reg, b: Reg) -> Reg {
        self.logic(Code::VEX_Kord_kr_kr_kr, a, b)
    }

    fn not(&mut self, a: Reg) -> Reg {
        let cost = (Units::PORT_0, latency::SIMPLE);
        self.op(Code::VEX_Knotd_kr_kr, RegClass::Mask, vec![Operand::Reg(a)], cost, None)
    }

    fn note(&mut self, text: &str) -> u32 {
        self.note = self.body.note(text);
        self.note
    }
}

/// Lanes of 32 bits.
impl Vectors for Wide<'_> {
    const LANES: u32 = 16;

    fn body(&mut self) -> &mut LoopBody {
        &mut self.body
    }

    fn finish(mut self) -> LoopBody {
        self.constants.settle(&mut self.body);
        self.body
    }

    fn load(&mut self, address: Address) -> Reg {
        let code = Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512;
        let memory = vec![Operand::Memory(address)];
        self.op(code, RegClass::Vector, memory, (Units::LOAD, 0), None)
    }

    fn load_small(&mut self, address: Address) -> Reg {
        self.load(address)
    }

    fn insert(&mut self, vector: Option<Reg>, from: Address, position: i32) -> Reg {
        let memory = Operand::Memory(from);
        let Some(vector) = vector else {
            let code = Code::EVEX_Vmovdqu64_xmm_k1z_xmmm128;
            return self.op(code, RegClass::Vector, vec![memory], (Units::LOAD, 0), None);
        };
        let operands = vec![Operand::Reg(vector), memory, Operand::Immediate(position)];
        let cost = (Units::LOGIC_512.with_load(), latency::SIMPLE);
        let code = Code::EVEX_Vinserti32x4_zmm_k1z_zmm_xmmm128_imm8;
        self.op(code, RegClass::Vector, operands, cost, None)
    }

    fn instruction(
        &mut self,
        [code, _]: [Code; 2],
        class: RegClass,
        operands: Vec<Operand>,
        cost: (Units, u8),
    ) -> Reg {
        self.op(code, class, operands, cost, None)
    }

    fn shuffle(&mut self, a: Reg, b: Reg, lanes: u32) -> Reg {
        let code = Code::EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8;
        let operands = vec![Operand::Reg(a), Operand::Reg(b), Operand::Immediate(lanes as i32)];
        self.op(code, RegClass::Vector, operands, (Units::PORT_5, latency::SIMPLE), None)
    }

    fn operation(&mut self, operation: Operation, a: Reg, b: Operand) -> Reg {
        let units = match operation.kind {
            Kind::Logic => Units::LOGIC_512,
            Kind::Multiply => Units::PORT_0,
            Kind::Shuffle => Units::PORT_5,
        };
        let cost = (loads(units, b), latency::SIMPLE);
        self.op(operation.wide, RegClass::Vector, vec![Operand::Reg(a), b], cost, None)
    }

    fn repeated(&mut self, element: &[u8]) -> Operand {
        let id = repeated(self.pool, element, 64);
        self.constants.operand(id)
    }

    fn repeated_in_register(&mut self, element: &[u8]) -> Reg {
        let id = repeated(self.pool, element, 64);
        self.constants.register(&mut self.body, id)
    }

    fn compare(
        &mut self,
        comparison: LaneComparison,
        operands: (Reg, Operand),
        holds: bool,
        under: Option<Reg>,
    ) -> Mask {
        // The kinds of `vpcmpud`: equal, less, at most, and their negations.
        let kind = match (comparison, holds) {
            (LaneComparison::Equal, true) => 0,
            (LaneComparison::AtLeast, false) => 1,
            (LaneComparison::AtMost, true) => 2,
            (LaneComparison::Equal, false) => 4,
            (LaneComparison::AtLeast, true) => 5,
            (LaneComparison::AtMost, false) => 6,
        };
        let code = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        Mask::plain(self.test(code, operands, Some(kind), under))
    }

    fn small_above(&mut self, operands: (Reg, Operand), holds: bool, under: Option<Reg>) -> Mask {
        self.compare(LaneComparison::AtMost, operands, !holds, under)
    }

    fn any_bit(&mut self, lanes: Reg, bits: Operand, any: bool, under: Option<Reg>) -> Mask {
        let code = if any {
            Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32
        } else {
            Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32
        };
        Mask::plain(self.test(code, (lanes, bits), None, under))
    }

    fn choice(&mut self, mask: Reg, then: Reg, otherwise: Reg) -> Reg {
        let operands = vec![Operand::Reg(otherwise), Operand::Reg(then)];
        let code = Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32;
        let cost = (Units::LOGIC_512, latency::SIMPLE);
        self.op(code, RegClass::Vector, operands, cost, Some(mask))
    }

    fn only(&mut self, mask: Mask, vector: Operand) -> Reg {
        let mask = if mask.inverted { self.not(mask.reg) } else { mask.reg };
        let code = Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512;
        let cost = (loads(Units::LOGIC_512, vector), latency::SIMPLE);
        self.op(code, RegClass::Vector, vec![vector], cost, Some(mask))
    }

    fn halves(&mut self, lanes: Reg, constants: &[u16]) -> Reg {
        let mut none = None;
        for constant in constants {
            let constant = self.repeated(&constant.to_le_bytes());
            let differs = Some(4);
            let code = Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8;
            none = Some(self.test(code, (lanes, constant), differs, none));
        }
        let Some(none) = none else { return lanes };
        let cost = (Units::PORT_0, latency::CROSSING);
        self.op(Code::EVEX_Vpmovm2w_zmm_kr, RegClass::Vector, vec![Operand::Reg(none)], cost, None)
    }

    fn half(&mut self, found: Reg, high: bool, holds: bool, under: Option<Reg>) -> Mask {
        // The vector has the halves that were not found.
        let half = self.number(if high { 0xffff_0000 } else { 0xffff });
        self.any_bit(found, half, !holds, under)
    }

    fn verdicts(&mut self, outcome: Accepted, accept: u32) {
        self.note("verdicts");
        let accept = if outcome == Accepted::Always(false) { 0 } else { accept };
        let kept = self.number_in_register(accept);
        let mut mask = match outcome {
            Accepted::Always(_) => None,
            Accepted::Packets(mask) if mask.inverted => Some(self.not(mask.reg)),
            Accepted::Packets(mask) => Some(mask.reg),
        };
        for part in 0..self.body.step as i32 / 16 {
            if part > 0 {
                mask = mask.map(|mask| {
                    let operands = vec![Operand::Reg(mask), Operand::Immediate(16)];
                    let cost = (Units::PORT_5, latency::MASK_SHIFT);
                    self.op(Code::VEX_Kshiftrd_kr_kr_imm8, RegClass::Mask, operands, cost, None)
                });
            }
            let verdicts =
                mask.map_or(kept, |mask| self.only(Mask::plain(mask), Operand::Reg(kept)));
            let code = Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm;
            self.store(code, entry(Table::Verdict, 64 * part), verdicts, Units::STORE_512);
        }
    }

    fn leave(&mut self, packets: Reg) {
        let address = Address {
            base: Base::Table(Table::Slow),
            index: Index::Packet(1),
            displacement: 0,
            broadcast: false,
        };
        let code =
            if self.body.step == 16 { Code::VEX_Kmovw_m16_kr } else { Code::VEX_Kmovd_m32_kr };
        self.store(code, address, packets, Units::STORE);
    }
}
