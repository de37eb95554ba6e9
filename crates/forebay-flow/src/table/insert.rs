//! A place for a new flow.

use std::mem;

use super::bucket::{Entry, SLOTS};
use super::kernel::{Choices, prefetch};
use super::store::Store;
use super::{Ended, Reason, Table, TableKey, TableState};
use crate::key::KEY_MASK;

/// Buckets that an insertion reads at most. At 95% of the entries, one bucket of twenty has a
/// free one; that none of so many has is not seen.
pub(super) const MAX_SEARCH: usize = 1024;

/// A bucket whose entries may be moved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    bucket: u32,
    /// The step, and the slot of its bucket, whose entry may be moved to this bucket. The first
    /// two steps are of the new flow.
    before: u16,
    slot: u8,
}

/// Whether the entries moved for step `last` include some of this bucket. It must not be so
/// twice: the entry to move there later would be another than was looked at.
fn is_on_the_way(steps: &[Step], mut last: usize, bucket: usize) -> bool {
    loop {
        if steps[last].bucket as usize == bucket {
            return true;
        }
        if last < 2 {
            return false;
        }
        last = steps[last].before.into();
    }
}

impl<K: TableKey, S: TableState> Table<K, S> {
    /// The slot for a flow that is not in the table, of these buckets.
    #[inline]
    pub(super) fn make_place(
        &mut self,
        choices: Choices,
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> u32 {
        let free = self.free_of(choices);
        let choices = choices.map(|bucket| bucket as usize);
        self.work.second += u64::from(free.trailing_zeros() as usize >= SLOTS);
        let (bucket, slot) = match free.trailing_zeros() as usize {
            slot if free != 0 => (choices[slot / SLOTS], slot % SLOTS),
            _ => self.make_free(choices, ended),
        };
        (bucket * SLOTS + slot) as u32
    }

    /// The free entries of two buckets, a bit for each.
    #[inline]
    fn free_of(&self, choices: Choices) -> u32 {
        let [first, second] = choices.map(|bucket| self.store.buckets[bucket as usize].free());
        first | second << SLOTS
    }

    /// Has the buckets fetched into the cache that are searched first for a place for a new flow of
    /// these buckets, if both are full.
    #[inline]
    pub(super) fn fetch_others(&self, choices: Choices) {
        if self.free_of(choices) == 0 {
            let [first, _] = choices;
            for slot in 0..SLOTS {
                prefetch(&self.store.buckets[self.other(first as usize, slot)]);
            }
        }
    }

    /// An entry of two full buckets that is made free.
    #[cold]
    fn make_free(
        &mut self,
        choices: [usize; 2],
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> (usize, usize) {
        for bucket in choices {
            if let Some(slot) = self.free(bucket, ended) {
                return (bucket, slot);
            }
        }
        self.search(choices, ended).unwrap_or_else(|| {
            self.is_overflowing |= self.flows * 20 < self.entries() * 19;
            let place = self.longest_silent(choices);
            self.end(place, Reason::Evicted, ended);
            self.work.evicted += 1;
            place
        })
    }

    /// A free entry in one of two full buckets, for which others are moved.
    fn search(
        &mut self,
        choices: [usize; 2],
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> Option<(usize, usize)> {
        let mut steps = mem::take(&mut self.steps);
        steps.clear();
        steps.extend(choices.map(|bucket| Step { bucket: bucket as u32, ..Step::default() }));
        let place = self.search_from(&mut steps, ended);
        self.steps = steps;
        place
    }

    fn search_from(
        &mut self,
        steps: &mut Vec<Step>,
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> Option<(usize, usize)> {
        // Those behind the two have not been read yet.
        let (mut next, mut read) = (0, steps.len());
        while next < steps.len() {
            let bucket = steps[next].bucket as usize;
            for slot in 0..SLOTS {
                let other = self.other(bucket, slot);
                if steps.len() < MAX_SEARCH && !is_on_the_way(steps, next, other) {
                    prefetch(&self.store.buckets[other]);
                    let (bucket, before, slot) = (other as u32, next as u16, slot as u8);
                    steps.push(Step { bucket, before, slot });
                }
            }
            while read < steps.len() {
                self.work.searched += 1;
                self.work.most_searched = self.work.most_searched.max(read + 1);
                if let Some(slot) = self.free(steps[read].bucket as usize, ended) {
                    return Some(self.shift(steps, read, slot));
                }
                read += 1;
            }
            next += 1;
        }
        None
    }

    /// Moves the entries on the way to step `last`, whose bucket has a free slot, and returns
    /// the one that becomes free.
    fn shift(&mut self, steps: &[Step], last: usize, slot: usize) -> (usize, usize) {
        let mut free = (steps[last].bucket as usize, slot);
        let mut step = last;
        let mut moved = 0;
        while step >= 2 {
            let Step { before, slot, .. } = steps[step];
            step = before.into();
            let place = (steps[step].bucket as usize, usize::from(slot));
            self.store.buckets[free.0].0[free.1] = self.store.buckets[place.0].0[place.1];
            let [to, from] = [free, place].map(|(bucket, slot)| bucket * SLOTS + slot);
            self.store.cells[to] = self.store.cells[from];
            free = place;
            moved += 1;
        }
        self.work.moved += moved as u64;
        self.work.most_moved = self.work.most_moved.max(moved);
        free
    }

    /// A free slot of a bucket; that of an idle flow is made free.
    fn free(&mut self, bucket: usize, ended: &mut impl FnMut(Ended<K, S>)) -> Option<usize> {
        let entries = &self.store.buckets[bucket];
        let free = entries.free();
        if free != 0 {
            return Some(free.trailing_zeros() as usize);
        }
        let idle = self.clock.idle(entries);
        (idle != 0).then(|| {
            let slot = idle.trailing_zeros() as usize;
            self.end((bucket, slot), Reason::Idle, ended);
            slot
        })
    }

    /// The other bucket of an entry.
    fn other(&self, bucket: usize, slot: usize) -> usize {
        let key = self.store.buckets[bucket].0[slot] & KEY_MASK;
        let [first, second] = self.store.view().choices(key).map(|bucket| bucket as usize);
        if first == bucket { second } else { first }
    }

    /// The entry with the longest silence in two full buckets.
    fn longest_silent(&self, choices: [usize; 2]) -> (usize, usize) {
        let places = choices.into_iter().flat_map(|bucket| (0..SLOTS).map(move |n| (bucket, n)));
        let age = |&(bucket, n): &(usize, usize)| {
            Entry::unpack(self.store.buckets[bucket].0[n])
                .map_or(u8::MAX, |e| e.age(self.clock.epoch))
        };
        places.max_by_key(age).unwrap_or_default()
    }

    /// Ends a flow and frees its entry.
    pub(super) fn end(
        &mut self,
        (bucket, slot): (usize, usize),
        reason: Reason,
        ended: &mut impl FnMut(Ended<K, S>),
    ) {
        if let Some(entry) = Entry::unpack(self.store.buckets[bucket].0[slot]) {
            self.store.buckets[bucket].0[slot] = 0;
            self.flows -= 1;
            let cell = &self.store.cells[bucket * SLOTS + slot];
            ended(Store::<K, S>::ended(entry, cell, reason));
        }
    }
}
