//! What happens in a group, for logs and counters.
//!
//! Conditions that last are told when they begin and when they end.

use std::collections::HashMap;

use forebay_packet::FlowKey;

use crate::balancer::load::Load;
use crate::balancer::targets::{HEADROOM, SensorShare, Standing};
use crate::balancer::{Outlook, Oversize, Plan};
use crate::counters::Flows;
use crate::health::Transition;
use crate::moves::{ForwardingTable, Mover};
use crate::watch::MAX_WATCHED;

/// Intervals that a sensor must be over what moves can do before it is told.
const BOUND_AFTER: u32 = 6;

/// How far over its target a sensor is that needs telling.
const BOUND_OVER: f64 = 1.1;

/// Intervals after which a bucket that is too big is told even if its flow is not known.
const NAMED_WITHIN: u32 = 5;

/// Intervals in a row that a bucket must not be too big before that is over: a load about
/// the limit is one condition, not many.
const OVERSIZE_OVER_AFTER: u32 = 10;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What is known of a sensor's health says otherwise now. Moves and buckets follow with
    /// [`Event::Died`], or when nothing is left of an earlier death.
    Standing {
        /// Index of the sensor.
        sensor: u16,
        /// From what to what, and why.
        transition: Transition,
    },
    /// All that a sensor had is with others now.
    Died {
        /// Index of the sensor.
        sensor: u16,
        /// How many buckets it had.
        buckets: usize,
        /// About how many flows it had that had a packet within the idle timeout: no more
        /// can be broken. [`Event::Broken`] follows.
        live: u64,
        /// Whether there may be many more: some bucket had more than can be counted.
        or_more: bool,
    },
    /// The flows of a dead sensor that went on at others, an idle timeout after its death.
    Broken {
        /// Index of the sensor.
        sensor: u16,
        /// About how many.
        flows: u64,
        /// Whether there may be more: some bucket had more than can be counted, or the count
        /// ended early.
        or_more: bool,
    },
    /// A draining sensor has nothing left.
    Drained {
        /// Index of the sensor.
        sensor: u16,
    },
    /// A move was cancelled, because there was no room to record a key of the bucket.
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
    /// A bucket is too big for any sensor.
    Oversize {
        /// Which, and how big.
        oversize: Oversize,
        /// The flow with most of its bytes, if one has been seen.
        key: Option<FlowKey>,
    },
    /// A bucket is not too big any more.
    OversizeOver {
        /// The bucket.
        bucket: u16,
    },
    /// A sensor carries more than it should, and moves cannot help: its flows last.
    Bound {
        /// Index of the sensor.
        sensor: u16,
        /// What it carries, and what it should.
        outlook: Outlook,
    },
    /// A sensor is not bound any more.
    BoundOver {
        /// Index of the sensor.
        sensor: u16,
    },
    /// The load is more than all sensors' limits together.
    Overload {
        /// The load.
        load: Load,
        /// The limits together; infinite where a sensor has none.
        limit: Load,
    },
    /// The limits are enough again.
    OverloadOver,
}

/// The conditions that last.
#[derive(Debug, Default)]
pub(super) struct Onsets {
    /// Buckets that are too big, or were a while ago.
    oversize: HashMap<u16, TooBig>,
    /// Intervals that sensors were over.
    bound: HashMap<u16, u32>,
    is_overloaded: bool,
}

/// A bucket that is watched because it is too big.
#[derive(Debug, Default)]
struct TooBig {
    /// Intervals since its watch began in which it was too big.
    watched: u32,
    /// Intervals in a row in which it was not.
    below: u32,
    is_told: bool,
}

impl Onsets {
    /// Tells what has begun and ended with the last interval.
    pub fn note<P: ForwardingTable>(
        &mut self,
        plan: &Plan,
        sensors: &[SensorShare],
        mover: &mut Mover<P>,
        events: &mut Vec<Event>,
    ) {
        self.note_oversize(&plan.oversize, mover, events);
        self.note_bound(&plan.outlook, sensors, events);
        self.note_overload(&plan.outlook, sensors, events);
    }

    /// A bucket that is too big is watched until its flow can be named, so that one event
    /// tells of both.
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
