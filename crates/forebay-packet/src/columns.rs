//! What is known of the packets of a batch: a column a fact, in memory that is used again.
//!
//! Batches come and go hundreds of thousands of times a second, and the descriptions of
//! 256 packets are some kilobytes. So the columns of a batch that ends are kept by the
//! thread that it ended on, and the next batch that begins there takes them over, empty
//! but with their room.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::batch::gathered::Gathered;
use crate::batch_size::BATCH;
use crate::flow::FlowKey;
use crate::fragment::FragmentNote;
use crate::live_mask::LiveMask;
use crate::rate_label::RateLabel;
use crate::scanned::Scanned;

/// Sets of columns that a thread keeps for later.
const KEPT: usize = 32;

/// In [`PacketMetadata::record`]: none.
pub const NO_RECORD: u32 = u32::MAX;

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

/// The columns of a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) descriptors: Descriptors,
    pub(crate) metadata: PacketMetadata,
}

/// Where the packets of a batch lie, and what is known of them before anything is looked at:
/// columns as long as it has packets. Compiled filters trust them. So nothing but a batch
/// writes to them, which has held each against its region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptors {
    pub(crate) offset: Vec<u32>,
    pub(crate) cap_len: Vec<u32>,
    /// Empty if all packets were captured whole: their captured lengths stand for it.
    wire_len: Vec<u32>,
    /// Empty if all are 0.
    ticks: Vec<u64>,
    /// Empty if all are 0: most often there is one interface only.
    interface: Vec<u16>,
}

/// What was found of the packets of a batch. A column of a value a packet is as long as the
/// batch has packets, or empty.
#[derive(Clone, Debug, Default)]
pub struct PacketMetadata {
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
    /// TCP's control bits of each packet, 0 where it has none; empty where the keys are.
    pub tcp_flags: Vec<u8>,
    /// The output each packet was given; empty until a balancer ran.
    pub output: Vec<u16>,
    /// The number of the record of each packet's flow, or [`NO_RECORD`]; empty where no records
    /// are kept.
    pub record: Vec<u32>,
    /// The rate label of each packet, by which fair queueing decides; empty until a stage labels
    /// packets.
    pub label: Vec<RateLabel>,
    /// Flows of single packets, where not every packet's is in `key`: those of fragments,
    /// whose own headers do not say it all. See [`PacketMetadata::flow`].
    pub(crate) flows: Vec<KnownFlow>,
    /// What the classifier has to say of fragments, ascending by packet.
    pub fragments: Vec<FragmentNote>,
    /// Packets whose hash is that of another flow, with which they are kept together.
    pub rehashed: LiveMask,
    /// Packets that no stage may drop to save a sensor work, by an operator's order.
    pub exempt: LiveMask,
    /// The first packets of records each way, where records of flows are kept.
    pub first: LiveMask,
    /// Of those, the packets whose record goes on with a flow whose last record has ended by time.
    pub resumed: LiveMask,
    /// Packets of flows in which a scanner found something, or may have missed it.
    pub suspect: LiveMask,
    /// What the scanner says of each packet; empty where no stage asks for it.
    pub scanned: Vec<Scanned>,
}

/// A packet's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownFlow {
    /// Index of the packet in its batch.
    packet: u16,
    key: FlowKey,
    /// Whether the packet goes from the key's high end to its low end.
    reversed: bool,
}

impl Descriptors {
    /// Adds a packet's description.
    #[inline]
    pub(crate) fn describe(&mut self, meta: &PacketMeta) {
        let packets = self.offset.len();
        self.offset.push(meta.offset);
        if meta.wire_len != meta.cap_len || !self.wire_len.is_empty() {
            if self.wire_len.is_empty() {
                self.wire_len.extend_from_slice(&self.cap_len);
            }
            self.wire_len.push(meta.wire_len);
        }
        self.cap_len.push(meta.cap_len);
        if meta.ticks != 0 || !self.ticks.is_empty() {
            self.ticks.resize(packets, 0);
            self.ticks.push(meta.ticks);
        }
        if meta.interface != 0 || !self.interface.is_empty() {
            self.interface.resize(packets, 0);
            self.interface.push(meta.interface);
        }
    }

