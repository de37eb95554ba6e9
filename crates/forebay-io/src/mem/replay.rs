//! The same batches over and over, as a port.

use forebay_packet::Batch;

use crate::error::Error;
use crate::port::{Received, Rx, RxCounters};

/// Gives out the same batches, in order, so many times.
pub struct Replay {
    batches: Vec<Batch>,
    next: usize,
    rounds_left: u64,
    counters: RxCounters,
}

impl Replay {
    /// `rounds` rounds of `batches`.
    #[must_use]
    pub fn new(batches: Vec<Batch>, rounds: u64) -> Self {
        let rounds_left = if batches.is_empty() { 0 } else { rounds };
        Self { batches, next: 0, rounds_left, counters: RxCounters::default() }
    }
}

impl Rx for Replay {
    fn receive(&mut self) -> Result<Received, Error> {
        if self.rounds_left == 0 {
            return Ok(Received::End);
        }
        let batch = self.batches[self.next].clone();
        self.next += 1;
        if self.next == self.batches.len() {
            self.next = 0;
            self.rounds_left -= 1;
        }
        self.counters.packets += batch.live().count() as u64;
        self.counters.bytes += batch.wire_bytes();
        Ok(Received::Batch(batch))
    }

    fn counters(&mut self) -> Result<RxCounters, Error> {
        Ok(self.counters.clone())
    }
}
