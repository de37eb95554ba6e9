//! Schedules of random loops and of one by hand, verified by the checker.

use iced_x86::{Code, Register};
use proptest::prelude::*;

use super::checker::{Violation, check};
use super::expand::Expansion;
use super::report::report;
use super::samples::{Sample, at_packet, extraction, in_packet, random_body};
use super::{Options, Pipelined, ScheduledLoop, schedule_loop};
use crate::code::{Isa, Scheduling};
use crate::convention::Table;
use crate::machine::Units;
use crate::mir::{LoopBody, Operand, PoolId, Reg, RegClass};

const MODULO: Options = Options { load_latency: 5, scheduling: Scheduling::Modulo };

fn scheduled(body: &LoopBody) -> ScheduledLoop {
    schedule_loop(body, &MODULO, Isa::Avx512Vbmi).expect("registers suffice")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_loops_are_scheduled_right(
        body in random_body(40),
        load_latency in 1u8..20,
        scheduling in prop::sample::select(vec![
            Scheduling::None, Scheduling::List, Scheduling::Modulo, Scheduling::Modulo,
        ]),
    ) {
        let options = Options { load_latency, scheduling };
        // If the registers do not suffice, there is no schedule to check.
        if let Ok(scheduled) = schedule_loop(&body, &options, Isa::Avx512Bw) {
            prop_assert_eq!(check(&body, &scheduled), Ok(()));
            if let Some(pipelined) = &scheduled.pipelined {
                prop_assert!(pipelined.placed.schedule.ii >= scheduled.bounds.mii());
            }
        }
    }

    #[test]
    fn small_loops_have_enough_registers_and_reach_the_least_ii(body in random_body(12)) {
        let scheduled = scheduled(&body);
        prop_assert_eq!(check(&body, &scheduled), Ok(()));
        if body.lookahead + 8 * body.step <= 256 {
            let pipelined = scheduled.pipelined.as_ref().expect("a short loop is pipelined");
            prop_assert!(
                pipelined.placed.schedule.ii <= scheduled.bounds.mii() + 1,
                "{}",
                report(&scheduled)
            );
        }
    }
}

/// A pipelined loop of several stages and registers per value, verified.
fn sample() -> (LoopBody, ScheduledLoop) {
    let body = extraction(2, 0);
    let scheduled = scheduled(&body);
    assert_eq!(check(&body, &scheduled), Ok(()));
    let pipelined = scheduled.pipelined.as_ref().expect("it is pipelined");
    assert!(pipelined.placed.schedule.stages() > 2);
    assert!(pipelined.placed.allocation.unroll > 1);
    (body, scheduled)
}

/// The checker's result for `sample` after a change to its pipelined form.
fn broken(change: impl FnOnce(&mut Pipelined)) -> Violation {
    let (body, mut scheduled) = sample();
    change(scheduled.pipelined.as_mut().expect("it is pipelined"));
    check(&body, &scheduled).expect_err("the change is wrong")
}

#[test]
fn an_op_before_its_operand_is_found() {
    let (body, scheduled) = sample();
    let times = &scheduled.pipelined.as_ref().expect("it is pipelined").placed.schedule.times;
    for (number, op) in body.ops.iter().enumerate() {
        let Some(ready) = body
            .ops
            .iter()
            .enumerate()
            .filter(|(_, maker)| op.reads().any(|reg| maker.dest == Some(reg)))
            .map(|(from, maker)| times[from] + u32::from(maker.latency) + LOADS[from] * 5)
            .max()
        else {
            continue;
        };
        let found = broken(|pipelined| pipelined.placed.schedule.times[number] = ready - 1);
        assert!(matches!(found, Violation::Dependence { to, .. } if to == number), "{found}");
    }
}

/// The ops of the sample that load.
const LOADS: [u32; 9] = [1, 1, 1, 1, 0, 1, 1, 1, 0];

#[test]
fn a_unit_taken_twice_is_found() {
    let found = broken(|pipelined| {
        // Two shuffles, both on port 5, in one row.
        let schedule = &mut pipelined.placed.schedule;
        schedule.times[5] = schedule.times[1];
    });
    assert!(matches!(found, Violation::Units { op: 5, .. }), "{found}");
}

#[test]
fn a_row_of_too_many_ops_is_found() {
    let mut body = extraction(1, 0);
    let store = body.ops[4].clone();
    body.ops.extend(std::iter::repeat_n(store, 7));
    let mut scheduled = scheduled(&body);
    let schedule = &mut scheduled.pipelined.as_mut().expect("it is pipelined").placed.schedule;
    let row = 40 * schedule.ii;
    schedule.times[5..].fill(row);
    let found = check(&body, &scheduled);
    assert!(matches!(found, Err(Violation::Issue { row: 0, .. })), "{found:?}");
}

