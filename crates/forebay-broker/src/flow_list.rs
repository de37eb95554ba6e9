//! The largest open flows of a group, copied by a worker between batches, some at a time.
//!
//! A worker passes over the records of a table in the order of their numbers, at most 512
//! between two rounds of packets. So each record is as it was between two batches, and the list is
//! not of one instant: a flow that begins or ends meanwhile may be missing.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::mpsc;

use forebay_flow::FlowRecord;
use forebay_packet::FlowKey;
use forebay_pipeline::SharedFlows;

/// The most flows of a list.
pub const MOST_LISTED: usize = 1_000;

/// Records that are passed over at a time.
const EACH: u32 = 512;

/// The largest open flows of a worker.
#[derive(Clone, Debug, Default)]
pub struct FlowList {
    /// Records that were open when they were passed over.
    pub open: u64,
    /// The largest of them, in no order.
    pub records: Vec<FlowRecord>,
    /// The group keeps records.
    pub keeps: bool,
}

/// A record by its bytes, and by its key where they are equal: so a list is the beginning of a
/// longer one.
#[derive(Debug)]
struct Ranked(FlowRecord);

/// What flows are ranked by.
pub(crate) fn rank(record: &FlowRecord) -> (u64, FlowKey) {
    (record.total_bytes(), record.key)
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        rank(&self.0).cmp(&rank(&other.0))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// A list that is being made.
#[derive(Debug)]
pub(crate) struct FlowListing {
    group: String,
    most: usize,
    reply: mpsc::Sender<FlowList>,
    /// The next number.
    next: u32,
    open: u64,
    /// The smallest of the largest on top.
    largest: BinaryHeap<Reverse<Ranked>>,
}

impl FlowListing {
    /// A list of at most so many flows of a group. The memory for it is taken here.
    pub(crate) fn new(group: &str, most: usize) -> (Self, mpsc::Receiver<FlowList>) {
        let (reply, list) = mpsc::channel();
        let most = most.min(MOST_LISTED);
        let largest = BinaryHeap::with_capacity(most);
        let listing = Self { group: group.to_owned(), most, reply, next: 0, open: 0, largest };
        (listing, list)
    }

    /// The group.
    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Passes over some records of the group; the listing goes on unless it is complete.
    pub(crate) fn step(mut self, flows: Option<&SharedFlows>) -> Option<Self> {
        let records = flows.map(SharedFlows::lock);
        let Some(table) = records.as_ref().and_then(|records| records.table.as_ref()) else {
            self.send(false);
            return None;
        };
        let end = table.numbers().min(self.next.saturating_add(EACH));
        for record in (self.next..end).filter_map(|number| table.record(number)) {
            self.open += 1;
            if self.largest.len() < self.most {
                self.largest.push(Reverse(Ranked(*record)));
            } else if let Some(mut least) = self.largest.peek_mut()
                && rank(&least.0.0) < rank(record)
            {
                *least = Reverse(Ranked(*record));
            }
        }
        self.next = end;
        if end < table.numbers() {
            return Some(self);
        }
        self.send(true);
        None
    }

    fn send(self, keeps: bool) {
        let records = self.largest.into_iter().map(|Reverse(Ranked(record))| record).collect();
        // The receiver may have gone.
        let _ = self.reply.send(FlowList { open: self.open, records, keeps });
    }
}

#[cfg(test)]
mod tests {
    use forebay_flow::{FlowTable, OnFull, RecordOptions};
    use forebay_gen::{Config, Generator, Profile};
    use forebay_packet::{DecodeOptions, Decoder, HashKey};
    use forebay_pipeline::stages::Classify;
    use forebay_pipeline::{Chain, StageError};

    use super::*;

    /// A table of many flows.
    fn flows() -> SharedFlows {
        let mut table = FlowTable::new(RecordOptions::new(100_000, OnFull::Evict));
        let decoder = Decoder::new(DecodeOptions::default());
        let mut chain = Chain::new().with(Classify::new(decoder, HashKey::OFFLINE));
        let profile = Profile::Uniform;
        let config = Config { profile, packets: 20_000, flows: 5_000, ..Config::default() };
        let mut packets = Generator::new(config).unwrap();
        while let Some(batch) = packets.next_batch().unwrap() {
            let mut count = |batch| {
                table.count(&batch, |_| panic!("nothing ends"));
                Ok::<(), StageError>(())
            };
            chain.push(batch, &mut count).unwrap();
        }
        let flows = SharedFlows::default();
        flows.lock().table = Some(table);
        flows
    }

    #[test]
    fn the_largest_flows_are_listed_in_bounded_steps() {
        let flows = flows();
        let all: Vec<u64> = {
            let table = flows.lock();
            let bytes = table.table.as_ref().unwrap().records().map(FlowRecord::total_bytes);
            let mut bytes: Vec<u64> = bytes.collect();
            bytes.sort_unstable_by_key(|&bytes| Reverse(bytes));
            bytes
        };
        for most in [0, 1, 20, MOST_LISTED] {
            let (mut listing, list) = FlowListing::new("ids", most);
            let mut steps = 1;
            while let Some(next) = listing.step(Some(&flows)) {
                assert!(list.try_recv().is_err());
                (listing, steps) = (next, steps + 1);
            }
            assert_eq!(steps, all.len().div_ceil(EACH as usize));
            let list = list.try_recv().unwrap();
            let mut found: Vec<u64> = list.records.iter().map(FlowRecord::total_bytes).collect();
            found.sort_unstable_by_key(|&bytes| Reverse(bytes));
            assert_eq!(found, all[..most]);
            assert!(list.keeps && list.open == all.len() as u64);
        }
    }

    #[test]
    fn a_group_without_records_has_an_empty_list() {
        for flows in [None, Some(&SharedFlows::default())] {
            let (listing, list) = FlowListing::new("ids", 20);
            assert!(listing.step(flows).is_none());
            let list = list.recv().unwrap();
            assert!(!list.keeps && list.open == 0 && list.records.is_empty());
        }
    }

    #[test]
    fn a_table_that_is_replaced_by_a_smaller_one_ends_the_list() {
        let flows = flows();
        let (listing, list) = FlowListing::new("ids", 20);
        let listing = listing.step(Some(&flows)).unwrap();
        flows.lock().table = Some(FlowTable::new(RecordOptions::new(5, OnFull::Evict)));
        assert!(listing.step(Some(&flows)).is_none());
        assert_eq!(list.recv().unwrap().open, u64::from(EACH));
    }
}
