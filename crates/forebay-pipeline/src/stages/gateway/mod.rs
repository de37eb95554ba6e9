//! Has a flow's packets wait until the scanner has found something in it, or until it has ended and
//! nothing was found: then they are dropped, and the sensor never sees the flow.
//!
//! What is uncertain passes, whole and in order: as soon as a flow is suspect, all of it goes on that
//! waits, from its first packet, and what comes is no longer held. So does a flow that waits for
//! longer than it may, or for which there is no memory. For each reason there is a counter.
//!
//! A connection that both sides have ended is kept for a moment, and one that was reset until it is
//! silent: should it go on all the same, it is as if it had not ended. Flows that are silent for as
//! long as the scanner knows them end: those without streams (UDP, ICMP) are dropped, connections
//! pass, before a packet comes that the scanner takes for another flow's.
//!
//! While no sensor is up, what passes can wait for one: see `backlog`.

mod backlog;
mod counts;
mod ends;
mod flows;
mod held;
mod options;
mod replay;

use forebay_packet::{Batch, FlowKey, LiveMask, NO_RECORD, Scanned};

pub use backlog::WaitForSensor;
pub(super) use options::STAGE;
pub use options::{GatewayMode, GatewayOptions, ScannedFlowsOf};

use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Settings, Stage, StageError};
use crate::stages::PassReason;
use crate::stages::scan::{GENERATIONS, RST, TCP, opens};
use backlog::{Backlog, MOST_SENT};
use counts::Counts;
use ends::{LINGER, since};
use flows::{Flow, Flows, Queue, State};
use held::{HeldPacket, HeldPackets};
use replay::Replay;

/// Flows that end by time with a batch at most: many more than it can bring. What goes on of them
/// takes memory until the batch is through.
const MOST_ENDED: usize = 8_192;

/// The reasons for which packets are dropped.
const WITHHELD: usize = 0;
const NO_MEMORY: usize = 1;
const NO_SENSOR: usize = 2;

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

/// Where packets go on: behind what was passed of the batch under way.
struct Way<'a> {
    batch: Option<&'a Batch>,
    /// The packets of the batch that pass, and were not emitted yet.
    passed: LiveMask,
    out: &'a mut Outbox,
}

impl<'a> Way<'a> {
    /// With no batch under way.
    fn new(out: &'a mut Outbox) -> Self {
        Self { batch: None, passed: LiveMask::EMPTY, out }
    }

