//! Shared parts of loops with AVX2, where a mask is a vector with all ones or zeros in each lane.

use iced_x86::Code;

use super::algebra::{Accepted, Logic, Mask};
use super::constants::{Constants, repeated};
use super::packets::entry;
use super::vectors::{Kind, LaneComparison, Operation, Vectors};
use super::wide::loads;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Operand, Reg, RegClass};

/// A loop under construction.
pub(super) struct Narrow<'a> {
    pub(super) body: LoopBody,
    pub(super) constants: Constants,
    pub(super) pool: &'a mut Pool,
    note: u32,
}

impl<'a> Narrow<'a> {
    /// A loop that keeps `constants` of its constants in registers.
    pub(super) fn new(name: &'static str, step: u32, constants: usize, pool: &'a mut Pool) -> Self {
        let constants = Constants::new(Code::VEX_Vmovdqu_ymm_ymmm256, constants);
        Self { body: LoopBody::new(name, step), constants, pool, note: 0 }
    }

    pub(super) fn op(
        &mut self,
        code: Code,
        class: RegClass,
        operands: Vec<Operand>,
        cost: (Units, u8),
    ) -> Reg {
        self.body.op(code, class, operands, cost, self.note)
    }

    /// An operation on two vectors.
    pub(super) fn vector(&mut self, code: Code, units: Units, a: Reg, b: Operand) -> Reg {
        let cost = (loads(units, b), latency::SIMPLE);
        self.op(code, RegClass::Vector, vec![Operand::Reg(a), b], cost)
    }

    pub(super) fn store(&mut self, code: Code, address: Address, reg: Reg) {
        self.body.store(code, address, reg, Units::STORE, self.note);
    }

    /// Bits of a vector or its bytes, as `code` collects them.
    pub(super) fn sign_bits(&mut self, code: Code, reg: Reg) -> Reg {
        let cost = (Units::PORT_0, latency::CROSSING);
        self.op(code, RegClass::General, vec![Operand::Reg(reg)], cost)
    }

    /// Stores the verdicts of the eight packets from the `packet`th of the iteration on.
    pub(super) fn eight_verdicts(&mut self, outcome: Accepted, accept: u32, packet: i32) {
        let accept = if outcome == Accepted::Always(false) { 0 } else { accept };
        let kept = self.number_in_register(accept);
        let verdicts = match outcome {
            Accepted::Always(_) => kept,
            Accepted::Packets(mask) => self.only(mask, Operand::Reg(kept)),
        };
        self.store(Code::VEX_Vmovdqu_ymmm256_ymm, entry(Table::Verdict, 4 * packet), verdicts);
    }

    /// Stores the bits of packets left to `list`.
    pub(super) fn leave_bits(&mut self, store: Code, bits: Reg) {
        let address = Address {
            base: Base::Table(Table::Slow),
            index: Index::Packet(1),
            displacement: 0,
            broadcast: false,
        };
        self.store(store, address, bits);
    }
}

impl Logic for Narrow<'_> {
    const PREDICATED: bool = false;

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
        let ones = self.number(u32::MAX);
        self.vector(Code::VEX_Vpxor_ymm_ymm_ymmm256, Units::LOGIC, a, ones)
    }

    /// Masks are vectors, and selected like those.
    fn select(&mut self, mask: Reg, set: Reg, clear: Reg) -> Reg {
        self.choice(mask, set, clear)
    }

    fn note(&mut self, text: &str) -> u32 {
        self.note = self.body.note(text);
        self.note
    }
}

