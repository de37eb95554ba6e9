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

use super::bucket::{Bucket, Entry, SLOTS};
use super::kernel::{self, Choices, STRETCH, View};
use super::memory::Buckets;
use super::{Ended, MAX_FLOWS, Reason, Table, TableError};
use crate::hash::Secret;
use crate::key::ShortKey;
use crate::level::Level;

/// The buckets of the smallest pages.
const BUCKETS_A_PAGE: usize = 4096 / size_of::<Bucket>();

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
pub struct Spare {
    pub(super) buckets: Buckets,
    pub(super) secret: Secret,
}

impl Spare {
    /// Memory for `flows` flows, as in [`super::Options`].
    ///
    /// # Errors
    /// Properties out of bounds, or no memory.
    pub fn new(flows: usize, key: HashKey, level: Level) -> Result<Self, TableError> {
        if !(1..=MAX_FLOWS).contains(&flows) {
            return Err(TableError::Flows { flows });
        }
        if !level.is_here() {
            return Err(TableError::Level(level));
        }
        let buckets = Buckets::new((flows + flows / 4).div_ceil(SLOTS));
        let mut buckets = buckets.map_err(|source| TableError::Memory { flows, source })?;
        let pages = buckets.iter_mut().step_by(BUCKETS_A_PAGE);
        pages.for_each(|bucket| *bucket = Bucket::default());
        Ok(Self { buckets, secret: Secret::new(key, level) })
    }

    pub(super) fn view(&self) -> View<'_> {
        View { buckets: &self.buckets, secret: &self.secret }
    }
}

/// Memory from which flows move.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) from: Spare,
    /// The next bucket, and how many are left.
    next: usize,
    left: usize,
}

impl Table {
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
    pub fn replace(&mut self, spare: Spare) -> Option<Spare> {
        let is_small = spare.buckets.len() < self.buckets.len();
        if is_small || self.moving.is_some() || self.retired.is_some() {
            return Some(spare);
        }
        let Spare { buckets, secret } = spare;
        let buckets = mem::replace(&mut self.buckets, buckets);
        let secret = mem::replace(&mut self.secret, secret);
        let (next, left) = (self.cursor, buckets.len());
        self.moving = Some(Moving { from: Spare { buckets, secret }, next, left });
        (self.cursor, self.left) = (0, self.swept_per_epoch());
        self.is_overflowing = false;
        None
    }

    /// The memory that all flows have moved from, once. To unmap it takes time.
    pub fn retired(&mut self) -> Option<Spare> {
        self.retired.take()
    }

    /// Moves the flow of a packet to its buckets. Returns its slot.
    pub(super) fn pull(
        &mut self,
        key: ShortKey,
        choices: Choices,
        ended: &mut impl FnMut(Ended),
    ) -> Option<u32> {
        let Moving { from, .. } = self.moving.as_mut()?;
        let slot = kernel::find_one(from.view(), key)?;
        let bits = mem::take(&mut from.buckets.entries_mut()[slot as usize]);
        Some(self.put(bits, choices, ended))
    }

    fn put(&mut self, bits: u128, choices: Choices, ended: &mut impl FnMut(Ended)) -> u32 {
        let slot = self.make_place(choices, ended);
        self.write(slot, bits);
        self.work.migrated += 1;
        slot
    }

    /// Moves the flows of as many buckets as it takes where `swept` buckets are swept.
    pub(super) fn migrate(&mut self, swept: usize, ended: &mut impl FnMut(Ended)) {
        let Some(Moving { from, left, .. }) = &self.moving else { return };
        let due = swept.saturating_mul(from.buckets.len()).div_ceil(self.buckets.len()).min(*left);
        for first in (0..due).step_by(STRETCH / SLOTS) {
            self.migrate_stretch((due - first).min(STRETCH / SLOTS), ended);
        }
        if self.moving.as_ref().is_some_and(|moving| moving.left == 0) {
            self.retired = self.moving.take().map(|moving| moving.from);
        }
    }

    /// Moves the flows of as many buckets as have [`STRETCH`] entries, or fewer.
    #[inline(never)]
    fn migrate_stretch(&mut self, buckets: usize, ended: &mut impl FnMut(Ended)) {
        let Some(Moving { from, next, left }) = &mut self.moving else { return };
        let (mut entries, mut keys) = ([0; STRETCH], [ShortKey(0); STRETCH]);
        let mut count = 0;
        for _ in 0..buckets {
            let Bucket(taken) = mem::take(&mut from.buckets[*next]);
            for (bits, entry) in taken.into_iter().filter_map(|b| Some((b, Entry::unpack(b)?))) {
                (entries[count], keys[count]) = (bits, entry.key);
                count += 1;
            }
            *next = (*next + 1) % from.buckets.len();
        }
        *left -= buckets;
        let mut choices = [[0; 2]; STRETCH];
        kernel::choose(self.view(), &keys[..count], &mut choices[..count]);
        for (bits, choices) in entries.into_iter().zip(choices).take(count) {
            match Entry::unpack(bits).filter(|entry| self.clock.is_idle(entry)) {
                Some(Entry { key, state, .. }) => {
                    self.flows -= 1;
                    ended(Ended { key, state, reason: Reason::Idle });
                }
                None => {
                    self.put(bits, choices, ended);
                }
            }
        }
    }
}
