//! The table of records.

use std::cmp::Reverse;
use std::hash::{BuildHasher as _, RandomState};

use forebay_packet::flow::AddressKind;
use forebay_packet::{Batch, FlowKey, HashKey};

use super::ahead::Ahead;
use super::index::{Full, Index, NONE};
use super::record::{ACK, EndReason, FlowRecord, SYN};
use super::slab::Slab;
use crate::hash::Secret;
use crate::level::Level;
use crate::table::MAX_FLOWS;
use crate::table::kernel::{hash_flow, hash_flows};

/// Records that are examined for silence, for each packet.
const SWEPT_PER_PACKET: usize = 2;

/// Records of which that with the longest silence is evicted, at least.
const COMPARED: usize = 8;

/// Parts of the idle timeout in each of which all records are examined once, if enough packets
/// come.
const SWEEPS_PER_TIMEOUT: u64 = 4;

/// Nanoseconds that a closed connection is kept for late packets, or the idle timeout if that
/// is less.
const CLOSED_TIMEOUT: u64 = 5_000_000_000;

/// Records that are examined for silence when time passes without packets.
const SWEPT_AT_REST: usize = 8192;

/// What happens to the packets of a new flow when the table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// Of the records in the new one's buckets, and others if these are fewer than 8, that with
    /// the longest silence ends.
    Evict,
    /// They are counted together, without a record.
    Ignore,
}

/// The properties of a [`FlowTable`].
#[derive(Clone, Copy, Debug)]
pub struct RecordOptions {
    /// The most records that are open at a time; at most 2^30, and at least 1.
    pub flows: usize,
    /// What happens when there are as many.
    pub on_full: OnFull,
    /// Nanoseconds of silence that end a record; also has closed connections end, after less.
    pub idle: Option<u64>,
    /// A connection between the ends of one that TCP has closed is part of its record, and a record
    /// whose `state` is not 0 is kept for the idle timeout although TCP has closed it.
    pub until_idle: bool,
    /// Nanoseconds after its first packet that a record ends with the next one.
    pub active: Option<u64>,
    /// Memory comes in huge pages, where the system has them: faster, but a new flow may wait for
    /// one to be cleared.
    pub huge_pages: bool,
    /// The secret of the hash.
    pub key: HashKey,
    /// The instructions used.
    pub level: Level,
}

impl RecordOptions {
    /// Without timeouts, on huge pages, with the fastest instructions, and with a secret of this
    /// table alone, so that no traffic can be made to collide in it.
    #[must_use]
    pub fn new(flows: usize, on_full: OnFull) -> Self {
        let random = RandomState::new();
        let key = HashKey([random.hash_one(0), random.hash_one(1)]);
        let level = Level::fastest();
        Self {
            flows,
            on_full,
            idle: None,
            until_idle: false,
            active: None,
            huge_pages: true,
            key,
            level,
        }
    }
}

/// A packet that was counted.
#[derive(Debug)]
pub struct Counted<'a> {
    /// The number of its flow's record.
    pub number: u32,
    /// The record, with the packet.
    pub record: &'a mut FlowRecord,
    /// 0 if the packet came from the end that sent the first packet, 1 if it went to it.
    pub direction: usize,
    /// It is the first packet of the record in its direction.
    pub is_first: bool,
    /// The record begins with the packet, and goes on with a flow whose last record has ended by the
    /// active timeout.
    pub resumes: bool,
}

/// Lists of the live packets of the batch that is counted.
#[derive(Debug, Default)]
struct Work {
    /// Where they are in the batch.
    places: Vec<u16>,
    hashes: Vec<u64>,
    /// The numbers of records that the hashes lead to.
    ahead: Ahead,
    times: Vec<i64>,
}

/// The flows seen. Packets in which no address was found are one record, its `low` 0: what
/// they have in common is just that.
#[derive(Debug)]
pub struct FlowTable {
    index: Index,
    records: Slab,
    secret: Secret,
    options: RecordOptions,
    unrecorded: u64,
    work: Work,
    /// The next record that is compared with others for the longest silence.
    next_compared: usize,
    /// The next record that is examined for silence.
    cursor: usize,
    /// When the cursor was at the first record.
    sweep_began: i64,
    /// The time of the last batch.
    now: Option<i64>,
}

