//! Has a flow's packets wait until the scanner has found something in it, or until it has ended and
//! nothing was found: then they are dropped, and the sensor never sees the flow.
//!
//! What is uncertain passes, whole and in order: as soon as a flow is suspect, all of it goes on that
//! waits, from its first packet, and what comes is no longer held. So does a flow that waits for
//! longer than it may, or for which there is no memory. For each reason there is a counter.
//!
//! A connection whose end is certain is kept for a moment: should it go on all the same, it is as if
//! it had not ended. Flows without streams (UDP, ICMP) end when the scanner would forget them. A
//! connection that is silent passes: its receiver may wait for longer than we do.

mod counts;
mod flows;
mod held;
mod options;
mod replay;

use forebay_packet::{Batch, LiveMask, NO_RECORD, Scanned};

pub(super) use options::STAGE;
pub use options::{GatewayMode, GatewayOptions, ScannedFlowsOf};

use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Settings, Stage, StageError};
use crate::stages::PassReason;
use counts::Counts;
use flows::{Flow, Flows, Queue, State};
use held::{HeldPacket, HeldPackets};
use replay::Replay;

/// TCP's protocol number, and of its control bits those that tell what opens a connection.
const TCP: u8 = 6;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Nanoseconds that a connection is kept behind its certain end.
const LINGER: u64 = 1_000_000_000;

/// Flows of each queue that end by time for each batch at most: more than a batch can bring.
const MOST_ENDED: usize = 512;

/// The reasons for which packets are dropped.
const WITHHELD: usize = 0;
const NO_MEMORY: usize = 1;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass(PassReason),
    Wait,
    Withhold,
}

/// Gets what a gateway decides.
pub trait GatewayObserver: Send {
    /// A packet passes. `number` is its place among those that came, from 0.
    fn passed(&mut self, number: u64);
}

/// Withholds flows in which nothing is found.
pub struct Gateway {
    observer: Option<Box<dyn GatewayObserver>>,
    /// Packets that came before the batch.
    numbered: u64,
    options: GatewayOptions,
    /// What to go on with, once what was held is passed on.
    next: Option<GatewayOptions>,
    scanned: ScannedFlowsOf,
    flows: Flows,
    held: HeldPackets,
    replay: Replay,
    /// The time of the last packet, and the monotonic clock when its batch came.
    clock: i64,
    begun: u64,
    held_packets: u64,
    counts: Counts,
}

impl Gateway {
    /// Withholds as `options` say.
    #[must_use]
    pub fn new(options: GatewayOptions) -> Self {
        Self {
            observer: None,
            numbered: 0,
            options,
            next: None,
            scanned: ScannedFlowsOf::default(),
            flows: Flows::new(0),
            held: HeldPackets::new(options.memory),
            replay: Replay::default(),
            clock: 0,
            begun: 0,
            held_packets: 0,
            counts: Counts::default(),
        }
    }

