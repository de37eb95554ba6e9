//! What a sensor can take in 100 ms, shared by all workers.
//!
//! Time is divided into slots of 1/128 of the window. What is sent in 129 slots in a row is
//! within the limit of a window, and any window touches at most 129 slots. So every window is
//! within the limit, wherever it begins, and the limit is too strict by at most a slot.
//!
//! A worker reserves the packets of a whole batch with one addition, and gives back what it does
//! not send. Between the two, other workers find less room than there is, never more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Shed;
use crate::policy::Count;

/// The time over which a limit holds, in nanoseconds.
pub const WINDOW: u64 = 100_000_000;

/// Windows of a second, and slots of a window.
const PARTS: u64 = 128;
const WINDOWS: u64 = 1_000_000_000 / WINDOW;
const SLOT: u64 = WINDOW / PARTS;
/// Slots that a window touches at most.
const SLOTS: usize = PARTS as usize + 1;

/// Bits of a slot's count; those above are the low bits of its number.
const COUNT_BITS: u32 = 40;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const NUMBERS: u64 = 1 << (u64::BITS - COUNT_BITS);

/// The highest rate, above that of any link; the counts of its slots fit their bits.
const MOST: u64 = 1 << 40;

/// The least limits a second with a policy: with less, a window has no room for a few packets.
pub const LEAST_PPS: u64 = 1_000;
/// As [`LEAST_PPS`], of bits.
pub const LEAST_BPS: u64 = 1_000_000;

/// The most packets and bits a second that a sensor takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rates {
    /// Packets a second, if they are limited.
    pub pps: Option<u64>,
    /// Bits a second, if they are limited.
    pub bps: Option<u64>,
}

/// A count over the slots of a window.
#[derive(Debug)]
struct Sliding {
    sum: AtomicU64,
    slots: [AtomicU64; SLOTS],
}

impl Default for Sliding {
    fn default() -> Self {
        Self { sum: AtomicU64::new(0), slots: [const { AtomicU64::new(0) }; SLOTS] }
    }
}

impl Sliding {
    /// Adds to the sum, not yet to a slot; returns the sum before.
    fn reserve(&self, count: u64) -> u64 {
        self.sum.fetch_add(count, Ordering::AcqRel)
    }

    fn give_back(&self, count: u64) {
        self.sum.fetch_sub(count, Ordering::AcqRel);
    }

    /// Adds what was reserved to a slot, and gives back what its entry has of a slot before the
    /// window. `latest` is the latest slot of any worker. What is to be counted in a slot before
    /// the window, as its worker was suspended, is counted in the latest.
    fn assign(&self, latest: &AtomicU64, slot: u64, count: u64) {
        let ring = SLOTS as u64;
        let now = latest.load(Ordering::Acquire);
        let slot = if slot + ring <= now { now } else { slot };
        let renewed = |entry: u64| {
            // A worker that renews an entry has set the latest slot before.
            let now = latest.load(Ordering::Acquire);
            let tag = (now - (now - slot) % ring) % NUMBERS;
            if entry >> COUNT_BITS == tag { entry + count } else { tag << COUNT_BITS | count }
        };
        let entry = &self.slots[(slot % ring) as usize];
        let mut old = entry.load(Ordering::Acquire);
        loop {
            let new = renewed(old);
            match entry.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if new >> COUNT_BITS != old >> COUNT_BITS => {
                    return self.give_back(old & COUNT);
                }
                Ok(_) => return,
                Err(other) => old = other,
            }
        }
    }
}

/// A limit of packets or of bytes.
#[derive(Debug)]
struct Meter {
    /// In a window.
    limit: AtomicU64,
    sent: Sliding,
    offered: Sliding,
}

impl Meter {
    fn new(limit: u64) -> Self {
        Self { limit: limit.into(), sent: Sliding::default(), offered: Sliding::default() }
    }

    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Counts what is offered; returns all that is offered in the window.
    fn offer(&self, latest: &AtomicU64, slot: u64, count: u64) -> u64 {
        let before = self.offered.reserve(count);
        self.offered.assign(latest, slot, count);
        before.saturating_add(count)
    }

    /// Reserves as much of `wanted` as there is room for. Returns it, and the room before.
    fn reserve(&self, wanted: u64) -> (u64, u64) {
        let room = self.limit().saturating_sub(self.sent.reserve(wanted));
        let granted = wanted.min(room);
        self.sent.give_back(wanted - granted);
        (granted, room)
    }

    /// Of what was reserved, `sent` is sent, and the rest is free again.
    fn settle(&self, latest: &AtomicU64, slot: u64, granted: u64, sent: u64) {
        self.sent.give_back(granted - sent);
        self.sent.assign(latest, slot, sent);
    }

    /// A slot begins, and another ends to be in the window.
    fn begin(&self, latest: &AtomicU64, slot: u64) {
        self.sent.assign(latest, slot, 0);
        self.offered.assign(latest, slot, 0);
    }
}

/// What is offered in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    /// The slot that it is counted in.
    pub slot: u64,
    /// It is within the limit.
    pub is_within: bool,
    /// It is near the limit, or above it.
    pub is_near: bool,
}

/// Room for packets and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// What is reserved; without end where there is no limit.
    pub granted: [u64; 2],
    /// There was more than the part that is kept for flows under way.
    pub is_ample: bool,
}

