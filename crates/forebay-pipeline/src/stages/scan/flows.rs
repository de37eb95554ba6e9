//! The flows of a scan stage: what was found in each, and the streams of TCP connections.

use std::cell::Cell;
use std::cmp::Reverse;
use std::mem;

use forebay_flow::{EndReason, FlowTable, OnFull, RecordOptions};
use forebay_packet::flow::AddressKind;
use forebay_packet::{Batch, HashKey, LiveMask, NO_RECORD, Scanned};
use forebay_scan::reassembly::{Connection, Pool, Uncertainties};
use forebay_scan::rules::Evidence;
use forebay_scan::{StreamState, prefetch_all};

use super::compiled::{ScanMode, ScanOptions};
use super::reasons::PassReason;
use super::rules::{TCP, opens};
use super::texts::Texts;

/// Bytes of a stream's end that are fetched into the cache ahead; literals of rules have fewer.
const PREFETCHED_TAIL: usize = 256;

const _: () = assert!(size_of::<Stream>() <= 192, "three cache lines");

/// What is known of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verdict {
    /// Causes of doubt.
    pub causes: Uncertainties,
    /// A literal was found; one of a rule, or a trigger, that counts in this flow.
    pub hit: bool,
    /// The record is kept until it is idle.
    is_kept: bool,
    /// The first packet opened a TCP connection, so that direction 0 is to the server.
    pub opened: bool,
    /// All packets so far were those that open a connection.
    pub in_handshake: bool,
    /// Directions and states of the connection in which the ends of the flow meet no always-forward
    /// rule, a bit each.
    pub failed: u8,
    /// Why the flow is suspect: what was found first.
    pub reason: PassReason,
    /// The number of the rules that the evidence is of.
    pub edition: u32,
    /// What was found of rules.
    pub evidence: Evidence,
}

impl Verdict {
    pub(super) fn is_clean(self) -> bool {
        !self.hit && self.causes.is_empty()
    }

    /// Notes why the flow is suspect, unless it already was.
    pub(super) fn pass_for(&mut self, reason: PassReason) {
        if self.reason == PassReason::CLEAN {
            self.reason = reason;
        }
    }
}

/// The streams of a TCP connection, in as few cache lines as there are.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Stream {
    pub connection: Connection,
    pub states: [StreamState; 2],
    /// For each direction, one more than the index of its last part that is not scanned yet, at most
    /// `u16::MAX`, or 0.
    pub pending: [u16; 2],
    /// The number of the literals that the states are of; 0 for none.
    pub edition: u32,
}

/// Whose a packet is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketFlow {
    /// The number of the flow, or [`NO_RECORD`].
    pub number: u32,
    /// The same, also where the number is another flow's at the end of the batch, and what tells
    /// the flows of a number apart.
    pub counted: u32,
    pub generation: u32,
    /// 0 if it came from the end that sent the first packet, 1 if it went to it.
    pub direction: u8,
}

impl PacketFlow {
    const NONE: Self = Self { number: NO_RECORD, counted: NO_RECORD, generation: 0, direction: 0 };
}

/// The flows of a stage, by the numbers of their records.
pub(super) struct ScannedFlows {
    table: FlowTable,
    pub verdicts: Vec<Verdict>,
    /// Those of TCP connections; others have empty ones. None in the mode of packets.
    pub streams: Vec<Stream>,
    pub pool: Pool,
    /// The flow of each packet of the batch.
    pub of_packets: Vec<PacketFlow>,
    /// By number, and for a number that no flow had.
    generations: Vec<u32>,
    first_generation: u32,
    /// Doubts about flows at their end.
    pub ended: Vec<Uncertainties>,
    pub evicted: u64,
    by_stream: bool,
    /// Packets of the batch that begin a flow.
    new: LiveMask,
    /// Packets of the batch whose flow was suspect and ended behind them.
    pub ended_suspect: LiveMask,
    /// The numbers of flows that ended by the batch or by time.
    ended_numbers: Vec<u32>,
    /// Those of flows that ended while the batch was counted, with the packets that were counted
    /// before; and of these flows those that were evicted.
    ended_within: Vec<(u32, usize)>,
    evicted_numbers: Vec<(u32, usize)>,
    /// Flows that begin by this time, in nanoseconds, may be such that were evicted, and that a sensor knows.
    evicted_until: i64,
    idle: u64,
    /// Packets of the batch that begin such a flow.
    resumed: LiveMask,
}

