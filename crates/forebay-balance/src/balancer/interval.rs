//! An interval of the balancer: its input, and its decisions.

use super::load::{Dimension, Load};
use super::targets::SensorShare;
use crate::table::Entry;

/// Input of the balancer for an interval.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The sensors, by index.
    pub sensors: &'a [SensorShare],
    /// Loads by bucket, smoothed over a few intervals.
    pub loads: &'a [Load],
    /// Loads by bucket, of the last interval alone.
    pub latest: &'a [Load],
    /// Table entries by bucket.
    pub entries: &'a [Entry],
    /// By sensor: load that it has although its bucket is elsewhere, minus the load of its
    /// buckets that is elsewhere.
    pub displaced: &'a [Load],
    /// Estimated live flows, by bucket.
    pub flows: &'a [f64],
    /// Whether a move of a bucket may start.
    pub is_movable: &'a dyn Fn(u16) -> bool,
    /// The most moves that may start.
    pub moves: usize,
    /// The most flows that may be recorded.
    pub keys: f64,
}

/// A move to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// The bucket.
    pub bucket: u16,
    /// Index of the new sensor.
    pub to: u16,
    /// Immediate, tearing its flows.
    pub emergency: bool,
}

/// The loads of a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Outlook {
    /// The target.
    pub target: Load,
    /// The measured load.
    pub measured: Load,
    /// The load once all moves have taken effect.
    pub expected: Load,
    /// The part of the expected load from flows that stay there, do not end, and cannot be
    /// moved. Negative if flows of its buckets stay elsewhere.
    pub lasting: Load,
}

/// A bucket too large for any sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Oversize {
    /// The bucket.
    pub bucket: u16,
    /// Its load.
    pub load: Load,
    /// The dimension in which it is too large.
    pub dimension: Dimension,
    /// The greatest target of a sensor in that dimension.
    pub most: f64,
}

/// The decisions of an interval.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Decisions {
    /// Moves to start, most urgent first.
    pub moves: Vec<PlannedMove>,
    /// The loads of the sensors, by index.
    pub outlook: Vec<Outlook>,
    /// Buckets too large for any sensor.
    pub oversize: Vec<Oversize>,
}
