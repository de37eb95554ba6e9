//! Which packets a sensor that is offered more than its limit does not get.
//!
//! A [`Limit`] is what the sensor takes in any 100 ms. It is shared by all workers of a broker;
//! each has a [`Shedder`] for the sensor. As long as what is offered in 100 ms is within the
//! limit, everything passes. Beyond it, an [`OnOverload`] policy decides, and what would exceed
//! the limit even so is shed as `shed_limit`.
//!
//! A flow has two bytes of state, which belong to the policy. 0 is a new flow's.

mod estimate;
mod limit;
mod virtual_link;
mod whole_flows;

use std::sync::Arc;

pub use estimate::{LimitEstimate, SensorReport};
pub use limit::{LEAST_BPS, LEAST_PPS, Limit, Rates, WINDOW};

use crate::policy::{Count, PolicyError};
use limit::{Room, parts};
use virtual_link::VirtualLink;
use whole_flows::WholeFlows;

/// Nanoseconds between two estimates of loads.
const INTERVAL: u64 = WINDOW / 10;

/// What is kept of a load at each estimate: the mean age of what is counted is 80 ms.
const KEPT: f64 = 7.0 / 8.0;

/// From the sum of a load that decays so to the load of a window.
const TO_WINDOW: f64 = (1.0 - KEPT) * (WINDOW / INTERVAL) as f64;

/// What decides which packets are shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnOverload {
    /// Nothing is.
    #[default]
    None,
    /// Core-stateless fair queueing: each flow has the same rate at most.
    Fair,
    /// Random early detection: every flow loses the same part.
    Red,
    /// Deficit round robin: each flow has the same rate at most, exactly.
    Drr,
    /// As few flows as possible lose anything: new ones are refused whole, the longest are cut.
    WholeFlows,
}

impl OnOverload {
    /// All policies.
    pub const ALL: [Self; 5] = [Self::None, Self::Fair, Self::Red, Self::Drr, Self::WholeFlows];

    /// The name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fair => "fair",
            Self::Red => "red",
            Self::Drr => "drr",
            Self::WholeFlows => "whole-flows",
        }
    }
}

/// Why a packet was shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// Whole flows: the flow is longer than there is room for, and was cut.
    Tail,
    /// Whole flows: the flow began when there was no room for new ones.
    NewFlow,
    /// Fair: the flow has more than its share.
    Fair,
    /// Red: by chance, as a queue would be long.
    Red,
    /// Deficit round robin: the flow has most of the queue that there would be, or had, and
    /// makes up for it.
    Drr,
    /// The limit.
    Limit,
}

impl Shed {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Tail, Self::NewFlow, Self::Fair, Self::Red, Self::Drr, Self::Limit];

    /// The name in ledgers.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The names in ledgers, in the order of [`Shed::ALL`].
    pub const NAMES: [&'static str; 6] =
        ["shed_tail", "shed_new_flow", "shed_fair", "shed_red", "shed_drr", "shed_limit"];
}

/// A packet on its way to a sensor.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The number of its flow.
    pub flow: u32,
    /// Its length in bytes.
    pub len: u32,
    /// What came of its flow before. It may be more than did: a batch's packets may be counted
    /// together.
    pub prior: Count,
    /// It is of the first batch with packets of its flow.
    pub is_first: bool,
    /// It ends a connection: TCP's FIN or RST.
    pub is_end: bool,
    /// Its flow is suspect: whole-flows sheds others first.
    pub is_suspect: bool,
    /// The rate of its flow in bits a second by its label, if it has one: fair queueing decides
    /// by it, and does not estimate the rate.
    pub label: Option<f64>,
}

#[derive(Debug)]
enum Policy {
    Whole(Box<WholeFlows>),
    Link(Box<VirtualLink>),
}

/// What a worker sheds of the packets to one sensor.
#[derive(Debug)]
pub struct Shedder {
    limit: Arc<Limit>,
    policy: Option<Policy>,
    share: Share,
    slot: u64,
    room: Room,
    sent: Count,
    /// What the batch still has of suspect flows: others leave it its room.
    suspect: Count,
    /// Packets of the batch that were shed, in the order of [`Shed::ALL`].
    shed: [u64; Shed::ALL.len()],
    is_over: bool,
}

impl Shedder {
    /// Of a worker that has sent nothing yet. Equal seeds give equal decisions; with different
    /// ones, a state that another shedder left is most likely taken for a new flow's.
    ///
    /// # Errors
    /// A limit that the policy cannot have.
    pub fn new(limit: Arc<Limit>, policy: OnOverload, seed: u64) -> Result<Self, PolicyError> {
        let policy = match policy {
            OnOverload::None => None,
            OnOverload::WholeFlows => Some(Policy::Whole(Box::new(WholeFlows::new(seed)))),
            OnOverload::Fair | OnOverload::Red | OnOverload::Drr => {
                let link = VirtualLink::new(policy, limit.per_window(), seed)?;
                Some(Policy::Link(Box::new(link)))
            }
        };
        Ok(Self {
            limit,
            policy,
            share: Share::default(),
            slot: 0,
            room: Room::default(),
            sent: Count::default(),
            suspect: Count::default(),
            shed: [0; Shed::ALL.len()],
            is_over: false,
        })
    }