impl FlowTable {
    /// The most bytes that a table of so many flows takes.
    #[must_use]
    pub fn most_bytes(flows: usize) -> u64 {
        Index::most_bytes(flows) + flows as u64 * size_of::<FlowRecord>() as u64
    }

    /// An empty table.
    #[must_use]
    pub fn new(options: RecordOptions) -> Self {
        let flows = options.flows.clamp(1, MAX_FLOWS);
        Self {
            index: Index::new(flows, options.huge_pages),
            records: Slab::new(options.huge_pages),
            secret: Secret::new(options.key, options.level),
            options: RecordOptions { flows, ..options },
            unrecorded: 0,
            work: Work::default(),
            next_compared: 0,
            cursor: 0,
            sweep_began: i64::MIN,
            now: None,
        }
    }

    /// Counts the live packets of a classified batch. `ended` gets the records that end by it.
    ///
    /// # Panics
    /// When the batch has no keys.
    pub fn count(&mut self, batch: &Batch, mut ended: impl FnMut(FlowRecord)) {
        self.count_each(batch, |_, _| {}, |_, record| ended(record));
    }

    /// As [`FlowTable::count`]. `each` gets the index of each packet in the batch with its
    /// record; none beyond the limit. Records have numbers from 0 on in the order of
    /// their first packets, and one that has ended leaves its number to another, perhaps in the
    /// same batch: `ended` gets the number that the record had, when `each` has had all of its
    /// packets.
    ///
    /// # Panics
    /// When the batch has no keys.
    pub fn count_each(
        &mut self,
        batch: &Batch,
        mut each: impl FnMut(usize, Option<Counted<'_>>),
        mut ended: impl FnMut(u32, FlowRecord),
    ) {
        assert_eq!(batch.key.len(), batch.len(), "a batch with keys");
        let mut work = std::mem::take(&mut self.work);
        let Work { places, hashes, ahead, times } = &mut work;
        // Packets that are not live take no time.
        places.clear();
        places.extend(batch.live().iter().take_while(|&i| i < batch.len()).map(|i| i as u16));
        let keys = places.iter().map(|&place| &batch.key[usize::from(place)]);
        hash_flows(&self.secret, keys, hashes);
        ahead.begin(places.len());
        batch.nanos_at(places, times);
        // Of one length, so that a packet's number is compared with it once.
        let packets = batch.len();
        let (keys, reversed) = (&batch.key[..packets], &batch.reversed[..packets]);
        let wire_lens = &batch.wire_lens()[..packets];
        let mut now = None;
        for (at, ((&i, &hash), &nanos)) in places.iter().zip(&*hashes).zip(&*times).enumerate() {
            let i = usize::from(i);
            let guess = ahead.number(at, hashes, &self.index, &self.records);
            let packet = Packet {
                nanos,
                wire_len: wire_lens[i],
                reversed: reversed[i],
                tcp_flags: batch.tcp_flags.get(i).copied().unwrap_or(0),
                output: batch.output.get(i).copied(),
            };
            // The least, so that a single packet from the future ends no flow of others.
            now = Some(now.map_or(packet.nanos, |now| packet.nanos.min(now)));
            let opaque;
            let key = &keys[i];
            let (key, hash, guess) = match key.kind {
                AddressKind::Opaque => {
                    opaque = FlowKey { low: 0, ..*key };
                    (&opaque, hash_flow(&self.secret, &opaque), NONE)
                }
                _ => (key, hash, guess),
            };
            let counted = self.packet(key, hash, guess, &packet, &mut ended);
            each(i, counted);
        }
        if let Some(now) = now {
            self.now = Some(now);
            self.sweep(now, SWEPT_PER_PACKET * batch.len(), &mut ended);
        }
        self.work = work;
    }

    /// Gives back the memory by which flows are found: all packets are counted. What is still
    /// counted begins flows anew.
    pub fn finish(&mut self) {
        self.index = Index::new(1, false);
    }

    /// Packets of flows beyond the limit.
    #[must_use]
    pub fn unrecorded_packets(&self) -> u64 {
        self.unrecorded
    }

    /// Open records.
    #[must_use]
    pub fn open(&self) -> usize {
        self.records.open()
    }

    /// The open records; in the order of their first packets, unless others have ended.
    pub fn records(&self) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter()
    }