/// The limit of a sensor, for any number of workers.
#[derive(Debug)]
pub struct Limit {
    /// The latest slot of any worker.
    slot: AtomicU64,
    /// Of packets and of bytes.
    meters: [Option<Meter>; 2],
    /// What was ever offered, by [`Limit::cost`], modulo 2^64.
    total: AtomicU64,
    /// Packets that were shed, in the order of [`Shed::ALL`].
    shed: Arc<[AtomicU64; Shed::ALL.len()]>,
}

impl Limit {
    /// The cost of all that is within a single limit of a window.
    pub(super) const COST: u64 = 1 << 40;

    /// Of the limit, the part that only flows under way may use is one in this many.
    const RESERVE: u64 = 64;

    /// A limit of at least one packet or byte a window.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        let meter = |rate: u64, unit: u64| Meter::new((rate.min(MOST) / unit).max(1));
        let packets = rates.pps.map(|rate| meter(rate, WINDOWS));
        let bytes = rates.bps.map(|rate| meter(rate, WINDOWS * 8));
        let (slot, total) = (AtomicU64::new(0), AtomicU64::new(0));
        let shed = Arc::new([const { AtomicU64::new(0) }; Shed::ALL.len()]);
        Self { slot, meters: [packets, bytes], total, shed }
    }

    /// A limit that takes the place of this one. Both count what they shed together.
    #[must_use]
    pub fn replacement(&self, rates: Rates) -> Self {
        Self { shed: Arc::clone(&self.shed), ..Self::new(rates) }
    }

    /// Packets and bytes of a window.
    pub(super) fn per_window(&self) -> [Option<u64>; 2] {
        self.meters.each_ref().map(|meter| meter.as_ref().map(Meter::limit))
    }

    /// Packets that were shed, in the order of [`Shed::ALL`].
    #[must_use]
    pub fn shed(&self) -> [u64; Shed::ALL.len()] {
        self.shed.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Counts packets that were shed.
    pub(super) fn count_shed(&self, shed: &[u64; Shed::ALL.len()]) {
        for (count, &packets) in self.shed.iter().zip(shed).filter(|(_, packets)| **packets > 0) {
            count.fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// The limit of packets a second, if there is one.
    #[must_use]
    pub fn pps(&self) -> Option<u64> {
        let [packets, _] = self.per_window();
        packets.filter(|&packets| packets < MOST / WINDOWS).map(|packets| packets * WINDOWS)
    }

    /// Changes the limit of packets, if there is one.
    pub fn set_pps(&self, pps: u64) {
        if let Some(packets) = &self.meters[0] {
            packets.limit.store((pps.min(MOST) / WINDOWS).max(1), Ordering::Relaxed);
        }
    }

    /// The part of a window's limit that packets take, in parts of [`Limit::COST`]: of both
    /// limits together, if there are two.
    pub(super) fn cost(&self, count: Count) -> u64 {
        let parts = self.per_window().into_iter().zip(parts(count));
        let costs =
            parts.filter_map(|(limit, part)| Some(part.saturating_mul(Self::COST / limit?)));
        costs.fold(0, u64::saturating_add)
    }

    /// All that was ever offered, by [`Limit::cost`], modulo 2^64.
    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts what is offered at `now`. A worker whose time is behind that of others is counted
    /// with them, as what it sends is not sent before.
    pub(super) fn offer(&self, now: u64, count: Count) -> Offered {
        let slot = now / SLOT;
        let before = self.slot.fetch_max(slot, Ordering::AcqRel);
        let first = (before + 1).max((slot + 1).saturating_sub(SLOTS as u64));
        for begun in first..=slot {
            self.meters.iter().flatten().for_each(|meter| meter.begin(&self.slot, begun));
        }
        self.total.fetch_add(self.cost(count), Ordering::Relaxed);
        let mut offered = Offered { slot: slot.max(before), is_within: true, is_near: false };
        for (meter, part) in self.meters.iter().zip(parts(count)) {
            let Some(meter) = meter else { continue };
            let (all, limit) = (meter.offer(&self.slot, offered.slot, part), meter.limit());
            offered.is_within &= all <= limit;
            offered.is_near |= all > limit / 4 * 3;
        }
        offered
    }

    /// Reserves room, as far as there is any.
    pub(super) fn reserve(&self, wanted: Count) -> Room {
        let mut room = Room { granted: [u64::MAX; 2], is_ample: true };
        let meters = self.meters.iter().zip(parts(wanted)).zip(&mut room.granted);
        for ((meter, wanted), granted) in meters {
            let Some(meter) = meter else { continue };
            let free;
            (*granted, free) = meter.reserve(wanted);
            room.is_ample &= free > meter.limit() / Self::RESERVE;
        }
        room
    }

    /// Of what was reserved, counts what is sent, and gives the rest back.
    pub(super) fn settle(&self, slot: u64, room: &Room, sent: Count) {
        let meters = self.meters.iter().zip(room.granted).zip(parts(sent));
        for ((meter, granted), sent) in meters {
            meter.iter().for_each(|meter| meter.settle(&self.slot, slot, granted, sent));
        }
    }
}

/// Packets and bytes.
pub(super) fn parts(count: Count) -> [u64; 2] {
    [count.packets, count.bytes]
}
