//! Scans payloads for literals, or for those of rules, and keeps a verdict for each flow.
//!
//! A packet is *suspect* (the batch's column `suspect`) if its flow has a literal, or may have one
//! that was not found; with rules, if a rule may fire on it or its flow (`rules.rs`). Anything that
//! is not decoded, not captured whole or not reassembled with certainty is a cause of doubt with a name and a counter. A flow is suspect from the packet on
//! that makes it so until it is silent for the idle timeout; packets before that were passed as
//! clean. While bytes of a stream are missing, packets of its flow are suspect too, and the flow is
//! not if they come.
//!
//! What is one text depends on the mode. The text of a packet that is in a tunnel, a fragment or
//! not TCP or UDP is the whole packet. No packet is changed, held or dropped.

mod compiled;
mod counts;
mod flows;
mod parts;
mod reasons;
mod rules;
mod select;
mod texts;

use std::sync::Arc;

use forebay_packet::decode::DecodeOutcome;
use forebay_packet::{Batch, Decoder, HashKey, LinkType, LiveMask, NO_RECORD, Scanned};
use forebay_scan::reassembly::{Piece, Segment, Uncertainty};
use forebay_scan::rules::may_begin_http;
use forebay_scan::{Match, Matches, Scratch, prefetch_all};

pub use compiled::{CompiledScan, HitCounters, Hits, MOST_COUNTED, ScanMode, ScanOptions};
pub use reasons::PassReason;
pub use rules::{Passed, RuleHits, ScanRules};
pub(super) use rules::{RST, TCP, opens};
pub(super) use select::STAGE;
pub use select::ScanSelection;

use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};
use compiled::BatchHits;
use counts::Counts;
use flows::{PacketFlow, ScannedFlows, Stream, Verdict};
use parts::{Parts, packet_of};
use rules::{ICMP, ICMPV6, SYN, Seen, UDP, is_inner};
use texts::{TcpPart, Texts};

/// Bytes of a payload that are fetched into the cache when its headers are read.
const PREFETCHED: usize = 256;

/// Bits of a number that tells the flows of a place in a table apart: those above are the table's.
pub(super) const GENERATIONS: u32 = 24;

/// The others are fetched so many packets ahead.
const AHEAD: usize = 2;

/// What is scanned for, or nothing any more.
impl Setting for Option<Arc<CompiledScan>> {}

/// Whether the column `scanned` is written, for stages that ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanReports(pub bool);

impl Setting for ScanReports {}

/// What a stage has while it scans.
struct Scanning {
    compiled: Arc<CompiledScan>,
    decoder: Decoder,
    scratch: Scratch,
    matches: Matches,
    flows: ScannedFlows,
    /// The number of the literals in force, from 1.
    edition: u32,
    texts: Vec<Texts>,
    parts: Parts,
    hits: BatchHits,
}

/// Gets what a stage finds.
pub trait ScanObserver: Send {
    /// The matches in a batch: `text` is a packet, that which completes the literal. They have no
    /// order, and a pair can be there twice. `scanned` are the bytes of each packet that were scanned.
    fn scanned(&mut self, batch: &Batch, matches: &[Match], scanned: &[usize]);
}

/// Scans the payloads of packets, and marks those of suspect flows.
pub struct Scan {
    observer: Option<Box<dyn ScanObserver>>,
    reports: bool,
    /// Tables of flows that were made.
    tables: u32,
    /// What it gets: matches, and the bytes of each packet that were scanned.
    found: Vec<Match>,
    scanned_bytes: Vec<usize>,
    secret: HashKey,
    scanning: Option<Scanning>,
    counts: Counts,
    /// When the last batch came to any stage, and the last to this one, by the clock of ticks.
    begun: u64,
    scanned: u64,
}

impl Scan {
    /// Scans for `compiled`; marks nothing while there is none. `secret` is that of flow hashes.
    #[must_use]
    pub fn optional(compiled: Option<Arc<CompiledScan>>, secret: HashKey) -> Self {
        let mut scan = Self {
            observer: None,
            reports: false,
            tables: 0,
            found: Vec::new(),
            scanned_bytes: Vec::new(),
            secret,
            scanning: None,
            counts: Counts::default(),
            begun: 0,
            scanned: 0,
        };
        scan.set(compiled);
        scan
    }

