//! A port that does all the work of sending, and sends nowhere.

use std::io;

use forebay_packet::{Batch, LiveMask, Region, Rewrite};

use super::ring::{prefetch, prefetch_end};
use crate::error::Error;
use crate::frame::{first_read, rewrite_of, write_frame};
use crate::port::{Tx, TxCounters};

/// Bytes of a packet's place by default: with 256 of them the ring stays in a level-1 or
/// level-2 cache, as the part of a device's ring does that is being filled.
const MAX_LEN: usize = 2048;

/// Packets to come whose heads are fetched for each so many that are copied.
const TO_COME: usize = 12;
const SOME: usize = 16;

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
        let mut memory = Region::new(slots.saturating_mul(stride))?;
        // A device's ring is there before the first packet.
        memory.bytes_mut().fill(0);
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
        let (frames, memory) = (batch.frames(), self.memory.bytes_mut());
        // Stages have looked at what follows the addresses; short frames end in that line.
        let whole = first_read(rewrites) == 0;
        for i in which.iter() {
            let frame = frames.get(i);
            if whole { prefetch(frame) } else { prefetch_end(frame) }
        }
        let (mut packets, mut bytes) = (0, 0);
        for (done, i) in which.iter().enumerate() {
            if done % SOME == 0 {
                batch.fetch_ahead(TO_COME);
            }
            let slot = &mut memory[self.next * self.stride..][..MAX_LEN];
            match write_frame(rewrite_of(batch, i, rewrites), frames.get(i), slot) {
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
