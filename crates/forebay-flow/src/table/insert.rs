//! A place for a new flow.

use super::bucket::{Bucket, Entry, SLOTS};
use super::kernel::{hash, prefetch};
use super::{Ended, Reason, Table};
use crate::key::{KEY_MASK, ShortKey};

/// Buckets that an insertion reads at most. At 95% of the entries, one bucket of twenty has a
/// free one; that none of so many has is not seen.
pub(super) const MAX_SEARCH: usize = 1024;

/// A bucket whose entries may be moved.
#[derive(Clone, Copy, Default)]
struct Step {
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

impl Table {
    /// The slot for a flow that is not in the table.
    pub(super) fn make_place(&mut self, key: ShortKey, ended: &mut impl FnMut(Ended)) -> u32 {
        let choices = self.choices(key.0);
        let (bucket, slot) = self.free_of(choices, ended).unwrap_or_else(|| {
            let place = self.search(choices, ended);
            place.unwrap_or_else(|| {
                let place = self.longest_silent(choices);
                self.end(place, Reason::Evicted, ended);
                self.work.evicted += 1;
                place
            })
        });
        (bucket * SLOTS + slot) as u32
    }

    /// A free entry of two buckets.
    fn free_of(
        &mut self,
        choices: [usize; 2],
        ended: &mut impl FnMut(Ended),
    ) -> Option<(usize, usize)> {
        choices.into_iter().find_map(|bucket| Some((bucket, self.free(bucket, ended)?)))
    }

    /// A free entry in one of two full buckets, for which others are moved.
    #[cold]
    fn search(
        &mut self,
        choices: [usize; 2],
        ended: &mut impl FnMut(Ended),
    ) -> Option<(usize, usize)> {
        let mut steps = [Step::default(); MAX_SEARCH];
        for (step, bucket) in steps.iter_mut().zip(choices) {
            step.bucket = bucket as u32;
        }
        let (mut next, mut known) = (0, choices.len());
        while next < known {
            let bucket = steps[next].bucket as usize;
            self.work.most_searched = self.work.most_searched.max(next + 1);
            if let Some(slot) = self.free(bucket, ended) {
                return Some(self.shift(&steps, next, slot));
            }
            for slot in 0..SLOTS {
                let other = self.other(bucket, slot);
                if known < MAX_SEARCH && !is_on_the_way(&steps, next, other) {
                    prefetch(&self.buckets[other]);
                    steps[known] =
                        Step { bucket: other as u32, before: next as u16, slot: slot as u8 };
                    known += 1;
                }
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
            self.buckets[free.0].0[free.1] = self.buckets[place.0].0[place.1];
            free = place;
            moved += 1;
        }
        self.work.moved += moved as u64;
        self.work.most_moved = self.work.most_moved.max(moved);
        free
    }

    /// A free slot of a bucket; that of an idle flow is made free.
    fn free(&mut self, bucket: usize, ended: &mut impl FnMut(Ended)) -> Option<usize> {
        let Bucket(entries) = self.buckets[bucket];
        let free = entries.iter().position(|&bits| bits == 0);
        free.or_else(|| {
            let is_idle = |&bits: &u128| Entry::unpack(bits).is_some_and(|e| self.is_idle(&e));
            let slot = entries.iter().position(is_idle)?;
            self.end((bucket, slot), Reason::Idle, ended);
            Some(slot)
        })
    }

    /// The other bucket of an entry.
    fn other(&self, bucket: usize, slot: usize) -> usize {
        let key = self.buckets[bucket].0[slot] & KEY_MASK;
        let [first, second] = self.choices(key);
        if first == bucket { second } else { first }
    }

    fn choices(&self, key: u128) -> [usize; 2] {
        self.view().choices(hash(&self.secret, key))
    }

    /// The entry with the longest silence in two full buckets.
    fn longest_silent(&self, choices: [usize; 2]) -> (usize, usize) {
        let places = choices.into_iter().flat_map(|bucket| (0..SLOTS).map(move |n| (bucket, n)));
        let age = |&(bucket, n): &(usize, usize)| {
            Entry::unpack(self.buckets[bucket].0[n]).map_or(u8::MAX, |e| e.age(self.epoch))
        };
        places.max_by_key(age).unwrap_or_default()
    }

    /// Ends a flow and frees its entry.
    fn end(
        &mut self,
        (bucket, slot): (usize, usize),
        reason: Reason,
        ended: &mut impl FnMut(Ended),
    ) {
        if let Some(entry) = Entry::unpack(self.buckets[bucket].0[slot]) {
            self.buckets[bucket].0[slot] = 0;
            self.flows -= 1;
            ended(Ended { key: entry.key, state: entry.state, reason });
        }
    }
}
