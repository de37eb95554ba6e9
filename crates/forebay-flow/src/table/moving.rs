//! Growth, and new secrets of the hash, while packets arrive.
//!
//! A [`Spare`] is made where time does not matter: all its memory is written once, so that the
//! system has no page to zero later. From [`Table::replace`] on it is the table, and the flows of
//! the memory before move there: those of the next packets at once, all others a few buckets a
//! packet. The memory is handed back when it is empty ([`Table::retired`]).
//!
//! Buckets are moved in the order in which they were swept, from where the cursor was, and at
//! least as many as are swept in the new memory, in proportion to their numbers. So no bucket is
//! visited later than without the move, and ages stay without ambiguity.

use std::mem;

use forebay_packet::HashKey;

use super::bucket::{Bucket, Entry, SLOTS, with_key};
use super::kernel::{Choices, STRETCH};
use super::layout::CellOf;
use super::store::{Prepared, PreparedKey, Store};
use super::{Ended, Reason, Table, TableError, TableKey, TableState};
use crate::key::ShortKey;
use crate::level::Level;

/// What a table needs, as its owner is to give it with [`Table::replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// More room: nine of ten entries are taken.
    Room,
    /// Another secret: a flow was evicted although there was room, which chance alone does not
    /// do in a table of some size.
    Secret,
}

/// Empty memory for a table, and a secret.
#[derive(Debug)]
pub struct Spare<K: TableKey = ShortKey, S: TableState = u16>(Store<K, S>);

impl Spare {
    /// Memory for `flows` IPv4 flows with two bytes of state, as in [`super::Options`].
    ///
    /// # Errors
    /// Properties out of bounds, or no memory.
    pub fn new(flows: usize, key: HashKey, level: Level) -> Result<Self, TableError> {
        Self::empty(flows, key, level)
    }
}

impl<K: TableKey, S: TableState> Spare<K, S> {
    /// Memory for `flows` flows of any keys and states.
    ///
    /// # Errors
    /// Properties out of bounds, or no memory.
    pub fn empty(flows: usize, key: HashKey, level: Level) -> Result<Self, TableError> {
        Ok(Self(Store::new(flows, key, level)?))
    }
}

/// Memory from which flows move.
#[derive(Debug)]
pub(super) struct Moving<K: TableKey, S: TableState> {
    pub(super) from: Store<K, S>,
    /// The next bucket, and how many are left.
    next: usize,
    left: usize,
}

impl<K: TableKey, S: TableState> Table<K, S> {
    /// What the table needs.
    #[must_use]
    pub fn need(&self) -> Option<Need> {
        if self.moving.is_some() {
            return None;
        }
        let is_full = self.flows * 10 > self.entries() * 9;
        let secret = self.is_overflowing.then_some(Need::Secret);
        if is_full { Some(Need::Room) } else { secret }
    }

    /// Has flows move to other memory, by another secret. Returns the memory if it is smaller
    /// than the table's, or an earlier move has not ended or its memory was not taken back.
    #[must_use]
    pub fn replace(&mut self, spare: Spare<K, S>) -> Option<Spare<K, S>> {
        let is_small = spare.0.buckets.len() < self.store.buckets.len();
        if is_small || self.moving.is_some() || self.retired.is_some() {
            return Some(spare);
        }
        let from = mem::replace(&mut self.store, spare.0);
        let (next, left) = (self.cursor, from.buckets.len());
        self.moving = Some(Moving { from, next, left });
        (self.cursor, self.left) = (0, self.swept_per_epoch());
        self.is_overflowing = false;
        None
    }

    /// The memory that all flows have moved from, once. To unmap it takes time.
    pub fn retired(&mut self) -> Option<Spare<K, S>> {
        self.retired.take()
    }

    /// Moves the flow of a packet to its buckets. Returns its slot.
    pub(super) fn pull(
        &mut self,
        one: PreparedKey<K>,
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> Option<u32> {
        let Moving { from, .. } = self.moving.as_mut()?;
        let slot = from.find_one(one.key)? as usize;
        let bits = mem::take(&mut from.buckets.entries_mut()[slot]);
        let cell = from.cells[slot];
        Some(self.put((with_key(bits, one.entry.0), cell), one.choices, ended))
    }

    fn put(
        &mut self,
        (bits, cell): (u128, CellOf<K, S>),
        choices: Choices,
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> u32 {
        let slot = self.make_place(choices, ended);
        self.store.buckets.entries_mut()[slot as usize] = bits;
        self.store.cells[slot as usize] = cell;
        self.work.migrated += 1;
        slot
    }

    /// Moves the flows of as many buckets as it takes where `swept` buckets are swept.
    pub(super) fn migrate(&mut self, swept: usize, ended: &mut impl FnMut(Ended<K, S>)) {
        let Some(Moving { from, left, .. }) = &self.moving else { return };
        let due = swept.saturating_mul(from.buckets.len());
        let due = due.div_ceil(self.store.buckets.len()).min(*left);
        for first in (0..due).step_by(STRETCH / SLOTS) {
            self.migrate_stretch((due - first).min(STRETCH / SLOTS), ended);
        }
        if self.moving.as_ref().is_some_and(|moving| moving.left == 0) {
            self.retired = self.moving.take().map(|moving| Spare(moving.from));
        }
    }

    /// Moves the flows of as many buckets as have [`STRETCH`] entries, or fewer.
    #[inline(never)]
    fn migrate_stretch(&mut self, buckets: usize, ended: &mut impl FnMut(Ended<K, S>)) {
        let Some(Moving { from, next, left }) = &mut self.moving else { return };
        let nothing = CellOf::<K, S>::default();
        let mut keys = [K::whole(ShortKey(0), &nothing.key); STRETCH];
        let (mut flows, mut count) = ([(0, nothing); STRETCH], 0);
        for _ in 0..buckets {
            let Bucket(taken) = mem::take(&mut from.buckets[*next]);
            for (bits, slot) in taken.into_iter().zip(*next * SLOTS..) {
                let Some(entry) = Entry::unpack(bits) else { continue };
                keys[count] = K::whole(entry.key, &from.cells[slot].key);
                flows[count] = (bits, from.cells[slot]);
                count += 1;
            }
            *next = (*next + 1) % from.buckets.len();
        }
        *left -= buckets;
        // Digests are others under another secret.
        let mut prepared = Prepared::default();
        prepared.prepare(self.store.view(), &keys[..count]);
        let keys = prepared.of(&keys[..count]);
        for (i, (bits, cell)) in flows.into_iter().take(count).enumerate() {
            match Entry::unpack(bits).filter(|entry| self.clock.is_idle(entry)) {
                Some(entry) => {
                    self.flows -= 1;
                    ended(Store::<K, S>::ended(entry, &cell, Reason::Idle));
                }
                None => {
                    let bits = with_key(bits, keys.entries[i].0);
                    self.put((bits, cell), keys.choices[i], ended);
                }
            }
        }
    }
}