    /// Whether a packet of a flow, whatever its number, passes with the rest of the batch.
    fn has_passed(&self, key: &FlowKey) -> bool {
        let is_of = |batch: &Batch| self.passed.iter().any(|i| batch.key[i].is(key));
        self.batch.is_some_and(is_of)
    }
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
    backlog: Backlog,
    wait_for_sensor: WaitForSensor,
    /// That was so when the batch or the tick began.
    no_sensor: bool,
    /// The least time of the last batch, never going back: one packet from the future ends no flow.
    clock: i64,
    /// The same, with the time that has passed since without a batch.
    now: i64,
    /// The monotonic clock when the last batch came to any group, and to this stage.
    begun: u64,
    seen: u64,
    /// The upper bits of the flows' generations: those of the scanner's table.
    table: u32,
    /// No flow ends by time before; those that may do so in this batch.
    due: i64,
    may_end: usize,
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
            backlog: Backlog::default(),
            wait_for_sensor: WaitForSensor::default(),
            no_sensor: false,
            clock: i64::MIN,
            now: i64::MIN,
            begun: 0,
            seen: 0,
            table: 0,
            due: i64::MIN,
            may_end: MOST_ENDED,
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
    fn decide(&mut self, batch: &Batch, i: usize, number: u64, way: &mut Way<'_>) -> Fate {
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
            self.settle(flow, way);
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
            self.pass(flow, reason, way);
            return Fate::Pass(reason);
        }
        self.go_on(batch, i, number, way)
    }

    /// What becomes of a packet of a flow in which nothing is found yet.
    fn go_on(&mut self, batch: &Batch, i: usize, place: u64, way: &mut Way<'_>) -> Fate {
        let report = &batch.scanned[i];
        let number = report.flow;
        let flags = batch.tcp_flags.get(i).copied().unwrap_or_default();
        let flow = self.flows.of(number);
        let is_cleared = flow.state == State::Cleared;
        let has_ended = is_cleared || flow.ends_clean;
        if has_ended && !report.ends_clean && opens(flow.key.protocol, flags) {
            // Another connection between the same ports.
            self.clear(number);
            let flow = self.flows.of(number);
            (flow.state, flow.passed, flow.is_reset) = (State::Holding, [0; 2], false);
        } else if is_cleared {
            if report.ends_clean && report.payload == 0 {
                return Fate::Withhold;
            }
            // A side goes on all the same.
            self.pass(number, PassReason::ENDED, way);
            return Fate::Pass(PassReason::ENDED);
        }
        if self.options.mode == GatewayMode::Prefix && self.is_in_prefix(batch, i, report) {
            self.release(number, PassReason::PREFIX, way);
            return Fate::Pass(PassReason::PREFIX);
        }
        match self.hold(batch, i, place, way) {
            Ok(()) => Fate::Wait,
            Err(reason) => {
                self.pass(number, reason, way);
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

    /// What is kept of packet `i` of a batch, the `place`th of all. `None` if there is no room for its
    /// interface.
    fn held_packet(&self, batch: &Batch, i: usize, place: u64) -> Option<HeldPacket> {
        Some(HeldPacket {
            ticks: batch.ticks(i),
            hash: batch.hash.get(i).copied().unwrap_or_default(),
            number: place,
            cap_len: batch.cap_len(i),
            wire_len: batch.wire_len(i),
            interface: self.replay.interface(batch.interface_id(i))?,
            tcp_flags: batch.tcp_flags.get(i).copied().unwrap_or_default(),
            reversed: batch.reversed[i],
            rehashed: batch.rehashed.contains(i),
        })
    }

    /// Has a packet wait, or tells why it cannot.
    fn hold(
        &mut self,
        batch: &Batch,
        i: usize,
        place: u64,
        way: &mut Way<'_>,
    ) -> Result<(), PassReason> {
        let report = &batch.scanned[i];
        let packet = self.held_packet(batch, i, place).ok_or(PassReason::MEMORY)?;
        let (number, cap_len) = (report.flow, packet.cap_len);
        let flow = self.flows.of(number);
        if flow.chain.packets > 0 && since(self.clock, flow.first) > self.options.wait {
            return Err(PassReason::WAIT);
        }
        let bytes = flow.chain.bytes_with(cap_len as usize).saturating_add(flow.delayed);
        if bytes > self.options.flow_memory {
            return Err(PassReason::FLOW_MEMORY);
        }
        while !self.held.has_room(&self.flows.of(number).chain, cap_len as usize) {
            self.make_room(number, way)?;
        }
        let flow = self.flows.of(number);
        if !self.held.push(&mut flow.chain, packet, batch.packet(i)) {
            return Err(PassReason::MEMORY);
        }
        self.held_packets += 1;
        if flow.chain.packets == 1 {
            flow.first = self.clock;
        }
        flow.waits = report.waits;
        flow.ends_clean = report.ends_clean;
        flow.is_reset |= packet.tcp_flags & RST != 0;
        flow.wire_bytes += u64::from(packet.wire_len);
        let queue = match (flow.is_stream, flow.ends_clean) {
            // A reset may not have been valid for all who saw it.
            (true, true) if flow.is_reset => Queue::Silent,
            (true, true) => Queue::Closed,
            (true, false) => Queue::Open,
            (false, _) => Queue::Silent,
        };
        // The scanner may know a flow for longer than by the least time of the batch, and a connection
        // for no longer.
        flow.last = match queue {
            Queue::Open => self.clock,
            Queue::Silent | Queue::Closed => batch.nanos(i).max(self.clock),
        };
        self.flows.enqueue(number, queue);
        // A bound for all of them: the least limit there is.
        let least = self.options.wait.min(self.scanned.idle).min(LINGER);
        let due = self.clock.saturating_add(i64::try_from(least).unwrap_or(i64::MAX));
        self.due = self.due.min(due);
        Ok(())
    }

    /// Reports what was dropped since `before` was the number of packets withheld.
    fn report(&self, before: u64, out: &mut Outbox) {
        out.dropped(WITHHELD, self.counts.withheld.packets - before);
    }

    /// Takes new options over. While packets wait for a sensor, or behind others that did, neither
    /// another mode nor less memory: all of them would be dropped, or sent at once.
    fn renew(&mut self, way: &mut Way<'_>) {
        let Some(mut next) = self.next.take() else { return };
        let (mode, mut memory) = (self.options.mode, self.options.memory);
        if next.memory > memory && self.held.grow(next.memory) {
            memory = next.memory;
        }
        if (next.mode, next.memory) == (mode, memory) {
            self.options = next;
        } else if self.held_packets > 0 && self.is_behind() {
            self.next = Some(next);
            (next.mode, next.memory) = (mode, memory);
            self.options = next;
        } else {
            self.end_all(PassReason::STOP, way);
            self.held = HeldPackets::new(next.memory);
            self.options = next;
        }
    }

    /// Begins a batch: time passes, and if the scanner has another table, flows of the old one end.
    fn begin_batch(&mut self, batch: &Batch, way: &mut Way<'_>) {
        self.may_end = MOST_ENDED;
        self.replay.see(batch);
        self.replay.is_classified = !batch.hash.is_empty();
        let first = batch.live().iter().map(|i| batch.nanos(i)).min();
        self.clock = self.clock.max(first.unwrap_or(i64::MIN));
        self.now = self.now.max(self.clock);
        let mut reports = batch.live().iter().map(|i| batch.scanned[i]);
        if let Some(report) = reports.find(|report| report.flow != NO_RECORD) {
            let table = report.generation >> GENERATIONS;
            if std::mem::replace(&mut self.table, table) != table {
                self.end_all(PassReason::STOP, way);
            }
        }
        if self.clock >= self.due {
            self.pass_time(self.clock, way);
        }
        self.serve_backlog(2 * batch.live().count() as u32, way.out);
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

impl Stage for Gateway {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["withheld", "no_memory", "no_sensor"]
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
        self.seen = self.begun;
        self.no_sensor = self.wait_for_sensor.is_on();
        self.renew(&mut Way::new(out));
        let packets = batch.live().count() as u64;
        let is_scanned = batch.scanned.len() == batch.len() && batch.key.len() == batch.len();
        if self.options.mode == GatewayMode::Annotate || !is_scanned {
            self.end_all(PassReason::UNSCANNED, &mut Way::new(out));
            self.empty_backlog(out);
            self.replay.emit(out);
            self.pass_all(&batch);
            self.numbered += packets;
            self.report(before, out);
            out.emit(batch);
            return Ok(());
        }
        let mut way = Way { batch: Some(&batch), ..Way::new(out) };
        self.begin_batch(&batch, &mut way);
        for (number, i) in (self.numbered..).zip(batch.live().iter()) {
            match self.decide(&batch, i, number, &mut way) {
                Fate::Pass(reason) if self.is_behind() => {
                    self.delay_packet(&batch, i, number, reason, &mut way);
                }
                Fate::Pass(reason) => {
                    way.passed.insert(i);
                    self.count(&batch, i, number, reason);
                }
                Fate::Withhold => self.counts.withheld.add(batch.wire_len(i)),
                Fate::Wait => {}
            }
        }
        let passed = way.passed;
        self.numbered += packets;
        self.replay.emit(out);
        self.report(before, out);
        batch.retain(&passed);
        out.emit(batch);
        Ok(())
    }

    fn tick(&mut self, now: u64, out: &mut Outbox) -> Result<(), StageError> {
        let before = self.counts.withheld.packets;
        self.no_sensor = self.wait_for_sensor.is_on();
        let mut way = Way::new(out);
        self.renew(&mut way);
        self.may_end = MOST_ENDED;
        let passed = i64::try_from(now.saturating_sub(self.seen)).unwrap_or(i64::MAX);
        let time = self.clock.saturating_add(passed);
        self.now = self.now.max(time);
        self.pass_time(time, &mut way);
        self.serve_backlog(MOST_SENT, way.out);
        self.replay.emit(out);
        self.report(before, out);
        Ok(())
    }

    fn drain(&mut self, out: &mut Outbox) -> Result<(), StageError> {
        let before = self.counts.withheld.packets;
        self.no_sensor = self.wait_for_sensor.is_on();
        self.end_all(PassReason::STOP, &mut Way::new(out));
        self.empty_backlog(out);
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
        if let Some(wait) = settings.get::<WaitForSensor>() {
            self.wait_for_sensor = wait.clone();
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
