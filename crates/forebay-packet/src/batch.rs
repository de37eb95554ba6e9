//! A [`Batch`] is up to [`BATCH`] packets that lie in one region.
//!
//! The descriptors are a structure of arrays, so that a kernel over the batch
//! loads sixteen offsets or lengths at once. A batch knows the whole readable
//! range of its memory ([`Batch::region`]): code that loads more than a packet
//! must stay inside it. Packets leave a batch by a cleared bit of its live mask;
//! whoever clears one counts it under a name.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

use crate::columns::{Columns, Recycled};
use crate::decode::FragmentNote;
use crate::flow::FlowKey;
use crate::link::Interface;
use crate::region::{Lease, Region};
use crate::select::{self, Bits};

/// The most packets of a batch.
pub const BATCH: usize = 256;

/// One bit a packet: set while the packet is still in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LiveMask(Bits);

impl LiveMask {
    /// Whether bit `i` is set. Bits past the mask are never set.
    #[must_use]
    pub fn contains(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// The first `packets` bits.
    fn first(packets: usize) -> Self {
        let bits = |start: usize| match packets.saturating_sub(start) {
            0 => 0,
            some => u64::MAX >> (64 - some.min(64)),
        };
        Self(std::array::from_fn(|word| bits(64 * word)))
    }

    /// The packets whose values are not 0.
    #[must_use]
    pub fn nonzero(values: &[u32]) -> Self {
        Self(select::nonzero(values))
    }

    /// The values of the packets in the mask, at the start of `to`, and how many they are.
    pub(crate) fn select(&self, from: &[u32], to: &mut [u32; BATCH]) -> usize {
        select::select(from, &self.0, to)
    }

    /// The packets of whose values `test` holds.
    #[inline]
    #[must_use]
    pub fn of<T: Copy>(values: &[T], test: impl Fn(T) -> bool) -> Self {
        let mut mask = Self::default();
        for (word, values) in mask.0.iter_mut().zip(values.chunks(64)) {
            let mut flags = [0; 64];
            for (flag, &value) in flags.iter_mut().zip(values) {
                *flag = u8::from(test(value));
            }
            let (eights, _) = flags.as_chunks::<8>();
            for (i, eight) in eights.iter().enumerate() {
                // Eight bytes of one bit each; the product has them side by side on top.
                let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
                *word |= bits << (8 * i);
            }
        }
        mask
    }

    /// Sets bit `i`.
    ///
    /// # Panics
    /// When `i` is not below [`BATCH`].
    pub fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Sets bits `32 * i` to `32 * i + 31`, which were clear, to those of `bits`.
    pub(crate) fn set_half(&mut self, i: usize, bits: u32) {
        self.0[i / 2] |= u64::from(bits) << (i % 2 * 32);
    }

    /// Clears bit `i`.
    ///
    /// # Panics
    /// When `i` is not below [`BATCH`].
    pub fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
    }

    /// The bits that `other` has not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The bits that both have.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Number of bits set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The set bits, ascending.
    #[inline]
    pub fn iter(&self) -> LivePackets {
        LivePackets { words: self.0, word: 0, rest: self.0[0] }
    }
}

/// The set bits of a [`LiveMask`], ascending.
#[derive(Clone, Debug)]
pub struct LivePackets {
    words: [u64; BATCH / 64],
    word: usize,
    /// Of the word at `word`.
    rest: u64,
}

impl Iterator for LivePackets {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.rest == 0 {
            self.word += 1;
            self.rest = *self.words.get(self.word)?;
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some(self.word * 64 + bit)
    }

