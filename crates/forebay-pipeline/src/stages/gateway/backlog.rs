//! Packets that would go on, while no sensor is up: they wait in the order in which they would have
//! gone on, and do so when a sensor is up again.
//!
//! What waits of a flow that passes stays where it is: its blocks become an entry of the queue. A
//! packet of a flow that passes already is an entry by itself. So the order of a flow's packets is
//! kept, and all of them are in the memory of the gateway. As long as there is an entry, all that
//! passes goes to the end of the queue.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_packet::{BATCH, Batch, FlowKey, NO_RECORD};

use super::held::{Chain, HeldPackets};
use super::{Gateway, NO_MEMORY, NO_SENSOR, Way};
use crate::stage::{Outbox, Setting};
use crate::stages::PassReason;

/// Packets that go on with a tick, as long as others wait; the last flow goes on whole. With a batch it
/// is twice as many as come, so that those that wait become fewer, and an output's ring has room.
pub(super) const MOST_SENT: u32 = 4 * BATCH as u32;

/// Has packets wait while a flag is set: no sensor is up. Without one they go on at any time.
#[derive(Clone, Debug, Default)]
pub struct WaitForSensor(pub Option<Arc<AtomicBool>>);

impl Setting for WaitForSensor {}

impl WaitForSensor {
    /// Whether packets must wait now.
    pub(super) fn is_on(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Acquire))
    }
}

/// Packets of a flow.
struct Entry {
    key: FlowKey,
    reason: PassReason,
    /// The number and the generation of the flow, if it has a number.
    flow: Option<(u32, u32)>,
    chain: Chain,
    /// When it came to the queue, in nanoseconds.
    since: i64,
}

/// The queue.
#[derive(Default)]
pub(super) struct Backlog(VecDeque<Entry>);

impl Backlog {
    /// The bytes that it takes at most besides those of the packets, which wait in `bytes`: each
    /// entry has at least a block.
    pub(super) fn most_bytes(bytes: usize) -> u64 {
        HeldPackets::most_blocks(bytes) as u64 * size_of::<Entry>() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an entry, of which there are at most so many. Gives it back if the system has no memory.
    fn push(&mut self, entry: Entry, most: usize) -> Result<(), Entry> {
        let len = self.0.len();
        if len == self.0.capacity() && self.0.try_reserve_exact(most.max(len + 1) - len).is_err() {
            return Err(entry);
        }
        self.0.push_back(entry);
        Ok(())
    }

    /// Takes the first entry. Behind the last one the memory is given back.
    fn pop(&mut self) -> Option<Entry> {
        let entry = self.0.pop_front();
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
        entry
    }
}

impl Gateway {
    /// Whether packets that pass must wait: for a sensor, or behind others that do.
    pub(super) fn is_behind(&self) -> bool {
        self.no_sensor || !self.backlog.is_empty()
    }

    /// Has the packets of a chain wait for a sensor.
    pub(super) fn delay(
        &mut self,
        (key, flow): (FlowKey, Option<(u32, u32)>),
        chain: Chain,
        reason: PassReason,
        out: &mut Outbox,
    ) {
        let packets = u64::from(chain.packets);
        let bytes = chain.bytes();
        let entry = Entry { key, reason, flow, chain, since: self.now };
        let most = HeldPackets::most_blocks(self.options.memory);
        match self.backlog.push(entry, most) {
            Ok(()) => {
                self.counts.waited_for_sensor += packets;
                if let Some((number, _)) = flow {
                    self.flows.of(number).delayed += bytes;
                }
            }
            Err(entry) => self.drop_chain(entry.chain, NO_MEMORY, out),
        }
    }

    /// Has packet `i` of a batch, which passes, wait for a sensor. Drops it if there is no room.
    pub(super) fn delay_packet(
        &mut self,
        batch: &Batch,
        i: usize,
        place: u64,
        reason: PassReason,
        way: &mut Way<'_>,
    ) {
        let Some(packet) = self.held_packet(batch, i, place) else {
            return way.out.dropped(NO_SENSOR, 1);
        };
        let cap_len = packet.cap_len as usize;
        let mut chain = Chain::default();
        let report = &batch.scanned[i];
        let flow = (report.flow != NO_RECORD).then_some((report.flow, report.generation));
        // Packets without a flow have no limit of their own. With a sensor up, what waits makes room.
        let of_flow = flow.map_or(0, |(number, _)| {
            self.flows.of(number).delayed.saturating_add(chain.bytes_with(cap_len))
        });
        if self.no_sensor && of_flow > self.options.flow_memory {
            return way.out.dropped(NO_SENSOR, 1);
        }
        while !self.held.has_room(&chain, cap_len) {
            if self.make_room(report.flow, way).is_err() {
                return way.out.dropped(NO_SENSOR, 1);
            }
        }
        if !self.held.push(&mut chain, packet, batch.packet(i)) {
            return way.out.dropped(NO_MEMORY, 1);
        }
        self.held_packets += 1;
        self.delay((batch.key[i], flow), chain, reason, way.out);
    }

    /// Takes the first entry, of which the packets go on or are dropped.
    fn take_delayed(&mut self) -> Option<Entry> {
        let entry = self.backlog.pop()?;
        if let Some((number, generation)) = entry.flow {
            let flow = self.flows.of(number);
            if flow.generation == Some(generation) {
                flow.delayed = flow.delayed.saturating_sub(entry.chain.bytes());
            }
        }
        Some(entry)
    }

    /// Sends the first entry, and returns its packets; none if nothing waits.
    pub(super) fn send_delayed(&mut self, out: &mut Outbox) -> Option<u32> {
        let entry = self.take_delayed()?;
        let packets = entry.chain.packets;
        self.send(&entry.key, entry.chain, entry.reason, out);
        Some(packets)
    }

    /// Drops the first entry.
    fn drop_delayed(&mut self, out: &mut Outbox) {
        if let Some(entry) = self.take_delayed() {
            self.drop_chain(entry.chain, NO_SENSOR, out);
        }
    }

    /// Sends what waits for a sensor if one is up: about so many packets. Otherwise drops what has
    /// waited for too long.
    pub(super) fn serve_backlog(&mut self, most: u32, out: &mut Outbox) {
        if self.no_sensor {
            let wait = i64::try_from(self.options.wait).unwrap_or(i64::MAX);
            let is_over = |entry: &Entry, now| entry.since.saturating_add(wait) <= now;
            while self.may_end > 0
                && self.backlog.0.front().is_some_and(|entry| is_over(entry, self.now))
            {
                self.may_end -= 1;
                self.drop_delayed(out);
            }
            return;
        }
        let mut sent = 0;
        while sent < most
            && let Some(packets) = self.send_delayed(out)
        {
            sent += packets;
        }
    }

    /// Sends all that waits for a sensor, or drops it if none is up: the gateway ends.
    pub(super) fn empty_backlog(&mut self, out: &mut Outbox) {
        while !self.backlog.is_empty() {
            match self.no_sensor {
                true => self.drop_delayed(out),
                false => drop(self.send_delayed(out)),
            }
        }
    }
}
