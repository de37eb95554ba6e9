//! Sample loops for tests: one written by hand, and random ones.

use iced_x86::Code;
use proptest::prelude::*;

use crate::convention::Table;
use crate::machine::{Units, latency};
use crate::mir::{
    Address, Base, Index, Invariant, InvariantSource, LoopBody, Op, Operand, PoolId, Reg, RegClass,
};

/// A loop under construction.
pub(crate) struct Sample {
    pub(crate) body: LoopBody,
}

impl Sample {
    pub(crate) fn new(step: u32) -> Self {
        let mut body = LoopBody::new("sample", step);
        body.note("what it is for");
        Self { body }
    }

    pub(crate) fn op(
        &mut self,
        code: Code,
        dest: Option<RegClass>,
        operands: Vec<Operand>,
        (units, latency): (Units, u8),
    ) -> Reg {
        let reg = dest.map(|class| self.body.reg(class));
        self.body.push(Op {
            code,
            dest: reg,
            tied: false,
            operands,
            mask: None,
            latency,
            units,
            note: 0,
            ahead: false,
        });
        reg.unwrap_or(Reg(u32::MAX))
    }

    pub(crate) fn last(&mut self) -> &mut Op {
        self.body.ops.last_mut().expect("an op was pushed")
    }

    pub(crate) fn vector_invariant(&mut self, pool: PoolId) -> Reg {
        let reg = self.body.reg(RegClass::Vector);
        let source = InvariantSource::Vector(Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, pool);
        self.body.invariants.push(Invariant { reg, source });
        reg
    }

    pub(crate) fn mask_invariant(&mut self, bits: u64) -> Reg {
        let reg = self.body.reg(RegClass::Mask);
        let source = InvariantSource::Mask(Code::VEX_Kmovq_kr_r64, bits);
        self.body.invariants.push(Invariant { reg, source });
        reg
    }
}

/// A table at the packet's number.
pub(crate) fn at_packet(table: Table, scale: u8, displacement: i32) -> Operand {
    let index = Index::Packet(scale);
    Operand::Memory(Address { base: Base::Table(table), index, displacement, broadcast: false })
}

/// Packet memory at an offset in a register.
pub(crate) fn in_packet(offset: Reg, displacement: i32) -> Operand {
    let index = Index::Reg(offset, 1);
    let base = Base::Table(Table::Base);
    Operand::Memory(Address { base, index, displacement, broadcast: false })
}

/// A constant.
pub(crate) fn in_pool(pool: u32, broadcast: bool) -> Operand {
    let base = Base::Pool(PoolId(pool));
    Operand::Memory(Address { base, index: Index::None, displacement: 0, broadcast })
}

/// An extraction loop of one packet an iteration, much as the compiler makes
/// them: header, shuffle, mask, comparison, store, and a prefetch.
pub(crate) fn extraction(planes: u32, lookahead: u32) -> LoopBody {
    let mut sample = Sample::new(1);
    sample.body.lookahead = lookahead;
    let filled = sample.mask_invariant(0xffff_ffff);
    let load = (Units::LOAD, 0);
    let offset = sample.op(
        Code::Mov_r32_rm32,
        Some(RegClass::General),
        vec![at_packet(Table::Offset, 4, 0)],
        load,
    );
    if lookahead > 0 {
        let later = sample.op(
            Code::Mov_r32_rm32,
            Some(RegClass::General),
            vec![at_packet(Table::Offset, 4, 4 * lookahead as i32)],
            load,
        );
        sample.last().ahead = true;
        sample.op(Code::Prefetcht0_m8, None, vec![in_packet(later, 12)], load);
        sample.last().ahead = true;
    }
    for plane in 0..planes {
        let shuffle = sample.vector_invariant(PoolId(0));
        let bytes = sample.op(
            Code::EVEX_Vpermb_zmm_k1z_zmm_zmmm512,
            Some(RegClass::Vector),
            vec![Operand::Reg(shuffle), in_packet(offset, 12)],
            (Units::PORT_5.with_load(), latency::CROSSING),
        );
        sample.last().mask = Some(filled);
        let masked = sample.op(
            Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
            Some(RegClass::Vector),
            vec![Operand::Reg(bytes), in_pool(0, false)],
            (Units::LOGIC_512.with_load(), latency::SIMPLE),
        );
        let differs = sample.op(
            Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
            Some(RegClass::Mask),
            vec![Operand::Reg(masked), in_pool(1, false), Operand::Immediate(4)],
            (Units::PORT_5.with_load(), latency::CROSSING),
        );
        sample.op(
            Code::VEX_Kmovw_m16_kr,
            None,
            vec![at_packet(Table::Scratch, 2, 512 * plane as i32), Operand::Reg(differs)],
            (Units::STORE, 0),
        );
    }
    sample.body
}

