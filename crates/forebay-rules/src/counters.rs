//! Packets and bytes a rule, and when it last matched.
//!
//! Each worker has cells of its own, which no other thread writes: counting is a
//! load and a store, and takes no lock and no locked instruction. A total is
//! the sum of the workers' cells. It is exact as soon as the workers have
//! counted; while they count, each cell has a value that was true before.

use forebay_packet::cancel;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Cells that are allocated together, when the first of them is needed.
const CHUNK: usize = 4096;

/// Chunks; rules are numbered below `CHUNKS * CHUNK`, which is 2²⁴.
const CHUNKS: usize = 4096;

/// What one worker, or all together, have counted for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that the rule decided.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Time of the latest, as the worker gave it; 0 if there was none.
    pub last: u64,
}

impl Count {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            last: self.last.max(other.last),
        }
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let packets = self.packets - before.packets;
        let last = if packets == 0 { 0 } else { self.last };
        Self { packets, bytes: self.bytes - before.bytes, last }
    }
}

#[derive(Default)]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
    last: AtomicU64,
}

impl Cell {
    fn read(&self) -> Count {
        Count {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            last: self.last.load(Ordering::Relaxed),
        }
    }

    fn add(&self, bytes: u64, now: u64) {
        let bump =
            |cell: &AtomicU64, by| cell.store(cell.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        bump(&self.packets, 1);
        bump(&self.bytes, bytes);
        if now > self.last.load(Ordering::Relaxed) {
            self.last.store(now, Ordering::Relaxed);
        }
    }
}

fn fresh() -> Box<[Cell]> {
    std::iter::repeat_with(Cell::default).take(CHUNK).collect()
}

/// The cells of one worker, in cache lines that no other worker writes to;
/// processors fetch them in pairs.
#[repr(align(128))]
struct Cells {
    chunks: Box<[OnceLock<Box<[Cell]>>]>,
    /// Of packets that no rule matched.
    default: Cell,
}

impl Cells {
    fn cell(&self, rule: u32) -> Option<&Cell> {
        let chunk = self.chunks.get(rule as usize / CHUNK)?;
        chunk.get().map(|cells| &cells[rule as usize % CHUNK])
    }
}

/// The counters of a list.
pub struct Counters {
    workers: Vec<Cells>,
    /// How many workers have claimed cells.
    claimed: AtomicUsize,
}

/// What one worker counts with. Not to be shared: counts of two threads through
/// one would be lost.
pub struct Counter<'a> {
    cells: &'a Cells,
    /// Makes the type one that threads do not share.
    _own: std::marker::PhantomData<std::cell::Cell<()>>,
}

impl Counters {
    /// For so many workers, with the cells of so many rules made beforehand: counting then
    /// allocates nothing.
    #[must_use]
    pub fn new(workers: usize, rules: usize) -> Self {
        let cells = || Cells {
            chunks: std::iter::repeat_with(OnceLock::new).take(CHUNKS).collect(),
            default: Cell::default(),
        };
        let workers = std::iter::repeat_with(cells).take(workers).collect();
        let counters = Self { workers, claimed: AtomicUsize::new(0) };
        counters.prepare(rules);
        counters
    }

    /// Makes the cells of so many rules, as far as there are none yet.
    pub fn prepare(&self, rules: usize) {
        for cells in &self.workers {
            for chunk in cells.chunks.iter().take(rules.div_ceil(CHUNK)) {
                if chunk.get().is_none() {
                    cancel::check();
                    chunk.get_or_init(fresh);
                }
            }
        }
    }

    /// The number of a worker that is not claimed; none if all are taken.
    pub fn claim(&self) -> Option<usize> {
        let number = self.claimed.fetch_add(1, Ordering::Relaxed);
        (number < self.workers.len()).then_some(number)
    }

    /// The counter of worker `worker`, which only that one may ask for.
    ///
    /// # Panics
    /// If there are not so many workers.
    #[must_use]
    pub fn worker(&self, worker: usize) -> Counter<'_> {
        Counter { cells: &self.workers[worker], _own: std::marker::PhantomData }
    }

    /// What all workers have counted for `rule`.
    #[must_use]
    pub fn total(&self, rule: u32) -> Count {
        self.sum(|cells| cells.cell(rule).map_or_else(Count::default, Cell::read))
    }

    /// What all workers have counted for packets that no rule matched.
    #[must_use]
    pub fn default_total(&self) -> Count {
        self.sum(|cells| cells.default.read())
    }

    fn sum(&self, of: impl Fn(&Cells) -> Count) -> Count {
        self.workers.iter().map(of).fold(Count::default(), Count::and)
    }
}

impl Counter<'_> {
    /// Counts a packet that `rule` decided, or the default for
    /// [`NO_RULE`](crate::engine::NO_RULE): its bytes, and the time.
    ///
    /// # Panics
    /// If `rule` is no rule's number, 2²⁴ or more.
    #[inline]
    pub fn count(&self, rule: u32, bytes: u64, now: u64) {
        if rule == crate::engine::NO_RULE {
            return self.cells.default.add(bytes, now);
        }
        let chunk = self.cells.chunks[rule as usize / CHUNK].get_or_init(fresh);
        chunk[rule as usize % CHUNK].add(bytes, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NO_RULE;

    #[test]
    fn workers_write_to_cache_lines_of_their_own() {
        let counters = Counters::new(8, 0);
        let line = |cells: &Cells| (&raw const cells.default).addr() / 64;
        assert!(counters.workers.windows(2).all(|two| line(&two[0]) != line(&two[1])));
    }

    #[test]
    fn each_worker_claims_cells_of_its_own() {
        let counters = Counters::new(2, CHUNK + 1);
        let made = |cells: &Cells| cells.chunks.iter().filter(|of| of.get().is_some()).count();
        assert!(counters.workers.iter().all(|cells| made(cells) == 2));
        assert_eq!(
            [counters.claim(), counters.claim(), counters.claim()],
            [Some(0), Some(1), None]
        );
    }

    #[test]
    fn totals_are_the_sum_over_workers() {
        let counters = Counters::new(3, 0);
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let counters = &counters;
                scope.spawn(move || {
                    let counter = counters.worker(worker);
                    for packet in 0..10_000_u64 {
                        counter.count((packet % 5000) as u32, packet, packet + worker as u64);
                        counter.count(NO_RULE, 1, packet);
                    }
                });
            }
        });
        let count = Count { packets: 6, bytes: 3 * (4999 + 9999), last: 10_001 };
        assert_eq!(counters.total(4999), count);
        assert_eq!(counters.total(5000), Count::default());
        assert_eq!(counters.default_total(), Count { packets: 30_000, bytes: 30_000, last: 9999 });
        assert_eq!(count.since(count), Count::default());
    }
}
