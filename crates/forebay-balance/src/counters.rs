//! Packets, bytes and live flows of every bucket, counted by the workers.
//!
//! Each worker is the only writer of its counters, so counting is a relaxed load and a
//! relaxed store, without locked instructions. The counters of a bucket share 16 bytes: one
//! cache line a packet.
//!
//! Packets and bytes are packed into one word: packets × 2³⁶ + bytes. Sums and differences
//! of such words, modulo 2⁶⁴, are the words of the sums and differences, also across a
//! wrap, as long as one bucket counts less than 2³⁶ bytes (64 GiB) and 2²⁸ packets between
//! two readings.
//!
//! Flows are counted by linear counting (Whang, Vander-Zanden and Taylor, "A linear-time
//! probabilistic counting algorithm for database applications", 1990): each flow sets one
//! bit of a 32-bit map, chosen by its hash, and the number of flows is estimated from the
//! fraction of bits that are clear. There are two maps for two generations. Every half idle
//! timeout the balancer clears the older map and makes it the current one, so both together
//! cover the flows of the last half to whole idle timeout.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use forebay_packet::fetch_value;

use crate::assign::{BUCKETS, bucket_of};

/// Bits of the word for bytes.
const BYTE_BITS: u32 = 36;
const BYTE_MASK: u64 = (1 << BYTE_BITS) - 1;

/// Bits of a map of flows.
const MARKS: usize = u32::BITS as usize;

/// Packets and bytes as one word; see the module for its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally(u64);

impl Tally {
    /// The tally of this much traffic.
    #[must_use]
    pub fn new(packets: u64, bytes: u64) -> Self {
        Self((packets << BYTE_BITS).wrapping_add(bytes))
    }

    /// The tally from a word with the same layout of another forwarding table.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Packets of a difference.
    #[must_use]
    pub fn packets(self) -> u64 {
        self.0 >> BYTE_BITS
    }

    /// Bytes of a difference.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0 & BYTE_MASK
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// The traffic since `earlier`, also if the counter wrapped in between.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }
}

/// A tally with one writer.
#[derive(Debug, Default)]
pub(crate) struct TallyCell(AtomicU64);

impl TallyCell {
    #[inline]
    pub(crate) fn add(&self, amount: Tally) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount.0), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Tally {
        Tally(self.0.load(Ordering::Relaxed))
    }
}

/// One bucket's counters of one worker.
#[derive(Debug, Default)]
#[repr(align(16))]
struct Cell {
    tally: TallyCell,
    marks: [AtomicU32; 2],
}

/// The counters of one worker.
#[derive(Debug)]
pub(crate) struct Counters(Box<[Cell; BUCKETS]>);

impl Counters {
    fn new() -> Self {
        let cells: Box<[Cell]> = (0..BUCKETS).map(|_| Cell::default()).collect();
        Self(cells.try_into().expect("as many cells were made as there are buckets"))
    }

    /// Prefetches the counters.
    #[inline]
    pub(crate) fn fetch(&self, hash: u64) {
        fetch_value(&self.0[usize::from(bucket_of(hash))]);
    }
}

/// The counters of all workers of a group.
#[derive(Debug)]
pub struct BucketCounters {
    workers: Box<[Counters]>,
    /// The index of the current map of flows.
    generation: AtomicUsize,
}

impl BucketCounters {
    /// Counters for that many workers, all zero.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let workers = (0..workers).map(|_| Counters::new()).collect();
        Self { workers, generation: AtomicUsize::new(0) }
    }

    /// Counts a packet of this many bytes for each hash. Only one thread may count as
    /// `worker`; nothing is counted for an index without a worker.
    #[inline]
    pub fn count(&self, worker: usize, hashes: &[u64], bytes: &[u32]) {
        let Some(counters) = self.workers.get(worker) else { return };
        let generation = self.generation.load(Ordering::Relaxed) & 1;
        for (&hash, &bytes) in hashes.iter().zip(bytes) {
            let cell = &counters.0[usize::from(bucket_of(hash))];
            cell.tally.add(Tally::new(1, u64::from(bytes)));
            let marks = &cell.marks[generation];
            marks.store(marks.load(Ordering::Relaxed) | mark(hash), Ordering::Relaxed);
        }
    }

    /// The counters of a worker.
    #[inline]
    pub(crate) fn of(&self, worker: usize) -> Option<&Counters> {
        self.workers.get(worker)
    }

    /// What all workers counted in `bucket`.
    #[must_use]
    pub fn tally(&self, bucket: u16) -> Tally {
        let cells = self.workers.iter().map(|worker| worker.0[usize::from(bucket)].tally.get());
        cells.fold(Tally::default(), Tally::plus)
    }

    /// The marks of `bucket`'s flows, of all workers.
    #[must_use]
    pub fn flow_marks(&self, bucket: u16) -> FlowMarks {
        let current = self.generation.load(Ordering::Relaxed) & 1;
        let mut marks = FlowMarks::default();
        for worker in &self.workers {
            let generations = &worker.0[usize::from(bucket)].marks;
            marks.current |= generations[current].load(Ordering::Relaxed);
            marks.older |= generations[1 - current].load(Ordering::Relaxed);
        }
        marks
    }

    /// Estimated flows of `bucket` with a packet in the last half to whole idle timeout.
    #[must_use]
    pub fn live_flows(&self, bucket: u16) -> Flows {
        self.flow_marks(bucket).flows()
    }

    /// Discards the older generation of flows and begins a new one; to be called every half
    /// idle timeout.
    pub fn rotate(&self) {
        let older = (self.generation.load(Ordering::Relaxed) + 1) & 1;
        for worker in &self.workers {
            for cell in worker.0.iter() {
                cell.marks[older].store(0, Ordering::Relaxed);
            }
        }
        // A worker that has not seen this yet marks the previous generation, which counts
        // as well.
        self.generation.store(older, Ordering::Relaxed);
    }
}

