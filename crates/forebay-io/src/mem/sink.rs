//! A port that performs all the work of sending, and discards the packets.

use std::io;

use forebay_packet::{Batch, LiveMask, Region, Rewrites};

use super::ring::{prefetch, prefetch_end};
use crate::error::Error;
use crate::frame::{FrameRewrites, first_read, write_frame};
use crate::port::{Tx, TxCounters};

/// Default bytes of a slot: with 256 slots the ring stays in the L1 or L2 cache, like the
/// part of a device's ring that is being filled.
const MAX_LEN: usize = 2048;

/// Bytes from one slot to the next.
const STRIDE: usize = MAX_LEN + 64;

/// Copies packets, rewritten for their outputs, into a ring that wraps and has no reader:
/// the cost of sending without a device. Packets `too_long` for a slot are lost.
pub struct Sink {
    memory: Region,
    slots: usize,
    next: usize,
    counters: TxCounters,
    too_long: u64,
}

impl Sink {
    /// A ring of `slots` slots.
    ///
    /// # Errors
    /// If memory is short.
    pub fn new(slots: usize) -> io::Result<Self> {
        let slots = slots.max(1);
        let mut memory = Region::new(slots.saturating_mul(STRIDE))?;
        // Touch the memory now, as a device's ring is before the first packet.
        memory.bytes_mut().fill(0);
        let counters = TxCounters::default();
        Ok(Self { memory, slots, next: 0, counters, too_long: 0 })
    }

    /// The packet sent `ago` packets ago, 0 for the last, truncated to `len` bytes; `None`
    /// beyond the ring.
    #[must_use]
    pub fn recent(&self, ago: usize, len: usize) -> Option<&[u8]> {
        let at = (self.next + self.slots).checked_sub(1 + ago)? % self.slots * STRIDE;
        let kept = ago < self.slots && (ago as u64) < self.counters.packets;
        kept.then(|| &self.memory.bytes()[at..at + len.min(MAX_LEN)])
    }
}

impl Tx for Sink {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        let which = batch.live().and(which);
        let (frames, changes) = (batch.frames(), FrameRewrites::new(batch, rewrites));
        // Stages have read what follows the addresses; short frames end in that line.
        if first_read(rewrites) == 0 {
            which.iter().for_each(|i| prefetch(frames.get(i)));
        } else if frames.any_longer_than_a_line() {
            which.iter().for_each(|i| prefetch_end(frames.get(i)));
        }
        let (slots, _) = self.memory.bytes_mut().as_chunks_mut::<STRIDE>();
        let (mut next, mut done, mut bytes, mut too_long) = (self.next, 0, 0, 0);
        which.iter().for_each(|i| {
            done += 1;
            match write_frame(changes.get(i), frames.get(i), &mut slots[next][..MAX_LEN]) {
                Some(len) => {
                    bytes += len as u64;
                    next = if next + 1 == slots.len() { 0 } else { next + 1 };
                }
                None => too_long += 1,
            }
        });
        self.next = next;
        self.too_long += too_long;
        self.counters.packets += done as u64 - too_long;
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
