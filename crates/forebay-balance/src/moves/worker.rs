//! The workers' access to the table: looks up the sensor of a packet.
//!
//! For nearly every packet that is one load. For a packet of a moving bucket, the worker
//! looks up the key in the records; if it is not there, the phase of the move decides.
//! Nothing here waits, allocates per packet or fails: if a key cannot be recorded, its move
//! is cancelled at once by changing the entry, and the mover cleans up later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use forebay_packet::FlowKey;

use super::forwarding::{Displaced, ForwardingTable, Pinned};
use super::quiescence::Quiescence;
use super::records::{Changed, ConnectionState, Found, Inserted, Records, Tick, TickClock};
use super::signal::TcpSignal;
use crate::assign::{BUCKETS, MAX_SENSORS, bucket_of};
use crate::counters::{BucketCounters, FlowMarks, Tally, TallyCell};
use crate::table::{BucketTable, Entry};
use crate::watch::{Candidate, Watch, Watchers};

/// Limits of the state of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Keys on record at a time, 8 bytes each; rounded up to a power of two from 8,192 to
    /// 2²⁵.
    pub keys: usize,
    /// Keys that one move may record, so that a flood of its bucket cancels only this move.
    /// Each worker may exceed it by one.
    pub keys_per_move: u32,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self { keys: 1 << 18, keys_per_move: 4096 }
    }
}

/// State shared by the workers of a group and the mover.
#[derive(Debug)]
pub struct WorkerTable {
    table: BucketTable,
    records: Records,
    clock: TickClock,
    quiescence: Quiescence,
    counters: BucketCounters,
    /// Keys recorded since the bucket's move started.
    recorded: Box<[AtomicU32]>,
    keys_per_move: u32,
    /// One bit for each sensor.
    alive: [AtomicU64; MAX_SENSORS / 64],
    displaced: Box<[DisplacedCells]>,
    watchers: Watchers,
}

/// A worker's counters of packets that went to another sensor than new keys of their
/// bucket; an element for each sensor.
#[derive(Debug)]
struct DisplacedCells {
    to: Box<[TallyCell]>,
    from: Box<[TallyCell]>,
    restarts: AtomicU64,
}

impl WorkerTable {
    /// State of a group with this many workers, whose records are kept for `hold`
    /// nanoseconds.
    #[must_use]
    pub fn new(table: BucketTable, workers: usize, hold: u64, limits: RecordLimits) -> Self {
        let cells = || (0..MAX_SENSORS).map(|_| TallyCell::default()).collect();
        let displaced =
            || DisplacedCells { to: cells(), from: cells(), restarts: AtomicU64::new(0) };
        Self {
            table,
            records: Records::new(limits.keys),
            clock: TickClock::new(hold),
            quiescence: Quiescence::new(workers),
            counters: BucketCounters::new(workers),
            recorded: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect(),
            keys_per_move: limits.keys_per_move,
            alive: std::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            displaced: (0..workers).map(|_| displaced()).collect(),
            watchers: Watchers::new(workers),
        }
    }

    /// The buckets' counters.
    #[must_use]
    pub fn counters(&self) -> &BucketCounters {
        &self.counters
    }

    /// Connections that ended and restarted at another sensor, with a bare SYN.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.displaced.iter().map(|worker| worker.restarts.load(Ordering::Relaxed)).sum()
    }

    fn is_alive(&self, sensor: u16) -> bool {
        let word = self.alive.get(usize::from(sensor) / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (sensor % 64) & 1 == 1)
    }
}

impl ForwardingTable for WorkerTable {
    fn entry(&self, bucket: u16) -> Entry {
        self.table.entry(bucket)
    }

    fn replace(&self, bucket: u16, current: Entry, new: Entry) -> Result<(), Entry> {
        self.table.replace(bucket, current, new)
    }

    fn advance(&self) -> u64 {
        self.quiescence.advance()
    }

    fn has_reached(&self, epoch: u64) -> bool {
        self.quiescence.has_reached(epoch)
    }

    fn allow_records(&self, bucket: u16) {
        self.recorded[usize::from(bucket)].store(0, Ordering::Relaxed);
    }

    fn earliest(&self, now: u64) -> u64 {
        self.quiescence.earliest(now)
    }

    fn sweep(&self, time: u64, keep: &mut dyn FnMut(Pinned) -> bool) {
        let now = self.clock.at(time);
        self.records.sweep(&mut |record| {
            let idle = record.is_idle(now);
            keep(Pinned { bucket: record.bucket(), sensor: record.sensor(), idle })
        });
    }

