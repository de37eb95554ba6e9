//! A table of flows, each with a state of 2 to 32 bytes.
//!
//! Every key has two buckets of four entries. A new flow takes a free entry of the first, else
//! of the second; if both are full, entries are moved to their other buckets until one is free
//! (cuckoo hashing, searched breadth first, at most [`insert::MAX_SEARCH`] buckets). If that finds
//! none, the flow of the two buckets with the longest silence ends. So a new flow always has a
//! place, and no operation reads more than a bounded number of buckets.
//!
//! Entries of IPv4 flows have the whole key and two bytes of state. What is longer lies in cells
//! beside ([`layout`]).
//!
//! Time passes in epochs. A flow ends when it was silent for the table's lifetime. Such flows
//! are found by a cursor that passes over the buckets, two for each packet; so an epoch lasts
//! until a share of the buckets was passed over, longer than asked for if packets are few and
//! [`Table::sweep`] is not called. An entry has its last epoch modulo 64, and the cursor is
//! always fast enough that this is without ambiguity.

pub(crate) mod bucket;
mod insert;
pub(crate) mod kernel;
mod known;
mod layout;
pub(crate) mod memory;
mod moving;
mod options;
mod store;
#[cfg(test)]
mod tests;

use std::mem;

use crate::key::ShortKey;
use bucket::{AGES, Bucket, Clock, Entry, SLOTS};
use insert::{MAX_SEARCH, Step};
use kernel::{NONE, STRETCH, SWEPT_TOGETHER, Swept, bits};
use known::Entries;
use layout::CellOf;
pub use layout::{TableKey, TableState, Wide};
use moving::Moving;
pub use moving::{Need, Spare};
pub use options::{Ended, MAX_FLOWS, MAX_LIFETIME, Options, Reason, Stay, TableError, Work};
use store::{Prepared, PreparedKey, PreparedKeys, Store};

/// Buckets that the cursor passes over for each packet.
const SWEPT_PER_PACKET: usize = 2;

/// How many buckets ahead of the cursor are fetched into the cache.
const SWEEP_DISTANCE: usize = 16;

/// A table of flows, by default between IPv4 addresses, with two bytes of state each.
#[derive(Debug)]
pub struct Table<K: TableKey = ShortKey, S: TableState = u16> {
    store: Store<K, S>,
    flows: usize,
    clock: Clock,
    /// The epoch that it should be.
    wanted: u64,
    /// The next bucket that is swept.
    cursor: usize,
    /// Buckets to sweep until the epoch is over.
    left: usize,
    /// Memory from which flows move here, and such memory that is empty.
    moving: Option<Moving<K, S>>,
    retired: Option<Spare<K, S>>,
    /// Whether a flow was evicted although there was room.
    is_overflowing: bool,
    /// Memory for the keys of two stretches, for what is swept, and for searches.
    prepared: Vec<Prepared<K>>,
    idle: Box<Swept>,
    steps: Vec<Step>,
    work: Work,
}

impl Table {
    /// An empty table of IPv4 flows with two bytes of state.
    ///
    /// # Errors
    /// Options out of bounds, or no memory.
    pub fn new(options: &Options) -> Result<Self, TableError> {
        Self::empty(options)
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
        kernel::find_recorded(self.store.view(), keys, slots, |at| read(at * len, len));
    }
}

impl<K: TableKey, S: TableState> Table<K, S> {
    /// An empty table of any keys and states.
    ///
    /// # Errors
    /// Options out of bounds, or no memory.
    pub fn empty(options: &Options) -> Result<Self, TableError> {
        let Options { flows, lifetime, key, level } = *options;
        if !(1..=MAX_LIFETIME).contains(&lifetime) {
            return Err(TableError::Lifetime { epochs: lifetime });
        }
        let mut table = Self {
            store: Store::new(flows, key, level)?,
            flows: 0,
            clock: Clock { epoch: 0, lifetime },
            wanted: 0,
            cursor: 0,
            left: 0,
            moving: None,
            retired: None,
            is_overflowing: false,
            prepared: Vec::new(),
            idle: Box::default(),
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
        self.store.buckets.len() * SLOTS
    }

    /// Bytes of memory, with those that flows move from.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.store.bytes() + self.moving.as_ref().map_or(0, |Moving { from, .. }| from.bytes())
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
    pub fn states(&self, keys: &[K], states: &mut Vec<Option<S>>) {
        let mut slots = vec![NONE; keys.len()];
        self.find(keys, &mut slots);
        states.clear();
        states.extend(slots.into_iter().map(|slot| {
            let (entry, cell) = self.entry(slot)?;
            (!self.clock.is_idle(&entry)).then(|| S::whole(entry.state, &cell.state))
        }));
    }

    /// Writes the slot of each key, or [`u32::MAX`], to `slots`, which is as long. A slot is
    /// valid until packets arrive.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn find(&self, keys: &[K], slots: &mut [u32]) {
        assert_eq!(keys.len(), slots.len(), "a slot for each key");
        self.store.find(keys, slots);
        if let Some(Moving { from, .. }) = &self.moving {
            let missed = keys.iter().zip(slots).filter(|(_, slot)| **slot == NONE);
            for (key, slot) in missed {
                let found = from.find_one(*key);
                *slot = found.map_or(NONE, |found| self.entries() as u32 + found);
            }
        }
    }

