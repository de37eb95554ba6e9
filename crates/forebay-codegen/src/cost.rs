//! The cost model: the back end that `auto` uses.
//!
//! The paper's hybrid compares two lines fitted to its measurements (figure 2):
//! the time a packet by the number of instructions, for PE and for EMS. This
//! model is of the same kind. Predicated loops take their initiation intervals,
//! whatever the packets; code with branches takes time for each test on the
//! path and for mispredicted branches.

use forebay_filter::ir::{Function, Terminator};

use crate::code::{Isa, PacketsIn};
use crate::sched::ScheduledLoop;

/// Parameters of the model. The suite `filters` prints the same fit for each of
/// its records (`bench/record/2026-11-21-filters.json`, `cost_model`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Cycles a packet that predicated loops take beyond their initiation
    /// intervals: a batch's start and end, and cache misses.
    pub pe_rest: f64,
    /// Cycles a packet of `list` code without any test.
    pub list_rest: f64,
    /// Cycles of `list` code for each test of the filter, taken or not: a
    /// packet passes more tests of a longer filter, and more branches can be
    /// mispredicted.
    pub list_a_test: f64,
}

/// The fit in use.
pub const FIT: Fit = Fit { pe_rest: 1.14, list_rest: 2.1, list_a_test: 0.4 };

/// Predicted cycles a packet of `loops`.
#[must_use]
pub fn pe_cycles(loops: &[ScheduledLoop]) -> f64 {
    intervals(loops) + FIT.pe_rest
}

/// The least initiation intervals of `loops`, in cycles a packet. An out-of-order processor gets near
/// them whether registers suffice for such a schedule or not.
#[must_use]
pub fn intervals(loops: &[ScheduledLoop]) -> f64 {
    let ii = |scheduled: &ScheduledLoop| f64::from(scheduled.bounds.mii());
    loops.iter().map(|scheduled| ii(scheduled) / f64::from(scheduled.body.step)).sum()
}

/// Predicted cycles a packet of `list` code.
#[must_use]
pub fn list_cycles(function: &Function) -> f64 {
    FIT.list_rest + FIT.list_a_test * tests(function) as f64
}

/// Cycles a packet beyond which loops gain from prefetching: longer iterations fill the out-of-order
/// window with few packets, and the loads of later packets start late. Measured from memory, in the time
/// of the row `touch`, on a core with a window of 224 instructions: AVX-512 loops of 2.8 to 5.6 cycles took
/// 1.3 to 1.6 without, and 1.1 to 1.25 with it, AVX2 loops of 3.9 to 12 cycles 1.4 to 4 and 1.1 to 1.35. On a Zen 5
/// core AVX2 loops estimated at 2.5 to 3 cycles took 1.05 to 1.5 without and 0.85 to 0.95 with it, AVX-512 loops of
/// 2.25 to 2.5 up to 1.3 and 0.95 to 1.05; for shorter ones it made no difference. With packets in the cache prefetches
/// cost up to a quarter, so loops that have them also come without ([`PacketsIn::Unknown`]).
fn long(isa: Isa) -> f64 {
    if isa >= Isa::Avx512Bw { 2.2 } else { 2.3 }
}

/// Where the processor executes 512-bit instructions in two halves: the estimate below which AVX2 loops are
/// faster than AVX-512 loops of `cycles` a packet. None where those are short.
///
/// On a Zen 4 core AVX-512 loops estimated at 3.5 to 5 cycles took 5.4 to 9.2 with hot packets, and those of
/// AVX2 for the same filters, estimated at 4.8 to 7.3, 0.75 to 1 of that; from memory 0.85 to 1.15. Those
/// estimated at 2.8 to 3.4 took as long or up to a tenth longer hot, and 0.87 of the time from memory.
#[must_use]
pub fn limit_in_halves(cycles: f64) -> Option<f64> {
    const LONG: f64 = 3.5;
    const TIMES: f64 = 1.75;
    (cycles > LONG).then_some(TIMES * cycles)
}

