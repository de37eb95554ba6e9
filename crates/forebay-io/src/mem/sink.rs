//! A port that does all the work of sending, and sends nowhere.

use std::io;

use forebay_packet::{Batch, LiveMask, Region, Rewrite};

use super::ring::{prefetch, prefetch_end};
use crate::error::Error;
use crate::frame::{Rewrites, first_read, write_frame};
use crate::port::{Tx, TxCounters};

/// Bytes of a packet's place by default: with 256 of them the ring stays in a level-1 or
/// level-2 cache, as the part of a device's ring does that is being filled.
const MAX_LEN: usize = 2048;

/// Bytes from one place to the next.
const STRIDE: usize = MAX_LEN + 64;

/// Copies packets, changed as their outputs want them, into a ring that wraps and has
/// no reader: what sending costs without a device. Loses packets `too_long` for a slot.
pub struct Sink {
    memory: Region,
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
        let mut memory = Region::new(slots.saturating_mul(STRIDE))?;
        // A device's ring is there before the first packet.
        memory.bytes_mut().fill(0);
        let counters = TxCounters::default();
        Ok(Self { memory, slots, next: 0, counters, too_long: 0 })
    }

    /// The packet that was sent so many packets ago, 0 for the last, cut to `len` bytes;
    /// nothing beyond what the ring keeps.
    #[must_use]
    pub fn recent(&self, ago: usize, len: usize) -> Option<&[u8]> {
        let at = (self.next + self.slots).checked_sub(1 + ago)? % self.slots * STRIDE;
        let kept = ago < self.slots && (ago as u64) < self.counters.packets;
        kept.then(|| &self.memory.bytes()[at..at + len.min(MAX_LEN)])
    }
}

impl Tx for Sink {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &[Rewrite]) -> Result<(), Error> {
        let which = batch.live().and(which);
        let (frames, changes) = (batch.frames(), Rewrites::new(batch, rewrites));
        // Stages have looked at what follows the addresses; short frames end in that line.
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