    /// Has the first buckets of at most 64 keys fetched into the cache: of those that the next call
    /// will have. Their look-up then waits less, while those of this call are compared.
    ///
    /// # Panics
    /// When there are more keys.
    pub fn prefetch(&self, keys: &[K]) {
        Prepared::default().prepare(self.store.view(), keys);
    }

    /// The state of the flow in a slot.
    #[must_use]
    pub fn state(&self, slot: u32) -> Option<S> {
        self.entry(slot).map(|(entry, cell)| S::whole(entry.state, &cell.state))
    }

    /// Packets of these flows arrive; those of a flow in this order, and of each 64 packets those
    /// of known flows first. `each` gets a packet's index, the state of its flow to change, and
    /// whether the flow is new, its state the default then; it may return how long the flow is to
    /// [`Stay`]. `ended` gets flows that end in the meantime.
    pub fn packets<T: Into<Stay>>(
        &mut self,
        keys: &[K],
        mut each: impl FnMut(usize, &mut S, bool) -> T,
        mut ended: impl FnMut(Ended<K, S>),
    ) {
        let (mut prepared, mut slots) = (mem::take(&mut self.prepared), [NONE; STRETCH]);
        prepared.resize_with(2, Prepared::default);
        let (mut now, mut next) = prepared.split_at_mut(1);
        let mut stretches = keys.chunks(STRETCH).enumerate().peekable();
        self.prepare(stretches.peek(), &mut now[0]);
        while let Some((stretch, keys)) = stretches.next() {
            // The buckets of the next keys come from memory while these are compared.
            self.prepare(stretches.peek(), &mut next[0]);
            self.sweep(SWEPT_PER_PACKET * keys.len(), &mut ended);
            let keys = now[0].of(keys);
            self.stretch(keys, &mut slots, stretch * STRETCH, &mut each, &mut ended);
            mem::swap(&mut now, &mut next);
        }
        self.prepared = prepared;
    }

    /// Packets of a stretch of flows, the first one's index is `first`.
    #[inline(always)]
    fn stretch<T: Into<Stay>>(
        &mut self,
        keys: PreparedKeys<'_, K>,
        slots: &mut [u32; STRETCH],
        first: usize,
        each: &mut impl FnMut(usize, &mut S, bool) -> T,
        ended: &mut impl FnMut(Ended<K, S>),
    ) {
        let PreparedKeys { entries, choices, digests, .. } = keys;
        let count = entries.len();
        let of_keys = &mut slots[..count];
        let missed = kernel::probe_first(self.store.view(), entries, choices, of_keys);
        let mut known = u64::MAX >> (STRETCH - entries.len()) & !missed;
        // While second buckets come from memory, packets of flows in first ones are done, unless
        // their cells come from memory, too. All packets of a flow are in the same loop.
        if Store::<K, S>::HAS_CELLS {
            self.store.fetch_states(known, digests, slots);
        } else {
            self.known(known, slots, first, each, ended);
            known = 0;
        }
        let of_keys = &mut slots[..count];
        let mut new = kernel::probe_second(self.store.view(), entries, choices, of_keys, missed);
        known |= missed & !new;
        self.store.fetch_states(missed & !new, digests, slots);
        let others = self.store.confirm(keys, known & digests, slots);
        (known, new) = (known & !others, new | others);
        self.known(known, slots, first, each, ended);
        // First buckets of new flows, by the last bits of their numbers.
        let mut entered = 0_u64;
        for i in bits(new) {
            let bit = 1 << (choices[i][0] % u64::BITS);
            let may_be_there = entered & bit != 0;
            entered |= bit;
            self.missed(keys.one(i), may_be_there, first + i, each, ended);
        }
    }

    /// Packets of the flows in these slots, of those whose bits are set; the first one's index is
    /// `first`.
    #[inline(always)]
    fn known<T: Into<Stay>>(
        &mut self,
        which: u64,
        slots: &[u32; STRETCH],
        first: usize,
        each: &mut impl FnMut(usize, &mut S, bool) -> T,
        ended: &mut impl FnMut(Ended<K, S>),
    ) {
        Entries::new(&mut self.store, self.clock).packets(which, slots, first, each, ended);
    }