impl ScannedFlows {
    /// `first_generation` is far from that of another table.
    pub(super) fn new(options: &ScanOptions, secret: &HashKey, first_generation: u32) -> Self {
        let by_stream = options.mode == ScanMode::Stream;
        Self {
            table: FlowTable::new(RecordOptions {
                idle: Some(options.idle),
                // Which end of a connection is certain, is found by its stream.
                until_idle: true,
                // No new flow waits until a huge page is cleared.
                huge_pages: false,
                // By silence alone. Without the verdict of a suspect flow, datagrams of it may be withheld,
                // and a SYN that its receiver ignores makes a connection clean; a clean flow that is
                // forgotten only passes.
                ..RecordOptions::new(options.flows, OnFull::Evict)
            }),
            // All at once, so that no flow waits while others are moved.
            verdicts: Vec::with_capacity(options.flows),
            streams: Vec::with_capacity(if by_stream { options.flows } else { 0 }),
            pool: Pool::new(&options.reassembly, secret),
            of_packets: Vec::new(),
            generations: Vec::new(),
            first_generation,
            ended: Vec::new(),
            evicted: 0,
            by_stream,
            new: LiveMask::EMPTY,
            ended_suspect: LiveMask::EMPTY,
            ended_numbers: Vec::new(),
            ended_within: Vec::new(),
            evicted_numbers: Vec::new(),
            evicted_until: i64::MIN,
            idle: options.idle,
            resumed: LiveMask::EMPTY,
        }
    }

    /// The bytes that a flow takes besides its record, with literals of this length.
    pub(super) fn bytes_of_flow(mode: ScanMode, longest: usize) -> u64 {
        let stream = match mode {
            ScanMode::Packet => 0,
            ScanMode::Stream => size_of::<Stream>() + 2 * longest,
        };
        (size_of::<Verdict>() + stream) as u64
    }

    /// Finds the flows of a batch with keys. `edition` is the number of the literals in force.
    pub(super) fn find(&mut self, batch: &Batch, edition: u32, with_generations: bool) {
        self.count(batch, with_generations);
        self.mark_ended();
        self.forget_evicted();
        // The memory of all flows of the batch is on its way to the cache.
        for i in self.new.iter() {
            let number = self.of_packets[i].number as usize;
            // It was evicted within the batch: the number is another flow's.
            let Some(verdict) = self.verdicts.get_mut(number) else { continue };
            let opened = opens(batch.key[i].protocol, batch.tcp_flags[i]);
            let mut new = Verdict { opened, in_handshake: opened, edition, ..Verdict::default() };
            if self.resumed.contains(i) && !opened {
                new.evidence.assume_marks();
            }
            let old = mem::replace(verdict, new);
            if let Some(stream) = self.streams.get_mut(number) {
                end(stream, &old, &mut self.pool, &mut self.ended);
                stream.edition = edition;
            }
        }
    }