    /// Adds the descriptions of several packets.
    pub(crate) fn append(&mut self, all: &Gathered) {
        let before = self.offset.len();
        self.offset.extend_from_slice(all.offset());
        if all.wire_len() != all.cap_len() || !self.wire_len.is_empty() {
            if self.wire_len.is_empty() {
                self.wire_len.extend_from_slice(&self.cap_len);
            }
            self.wire_len.extend_from_slice(all.wire_len());
        }
        self.cap_len.extend_from_slice(all.cap_len());
        append_unless_zero(&mut self.ticks, before, all.ticks());
        append_unless_zero(&mut self.interface, before, all.interface());
    }

    /// Length of each packet on the wire.
    #[inline]
    pub(crate) fn wire_lens(&self) -> &[u32] {
        if self.wire_len.is_empty() { &self.cap_len } else { &self.wire_len }
    }

    /// Time stamp of packet `i`.
    #[inline]
    pub(crate) fn ticks_of(&self, i: usize) -> u64 {
        self.value(&self.ticks, i)
    }

    /// The time stamps of all packets, if they have some and all are of the first interface.
    pub(crate) fn only_interface(&self) -> Option<&[u64]> {
        let is_whole = self.interface.is_empty() && self.ticks.len() == self.offset.len();
        is_whole.then_some(&self.ticks)
    }

    /// Index of the interface of packet `i`.
    #[inline]
    pub(crate) fn interface_of(&self, i: usize) -> u16 {
        self.value(&self.interface, i)
    }

    /// The value of packet `i` in a column that may be empty.
    #[inline]
    fn value<T: Copy + Default>(&self, column: &[T], i: usize) -> T {
        assert!(i < self.offset.len(), "no packet of that number");
        column.get(i).copied().unwrap_or_default()
    }

    /// Forgets everything and keeps the room.
    fn clear(&mut self) {
        self.offset.clear();
        self.cap_len.clear();
        self.wire_len.clear();
        self.ticks.clear();
        self.interface.clear();
    }

    /// Takes over the values of `other`; `self` is empty.
    pub(crate) fn copy(&mut self, other: &Self) {
        copy(&mut self.offset, &other.offset);
        copy(&mut self.cap_len, &other.cap_len);
        copy(&mut self.wire_len, &other.wire_len);
        copy(&mut self.ticks, &other.ticks);
        copy(&mut self.interface, &other.interface);
    }

    /// Keeps those of the packets in `which` alone.
    pub(crate) fn keep(&mut self, which: &LiveMask) {
        for column in [&mut self.offset, &mut self.cap_len, &mut self.wire_len] {
            keep_u32(column, which);
        }
        keep(&mut self.ticks, which);
        keep(&mut self.interface, which);
    }
}

impl PacketMetadata {
    /// The flow of packet `i`, if that was noted, and whether the packet goes from the
    /// key's high end to its low end. What was not noted, the packet's headers say.
    #[must_use]
    pub fn flow(&self, i: usize) -> Option<(FlowKey, bool)> {
        if let (Some(&key), Some(&reversed)) = (self.key.get(i), self.reversed.get(i)) {
            return Some((key, reversed));
        }
        let known = self.flows.iter().find(|known| usize::from(known.packet) == i)?;
        Some((known.key, known.reversed))
    }

    /// Notes the flow of packet `i`.
    pub fn set_flow(&mut self, i: usize, key: FlowKey, reversed: bool) {
        if let (Some(old), Some(direction)) = (self.key.get_mut(i), self.reversed.get_mut(i)) {
            (*old, *direction) = (key, reversed);
            return;
        }
        // Packets of a batch are numbered by 8 bits.
        let flow = KnownFlow { packet: i as u16, key, reversed };
        match self.flows.iter_mut().find(|known| known.packet == flow.packet) {
            Some(known) => *known = flow,
            None => self.flows.push(flow),
        }
    }