    #[inline]
    fn fold<B, F: FnMut(B, usize) -> B>(self, init: B, mut f: F) -> B {
        let Self { words, word, rest } = self;
        let mut folded = init;
        for (i, &all) in words.iter().enumerate().skip(word) {
            let mut bits = if i == word { rest } else { all };
            while bits != 0 {
                folded = f(folded, i * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        folded
    }
}

/// What is known of a packet before its headers are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMeta {
    /// Where the packet starts in its region, in bytes.
    pub offset: u32,
    /// Captured bytes, all of them in the region.
    pub cap_len: u32,
    /// Bytes the packet had on the wire.
    pub wire_len: u32,
    /// Time stamp in ticks of the interface's clock.
    pub ticks: u64,
    /// Index into the batch's interfaces.
    pub interface: u16,
}

/// How the packets of a batch lie in their region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layout {
    /// No order is promised.
    #[default]
    Scattered,
    /// Each packet follows its own 16-byte pcap record header, little-endian,
    /// in the interface's clock, lengths as in the descriptor: a run of packets
    /// that lie one after another can be written to a file as it stands.
    PcapRecords,
}

/// The batch already holds [`BATCH`] packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the batch already holds {BATCH} packets")]
pub struct Full;

/// Up to [`BATCH`] packets of one region. What is known of them are its [`Columns`].
#[derive(Clone, Debug)]
pub struct Batch {
    /// Before the region, so that it is dropped first.
    lease: Option<Arc<dyn Lease>>,
    region: Arc<Region>,
    interfaces: Arc<Vec<Interface>>,
    layout: Layout,
    live: LiveMask,
    /// The descriptors, where several batches have the same; those of `columns` are empty
    /// then.
    shared: Option<Arc<Columns>>,
    ahead: Option<Ahead>,
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

/// Packets that will come after those of a batch, in the same region.
#[derive(Debug)]
struct Ahead {
    columns: Arc<Columns>,
    /// How many of them were fetched.
    fetched: AtomicU16,
}

impl Clone for Ahead {
    fn clone(&self) -> Self {
        let fetched = AtomicU16::new(self.fetched.load(Relaxed));
        Self { columns: Arc::clone(&self.columns), fetched }
    }
}

/// Where headers begin that decide: behind the addresses of a frame.
const DECIDING: usize = 12;

impl Deref for Batch {
    type Target = Columns;

    #[inline]
    fn deref(&self) -> &Columns {
        &self.columns
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut Columns {
        &mut self.columns
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
            shared: None,
            ahead: None,
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
        if let Some(shared) = self.shared.take() {
            self.columns.copy_descriptors(&shared);
        }
        self.columns.describe(meta);
        self.live.insert(i);
    }

    /// The columns that describe the packets: offsets, lengths, times, interfaces.
    #[inline]
    fn described(&self) -> &Columns {
        self.shared.as_deref().unwrap_or(&self.columns)
    }

    /// Has the descriptors of the packets shared with what is cloned from here on, as
    /// long as none of the batches gets another packet.
    pub fn share_descriptors(&mut self) {
        if self.shared.is_none() {
            self.shared = Some(Arc::new(self.columns.take_descriptors()));
        }
    }

    /// Says what packets will come next, those of `next`, if that is known: see
    /// [`Batch::fetch_ahead`]. Nothing is said unless they are in the same region and share
    /// their descriptors.
    pub fn set_ahead(&mut self, next: &Self) {
        let shared = next.shared.as_ref().filter(|_| Arc::ptr_eq(&self.region, &next.region));
        self.ahead = shared
            .map(|columns| Ahead { columns: Arc::clone(columns), fetched: AtomicU16::new(0) });
    }

    /// Packets whose heads [`Batch::fetch_ahead`] would still fetch.
    #[must_use]
    pub fn to_come(&self) -> usize {
        let left =
            |ahead: &Ahead| ahead.columns.offset.len() - usize::from(ahead.fetched.load(Relaxed));
        self.ahead.as_ref().map_or(0, left)
    }

    /// Has the heads of the next so many packets fetched into the cache that will come
    /// after those of this batch, while there is something else to do. To be called by
    /// whoever works on packets whose heads are in the cache, a few packets at a time: a
    /// core has a dozen lines under way at once, and waits for one to arrive before it asks
    /// for more. So work and fetching take turns, of about a microsecond or less.
    #[inline]
    pub fn fetch_ahead(&self, packets: usize) {
        let Some(Ahead { columns, fetched }) = &self.ahead else { return };
        let from = usize::from(fetched.load(Relaxed));
        let to = columns.offset.len().min(from + packets);
        for &offset in &columns.offset[from..to] {
            self.region.fetch(offset as usize + DECIDING);
        }
        // At most a batch.
        fetched.store(to as u16, Relaxed);
    }

    /// Forgets the packets that were dropped: those that are live are numbered anew, in
    /// order, and all of them are live.
    pub fn squeeze(&mut self) {
        let live = self.live.count();
        if live == self.len() {
            return;
        }
        if !self.columns.fragments.is_empty() {
            self.columns.fragments = self.kept_fragments();
        }
        match self.shared.take() {
            Some(shared) => self.columns.select_descriptors(&shared, &self.live),
            None => self.columns.keep_descriptors(&self.live),
        }
        self.columns.keep_findings(&self.live);
        self.live = LiveMask::first(live);
    }

    /// Promises that the packets lie as `layout` says.
    pub fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// How the packets lie in their region.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Packets in the batch, dropped ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.described().offset.len()
    }

