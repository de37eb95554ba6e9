//! Which back end `auto` takes.
//!
//! The paper's hybrid compares two lines fitted to its measurements (figure 2):
//! the time a packet by the number of instructions, for PE and for EMS. The
//! model here is of the same kind. Predicated loops take their initiation
//! intervals, whatever the packets; code with branches takes time for each test
//! on the way, and for the branches that were guessed wrong.

use forebay_filter::ir::{Function, Terminator};

use crate::sched::ScheduledLoop;

/// Cycles a packet that predicated loops take beyond their initiation
/// intervals: a batch's start and end, and cache misses.
const PE_REST: f64 = 0.9;

/// Cycles a packet of `list` code that has no test at all.
const LIST_REST: f64 = 1.6;

/// Cycles of `list` code for each test of the filter, taken or not: the longer
/// the filter, the more of it a packet passes, and the more branches there are
/// to guess wrong.
const LIST_A_TEST: f64 = 0.8;

/// Cycles a packet that `loops` are taken to last.
#[must_use]
pub fn pe_cycles(loops: &[ScheduledLoop]) -> f64 {
    let cycles = loops.iter().map(|scheduled| {
        let placed = scheduled.pipelined.as_ref().map_or(&scheduled.single, |loops| &loops.placed);
        let ii = placed.schedule.ii;
        f64::from(ii) / f64::from(scheduled.body.step)
    });
    cycles.sum::<f64>() + PE_REST
}

/// Cycles a packet that `list` code is taken to last.
#[must_use]
pub fn list_cycles(function: &Function) -> f64 {
    let is_test = |end: &Terminator| matches!(end, Terminator::Test { .. });
    let tests = function.blocks.iter().filter(|block| is_test(&block.end)).count();
    LIST_REST + LIST_A_TEST * tests as f64
}

/// Cycles that a call of predicated loops takes longer than one of `list` code,
/// however many packets there are: loops fill and drain, and the second waits
/// for what the first has stored.
const PE_CALL: f64 = 130.0;

/// From how many packets of a batch on predicated loops are taken to be faster
/// than `list` code, at most a whole batch.
#[must_use]
pub fn least_packets(function: &Function, loops: &[ScheduledLoop]) -> usize {
    let gain = (list_cycles(function) - pe_cycles(loops)).max(0.5);
    ((PE_CALL / gain) as usize).min(192)
}

/// Whether predicated loops are taken to be faster than `list` code.
#[must_use]
pub fn pe_pays(function: &Function, loops: &[ScheduledLoop]) -> bool {
    pe_cycles(loops) < list_cycles(function)
}