    /// Prepares a stretch of keys, and prefetches first buckets.
    fn prepare(&self, stretch: Option<&(usize, &[K])>, prepared: &mut Prepared<K>) {
        let Some((_, keys)) = stretch else { return };
        if let Some(Moving { from, .. }) = &self.moving {
            // For the prefetches.
            prepared.prepare(from.view(), keys);
        }
        prepared.prepare(self.store.view(), keys);
    }

    /// Time has passed, so that it is epoch `epoch` or later.
    pub fn advance(&mut self, epoch: u64) {
        self.wanted = self.wanted.max(epoch);
    }

    /// Looks for silent flows in `buckets` buckets, unless none can be due.
    #[inline(never)]
    pub fn sweep(&mut self, buckets: usize, mut ended: impl FnMut(Ended<K, S>)) {
        self.migrate(buckets, &mut ended);
        let mut due = buckets;
        while due > 0 && self.clock.epoch != self.wanted {
            let rest = self.store.buckets.len() - self.cursor;
            let run = self.cursor..self.cursor + due.min(SWEPT_TOGETHER).min(rest).min(self.left);
            let later = run.end + SWEEP_DISTANCE;
            for bucket in self.store.buckets.iter().take(later).skip(run.start + SWEEP_DISTANCE) {
                kernel::prefetch(bucket);
            }
            due -= run.len();
            self.left -= run.len();
            self.cursor = if run.len() == rest { 0 } else { run.end };
            let Store { buckets, cells, secret } = &mut self.store;
            let count = kernel::take_idle(
                secret.level,
                self.clock,
                &mut buckets[run.clone()],
                &mut self.idle,
            );
            self.flows -= count;
            let mut slots = self.idle.slots(run.len()).map(|slot| run.start * SLOTS + slot);
            for &bits in &self.idle.entries[..count] {
                let slot = if Store::<K, S>::HAS_CELLS { slots.next() } else { None };
                let Some(entry) = Entry::unpack(bits) else { continue };
                ended(Store::<K, S>::ended(entry, &cells[slot.unwrap_or(0)], Reason::Idle));
            }
            if self.left == 0 {
                self.left = self.swept_per_epoch();
                self.clock.epoch += 1;
            }
        }
    }

    /// Every flow that was not silent for the lifetime, with its state.
    pub fn iter(&self) -> impl Iterator<Item = (K, S)> {
        let moving = self.moving.iter().flat_map(|Moving { from, .. }| from.flows());
        let flows = self.store.flows().chain(moving);
        let alive = flows.filter(|(entry, _)| !self.clock.is_idle(entry));
        alive.map(|(entry, cell)| {
            let flow = Store::<K, S>::ended(entry, cell, Reason::Idle);
            (flow.key, flow.state)
        })
    }

    /// Buckets that are swept in an epoch, so that all are before an entry's age is too large.
    fn swept_per_epoch(&self) -> usize {
        self.store.buckets.len().div_ceil(AGES as usize - 1 - usize::from(self.clock.lifetime))
    }

    /// A packet of a flow that was not found before those of the same stretch, of which one may
    /// have entered it.
    #[inline(never)]
    fn missed<T: Into<Stay>>(
        &mut self,
        one: PreparedKey<K>,
        may_be_there: bool,
        i: usize,
        each: &mut impl FnMut(usize, &mut S, bool) -> T,
        ended: &mut impl FnMut(Ended<K, S>),
    ) {
        let slot = may_be_there.then(|| self.store.probe(one)).flatten();
        if let Some(slot) = slot.or_else(|| self.pull(one, ended)) {
            return Entries::new(&mut self.store, self.clock).packet(slot, i, each, ended);
        }
        let slot = self.make_place(one.choices, ended) as usize;
        let cell = &mut self.store.cells[slot];
        one.key.keep(one.entry, &mut cell.key);
        let mut state = 0;
        cell.state = S::Beside::default();
        let stay = S::change(&mut state, &mut cell.state, |state| each(i, state, true)).into();
        let bits = bucket::pack(one.entry.0, state, self.clock.stamp(stay));
        self.store.buckets.entries_mut()[slot] = bits;
        self.flows += 1;
    }

    /// The entry in a slot that [`Table::find`] gives, and its cell.
    fn entry(&self, slot: u32) -> Option<(Entry, &CellOf<K, S>)> {
        let (slot, entries) = (slot as usize, self.store.buckets.entries());
        if let Some(bits) = entries.get(slot) {
            return Some((Entry::unpack(*bits)?, &self.store.cells[slot]));
        }
        let Moving { from, .. } = self.moving.as_ref()?;
        let slot = slot - entries.len();
        Some((Entry::unpack(*from.buckets.entries().get(slot)?)?, &from.cells[slot]))
    }
}