/// Lanes of 32 bits.
impl Vectors for Narrow<'_> {
    const LANES: u32 = 8;

    fn body(&mut self) -> &mut LoopBody {
        &mut self.body
    }

    fn finish(mut self) -> LoopBody {
        self.constants.settle(&mut self.body);
        self.body
    }

    fn load(&mut self, address: Address) -> Reg {
        let code = Code::VEX_Vmovdqu_ymm_ymmm256;
        self.op(code, RegClass::Vector, vec![Operand::Memory(address)], (Units::LOAD, 0))
    }

    fn load_small(&mut self, address: Address) -> Reg {
        let most = self.number_in_register(i32::MAX as u32);
        let code = Code::VEX_Vpminud_ymm_ymm_ymmm256;
        self.vector(code, Units::COMPARE, most, Operand::Memory(address))
    }

    fn insert(&mut self, vector: Option<Reg>, from: Address, position: i32) -> Reg {
        let memory = Operand::Memory(from);
        let Some(vector) = vector else {
            let code = Code::VEX_Vmovdqu_xmm_xmmm128;
            return self.op(code, RegClass::Vector, vec![memory], (Units::LOAD, 0));
        };
        let operands = vec![Operand::Reg(vector), memory, Operand::Immediate(position)];
        let cost = (Units::LOGIC.with_load(), latency::SIMPLE);
        self.op(Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8, RegClass::Vector, operands, cost)
    }

    fn instruction(
        &mut self,
        [_, code]: [Code; 2],
        class: RegClass,
        operands: Vec<Operand>,
        cost: (Units, u8),
    ) -> Reg {
        self.op(code, class, operands, cost)
    }

    fn shuffle(&mut self, a: Reg, b: Reg, lanes: u32) -> Reg {
        let operands = vec![Operand::Reg(a), Operand::Reg(b), Operand::Immediate(lanes as i32)];
        let cost = (Units::SHUFFLE, latency::SIMPLE);
        self.op(Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, RegClass::Vector, operands, cost)
    }

    fn operation(&mut self, operation: Operation, a: Reg, b: Operand) -> Reg {
        let units = match operation.kind {
            Kind::Logic => Units::LOGIC,
            Kind::Multiply => Units::COMPARE,
            Kind::Shuffle => Units::SHUFFLE,
        };
        self.vector(operation.narrow, units, a, b)
    }

    fn repeated(&mut self, element: &[u8]) -> Operand {
        let id = repeated(self.pool, element, 32);
        self.constants.operand(id)
    }

    fn repeated_in_register(&mut self, element: &[u8]) -> Reg {
        let id = repeated(self.pool, element, 32);
        self.constants.register(&mut self.body, id)
    }

    fn compare(
        &mut self,
        comparison: LaneComparison,
        (left, right): (Reg, Operand),
        holds: bool,
        under: Option<Reg>,
    ) -> Mask {
        // There is no comparison of unsigned numbers for order: `a >= b` where the greater one is `a`.
        let other = match comparison {
            LaneComparison::Equal => right,
            LaneComparison::AtLeast => {
                let code = Code::VEX_Vpmaxud_ymm_ymm_ymmm256;
                Operand::Reg(self.vector(code, Units::COMPARE, left, right))
            }
            LaneComparison::AtMost => {
                let code = Code::VEX_Vpminud_ymm_ymm_ymmm256;
                Operand::Reg(self.vector(code, Units::COMPARE, left, right))
            }
        };
        let code = Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256;
        let mask = self.vector(code, Units::COMPARE, left, other);
        self.among(mask, holds, under)
    }

    fn small_above(
        &mut self,
        (lanes, below): (Reg, Operand),
        holds: bool,
        under: Option<Reg>,
    ) -> Mask {
        // A comparison of signed numbers.
        let code = Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256;
        let mask = self.vector(code, Units::COMPARE, lanes, below);
        self.among(mask, holds, under)
    }

    fn any_bit(&mut self, lanes: Reg, bits: Operand, any: bool, under: Option<Reg>) -> Mask {
        let masked = self.vector(Code::VEX_Vpand_ymm_ymm_ymmm256, Units::LOGIC, lanes, bits);
        let zero = self.number(0);
        self.compare(LaneComparison::Equal, (masked, zero), !any, under)
    }

    fn choice(&mut self, mask: Reg, then: Reg, otherwise: Reg) -> Reg {
        let operands = [otherwise, then, mask].map(Operand::Reg).to_vec();
        let cost = (Units::SELECT, 2 * latency::SIMPLE);
        self.op(Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm, RegClass::Vector, operands, cost)
    }

    fn only(&mut self, mask: Mask, vector: Operand) -> Reg {
        let code = if mask.inverted {
            Code::VEX_Vpandn_ymm_ymm_ymmm256
        } else {
            Code::VEX_Vpand_ymm_ymm_ymmm256
        };
        self.vector(code, Units::LOGIC, mask.reg, vector)
    }

    fn halves(&mut self, lanes: Reg, constants: &[u16]) -> Reg {
        let mut found = None;
        for constant in constants {
            let constant = self.repeated(&constant.to_le_bytes());
            let code = Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256;
            let one = self.vector(code, Units::COMPARE, lanes, constant);
            found = Some(found.map_or(one, |others| self.or(others, one)));
        }
        found.unwrap_or(lanes)
    }

    fn half(&mut self, found: Reg, high: bool, holds: bool, under: Option<Reg>) -> Mask {
        let top = if high { found } else { self.shifted_up(found, 16) };
        let sign = vec![Operand::Reg(top), Operand::Immediate(31)];
        let cost = (Units::COMPARE, latency::SIMPLE);
        let mask = self.op(Code::VEX_Vpsrad_ymm_ymm_imm8, RegClass::Vector, sign, cost);
        self.among(mask, holds, under)
    }

    fn verdicts(&mut self, outcome: Accepted, accept: u32) {
        self.note("verdicts");
        self.eight_verdicts(outcome, accept, 0);
    }

    fn leave(&mut self, packets: Reg) {
        let bits = self.sign_bits(Code::VEX_Vmovmskps_r32_ymm, packets);
        self.leave_bits(Code::Mov_rm8_r8, bits);
    }
}