    /// Counts the packets of a batch, and notes the number of each one's flow.
    fn count(&mut self, batch: &Batch, with_generations: bool) {
        let Self { table, verdicts, streams, of_packets, by_stream, new, .. } = self;
        let (generations, first_generation) = (&mut self.generations, self.first_generation);
        of_packets.clear();
        of_packets.resize(batch.len(), PacketFlow::NONE);
        let (resumed, idle) = (&mut self.resumed, self.idle);
        (*new, *resumed) = (LiveMask::EMPTY, LiveMask::EMPTY);
        let counted_packets = Cell::new(0);
        let evicted_until = Cell::new(self.evicted_until);
        table.count_each(
            batch,
            |i, counted| {
                counted_packets.set(i + 1);
                // Packets without addresses have one record together, and no flow.
                let Some(counted) =
                    counted.filter(|counted| counted.record.key.kind != AddressKind::Opaque)
                else {
                    return;
                };
                let number = counted.number as usize;
                let direction = counted.direction as u8;
                let number_of = counted.number;
                of_packets[i] = PacketFlow { number: number_of, direction, ..PacketFlow::NONE };
                if with_generations {
                    if generations.len() <= number {
                        generations.resize(number + 1, first_generation);
                    }
                    let generation = &mut generations[number];
                    *generation =
                        generation.wrapping_add(u32::from(counted.record.total_packets() == 1));
                    of_packets[i].counted = number_of;
                    of_packets[i].generation = *generation;
                }
                if verdicts.len() <= number {
                    verdicts.resize(number + 1, Verdict::default());
                    if *by_stream {
                        streams.resize_with(number + 1, Stream::default);
                    }
                }
                prefetch_all(&verdicts[number]);
                if batch.key[i].protocol == TCP && *by_stream {
                    prefetch_all(&streams[number]);
                }
                if counted.record.total_packets() == 1 {
                    new.insert(i);
                    if counted.record.first() <= evicted_until.get() {
                        resumed.insert(i);
                    }
                }
            },
            |number, record| {
                self.ended_within.push((number, counted_packets.get()));
                if record.ended == Some(EndReason::Evicted) {
                    self.evicted += 1;
                    let forgotten = record.last().saturating_add_unsigned(idle);
                    evicted_until.set(evicted_until.get().max(forgotten));
                    self.evicted_numbers.push((number, counted_packets.get()));
                }
                if *by_stream {
                    self.ended_numbers.push(number);
                }
            },
        );
        self.evicted_until = evicted_until.get();
    }

    /// Fetches into the cache what segments need of the pool and of the streams' ends.
    pub(super) fn prefetch(&self, batch: &Batch, texts: &[Texts]) {
        for i in batch.live().iter().filter(|&i| texts[i].segment.is_some()) {
            let PacketFlow { number, direction, .. } = self.of_packets[i];
            let Some(stream) = self.streams.get(number as usize) else { continue };
            let direction = usize::from(direction);
            stream.connection.prefetch(direction, &self.pool);
            let tail = stream.states[direction].tail();
            prefetch_all(&tail[..tail.len().min(PREFETCHED_TAIL)]);
        }
    }

    /// Notes what becomes of a flow when TCP has closed it: it is kept until it is idle if it is
    /// suspect, so that no reset or SYN that a receiver ignores makes it a clean one, and if it is
    /// not certain that the connection has ended.
    pub(super) fn keep(&mut self, number: u32) {
        let Some(verdict) = self.verdicts.get_mut(number as usize) else { return };
        let is_open = |stream: &Stream| stream.edition != 0 && !stream.connection.is_closed();
        let is_kept = !verdict.is_clean() || self.streams.get(number as usize).is_some_and(is_open);
        if verdict.is_kept != is_kept {
            verdict.is_kept = is_kept;
            if let Some(record) = self.table.record_mut(number) {
                record.state = u16::from(is_kept);
            }
        }
    }

    /// Whether nothing was found in the flow of packet `i` before the batch, or it is of none. Once a flow
    /// is suspect it stays so, as long as there is its record.
    pub(super) fn is_clean(&self, i: usize) -> bool {
        let number = self.of_packets[i].number as usize;
        self.verdicts.get(number).is_none_or(|verdict| verdict.is_clean())
    }

