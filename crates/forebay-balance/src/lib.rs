//! Which sensor a packet goes to.
//!
//! The keyed hash of a flow picks one of [`BUCKETS`] buckets, and a table says
//! which sensor each bucket belongs to ([`Assignment`]). Balancing moves buckets,
//! never single packets, so a flow has one sensor at any time.
//!
//! The crate knows hashes and sensors. It does not know packets, files or threads.
#![forbid(unsafe_code)]

mod assign;
mod imbalance;

pub use assign::{Assignment, AssignmentError, BUCKETS, MAX_SENSORS, Sensor, bucket_of};
pub use imbalance::{max_over_mean, random_imbalance};
