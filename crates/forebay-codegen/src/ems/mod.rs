//! Back end `ems`: enhanced modulo scheduling.
//!
//! The paper's section 5 (Yamashita and Tsuru, "Software Pipelining for Packet
//! Filters", HPCC 2007) pipelines the loop over the packets and keeps its
//! branches. Predicated code keeps the outcomes of earlier tests in predicate
//! registers and executes every instruction under one of them. This code keeps
//! them in the program counter: there is a *pattern* of code for each history
//! of outcomes that the packets in flight can have, and a pattern has exactly
//! the instructions that its history requires. The method is that of Warter,
//! Haab and Bockhaus ("Enhanced Modulo Scheduling for Loops with Conditional
//! Branches", MICRO-25, 1992), whose loops have a few branches, not nested; a
//! filter has dozens, nested ten deep.
//!
//! # Method
//!
//! 1. Blocks that are entered with different values are copied (`specialise`),
//!    and the result becomes a graph of tests (`graph`). Each test has the
//!    packet bytes that it reads, and the comparison (`comparison`, `value`).
//! 2. The tests are modulo-scheduled (`schedule`). A packet's offset is loaded
//!    when it enters, bytes a load's latency before their test, and another
//!    packet enters every initiation interval (II).
//! 3. All reachable states of the packets in flight are enumerated, and equal
//!    states become one pattern (`patterns`). Two histories with the same work
//!    left are the same state, so nested branches do not double the code each.
//! 4. Patterns become instructions (`generate`, `evaluate`, `lookup`).
//!
//! Steps 2 and 3 are tried with four packets in flight, then three, then two,
//! each time with the smallest II, until there are at most
//! [`Options::ems_patterns`] patterns. A filter for which that fails, or with a
//! value that cannot be read safely ahead of its test, has no code of this back
//! end.
//!
//! Two things differ from the paper's Itanium code. A test that chooses between
//! two verdicts uses a conditional move: no later test depends on it, so it
//! needs no history and no branch. And consecutive tests of the same bytes
//! against several numbers become one test.
//!
//! # Invariants
//!
//! * Verdicts are the IR's for every packet: captured lengths are compared
//!   exactly as in the IR, and bytes that are loaded early are used only after
//!   that comparison. [`checker`] proves for a plan that every packet passes
//!   the tests it should, with its own data, whatever their outcomes.
//! * Of each packet the bytes from its start to [`Ems::reach`] are read,
//!   whatever was captured; no others. Of tables only entries of the batch are
//!   read.
//! * At most [`Options::ems_patterns`] patterns.
//! * No packet is left to other code, and any count from 1 is accepted.
//!
//! # Registers
//!
//! A packet in flight has two registers: its place, and the data of its next
//! test. Its captured length and its verdict are addressed in their tables by
//! the number of the newest packet minus the stage. With one shared register
//! and the table pointers, 15 registers hold four packets. The two registers
//! are not copied as packets move on: patterns also record which packet has
//! which registers (modulo variable expansion).
//!
//! # Code size
//!
//! A pattern takes 20 to 30 bytes. The number of patterns grows with the
//! filter, and by a factor of three to four with each packet in flight: `ip and
//! tcp` has 24 patterns with two packets in flight, 74 with three, 200 with
//! four; `port 3000` has 85, 244 and 939. Beyond some hundred patterns, misses
//! in the instruction cache and the branch predictor cost more than overlap
//! gains.
//!
//! # On an out-of-order processor
//!
//! Itanium issues instructions in program order, so without pipelining it waits
//! for every load. An out-of-order core starts the loads of later packets by
//! itself, as far as it has predicted their branches correctly. A misprediction
//! discards these loads. Pipelining helps then: the data of the packets in
//! flight is already in registers, so the next branches are resolved as soon as
//! they are fetched. The cost of the mispredictions themselves, one or two for
//! a packet in random order, remains. Predicated vector code is therefore
//! faster where it applies, and prefetches, which a misprediction does not
//! discard, gain more for this code than for predicated code.
//!
//! | module | does |
//! |---|---|
//! | `specialise` | removes block parameters |
//! | `graph`, `comparison` | tests, their operands and successors |
//! | `value` | cost of computing a value |
//! | `schedule` | the modulo schedule |
//! | `patterns` | states and code patterns |
//! | `plan` | all of these steps in turn |
//! | `generate`, `evaluate`, `lookup` | instructions |
//! | `report` | schedule and patterns as text |
//! | [`checker`] | checks that patterns do what the filter specifies |

use forebay_filter::ir::Function;

use crate::code::Options;
use crate::emit::assembler::{Assembler, Label};

pub mod checker;
mod comparison;
mod error;
mod evaluate;
mod generate;
mod graph;
mod lookup;
mod patterns;
mod plan;
mod registers;
mod report;
mod schedule;
mod specialise;
#[cfg(test)]
mod tests;
mod value;

pub use error::EmsError;
pub use plan::EmsPlan;

/// Batch code for any number of packets.
#[derive(Clone, Debug)]
pub struct Ems {
    /// The start of the code.
    pub entry: Label,
    /// Code patterns.
    pub patterns: usize,
    /// The initiation interval, in cycles.
    pub ii: u32,
    /// Packets in flight.
    pub stages: usize,
    /// Bytes from a packet's start that must be readable, even beyond its
    /// captured length.
    pub reach: usize,
    /// The schedule and the patterns as text, if requested.
    pub report: String,
}

/// Appends code for `function` to `assembler`: a function with the calling
/// convention for any number of packets from 1. It leaves no packet to `list`.
///
/// # Errors
/// Why the filter has no such code. The assembler is unchanged then, except for
/// added constants.
pub fn compile(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
) -> Result<Ems, EmsError> {
    let plan = EmsPlan::new(function, options)?;
    let names = if options.explain { report::names(&plan) } else { Vec::new() };
    let start = assembler.position();
    let entry = generate::generate(&plan, &names, options, assembler)?;
    let bytes = assembler.position() - start;
    let report = if options.explain { report::report(&plan, &names, bytes) } else { String::new() };
    Ok(Ems {
        entry,
        patterns: plan.patterns.len(),
        ii: plan.schedule.ii,
        stages: plan.schedule.stages,
        reach: plan.reach as usize,
        report,
    })
}
