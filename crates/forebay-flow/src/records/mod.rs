//! Records of flows of any kind: packets and bytes either way, first and last time, how each
//! ended.
//!
//! [`FlowTable`] finds a packet's record by an index: 12 bits of hash for a place
//! and 32 for a comparison; keys are compared whole, in the record. All packets of a batch are
//! hashed first, their places and then their records fetched ahead, and only then are they
//! counted, so that a packet waits neither for its own nor for another packet's memory.

mod ahead;
mod chunks;
mod index;
mod record;
mod slab;
mod table;

pub use record::{DirectionCounts, EndReason, FlowRecord};
pub use table::{Counted, FlowTable, OnFull, RecordOptions};
