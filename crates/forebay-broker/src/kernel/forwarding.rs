//! The bucket table of a group whose packets the kernel steers, for the mover and for the
//! workers in user space, which get the packets that the kernel cannot decide.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_balance::moves::{
    Displaced, ForwardingTable, PacketFacts, Pinned, Quiescence, TcpSignal,
};
use forebay_balance::{Candidate, Entry, FlowMarks, Tally};
use forebay_bpf::BpfError;
use forebay_bpf::programs::splitter::{Signal, SplitterMaps, UserspaceSteering};
use forebay_pipeline::stages::Steering;

use crate::clock::Clock;

/// Nanoseconds that the kernel's coarse clock, which records are stamped by, may be behind:
/// a tick of 100 a second, and as much for a program that is held up.
const COARSE: u64 = 20_000_000;

/// A group's table and records, in the maps that the kernel reads.
#[derive(Debug)]
pub struct KernelTable {
    maps: Arc<SplitterMaps>,
    /// The workers in user space.
    epochs: Quiescence,
    /// What no run of a program acts any more on, as an epoch of `epochs`.
    quiesced: AtomicU64,
    /// Nanoseconds that a key stays on record.
    hold: u64,
    /// Most keys that can be on record.
    capacity: usize,
    clock: Clock,
    failed: OnceLock<String>,
}

impl KernelTable {
    /// The forwarding table of `maps` with `workers` workers in user space. Its records hold
    /// `capacity` keys, each for `hold` nanoseconds by `clock`.
    #[must_use]
    pub fn new(
        maps: Arc<SplitterMaps>,
        workers: usize,
        hold: u64,
        capacity: usize,
        clock: Clock,
    ) -> Self {
        let epochs = Quiescence::new(workers);
        let (quiesced, failed) = (AtomicU64::new(0), OnceLock::new());
        Self { maps, epochs, quiesced, hold, capacity, clock, failed }
    }

    /// What the kernel refused for the first time, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    fn note(&self, error: &BpfError) {
        self.failed.get_or_init(|| error.to_string());
    }
}

impl ForwardingTable for KernelTable {
    fn entry(&self, bucket: u16) -> Entry {
        Entry::from_bits(self.maps.entry(bucket))
    }

    fn replace(&self, bucket: u16, current: Entry, new: Entry) -> Result<(), Entry> {
        let replaced = self.maps.replace_entry(bucket, current.to_bits(), new.to_bits());
        replaced.map_err(Entry::from_bits)
    }

    fn advance(&self) -> u64 {
        self.epochs.advance()
    }

    /// Waits some milliseconds for runs of programs, unless a call since `epoch` has done so.
    fn has_reached(&self, epoch: u64) -> bool {
        if !self.epochs.has_reached(epoch) {
            return false;
        }
        if self.quiesced.load(Ordering::Acquire) < epoch {
            let current = self.epochs.current();
            match self.maps.quiesce() {
                Ok(()) => self.quiesced.store(current, Ordering::Release),
                Err(error) => self.note(&error),
            }
        }
        self.quiesced.load(Ordering::Acquire) >= epoch
    }

    fn allow_records(&self, bucket: u16) {
        self.maps.allow_records(bucket);
    }

    fn earliest(&self, now: u64) -> u64 {
        self.epochs.earliest(now).saturating_sub(COARSE)
    }

    fn sweep(&self, time: u64, keep: &mut dyn FnMut(Pinned) -> bool) {
        let time = self.clock.monotonic(time);
        let swept = self.maps.sweep(|record| {
            let idle = record.seen().saturating_add(self.hold) < time;
            keep(Pinned { bucket: record.bucket(), sensor: record.sensor(), idle })
        });
        if let Err(error) = swept {
            self.note(&error);
        }
    }

    fn set_alive(&self, sensor: u16, alive: bool) {
        if let Err(error) = self.maps.set_alive(sensor, alive) {
            self.note(&error);
        }
    }

    fn tally(&self, bucket: u16) -> Tally {
        Tally::from_word(self.maps.bucket_tally(bucket))
    }

    fn flow_marks(&self, bucket: u16) -> FlowMarks {
        let [current, older] = self.maps.bucket_flow_maps(bucket);
        FlowMarks { current, older }
    }

    fn rotate_flows(&self) {
        self.maps.rotate_flows();
    }

    fn displaced(&self, sensor: u16) -> Displaced {
        let (to, from) = self.maps.displaced(sensor);
        Displaced { to: Tally::from_word(to), from: Tally::from_word(from) }
    }

    /// Nobody looks into packets in the kernel.
    fn leader(&self, _bucket: u16) -> Option<Candidate> {
        None
    }

    fn record_capacity(&self) -> usize {
        self.capacity
    }
}

/// A worker in user space, which steers by the kernel's table.
pub struct KernelWorker {
    forwarding: Arc<KernelTable>,
    index: usize,
    steering: UserspaceSteering,
    now: u64,
}

impl KernelWorker {
    /// The worker of that index, of which there must be one only.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn new(forwarding: &Arc<KernelTable>, index: usize) -> Result<Self, BpfError> {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let steering = UserspaceSteering::load(Arc::clone(&forwarding.maps), number)?;
        Ok(Self { forwarding: Arc::clone(forwarding), index, steering, now: 0 })
    }

    fn sensor_of(&self, hash: u64, facts: impl FnOnce() -> PacketFacts) -> u16 {
        let entry = Entry::from_bits(self.steering.entry((hash >> 48) as u16));
        if !entry.looks_up() {
            return entry.default_sensor();
        }
        let facts = facts();
        self.steering.sensor_of(hash, signal(facts.tcp), facts.bytes).unwrap_or_else(|error| {
            self.forwarding.note(&error);
            entry.default_sensor()
        })
    }
}

fn signal(tcp: TcpSignal) -> Signal {
    match tcp {
        TcpSignal::Nothing => Signal::Nothing,
        TcpSignal::BareSyn => Signal::Begins,
        TcpSignal::LowFin => Signal::LowEnds,
        TcpSignal::HighFin => Signal::HighEnds,
        TcpSignal::Reset => Signal::Reset,
    }
}

impl Steering for KernelWorker {
    fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.forwarding.epochs.begin(self.index, self.now);
    }

    fn rest(&mut self) {
        self.forwarding.epochs.rest(self.index);
    }

    fn assign(
        &mut self,
        hashes: &[u64],
        sensors: &mut Vec<u16>,
        facts: &dyn Fn(usize) -> PacketFacts,
    ) {
        sensors.clear();
        let each = hashes.iter().enumerate();
        sensors.extend(each.map(|(i, &hash)| self.sensor_of(hash, || facts(i))));
    }

    fn count(&mut self, hashes: &[u64], bytes: &[u32]) {
        for (&hash, &bytes) in hashes.iter().zip(bytes) {
            self.steering.count(hash, bytes);
        }
    }
}

#[cfg(test)]
mod tests;
