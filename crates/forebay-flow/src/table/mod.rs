//! A table of flows with two bytes of state each.
//!
//! Every key has two buckets of four entries. A new flow takes a free entry of the first, else
//! of the second; if both are full, entries are moved to their other buckets until one is free
//! (cuckoo hashing, searched breadth first, at most [`insert::MAX_SEARCH`] buckets). If that finds
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
pub(crate) mod memory;
mod moving;

use std::{io, mem};

use forebay_packet::HashKey;

use crate::hash::Secret;
use crate::key::{KEY_MASK, ShortKey};
use crate::level::Level;
use bucket::{AGES, Bucket, Clock, Entry, SLOTS};
use insert::{MAX_SEARCH, Step};
use kernel::{Choices, NONE, STRETCH, SWEPT_TOGETHER, Swept, View, bits};
use memory::Buckets;
use moving::Moving;
pub use moving::{Need, Spare};

/// Buckets that the cursor passes over for each packet.
const SWEPT_PER_PACKET: usize = 2;

/// How many buckets ahead of the cursor are fetched into the cache.
const SWEEP_DISTANCE: usize = 16;

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
    /// Flows that take 80% of the entries. There is room for 95% with none evicted.
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

/// How long a flow stays after a packet if no other comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// The table's lifetime.
    Lifetime,
    /// So many epochs, at most the lifetime: a TCP connection was closed or reset.
    Epochs(u8),
}

impl From<()> for Stay {
    fn from((): ()) -> Self {
        Self::Lifetime
    }
}

/// What operations did: for tests of their bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// New flows whose first bucket was full.
    pub second: u64,
    /// Buckets read in search of a free entry, by the insertion that read most.
    pub most_searched: usize,
    /// Buckets read in search of a free entry, by all insertions.
    pub searched: u64,
    /// Entries moved, by the insertion that moved most.
    pub most_moved: usize,
    /// Entries moved by all insertions.
    pub moved: u64,
    /// Flows that ended because their place was needed.
    pub evicted: u64,
    /// Flows that were moved to other memory.
    pub migrated: u64,
}

/// A table of flows between IPv4 addresses.
#[derive(Debug)]
pub struct Table {
    buckets: Buckets,
    secret: Secret,
    flows: usize,
    clock: Clock,
    /// The epoch that it should be.
    wanted: u64,
    /// The next bucket that is swept.
    cursor: usize,
    /// Buckets to sweep until the epoch is over.
    left: usize,
    /// Memory from which flows move here, and such memory that is empty.
    moving: Option<Moving>,
    retired: Option<Spare>,
    /// Whether a flow was evicted although there was room.
    is_overflowing: bool,
    /// Memory for choices of the keys of two stretches, for what is swept, and for searches.
    chosen: Vec<Choices>,
    idle: Box<Swept>,
    steps: Vec<Step>,
    work: Work,
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// Options out of bounds, or no memory.
    pub fn new(options: &Options) -> Result<Self, TableError> {
        let Options { flows, lifetime, key, level } = *options;
        if !(1..=MAX_LIFETIME).contains(&lifetime) {
            return Err(TableError::Lifetime { epochs: lifetime });
        }
        let Spare { buckets, secret } = Spare::new(flows, key, level)?;
        let mut table = Self {
            buckets,
            secret,
            flows: 0,
            clock: Clock { epoch: 0, lifetime },
            wanted: 0,
            cursor: 0,
            left: 0,
            moving: None,
            retired: None,
            is_overflowing: false,
            chosen: Vec::new(),
            idle: Box::new([0; _]),
            steps: Vec::with_capacity(MAX_SEARCH),
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

    /// Entries, free or not, without those that flows move from.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Bytes of memory, with those that flows move from.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let moving =
            self.moving.as_ref().map_or(0, |Moving { from, .. }| size_of_val(&*from.buckets));
        size_of_val(&*self.buckets) + moving
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.clock.epoch
    }

    /// What operations did so far.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    /// The states of flows with these keys, in the same order; `None` for a flow that is not in
    /// the table or was silent for the lifetime.
    pub fn states(&self, keys: &[ShortKey], states: &mut Vec<Option<u16>>) {
        let mut slots = vec![NONE; keys.len()];
        self.find(keys, &mut slots);
        states.clear();
        states.extend(slots.into_iter().map(|slot| {
            let entry = self.entry(slot).filter(|entry| !self.clock.is_idle(entry));
            entry.map(|entry| entry.state)
        }));
    }

    /// Writes the slot of each key, or [`u32::MAX`], to `slots`, which is as long. A slot is
    /// valid until packets arrive.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn find(&self, keys: &[ShortKey], slots: &mut [u32]) {
        assert_eq!(keys.len(), slots.len(), "a slot for each key");
        kernel::find(self.view(), keys, slots);
        if let Some(Moving { from, .. }) = &self.moving {
            let missed = keys.iter().zip(slots).filter(|(_, slot)| **slot == NONE);
            for (key, slot) in missed {
                let found = kernel::find_one(from.view(), *key);
                *slot = found.map_or(NONE, |found| self.entries() as u32 + found);
            }
        }
    }

