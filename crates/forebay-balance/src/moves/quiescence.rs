//! Detects when every worker has seen a change of the table.
//!
//! A worker reads an entry and uses it until the end of its batch at most. A thread that
//! changes an entry, and must not continue while the old one is in use, waits until every
//! worker has begun another batch or is idle: quiescent-state-based reclamation (Hart,
//! McKenney, Brown and Walpole, "Performance of memory reclamation for lockless
//! synchronization", 2007). A batch costs the worker a load and two stores; only leaving
//! the idle state costs a fence.
//!
//! Workers also publish the time they use. A record may be declared idle only by a clock
//! that is not ahead of any worker's: a worker delayed in the middle of a batch still uses
//! the time at which the batch began.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The epoch of an idle worker.
const RESTING: u64 = u64::MAX;

/// The published state of a worker, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Participant {
    epoch: AtomicU64,
    now: AtomicU64,
}

/// The published states of the workers of a group.
#[derive(Debug)]
pub struct Quiescence {
    epoch: AtomicU64,
    participants: Box<[Participant]>,
}

impl Quiescence {
    /// State for this many workers, all idle.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let participant = || Participant { epoch: AtomicU64::new(RESTING), now: AtomicU64::new(0) };
        Self {
            epoch: AtomicU64::new(0),
            participants: (0..workers).map(|_| participant()).collect(),
        }
    }

    /// `worker` begins a batch at the time `now`, in nanoseconds: it no longer uses entries
    /// that it read before.
    pub fn begin(&self, worker: usize, now: u64) {
        let Some(participant) = self.participants.get(worker) else { return };
        let was_resting = participant.epoch.load(Ordering::Relaxed) == RESTING;
        participant.now.store(now, Ordering::Relaxed);
        // Acquire: changes made before this epoch are visible from here on. Release: the
        // waiting thread sees what the worker did before.
        participant.epoch.store(self.epoch.load(Ordering::Acquire), Ordering::Release);
        if was_resting {
            // Pairs with the fence of `advance`: either that thread sees this worker
            // active, or this worker sees the changes made before.
            fence(Ordering::SeqCst);
        }
    }

    /// `worker` is idle: it uses no entries.
    pub fn rest(&self, worker: usize) {
        if let Some(participant) = self.participants.get(worker) {
            participant.epoch.store(RESTING, Ordering::Release);
        }
    }

    /// Returns a new epoch, after all changes made so far.
    pub fn advance(&self) -> u64 {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        fence(Ordering::SeqCst);
        epoch
    }

    /// The epoch last returned by [`Quiescence::advance`].
    #[must_use]
    pub fn current(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Whether every worker has seen the changes made before `epoch`.
    #[must_use]
    pub fn has_reached(&self, epoch: u64) -> bool {
        self.participants
            .iter()
            .all(|participant| participant.epoch.load(Ordering::Acquire) >= epoch)
    }

    /// The earliest time used by any worker, at most `now`.
    #[must_use]
    pub fn earliest(&self, now: u64) -> u64 {
        let awake =
            |participant: &&Participant| participant.epoch.load(Ordering::Acquire) != RESTING;
        let times = self
            .participants
            .iter()
            .filter(awake)
            .map(|participant| participant.now.load(Ordering::Relaxed));
        times.fold(now, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_change_is_seen_once_every_worker_began_anew_or_rests() {
        let workers = Quiescence::new(3);
        let first = workers.advance();
        assert!(workers.has_reached(first), "all rest");
        workers.begin(0, 10);
        workers.begin(1, 11);
        let second = workers.advance();
        assert!(!workers.has_reached(second));
        workers.begin(0, 20);
        assert!(!workers.has_reached(second));
        workers.rest(1);
        assert!(workers.has_reached(second));
    }

    #[test]
    fn the_earliest_time_is_that_of_a_worker_awake() {
        let workers = Quiescence::new(2);
        assert_eq!(workers.earliest(100), 100);
        workers.begin(0, 40);
        workers.begin(1, 120);
        assert_eq!(workers.earliest(100), 40);
        workers.rest(0);
        assert_eq!(workers.earliest(100), 100);
    }

    /// Two threads: one takes a value away and waits, the other must never use a
    /// value after it was taken away and waited for.
    #[test]
    fn nobody_uses_what_was_taken_away_and_waited_for() {
        let workers = Quiescence::new(1);
        let (current, gone) = (AtomicU64::new(0), AtomicU64::new(0));
        let done = AtomicBool::new(false);
        let rounds = 20_000;
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut batches = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    workers.begin(0, 0);
                    let value = current.load(Ordering::Relaxed);
                    let taken = gone.load(Ordering::Relaxed);
                    assert!(value >= taken, "used {value} after {taken} was waited for");
                    batches += 1;
                    if batches.is_multiple_of(3) {
                        workers.rest(0);
                    }
                }
                workers.rest(0);
            });
            for value in 1..=rounds {
                current.store(value, Ordering::Relaxed);
                let epoch = workers.advance();
                while !workers.has_reached(epoch) && !worker.is_finished() {
                    std::hint::spin_loop();
                }
                gone.store(value, Ordering::Relaxed);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
