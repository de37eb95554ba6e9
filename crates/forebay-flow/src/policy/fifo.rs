//! A buffer that packets leave in the order in which they arrived.

use std::collections::VecDeque;

use super::{Count, Waiting};

#[derive(Debug)]
pub(super) struct Fifo {
    packets: VecDeque<Waiting>,
    waiting: Count,
    /// Bytes taken, at most `limit`.
    taken: u64,
    limit: u64,
}

impl Fifo {
    pub(super) fn new(limit: u64) -> Self {
        Self { packets: VecDeque::new(), waiting: Count::default(), taken: 0, limit }
    }

    /// Appends a packet; false if there is no room for it.
    pub(super) fn push(&mut self, packet: Waiting) -> bool {
        let fits = self.taken + packet.room() <= self.limit;
        if fits {
            self.taken += packet.room();
            self.waiting += Count::of(packet.len);
            self.packets.push_back(packet);
        }
        fits
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let packet = self.packets.pop_front()?;
        self.taken -= packet.room();
        self.waiting.remove(packet.len);
        Some(packet)
    }

    pub(super) fn waiting(&self) -> Count {
        self.waiting
    }

    /// Bytes taken of the buffer.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }
}