#[test]
fn an_instance_left_out_or_done_twice_is_found() {
    let (_, scheduled) = sample();
    let code = scheduled.pipelined.expect("it is pipelined").expansion;
    for at in 0..code.prologue.len() {
        let found = broken(|pipelined| {
            pipelined.expansion.prologue.remove(at);
        });
        assert!(matches!(found, Violation::Value { .. } | Violation::Times { .. }), "{found}");
    }
    for at in 0..code.kernel.len() {
        let found = broken(|pipelined| {
            pipelined.expansion.kernel.remove(at);
        });
        assert!(matches!(found, Violation::Value { .. } | Violation::Times { .. }), "{found}");
    }
    for at in 0..code.epilogue.len() {
        let found = broken(|pipelined| pipelined.expansion.epilogue.push(code.epilogue[at]));
        assert!(matches!(found, Violation::Value { .. } | Violation::Times { .. }), "{found}");
    }
}

#[test]
fn an_instance_of_another_iteration_is_found() {
    let (_, scheduled) = sample();
    let code = scheduled.pipelined.expect("it is pipelined").expansion;
    for at in 0..code.kernel.len() {
        let found = broken(|pipelined| pipelined.expansion.kernel[at].iteration += 1);
        assert!(matches!(found, Violation::Value { .. } | Violation::Times { .. }), "{found}");
    }
}

#[test]
fn a_wrong_number_of_iterations_is_found() {
    for change in [
        (|code| code.least -= 1) as fn(&mut Expansion),
        |code| code.trip += 1,
        |code| code.drained += 1,
        |code| code.drained -= 1,
    ] {
        let found = broken(|pipelined| change(&mut pipelined.expansion));
        assert!(matches!(found, Violation::Value { .. } | Violation::Times { .. }), "{found}");
    }
}

#[test]
fn a_register_overwritten_while_it_is_alive_is_found() {
    // One register for all copies of the shuffled bytes, which are live for several iterations.
    let (body, _) = sample();
    let bytes = body.ops[1].dest.expect("a shuffle has a result").0;
    let found = broken(|pipelined| {
        let allocation = &mut pipelined.placed.allocation;
        let first = (bytes * allocation.unroll) as usize;
        for name in 0..allocation.unroll as usize {
            allocation.registers[first + name] = allocation.registers[first];
        }
    });
    assert!(matches!(found, Violation::Value { op: 2, .. }), "{found}");
}

#[test]
fn a_register_of_the_frame_or_of_another_class_is_found() {
    let (body, _) = sample();
    let offset = body.ops[0].dest.expect("a load has a result").0;
    for register in [Register::RSI, Register::R12, Register::RSP, Register::ZMM3, Register::None] {
        let found = broken(|pipelined| {
            let allocation = &mut pipelined.placed.allocation;
            allocation.registers[(offset * allocation.unroll) as usize] = register;
        });
        assert!(matches!(found, Violation::Register { .. }), "{found}");
    }
}

#[test]
fn another_op_than_asked_for_is_found() {
    let (mut body, scheduled) = sample();
    let Some(Operand::Immediate(kind)) = body.ops[3].operands.last_mut() else {
        panic!("the comparison ends with its kind");
    };
    *kind += 1;
    assert!(matches!(check(&body, &scheduled), Err(Violation::Body { op: 3, .. })));
    body.ops.truncate(3);
    assert!(matches!(check(&body, &scheduled), Err(Violation::Body { op: 3, .. })));
}

#[test]
fn a_look_beyond_the_batch_is_found() {
    let body = extraction(1, 3);
    let mut scheduled = scheduled(&body);
    assert_eq!(check(&body, &scheduled), Ok(()));
    scheduled.pipelined.as_mut().expect("it is pipelined").expansion.least -= 1;
    assert!(matches!(check(&body, &scheduled), Err(Violation::Beyond { .. })));
}

