//! The memory of a table with the secret by which flows are found in it.
//!
//! Look-ups compare what entries have of the keys, many at once (`kernel`). Where that is a
//! digest, the cell's whole key is compared afterwards: cells are prefetched as soon as slots
//! are known.

use std::mem;

use forebay_packet::HashKey;

use super::bucket::{Entry, SLOTS};
use super::kernel::{self, Choices, NONE, STRETCH, View, bits, prefetch_both};
use super::layout::{CellOf, TableKey, TableState};
use super::memory::{Buckets, Mapped};
use super::options::{Ended, MAX_FLOWS, Reason, TableError};
use crate::hash::Secret;
use crate::key::{KEY_MASK, ShortKey};
use crate::level::Level;

/// Buckets, the cells of their entries, and the secret of their hash.
#[derive(Debug)]
pub(super) struct Store<K: TableKey, S: TableState> {
    pub(super) buckets: Buckets,
    pub(super) cells: Mapped<CellOf<K, S>>,
    pub(super) secret: Secret,
}

/// What is found out of the keys of a stretch before they are compared.
#[derive(Debug)]
pub(super) struct Prepared<K: TableKey> {
    buffer: K::Buffer,
    /// A bit for each key whose entry would have a digest.
    digests: u64,
    choices: [Choices; STRETCH],
}

impl<K: TableKey> Default for Prepared<K> {
    fn default() -> Self {
        Self { buffer: K::Buffer::default(), digests: 0, choices: [[0; 2]; STRETCH] }
    }
}

impl<K: TableKey> Prepared<K> {
    /// Prepares at most [`STRETCH`] keys, and prefetches their first buckets.
    pub(super) fn prepare(&mut self, view: View<'_>, keys: &[K]) {
        self.digests = K::digest(keys, view.secret, &mut self.buffer);
        let choices = &mut self.choices[..keys.len()];
        kernel::choose(view, K::entries(keys, &self.buffer), choices);
    }

    /// What entries have of these keys, which were prepared, and the choices.
    #[inline(always)]
    pub(super) fn of<'a>(&'a self, keys: &'a [K]) -> PreparedKeys<'a, K> {
        let (entries, choices) = (K::entries(keys, &self.buffer), &self.choices[..keys.len()]);
        PreparedKeys { keys, entries, choices, digests: self.digests }
    }
}

/// The keys of a stretch, prepared.
#[derive(Clone, Copy)]
pub(super) struct PreparedKeys<'a, K> {
    pub(super) keys: &'a [K],
    pub(super) entries: &'a [ShortKey],
    pub(super) choices: &'a [Choices],
    pub(super) digests: u64,
}

/// A key, what an entry has of it, and its buckets.
#[derive(Clone, Copy)]
pub(super) struct PreparedKey<K> {
    pub(super) key: K,
    pub(super) entry: ShortKey,
    pub(super) choices: Choices,
}

impl<K: TableKey> PreparedKeys<'_, K> {
    #[inline(always)]
    pub(super) fn one(&self, i: usize) -> PreparedKey<K> {
        PreparedKey { key: self.keys[i], entry: self.entries[i], choices: self.choices[i] }
    }
}

impl<K: TableKey, S: TableState> Store<K, S> {
    /// Whether entries have cells.
    pub(super) const HAS_CELLS: bool = size_of::<CellOf<K, S>>() > 0;

    /// Whether states are in cells, so that packets of all flows change them.
    const HAS_STATES: bool = size_of::<S::Beside>() > 0;