    /// Pages of the index.
    #[must_use]
    pub fn index_pages(&self) -> usize {
        self.index.segments()
    }

    /// Has records end by other timeouts from now on.
    pub fn set_timeouts(&mut self, idle: Option<u64>, active: Option<u64>) {
        (self.options.idle, self.options.active) = (idle, active);
    }

    /// No packet has come for some nanoseconds since the last batch; ends some of the records that
    /// are silent for too long. `ended` gets them with the numbers that they had.
    pub fn pass_time(&mut self, nanos: u64, mut ended: impl FnMut(u32, FlowRecord)) {
        if let Some(now) = self.now {
            let now = now.saturating_add_unsigned(nanos);
            self.sweep(now, SWEPT_AT_REST, &mut ended);
        }
    }

    /// The numbers that are in use or have been: all records have lower ones.
    #[must_use]
    pub fn numbers(&self) -> u32 {
        self.records.numbers() as u32
    }

    /// The open record of a number, to change what is kept of it for policies.
    #[inline]
    #[must_use]
    pub fn record_mut(&mut self, number: u32) -> Option<&mut FlowRecord> {
        self.records.open_one(number)?;
        Some(self.records.get_mut(number))
    }

    /// The open record of a number.
    #[must_use]
    pub fn record(&self, number: u32) -> Option<&FlowRecord> {
        self.records.open_one(number)
    }

    /// Counts a packet, and returns its record. `guess` is that number, or any
    /// other.
    #[inline(always)]
    fn packet(
        &mut self,
        key: &FlowKey,
        hash: u64,
        guess: u32,
        packet: &Packet,
        ended: &mut impl FnMut(u32, FlowRecord),
    ) -> Option<Counted<'_>> {
        let is = |records: &Slab, number: u32| {
            records.open_one(number).is_some_and(|record| record.key.is(key))
        };
        let number = if is(&self.records, guess) {
            guess
        } else {
            let known = self.index.find(hash, |number| is(&self.records, number));
            match known.or_else(|| self.open_record(*key, hash, packet, ended)) {
                Some(number) => number,
                None => {
                    self.unrecorded += 1;
                    return None;
                }
            }
        };
        let options = self.options;
        let record = self.records.get_mut(number);
        let mut resumes = false;
        if let Some(reason) = packet.ends(record, &options) {
            resumes = reason == EndReason::Active;
            ended(number, record.ending(reason));
            let new = FlowRecord::new(*key, packet.reversed, packet.nanos);
            *record = match reason {
                EndReason::Active => new.continuing(record),
                EndReason::Idle | EndReason::Closed | EndReason::Evicted => new,
            };
        }
        let (direction, is_first) = packet.count(record);
        Some(Counted { number, record, direction, is_first, resumes })
    }

    /// A record for a new flow.
    #[cold]
    fn open_record(
        &mut self,
        key: FlowKey,
        hash: u64,
        packet: &Packet,
        ended: &mut impl FnMut(u32, FlowRecord),
    ) -> Option<u32> {
        if self.records.open() >= self.options.flows {
            self.make_room(hash, packet.nanos, ended)?;
        }
        let number = self.records.insert(FlowRecord::new(key, packet.reversed, packet.nanos));
        while let Err(Full) = self.index.insert(hash, number) {
            if self.make_room(hash, packet.nanos, ended).is_none() {
                self.records.remove(number);
                return None;
            }
        }
        Some(number)
    }

    /// Ends the record with the longest silence of those beside `hash`, if that is allowed.
    fn make_room(
        &mut self,
        hash: u64,
        now: i64,
        ended: &mut impl FnMut(u32, FlowRecord),
    ) -> Option<()> {
        if self.options.on_full == OnFull::Ignore {
            return None;
        }
        let neighbours = self.index.neighbours(hash).count();
        let other = self.oldest_of_next(COMPARED.saturating_sub(neighbours), now);
        let all = other.into_iter().chain(self.index.neighbours(hash));
        let number = all.min_by_key(|&number| Reverse(self.records.get(number).silence(now)))?;
        self.end(number, EndReason::Evicted, ended);
        Some(())
    }

    /// The one with the longest silence of so many open records, which are behind those that were
    /// compared before.
    fn oldest_of_next(&mut self, records: usize, now: i64) -> Option<u32> {
        let (numbers, from) = (self.records.numbers(), self.next_compared);
        let all = (0..numbers).map(|n| ((from + n) % numbers) as u32);
        let open = all.filter(|&number| self.records.open_one(number).is_some());
        let compared = open.take(records).inspect(|&last| self.next_compared = last as usize + 1);
        compared.min_by_key(|&number| Reverse(self.records.get(number).silence(now)))
    }

    fn end(&mut self, number: u32, reason: EndReason, ended: &mut impl FnMut(u32, FlowRecord)) {
        let record = self.records.remove(number);
        self.index.remove(hash_flow(&self.secret, &record.key), number);
        ended(number, record.ending(reason));
    }

    /// Examines some records, and ends those that are silent for too long.
    fn sweep(&mut self, now: i64, records: usize, ended: &mut impl FnMut(u32, FlowRecord)) {
        let Some(idle) = self.options.idle else { return };
        if self.cursor >= self.records.numbers() {
            // A clock that was set back begins anew, too.
            if since(now, self.sweep_began) < idle / SWEEPS_PER_TIMEOUT && now >= self.sweep_began {
                return;
            }
            (self.cursor, self.sweep_began) = (0, now);
        }
        let last = self.records.numbers().min(self.cursor + records);
        for number in self.cursor..last {
            let number = number as u32;
            let Some(record) = self.records.open_one(number) else { continue };
            if let Some(reason) = silent(record, now, idle, self.options.until_idle) {
                self.end(number, reason, ended);
            }
        }
        self.cursor = last;
    }
}

