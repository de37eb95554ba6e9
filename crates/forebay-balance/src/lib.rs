//! Assigns packets to sensors.
//!
//! The keyed hash of a flow selects one of [`BUCKETS`] buckets, and a table assigns each
//! bucket to a sensor. Balancing moves buckets, never single packets, so a flow has one
//! sensor at any time.
//!
//! * For a capture, an [`Assignment`] suffices, or a [`UnitAssignment`] if loads were
//!   counted first ([`UnitLoads`]).
//! * For live traffic, a [`Group`] of sensors has workers that share a table and count
//!   ([`moves::Worker`]), and a manager ([`Group`]) that is called periodically: it tracks
//!   the sensors' health ([`health`]), decides which buckets move ([`balancer`]), and moves
//!   them without tearing a flow ([`moves`]).
//!
//! The crate depends on hashes and sensors only, not on packets, files, threads or clocks:
//! callers pass the time.
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