    /// Whether the batch never held a packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.described().offset.is_empty()
    }

    /// Packets that are still in.
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

    /// The captured bytes of packet `i`.
    ///
    /// # Panics
    /// As all per-packet accessors: when `i` is not below [`Batch::len`].
    #[must_use]
    pub fn packet(&self, i: usize) -> &[u8] {
        let columns = self.described();
        self.region.packet(columns.offset[i] as usize, columns.cap_len[i] as usize)
    }

    /// The captured bytes of all packets, for those who want many.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> Frames<'_> {
        let columns = self.described();
        let (offset, cap_len) = (columns.offset.as_slice(), columns.cap_len.as_slice());
        Frames { region: &self.region, offset, cap_len }
    }

    /// Where each packet starts in the region, in bytes. Each offset plus the
    /// captured length beside it in [`Batch::cap_lens`] is at most the region's
    /// length.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.described().offset
    }

    /// Captured length of each packet in bytes.
    #[must_use]
    pub fn cap_lens(&self) -> &[u32] {
        &self.described().cap_len
    }

    /// Length of each packet on the wire in bytes.
    #[must_use]
    pub fn wire_lens(&self) -> &[u32] {
        self.described().wire_lens()
    }

    /// Where packet `i` starts in the region, in bytes.
    #[must_use]
    pub fn offset(&self, i: usize) -> u32 {
        self.described().offset[i]
    }

    /// Captured length of packet `i` in bytes.
    #[must_use]
    pub fn cap_len(&self, i: usize) -> u32 {
        self.described().cap_len[i]
    }

    /// Length of packet `i` on the wire in bytes.
    #[must_use]
    pub fn wire_len(&self, i: usize) -> u32 {
        self.described().wire_lens()[i]
    }

    /// Time stamp of packet `i` in ticks of its interface's clock.
    #[must_use]
    pub fn ticks(&self, i: usize) -> u64 {
        self.described().ticks_of(i)
    }

    /// Time stamp of packet `i` in nanoseconds since the epoch.
    #[must_use]
    pub fn nanos(&self, i: usize) -> i64 {
        self.interface(i).clock.nanos(self.described().ticks_of(i))
    }

    /// Index of the interface of packet `i`.
    #[must_use]
    pub fn interface_id(&self, i: usize) -> u16 {
        self.described().interface_of(i)
    }

    /// The interface of packet `i`.
    #[must_use]
    pub fn interface(&self, i: usize) -> &Interface {
        &self.interfaces[usize::from(self.described().interface_of(i))]
    }

    /// The descriptor of packet `i`.
    #[must_use]
    pub fn meta(&self, i: usize) -> PacketMeta {
        let columns = self.described();
        PacketMeta {
            offset: columns.offset[i],
            cap_len: columns.cap_len[i],
            wire_len: columns.wire_lens()[i],
            ticks: columns.ticks_of(i),
            interface: columns.interface_of(i),
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
        self.live.iter().map(|i| u64::from(self.wire_len(i))).sum()
    }

    /// Memory that a compacted batch takes, in bytes: its packets in whole pages, and
    /// what is known of them.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        const PAGE: u64 = 4096;
        const A_BATCH: u64 = 512;
        let a_packet = 24 + size_of::<FlowKey>() + 4 + 8 + 1 + 2;
        let notes = self.fragments.len() * size_of::<FragmentNote>();
        let bytes = self.region.len() as u64 + crate::region::TAIL_GUARD as u64;
        let known = (self.len() * a_packet + notes) as u64;
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
        copy.output = kept(&self.output, keep);
        copy.fragments = self.kept_fragments();
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
mod tests {
    use super::*;

    fn batch_of(n: usize) -> Batch {
        let mut region = Region::new(n * 10).unwrap();
        for (i, b) in region.bytes_mut().iter_mut().enumerate() {
            *b = (i / 10) as u8;
        }
        let mut batch = Batch::new(Arc::new(region), Arc::new(vec![Interface::default()]));
        for i in 0..n {
            let meta = PacketMeta {
                offset: i as u32 * 10,
                cap_len: 10,
                wire_len: 100,
                ticks: i as u64,
                interface: 0,
            };
            batch.push(meta).unwrap();
        }
        batch
    }

    #[test]
    fn a_batch_takes_256_packets_and_no_more() {
        let mut batch = batch_of(BATCH);
        assert_eq!(batch.push(batch.meta(0)), Err(Full));
        assert_eq!(batch.live().count(), BATCH);
        assert_eq!(batch.live().iter().collect::<Vec<_>>(), (0..BATCH).collect::<Vec<_>>());
    }

    #[test]
    fn squeezed_batches_have_what_was_live_in_order_whoever_owns_the_descriptors() {
        for shared in [false, true] {
            for kept in [1, 2, 3, 300] {
                let mut batch = batch_of(200);
                if shared {
                    batch.share_descriptors();
                }
                let mut squeezed = batch.clone();
                squeezed.hash = (0..200).collect();
                for i in (0..200).filter(|i| i % kept != 0) {
                    squeezed.drop_packet(i);
                }
                squeezed.squeeze();
                let expected: Vec<usize> = (0..200).step_by(kept).collect();
                assert_eq!(squeezed.len(), expected.len());
                assert_eq!(squeezed.live().iter().count(), expected.len());
                for (i, was) in expected.into_iter().enumerate() {
                    assert!(squeezed.live().contains(i));
                    assert_eq!(squeezed.meta(i), batch.meta(was));
                    assert_eq!(squeezed.hash[i], was as u64);
                }
                assert!(squeezed.verdict.is_empty());
            }
        }
    }

    #[test]
    fn packets_to_come_are_those_not_fetched_of_the_same_region() {
        let (mut batch, mut next) = (batch_of(10), batch_of(10));
        next.share_descriptors();
        batch.set_ahead(&next);
        assert_eq!(batch.to_come(), 0);
        batch.share_descriptors();
        let same = batch.clone();
        batch.set_ahead(&same);
        batch.fetch_ahead(7);
        assert_eq!(batch.to_come(), 3);
        batch.fetch_ahead(7);
        assert_eq!(batch.to_come(), 0);
    }

    #[test]
    fn packets_that_end_in_another_line_are_noticed() {
        let mut batch =
            Batch::new(Arc::new(Region::new(4096).unwrap()), Arc::new(vec![Interface::default()]));
        let meta = |offset, cap_len| PacketMeta {
            offset,
            cap_len,
            wire_len: cap_len,
            ticks: 0,
            interface: 0,
        };
        batch.push(meta(52, 76)).unwrap();
        batch.push(meta(64 + 52, 13)).unwrap();
        assert!(!batch.frames().any_longer_than_a_line());
        batch.push(meta(128 + 52, 77)).unwrap();
        assert!(batch.frames().any_longer_than_a_line());
    }

    #[test]
    fn a_batch_that_shares_its_descriptors_can_get_a_packet() {
        let mut batch = batch_of(3);
        batch.share_descriptors();
        let mut other = batch.clone();
        other.push(batch.meta(1)).unwrap();
        assert_eq!((batch.len(), other.len()), (3, 4));
        assert_eq!(other.meta(3), batch.meta(1));
        assert_eq!(other.meta(0), batch.meta(0));
    }

    #[test]
    fn a_mask_has_the_packets_that_pass_a_test() {
        for len in [0, 1, 7, 8, 63, 64, 65, 200, 255, 256] {
            let values: Vec<u32> = (0..len).map(|i| i * 7 % 11).collect();
            let mask = LiveMask::of(&values, |value| value < 4);
            let expected: Vec<usize> = (0..values.len()).filter(|&i| values[i] < 4).collect();
            assert_eq!(mask.iter().collect::<Vec<_>>(), expected, "{len}");
        }
    }

    #[test]
    #[should_panic(expected = "packet outside its region")]
    fn a_packet_must_lie_in_the_region() {
        let mut batch = batch_of(2);
        let _ = batch.push(PacketMeta { offset: 15, ..batch.meta(0) });
    }

    #[test]
    fn compact_keeps_what_is_known_of_live_packets() {
        let mut batch = batch_of(200);
        batch.hash = (0..200).collect();
        for i in (0..200).filter(|i| i % 3 != 0) {
            batch.drop_packet(i);
        }
        let copy = batch.compact().unwrap();
        assert_eq!(copy.len(), 67);
        assert_eq!(copy.region().len(), 670);
        for i in 0..copy.len() {
            assert_eq!(copy.packet(i), &[(i * 3) as u8; 10]);
            assert_eq!((copy.hash[i], copy.ticks(i)), (i as u64 * 3, i as u64 * 3));
        }
    }
}
