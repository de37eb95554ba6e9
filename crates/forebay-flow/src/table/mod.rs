//! A table of flows with two bytes of state each.
//!
//! Every key has two buckets of four entries. A new flow takes a free entry of the first, else
//! of the second; if both are full, entries are moved to their other buckets until one is free
//! (cuckoo hashing, searched breadth first, at most [`MAX_SEARCH`] buckets). If that finds
//! none, the flow of the two buckets with the longest silence ends. So a new flow always has a
//! place, and no operation reads more than a bounded number of buckets.
//!
//! Time passes in epochs. A flow ends when it was silent for the table's lifetime. Such flows
//! are found by a cursor that passes over the buckets, two for each packet; so an epoch lasts
//! until a share of the buckets was passed over, longer than asked for if packets are few and
//! [`Table::sweep`] is not called. An entry has its last epoch modulo 64, and the cursor is
//! always fast enough that this is without ambiguity.

pub(crate) mod bucket;
mod insert;
pub(crate) mod kernel;
mod memory;

use std::io;

use forebay_packet::HashKey;

use crate::hash::Secret;
use crate::key::{KEY_MASK, ShortKey};
use crate::level::Level;
use bucket::{AGES, Bucket, Entry, SLOTS};
use kernel::{NONE, STRETCH, View};
use memory::Buckets;

/// Buckets that the cursor passes over for each packet.
const SWEPT_PER_PACKET: usize = 2;

/// The longest lifetime in epochs.
pub const MAX_LIFETIME: u8 = 48;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// More flows than slots have numbers, or none.
    #[error("{flows} flows: expected 1 to {MAX_FLOWS}")]
    Flows {
        /// What was asked for.
        flows: usize,
    },
    /// A lifetime out of bounds.
    #[error("a lifetime of {epochs} epochs: expected 1 to {MAX_LIFETIME}")]
    Lifetime {
        /// What was asked for.
        epochs: u8,
    },
    /// A level that this machine does not have.
    #[error("this machine does not have the instructions of {0:?}")]
    Level(Level),
    /// The system has no memory for it.
    #[error("no memory for a table of {flows} flows")]
    Memory {
        /// What was asked for.
        flows: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// The most flows of a table.
pub const MAX_FLOWS: usize = 1 << 30;

/// The properties of a table.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Flows for which there is room, at 95% of the entries or less.
    pub flows: usize,
    /// Epochs of silence that end a flow, 1 to [`MAX_LIFETIME`].
    pub lifetime: u8,
    /// The secret of the hash.
    pub key: HashKey,
    /// The instructions used.
    pub level: Level,
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was silent for the lifetime.
    Idle,
    /// Its place was needed.
    Evicted,
}

/// A flow that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The flow.
    pub key: ShortKey,
    /// Its state.
    pub state: u16,
    /// Why it ended.
    pub reason: Reason,
}

/// What operations did: for tests of their bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Buckets read in search of a free entry, by the insertion that read most.
    pub most_searched: usize,
    /// Entries moved, by the insertion that moved most.
    pub most_moved: usize,
    /// Entries moved by all insertions.
    pub moved: u64,
    /// Flows that ended because their place was needed.
    pub evicted: u64,
}

/// A table of flows between IPv4 addresses.
#[derive(Debug)]
pub struct Table {
    buckets: Buckets,
    secret: Secret,
    flows: usize,
    lifetime: u8,
    epoch: u64,
    /// The epoch that it should be.
    wanted: u64,
    /// The next bucket that is swept.
    cursor: usize,
    /// Buckets to sweep until the epoch is over.
    left: usize,
    work: Work,
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// Options out of bounds, or no memory.
    pub fn new(options: &Options) -> Result<Self, TableError> {
        let Options { flows, lifetime, key, level } = *options;
        if !(1..=MAX_FLOWS).contains(&flows) {
            return Err(TableError::Flows { flows });
        }
        if !(1..=MAX_LIFETIME).contains(&lifetime) {
            return Err(TableError::Lifetime { epochs: lifetime });
        }
        if !level.is_here() {
            return Err(TableError::Level(level));
        }
        let entries = flows + flows / 19;
        let count = entries.div_ceil(SLOTS).next_power_of_two();
        let buckets = Buckets::new(count).map_err(|source| TableError::Memory { flows, source })?;
        let mut table = Self {
            buckets,
            secret: Secret::new(key, level),
            flows: 0,
            lifetime,
            epoch: 0,
            wanted: 0,
            cursor: 0,
            left: 0,
            work: Work::default(),
        };
        table.left = table.swept_per_epoch();
        Ok(table)
    }

