//! A port that returns the same batches repeatedly.

use forebay_packet::Batch;

use crate::error::Error;
use crate::port::{Received, Rx, RxCounters};

/// Returns the same batches, in order, a given number of times.
pub struct Replay {
    batches: Vec<Counted>,
    next: usize,
    rounds_left: u64,
    counters: RxCounters,
}

/// A batch and its counts.
struct Counted {
    batch: Batch,
    packets: u64,
    bytes: u64,
}

impl Replay {
    /// Returns `batches` `rounds` times.
    #[must_use]
    pub fn new(batches: Vec<Batch>, rounds: u64) -> Self {
        let rounds_left = if batches.is_empty() { 0 } else { rounds };
        let counted = |batch: Batch| {
            let packets = batch.live().count() as u64;
            Counted { packets, bytes: batch.wire_bytes(), batch }
        };
        let batches = batches.into_iter().map(counted).collect();
        Self { batches, next: 0, rounds_left, counters: RxCounters::default() }
    }
}

impl Rx for Replay {
    fn receive(&mut self) -> Result<Received, Error> {
        if self.rounds_left == 0 {
            return Ok(Received::End);
        }
        let Counted { batch, packets, bytes } = &self.batches[self.next];
        self.counters.packets += packets;
        self.counters.bytes += bytes;
        let batch = batch.clone();
        self.next += 1;
        if self.next == self.batches.len() {
            self.next = 0;
            self.rounds_left -= 1;
        }
        Ok(Received::Batch(batch))
    }

    fn counters(&mut self) -> Result<RxCounters, Error> {
        Ok(self.counters.clone())
    }
}