/// The source of a random op: its kind, which of the registers it reads, and a
/// number.
type Recipe = (u8, u16, u16, u8);

/// Random loops of up to `most` ops, all of which can be encoded.
pub(crate) fn random_body(most: usize) -> impl Strategy<Value = LoopBody> {
    let recipes = prop::collection::vec(any::<Recipe>(), 1..=most);
    let step = prop::sample::select(vec![1u32, 2, 4, 32]);
    (recipes, step, prop::sample::select(vec![0u32, 0, 3, 32])).prop_map(
        |(recipes, step, lookahead)| {
            let mut sample = Sample::new(step);
            sample.body.lookahead = lookahead;
            let vector = sample.vector_invariant(PoolId(0));
            let mask = sample.mask_invariant(0x5555);
            let mut known = Known { general: Vec::new(), vector: vec![vector], mask: vec![mask] };
            for recipe in recipes {
                known.add(&mut sample, recipe);
            }
            sample.body
        },
    )
}

/// Registers that further ops may read.
struct Known {
    general: Vec<Reg>,
    vector: Vec<Reg>,
    mask: Vec<Reg>,
}

fn pick(known: &[Reg], choice: u16) -> Reg {
    // Mostly recent registers, as in real loops.
    let back = usize::from(choice) % known.len().min(if choice & 0x8000 == 0 { 4 } else { 64 });
    known[known.len() - 1 - back]
}

impl Known {
    fn add(&mut self, sample: &mut Sample, (kind, a, b, number): Recipe) {
        if self.general.is_empty() {
            let operands = vec![at_packet(Table::Offset, 4, 0)];
            let load = (Units::LOAD, 0);
            self.general.push(sample.op(
                Code::Mov_r32_rm32,
                Some(RegClass::General),
                operands,
                load,
            ));
        }
        match kind % 14 {
            0..=3 => self.general(sample, kind % 14, (a, b, number)),
            4..=8 => self.vector(sample, kind % 14, (a, b, number)),
            9..=11 => self.mask(sample, kind % 14, (a, b, number)),
            kind => self.store(sample, kind, (a, b, number)),
        }
    }

    fn general(&mut self, sample: &mut Sample, kind: u8, (a, b, number): (u16, u16, u8)) {
        let left = Operand::Reg(pick(&self.general, a));
        let right = Operand::Reg(pick(&self.general, b));
        let simple = (Units::ALU, latency::SIMPLE);
        let (code, operands, cost, tied) = match kind {
            0 => {
                let memory = in_packet(pick(&self.general, a), i32::from(number));
                (Code::Movzx_r32_rm16, vec![memory], (Units::LOAD, 0), false)
            }
            1 => (Code::Add_r32_rm32, vec![left, right], simple, true),
            2 => {
                let by = Operand::Immediate(i32::from(number % 32));
                (Code::Shl_rm32_imm8, vec![left, by], (Units::SHIFT, latency::SIMPLE), true)
            }
            _ => {
                let memory = Operand::Memory(Address {
                    base: Base::PoolIn(pick(&self.general, a)),
                    index: Index::Reg(pick(&self.general, b), 4),
                    displacement: i32::from(number),
                    broadcast: false,
                });
                (Code::Lea_r64_m, vec![memory], simple, false)
            }
        };
        let reg = sample.op(code, Some(RegClass::General), operands, cost);
        sample.last().tied = tied;
        self.general.push(reg);
    }

