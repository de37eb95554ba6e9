//! The way of packets to their records, ahead of their counting.

use super::index::{Index, NONE};
use super::slab::Slab;
use crate::table::kernel::prefetch;

/// Packets that take a step to their records together, so that their memory is waited for together:
/// a prefetch whose page is not in the TLB is no faster than its page walk.
const GROUP: usize = 8;

/// How many packets before a group is counted the segments of a group are chosen, its first buckets
/// compared, and its second ones. Each step needs memory that the one before has asked for.
const CHOSEN_AHEAD: usize = 3 * GROUP;
const COMPARED_AHEAD: usize = 2 * GROUP;
const FETCHED_AHEAD: usize = GROUP;

/// What was found of a packet that is not counted yet.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    segment: u32,
    /// The record it most likely has.
    number: u32,
}

/// What was found of the packets of a batch, and for how many each step has been done.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    found: Vec<Found>,
    counted: usize,
    chosen: usize,
    compared: usize,
    fetched: usize,
}

impl Ahead {
    /// A batch of so many packets begins.
    pub(super) fn begin(&mut self, packets: usize) {
        self.found.resize(packets, Found::default());
        (self.counted, self.chosen, self.compared, self.fetched) = (0, 0, 0, 0);
    }

    /// The number of the record that packet `i` most likely has, or any: [`NONE`] if there is none.
    /// There is a hash for each packet, and none has been asked for behind `i`.
    #[inline]
    pub(super) fn number(
        &mut self,
        i: usize,
        hashes: &[u64],
        index: &Index,
        records: &Slab,
    ) -> u32 {
        if i >= self.counted {
            self.go_on(i, hashes, index, records);
        }
        self.found[i].number
    }

    /// Takes the groups from that of packet `i` on the next step to their records, so that these come
    /// from memory while others are counted.
    #[inline(never)]
    fn go_on(&mut self, i: usize, hashes: &[u64], index: &Index, records: &Slab) {
        let last = (records.numbers() as u32).wrapping_sub(1);
        self.counted = i / GROUP * GROUP + GROUP;
        let end = |ahead: usize| hashes.len().min(self.counted + ahead);
        let [chosen, compared, fetched] = [CHOSEN_AHEAD, COMPARED_AHEAD, FETCHED_AHEAD].map(end);
        let steps = hashes[self.chosen..chosen].iter().zip(&mut self.found[self.chosen..chosen]);
        for (&hash, found) in steps {
            found.segment = index.choose(hash);
        }
        let which = self.compared..compared;
        for (&hash, found) in hashes[which.clone()].iter().zip(&mut self.found[which]) {
            found.number = index.first_candidate(hash, found.segment);
            fetch(records, found.number, last);
        }
        let which = self.fetched..fetched;
        let steps = hashes[which.clone()].iter().zip(&mut self.found[which]);
        for (&hash, found) in steps.filter(|(_, found)| found.number == NONE) {
            found.number = index.second_candidate(hash, found.segment);
            fetch(records, found.number, last);
        }
        (self.chosen, self.compared, self.fetched) = (chosen, compared, fetched);
    }
}

/// Prefetches a record, that of number `last` for none, as a branch would be taken at random.
#[inline(always)]
fn fetch(records: &Slab, number: u32, last: u32) {
    if last != NONE {
        let record = records.get(number.min(last));
        prefetch(&record.key);
        prefetch(&record.tcp_flags);
    }
}