    fn set_alive(&self, sensor: u16, alive: bool) {
        let Some(word) = self.alive.get(usize::from(sensor) / 64) else { return };
        let bit = 1 << (sensor % 64);
        if alive {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    fn tally(&self, bucket: u16) -> Tally {
        self.counters.tally(bucket)
    }

    fn flow_marks(&self, bucket: u16) -> FlowMarks {
        self.counters.flow_marks(bucket)
    }

    fn rotate_flows(&self) {
        self.counters.rotate();
    }

    fn displaced(&self, sensor: u16) -> Displaced {
        let mut sum = Displaced::default();
        for worker in &self.displaced {
            let read = |cells: &[TallyCell]| {
                cells.get(usize::from(sensor)).map_or(Tally::default(), TallyCell::get)
            };
            sum.to = sum.to.plus(read(&worker.to));
            sum.from = sum.from.plus(read(&worker.from));
        }
        sum
    }

    fn leader(&self, bucket: u16) -> Option<Candidate> {
        self.watchers.leader(bucket)
    }

    fn record_capacity(&self) -> usize {
        self.records.capacity()
    }
}

/// The facts about a packet of a moving or watched bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketFacts {
    /// The flow.
    pub key: FlowKey,
    /// The packet's TCP signal.
    pub tcp: TcpSignal,
    /// Bytes on the wire.
    pub bytes: u32,
}

/// A worker's access to the table, the records and its own counters.
#[derive(Debug)]
pub struct Worker {
    forwarding: Arc<WorkerTable>,
    index: usize,
    now: u64,
    tick: Tick,
    watch: Watch,
}

impl Worker {
    /// The worker with this index, of which there must be only one.
    #[must_use]
    pub fn new(forwarding: Arc<WorkerTable>, index: usize) -> Self {
        Self { forwarding, index, now: 0, tick: Tick::default(), watch: Watch::default() }
    }

    /// Begins a batch, at the time `now` of the monotonic clock in nanoseconds, which was
    /// read just before. A time earlier than that of a previous batch is raised to it.
    /// Packets of the previous batch must have been counted by now.
    pub fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.tick = self.forwarding.clock.at(self.now);
        self.forwarding.quiescence.begin(self.index, self.now);
        self.watch.publish(self.now, &self.forwarding.watchers, self.index);
    }

    /// Marks the worker idle until the next [`Worker::begin`]. A worker must be idle while
    /// it waits, or no move advances meanwhile.
    pub fn rest(&mut self) {
        self.forwarding.quiescence.rest(self.index);
    }

    /// Writes the sensor of each packet to `sensors`, [`crate::NO_SENSOR`] if there is
    /// none. Packets are given by their group's hash; `facts(i)` is called for packet `i`
    /// if its bucket moves or is watched. Also prefetches the packets' counters.
    #[inline]
    pub fn assign(
        &mut self,
        hashes: &[u64],
        sensors: &mut Vec<u16>,
        facts: impl Fn(usize) -> PacketFacts,
    ) {
        let (table, mut any_special) = (&self.forwarding.table, false);
        sensors.clear();
        let counters = self.forwarding.counters.of(self.index);
        sensors.extend(hashes.iter().map(|&hash| {
            if let Some(counters) = counters {
                counters.fetch(hash);
            }
            let entry = table.entry(bucket_of(hash));
            any_special |= entry.is_special();
            entry.default_sensor()
        }));
        if !any_special {
            return;
        }
        for (i, (&hash, sensor)) in hashes.iter().zip(sensors).enumerate() {
            let entry = self.forwarding.table.entry(bucket_of(hash));
            if entry.is_special() {
                *sensor = self.special(entry, hash, &facts(i));
            }
        }
    }

    /// Counts packets by their hash and bytes on the wire.
    #[inline]
    pub fn count(&mut self, hashes: &[u64], bytes: &[u32]) {
        self.forwarding.counters.count(self.index, hashes, bytes);
    }

    #[cold]
    fn special(&mut self, entry: Entry, hash: u64, facts: &PacketFacts) -> u16 {
        if entry.is_watched() {
            self.watch.observe(bucket_of(hash), &facts.key, facts.bytes);
        }
        if !entry.looks_up() {
            return entry.default_sensor();
        }
        let (sensor, default) = self.route(entry, hash, facts.tcp);
        if sensor != default
            && let Some(displaced) = self.forwarding.displaced.get(self.index)
        {
            let amount = Tally::new(1, u64::from(facts.bytes));
            let cells = [(&displaced.to, sensor), (&displaced.from, default)];
            for (cells, sensor) in cells {
                if let Some(cell) = cells.get(usize::from(sensor)) {
                    cell.add(amount);
                }
            }
        }
        sensor
    }

