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

use super::{Arrival, OnOverload, Shed, WINDOW};
use crate::policy::{
    Bottleneck, CsfqOptions, DrrOptions, Ecn, LinkOptions, Packet, Policy, PolicyError, RedOptions,
    Verdict,
};

/// The part of the limit that is the link's rate; the rest is its buffer.
const RATE: f64 = 0.95;

/// Windows of a second.
const WINDOWS: f64 = (1_000_000_000 / WINDOW) as f64;

/// The length of a packet where only packets are limited, and the longest in a link.
const PACKET: f64 = 64.0;
const MOST_LEN: f64 = 65_535.0;

/// Packets for which the buffer has room at least, and their length where bytes are limited.
const PACKETS: f64 = 16.0;
const TYPICAL: f64 = 1_514.0;

#[derive(Debug)]
pub(super) struct VirtualLink {
    link: Bottleneck,
    shed: Shed,
    /// The least bytes that a packet counts for, and the number for each of its bytes.
    least: f64,
    each: f64,
    /// Of DRR: what flows owe, by their numbers here.
    owed: Vec<u32>,
    /// The state of packets without a flow.
    others: u16,
    now: u64,
    stretch: f64,
    is_over: bool,
}

impl VirtualLink {
    /// A link for limits of packets and bytes a window.
    pub(super) fn new(
        policy: OnOverload,
        limits: [Option<u64>; 2],
        seed: u64,
    ) -> Result<Self, PolicyError> {
        let [packets, bytes] = limits.map(|limit| limit.map(|limit| limit as f64));
        // Bytes a window, and how many of them a packet takes, at least.
        let (window, least, each) = match (packets, bytes) {
            (packets, Some(bytes)) => (bytes, packets.map_or(0.0, |packets| bytes / packets), 1.0),
            (Some(packets), None) => (packets * PACKET, PACKET, 0.0),
            (None, None) => (f64::INFINITY, 0.0, 0.0),
        };
        let least_buffer = PACKETS * if each > 0.0 { TYPICAL.max(least) } else { least };
        let buffer = ((1.0 - RATE) * window).max(least_buffer) as u64;
        let rate = (RATE * window * WINDOWS * 8.0) as u64;
        let (policy, shed) = match policy {
            OnOverload::Red => (Policy::Red(RedOptions::for_buffer(buffer)), Shed::Red),
            OnOverload::Drr => (Policy::Drr(DrrOptions::default()), Shed::Drr),
            _ => (Policy::Csfq(CsfqOptions::default()), Shed::Fair),
        };
        let link = Bottleneck::new(&LinkOptions { rate, buffer, policy, seed })?;
        let (owed, others, now, stretch) = (Vec::new(), 0, 0, 1.0);
        Ok(Self { link, shed, least, each, owed, others, now, stretch, is_over: false })
    }

    pub(super) fn begin(&mut self, now: u64, share: f64, is_over: bool) {
        (self.now, self.stretch, self.is_over) = (now, 1.0 / share, is_over);
    }

    pub(super) fn packet(&mut self, packet: &Arrival, state: &mut u16) -> Option<Shed> {
        let bytes = (f64::from(packet.len) * self.each).max(self.least);
        let len = (bytes * self.stretch).min(MOST_LEN) as u32;
        // 0 is the flow of packets without one.
        let flow = packet.flow.map_or(0, |flow| flow.saturating_add(1));
        let state = if packet.flow.is_some() { state } else { &mut self.others };
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
        let arrival = Packet { at: self.now, flow, len, ecn: Ecn::NotCapable, weight: 1 };
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
        is_dropped.then_some(self.shed)
    }
}
