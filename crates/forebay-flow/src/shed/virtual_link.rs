//! Policies for a link, put to work without one.
//!
//! Packets are never delayed: they pass a link in thought, of a little less than the limit's
//! rate and with a buffer for the rest of a window, and those that it would drop are shed. What
//! such a link lets pass in any window is within the limit.
//!
//! RED and CSFQ decide when a packet arrives. DRR makes room by a packet of the longest queue;
//! that packet has already gone, so its flow owes its bytes, and the flow's next packets are shed
//! instead, until they make up for it.
//!
//! A worker's link has the full rate. Packets are longer there by the inverse of the worker's
//! share in the load.

use super::limit::Limit;
use super::{Arrival, OnOverload, Shed, WINDOW};
use crate::policy::{
    Bottleneck, CsfqOptions, DrrOptions, Ecn, LinkOptions, Packet, Policy, PolicyError, RedOptions,
    Verdict,
};

/// The part of the limit that is the link's rate; the rest is its buffer.
const RATE: f64 = 0.95;

/// The highest rate of a link in bits a second. A limit above it is not reached.
const MOST_RATE: u64 = 1_000_000_000_000;

/// The most bytes of a buffer.
const MOST_BUFFER: f64 = (1 << 30) as f64;

/// Windows of a second.
const WINDOWS: f64 = (1_000_000_000 / WINDOW) as f64;

/// The length of a packet where only packets are limited, and the longest in a link.
const PACKET: f64 = 64.0;
const MOST_LEN: f64 = 65_535.0;

/// Packets for which the buffer has room at least, and their length where bytes are limited.
const PACKETS: f64 = 16.0;
const TYPICAL: f64 = 1_514.0;

/// Queues of DRR: flows whose numbers are equal modulo this share one. Another is that of packets
/// of no flow.
const QUEUES: u32 = 1 << 12;

/// By how much the limits may change before the link is made anew, which forgets the rates of all
/// flows. Until then, packets are longer or shorter there.
const CHANGE: f64 = 4.0;

#[derive(Debug)]
pub(super) struct VirtualLink {
    policy: OnOverload,
    seed: u64,
    /// The limits that the link was made for.
    limits: [Option<u64>; 2],
    link: Bottleneck,
    shed: Shed,
    /// The least bytes that a packet counts for, and the number for each of its bytes.
    least: f64,
    each: f64,
    /// Of DRR: what flows owe, by their numbers here.
    owed: Vec<u32>,
    now: u64,
    stretch: f64,
    is_over: bool,
}

impl VirtualLink {
    /// A link for limits of packets and bytes a window.
    pub(super) fn new(
        on_overload: OnOverload,
        limits: [Option<u64>; 2],
        seed: u64,
    ) -> Result<Self, PolicyError> {
        let [packets, bytes] = limits.map(|limit| limit.map(|limit| limit as f64));
        // Bytes a window, and how many of them a packet takes, at least.
        let (window, least, each) = match (packets, bytes) {
            (packets, Some(bytes)) => (bytes, packets.map_or(0.0, |packets| bytes / packets), 1.0),
            (Some(packets), None) => (packets * PACKET, PACKET, 0.0),
            (None, None) => return Err(PolicyError::Rate(u64::MAX)),
        };
        let least_buffer = PACKETS * if each > 0.0 { TYPICAL.max(least) } else { least };
        let buffer = ((1.0 - RATE) * window).max(least_buffer).min(MOST_BUFFER) as u64;
        let rate = ((RATE * window * WINDOWS * 8.0) as u64).min(MOST_RATE);
        let (policy, shed) = match on_overload {
            OnOverload::Red => (Policy::Red(RedOptions::for_buffer(buffer)), Shed::Red),
            OnOverload::Drr => (Policy::Drr(DrrOptions::default()), Shed::Drr),
            _ => (Policy::Csfq(CsfqOptions::default()), Shed::Fair),
        };
        let link = Bottleneck::new(&LinkOptions { rate, buffer, policy, seed })?;
        let (owed, now, stretch) = (Vec::new(), 0, 1.0);
        Ok(Self {
            policy: on_overload,
            seed,
            limits,
            link,
            shed,
            least,
            each,
            owed,
            now,
            stretch,
            is_over: false,
        })
    }

    pub(super) fn begin(&mut self, now: u64, limit: &Limit, share: f64, is_over: bool) {
        let change = self.change(limit);
        if !(1.0 / CHANGE..=CHANGE).contains(&change)
            && let Ok(link) = Self::new(self.policy, limit.per_window(), self.seed)
        {
            *self = link;
            return self.begin(now, limit, share, is_over);
        }
        (self.now, self.stretch, self.is_over) = (now, change / share, is_over);
    }

    /// What the limits were when the link was made, as a multiple of what they are; of two, that
    /// of packets.
    fn change(&self, limit: &Limit) -> f64 {
        let pairs = self.limits.into_iter().zip(limit.per_window());
        let mut changes = pairs.filter_map(|(old, new)| Some(old? as f64 / new? as f64));
        changes.next().unwrap_or(1.0)
    }

    /// The bytes of the link that a packet takes.
    fn len(&self, len: u32) -> u32 {
        let bytes = (f64::from(len) * self.each).max(self.least);
        (bytes * self.stretch).min(MOST_LEN) as u32
    }

    /// The rate on the link of a flow with packets of so many bytes, by its rate on the wire. For
    /// a flow with packets of several lengths the mean is right: the probability that a packet
    /// passes is proportional to its length on the wire by that on the link.
    fn scale(&self, len: u32) -> f64 {
        f64::from(self.len(len).max(1)) / f64::from(len.max(1))
    }

    pub(super) fn fair_rate(&self, len: u32) -> Option<f64> {
        Some(self.link.fair_share()? / self.scale(len))
    }

    pub(super) fn packet(&mut self, packet: &Arrival, state: &mut u16) -> Option<Shed> {
        let len = self.len(packet.len);
        let label = packet.label.map(|rate| rate * self.scale(packet.len));
        let flow = packet.flow % QUEUES;
        if self.shed != Shed::Fair {
            // The same for all flows.
            *state = 0;
        }
        if self.shed == Shed::Drr {
            let at = flow as usize;
            if self.owed.len() <= at {
                self.owed.resize(at + 1, 0);
            }
            if packet.is_first || !self.is_over {
                self.owed[at] = 0;
            }
            if self.owed[at] > 0 {
                self.owed[at] = self.owed[at].saturating_sub(len);
                return Some(self.shed);
            }
        }
        self.send(flow, len, label, state).then_some(self.shed)
    }

    /// A packet of no flow takes its room on the link, and passes.
    pub(super) fn other(&mut self, len: u32) {
        self.send(QUEUES, self.len(len), None, &mut 0);
    }

    /// Sends a packet over the link; returns whether it is dropped.
    fn send(&mut self, flow: u32, len: u32, label: Option<f64>, state: &mut u16) -> bool {
        let arrival = Packet { at: self.now, flow, len, ecn: Ecn::NotCapable, weight: 1, label };
        let (owed, mut is_dropped) = (&mut self.owed, false);
        self.link.packet(arrival, state, |outcome| {
            if !matches!(outcome.verdict, Verdict::Drop(_)) {
                return;
            }
            // The last of its own flow is the packet itself.
            if outcome.flow == flow && !is_dropped {
                is_dropped = true;
            } else if let Some(owed) = owed.get_mut(outcome.flow as usize) {
                *owed = owed.saturating_add(outcome.len);
            }
        });
        is_dropped
    }
}