    pub(super) fn new(flows: usize, key: HashKey, level: Level) -> Result<Self, TableError> {
        if !(1..=MAX_FLOWS).contains(&flows) {
            return Err(TableError::Flows { flows });
        }
        if !level.is_here() {
            return Err(TableError::Level(level));
        }
        let count = (flows + flows / 4).div_ceil(SLOTS);
        let no_memory = |source| TableError::Memory { flows, source };
        let buckets = Mapped::new(count).map_err(no_memory)?;
        let cells = Mapped::new(count * SLOTS).map_err(no_memory)?;
        Ok(Self { buckets, cells, secret: Secret::new(key, level) })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.buckets) + size_of_val(&*self.cells)
    }

    #[inline(always)]
    pub(super) fn view(&self) -> View<'_> {
        View { buckets: &self.buckets, secret: &self.secret }
    }

    /// A key with what entries have of it and its buckets.
    pub(super) fn prepare_one(&self, key: K) -> PreparedKey<K> {
        let (keys, mut buffer) = ([key], K::Buffer::default());
        K::digest(&keys, &self.secret, &mut buffer);
        let entry = K::entries(&keys, &buffer)[0];
        PreparedKey { key, entry, choices: self.view().choices(entry.0) }
    }

    /// The slot of a key.
    pub(super) fn find_one(&self, key: K) -> Option<u32> {
        self.probe(self.prepare_one(key))
    }

    /// The slot of a key whose buckets are known.
    pub(super) fn probe(&self, one: PreparedKey<K>) -> Option<u32> {
        let slot = kernel::probe_one(self.view(), one.entry, one.choices)?;
        if self.is_in(slot, &one) { Some(slot) } else { self.search_equal(one) }
    }

    /// Whether the entry in a slot that has the key's digest has the key.
    #[inline(always)]
    fn is_in(&self, slot: u32, one: &PreparedKey<K>) -> bool {
        size_of::<K::Beside>() == 0
            || !one.entry.is_digest()
            || one.key.is(&self.cells[slot as usize].key)
    }

    /// The slot of a key where another one has the same digest.
    #[cold]
    fn search_equal(&self, one: PreparedKey<K>) -> Option<u32> {
        let slots = one.choices.into_iter().flat_map(|b| (0..SLOTS as u32).map(move |n| (b, n)));
        let mut slots = slots.map(|(bucket, slot)| bucket * SLOTS as u32 + slot);
        let entries = self.buckets.entries();
        slots.find(|&slot| {
            let entry = ShortKey(entries[slot as usize] & KEY_MASK);
            entry == one.entry && one.key.is(&self.cells[slot as usize].key)
        })
    }

    /// Writes the slot of each key, or [`NONE`]. There are as many slots as keys.
    pub(super) fn find(&self, keys: &[K], slots: &mut [u32]) {
        if let ([key], [slot]) = (keys, &mut *slots) {
            *slot = self.find_one(*key).unwrap_or(NONE);
            return;
        }
        let mut now = Prepared::default();
        now.prepare(self.view(), &keys[..keys.len().min(STRETCH)]);
        if keys.len() <= STRETCH {
            return self.find_prepared(now.of(keys), slots);
        }
        let (mut now, mut next) = (&mut now, &mut Prepared::default());
        let mut stretches = keys.chunks(STRETCH).zip(slots.chunks_mut(STRETCH)).peekable();
        while let Some((keys, slots)) = stretches.next() {
            // The buckets of the next keys come from memory while these are compared.
            if let Some((keys, _)) = stretches.peek() {
                next.prepare(self.view(), keys);
            }
            self.find_prepared(now.of(keys), slots);
            mem::swap(&mut now, &mut next);
        }
    }

    /// As [`Store::find`], of at most [`STRETCH`] keys.
    #[inline]
    fn find_prepared(&self, keys: PreparedKeys<'_, K>, slots: &mut [u32]) {
        let missed = kernel::probe_first(self.view(), keys.entries, keys.choices, slots);
        self.fetch_cells(keys.digests & !missed, slots);
        let absent = kernel::probe_second(self.view(), keys.entries, keys.choices, slots, missed);
        self.fetch_cells(keys.digests & missed & !absent, slots);
        self.confirm(keys, keys.digests & !absent, slots);
    }

    /// Prefetches the cells of those slots whose bits are set.
    #[inline(always)]
    fn fetch_cells(&self, which: u64, slots: &[u32]) {
        if Self::HAS_CELLS {
            for i in bits(which) {
                prefetch_both(&self.cells[slots[i] as usize]);
            }
        }
    }

    /// As [`Store::fetch_cells`], also of short keys where states are in cells.
    #[inline(always)]
    pub(super) fn fetch_states(&self, which: u64, digests: u64, slots: &[u32]) {
        self.fetch_cells(if Self::HAS_STATES { which } else { which & digests }, slots);
    }

    /// Compares the keys whose bits are set, which are digests in these slots, with the cells.
    /// Where another key has the same digest, finds the slot. Returns a bit for each key that is
    /// not there; its slot is [`NONE`].
    #[inline(always)]
    pub(super) fn confirm(&self, keys: PreparedKeys<'_, K>, which: u64, slots: &mut [u32]) -> u64 {
        let mut absent = 0;
        if size_of::<K::Beside>() > 0 {
            for i in bits(which) {
                if !keys.keys[i].is(&self.cells[slots[i] as usize].key) {
                    slots[i] = self.search_equal(keys.one(i)).unwrap_or(NONE);
                    absent |= u64::from(slots[i] == NONE) << i;
                }
            }
        }
        absent
    }

    /// The flow of an entry with its cell.
    #[inline(always)]
    pub(super) fn ended(entry: Entry, cell: &CellOf<K, S>, reason: Reason) -> Ended<K, S> {
        let key = K::whole(entry.key, &cell.key);
        Ended { key, state: S::whole(entry.state, &cell.state), reason }
    }

    /// The flows and states of all entries, in the order of slots.
    pub(super) fn flows(&self) -> impl Iterator<Item = (Entry, &CellOf<K, S>)> {
        let entries = self.buckets.entries().iter().zip(&*self.cells);
        entries.filter_map(|(bits, cell)| Some((Entry::unpack(*bits)?, cell)))
    }
}
