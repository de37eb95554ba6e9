//! A place for a new flow.

use std::mem;

use super::bucket::{Entry, SLOTS};
use super::kernel::{self, Choices, prefetch};
use super::store::Store;
use super::{Ended, Reason, Table, TableKey, TableState};

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

/// The first place of those in buckets whose bits are set, [`SLOTS`] for each bucket.
#[inline]
fn place_of<const COUNT: usize>(buckets: [u32; COUNT], places: u32) -> (usize, usize) {
    let first = places.trailing_zeros() as usize;
    (buckets[first / SLOTS] as usize, first % SLOTS)
}

impl<K: TableKey, S: TableState> Table<K, S> {
    /// The slot for a flow that is not in the table, of these buckets.
    #[inline]
    pub(super) fn make_place(
        &mut self,
        choices: Choices,
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> u32 {
        let free = kernel::free_of(self.store.view(), choices);
        self.work.second += u64::from(free.trailing_zeros() as usize >= SLOTS);
        let (bucket, slot) =
            if free != 0 { place_of(choices, free) } else { self.make_free(choices, ended) };
        (bucket * SLOTS + slot) as u32
    }

    /// An entry of two full buckets that is made free.
    #[cold]
    fn make_free(
        &mut self,
        choices: Choices,
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> (usize, usize) {
        let idle = kernel::idle_of(self.store.view(), self.clock, choices);
        if idle != 0 {
            let place = place_of(choices, idle);
            self.end(place, Reason::Idle, ended);
            return place;
        }
        if let Some(place) = self.shift_one(choices) {
            return place;
        }
        self.search(choices, ended).unwrap_or_else(|| {
            self.is_overflowing |= self.flows * 20 < self.entries() * 19;
            let place = self.longest_silent(choices);
            self.end(place, Reason::Evicted, ended);
            self.work.evicted += 1;
            place
        })
    }

    /// Moves one entry of two full buckets to its other bucket, if any of these has a free entry,
    /// and returns the place that becomes free. So end most searches.
    fn shift_one(&mut self, choices: Choices) -> Option<(usize, usize)> {
        let mut read = 0;
        for bucket in choices {
            let view = self.store.view();
            let others = kernel::others(view, bucket);
            let free = kernel::free_of(view, others);
            read += others.len();
            if free != 0 {
                let slot = free.trailing_zeros() as usize / SLOTS;
                let place = (bucket as usize, slot);
                self.move_entry(place, place_of(others, free));
                self.work.searched += read as u64;
                self.work.most_searched = self.work.most_searched.max(read);
                self.work.moved += 1;
                self.work.most_moved = self.work.most_moved.max(1);
                return Some(place);
            }
        }
        self.work.searched += read as u64;
        None
    }

    fn move_entry(&mut self, from: (usize, usize), to: (usize, usize)) {
        self.store.buckets[to.0].0[to.1] = self.store.buckets[from.0].0[from.1];
        let [to, from] = [to, from].map(|(bucket, slot)| bucket * SLOTS + slot);
        self.store.cells[to] = self.store.cells[from];
    }

    /// A free entry in one of two full buckets, for which others are moved.
    fn search(
        &mut self,
        choices: Choices,
        ended: &mut impl FnMut(Ended<K, S>),
    ) -> Option<(usize, usize)> {
        let mut steps = mem::take(&mut self.steps);
        steps.clear();
        steps.extend(choices.map(|bucket| Step { bucket, ..Step::default() }));
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
            let others = kernel::others(self.store.view(), bucket as u32);
            for (slot, other) in others.map(|other| other as usize).into_iter().enumerate() {
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
            self.move_entry(place, free);
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

    /// The entry with the longest silence in two full buckets.
    fn longest_silent(&self, choices: Choices) -> (usize, usize) {
        let buckets = choices.into_iter().map(|bucket| bucket as usize);
        let places = buckets.flat_map(|bucket| (0..SLOTS).map(move |n| (bucket, n)));
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