    /// Flows in the table, those included whose silence was not noticed yet.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows
    }

    /// Entries, free or not.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What operations did so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// The states of flows with these keys, in the same order; `None` for a flow that is not in
    /// the table or was silent for the lifetime.
    pub fn states(&self, keys: &[ShortKey], states: &mut Vec<Option<u16>>) {
        let mut slots = [NONE; STRETCH];
        states.clear();
        for keys in keys.chunks(STRETCH) {
            let slots = &mut slots[..keys.len()];
            kernel::find(self.view(), keys, slots);
            states.extend(slots.iter().map(|&slot| {
                let entry = (slot != NONE).then(|| self.entry(slot))??;
                (entry.age(self.epoch) < self.lifetime).then_some(entry.state)
            }));
        }
    }

    /// Writes the slot of each key, or [`u32::MAX`], to `slots`, which is as long.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn find(&self, keys: &[ShortKey], slots: &mut [u32]) {
        assert_eq!(keys.len(), slots.len(), "a slot for each key");
        for (keys, slots) in keys.chunks(STRETCH).zip(slots.chunks_mut(STRETCH)) {
            kernel::find(self.view(), keys, slots);
        }
    }

    /// Packets of these flows arrive, in this order. `each` gets a packet's index, the state of
    /// its flow to change, and whether the flow is new, its state 0 then. `ended` gets flows
    /// that end in the meantime.
    pub fn packets(
        &mut self,
        keys: &[ShortKey],
        mut each: impl FnMut(usize, &mut u16, bool),
        mut ended: impl FnMut(Ended),
    ) {
        let mut slots = [NONE; STRETCH];
        for (stretch, keys) in keys.chunks(STRETCH).enumerate() {
            let slots = &mut slots[..keys.len()];
            kernel::find(self.view(), keys, slots);
            for (i, (&key, &mut slot)) in keys.iter().zip(slots).enumerate() {
                let i = stretch * STRETCH + i;
                // Packets before this one may have moved its entry, or made it.
                let is_there = slot != NONE && (self.bits(slot) ^ key.0) & KEY_MASK == 0;
                let slot = if is_there { Some(slot) } else { self.slot(key) };
                match slot {
                    Some(slot) => self.packet(slot, i, &mut each, &mut ended),
                    None => {
                        let slot = self.make_place(key, &mut ended);
                        let mut entry = Entry::new(key, 0, self.epoch);
                        each(i, &mut entry.state, true);
                        self.write(slot, entry.pack());
                        self.flows += 1;
                    }
                }
            }
            self.sweep(SWEPT_PER_PACKET * keys.len(), &mut ended);
        }
    }

    /// Time has passed, so that it is epoch `epoch` or later.
    pub fn advance(&mut self, epoch: u64) {
        self.wanted = self.wanted.max(epoch);
    }

    /// Looks for silent flows in `buckets` buckets, unless none can be due.
    pub fn sweep(&mut self, buckets: usize, mut ended: impl FnMut(Ended)) {
        for _ in 0..buckets {
            if self.epoch == self.wanted {
                return;
            }
            for slot in 0..SLOTS {
                let slot = (self.cursor * SLOTS + slot) as u32;
                if let Some(entry) = self.entry(slot).filter(|entry| self.is_idle(entry)) {
                    self.write(slot, 0);
                    self.flows -= 1;
                    ended(Ended { key: entry.key, state: entry.state, reason: Reason::Idle });
                }
            }
            self.cursor = (self.cursor + 1) % self.buckets.len();
            self.left -= 1;
            if self.left == 0 {
                self.left = self.swept_per_epoch();
                self.epoch += 1;
            }
        }
    }

    /// Every flow that was not silent for the lifetime, with its state.
    pub fn iter(&self) -> impl Iterator<Item = (ShortKey, u16)> {
        let bits = self.buckets.iter().flat_map(|bucket| bucket.0);
        let entries = bits.filter_map(Entry::unpack).filter(|entry| !self.is_idle(entry));
        entries.map(|entry| (entry.key, entry.state))
    }

    /// Buckets that are swept in an epoch, so that all are before an entry's age is too large.
    fn swept_per_epoch(&self) -> usize {
        self.buckets.len().div_ceil(AGES as usize - 1 - usize::from(self.lifetime))
    }

    fn is_idle(&self, entry: &Entry) -> bool {
        entry.age(self.epoch) >= self.lifetime
    }

    /// A packet of the flow in `slot`.
    #[inline]
    fn packet(
        &mut self,
        slot: u32,
        i: usize,
        each: &mut impl FnMut(usize, &mut u16, bool),
        ended: &mut impl FnMut(Ended),
    ) {
        let bits = self.bits(slot);
        let Some(mut entry) = Entry::unpack(bits) else { return };
        let is_new = self.is_idle(&entry);
        if is_new {
            ended(Ended { key: entry.key, state: entry.state, reason: Reason::Idle });
            entry.state = 0;
        }
        each(i, &mut entry.state, is_new);
        let after = Entry::new(entry.key, entry.state, self.epoch).pack();
        // A line that does not change is not written back to memory.
        if after != bits {
            self.write(slot, after);
        }
    }

    fn view(&self) -> View<'_> {
        View { buckets: &self.buckets, secret: &self.secret }
    }

    fn slot(&self, key: ShortKey) -> Option<u32> {
        let mut slot = [NONE];
        kernel::find(self.view(), &[key], &mut slot);
        (slot[0] != NONE).then_some(slot[0])
    }

    #[inline]
    fn bits(&self, slot: u32) -> u128 {
        let Bucket(entries) = &self.buckets[slot as usize / SLOTS];
        entries[slot as usize % SLOTS]
    }

    #[inline]
    fn write(&mut self, slot: u32, bits: u128) {
        let Bucket(entries) = &mut self.buckets[slot as usize / SLOTS];
        entries[slot as usize % SLOTS] = bits;
    }

    fn entry(&self, slot: u32) -> Option<Entry> {
        Entry::unpack(self.bits(slot))
    }
}
