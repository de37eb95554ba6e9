//! A [`Batch`] is up to [`BATCH`] packets that lie in one region.
//!
//! The descriptors are a structure of arrays, so that a kernel over the batch
//! loads sixteen offsets or lengths at once. A batch knows the whole readable
//! range of its memory ([`Batch::region`]): code that loads more than a packet
//! must stay inside it. Packets leave a batch by a cleared bit of its live mask;
//! whoever clears one counts it under a name.

pub(crate) mod gathered;

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::batch_size::BATCH;
use crate::columns::{Descriptors, PacketMeta, PacketMetadata, Recycled};
use crate::flow::FlowKey;
use crate::fragment::FragmentNote;
use crate::link::Interface;
use crate::live_mask::LiveMask;
use crate::region::{Lease, Region};
use crate::scanned::Scanned;

/// How the packets of a batch lie in their region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layout {
    /// No order is promised.
    #[default]
    Scattered,
    /// Each packet follows its own 16-byte pcap record header, little-endian,
    /// in the interface's clock, lengths as in the descriptor: a run of packets
    /// that lie one after another can be written to a file unchanged.
    PcapRecords,
}

/// The batch already holds [`BATCH`] packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the batch already holds {BATCH} packets")]
pub struct Full;

/// Up to [`BATCH`] packets of one region. What was found of them are its [`PacketMetadata`].
#[derive(Clone, Debug)]
pub struct Batch {
    /// Before the region, so that it is dropped first.
    lease: Option<Arc<dyn Lease>>,
    region: Arc<Region>,
    interfaces: Arc<Vec<Interface>>,
    layout: Layout,
    live: LiveMask,
    columns: Recycled,
}

/// The captured bytes of the packets of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    region: &'a Region,
    offset: &'a [u32],
    cap_len: &'a [u32],
}

impl<'a> Frames<'a> {
    /// Those of packet `i`.
    ///
    /// # Panics
    /// When there is no such packet.
    #[inline]
    #[must_use]
    pub fn get(&self, i: usize) -> &'a [u8] {
        self.region.packet(self.offset[i] as usize, self.cap_len[i] as usize)
    }

    /// Whether a packet's end is in another line of the cache than its EtherType.
    #[must_use]
    pub fn any_longer_than_a_line(&self) -> bool {
        let base = self.region.as_ptr().addr() as u32;
        let lines = |(&offset, &len): (&u32, &u32)| {
            let first = base.wrapping_add(offset).wrapping_add(DECIDING as u32);
            let last = base.wrapping_add(offset).wrapping_add(len).wrapping_sub(1);
            (first ^ last) >> 6
        };
        self.offset.iter().zip(self.cap_len).fold(0, |any, packet| any | lines(packet)) != 0
    }

    /// Those of packet `first` and all behind it.
    #[inline]
    pub fn from(&self, first: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Self { region, offset, cap_len } = *self;
        let places = offset.iter().zip(cap_len).skip(first);
        places.map(|(&offset, &len)| region.packet(offset as usize, len as usize))
    }
}

/// Where headers begin that decide: behind the addresses of a frame.
const DECIDING: usize = 12;

impl Deref for Batch {
    type Target = PacketMetadata;

    #[inline]
    fn deref(&self) -> &PacketMetadata {
        &self.columns.metadata
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut PacketMetadata {
        &mut self.columns.metadata
    }
}

impl Batch {
    /// An empty batch over `region`, which is not shared.
    #[must_use]
    pub fn new(region: Arc<Region>, interfaces: Arc<Vec<Interface>>) -> Self {
        Self::with_capacity(region, interfaces, BATCH)
    }

