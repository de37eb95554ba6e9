//! Traffic that counts itself: every frame carries its flow's number and its own number
//! within the flow, so that whoever receives it can say exactly what was lost, doubled,
//! reordered, or torn apart.
//!
//! [`Probes`] makes the frames, [`Tracker`] judges what arrives. The frames are UDP over
//! IPv4 and large enough for their numbers in 60 bytes, the shortest that Ethernet
//! carries (64 with the frame check sequence).

mod batch;
mod frame;
mod tracker;
mod traffic;

pub use batch::ProbeBatches;
pub use frame::{MIN_FRAME, Probe, ProbeFrame};
pub use tracker::{FlowAccount, Tally, Tracker};
pub use traffic::{Life, ProbeError, ProbeOptions, Probes};