    /// The sensor of a packet in a moving bucket, and that of keys that are not on record.
    fn route(&self, entry: Entry, hash: u64, tcp: TcpSignal) -> (u16, u16) {
        let default = entry.default_sensor();
        let mut known = self.forwarding.records.find(hash);
        loop {
            known = match known {
                Some(found) => match self.follow(found, entry, tcp) {
                    Ok(sensor) => return (sensor, default),
                    Err(Changed) => self.forwarding.records.find(hash),
                },
                None if !entry.records() => return (default, default),
                None => match self.record(entry, hash) {
                    // A move that is cancelled has changed it.
                    Ok(sensor) => return (sensor, sensor),
                    Err(found) => Some(found),
                },
            };
        }
    }

    /// The sensor of a key on record; updates the record.
    fn follow(&self, found: Found<'_>, entry: Entry, tcp: TcpSignal) -> Result<u16, Changed> {
        let record = found.record;
        if !self.forwarding.is_alive(record.sensor()) {
            if entry.records() {
                let here = record.with_sensor(entry.default_sensor());
                found.replace(Some(here.seen(self.tick, ConnectionState::Open)))?;
            }
            return Ok(entry.default_sensor());
        }
        if tcp == TcpSignal::BareSyn && record.state() == ConnectionState::Ended && !entry.records()
        {
            // This frees a slot while other buckets may turn, which is harmless: keys of a
            // single connection arrive at one worker.
            found.replace(None)?;
            if record.sensor() != entry.default_sensor()
                && let Some(worker) = self.forwarding.displaced.get(self.index)
            {
                worker.restarts.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(entry.default_sensor());
        }
        let state = next_state(record.state(), tcp);
        if record.is_before(self.tick) {
            found.replace(Some(record.seen(self.tick, state)))?;
        } else if state != record.state() {
            found.replace(Some(record.with_state(state)))?;
        }
        Ok(record.sensor())
    }

    /// Records a key with the sensor for new keys of its bucket, or cancels the move.
    ///
    /// # Errors
    /// The record of the key, if another worker made one meanwhile.
    fn record(&self, entry: Entry, hash: u64) -> Result<u16, Found<'_>> {
        let bucket = bucket_of(hash);
        let recorded = &self.forwarding.recorded[usize::from(bucket)];
        if recorded.load(Ordering::Relaxed) >= self.forwarding.keys_per_move {
            return Ok(self.cancel(bucket, entry));
        }
        match self.forwarding.records.insert(hash, entry.default_sensor(), self.tick) {
            Inserted::Now => {
                recorded.fetch_add(1, Ordering::Relaxed);
                Ok(entry.default_sensor())
            }
            Inserted::Before(found) => Err(found),
            Inserted::Full => Ok(self.cancel(bucket, entry)),
        }
    }

    /// Cancels a move that records, and returns the sensor for keys now.
    fn cancel(&self, bucket: u16, entry: Entry) -> u16 {
        let mut current = entry;
        while current.records() {
            let cancelled = current.cancelled();
            match self.forwarding.table.replace(bucket, current, cancelled) {
                Ok(()) => return cancelled.default_sensor(),
                Err(other) => current = other,
            }
        }
        current.default_sensor()
    }
}

/// A dropped worker does not delay moves.
impl Drop for Worker {
    fn drop(&mut self) {
        self.rest();
    }
}

/// The state of a connection after a packet. A bare SYN opens it anew; other packets after
/// its end belong to it.
fn next_state(state: ConnectionState, tcp: TcpSignal) -> ConnectionState {
    match (state, tcp) {
        (ConnectionState::Ended, TcpSignal::BareSyn) => ConnectionState::Open,
        (ConnectionState::Ended, _) | (_, TcpSignal::Reset) => ConnectionState::Ended,
        (ConnectionState::LowClosed, TcpSignal::HighFin)
        | (ConnectionState::HighClosed, TcpSignal::LowFin) => ConnectionState::Ended,
        (ConnectionState::Open, TcpSignal::LowFin) => ConnectionState::LowClosed,
        (ConnectionState::Open, TcpSignal::HighFin) => ConnectionState::HighClosed,
        (_, TcpSignal::BareSyn | TcpSignal::Nothing | TcpSignal::LowFin | TcpSignal::HighFin) => {
            state
        }
    }
}