/// The bit of a map for a flow: the bits of its hash next to the bucket's.
#[inline]
fn mark(hash: u64) -> u32 {
    1 << (hash >> 43 & (MARKS as u64 - 1))
}

/// The two maps of a bucket's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowMarks {
    /// Flows with a packet since the last rotation.
    pub current: u32,
    /// Flows with a packet between the last two rotations.
    pub older: u32,
}

impl FlowMarks {
    /// Estimated flows in both.
    #[must_use]
    pub fn flows(self) -> Flows {
        Flows::of_marks(self.current | self.older)
    }
}

/// An estimated number of flows.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Flows {
    /// The estimate, with a standard error of about 15% where it is below 32.
    pub about: f32,
    /// Whether the number is unbounded: every bit of the map was set.
    pub or_more: bool,
}

impl Flows {
    /// The estimate from both maps of a bucket together.
    #[must_use]
    pub fn of_marks(marks: u32) -> Self {
        let m = MARKS as f32;
        let clear = marks.count_zeros();
        // With no bit clear the estimate is unbounded; one clear bit gives a lower bound.
        let about = -m * (clear.max(1) as f32 / m).ln();
        Self { about: about.max(0.0), or_more: clear == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_packet::{HashKey, siphash13};
    use proptest::prelude::*;

    fn hash(bucket: u16, flow: u64) -> u64 {
        u64::from(bucket) << 48 | siphash13(&HashKey([1, 2]), &[flow]) >> 16
    }

    proptest! {
        #[test]
        fn differences_hold_across_a_wrap(
            start: u64, counts in prop::collection::vec((0_u64..1 << 20, 0_u64..1 << 30), 0..40),
        ) {
            let begun = Tally(start);
            let mut tally = begun;
            for &(packets, bytes) in &counts {
                tally = tally.plus(Tally::new(packets, bytes));
            }
            let came = tally.since(begun);
            prop_assert_eq!(came.packets(), counts.iter().map(|count| count.0).sum::<u64>());
            prop_assert_eq!(came.bytes(), counts.iter().map(|count| count.1).sum::<u64>());
        }
    }

    #[test]
    fn buckets_and_workers_are_kept_apart_and_added_up() {
        let counters = BucketCounters::new(2);
        counters.count(0, &[hash(5, 1), hash(5, 2), hash(65_535, 3)], &[100, 60, 1500]);
        counters.count(1, &[hash(5, 4)], &[40]);
        counters.count(2, &[hash(5, 4)], &[40]);
        let tally = counters.tally(5);
        assert_eq!((tally.packets(), tally.bytes()), (3, 200));
        assert_eq!(counters.tally(65_535), Tally::new(1, 1500));
        assert_eq!(counters.tally(6), Tally::default());
    }

    #[test]
    fn flows_are_counted_within_the_error_of_linear_counting() {
        for flows in [1_u64, 5, 20, 50] {
            let mut sum = 0.0;
            for trial in 0..200 {
                let counters = BucketCounters::new(1);
                let hashes: Vec<u64> = (0..flows).map(|i| hash(9, trial << 32 | i)).collect();
                counters.count(0, &hashes, &vec![60; hashes.len()]);
                counters.count(0, &hashes, &vec![60; hashes.len()]);
                sum += f64::from(counters.live_flows(9).about);
            }
            let mean = sum / 200.0;
            assert!((mean / flows as f64 - 1.0).abs() < 0.08, "{flows}: {mean}");
        }
        assert_eq!(Flows::of_marks(0), Flows { about: 0.0, or_more: false });
        assert!(Flows::of_marks(u32::MAX).or_more);
    }

    #[test]
    fn a_flow_is_forgotten_after_two_generations() {
        let counters = BucketCounters::new(1);
        counters.count(0, &[hash(3, 1)], &[60]);
        counters.rotate();
        counters.count(0, &[hash(3, 2)], &[60]);
        assert!(counters.live_flows(3).about > 1.5);
        counters.rotate();
        assert!((0.5..1.5).contains(&counters.live_flows(3).about));
        counters.rotate();
        assert_eq!(counters.live_flows(3).about, 0.0);
        assert_eq!(counters.tally(3).packets(), 2);
    }
}
