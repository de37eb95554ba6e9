//! Adapts two-operand instructions to registers that are written once.
//!
//! A tied [`Op`] overwrites its first operand. If that operand is live
//! afterwards, or is an invariant, it is copied before the op and the op
//! overwrites the copy. After that one rule holds, on which scheduling and
//! register allocation rely: the first operand of a tied op is no invariant,
//! and the op is, in program order, the last that reads it. Copies are ordinary
//! ops, so schedules count them.

use forebay_filter::cancel;
use iced_x86::Code;

use crate::emit::instruction_form::{InstructionForm, OperandForm};
use crate::machine::{Units, latency};
use crate::mir::{LoopBody, Op, Operand, Reg, RegClass};

/// A loop that obeys the rule of this module.
#[derive(Clone, Debug)]
pub struct Untied {
    /// The loop with copies added.
    pub body: LoopBody,
    /// By op: its number in the given loop; `None` for a copy.
    pub origin: Vec<Option<u32>>,
}

/// Adds the copies that `body` needs.
#[must_use]
pub fn untie(body: &LoopBody) -> Untied {
    let needed = copies_needed(body);
    let mut result = body.clone();
    if needed.is_empty() {
        let origin = (0..body.ops.len() as u32).map(Some).collect();
        return Untied { body: result, origin };
    }
    result.ops = Vec::with_capacity(body.ops.len() + needed.len());
    let mut origin = Vec::with_capacity(result.ops.capacity());
    let mut needed = needed.into_iter().peekable();
    for (number, op) in body.ops.iter().enumerate() {
        cancel::check();
        let mut op = op.clone();
        if let Some((_, source)) = needed.next_if(|&(at, _)| at == number) {
            let copy = result.reg(body.class(source));
            result.ops.push(copy_before(&op, source, copy, body.class(source)));
            origin.push(None);
            op.operands[0] = Operand::Reg(copy);
        }
        result.ops.push(op);
        origin.push(Some(number as u32));
    }
    Untied { body: result, origin }
}

/// The register that `op` overwrites although it did not define it.
#[must_use]
pub fn overwritten(op: &Op) -> Option<Reg> {
    match (op.tied, op.operands.first()) {
        (true, Some(&Operand::Reg(source))) => Some(source),
        _ => None,
    }
}

/// The ops that must not overwrite their first operand, and that operand, in
/// program order.
fn copies_needed(body: &LoopBody) -> Vec<(usize, Reg)> {
    if !body.ops.iter().any(|op| op.tied) {
        return Vec::new();
    }
    let mut wanted_after = vec![false; body.classes.len()];
    for invariant in &body.invariants {
        wanted_after[invariant.reg.0 as usize] = true;
    }
    let mut needed = Vec::new();
    for (number, op) in body.ops.iter().enumerate().rev() {
        if let Some(source) = overwritten(op)
            && wanted_after[source.0 as usize]
        {
            needed.push((number, source));
        }
        for reg in op.reads() {
            wanted_after[reg.0 as usize] = true;
        }
    }
    needed.reverse();
    needed
}

/// A copy of `source` into `copy`, of as much of it as `op` reads.
fn copy_before(op: &Op, source: Reg, copy: Reg, class: RegClass) -> Op {
    let form = InstructionForm::of(op.code);
    let width = form.and_then(|form| form.operands().first().copied());
    let evex = form.is_some_and(|form| form.evex);
    let code = match (class, width) {
        (RegClass::General, Some(OperandForm::General64)) => Code::Mov_r64_rm64,
        (RegClass::General, _) => Code::Mov_r32_rm32,
        (RegClass::Mask, _) => Code::VEX_Kmovq_kr_km64,
        (RegClass::Vector, Some(OperandForm::Xmm)) if !evex => Code::VEX_Vmovdqa_xmm_xmmm128,
        (RegClass::Vector, Some(OperandForm::Ymm)) if !evex => Code::VEX_Vmovdqa_ymm_ymmm256,
        (RegClass::Vector, Some(OperandForm::Xmm)) => Code::EVEX_Vmovdqa64_xmm_k1z_xmmm128,
        (RegClass::Vector, Some(OperandForm::Ymm)) => Code::EVEX_Vmovdqa64_ymm_k1z_ymmm256,
        (RegClass::Vector, _) => Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512,
    };
    let (units, latency) = match class {
        RegClass::General => (Units::ALU, latency::SIMPLE),
        RegClass::Mask => (Units::PORT_0, latency::SIMPLE),
        // Eliminated by register renaming.
        RegClass::Vector => (Units::NONE, 0),
    };
    Op {
        code,
        dest: Some(copy),
        tied: false,
        operands: vec![Operand::Reg(source)],
        mask: None,
        latency,
        units,
        note: op.note,
        ahead: op.ahead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(body: &mut LoopBody, left: Reg, right: Operand) -> Reg {
        let dest = body.reg(RegClass::General);
        body.push(Op {
            code: Code::Add_r32_rm32,
            dest: Some(dest),
            tied: true,
            operands: vec![Operand::Reg(left), right],
            mask: None,
            latency: latency::SIMPLE,
            units: Units::ALU,
            note: 0,
            ahead: false,
        });
        dest
    }

    #[test]
    fn the_last_reader_overwrites_and_earlier_ones_copy() {
        let mut body = LoopBody::new("test", 1);
        let first = body.reg(RegClass::General);
        let second = add(&mut body, first, Operand::Immediate(1));
        add(&mut body, first, Operand::Reg(second));
        let untied = untie(&body);
        assert_eq!(untied.origin, [None, Some(0), Some(1)]);
        let copy = untied.body.ops[0].dest.expect("a copy has a destination");
        assert_eq!(untied.body.ops[0].code, Code::Mov_r32_rm32);
        assert_eq!(untied.body.ops[1].operands[0], Operand::Reg(copy));
        assert_eq!(untied.body.ops[2].operands[0], Operand::Reg(first));
    }

    #[test]
    fn an_invariant_is_never_overwritten() {
        use crate::mir::{Invariant, InvariantSource, PoolId};
        let mut body = LoopBody::new("test", 1);
        let reg = body.reg(RegClass::General);
        body.invariants.push(Invariant { reg, source: InvariantSource::Address(PoolId(0)) });
        add(&mut body, reg, Operand::Immediate(1));
        assert_eq!(untie(&body).origin, [None, Some(0)]);
    }

    #[test]
    fn a_source_read_twice_by_its_last_reader_needs_no_copy() {
        let mut body = LoopBody::new("test", 1);
        let reg = body.reg(RegClass::General);
        add(&mut body, reg, Operand::Reg(reg));
        assert_eq!(untie(&body).origin, [Some(0)]);
    }
}