    /// A batch of which `offered` is for the sensor begins at `now` of a monotonic clock, in
    /// nanoseconds. False if all of it passes, and [`Shedder::packet`] need not be called for
    /// it.
    pub fn begin(&mut self, now: u64, offered: Count) -> bool {
        let Some(policy) = &mut self.policy else { return false };
        let load = self.limit.offer(now, offered);
        self.room = self.limit.reserve(offered);
        (self.slot, self.sent, self.suspect) = (load.slot, Count::default(), Count::default());
        let has_room = parts(offered).iter().zip(self.room.granted).all(|(&all, room)| all <= room);
        self.is_over = !(load.is_within && has_room);
        let share = self.share.count(now, self.limit.cost(offered), &self.limit);
        match policy {
            Policy::Whole(whole) => whole.begin(now, &self.limit, share, self.is_over),
            Policy::Link(link) => link.begin(now, &self.limit, share, self.is_over),
        }
        if !load.is_near && !self.is_over {
            self.limit.settle(self.slot, &self.room, offered);
            return false;
        }
        true
    }

    /// Says how much of the batch is of suspect flows, after [`Shedder::begin`] has returned true.
    pub fn expect_suspect(&mut self, suspect: Count) {
        self.suspect = suspect;
    }

    /// Decides on a packet of the batch. `state` is its flow's.
    pub fn packet(&mut self, packet: &Arrival, state: &mut u16) -> Option<Shed> {
        let fits = self.fits(packet.len, packet.is_suspect);
        let shed = match self.policy.as_mut()? {
            Policy::Whole(whole) => {
                let room = fits.then_some(self.room.is_ample);
                whole.packet(packet, state, room, &self.limit)
            }
            Policy::Link(link) => link.packet(packet, state),
        };
        self.settle(packet.len, shed.or((!fits).then_some(Shed::Limit)))
    }

    /// Decides on a packet that is of no flow a policy could choose: it passes as long as there is
    /// room.
    pub fn other(&mut self, len: u32, is_suspect: bool) -> Option<Shed> {
        let fits = self.fits(len, is_suspect);
        match &mut self.policy {
            Some(Policy::Whole(whole)) if fits => {
                whole.other(Count::of(len), is_suspect, &self.limit);
            }
            Some(Policy::Link(link)) if fits => link.other(len),
            _ => {}
        }
        self.settle(len, (!fits).then_some(Shed::Limit))
    }

    /// Whether there is room for a packet. Where whole suspect flows come first, room is kept for
    /// those that are still to come of the batch.
    fn fits(&mut self, len: u32, is_suspect: bool) -> bool {
        let len = Count::of(len);
        if is_suspect {
            self.suspect = Count {
                packets: self.suspect.packets.saturating_sub(1),
                bytes: self.suspect.bytes.saturating_sub(len.bytes),
            };
        }
        let keeps = matches!(&self.policy, Some(Policy::Whole(whole)) if whole.suspect_fit());
        let kept = if keeps && !is_suspect { self.suspect } else { Count::default() };
        let after = parts(self.sent + len + kept);
        after.iter().zip(self.room.granted).all(|(&all, room)| all <= room)
    }

    /// Counts a packet that is to be shed, or passes. Without an overload all do.
    fn settle(&mut self, len: u32, shed: Option<Shed>) -> Option<Shed> {
        let shed = shed.filter(|_| self.is_over);
        match shed {
            Some(shed) => self.shed[shed as usize] += 1,
            None => self.sent += Count::of(len),
        }
        shed
    }

    /// The most that passes now of a flow with packets of so many bytes, in bits a second. What
    /// passes of a flow with a higher label has this one. None where no flow is limited to a rate.
    #[must_use]
    pub fn fair_rate(&self, len: u32) -> Option<f64> {
        match self.policy.as_ref().filter(|_| self.is_over)? {
            Policy::Whole(_) => None,
            Policy::Link(link) => link.fair_rate(len),
        }
    }

    /// The batch has ended, for which [`Shedder::begin`] returned true. Returns how many of its
    /// packets were shed, in the order of [`Shed::ALL`].
    pub fn end(&mut self) -> [u64; Shed::ALL.len()] {
        self.limit.settle(self.slot, &self.room, self.sent);
        let shed = std::mem::take(&mut self.shed);
        self.limit.count_shed(&shed);
        shed
    }
}

/// The part of a sensor's load that comes from one worker.
#[derive(Debug)]
struct Share {
    /// When the last interval ended.
    at: u64,
    own: f64,
    all: f64,
    counted: u64,
    total: u64,
    share: f64,
}

impl Default for Share {
    fn default() -> Self {
        Self { at: 0, own: 0.0, all: 0.0, counted: 0, total: 0, share: 1.0 }
    }
}

impl Share {
    /// The least part: a worker with less has room for a few packets even so.
    const LEAST: f64 = 1.0 / 64.0;

    /// Intervals after which the share is estimated anew.
    const MOST_INTERVALS: u64 = 8;

    /// Counts what is offered; returns the share.
    fn count(&mut self, now: u64, cost: u64, limit: &Limit) -> f64 {
        self.counted = self.counted.wrapping_add(cost);
        let intervals = now.saturating_sub(self.at) / INTERVAL;
        if intervals > 0 {
            let total = limit.total();
            if intervals > Self::MOST_INTERVALS {
                // What others had in a pause of this worker says nothing of the load now.
                *self = Self { at: now, total, ..Self::default() };
                return self.share;
            }
            let kept = KEPT.powi(intervals as i32);
            self.own = self.own * kept + self.counted as f64;
            self.all = self.all * kept + total.wrapping_sub(self.total) as f64;
            (self.at, self.total, self.counted) = (now, total, 0);
            self.share = (self.own / self.all.max(1.0)).clamp(Self::LEAST, 1.0);
        }
        self.share
    }
}