#[test]
fn an_operand_overwritten_in_place_is_found_where_it_is_wanted_later() {
    let mut sample = Sample::new(1);
    let memory = vec![at_packet(Table::Offset, 4, 0)];
    let load = (Units::LOAD, 0);
    let offset = sample.op(Code::Mov_r32_rm32, Some(RegClass::General), memory, load);
    let operands = vec![Operand::Reg(offset), Operand::Immediate(1)];
    let simple = (Units::ALU, 1);
    let next = sample.op(Code::Add_r32_rm32, Some(RegClass::General), operands, simple);
    sample.last().code = Code::Add_rm32_imm8;
    sample.last().tied = true;
    let operands = vec![Operand::Reg(next), in_packet(offset, 0)];
    let simple = (Units::ALU.with_load(), 1);
    sample.op(Code::Add_r32_rm32, Some(RegClass::General), operands, simple);
    sample.last().tied = true;
    let body = sample.body;
    let mut scheduled = scheduled(&body);
    assert_eq!(scheduled.origin, [Some(0), None, Some(1), Some(2)], "a copy is made");
    assert_eq!(check(&body, &scheduled), Ok(()));
    // The copy has the register of its source.
    let copy = scheduled.body.ops[1].dest.expect("a copy has a result").0 as usize;
    for reg in [copy, next.0 as usize] {
        let registers = &mut scheduled.single.allocation.registers;
        registers[reg] = registers[offset.0 as usize];
    }
    assert!(matches!(check(&body, &scheduled), Err(Violation::Value { .. })));
}

/// `next = offset + 1` in 64 bits, with `offset` used later.
fn copied() -> (LoopBody, ScheduledLoop) {
    let mut sample = Sample::new(1);
    let memory = vec![at_packet(Table::Offset, 4, 0)];
    let load = (Units::LOAD, 0);
    let offset = sample.op(Code::Mov_r32_rm32, Some(RegClass::General), memory, load);
    let simple = (Units::ALU, 1);
    for _ in 0..2 {
        let operands = vec![Operand::Reg(offset), Operand::Immediate(1)];
        let code = Code::Add_rm64_imm8;
        let next = sample.op(code, Some(RegClass::General), operands, simple);
        sample.last().tied = true;
        let operands = vec![at_packet(Table::Verdict, 4, 0), Operand::Reg(next)];
        sample.op(Code::Mov_rm32_r32, None, operands, (Units::STORE, 0));
    }
    let scheduled = scheduled(&sample.body);
    assert_eq!(scheduled.origin[..3], [Some(0), None, Some(1)], "a copy is made");
    assert_eq!(check(&sample.body, &scheduled), Ok(()));
    (sample.body, scheduled)
}

#[test]
fn a_copy_of_half_a_register_is_found() {
    for (code, enough) in [
        (Code::Mov_r64_rm64, true),
        (Code::Mov_r32_rm32, false),
        (Code::Mov_r16_rm16, false),
        (Code::Mov_r8_rm8, false),
    ] {
        let (body, mut scheduled) = copied();
        scheduled.body.ops[1].code = code;
        let found = check(&body, &scheduled);
        let as_expected = match found {
            Ok(()) => enough,
            Err(Violation::Body { op, .. }) => !enough && op == 1,
            Err(_) => false,
        };
        assert!(as_expected, "{code:?}: {found:?}");
    }
}

#[test]
fn a_tied_operand_in_another_register_is_found() {
    let (body, mut scheduled) = copied();
    // The result has a register that is otherwise unused.
    let next = scheduled.body.ops[2].dest.expect("a sum has a result").0 as usize;
    for placed in scheduled.pipelined.iter_mut().map(|pipelined| &mut pipelined.placed) {
        let unroll = placed.allocation.unroll as usize;
        placed.allocation.registers[next * unroll..][..unroll].fill(Register::R15);
    }
    let found = check(&body, &scheduled);
    assert!(matches!(found, Err(Violation::Tied { op: 2, .. })), "{found:?}");
}

#[test]
fn an_op_that_asks_for_no_unit_of_its_kind_is_found() {
    for number in 0..extraction(2, 0).ops.len() {
        let mut body = extraction(2, 0);
        body.ops[number].units = Units::NONE;
        let found = check(&body, &scheduled(&body));
        assert!(
            matches!(found, Err(Violation::Body { op, .. }) if op == number),
            "{number}: {found:?}"
        );
    }
}

#[test]
fn a_load_of_what_the_loop_stores_is_found() {
    let mut body = extraction(1, 0);
    body.ops[0].operands = vec![at_packet(Table::Scratch, 4, 0)];
    let found = check(&body, &scheduled(&body));
    assert!(matches!(found, Err(Violation::Body { op: 0, .. })), "{found:?}");
}