    /// The same, with an observer of what is found.
    #[must_use]
    pub fn observed(self, observer: Box<dyn ScanObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The same, which writes the column `scanned`.
    #[must_use]
    pub fn reporting(self, ScanReports(reports): ScanReports) -> Self {
        Self { reports, ..self }
    }

    fn set(&mut self, compiled: Option<Arc<CompiledScan>>) {
        let Some(compiled) = compiled else {
            self.scanning = None;
            return;
        };
        let old = self.scanning.take();
        if let Some(old) = old {
            if Arc::ptr_eq(&old.compiled, &compiled) {
                self.scanning = Some(old);
                return;
            }
            self.counts.evicted += old.flows.evicted;
            let [new, before] = [&compiled, &old.compiled].map(|compiled| *compiled.options());
            if (new.mode, new.flows, new.idle, new.reassembly)
                == (before.mode, before.flows, before.idle, before.reassembly)
            {
                let mut flows = old.flows;
                flows.evicted = 0;
                self.scanning = Some(Scanning::new(compiled, flows, old.edition + 1));
                return;
            }
        }
        self.tables += 1;
        let generation = self.tables << GENERATIONS;
        let flows = ScannedFlows::new(compiled.options(), &self.secret, generation);
        self.scanning = Some(Scanning::new(compiled, flows, 1));
    }
}

impl Scanning {
    fn new(compiled: Arc<CompiledScan>, flows: ScannedFlows, edition: u32) -> Self {
        Self {
            decoder: Decoder::new(compiled.options().decode),
            scratch: compiled.scanner().scratch(),
            hits: BatchHits::new(compiled.literals().len()),
            compiled,
            matches: Matches::new(),
            flows,
            edition,
            texts: Vec::new(),
            parts: Parts::default(),
        }
    }

    /// Marks the suspect packets of a batch. With `scans_all` flows are scanned that are suspect
    /// already, too.
    fn scan(&mut self, batch: &mut Batch, counts: &mut Counts, (reports, scans_all): (bool, bool)) {
        self.decode(batch);
        self.flows.find(batch, self.edition, reports);
        self.matches.clear();
        self.scan_texts(batch, (reports, scans_all));
        let reported = if reports { batch.len() } else { 0 };
        batch.scanned.clear();
        batch.scanned.resize(reported, Scanned::NOTHING);
        self.judge(batch, counts);
        self.flows.forget_ended();
        counts.add_ended(&mut self.flows);
    }

    /// Finds the flow and the texts of each packet.
    fn decode(&mut self, batch: &mut Batch) {
        let packets = batch.len();
        batch.clear_flows();
        batch.key.resize(packets, Default::default());
        batch.reversed.resize(packets, false);
        batch.tcp_flags.resize(packets, 0);
        // Those of packets that are not live are of no packet.
        self.texts.resize(packets, Texts::default());
        let is_ethernet = batch.interfaces().iter().all(|one| one.link == LinkType::ETHERNET);
        for i in batch.live().iter() {
            if !is_ethernet || !self.decode_plain(batch, i) {
                self.decode_any(batch, i);
            }
        }
    }

    /// Takes a packet whose headers are plain to see, and returns whether it is one.
    fn decode_plain(&mut self, batch: &mut Batch, i: usize) -> bool {
        let options = self.compiled.options();
        let packet = batch.packet(i);
        let Some((plain, carried)) = self.decoder.decode_plain_with_carried(packet) else {
            return false;
        };
        prefetch_all(&carried.payload[..carried.payload.len().min(PREFETCHED)]);
        let missing = batch.wire_len(i).saturating_sub(packet.len() as u32);
        let texts = &mut self.texts[i];
        *texts = Texts::default();
        texts.take(packet, &carried, missing, options.mode == ScanMode::Stream);
        if self.compiled.rules().is_some() {
            texts.tunnel_depth = options.decode.tunnel_depth;
        }
        batch.set_flow(i, plain.key, plain.reversed);
        batch.tcp_flags[i] = plain.tcp_flags.unwrap_or(0);
        true
    }

