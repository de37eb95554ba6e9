//! A port that does all the work of sending, and sends nowhere.

use std::io;

use forebay_packet::{Batch, LiveMask, Region, Rewrite};

use super::ring::prefetch;
use crate::error::Error;
use crate::frame::{first_read, rewrite_of, write_frame};
use crate::port::{Tx, TxCounters};

/// Bytes of a packet's place by default: with 256 of them the ring stays in a level-1 or
/// level-2 cache, as the part of a device's ring does that is being filled.
const MAX_LEN: usize = 2048;

/// Packets by which the first lines of a packet are fetched before it is copied.
const AHEAD: usize = 16;

/// Packets to come whose heads are fetched for each [`AHEAD`] that are copied.
const TO_COME: usize = 6;

/// Copies packets, changed as their outputs want them, into a ring that wraps and that
/// nobody reads: what sending costs without a device. Loses packets `too_long` for a slot.
pub struct Sink {
    memory: Region,
    stride: usize,
    slots: usize,
    next: usize,
    counters: TxCounters,
    too_long: u64,
}

impl Sink {
    /// A ring of so many slots.
    ///
    /// # Errors
    /// The system's error when the memory cannot be had.
    pub fn new(slots: usize) -> io::Result<Self> {
        let slots = slots.max(1);
        let stride = MAX_LEN + 64;
        let memory = Region::new(slots.saturating_mul(stride))?;
        let counters = TxCounters::default();
        Ok(Self { memory, stride, slots, next: 0, counters, too_long: 0 })
    }

    /// The packet that was sent so many packets ago, 0 for the last, cut to `len` bytes;
    /// nothing beyond what the ring keeps.
    #[must_use]
    pub fn recent(&self, ago: usize, len: usize) -> Option<&[u8]> {
        let at = (self.next + self.slots).checked_sub(1 + ago)? % self.slots * self.stride;
        let kept = ago < self.slots && (ago as u64) < self.counters.packets;
        kept.then(|| &self.memory.bytes()[at..at + len.min(MAX_LEN)])
    }
}

impl Tx for Sink {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &[Rewrite]) -> Result<(), Error> {
        let which = batch.live().and(which);
        let first_read = first_read(rewrites);
        let fetch = |i: usize| prefetch(batch.packet(i).get(first_read..).unwrap_or_default());
        let mut ahead = which.iter();
        ahead.by_ref().take(AHEAD).for_each(fetch);
        let memory = self.memory.bytes_mut();
        let (mut packets, mut bytes) = (0, 0);
        for (done, i) in which.iter().enumerate() {
            if done % AHEAD == 0 {
                batch.fetch_ahead(TO_COME);
            }
            if let Some(next) = ahead.next() {
                fetch(next);
            }
            let slot = &mut memory[self.next * self.stride..][..MAX_LEN];
            match write_frame(rewrite_of(batch, i, rewrites), batch.packet(i), slot) {
                Some(len) => {
                    packets += 1;
                    bytes += len as u64;
                    self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
                }
                None => self.too_long += 1,
            }
        }
        self.counters.packets += packets;
        self.counters.bytes += bytes;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&mut self) -> Result<TxCounters, Error> {
        let losses = vec![("too_long", self.too_long)];
        Ok(TxCounters { losses, ..self.counters.clone() })
    }
}