#[test]
fn a_long_loop_is_not_pipelined() {
    for (planes, pipelined) in [(2, true), (200, false), (700, false)] {
        let mut sample = Sample::new(1);
        let load = (Units::LOAD, 0);
        for plane in 0..planes {
            let memory = vec![at_packet(Table::Offset, 4, 4 * plane)];
            let offset = sample.op(Code::Mov_r32_rm32, Some(RegClass::General), memory, load);
            let memory = vec![in_packet(offset, 0)];
            let byte = sample.op(Code::Movzx_r32_rm8, Some(RegClass::General), memory, load);
            let operands = vec![Operand::Reg(byte), Operand::Immediate(1)];
            let simple = (Units::ALU, 1);
            let sum = sample.op(Code::Add_rm32_imm8, Some(RegClass::General), operands, simple);
            sample.last().tied = true;
            let operands = vec![at_packet(Table::Verdict, 4, 4 * plane), Operand::Reg(sum)];
            sample.op(Code::Mov_rm32_r32, None, operands, (Units::STORE, 0));
        }
        let scheduled = scheduled(&sample.body);
        assert_eq!(scheduled.pipelined.is_some(), pipelined, "{planes}");
        assert_eq!(scheduled.single.schedule.times.len(), 4 * planes as usize);
    }
}

#[test]
fn a_level_without_opmasks_refuses_loops_that_use_them() {
    let pressure = schedule_loop(&extraction(1, 0), &MODULO, Isa::Avx2).map(|_| ());
    assert!(pressure.is_err_and(|error| error.class == "opmask"));
}

#[test]
fn fewer_registers_make_for_a_longer_interval() {
    // Eight masks are used at the end, more than there are registers.
    let mut sample = Sample::new(1);
    let zero = sample.vector_invariant(PoolId(0));
    let mut masks: Vec<Reg> = Vec::new();
    for _ in 0..4 {
        let operands = vec![Operand::Reg(zero), at_packet(Table::Scratch, 2, 0)];
        let cost = (Units::PORT_5.with_load(), 3);
        let code = Code::EVEX_Vptestmw_kr_k1_zmm_zmmm512;
        masks.push(sample.op(code, Some(RegClass::Mask), operands, cost));
    }
    let mut all = masks[0];
    for &mask in masks.iter().rev() {
        let operands = vec![Operand::Reg(all), Operand::Reg(mask)];
        let code = Code::VEX_Kandd_kr_kr_kr;
        all = sample.op(code, Some(RegClass::Mask), operands, (Units::PORT_0, 1));
    }
    let place = at_packet(Table::Slow, 4, 0);
    sample.op(Code::VEX_Kmovd_m32_kr, None, vec![place, Operand::Reg(all)], (Units::STORE, 0));
    let scheduled = scheduled(&sample.body);
    assert_eq!(check(&sample.body, &scheduled), Ok(()));
    let pipelined = scheduled.pipelined.expect("it is pipelined");
    assert!(pipelined.placed.allocation.max_live[RegClass::Mask as usize] <= 7);
}

#[test]
fn reports_fit_a_hundred_columns_and_never_change() {
    let body = extraction(1, 32);
    let text = report(&scheduled(&body));
    assert_eq!(text, report(&scheduled(&body)));
    assert_eq!(text, REPORT);
    let mut long = extraction(6, 32);
    long.notes[0] = "what it is for, ".repeat(10);
    let text = report(&scheduled(&long));
    assert!(text.lines().all(|line| line.chars().count() <= 100 && !line.ends_with(' ')));
}

const REPORT: &str = "\
loop sample: 7 ops, 1 packet an iteration
  ResMII 3 (ld0 ld1), RecMII 1, MII 3
  II 3, 10 stages, kernel of 4 iterations, loads taken as 5 cycles
  MaxLive: general 4 of 9, vector 6 of 32, opmask 4 of 7

  row  ld0  ld1  st0  st1   p0   p1   p5   p6  p10  no unit
    0    1    0    6    .    .    .    .    .    .
    1    5    4    .    .    4    .    5    .    .
    2    3    2    .    .    .    .    3    .    .

   op time stage  instruction                                  for
    0    0     0  mov r1, [offset+4*i]                         what it is for
    1    0     0  mov r2, [offset+4*i+128]                     what it is for
    2    5     1  prefetcht0 [packet+r2+12]                    what it is for
    3    5     1  vpermb v4{k0}, v3, [packet+r1+12]            what it is for
    4   13     4  vpandd v5, v4, [pool 0]                      what it is for
    5   19     6  vpcmpd k6, v5, [pool 1], 4                   what it is for
    6   27     9  kmovw [scratch+2*i], k6                      what it is for
";