    /// Takes a packet, whatever it is.
    fn decode_any(&mut self, batch: &mut Batch, i: usize) {
        let by_stream = self.compiled.options().mode == ScanMode::Stream;
        let packet = batch.packet(i);
        let (decoded, carried) = self.decoder.decode_with_carried(batch.interface(i).link, packet);
        let missing = batch.wire_len(i).saturating_sub(packet.len() as u32);
        let mut texts = Texts { block: (0, packet.len() as u32), ..Texts::default() };
        let is_fragment = decoded.fragments[0].is_some();
        let has_transport = carried.is_some();
        match carried.filter(|_| !is_fragment) {
            Some(carried) => texts.take(packet, &carried, missing, by_stream),
            None if missing > 0 => texts.causes.insert(Uncertainty::Truncated),
            None => {}
        }
        match decoded.outcome {
            _ if is_fragment => texts.causes.insert(Uncertainty::Fragment),
            DecodeOutcome::Cut => texts.causes.insert(Uncertainty::Truncated),
            DecodeOutcome::UnknownLink | DecodeOutcome::NotIp => {
                texts.causes.insert(Uncertainty::Undecoded);
            }
            DecodeOutcome::Ip if decoded.undecoded.is_some() || decoded.hides => {
                texts.causes.insert(Uncertainty::Undecoded);
            }
            DecodeOutcome::Arp | DecodeOutcome::Ip | DecodeOutcome::LaterFragment => {}
        }
        batch.set_flow(i, decoded.key, decoded.reversed);
        if self.compiled.rules().is_some() {
            texts.tunnel_depth = self.compiled.options().decode.tunnel_depth;
            texts.is_layered |= !has_transport && is_inner(batch, i);
            // What is behind an extension header of IPv6, for example.
            let is_known = matches!(decoded.key.protocol, TCP | UDP | ICMP | ICMPV6);
            texts.may_begin_http = texts.segment.is_none() && !is_known;
        }
        self.texts[i] = texts;
        batch.tcp_flags[i] = decoded.tcp_flags.unwrap_or(0);
    }

    /// Scans the texts of packets, those by themselves and parts of streams.
    fn scan_texts(&mut self, batch: &Batch, (reports, scans_all): (bool, bool)) {
        self.flows.prefetch(batch, &self.texts);
        let mut next = batch.live().iter().skip(AHEAD);
        for i in batch.live().iter() {
            if let Some(next) = next.next()
                && let Some(part) = self.texts[next].segment
            {
                // The digest reads all of it.
                let payload = &batch.packet(next)[part.start as usize..][..part.len as usize];
                prefetch_all(&payload[payload.len().min(PREFETCHED)..]);
            }
            let Texts { block, segment, .. } = self.texts[i];
            let is_scanned = scans_all || self.flows.is_clean(i);
            if block.1 > 0 && is_scanned {
                self.parts.add_block(i, block);
            }
            if let Some(part) = segment {
                self.take_segment((batch, i), part, (reports, is_scanned));
            }
            if self.parts.are_many() {
                self.scan_parts(batch);
            }
        }
        self.scan_parts(batch);
    }

    /// Takes the part of a stream that packet `i` has.
    fn take_segment(
        &mut self,
        (batch, i): (&Batch, usize),
        part: TcpPart,
        (reports, is_scanned): (bool, bool),
    ) {
        let Self { compiled, flows, edition, texts, parts, .. } = self;
        let (scanner, texts, flow) = (compiled.scanner(), &mut texts[i], flows.of_packets[i]);
        let Some(stream) = flows.streams.get_mut(flow.number as usize) else {
            texts.causes.insert(Uncertainty::Memory);
            return;
        };
        let Stream { connection, states, pending, edition: old } = stream;
        if old != edition {
            *old = *edition;
            *states = Default::default();
            texts.causes.insert(Uncertainty::Reload);
        }
        let segment = Segment {
            sequence: part.sequence,
            acknowledgment: part.acknowledgment,
            flags: batch.tcp_flags[i],
            payload: &batch.packet(i)[part.start as usize..][..part.len as usize],
            sent: part.sent,
        };
        let direction = usize::from(flow.direction);
        // A sensor that takes connections from their middle begins with any segment.
        let mut http = is_scanned && may_begin_http(segment.payload);
        let outcome = connection.segment(direction, &segment, &mut flows.pool, |piece| {
            if !is_scanned {
                return;
            }
            let Piece { direction, bytes, continues } = piece;
            http |= !continues && may_begin_http(bytes);
            let stream = (scanner, &*states, &mut *pending);
            parts.add((i, flow.number, direction, continues), (bytes, batch), stream);
        });
        texts.may_begin_http |= http;
        texts.causes.extend(outcome.uncertain);
        texts.waits = connection.has_hole();
        if reports {
            texts.lacks = texts.waits || connection.is_waiting();
            texts.closes = connection.is_closed();
        }
    }

    fn scan_parts(&mut self, batch: &Batch) {
        let Self { compiled, scratch, matches, flows, parts, .. } = self;
        parts.scan(batch, &mut flows.streams, compiled.scanner(), (scratch, matches));
    }

