//! Which sensor a packet goes to.
//!
//! The keyed hash of a flow picks one of [`BUCKETS`] buckets, and a table says
//! which sensor each bucket belongs to. Balancing moves buckets, never single packets,
//! so a flow has one sensor at any time.
//!
//! * For a capture, an [`Assignment`] is all there is, or a [`UnitAssignment`] where its
//!   loads were counted before ([`UnitLoads`]).
//! * For live traffic, a [`Group`] of sensors has workers that share a table and count
//!   ([`moves::Worker`]), and a manager ([`Group`]) that is called now and then: it
//!   knows the sensors' health ([`health`]), decides which buckets move
//!   ([`balancer`]), and moves them without tearing a flow ([`moves`]).
//!
//! The crate knows hashes and sensors. It does not know packets, files, threads or
//! clocks: what time it is, it is told.
#![forbid(unsafe_code)]

mod assign;
pub mod balancer;
mod counters;
mod group;
pub mod health;
mod imbalance;
mod largest_first;
pub mod moves;
mod table;
mod watch;

pub use assign::{Assignment, AssignmentError, BUCKETS, MAX_SENSORS, Sensor, bucket_of};
pub use counters::{BucketCounters, FlowMarks, Flows, Tally};
pub use group::{Event, Group, GroupSettings, SensorSettings, SensorStatus};
pub use imbalance::{max_over_mean, random_imbalance};
pub use largest_first::{MOST_UNITS, UnitAssignment, UnitLoads, UnitSummary};
pub use table::{BucketTable, Entry, NO_SENSOR, Phase};
pub use watch::{Candidate, MAX_WATCHED, Watchers};
