//! Which back end `auto` takes.
//!
//! The paper's hybrid compares two lines fitted to its measurements (figure 2):
//! the time a packet by the number of instructions, for PE and for EMS. The
//! model here is of the same kind. Predicated loops take their initiation
//! intervals, whatever the packets; code with branches takes time for each test
//! on the way, and for the branches that were guessed wrong.

use forebay_filter::ir::{Function, Terminator};

use crate::sched::ScheduledLoop;

/// What the model was fitted to: the suite `filters` prints the same fit of each
/// of its records (`bench/record/2026-11-21-filters.json`, `cost_model`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Cycles a packet that predicated loops take beyond their initiation
    /// intervals: a batch's start and end, and cache misses.
    pub pe_rest: f64,
    /// Cycles a packet of `list` code that has no test at all.
    pub list_rest: f64,
    /// Cycles of `list` code for each test of the filter, taken or not: the
    /// longer the filter, the more of it a packet passes, and the more branches
    /// there are to guess wrong.
    pub list_a_test: f64,
}

/// The fit in use.
pub const FIT: Fit = Fit { pe_rest: 1.14, list_rest: 2.1, list_a_test: 0.4 };

/// Cycles a packet that `loops` are taken to last.
#[must_use]
pub fn pe_cycles(loops: &[ScheduledLoop]) -> f64 {
    intervals(loops) + FIT.pe_rest
}

/// The initiation intervals of `loops`, in cycles a packet.
#[must_use]
pub fn intervals(loops: &[ScheduledLoop]) -> f64 {
    let cycles = loops.iter().map(|scheduled| {
        let placed = scheduled.pipelined.as_ref().map_or(&scheduled.single, |loops| &loops.placed);
        let ii = placed.schedule.ii;
        f64::from(ii) / f64::from(scheduled.body.step)
    });
    cycles.sum()
}

/// Cycles a packet that `list` code is taken to last.
#[must_use]
pub fn list_cycles(function: &Function) -> f64 {
    FIT.list_rest + FIT.list_a_test * tests(function) as f64
}

/// Cycles a packet beyond which loops gain from prefetching: so many fill what a
/// core looks ahead with few packets, and the loads of later ones start late.
/// Measured from memory, over the row `touch`: loops of 5, 10 and 14 cycles took
/// 1.5, 1.6 and 2.4 without, and 1.1 to 1.2 with any distance from 16 to 64;
/// with headers in the cache they took the same. Shorter ones lose a tenth there.
const LONG: f64 = 4.0;

/// How far ahead.
const DISTANCE: u16 = 32;

/// Packets ahead that loops of so many `cycles` a packet should prefetch.
#[must_use]
pub fn prefetch(cycles: f64) -> u16 {
    if cycles > LONG { DISTANCE } else { 0 }
}

/// Tests of a filter.
#[must_use]
pub fn tests(function: &Function) -> usize {
    let is_test = |end: &Terminator| matches!(end, Terminator::Test { .. });
    function.blocks.iter().filter(|block| is_test(&block.end)).count()
}

/// Cycles that a call of predicated loops takes longer than one of `list` code,
/// however many packets there are: loops fill and drain, and the second waits
/// for what the first has stored. Calls of 16 to 64 packets of six filters were
/// the same at 16 to 32 packets, where loops gain a cycle a packet or two.
const PE_CALL: f64 = 30.0;

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
