//! Descriptions of packets on their way into a batch.
//!
//! A reader knows of most of its packets one by one, and a batch keeps a column a fact. Added one
//! by one, each packet has every column looked at for room, and for whether it is needed at all.
//! Gathered in arrays first, they need that once.

use super::Batch;
use crate::batch_size::BATCH;
use crate::columns::PacketMeta;
use crate::live_mask::LiveMask;

/// What is known of up to [`BATCH`] packets before anything is looked at.
pub(crate) struct Gathered {
    offset: [u32; BATCH],
    cap_len: [u32; BATCH],
    wire_len: [u32; BATCH],
    ticks: [u64; BATCH],
    interface: [u16; BATCH],
    packets: usize,
    /// Where the packet ends that ends last.
    end: u64,
}

impl Gathered {
    /// Those that `next` has, but at most `most`.
    #[inline(always)]
    pub(crate) fn new(most: usize, mut next: impl FnMut() -> Option<PacketMeta>) -> Self {
        let mut all = Self {
            offset: [0; BATCH],
            cap_len: [0; BATCH],
            wire_len: [0; BATCH],
            ticks: [0; BATCH],
            interface: [0; BATCH],
            packets: 0,
            end: 0,
        };
        let mut packets = 0;
        while packets < most.min(BATCH) {
            let Some(meta) = next() else { break };
            all.offset[packets] = meta.offset;
            all.cap_len[packets] = meta.cap_len;
            all.wire_len[packets] = meta.wire_len;
            all.ticks[packets] = meta.ticks;
            all.interface[packets] = meta.interface;
            all.end = all.end.max(u64::from(meta.offset) + u64::from(meta.cap_len));
            packets += 1;
        }
        all.packets = packets;
        all
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Where the packet ends that ends last, in bytes of the region.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn offset(&self) -> &[u32] {
        &self.offset[..self.packets]
    }

    pub(crate) fn cap_len(&self) -> &[u32] {
        &self.cap_len[..self.packets]
    }

    pub(crate) fn wire_len(&self) -> &[u32] {
        &self.wire_len[..self.packets]
    }

    pub(crate) fn ticks(&self) -> &[u64] {
        &self.ticks[..self.packets]
    }

    pub(crate) fn interface(&self) -> &[u16] {
        &self.interface[..self.packets]
    }
}

impl Batch {
    /// Adds packets, alive, until `next` has no more or [`BATCH`] are in: as [`Batch::push`], in less
    /// time a packet.
    ///
    /// # Panics
    /// As [`Batch::push`].
    #[inline(always)]
    pub fn fill(&mut self, next: impl FnMut() -> Option<PacketMeta>) {
        let first = self.len();
        self.append(&Gathered::new(BATCH - first, next));
    }

    fn append(&mut self, packets: &Gathered) {
        assert!(!self.region.is_shared(), "a packet that no lease holds");
        assert!(packets.end() <= self.region.len() as u64, "packet outside its region");
        let last = packets.interface().iter().copied().max().map_or(0, usize::from);
        assert!(packets.len() == 0 || last < self.interfaces.len(), "unknown interface");
        let before = LiveMask::first(self.len());
        self.columns.descriptors.append(packets);
        self.live = self.live.or(&LiveMask::first(self.len()).without(&before));
    }
}