    /// Those of `packets` that fit a batch, in memory that a device shares with us. What is
    /// cloned from the batch keeps the lease, too.
    ///
    /// # Panics
    /// When the lease does not hold a packet, or its interface is not one of `interfaces`.
    #[must_use]
    pub fn leased<L: Lease + 'static>(
        lease: Arc<L>,
        interfaces: Arc<Vec<Interface>>,
        packets: impl ExactSizeIterator<Item = PacketMeta>,
    ) -> Self {
        let region = Arc::clone(lease.region());
        let mut batch = Self::with_capacity(region, interfaces, packets.len());
        for (i, meta) in packets.take(BATCH).enumerate() {
            let (start, len) = (meta.offset as usize, meta.cap_len as usize);
            assert!(lease.holds(i, start, len), "packet outside its lease");
            batch.add(&meta);
        }
        batch.lease = Some(lease);
        batch
    }

    /// An empty batch over `region`, which is not shared, that has room for `packets` at
    /// once.
    #[must_use]
    pub fn with_capacity(
        region: Arc<Region>,
        interfaces: Arc<Vec<Interface>>,
        packets: usize,
    ) -> Self {
        Self {
            lease: None,
            region,
            interfaces,
            layout: Layout::Scattered,
            live: LiveMask::default(),
            columns: Recycled::new(packets.min(BATCH)),
        }
    }

    /// Adds a packet, alive.
    ///
    /// # Errors
    /// [`Full`] when [`BATCH`] packets are in.
    ///
    /// # Panics
    /// When the packet is not wholly inside the region, the region is shared, or its
    /// interface is not one of the batch's: mistakes of the caller, not of input.
    #[inline]
    pub fn push(&mut self, meta: PacketMeta) -> Result<(), Full> {
        if self.len() == BATCH {
            return Err(Full);
        }
        assert!(!self.region.is_shared(), "a packet that no lease holds");
        self.add(&meta);
        Ok(())
    }

    /// Adds a packet, for which there is room, and which a lease holds if the region is
    /// shared.
    #[inline]
    fn add(&mut self, meta: &PacketMeta) {
        let i = self.len();
        let end = u64::from(meta.offset) + u64::from(meta.cap_len);
        assert!(end <= self.region.len() as u64, "packet outside its region");
        assert!(usize::from(meta.interface) < self.interfaces.len(), "unknown interface");
        self.columns.descriptors.describe(meta);
        self.live.insert(i);
    }

    /// Offsets, lengths, times, interfaces.
    #[inline]
    fn descriptors(&self) -> &Descriptors {
        &self.columns.descriptors
    }

    /// Forgets the packets that were dropped: those that are live are numbered anew, in
    /// order, and all of them are live.
    pub fn compact_indices(&mut self) {
        let live = self.live.count();
        if live == self.len() {
            return;
        }
        if !self.fragments.is_empty() {
            self.fragments = self.kept_fragments();
        }
        // Columns that stages have written may be shorter than they should be, and panic.
        self.columns.metadata.keep(&self.live);
        self.columns.descriptors.keep(&self.live);
        self.live = LiveMask::first(live);
    }