    /// Forgets all flows.
    pub fn clear_flows(&mut self) {
        self.key.clear();
        self.reversed.clear();
        self.tcp_flags.clear();
        self.flows.clear();
        self.rehashed = LiveMask::EMPTY;
    }

    /// Forgets everything and keeps the room.
    fn clear(&mut self) {
        self.verdict.clear();
        self.hash.clear();
        self.key.clear();
        self.reversed.clear();
        self.tcp_flags.clear();
        self.output.clear();
        self.record.clear();
        self.label.clear();
        self.flows.clear();
        self.fragments.clear();
        (self.rehashed, self.exempt) = (LiveMask::EMPTY, LiveMask::EMPTY);
        (self.first, self.resumed) = (LiveMask::EMPTY, LiveMask::EMPTY);
        self.suspect = LiveMask::EMPTY;
        self.scanned.clear();
    }

    /// Takes over the values of `other`; `self` is empty.
    fn copy(&mut self, other: &Self) {
        copy(&mut self.verdict, &other.verdict);
        copy(&mut self.hash, &other.hash);
        copy(&mut self.key, &other.key);
        copy(&mut self.reversed, &other.reversed);
        copy(&mut self.tcp_flags, &other.tcp_flags);
        copy(&mut self.output, &other.output);
        copy(&mut self.record, &other.record);
        copy(&mut self.label, &other.label);
        copy(&mut self.flows, &other.flows);
        copy(&mut self.fragments, &other.fragments);
        (self.rehashed, self.exempt) = (other.rehashed, other.exempt);
        (self.first, self.resumed) = (other.first, other.resumed);
        self.suspect = other.suspect;
        copy(&mut self.scanned, &other.scanned);
    }

    /// Keeps what was found of the packets in `which` alone; not of fragments.
    pub(crate) fn keep(&mut self, which: &LiveMask) {
        keep_u32(&mut self.verdict, which);
        keep_u32(&mut self.record, which);
        keep(&mut self.hash, which);
        keep(&mut self.key, which);
        keep(&mut self.reversed, which);
        keep(&mut self.tcp_flags, which);
        keep(&mut self.output, which);
        keep(&mut self.label, which);
        keep(&mut self.scanned, which);
        self.rehashed = self.rehashed.renumbered(which);
        self.exempt = self.exempt.renumbered(which);
        self.first = self.first.renumbered(which);
        self.resumed = self.resumed.renumbered(which);
        self.suspect = self.suspect.renumbered(which);
        if !self.flows.is_empty() {
            let place = |flow: &KnownFlow| {
                let place = which.iter().position(|i| i == usize::from(flow.packet))?;
                Some(KnownFlow { packet: place as u16, ..*flow })
            };
            self.flows = self.flows.iter().filter_map(place).collect();
        }
    }
}

/// Adds values to those of `before` packets, in a column that is empty if all are 0.
fn append_unless_zero<T: Copy + Default + PartialEq>(to: &mut Vec<T>, before: usize, all: &[T]) {
    if !to.is_empty() || all.iter().any(|value| *value != T::default()) {
        to.resize(before, T::default());
        to.extend_from_slice(all);
    }
}

/// Takes over a column; most are empty.
#[inline]
fn copy<T: Copy>(to: &mut Vec<T>, from: &[T]) {
    if !from.is_empty() {
        to.extend_from_slice(from);
    }
}

/// As [`keep`], by vectors.
fn keep_u32(values: &mut Vec<u32>, which: &LiveMask) {
    let kept = which.move_to_front(values);
    values.truncate(kept);
}

