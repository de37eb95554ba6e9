//! Scheduling of loops: from a [`LoopBody`](crate::mir::LoopBody) to code with physical registers.
//!
//! Steps, each a module: ops that overwrite an operand get copies where that
//! operand is still needed ([`ties`]); dependences ([`ddg`]) and units
//! ([`resources`]) give the least II; iterative modulo scheduling ([`modulo`])
//! finds a schedule at that II or, for want of registers, above, in which lifetimes are then
//! shortened ([`shorten`]); registers are allocated ([`crate::regalloc`]);
//! prologue, kernel and epilogue are laid out ([`expand`]). Iterations that do
//! not fill the pipeline, or whose lookahead exceeds the batch, run one by one,
//! in a list schedule ([`list`]).
//!
//! If registers do not suffice, the scheduler assumes shorter latencies, first
//! for loads and then for all ops, so that iterations are shorter and fewer
//! overlap, and at last increases the II (`search`). A loop that cannot be
//! pipelined at all stays list-scheduled, or in the order of selection.
//!
//! [`checker`] verifies a result without any of these, and [`report`] prints
//! it.

pub mod checker;
pub mod ddg;
pub mod expand;
pub mod list;
pub mod modulo;
pub mod report;
pub mod resources;
#[cfg(test)]
pub(crate) mod samples;
mod schedule;
mod scheduled_loop;
mod search;
pub mod shorten;
#[cfg(test)]
mod tests;
pub mod ties;
pub mod values;

pub use ddg::Latencies;
pub use schedule::{LinearOrder, Schedule};
pub use scheduled_loop::{Options, ScheduledLoop, schedule_loop};
pub use search::{Bounds, Pipelined, Placed};
