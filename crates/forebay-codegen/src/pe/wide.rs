//! Shared parts of loops with opmask registers.

use iced_x86::Code;

use super::algebra::Accepted;
use super::constants::{Constants, repeated};
use super::packets::entry;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Operand, Reg, RegClass};

/// See [`super::algebra::Masks::CHAIN`]. A comparison under a mask has its result some cycles after the mask.
/// On a Zen 4 core (measured on no other) the 14 reserved networks take 3.92 ns a packet as one chain,
/// and 2.68, 2.64, 2.65, 2.72 and 2.87 in parts of 2, 3, 4, 5 and 8; with parts of 2 another filter
/// loses a seventh, with 4 none. Sets in parts gained nothing more, and 8 ports lost a twentieth.
pub(super) const CHAIN: usize = 4;

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

    pub(super) fn note(&mut self, text: &str) {
        self.note = self.body.note(text);
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

    /// A whole vector from memory.
    pub(super) fn load(&mut self, address: Address) -> Reg {
        let code = Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512;
        let memory = vec![Operand::Memory(address)];
        self.op(code, RegClass::Vector, memory, (Units::LOAD, 0), None)
    }

    /// A vector that repeats `element`, as an operand.
    pub(super) fn repeated(&mut self, element: &[u8]) -> Operand {
        let id = repeated(self.pool, element, 64);
        self.constants.operand(&mut self.body, id)
    }

    /// A vector that repeats `number` in 32-bit lanes, as an operand.
    pub(super) fn number(&mut self, number: u32) -> Operand {
        self.repeated(&number.to_le_bytes())
    }

    /// A comparison or test into an opmask register.
    pub(super) fn compare(
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

    pub(super) fn logic(&mut self, code: Code, a: Reg, b: Reg) -> Reg {
        let operands = vec![Operand::Reg(a), Operand::Reg(b)];
        self.op(code, RegClass::Mask, operands, (Units::PORT_0, latency::SIMPLE), None)
    }

    pub(super) fn not(&mut self, a: Reg) -> Reg {
        let cost = (Units::PORT_0, latency::SIMPLE);
        self.op(Code::VEX_Knotd_kr_kr, RegClass::Mask, vec![Operand::Reg(a)], cost, None)
    }

    /// Stores the verdicts on `lanes` packets, 16 at a time.
    pub(super) fn verdicts(&mut self, outcome: Accepted, accept: u32, lanes: u32) {
        self.note("verdicts");
        let accept = if outcome == Accepted::Always(false) { 0 } else { accept };
        let kept = repeated(self.pool, &accept.to_le_bytes(), 64);
        let kept = self.constants.register(&mut self.body, kept);
        let mut mask = match outcome {
            Accepted::Always(_) => None,
            Accepted::Packets(mask) if mask.inverted => Some(self.not(mask.reg)),
            Accepted::Packets(mask) => Some(mask.reg),
        };
        for part in 0..lanes as i32 / 16 {
            if part > 0 {
                mask = mask.map(|mask| {
                    let operands = vec![Operand::Reg(mask), Operand::Immediate(16)];
                    let cost = (Units::PORT_5, latency::MASK_SHIFT);
                    self.op(Code::VEX_Kshiftrd_kr_kr_imm8, RegClass::Mask, operands, cost, None)
                });
            }
            let verdicts = match mask {
                None => kept,
                Some(_) => self.op(
                    Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512,
                    RegClass::Vector,
                    vec![Operand::Reg(kept)],
                    (Units::LOGIC_512, latency::SIMPLE),
                    mask,
                ),
            };
            let code = Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm;
            self.store(code, entry(Table::Verdict, 64 * part), verdicts, Units::STORE_512);
        }
    }

    /// Stores the mask of packets left to `list`.
    pub(super) fn leave(&mut self, packets: Reg, lanes: u32) {
        let address = Address {
            base: Base::Table(Table::Slow),
            index: Index::Packet(1),
            displacement: 0,
            broadcast: false,
        };
        let code = if lanes == 16 { Code::VEX_Kmovw_m16_kr } else { Code::VEX_Kmovd_m32_kr };
        self.store(code, address, packets, Units::STORE);
    }
}