/// Why a record ends by time `now`, if it does. With `until_idle` one with a state waits for the idle
/// timeout also when it is closed.
fn silent(record: &FlowRecord, now: i64, idle: u64, until_idle: bool) -> Option<EndReason> {
    let silence = record.silence(now).max(0).cast_unsigned();
    if record.is_closed() && !(until_idle && record.state != 0) {
        (silence > idle.min(CLOSED_TIMEOUT)).then_some(EndReason::Closed)
    } else {
        (silence > idle).then_some(EndReason::Idle)
    }
}

/// Nanoseconds from a time to another, 0 if that was before.
fn since(now: i64, then: i64) -> u64 {
    if now > then { now.abs_diff(then) } else { 0 }
}

/// What is counted of a packet.
struct Packet {
    nanos: i64,
    wire_len: u32,
    reversed: bool,
    tcp_flags: u8,
    output: Option<u16>,
}

impl Packet {
    /// Why this packet of its flow is the first of another record, if it is.
    #[inline]
    fn ends(&self, record: &FlowRecord, options: &RecordOptions) -> Option<EndReason> {
        if record.is_empty(0) {
            return None;
        }
        if let Some(idle) = options.idle {
            let is_first = self.tcp_flags & (SYN | ACK) == SYN && record.is_closed();
            let opens = is_first && !options.until_idle;
            let reason = silent(record, self.nanos, idle, options.until_idle);
            if let Some(reason) = reason.or(opens.then_some(EndReason::Closed)) {
                return Some(reason);
            }
        }
        let is_old = |active| since(self.nanos, record.first()) >= active;
        (record.is_full() || options.active.is_some_and(is_old)).then_some(EndReason::Active)
    }

    /// Counts the packet. Returns its direction, and whether it is the first in it.
    #[inline]
    fn count(&self, record: &mut FlowRecord) -> (usize, bool) {
        let direction = usize::from(self.reversed != record.a_is_high());
        let is_first = record.count(direction, self.nanos, self.wire_len);
        if is_first {
            record.set_output(direction, self.output);
        }
        record.tcp_flags[direction] |= self.tcp_flags;
        (direction, is_first)
    }
}
