//! Waiting until every reader has seen what was changed.
//!
//! Readers say when they begin and when they have ended, by counting up and down, and never
//! wait. A writer that has changed something flips which of two counters readers count in;
//! when the other has come to nothing, everybody has seen the change. That is sleepable
//! read-copy-update with two differences. A reader looks again after it has counted, and
//! counts anew if the counters were flipped in between, so that one flip is enough: nobody
//! counts in a counter that was chosen before it. And the flip is made when a change has
//! been made, but waited for only before the next: by then those who had begun before the
//! flip have usually ended.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counters of readers; those of different threads usually lie apart.
#[derive(Default)]
pub(super) struct Readers {
    phase: AtomicUsize,
    shards: [Shard; SHARDS],
}

/// Pairs of counters, a cache line each.
const SHARDS: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Shard([AtomicUsize; 2]);

/// A reader that has begun and not ended.
pub(super) struct Reader<'a>(&'a AtomicUsize);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

impl Readers {
    /// Begins to read.
    pub fn begin(&self) -> Reader<'_> {
        let shard = SHARD.with(|shard| &self.shards[*shard]);
        loop {
            let phase = self.phase.load(Ordering::SeqCst);
            let reader = Reader(&shard.0[phase & 1]);
            reader.0.fetch_add(1, Ordering::SeqCst);
            // Who finds the phase unchanged has counted before any flip to come; all of
            // this being in one order, the writer that flips finds it counted.
            if self.phase.load(Ordering::SeqCst) == phase {
                return reader;
            }
        }
    }

    /// Something was changed that readers may not have seen. To be called by one writer at
    /// a time.
    pub fn changed(&self) {
        self.settle();
        self.phase.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until every reader that had begun before the last change has ended. To be
    /// called by one writer at a time.
    pub fn settle(&self) {
        let before = self.phase.load(Ordering::SeqCst) & 1 ^ 1;
        let mut looks = 0_u32;
        while self.shards.iter().any(|shard| shard.0[before].load(Ordering::SeqCst) != 0) {
            looks += 1;
            if looks < 1000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_writer_waits_for_those_who_had_begun() {
        let readers = Readers::default();
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let reader = readers.begin();
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(20));
                ended.store(true, Ordering::SeqCst);
                drop(reader);
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            readers.changed();
            readers.settle();
            assert!(ended.load(Ordering::SeqCst));
        });
        readers.changed();
        readers.settle();
    }

    #[test]
    fn nobody_reads_what_was_replaced_before_the_last_change() {
        const CHANGES: usize = if cfg!(miri) { 20 } else { 2_000 };
        let readers = Readers::default();
        let (newest, settled) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while settled.load(Ordering::Relaxed) < CHANGES {
                        let reader = readers.begin();
                        let seen = newest.load(Ordering::Relaxed);
                        // Of many lengths, so that changes fall everywhere.
                        (0..seen % 256).for_each(|_| std::hint::spin_loop());
                        assert!(seen >= settled.load(Ordering::Relaxed), "it was put away");
                        drop(reader);
                    }
                });
            }
            for change in 1..=CHANGES {
                readers.settle();
                newest.store(change, Ordering::Relaxed);
                readers.changed();
                if change % 3 != 0 {
                    readers.settle();
                    settled.store(change, Ordering::Relaxed);
                }
            }
        });
    }
}
