//! How flows end: they pass, or what waits of them is dropped.

use forebay_packet::FlowKey;

use super::flows::{Queue, State};
use super::held::Chain;
use super::{Gateway, NO_MEMORY, NO_SENSOR, Way};
use crate::stage::Outbox;
use crate::stages::PassReason;

/// Nanoseconds that a connection is kept behind its certain end.
pub(super) const LINGER: u64 = 1_000_000_000;

impl Gateway {
    /// Takes the memory of the flow that has been silent for longest: one that has ended, or else
    /// another, which passes, or is dropped if no sensor is up. Fails if that is flow `number`.
    pub(super) fn make_room(&mut self, number: u32, way: &mut Way<'_>) -> Result<(), PassReason> {
        if let Some((ended, _)) = self.flows.oldest(Queue::Closed).filter(|(one, _)| *one != number)
        {
            self.clear(ended);
            return Ok(());
        }
        // A flow that passes gives no memory back before what waits for a sensor has gone on.
        if !self.no_sensor && self.send_delayed(way.out).is_some() {
            return Ok(());
        }
        let fronts = [Queue::Open, Queue::Silent]
            .map(|queue| self.flows.oldest(queue).map(|(number, flow)| (flow.last, number)));
        match fronts.into_iter().flatten().min() {
            Some((_, oldest)) if oldest != number => {
                if self.no_sensor {
                    self.drop_waiting(oldest, way.out);
                }
                self.pass(oldest, PassReason::MEMORY, way);
                Ok(())
            }
            _ => Err(PassReason::MEMORY),
        }
    }

    /// Has a flow pass from now on, with all that waits.
    pub(super) fn pass(&mut self, number: u32, reason: PassReason, way: &mut Way<'_>) {
        self.release(number, reason, way);
        let flow = self.flows.of(number);
        (flow.state, flow.reason) = (State::Passing, reason);
        self.counts.passed(reason).flows += 1;
    }

    /// Drops what waits of a flow, for want of a sensor.
    fn drop_waiting(&mut self, number: u32, out: &mut Outbox) {
        let flow = self.flows.of(number);
        let chain = std::mem::take(&mut flow.chain);
        flow.wire_bytes = 0;
        self.drop_chain(chain, NO_SENSOR, out);
    }

    /// Drops the packets of a chain for a reason.
    pub(super) fn drop_chain(&mut self, mut chain: Chain, reason: usize, out: &mut Outbox) {
        let packets = u64::from(chain.packets);
        self.held.clear(&mut chain);
        self.held_packets -= packets;
        out.dropped(reason, packets);
    }

    /// Passes on what waits of a flow, or has it wait for a sensor.
    pub(super) fn release(&mut self, number: u32, reason: PassReason, way: &mut Way<'_>) {
        self.flows.dequeue(number);
        let flow = self.flows.of(number);
        if flow.chain.packets == 0 {
            return;
        }
        let key = flow.key;
        let of_flow = flow.generation.map(|generation| (number, generation));
        let chain = std::mem::take(&mut flow.chain);
        flow.wire_bytes = 0;
        if self.is_behind() {
            return self.delay((key, of_flow), chain, reason, way.out);
        }
        if way.has_passed(&key) {
            self.emit_passed(way);
        }
        self.send(&key, chain, reason, way.out);
    }

    /// Passes on the packets of a chain, which is given back.
    pub(super) fn send(
        &mut self,
        key: &FlowKey,
        mut chain: Chain,
        reason: PassReason,
        out: &mut Outbox,
    ) {
        let mut reader = self.held.read(&chain);
        while let Some(packet) = reader.next_packet() {
            let waited = since(self.now, self.replay.nanos(&packet));
            let added = self.replay.add((key, packet, reason), out, |bytes| reader.take(bytes));
            if !added {
                let rest = reader.packets() + 1;
                out.dropped(NO_MEMORY, rest.into());
                self.held_packets -= u64::from(rest);
                break;
            }
            if let Some(observer) = &mut self.observer {
                observer.passed(packet.number);
            }
            self.held_packets -= 1;
            self.counts.passed(reason).add(packet.wire_len);
            self.counts.add_waited(waited);
        }
        self.held.clear(&mut chain);
    }

    /// Emits what was passed of the batch so far, because what waited of a flow goes on behind it.
    fn emit_passed(&mut self, way: &mut Way<'_>) {
        let Some(batch) = way.batch else { return };
        self.replay.emit(way.out);
        let mut passed = batch.clone();
        passed.retain(&std::mem::take(&mut way.passed));
        way.out.emit(passed);
    }

    /// Drops what waits of a flow.
    pub(super) fn clear(&mut self, number: u32) {
        self.flows.dequeue(number);
        let flow = self.flows.of(number);
        let packets = u64::from(flow.chain.packets);
        self.held.clear(&mut flow.chain);
        flow.state = State::Cleared;
        self.counts.withheld.bytes += std::mem::take(&mut flow.wire_bytes);
        self.counts.withheld.packets += packets;
        self.counts.withheld.flows += u64::from(packets > 0);
        self.held_packets -= packets;
    }

    /// Ends the flow that had a number before.
    pub(super) fn settle(&mut self, number: u32, way: &mut Way<'_>) {
        let flow = self.flows.of(number);
        let is_silent = since(self.clock, flow.last) > self.scanned.idle;
        // A connection that was reset does not pass: another one between the same ends may have gone on
        // before it.
        match flow.queue() {
            Some(Queue::Closed) => self.clear(number),
            Some(Queue::Silent) if is_silent || flow.is_stream => self.clear(number),
            Some(_) => self.pass(number, PassReason::ENDED, way),
            None => {}
        }
    }

    /// Ends flows by time.
    pub(super) fn pass_time(&mut self, now: i64, way: &mut Way<'_>) {
        self.due = i64::MAX;
        let silent = self.options.wait.min(self.scanned.idle);
        let limits =
            [(Queue::Closed, LINGER), (Queue::Silent, self.scanned.idle), (Queue::Open, silent)];
        for (queue, limit) in limits {
            while let Some((number, flow)) = self.flows.oldest(queue) {
                let due = flow.last.saturating_add(i64::try_from(limit).unwrap_or(i64::MAX));
                // At that very time the scanner takes a packet for the same flow's.
                if now <= due || self.may_end == 0 {
                    self.due = self.due.min(due);
                    break;
                }
                self.may_end -= 1;
                match queue {
                    Queue::Open => self.pass(number, PassReason::WAIT, way),
                    Queue::Silent | Queue::Closed => self.clear(number),
                }
            }
        }
    }

    /// Ends all flows with packets that wait.
    pub(super) fn end_all(&mut self, reason: PassReason, way: &mut Way<'_>) {
        for queue in [Queue::Open, Queue::Silent, Queue::Closed] {
            while let Some((number, flow)) = self.flows.oldest(queue) {
                let may_clear = queue == Queue::Closed || self.options.clears_at_end && !flow.waits;
                match may_clear && reason == PassReason::STOP {
                    true => self.clear(number),
                    false if flow.waits => self.pass(number, PassReason::WAITING, way),
                    false => self.pass(number, reason, way),
                }
            }
        }
    }
}

/// Nanoseconds from one time to another, 0 if the other is later.
pub(super) fn since(now: i64, then: i64) -> u64 {
    u64::try_from(i128::from(now) - i128::from(then)).unwrap_or(0)
}
