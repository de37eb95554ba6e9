//! A [`Batch`] is up to [`BATCH`] packets that lie in one region.
//!
//! The descriptors are a structure of arrays, so that a kernel over the batch
//! loads sixteen offsets or lengths at once. A batch knows the whole readable
//! range of its memory ([`Batch::region`]): code that loads more than a packet
//! must stay inside it. Packets leave a batch by a cleared bit of its live mask;
//! whoever clears one counts it under a name.

use std::fmt::Debug;
use std::sync::Arc;

use crate::decode::FragmentNote;
use crate::flow::FlowKey;
use crate::link::Interface;
use crate::region::Region;

/// The most packets of a batch.
pub const BATCH: usize = 256;

/// One bit a packet: set while the packet is still in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LiveMask([u64; BATCH / 64]);

impl LiveMask {
    /// Whether bit `i` is set. Bits past the mask are never set.
    #[must_use]
    pub fn contains(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// Sets bit `i`.
    ///
    /// # Panics
    /// When `i` is not below [`BATCH`].
    pub fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Clears bit `i`.
    ///
    /// # Panics
    /// When `i` is not below [`BATCH`].
    pub fn remove(&mut self, i: usize) {
        self.0[i / 64] &= !(1 << (i % 64));
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
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let words = self.0;
        (0..words.len()).flat_map(move |w| {
            let mut rest = words[w];
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    w * 64 + bit
                })
            })
        })
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

/// Keeps the packets of a batch where they are: when it is dropped, a device gets their
/// memory back and writes to it. Dropped by the last batch that has these packets.
pub trait Lease: Debug + Send + Sync {}

/// The batch already holds [`BATCH`] packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the batch already holds {BATCH} packets")]
pub struct Full;

/// Up to [`BATCH`] packets of one region.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Before the region, so that it is dropped first.
    lease: Option<Arc<dyn Lease>>,
    region: Arc<Region>,
    interfaces: Arc<Vec<Interface>>,
    layout: Layout,
    live: LiveMask,
    offset: Vec<u32>,
    cap_len: Vec<u32>,
    wire_len: Vec<u32>,
    ticks: Vec<u64>,
    interface: Vec<u16>,
    /// What the filter returned for each packet; 0 where no filter ran.
    pub verdict: Vec<u32>,
    /// The symmetric keyed hash that decides where each packet goes; empty
    /// until the packets were classified.
    pub hash: Vec<u64>,
    /// Each packet's own flow; empty until the packets were classified.
    pub key: Vec<FlowKey>,
    /// Whether each packet goes from its key's high end to its low end; empty
    /// until the packets were classified.
    pub reversed: Vec<bool>,
    /// The output each packet was given; empty until a balancer ran.
    pub output: Vec<u16>,
    /// What the classifier has to say of fragments, ascending by packet.
    pub fragments: Vec<FragmentNote>,
}

impl Batch {
    /// An empty batch over `region`.
    #[must_use]
    pub fn new(region: Arc<Region>, interfaces: Arc<Vec<Interface>>) -> Self {
        Self::with_capacity(region, interfaces, BATCH)
    }

    /// An empty batch over `region` that has room for `packets` at once.
    #[must_use]
    pub fn with_capacity(
        region: Arc<Region>,
        interfaces: Arc<Vec<Interface>>,
        packets: usize,
    ) -> Self {
        let packets = packets.min(BATCH);
        Self {
            lease: None,
            region,
            interfaces,
            layout: Layout::Scattered,
            live: LiveMask::default(),
            offset: Vec::with_capacity(packets),
            cap_len: Vec::with_capacity(packets),
            wire_len: Vec::with_capacity(packets),
            ticks: Vec::with_capacity(packets),
            interface: Vec::with_capacity(packets),
            verdict: Vec::new(),
            hash: Vec::new(),
            key: Vec::new(),
            reversed: Vec::new(),
            output: Vec::new(),
            fragments: Vec::new(),
        }
    }

    /// Adds a packet, alive.
    ///
    /// # Errors
    /// [`Full`] when [`BATCH`] packets are in.
    ///
    /// # Panics
    /// When the packet is not wholly inside the region, or its interface is
    /// not one of the batch's: both are mistakes of the caller, not of input.
    pub fn push(&mut self, meta: PacketMeta) -> Result<(), Full> {
        let i = self.offset.len();
        if i == BATCH {
            return Err(Full);
        }
        let end = u64::from(meta.offset) + u64::from(meta.cap_len);
        assert!(end <= self.region.len() as u64, "packet outside its region");
        assert!(usize::from(meta.interface) < self.interfaces.len(), "unknown interface");
        self.offset.push(meta.offset);
        self.cap_len.push(meta.cap_len);
        self.wire_len.push(meta.wire_len);
        self.ticks.push(meta.ticks);
        self.interface.push(meta.interface);
        self.live.insert(i);
        Ok(())
    }

    /// Has the packets' memory, of a shared region, kept as long as the batch lives and
    /// whatever is cloned from it.
    pub fn set_lease(&mut self, lease: Arc<dyn Lease>) {
        self.lease = Some(lease);
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
        self.offset.len()
    }

    /// Whether the batch never held a packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offset.is_empty()
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
        self.region.packet(self.offset[i] as usize, self.cap_len[i] as usize)
    }

    /// Where each packet starts in the region, in bytes. Each offset plus the
    /// captured length beside it in [`Batch::cap_lens`] is at most the region's
    /// length.
    #[must_use]
    pub fn offsets(&self) -> &[u32] {
        &self.offset
    }

    /// Captured length of each packet in bytes.
    #[must_use]
    pub fn cap_lens(&self) -> &[u32] {
        &self.cap_len
    }

    /// Length of each packet on the wire in bytes.
    #[must_use]
    pub fn wire_lens(&self) -> &[u32] {
        &self.wire_len
    }

    /// Where packet `i` starts in the region, in bytes.
    #[must_use]
    pub fn offset(&self, i: usize) -> u32 {
        self.offset[i]
    }

    /// Captured length of packet `i` in bytes.
    #[must_use]
    pub fn cap_len(&self, i: usize) -> u32 {
        self.cap_len[i]
    }

    /// Length of packet `i` on the wire in bytes.
    #[must_use]
    pub fn wire_len(&self, i: usize) -> u32 {
        self.wire_len[i]
    }

    /// Time stamp of packet `i` in ticks of its interface's clock.
    #[must_use]
    pub fn ticks(&self, i: usize) -> u64 {
        self.ticks[i]
    }

    /// Time stamp of packet `i` in nanoseconds since the epoch.
    #[must_use]
    pub fn nanos(&self, i: usize) -> i64 {
        self.interface(i).clock.nanos(self.ticks[i])
    }

    /// Index of the interface of packet `i`.
    #[must_use]
    pub fn interface_id(&self, i: usize) -> u16 {
        self.interface[i]
    }

    /// The interface of packet `i`.
    #[must_use]
    pub fn interface(&self, i: usize) -> &Interface {
        &self.interfaces[usize::from(self.interface[i])]
    }

    /// The descriptor of packet `i`.
    #[must_use]
    pub fn meta(&self, i: usize) -> PacketMeta {
        PacketMeta {
            offset: self.offset[i],
            cap_len: self.cap_len[i],
            wire_len: self.wire_len[i],
            ticks: self.ticks[i],
            interface: self.interface[i],
        }
    }

    /// Captured bytes of the live packets.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live.iter().map(|i| u64::from(self.cap_len[i])).sum()
    }

    /// Bytes that the live packets had on the wire.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.live.iter().map(|i| u64::from(self.wire_len[i])).sum()
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
