//! Waiting until every reader has seen what was changed.
//!
//! Readers say when they begin and when they have ended, by counting up and down;
//! they never wait. A writer flips which of two counters readers count in, and
//! waits for the other to come to nothing: sleepable read-copy-update in its
//! oldest form. It flips twice, as a reader may have chosen its counter before
//! the flip and count in it after.

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
        let counter = &shard.0[self.phase.load(Ordering::SeqCst) & 1];
        counter.fetch_add(1, Ordering::SeqCst);
        Reader(counter)
    }

    /// Waits until every reader that has begun before has ended. To be called by
    /// one writer at a time.
    pub fn wait(&self) {
        for _ in 0..2 {
            let before = self.phase.fetch_xor(1, Ordering::SeqCst) & 1;
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
            readers.wait();
            assert!(ended.load(Ordering::SeqCst));
        });
        readers.wait();
    }
}
