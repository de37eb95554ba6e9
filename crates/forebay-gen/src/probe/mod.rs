//! Self-counting traffic: every frame has its flow's number and its own number within the
//! flow, so that a receiver can determine exactly what was lost, duplicated, reordered, or
//! torn.
//!
//! [`Probes`] generates the frames, [`Tracker`] evaluates those received. The frames are
//! UDP over IPv4, with their numbers within 60 bytes, the shortest Ethernet frame (64 with
//! the frame check sequence).

mod batch;
mod frame;
mod tracker;
mod traffic;

pub use batch::ProbeBatches;
pub use frame::{MIN_FRAME, Probe, ProbeFrame};
pub use tracker::{FlowAccount, Tally, Tracker};
pub use traffic::{Life, ProbeError, ProbeOptions, Probes};
