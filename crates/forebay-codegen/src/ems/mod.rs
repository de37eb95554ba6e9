//! Back end `ems`: enhanced modulo scheduling.
//!
//! The paper's section 5 (Yamashita and Tsuru, "Software Pipelining for Packet
//! Filters", HPCC 2007) pipelines the loop over the packets and keeps its
//! branches. Where predicated code holds the outcomes of earlier tests in
//! predicate registers and runs every instruction under one of them, this code
//! holds them in the program counter: there is a *pattern* of code for each
//! history of outcomes that the packets in flight can have, and a pattern has
//! the instructions that this history asks for and no others. The method is of
//! Warter, Haab and Bockhaus ("Enhanced Modulo Scheduling for Loops with
//! Conditional Branches", MICRO-25, 1992), whose loops have a few branches, not
//! nested; a filter has dozens, nested ten deep.
//!
//! # Method
//!
//! 1. Blocks that are entered with different values are copied (`specialise`),
//!    and what is left becomes a graph of tests (`graph`). Each test has the
//!    bytes that it looks at, and the comparison (`test`, `value`).
//! 2. The tests are modulo-scheduled (`schedule`). A packet's offset is loaded
//!    when it enters, bytes a load's latency before their test, and every
//!    initiation interval (II) another packet enters.
//! 3. All states that the packets in flight can come to be in are found, and
//!    equal ones are one pattern (`patterns`). Of two histories after which the
//!    same is left to be done, nothing is left that tells them apart: this is
//!    what keeps nested branches from doubling the code each.
//! 4. Patterns become instructions (`generate`, `evaluate`, `lookup`).
//!
//! Steps 2 and 3 are tried with four packets in flight, then three, then two,
//! each time with the smallest II, until there are no more patterns than
//! [`Options::ems_patterns`]. A filter for which that fails, or that computes
//! what is not known to be readable early, has no code of this back end.
//!
//! Two things differ from the paper's Itanium code. A test that decides between
//! two verdicts picks one by a conditional move: nothing depends on it any
//! more, so no history need be kept, and no branch be guessed. And tests in a
//! row whether the same bytes are this or that number are one test.
//!
//! # Invariants
//!
//! * Verdicts are the IR's for every packet: captured lengths are compared
//!   exactly as the IR says, and what is loaded early is looked at only behind
//!   its test. [`checker`] proves for a plan that every packet passes the tests
//!   it should, with its own data, whatever their outcomes.
//! * Of each packet the bytes from its start to [`Ems::reach`] are read,
//!   whatever was captured; no others. Of tables only entries of the batch are.
//! * At most [`Options::ems_patterns`] patterns.
//! * No packet is left to other code, and any count from 1 is taken.
//!
//! # Registers
//!
//! A packet in flight has two registers: where it is, and the data of its next
//! test. Its captured length and its verdict are reached in their tables from
//! the number of the newest packet, less the stages in between. With one
//! register that all share, and the tables, 15 hold four packets. The two are
//! not moved as packets move on: patterns tell apart which packet has which
//! (modulo variable expansion).
//!
//! # Code size
//!
//! A pattern takes 20 to 30 bytes. Their number grows with the filter, and by
//! a factor of three to four with each packet in flight: `ip and tcp` takes 24
//! patterns with two packets in flight, 74 with three, 200 with four; `port
//! 3000` 85, 244 and 939. Beyond some hundred the first-level cache of
//! instructions and the branch predictor lose more than overlap gains.
//!
//! # On an out-of-order processor
//!
//! Itanium issues instructions in the order they have, so that without
//! pipelining every load is waited for. A core that reorders starts the loads
//! of later packets by itself, as far as it has guessed their branches right. A
//! wrong guess throws these loads away, and that is when pipelining helps: the
//! data of the packets in flight is in registers already, so that the next
//! branches are resolved as soon as they are fetched. The cost of the wrong
//! guesses themselves, one or two for a packet in random order, remains. That
//! is why predicated code with vectors is ahead where it applies, and why
//! prefetches, which a wrong guess does not throw away, do more for this code
//! than for that.
//!
//! | module | does |
//! |---|---|
//! | `specialise` | blocks without parameters |
//! | `graph`, `test` | tests, what they look at, where they lead |
//! | `value` | what computing a value takes |
//! | `schedule` | the modulo schedule |
//! | `patterns` | states and code patterns |
//! | `plan` | all of that in turn |
//! | `generate`, `evaluate`, `lookup` | instructions |
//! | `report` | schedule and patterns as text |
//! | [`checker`] | whether patterns do what the filter says |

use forebay_filter::ir::Function;

use crate::code::Options;
use crate::emit::assembler::{Assembler, EncodeError, Label};

pub mod checker;
mod evaluate;
mod generate;
mod graph;
mod lookup;
mod patterns;
mod plan;
mod report;
mod schedule;
mod specialise;
mod test;
#[cfg(test)]
mod tests;
mod value;

pub use plan::Plan;

/// Why a filter has no code of this back end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmsError {
    /// It has loops.
    #[error("control flow with loops")]
    ControlFlow,
    /// Blocks that are entered with different values take more copies than
    /// there may be patterns.
    #[error("its tests of different values take more than {0} copies")]
    Copies(usize),
    /// A value is none that one register of a packet in flight can hold early.
    #[error("value '{0}' cannot be computed ahead of its test")]
    Value(String),
    /// Values take so many registers that no two packets can be in flight.
    #[error("computing its values takes {0} registers beside those of two packets")]
    Registers(usize),
    /// A set of so many constants that no hash function was found for.
    #[error("no hash table was found for its set of {0} constants")]
    Set(usize),
    /// Two packets in flight would take more patterns than allowed.
    #[error("two packets in flight take more than {0} code patterns")]
    Patterns(usize),
    /// A mistake of this back end.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Code for batches of any number of packets.
#[derive(Clone, Debug)]
pub struct Ems {
    /// Where it starts.
    pub entry: Label,
    /// Code patterns.
    pub patterns: usize,
    /// The initiation interval, in cycles.
    pub ii: u32,
    /// Packets in flight.
    pub stages: usize,
    /// Bytes from a packet's start that must be readable, whatever was captured
    /// of it.
    pub reach: usize,
    /// The schedule and the patterns as text, if that was asked for.
    pub report: String,
}

/// Appends code for `function` to `assembler`: a function by the calling
/// convention for any number of packets from 1, that leaves none to others.
///
/// # Errors
/// Why the filter has none; the assembler is then as it was, but for constants.
pub fn compile(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
) -> Result<Ems, EmsError> {
    let plan = Plan::new(function, options)?;
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
