//! Events of a group, for logs and counters.
//!
//! A persistent condition is reported when it begins and when it ends.

use std::collections::HashMap;

use forebay_packet::FlowKey;

use crate::balancer::load::Load;
use crate::balancer::targets::{HEADROOM, SensorShare, Standing};
use crate::balancer::{Decisions, Outlook, Oversize};
use crate::counters::Flows;
use crate::health::Transition;
use crate::moves::{ForwardingTable, Mover};
use crate::watch::MAX_WATCHED;

/// Intervals for which moves must be unable to relieve a sensor before that is reported.
const BOUND_AFTER: u32 = 6;

/// How far over its target a sensor must be for that, as a factor.
const BOUND_OVER: f64 = 1.1;

/// Intervals after which an oversized bucket is reported even if its flow is not known.
const NAMED_WITHIN: u32 = 5;

/// Consecutive intervals in which a bucket must not be oversized before the condition ends:
/// a load that varies about the limit is one condition, not many.
const OVERSIZE_OVER_AFTER: u32 = 10;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The health of a sensor changed. Moves and buckets follow with [`Event::Died`], or
    /// when nothing is left of an earlier death.
    Standing {
        /// Index of the sensor.
        sensor: u16,
        /// From what to what, and why.
        transition: Transition,
    },
    /// All buckets and keys of a sensor are at others now.
    Died {
        /// Index of the sensor.
        sensor: u16,
        /// The number of buckets it had.
        buckets: usize,
        /// Estimated flows it had with a packet within the idle timeout: an upper bound of
        /// those broken. [`Event::Broken`] follows.
        live: u64,
        /// Whether there may be many more: some bucket had more flows than can be counted.
        or_more: bool,
    },
    /// The flows of a dead sensor that continued at others, an idle timeout after its
    /// death.
    Broken {
        /// Index of the sensor.
        sensor: u16,
        /// The estimated number.
        flows: u64,
        /// Whether there may be more: some bucket had more than can be counted, or the
        /// count ended early.
        or_more: bool,
    },
    /// A draining sensor has no flows left.
    Drained {
        /// Index of the sensor.
        sensor: u16,
    },
    /// A move was cancelled, because a key of the bucket could not be recorded.
    Cancelled {
        /// The bucket.
        bucket: u16,
    },
    /// An emergency move has torn flows.
    Torn {
        /// The bucket.
        bucket: u16,
        /// Index of its new sensor.
        to: u16,
        /// How many flows.
        flows: Flows,
    },
    /// A bucket is too large for any sensor.
    Oversize {
        /// The bucket, its load and the limit.
        oversize: Oversize,
        /// The flow with most of its bytes, if known.
        key: Option<FlowKey>,
    },
    /// A bucket is no longer too large.
    OversizeOver {
        /// The bucket.
        bucket: u16,
    },
    /// A sensor is over its target, and moves cannot relieve it, since its flows last.
    Bound {
        /// Index of the sensor.
        sensor: u16,
        /// Its loads and target.
        outlook: Outlook,
    },
    /// The sensor is no longer in that condition.
    BoundOver {
        /// Index of the sensor.
        sensor: u16,
    },
    /// The load is more than all sensors' limits together.
    Overload {
        /// The load.
        load: Load,
        /// The sum of limits; infinite if a sensor has none.
        limit: Load,
    },
    /// The limits suffice again.
    OverloadOver,
}

/// Persistent conditions.
#[derive(Debug, Default)]
pub(super) struct Onsets {
    /// Buckets that are or recently were too large.
    oversize: HashMap<u16, TooBig>,
    /// By sensor: intervals in which it was over its target.
    bound: HashMap<u16, u32>,
    is_overloaded: bool,
}

/// A bucket that is watched because it is too large.
#[derive(Debug, Default)]
struct TooBig {
    /// Intervals, since the watch began, in which it was too large.
    watched: u32,
    /// Consecutive intervals in which it was not.
    below: u32,
    is_told: bool,
}

impl Onsets {
    /// Reports the conditions that began or ended with the last interval.
    pub fn note<P: ForwardingTable>(
        &mut self,
        decisions: &Decisions,
        sensors: &[SensorShare],
        mover: &mut Mover<P>,
        events: &mut Vec<Event>,
    ) {
        self.note_oversize(&decisions.oversize, mover, events);
        self.note_bound(&decisions.outlook, sensors, events);
        self.note_overload(&decisions.outlook, sensors, events);
    }

    /// A bucket that is too large is watched until its flow is known, so that one event
    /// reports both.
    fn note_oversize<P: ForwardingTable>(
        &mut self,
        now: &[Oversize],
        mover: &mut Mover<P>,
        events: &mut Vec<Event>,
    ) {
        self.oversize.retain(|&bucket, known| {
            let is_now = now.iter().any(|oversize| oversize.bucket == bucket);
            known.below = if is_now { 0 } else { known.below + 1 };
            let stays = known.below < OVERSIZE_OVER_AFTER;
            if !stays {
                mover.watch(bucket, false);
                if known.is_told {
                    events.push(Event::OversizeOver { bucket });
                }
            }
            stays
        });
        for &oversize in now {
            let bucket = oversize.bucket;
            let has_room = self.oversize.len() < MAX_WATCHED;
            match self.oversize.get_mut(&bucket) {
                None if has_room => {
                    self.oversize.insert(bucket, TooBig::default());
                    mover.watch(bucket, true);
                }
                Some(known) if !known.is_told => {
                    known.watched += 1;
                    let key = mover.forwarding().leader(bucket).map(|leader| leader.key);
                    known.is_told = key.is_some() || known.watched >= NAMED_WITHIN;
                    if known.is_told {
                        events.push(Event::Oversize { oversize, key });
                    }
                }
                _ => {}
            }
        }
    }

    fn note_bound(
        &mut self,
        outlook: &[Outlook],
        sensors: &[SensorShare],
        events: &mut Vec<Event>,
    ) {
        for ((sensor, outlook), share) in (0..).zip(outlook).zip(sensors) {
            let over = outlook.measured.share_of(outlook.target);
            let lasts = outlook.lasting.share_of(outlook.target) > BOUND_OVER - 1.0;
            let times = self.bound.get(&sensor).copied().unwrap_or(0);
            if share.standing == Standing::Up && lasts && over > BOUND_OVER {
                self.bound.insert(sensor, times.saturating_add(1));
                if times + 1 == BOUND_AFTER {
                    events.push(Event::Bound { sensor, outlook: *outlook });
                }
            } else if self.bound.remove(&sensor).is_some_and(|times| times >= BOUND_AFTER) {
                events.push(Event::BoundOver { sensor });
            }
        }
    }

    fn note_overload(
        &mut self,
        outlook: &[Outlook],
        sensors: &[SensorShare],
        events: &mut Vec<Event>,
    ) {
        let up = || sensors.iter().filter(|sensor| sensor.standing == Standing::Up);
        let limit = up().fold(Load::NONE, |sum, sensor| sum + sensor.limit());
        let load = outlook.iter().fold(Load::NONE, |sum, outlook| sum + outlook.measured);
        let is_over = up().count() > 0 && load.share_of(limit * HEADROOM) > 1.0;
        if is_over && !self.is_overloaded {
            events.push(Event::Overload { load, limit });
        } else if !is_over && self.is_overloaded {
            events.push(Event::OverloadOver);
        }
        self.is_overloaded = is_over;
    }
}