    /// Has the first buckets of at most 64 keys fetched into the cache: of those that the next call
    /// will have. Their look-up then waits less, while those of this call are compared.
    ///
    /// # Panics
    /// When there are more keys.
    pub fn prefetch(&self, keys: &[ShortKey]) {
        kernel::choose(self.view(), keys, &mut [[0; 2]; STRETCH][..keys.len()]);
    }

    /// As [`Table::find`], by scalar comparisons, without flows that are still to move here from
    /// other memory. `read` gets the address, from the start of the table, and the length of
    /// each read of its memory: the buckets that every level compares. This is the code of
    /// look-ups compiled once more, so that they do not pay for it.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn find_recorded(
        &self,
        keys: &[ShortKey],
        slots: &mut [u32],
        mut read: impl FnMut(usize, usize),
    ) {
        assert_eq!(keys.len(), slots.len(), "a slot for each key");
        let len = size_of::<Bucket>();
        kernel::find_recorded(self.view(), keys, slots, |at| read(at * len, len));
    }

    /// The state of the flow in a slot.
    #[must_use]
    pub fn state(&self, slot: u32) -> Option<u16> {
        self.entry(slot).map(|entry| entry.state)
    }

    /// Packets of these flows arrive; those of a flow in this order, and of each 64 packets those
    /// of known flows first. `each` gets a packet's index, the state of its flow to change, and
    /// whether the flow is new, its state 0 then; it may return how long the flow is to [`Stay`].
    /// `ended` gets flows that end in the meantime.
    pub fn packets<S: Into<Stay>>(
        &mut self,
        keys: &[ShortKey],
        mut each: impl FnMut(usize, &mut u16, bool) -> S,
        mut ended: impl FnMut(Ended),
    ) {
        let (mut chosen, mut slots) = (mem::take(&mut self.chosen), [NONE; STRETCH]);
        chosen.resize(2 * STRETCH, [0; 2]);
        let (mut now, mut next) = chosen.split_at_mut(STRETCH);
        let mut stretches = keys.chunks(STRETCH).enumerate().peekable();
        self.choose(stretches.peek(), now);
        while let Some((stretch, keys)) = stretches.next() {
            // The buckets of the next keys come from memory while these are compared.
            self.choose(stretches.peek(), next);
            self.sweep(SWEPT_PER_PACKET * keys.len(), &mut ended);
            let (choices, slots) = (&now[..keys.len()], &mut slots[..keys.len()]);
            let first = stretch * STRETCH;
            // While second buckets come from memory, packets of flows in first ones are done. All
            // packets of a flow are in the same loop.
            let missed = kernel::probe_first(self.view(), keys, choices, slots);
            let present = u64::MAX >> (STRETCH - keys.len()) & !missed;
            self.known(present, slots, first, &mut each, &mut ended);
            let new = kernel::probe_second(self.view(), keys, choices, slots, missed);
            bits(new).for_each(|i| self.fetch_others(choices[i]));
            self.known(missed & !new, slots, first, &mut each, &mut ended);
            // First buckets of new flows, by the last bits of their numbers.
            let mut entered = 0_u64;
            for i in bits(new) {
                let bit = 1 << (choices[i][0] % u64::BITS);
                let may_be_there = entered & bit != 0;
                entered |= bit;
                let (key, choices) = (keys[i], choices[i]);
                self.missed((key, choices, may_be_there), first + i, &mut each, &mut ended);
            }
            mem::swap(&mut now, &mut next);
        }
        self.chosen = chosen;
    }

    /// Packets of the flows in these slots, of those whose bits are set; the first one's index is
    /// `first`.
    #[inline(always)]
    fn known<S: Into<Stay>>(
        &mut self,
        which: u64,
        slots: &[u32],
        first: usize,
        each: &mut impl FnMut(usize, &mut u16, bool) -> S,
        ended: &mut impl FnMut(Ended),
    ) {
        let (clock, entries) = (self.clock, self.buckets.entries_mut());
        for i in bits(which) {
            packet(&mut entries[slots[i] as usize], clock, first + i, each, ended);
        }
    }

    /// Writes the choices of a stretch of keys, and prefetches first buckets.
    fn choose(&self, stretch: Option<&(usize, &[ShortKey])>, choices: &mut [Choices]) {
        let Some((_, keys)) = stretch else { return };
        let choices = &mut choices[..keys.len()];
        if let Some(Moving { from, .. }) = &self.moving {
            // For the prefetches.
            kernel::choose(from.view(), keys, choices);
        }
        kernel::choose(self.view(), keys, choices);
    }

    /// Time has passed, so that it is epoch `epoch` or later.
    pub fn advance(&mut self, epoch: u64) {
        self.wanted = self.wanted.max(epoch);
    }

    /// Looks for silent flows in `buckets` buckets, unless none can be due.
    #[inline(never)]
    pub fn sweep(&mut self, buckets: usize, mut ended: impl FnMut(Ended)) {
        self.migrate(buckets, &mut ended);
        let mut due = buckets;
        while due > 0 && self.clock.epoch != self.wanted {
            let rest = self.buckets.len() - self.cursor;
            let run = self.cursor..self.cursor + due.min(SWEPT_TOGETHER).min(rest).min(self.left);
            let later = run.end + SWEEP_DISTANCE;
            for bucket in self.buckets.iter().take(later).skip(run.start + SWEEP_DISTANCE) {
                kernel::prefetch(bucket);
            }
            let (level, buckets) = (self.secret.level, &mut self.buckets[run.clone()]);
            let count = kernel::take_idle(level, self.clock, buckets, &mut self.idle);
            self.flows -= count;
            let idle = self.idle[..count].iter().copied();
            for Entry { key, state, .. } in idle.filter_map(Entry::unpack) {
                ended(Ended { key, state, reason: Reason::Idle });
            }
            due -= run.len();
            self.left -= run.len();
            self.cursor = if run.len() == rest { 0 } else { run.end };
            if self.left == 0 {
                self.left = self.swept_per_epoch();
                self.clock.epoch += 1;
            }
        }
    }

    /// Every flow that was not silent for the lifetime, with its state.
    pub fn iter(&self) -> impl Iterator<Item = (ShortKey, u16)> {
        let moving = self.moving.iter().flat_map(|Moving { from, .. }| from.buckets.iter());
        let bits = self.buckets.iter().chain(moving).flat_map(|bucket| bucket.0);
        let entries = bits.filter_map(Entry::unpack).filter(|entry| !self.clock.is_idle(entry));
        entries.map(|entry| (entry.key, entry.state))
    }

    /// Buckets that are swept in an epoch, so that all are before an entry's age is too large.
    fn swept_per_epoch(&self) -> usize {
        self.buckets.len().div_ceil(AGES as usize - 1 - usize::from(self.clock.lifetime))
    }

    /// A packet of a flow that was not found before those of the same stretch, of which one may
    /// have entered it.
    #[inline(never)]
    fn missed<S: Into<Stay>>(
        &mut self,
        (key, choices, may_be_there): (ShortKey, Choices, bool),
        i: usize,
        each: &mut impl FnMut(usize, &mut u16, bool) -> S,
        ended: &mut impl FnMut(Ended),
    ) {
        let slot = may_be_there.then(|| kernel::probe_one(self.view(), key, choices)).flatten();
        if let Some(slot) = slot.or_else(|| self.pull(key, choices, ended)) {
            let bits = &mut self.buckets.entries_mut()[slot as usize];
            return packet(bits, self.clock, i, each, ended);
        }
        let slot = self.make_place(choices, ended);
        let mut state = 0;
        let stay = each(i, &mut state, true).into();
        self.write(slot, bucket::pack(key.0, state, self.clock.stamp(stay)));
        self.flows += 1;
    }

    fn view(&self) -> View<'_> {
        View { buckets: &self.buckets, secret: &self.secret }
    }

    fn write(&mut self, slot: u32, bits: u128) {
        self.buckets.entries_mut()[slot as usize] = bits;
    }

    /// The entry in a slot that [`Table::find`] gives.
    fn entry(&self, slot: u32) -> Option<Entry> {
        let (slot, entries) = (slot as usize, self.buckets.entries());
        let moving = || {
            let Moving { from, .. } = self.moving.as_ref()?;
            from.buckets.entries().get(slot - entries.len())
        };
        Entry::unpack(*entries.get(slot).or_else(moving)?)
    }
}

/// A packet of the flow of an entry.
#[inline(always)]
fn packet<S: Into<Stay>>(
    bits: &mut u128,
    clock: Clock,
    i: usize,
    each: &mut impl FnMut(usize, &mut u16, bool) -> S,
    ended: &mut impl FnMut(Ended),
) {
    let (mut state, is_new) = (bucket::state(*bits), clock.is_silent(*bits));
    if is_new {
        ended(Ended { key: ShortKey(*bits & KEY_MASK), state, reason: Reason::Idle });
        state = 0;
    }
    let stay = each(i, &mut state, is_new).into();
    let after = bucket::pack(*bits & KEY_MASK, state, clock.stamp(stay));
    // A line that does not change is not written back to memory.
    if after != *bits {
        *bits = after;
    }
}