    /// Updates the verdicts of the flows, and marks packets by them.
    fn judge(&mut self, batch: &mut Batch, counts: &mut Counts) {
        let Self { compiled, matches, flows, texts, edition, hits, .. } = self;
        let mut matches = matches.as_slice();
        let mut suspect = LiveMask::EMPTY;
        for i in batch.live().iter() {
            let found = first_of(&mut matches, |text| packet_of(text) == i);
            let mut hit = false;
            for found in found {
                hits.count(found.literal);
                hit |= compiled.is_hit(found.literal);
            }
            counts.hit_packets += u64::from(hit);
            let PacketFlow { number, direction, .. } = flows.of_packets[i];
            let is_of_flow = number != NO_RECORD;
            let mut alone = Verdict::default();
            let verdict =
                if is_of_flow { &mut flows.verdicts[number as usize] } else { &mut alone };
            let mut alone_for = None;
            if let Some(rules) = compiled.rules() {
                verdict.renew(*edition);
                if direction == 1 && opens(batch.key[i].protocol, batch.tcp_flags[i]) {
                    // Both ends open the connection, so that neither is known to be the server.
                    texts[i].causes.insert(Uncertainty::Syn);
                }
                verdict.in_handshake &= batch.tcp_flags[i] & SYN != 0;
                let texts = &texts[i];
                let seen = Seen { batch, i, texts, direction, is_of_flow, found };
                if verdict.is_clean() && texts.causes.is_empty() {
                    alone_for = rules.judge(&seen, verdict, &mut counts.rules);
                }
                hit = verdict.evidence.may_match();
            }
            if hit && !verdict.hit {
                verdict.hit = true;
                verdict.pass_for(PassReason::LITERAL);
                counts.hit_flows += u64::from(is_of_flow);
            }
            let new = texts[i].causes.without(verdict.causes);
            if !new.is_empty() {
                new.iter().for_each(|cause| {
                    counts.doubts[cause as usize] += 1;
                    verdict.pass_for(PassReason::doubt(cause));
                });
                verdict.causes.extend(new);
            }
            let of_flow = *verdict;
            if alone_for.is_some() || !of_flow.is_clean() || flows.ended_suspect.contains(i) {
                suspect.insert(i);
            } else if texts[i].waits {
                suspect.insert(i);
                counts.waiting_packets += 1;
            }
            flows.keep(number);
            if !batch.scanned.is_empty() {
                batch.scanned[i] = flows.report(i, &texts[i], &of_flow, alone_for);
            }
        }
        hits.publish(compiled);
        counts.suspect_packets += suspect.count() as u64;
        batch.suspect = suspect;
    }
}

/// Takes the first matches off whose texts are wanted.
fn first_of<'a>(matches: &mut &'a [Match], wanted: impl Fn(u32) -> bool) -> &'a [Match] {
    let len = matches.iter().take_while(|found| wanted(found.text)).count();
    let (first, rest) = matches.split_at(len);
    *matches = rest;
    first
}

impl Stage for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn begin(&mut self, now: u64) {
        self.begun = now;
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        batch.suspect = LiveMask::EMPTY;
        if let Some(scanning) = &mut self.scanning {
            self.scanned = self.begun;
            // A gateway has decided on flows that are suspect.
            let scans_all = !self.reports || self.observer.is_some();
            scanning.scan(&mut batch, &mut self.counts, (self.reports, scans_all));
            if let Some(observer) = &mut self.observer {
                let Scanning { texts, matches, .. } = scanning;
                let found = matches.as_slice().iter();
                self.found.clear();
                self.found
                    .extend(found.map(|one| Match { text: packet_of(one.text) as u32, ..*one }));
                self.scanned_bytes.clear();
                self.scanned_bytes.resize(batch.len(), 0);
                for i in batch.live().iter() {
                    self.scanned_bytes[i] = texts[i].scanned();
                }
                observer.scanned(&batch, &self.found, &self.scanned_bytes);
            }
        }
        out.emit(batch);
        Ok(())
    }

    fn tick(&mut self, now: u64, _out: &mut Outbox) -> Result<(), StageError> {
        if let Some(scanning) = &mut self.scanning {
            scanning.flows.pass_time(now.saturating_sub(self.scanned));
        }
        Ok(())
    }

    fn drain(&mut self, _out: &mut Outbox) -> Result<(), StageError> {
        if let Some(scanning) = &mut self.scanning {
            scanning.flows.finish();
            self.counts.add_ended(&mut scanning.flows);
        }
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(compiled) = settings.get::<Option<Arc<CompiledScan>>>() {
            self.set(compiled.clone());
        }
        if let Some(ScanReports(reports)) = settings.get() {
            self.reports = *reports;
        }
    }

    fn remarks(&self) -> Remarks {
        self.counts.remarks(self.scanning.as_ref().map_or(0, |now| now.flows.evicted))
    }
}