/// Prefetch distance, in packets. A call begins with prefetches of as many packets, which no iteration prefetches
/// early enough. On a Zen 5 core, from memory, `ems` code took 30.3 cycles a packet (geometric mean of 25
/// filters) with a distance of 16, 24.4 with 32 and 21.1 with 64, where a loop that only touches each packet took
/// 18; from the cache 6.6, 6.6 and 6.8; on a capture, whose packets follow one another, 14.0, 14.6 and
/// 15.8. Loops in vectors gained less, up to a fifth; the prefetches of a call's start made them 1.05 to 1.1
/// times faster.
///
/// All code prefetches into the first level of the cache (`prefetcht0`). Loops in vectors used the second one
/// (`prefetcht1`), by which they were 1.05 to 1.2 times faster from memory on a Zen 4 core with a distance of 16. But for
/// some regions of memory such prefetches have no effect there and on a Zen 5 (`docs/filter-compiler.md`), where loops then take
/// 2 to 3 times as long, and where they have one, those into the first level do as well, and take 0.8 to 0.9 of the time
/// from the cache.
pub const DISTANCE: u16 = 64;

/// Prefetch distance of loops that only prefetch in rings. They keep loads of later packets in flight themselves:
/// from memory they gain 1 to 2% by the longer distance, and calls of 64 packets take a tenth longer.
pub const DISTANCE_OF_SHORT_LOOPS: u16 = 32;

/// The batch size from which `auto` uses `ems` code: smaller ones go to `list` code, which has less to
/// begin and to end.
pub const LEAST_EMS: usize = 64;

/// The prefetch distance for loops of `cycles` a packet. Scalar ones are all long.
#[must_use]
pub fn prefetch(cycles: f64, isa: Isa, packets: PacketsIn) -> u16 {
    let is_long = isa == Isa::Scalar || cycles > long(isa);
    match packets {
        PacketsIn::Cache => 0,
        _ if is_long => DISTANCE,
        PacketsIn::Memory => DISTANCE_OF_SHORT_LOOPS,
        PacketsIn::Unknown => 0,
    }
}

/// The prefetch distance for code with branches.
#[must_use]
pub fn prefetch_of_branches(packets: PacketsIn) -> u16 {
    if packets == PacketsIn::Cache { 0 } else { DISTANCE }
}

/// The number of tests of a filter.
#[must_use]
pub fn tests(function: &Function) -> usize {
    let is_test = |end: &Terminator| matches!(end, Terminator::Test { .. });
    function.blocks.iter().filter(|block| is_test(&block.end)).count()
}

/// Fixed cost of a call of predicated loops over one of `list` code, in cycles:
/// loops fill and drain, and the second loop waits for stores of the first.
/// On a Zen 4 core it was about 45 for one loop and 60 to 90 for two, but 50 for both did as well as
/// any two numbers: of 22 filters, calls of 32, 64 and 256 packets take 2.7% longer than with the better code
/// for each, and 3.1% with 30.
const PE_CALL: f64 = 50.0;

/// The batch size from which predicated loops that prefetch are used: packets may come from memory, which
/// `list` code waits for at each mispredicted branch. On a Zen 4 core, calls of 32 by AVX2 took 13 ns a packet by loops that
/// prefetch and 19 to 22 by `list` code for the filters of networks; for `ip` 13 and 10.
const LEAST_FROM_MEMORY: usize = 32;

/// The batch size from which predicated loops are predicted to be faster than
/// `list` code.
#[must_use]
pub fn least_packets(function: &Function, loops: &[ScheduledLoop]) -> usize {
    let prefetches = loops.iter().any(|scheduled| scheduled.body.lookahead > 0);
    let most = if prefetches { LEAST_FROM_MEMORY } else { usize::MAX };
    let gain = (PREFERENCE * list_cycles(function) - pe_cycles(loops)).max(0.5);
    most.min((PE_CALL / gain) as usize)
}

/// Loops are preferred up to so many times the time that the model predicts for code with branches. It is
/// fitted to hot packets; branches are mispredicted more often on a capture. Loops without look-ups in tables are
/// predicted to take up to 0.9 of that time, and are faster; those with look-ups, from 1.2 on, took 1.5
/// to 2 times as long as `ems` hot and on a capture (Zen 4, Zen 5), and 1.2 times from memory.
const PREFERENCE: f64 = 1.1;

/// Whether predicated loops are predicted to be faster than code with branches.
#[must_use]
pub fn pe_pays(function: &Function, loops: &[ScheduledLoop]) -> bool {
    pe_cycles(loops) < PREFERENCE * list_cycles(function)
}