    fn vector(&mut self, sample: &mut Sample, kind: u8, (a, b, number): (u16, u16, u8)) {
        let left = Operand::Reg(pick(&self.vector, a));
        let right = Operand::Reg(pick(&self.vector, b));
        let logic = (Units::LOGIC_512, latency::SIMPLE);
        let (code, operands, cost, tied) = match kind {
            4 => {
                let memory = in_packet(pick(&self.general, a), i32::from(number));
                let cost = (Units::LOAD, 0);
                (Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, vec![memory], cost, false)
            }
            5 => {
                let cost = (Units::LOGIC_512.with_load(), latency::SIMPLE);
                let operands = vec![left, in_pool(0, true)];
                (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, operands, cost, false)
            }
            6 => {
                let operands = vec![left, right, right, Operand::Immediate(0xca)];
                (Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8, operands, logic, true)
            }
            7 => {
                let cost = (Units::PORT_5, latency::CROSSING);
                (Code::EVEX_Vpermb_zmm_k1z_zmm_zmmm512, vec![left, right], cost, false)
            }
            _ => (Code::EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32, vec![left, right], logic, false),
        };
        let reg = sample.op(code, Some(RegClass::Vector), operands, cost);
        sample.last().tied = tied;
        if number % 3 == 0 {
            sample.last().mask = Some(pick(&self.mask, b));
        }
        self.vector.push(reg);
    }

    fn mask(&mut self, sample: &mut Sample, kind: u8, (a, b, number): (u16, u16, u8)) {
        let (code, operands, cost) = match kind {
            9 => {
                let operands =
                    vec![Operand::Reg(pick(&self.vector, a)), Operand::Reg(pick(&self.vector, b))];
                let cost = (Units::PORT_5, latency::CROSSING);
                (Code::EVEX_Vptestnmw_kr_k1_zmm_zmmm512, operands, cost)
            }
            10 => {
                let operands =
                    vec![Operand::Reg(pick(&self.mask, a)), Operand::Reg(pick(&self.mask, b))];
                (Code::VEX_Kandd_kr_kr_kr, operands, (Units::PORT_0, latency::SIMPLE))
            }
            _ => {
                let operands = vec![Operand::Reg(pick(&self.mask, a)), Operand::Immediate(16)];
                let cost = (Units::PORT_5, latency::MASK_SHIFT);
                (Code::VEX_Kshiftrd_kr_kr_imm8, operands, cost)
            }
        };
        let reg = sample.op(code, Some(RegClass::Mask), operands, cost);
        if kind == 9 && number % 2 == 0 {
            sample.last().mask = Some(pick(&self.mask, b));
        }
        self.mask.push(reg);
    }

    fn store(&mut self, sample: &mut Sample, kind: u8, (a, b, number): (u16, u16, u8)) {
        let place = at_packet(Table::Verdict, 4, 4 * i32::from(number));
        if kind == 12 {
            let operands = vec![place, Operand::Reg(pick(&self.mask, a))];
            sample.op(Code::VEX_Kmovd_m32_kr, None, operands, (Units::STORE, 0));
        } else if sample.body.lookahead > 0 {
            let memory = in_packet(pick(&self.general, b), 0);
            sample.op(Code::Prefetcht0_m8, None, vec![memory], (Units::LOAD, 0));
            sample.last().ahead = true;
        } else {
            let operands = vec![place, Operand::Reg(pick(&self.vector, a))];
            sample.op(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, None, operands, (Units::STORE_512, 0));
            sample.last().mask = Some(pick(&self.mask, b));
        }
    }
}
