//! Back end `ems`: enhanced modulo scheduling.
//!
//! placeholder
use forebay_filter::ir::Function;

use crate::code::Options;
use crate::emit::assembler::{Assembler, EncodeError, Label};
pub use plan::Plan;

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
    /// The schedule and the patterns as text.
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
    let names = report::names(&plan);
    let start = assembler.position();
    let entry = generate::generate(&plan, &names, options, assembler)?;
    let bytes = assembler.position() - start;
    Ok(Ems {
        entry,
        patterns: plan.patterns.len(),
        ii: plan.schedule.ii,
        stages: plan.schedule.stages,
        reach: plan.reach as usize,
        report: report::report(&plan, &names, bytes),
    })
}