/// The values of the packets in `which` move to the front; the others go. A column that is
/// empty stays so.
fn keep<T: Copy>(values: &mut Vec<T>, which: &LiveMask) {
    if values.is_empty() {
        return;
    }
    let mut kept = 0;
    which.iter().for_each(|i| {
        values[kept] = values[i];
        kept += 1;
    });
    values.truncate(kept);
}

thread_local! {
    #[allow(clippy::vec_box, reason = "boxes go from batch to batch; columns would be copied")]
    static SPARE: RefCell<Vec<Box<Columns>>> = const { RefCell::new(Vec::new()) };
}

/// Columns that go back to the thread's spare ones. They are there from the beginning to
/// the end of their life.
#[derive(Debug)]
pub(crate) struct Recycled {
    columns: Option<Box<Columns>>,
    /// Whether they are of use for another batch.
    again: bool,
}

impl Recycled {
    /// Empty columns with room for so many packets. Those of few packets are held for long,
    /// and are made for just these.
    pub(crate) fn new(packets: usize) -> Self {
        let again = packets == BATCH;
        let mut columns = if again { spare() } else { Box::default() };
        // What is surely needed.
        columns.descriptors.offset.reserve_exact(packets);
        columns.descriptors.cap_len.reserve_exact(packets);
        Self { columns: Some(columns), again }
    }
}

/// Spare columns of this thread, or new ones: empty.
fn spare() -> Box<Columns> {
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

impl Clone for Recycled {
    fn clone(&self) -> Self {
        let mut columns = spare();
        columns.descriptors.copy(&self.descriptors);
        columns.metadata.copy(&self.metadata);
        Self { columns: Some(columns), again: true }
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        let Some(mut columns) = self.columns.take().filter(|_| self.again) else { return };
        columns.descriptors.clear();
        columns.metadata.clear();
        // A thread that is about to end has nothing to keep any more.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT {
                spare.push(columns);
            }
        });
    }
}

impl Deref for Recycled {
    type Target = Columns;

    #[inline]
    fn deref(&self) -> &Columns {
        const NONE: &Columns = &Columns {
            descriptors: Descriptors {
                offset: Vec::new(),
                cap_len: Vec::new(),
                wire_len: Vec::new(),
                ticks: Vec::new(),
                interface: Vec::new(),
            },
            metadata: PacketMetadata {
                verdict: Vec::new(),
                hash: Vec::new(),
                key: Vec::new(),
                reversed: Vec::new(),
                tcp_flags: Vec::new(),
                output: Vec::new(),
                record: Vec::new(),
                label: Vec::new(),
                flows: Vec::new(),
                fragments: Vec::new(),
                rehashed: LiveMask::EMPTY,
                exempt: LiveMask::EMPTY,
                first: LiveMask::EMPTY,
                resumed: LiveMask::EMPTY,
                suspect: LiveMask::EMPTY,
                scanned: Vec::new(),
            },
        };
        self.columns.as_deref().unwrap_or(NONE)
    }
}

impl DerefMut for Recycled {
    #[inline]
    fn deref_mut(&mut self) -> &mut Columns {
        self.columns.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_back_empty_with_their_room() {
        let mut first = Recycled::new(BATCH);
        first.descriptors.offset.push(7);
        first.metadata.hash.resize(BATCH, 1);
        let room = first.metadata.hash.as_ptr();
        let copy = first.clone();
        assert_eq!(
            (copy.descriptors.offset.as_slice(), copy.metadata.hash.len()),
            (&[7][..], BATCH)
        );
        drop(first);
        let second = Recycled::new(BATCH);
        assert!(second.descriptors.offset.is_empty() && second.metadata.hash.is_empty());
        assert_eq!(second.metadata.hash.as_ptr(), room);
        assert!(second.descriptors.offset.capacity() >= BATCH);
    }

    #[test]
    fn a_few_packets_get_columns_of_their_own() {
        drop(Recycled::new(BATCH));
        let few = Recycled::new(3);
        assert!(few.descriptors.offset.capacity() < BATCH);
    }
}