    /// What a gateway is told of packet `i`, by the verdict of its flow behind it, and if it passes by
    /// itself, why.
    pub(super) fn report(
        &self,
        i: usize,
        texts: &Texts,
        verdict: &Verdict,
        alone_for: Option<PassReason>,
    ) -> Scanned {
        let PacketFlow { number, counted, generation, .. } = self.of_packets[i];
        // The flow ended behind the packet, so that the number is no flow's, or another's.
        let is_over = self.ended_suspect.contains(i) || counted != number;
        let (reason, is_alone) = match alone_for {
            _ if !verdict.is_clean() => (verdict.reason, false),
            Some(reason) if !is_over => (reason, true),
            _ if is_over => (PassReason::ENDED, false),
            _ => (PassReason::CLEAN, false),
        };
        let is_clean = reason == PassReason::CLEAN || is_alone;
        Scanned {
            flow: counted,
            generation,
            payload: texts.payload_len.unwrap_or(texts.block.1).min(u16::MAX.into()) as u16,
            reason: reason.number(),
            is_alone,
            waits: texts.lacks,
            ends_clean: is_clean && texts.closes && !texts.lacks,
        }
    }

    /// Marks the packets of suspect flows that ended behind them in the batch: when packets are
    /// judged, the verdict is that of another flow.
    fn mark_ended(&mut self) {
        self.ended_suspect = LiveMask::EMPTY;
        let verdicts = &self.verdicts;
        let is_suspect =
            |number: u32| verdicts.get(number as usize).is_some_and(|verdict| !verdict.is_clean());
        self.ended_within.retain(|&(number, before)| before > 0 && is_suspect(number));
        last_of_each(&mut self.ended_within);
        if !self.ended_within.is_empty() {
            for (i, flow) in self.of_packets.iter().enumerate() {
                if is_before(&self.ended_within, flow.number, i) {
                    self.ended_suspect.insert(i);
                }
            }
        }
        self.ended_within.clear();
    }

    /// Takes their numbers from packets whose flow was evicted within the batch: they are another
    /// flow's.
    fn forget_evicted(&mut self) {
        if self.evicted_numbers.is_empty() {
            return;
        }
        last_of_each(&mut self.evicted_numbers);
        for (i, flow) in self.of_packets.iter_mut().enumerate() {
            if is_before(&self.evicted_numbers, flow.number, i) {
                flow.number = NO_RECORD;
            }
        }
        self.evicted_numbers.clear();
    }

    /// No packet has come for some nanoseconds since the last batch.
    pub(super) fn pass_time(&mut self, nanos: u64) {
        let Self { table, ended_numbers, by_stream, .. } = self;
        table.pass_time(nanos, |number, _| {
            if *by_stream {
                ended_numbers.push(number);
            }
        });
        self.forget_ended();
    }

    /// Gives back the memory of the flows that have ended since the last call, unless their number is
    /// another flow's.
    pub(super) fn forget_ended(&mut self) {
        for number in self.ended_numbers.drain(..) {
            let stream = self.streams.get_mut(number as usize);
            if let Some(stream) = stream.filter(|_| self.table.record(number).is_none()) {
                let verdict = &self.verdicts[number as usize];
                end(stream, verdict, &mut self.pool, &mut self.ended);
            }
        }
    }

    /// Ends all streams, and notes what remains in doubt: no packet comes any more.
    pub(super) fn finish(&mut self) {
        for (stream, verdict) in self.streams.iter_mut().zip(&self.verdicts) {
            end(stream, verdict, &mut self.pool, &mut self.ended);
        }
    }
}

/// Leaves of each number the last end, in order of the numbers.
fn last_of_each(ends: &mut Vec<(u32, usize)>) {
    ends.sort_unstable_by_key(|&(number, before)| (number, Reverse(before)));
    ends.dedup_by_key(|(number, _)| *number);
}

/// Whether packet `i` was counted before the last end of a flow with this number.
fn is_before(ends: &[(u32, usize)], number: u32, i: usize) -> bool {
    let place = ends.binary_search_by_key(&number, |&(number, _)| number);
    place.is_ok_and(|place| i < ends[place].1)
}

/// Ends a stream, and notes what remains in doubt beyond what its flow has.
fn end(stream: &mut Stream, verdict: &Verdict, pool: &mut Pool, ended: &mut Vec<Uncertainties>) {
    if stream.edition != 0 {
        let doubts = mem::take(stream).connection.end(pool).without(verdict.causes);
        if !doubts.is_empty() {
            ended.push(doubts);
        }
    }
}