    /// The same, with an observer of what it decides.
    #[must_use]
    pub fn observed(self, observer: Box<dyn GatewayObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// What becomes of packet `i`, the `number`th of all.
    fn decide(&mut self, batch: &Batch, i: usize, number: u64, out: &mut Outbox) -> Fate {
        let report = batch.scanned[i];
        let reason = match batch.exempt.contains(i) {
            true => PassReason::EXEMPT,
            false => PassReason::numbered(report.reason),
        };
        if report.flow == NO_RECORD {
            return match reason {
                PassReason::CLEAN => Fate::Withhold,
                reason => Fate::Pass(reason),
            };
        }
        let flow = report.flow;
        if self.flows.of(flow).generation != Some(report.generation) {
            self.settle(flow, out);
            let key = batch.key[i];
            *self.flows.of(flow) = Flow::begin(report.generation, key, key.protocol == TCP);
        }
        let known = self.flows.of(flow);
        if known.state == State::Passing {
            return Fate::Pass(known.reason);
        }
        if reason != PassReason::CLEAN {
            // What passes by itself must not come before what waits.
            if report.is_alone && known.chain.packets == 0 {
                return Fate::Pass(reason);
            }
            self.pass(flow, reason, out);
            return Fate::Pass(reason);
        }
        self.go_on(batch, i, number, out)
    }

    /// What becomes of a packet of a flow in which nothing is found yet.
    fn go_on(&mut self, batch: &Batch, i: usize, place: u64, out: &mut Outbox) -> Fate {
        let report = &batch.scanned[i];
        let number = report.flow;
        let opens = batch.tcp_flags.get(i).is_some_and(|flags| flags & (SYN | RST | ACK) == SYN);
        let flow = self.flows.of(number);
        let has_ended = flow.state == State::Cleared || flow.queue() == Some(Queue::Closed);
        if has_ended && !report.ends_clean {
            if flow.is_stream && opens {
                // Another connection between the same ports.
                self.clear(number);
                let flow = self.flows.of(number);
                (flow.state, flow.passed) = (State::Holding, [0; 2]);
            } else if flow.state == State::Cleared {
                self.pass(number, PassReason::ENDED, out);
                return Fate::Pass(PassReason::ENDED);
            }
        }
        let flow = self.flows.of(number);
        if flow.state == State::Cleared {
            return Fate::Withhold;
        }
        if self.options.mode == GatewayMode::Prefix && self.is_in_prefix(batch, i, report) {
            if self.flows.of(number).chain.packets > 0 {
                self.release(number, PassReason::PREFIX, out);
            }
            return Fate::Pass(PassReason::PREFIX);
        }
        match self.hold(batch, i, place, out) {
            Ok(()) => Fate::Wait,
            Err(reason) => {
                self.pass(number, reason, out);
                Fate::Pass(reason)
            }
        }
    }

    /// Whether a packet has some of the first bytes of its direction, and what waits goes on with it;
    /// or has no bytes, and nothing waits.
    fn is_in_prefix(&mut self, batch: &Batch, i: usize, report: &Scanned) -> bool {
        let most = self.options.prefix;
        let flow = self.flows.of(report.flow);
        if report.payload == 0 {
            return flow.chain.packets == 0 && flow.passed.iter().all(|&passed| passed < most);
        }
        let passed = &mut flow.passed[usize::from(batch.reversed[i])];
        let is_in = *passed < most;
        if is_in {
            *passed = passed.saturating_add(report.payload.into());
        }
        is_in
    }

    /// Has a packet wait, or tells why it cannot.
    fn hold(
        &mut self,
        batch: &Batch,
        i: usize,
        place: u64,
        out: &mut Outbox,
    ) -> Result<(), PassReason> {
        let report = &batch.scanned[i];
        let (number, cap_len) = (report.flow, batch.cap_len(i));
        let interface = self.replay.interface(batch.interface_id(i));
        let interface = interface.ok_or(PassReason::MEMORY)?;
        let flow = self.flows.of(number);
        if flow.chain.packets > 0 && since(self.clock, flow.first) > self.options.wait {
            return Err(PassReason::WAIT);
        }
        if flow.chain.bytes() + u64::from(cap_len) > self.options.flow_memory {
            return Err(PassReason::FLOW_MEMORY);
        }
        while !self.held.has_room(&self.flows.of(number).chain, cap_len as usize) {
            self.make_room(number, out)?;
        }
        let packet = HeldPacket {
            ticks: batch.ticks(i),
            hash: batch.hash.get(i).copied().unwrap_or_default(),
            number: place,
            cap_len,
            wire_len: batch.wire_len(i),
            interface,
            tcp_flags: batch.tcp_flags.get(i).copied().unwrap_or_default(),
            reversed: batch.reversed[i],
            rehashed: batch.rehashed.contains(i),
        };
        let flow = self.flows.of(number);
        if !self.held.push(&mut flow.chain, packet, batch.packet(i)) {
            return Err(PassReason::MEMORY);
        }
        self.held_packets += 1;
        if flow.chain.packets == 1 {
            flow.first = self.clock;
        }
        flow.last = self.clock;
        flow.waits = report.waits;
        flow.wire_bytes += u64::from(packet.wire_len);
        let queue = match flow.is_stream {
            true if report.ends_clean => Queue::Closed,
            true => Queue::Open,
            false => Queue::Datagrams,
        };
        self.flows.enqueue(number, queue);
        Ok(())
    }

    /// Takes the memory of the flow that has waited longest: one that has ended, or else another,
    /// which passes. Fails if that is flow `number`.
    fn make_room(&mut self, number: u32, out: &mut Outbox) -> Result<(), PassReason> {
        if let Some((ended, _)) = self.flows.oldest(Queue::Closed).filter(|(one, _)| *one != number)
        {
            self.clear(ended);
            return Ok(());
        }
        let fronts = [Queue::Open, Queue::Datagrams]
            .map(|queue| self.flows.oldest(queue).map(|(number, flow)| (flow.first, number)));
        match fronts.into_iter().flatten().min() {
            Some((_, oldest)) if oldest != number => {
                self.pass(oldest, PassReason::MEMORY, out);
                Ok(())
            }
            _ => Err(PassReason::MEMORY),
        }
    }

    /// Has a flow pass from now on, with all that waits.
    fn pass(&mut self, number: u32, reason: PassReason, out: &mut Outbox) {
        self.release(number, reason, out);
        let flow = self.flows.of(number);
        (flow.state, flow.reason) = (State::Passing, reason);
        self.counts.passed(reason).flows += 1;
    }

    /// Passes on what waits of a flow.
    fn release(&mut self, number: u32, reason: PassReason, out: &mut Outbox) {
        self.flows.dequeue(number);
        let flow = self.flows.of(number);
        let is_suspect = reason != PassReason::PREFIX;
        let mut reader = self.held.read(&flow.chain);
        while let Some(packet) = reader.next_packet() {
            let waited = since(self.clock, self.replay.nanos(&packet));
            let added = self.replay.add((&flow.key, packet, is_suspect), out, |bytes| {
                reader.take(bytes);
            });
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
        self.held.clear(&mut flow.chain);
        flow.wire_bytes = 0;
    }

    /// Drops what waits of a flow.
    fn clear(&mut self, number: u32) {
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
    fn settle(&mut self, number: u32, out: &mut Outbox) {
        let flow = self.flows.of(number);
        let is_silent = since(self.clock, flow.last) >= self.scanned.idle;
        match flow.queue() {
            Some(Queue::Closed) => self.clear(number),
            Some(Queue::Datagrams) if is_silent => self.clear(number),
            Some(_) => self.pass(number, PassReason::ENDED, out),
            None => {}
        }
    }

    /// Ends flows by time.
    fn pass_time(&mut self, now: i64, out: &mut Outbox) {
        let limits = [
            (Queue::Closed, LINGER),
            (Queue::Datagrams, self.scanned.idle),
            (Queue::Open, self.options.wait),
        ];
        for (queue, limit) in limits {
            for _ in 0..MOST_ENDED {
                let Some((number, flow)) = self.flows.oldest(queue) else { break };
                let since_when = if queue == Queue::Open { flow.first } else { flow.last };
                if since(now, since_when) <= limit {
                    break;
                }
                match queue {
                    Queue::Open => self.pass(number, PassReason::WAIT, out),
                    Queue::Datagrams | Queue::Closed => self.clear(number),
                }
            }
        }
    }

    /// Ends all flows with packets that wait.
    fn end_all(&mut self, reason: PassReason, out: &mut Outbox) {
        for queue in [Queue::Open, Queue::Datagrams, Queue::Closed] {
            while let Some((number, flow)) = self.flows.oldest(queue) {
                let may_clear = queue == Queue::Closed || self.options.clears_at_end && !flow.waits;
                match may_clear && reason == PassReason::STOP {
                    true => self.clear(number),
                    false if flow.waits => self.pass(number, PassReason::WAITING, out),
                    false => self.pass(number, reason, out),
                }
            }
        }
    }

    /// Reports what was dropped since `before` was the number of packets withheld.
    fn report(&self, before: u64, out: &mut Outbox) {
        out.dropped(WITHHELD, self.counts.withheld.packets - before);
    }

    /// Takes new options over.
    fn renew(&mut self, out: &mut Outbox) {
        let Some(next) = self.next.take() else { return };
        if (next.mode, next.memory) != (self.options.mode, self.options.memory) {
            self.end_all(PassReason::STOP, out);
            self.held = HeldPackets::new(next.memory);
        }
        self.options = next;
    }

    /// Counts a packet that passes.
    fn count(&mut self, batch: &Batch, i: usize, number: u64, reason: PassReason) {
        if let Some(observer) = &mut self.observer {
            observer.passed(number);
        }
        self.counts.passed(reason).add(batch.wire_len(i));
    }

    /// Has all packets of a batch pass.
    fn pass_all(&mut self, batch: &Batch) {
        for (number, i) in (self.numbered..).zip(batch.live().iter()) {
            let report = batch.scanned.get(i);
            let reason =
                report.map_or(PassReason::UNSCANNED, |report| PassReason::numbered(report.reason));
            self.count(batch, i, number, reason);
        }
    }
}

/// Nanoseconds from one time to another, 0 if the other is later.
fn since(now: i64, then: i64) -> u64 {
    u64::try_from(i128::from(now) - i128::from(then)).unwrap_or(0)
}

impl Stage for Gateway {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["withheld", "no_memory"]
    }

    fn promises(&self) -> Promises {
        let holds_nothing = self.options.mode == GatewayMode::Annotate;
        Promises { packets_unchanged: true, order_kept: holds_nothing, holds_nothing }
    }

    fn begin(&mut self, now: u64) {
        self.begun = now;
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        let before = self.counts.withheld.packets;
        self.renew(out);
        let packets = batch.live().count() as u64;
        let is_scanned = batch.scanned.len() == batch.len() && batch.key.len() == batch.len();
        if self.options.mode == GatewayMode::Annotate || !is_scanned {
            self.end_all(PassReason::UNSCANNED, out);
            self.replay.emit(out);
            self.pass_all(&batch);
            self.numbered += packets;
            self.report(before, out);
            out.emit(batch);
            return Ok(());
        }
        self.replay.see(&batch);
        self.replay.is_classified = !batch.hash.is_empty();
        let mut passed = LiveMask::EMPTY;
        for (number, i) in (self.numbered..).zip(batch.live().iter()) {
            self.clock = batch.nanos(i);
            match self.decide(&batch, i, number, out) {
                Fate::Pass(reason) => {
                    passed.insert(i);
                    self.count(&batch, i, number, reason);
                }
                Fate::Withhold => self.counts.withheld.add(batch.wire_len(i)),
                Fate::Wait => {}
            }
        }
        self.numbered += packets;
        self.pass_time(self.clock, out);
        self.replay.emit(out);
        self.report(before, out);
        batch.retain(&passed);
        out.emit(batch);
        Ok(())
    }

    fn tick(&mut self, now: u64, out: &mut Outbox) -> Result<(), StageError> {
        let before = self.counts.withheld.packets;
        self.renew(out);
        let passed = i64::try_from(now.saturating_sub(self.begun)).unwrap_or(i64::MAX);
        self.pass_time(self.clock.saturating_add(passed), out);
        self.replay.emit(out);
        self.report(before, out);
        Ok(())
    }

    fn drain(&mut self, out: &mut Outbox) -> Result<(), StageError> {
        let before = self.counts.withheld.packets;
        self.end_all(PassReason::STOP, out);
        self.replay.emit(out);
        self.report(before, out);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(options) = settings.get::<GatewayOptions>()
            && (*options != self.options || self.next.is_some())
        {
            self.next = Some(*options);
        }
        if let Some(scanned) = settings.get::<ScannedFlowsOf>()
            && *scanned != self.scanned
        {
            self.scanned = *scanned;
            if self.held_packets == 0 {
                self.flows = Flows::new(scanned.flows);
            }
        }
    }

    fn held(&self) -> u64 {
        self.held_packets
    }

    fn remarks(&self) -> Remarks {
        self.counts.remarks()
    }
}
