//! The flows of a scan stage: what was found in each, and the streams of TCP connections.

use std::mem;

use forebay_flow::{EndReason, FlowTable, OnFull, RecordOptions};
use forebay_packet::flow::AddressKind;
use forebay_packet::{Batch, HashKey, NO_RECORD};
use forebay_scan::StreamState;
use forebay_scan::reassembly::{Connection, Pool, Uncertainties};
use forebay_scan::rules::Evidence;

use super::compiled::{ScanMode, ScanOptions};
use super::rules::opens;

/// Flows that are examined for an end, for each packet.
const SWEPT_PER_PACKET: usize = 2;

/// Flows that are examined for an end when time passes.
const SWEPT_AT_REST: usize = 4096;

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
    /// The number of the rules that the evidence is of.
    pub edition: u32,
    /// What was found of rules.
    pub evidence: Evidence,
}

impl Verdict {
    pub(super) fn is_clean(self) -> bool {
        !self.hit && self.causes.is_empty()
    }
}

/// The streams of a TCP connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub connection: Connection,
    pub states: [StreamState; 2],
    /// The number of the literals that the states are of; 0 for none.
    pub edition: u32,
}

/// Whose a packet is.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketFlow {
    /// The number of the flow, or [`NO_RECORD`].
    pub number: u32,
    /// 0 if it came from the end that sent the first packet, 1 if it went to it.
    pub direction: u8,
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
    /// Doubts about flows at their end.
    pub ended: Vec<Uncertainties>,
    pub evicted: u64,
    by_stream: bool,
    cursor: usize,
}

impl ScannedFlows {
    pub(super) fn new(options: &ScanOptions, secret: &HashKey) -> Self {
        let by_stream = options.mode == ScanMode::Stream;
        Self {
            table: FlowTable::new(RecordOptions {
                idle: Some(options.idle),
                // Which end of a connection is certain, is found by its stream.
                until_idle: true,
                // No new flow waits until a huge page is cleared.
                huge_pages: false,
                ..RecordOptions::new(options.flows, OnFull::Evict)
            }),
            // All at once, so that no flow waits while others are moved.
            verdicts: Vec::with_capacity(options.flows),
            streams: Vec::with_capacity(if by_stream { options.flows } else { 0 }),
            pool: Pool::new(&options.reassembly, secret),
            of_packets: Vec::new(),
            ended: Vec::new(),
            evicted: 0,
            by_stream,
            cursor: 0,
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
    pub(super) fn find(&mut self, batch: &Batch, edition: u32) {
        let Self { table, verdicts, streams, pool, of_packets, ended, evicted, by_stream, .. } =
            self;
        let evicted_before = *evicted;
        of_packets.clear();
        of_packets.resize(batch.len(), PacketFlow { number: NO_RECORD, direction: 0 });
        table.count_each(
            batch,
            |i, counted| {
                // Packets without addresses have one record together, and no flow.
                let Some(counted) =
                    counted.filter(|counted| counted.record.key.kind != AddressKind::Opaque)
                else {
                    return;
                };
                let number = counted.number as usize;
                of_packets[i] =
                    PacketFlow { number: counted.number, direction: counted.direction as u8 };
                if verdicts.len() <= number {
                    verdicts.resize(number + 1, Verdict::default());
                    if *by_stream {
                        streams.resize_with(number + 1, Stream::default);
                    }
                }
                if counted.record.total_packets() == 1 {
                    let opened = opens(batch.key[i].protocol, batch.tcp_flags[i]);
                    let new =
                        Verdict { opened, in_handshake: opened, edition, ..Verdict::default() };
                    let old = mem::replace(&mut verdicts[number], new);
                    if let Some(stream) = streams.get_mut(number) {
                        end(stream, &old, pool, ended);
                        stream.edition = edition;
                    }
                }
            },
            |_, record| *evicted += u64::from(record.ended == Some(EndReason::Evicted)),
        );
        if self.evicted != evicted_before {
            self.forget_evicted(batch);
        }
        self.sweep(SWEPT_PER_PACKET * batch.len());
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

    /// Takes their numbers from packets whose flow was evicted within the batch: they are another
    /// flow's.
    #[cold]
    fn forget_evicted(&mut self, batch: &Batch) {
        for (i, flow) in self.of_packets.iter_mut().enumerate() {
            let record = self.table.record(flow.number);
            if record.is_none_or(|record| !record.key.is(&batch.key[i])) {
                flow.number = NO_RECORD;
            }
        }
    }

    /// No packet has come for some nanoseconds since the last batch.
    pub(super) fn pass_time(&mut self, nanos: u64) {
        self.table.pass_time(nanos, |_| {});
        self.sweep(SWEPT_AT_REST);
    }

    /// Ends all streams, and notes what remains in doubt: no packet comes any more.
    pub(super) fn finish(&mut self) {
        for (stream, verdict) in self.streams.iter_mut().zip(&self.verdicts) {
            end(stream, verdict, &mut self.pool, &mut self.ended);
        }
    }

    /// Gives back the memory of some of the flows that have ended.
    fn sweep(&mut self, flows: usize) {
        if self.streams.is_empty() {
            return;
        }
        for _ in 0..flows.min(self.streams.len()) {
            self.cursor = (self.cursor + 1) % self.streams.len();
            let stream = &mut self.streams[self.cursor];
            if stream.edition != 0 && self.table.record(self.cursor as u32).is_none() {
                let verdict = &self.verdicts[self.cursor];
                end(stream, verdict, &mut self.pool, &mut self.ended);
            }
        }
    }
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