    /// Promises that the packets lie as `layout` describes.
    pub fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// How the packets lie in their region.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Packets in the batch, dropped ones included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.descriptors().offset.len()
    }

    /// Whether the batch never held a packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.descriptors().offset.is_empty()
    }

    /// Packets that are still in.
    #[inline]
    #[must_use]
    pub fn live(&self) -> LiveMask {
        self.live
    }

    /// Keeps only those live packets that are in `which`. The caller counts the others.
    pub fn retain(&mut self, which: &LiveMask) {
        self.live = self.live.and(which);
    }

    /// Takes packet `i` out of the batch. The caller counts it.
    ///
    /// # Panics
    /// When `i` is not below [`BATCH`].
    pub fn drop_packet(&mut self, i: usize) {
        self.live.remove(i);
    }

    /// The memory the packets lie in: the readable range.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The interfaces that [`Batch::interface_id`] indexes.
    #[must_use]
    pub fn interfaces(&self) -> &Arc<Vec<Interface>> {
        &self.interfaces
    }

    /// Replaces the list of interfaces by one that begins with it. Batches that follow each
    /// other then keep one list, not each its own.
    ///
    /// # Panics
    /// When the new list is shorter.
    pub fn set_interfaces(&mut self, interfaces: &Arc<Vec<Interface>>) {
        assert!(interfaces.len() >= self.interfaces.len(), "fewer interfaces than before");
        self.interfaces = Arc::clone(interfaces);
    }

    /// The captured bytes of packet `i`.
    ///
    /// # Panics
    /// As all per-packet accessors: when `i` is not below [`Batch::len`].
    #[inline]
    #[must_use]
    pub fn packet(&self, i: usize) -> &[u8] {
        let descriptors = self.descriptors();
        self.region.packet(descriptors.offset[i] as usize, descriptors.cap_len[i] as usize)
    }

    /// The captured bytes of all packets, for callers that read many.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> Frames<'_> {
        let descriptors = self.descriptors();
        let (offset, cap_len) = (descriptors.offset.as_slice(), descriptors.cap_len.as_slice());
        Frames { region: &self.region, offset, cap_len }
    }

    /// Where each packet starts in the region, in bytes. Each offset plus the
    /// captured length beside it in [`Batch::cap_lens`] is at most the region's
    /// length.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.descriptors().offset
    }

    /// Captured length of each packet in bytes.
    #[must_use]
    pub fn cap_lens(&self) -> &[u32] {
        &self.descriptors().cap_len
    }

    /// Length of each packet on the wire in bytes.
    #[inline]
    #[must_use]
    pub fn wire_lens(&self) -> &[u32] {
        self.descriptors().wire_lens()
    }

    /// Where packet `i` starts in the region, in bytes.
    #[must_use]
    pub fn offset(&self, i: usize) -> u32 {
        self.descriptors().offset[i]
    }

    /// Captured length of packet `i` in bytes.
    #[must_use]
    pub fn cap_len(&self, i: usize) -> u32 {
        self.descriptors().cap_len[i]
    }

    /// Length of packet `i` on the wire in bytes.
    #[inline]
    #[must_use]
    pub fn wire_len(&self, i: usize) -> u32 {
        self.descriptors().wire_lens()[i]
    }

    /// Time stamp of packet `i` in ticks of its interface's clock.
    #[inline]
    #[must_use]
    pub fn ticks(&self, i: usize) -> u64 {
        self.descriptors().ticks_of(i)
    }

    /// Time stamp of packet `i` in nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub fn nanos(&self, i: usize) -> i64 {
        self.interface(i).clock.nanos(self.descriptors().ticks_of(i))
    }

    /// Replaces `nanos` by the time stamps of the packets at `places`, in nanoseconds since the epoch.
    pub fn nanos_at(&self, places: &[u16], nanos: &mut Vec<i64>) {
        nanos.clear();
        let places = places.iter().map(|&place| usize::from(place));
        match (self.descriptors().only_interface(), &self.interfaces[..]) {
            (Some(ticks), [first, ..]) => {
                let clock = first.clock;
                nanos.extend(places.map(|i| clock.nanos(ticks[i])));
            }
            _ => nanos.extend(places.map(|i| self.nanos(i))),
        }
    }

    /// Index of the interface of packet `i`.
    #[inline]
    #[must_use]
    pub fn interface_id(&self, i: usize) -> u16 {
        self.descriptors().interface_of(i)
    }

    /// The interface of packet `i`.
    #[inline]
    #[must_use]
    pub fn interface(&self, i: usize) -> &Interface {
        &self.interfaces[usize::from(self.descriptors().interface_of(i))]
    }

    /// The descriptor of packet `i`.
    #[must_use]
    pub fn meta(&self, i: usize) -> PacketMeta {
        let descriptors = self.descriptors();
        PacketMeta {
            offset: descriptors.offset[i],
            cap_len: descriptors.cap_len[i],
            wire_len: descriptors.wire_lens()[i],
            ticks: descriptors.ticks_of(i),
            interface: descriptors.interface_of(i),
        }
    }

    /// Captured bytes of the live packets.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live.iter().map(|i| u64::from(self.cap_len(i))).sum()
    }

    /// Bytes that the live packets had on the wire.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        if self.live.count() == self.len() {
            return self.wire_lens().iter().map(|&len| u64::from(len)).sum();
        }
        self.live.iter().map(|i| u64::from(self.wire_len(i))).sum()
    }

    /// Memory that the batch takes once it is compacted, in bytes: its live packets in whole
    /// pages, and what is known of them.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        const PAGE: u64 = 4096;
        const A_BATCH: u64 = 512;
        let a_packet = 24 + size_of::<FlowKey>() + 4 + 8 + 1 + 2 + 4 + 4 + size_of::<Scanned>();
        let notes = self.fragments.len() * size_of::<FragmentNote>();
        let bytes = self.live_bytes() + crate::region::TAIL_GUARD as u64;
        let known = (self.live.count() * a_packet + notes) as u64;
        bytes.next_multiple_of(PAGE) + known + A_BATCH
    }

    /// Copies the live packets into a region of their own, just large enough,
    /// so that holding on to them does not hold the region they came in.
    /// Everything known of them comes along; dropped packets do not.
    ///
    /// # Errors
    /// The system's error when the memory cannot be had.
    pub fn compact(&self) -> std::io::Result<Self> {
        let mut region = Region::new(self.live_bytes() as usize)?;
        let mut at = 0;
        for i in self.live.iter() {
            let packet = self.packet(i);
            region.bytes_mut()[at..at + packet.len()].copy_from_slice(packet);
            at += packet.len();
        }
        let packets = self.live.count();
        let interfaces = Arc::clone(&self.interfaces);
        let mut copy = Self::with_capacity(Arc::new(region), interfaces, packets);
        let mut at = 0;
        for i in self.live.iter() {
            let mut meta = self.meta(i);
            meta.offset = at;
            at += meta.cap_len;
            // At most as many packets as `self` holds.
            let _ = copy.push(meta);
        }
        let keep = |i: &usize| self.live.contains(*i);
        copy.verdict = kept(&self.verdict, keep);
        copy.hash = kept(&self.hash, keep);
        copy.key = kept(&self.key, keep);
        copy.reversed = kept(&self.reversed, keep);
        copy.tcp_flags = kept(&self.tcp_flags, keep);
        copy.output = kept(&self.output, keep);
        copy.record = kept(&self.record, keep);
        copy.label = kept(&self.label, keep);
        copy.scanned = kept(&self.scanned, keep);
        copy.fragments = self.kept_fragments();
        copy.rehashed = self.rehashed.renumbered(&self.live);
        copy.exempt = self.exempt.renumbered(&self.live);
        copy.suspect = self.suspect.renumbered(&self.live);
        copy.first = self.first.renumbered(&self.live);
        copy.resumed = self.resumed.renumbered(&self.live);
        for (rank, i) in self.live.iter().enumerate().filter(|_| self.key.is_empty()) {
            if let Some((key, reversed)) = self.flow(i) {
                copy.set_flow(rank, key, reversed);
            }
        }
        Ok(copy)
    }

    /// The fragment notes of the live packets, numbered by rank among them.
    fn kept_fragments(&self) -> Vec<FragmentNote> {
        let mut rank = 0;
        let mut next = self.fragments.iter().peekable();
        let mut notes = Vec::new();
        for i in 0..self.len() {
            let alive = self.live.contains(i);
            while let Some(note) = next.next_if(|note| usize::from(note.packet) <= i) {
                if alive && usize::from(note.packet) == i {
                    notes.push(FragmentNote { packet: rank, ..*note });
                }
            }
            rank += u16::from(alive);
        }
        notes
    }
}

fn kept<T: Copy>(values: &[T], keep: impl Fn(&usize) -> bool) -> Vec<T> {
    (0..values.len()).filter(keep).map(|i| values[i]).collect()
}

#[cfg(test)]
mod tests;
