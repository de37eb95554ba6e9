//! What is in a file, a buffer or a run of records.

use std::ops::AddAssign;

/// A number of packets, and their captured bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Captured bytes of these.
    pub bytes: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The content of some records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Packets and their captured bytes.
    pub tally: Tally,
    /// Descriptions of interfaces.
    pub interfaces: usize,
}

impl Content {
    /// One packet.
    pub(super) fn packet(cap_len: u32) -> Self {
        Self { tally: Tally { packets: 1, bytes: u64::from(cap_len) }, interfaces: 0 }
    }

    /// The description of one interface.
    pub(super) const INTERFACE: Self =
        Self { tally: Tally { packets: 0, bytes: 0 }, interfaces: 1 };
}

impl AddAssign for Content {
    fn add_assign(&mut self, other: Self) {
        self.tally += other.tally;
        self.interfaces += other.interfaces;
    }
}
