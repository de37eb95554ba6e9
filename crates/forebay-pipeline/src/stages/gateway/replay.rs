//! Packets that waited go on: batches of them, in memory that is used again.

use std::sync::Arc;

use forebay_packet::{BATCH, Batch, FlowKey, Interface, LiveMask, NO_RECORD, PacketMeta, Region};

use super::held::HeldPacket;
use crate::stage::Outbox;
use crate::stages::PassReason;

/// Bytes of a region. A longer packet has one of its own.
const REGION: usize = 256 << 10;

/// Regions that are kept to be used again.
const KEPT: usize = 8;

/// Interfaces of packets that wait; those of further ones wait no more.
const MOST_INTERFACES: usize = 1 << 12;

/// Makes batches.
#[derive(Default)]
pub(super) struct Replay {
    /// Those that packets came by. Batches have lists of their own, which may differ.
    interfaces: Arc<Vec<Interface>>,
    /// The list of the last batch, and where each of its interfaces is in ours.
    last: Option<Arc<Vec<Interface>>>,
    places: Vec<Option<u16>>,
    regions: Vec<Arc<Region>>,
    region: Option<Region>,
    used: usize,
    metas: Vec<PacketMeta>,
    /// Their keys, and why they pass.
    packets: Vec<(FlowKey, HeldPacket, PassReason)>,
    /// Whether the columns that a classifier writes are there.
    pub is_classified: bool,
}

impl Replay {
    /// Takes note of the interfaces of a batch.
    pub(super) fn see(&mut self, batch: &Batch) {
        let theirs = batch.interfaces();
        if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, theirs)) {
            return;
        }
        // Most lists begin with the one before.
        let known = self.places.len();
        let goes_on = self.last.as_ref().is_some_and(|last| theirs.starts_with(last));
        self.places.truncate(if goes_on { known } else { 0 });
        for interface in &theirs[self.places.len()..] {
            let known = self.interfaces.iter().position(|one| one == interface);
            let place = known.or_else(|| {
                let place = self.interfaces.len();
                (place < MOST_INTERFACES).then(|| {
                    Arc::make_mut(&mut self.interfaces).push(interface.clone());
                    place
                })
            });
            self.places.push(place.map(|place| place as u16));
        }
        self.last = Some(Arc::clone(theirs));
    }

    /// The number of an interface of the batch last seen, if there is room for it.
    pub(super) fn interface(&self, id: u16) -> Option<u16> {
        self.places.get(usize::from(id)).copied().flatten()
    }

    /// A packet's time in nanoseconds.
    pub(super) fn nanos(&self, packet: &HeldPacket) -> i64 {
        self.interfaces
            .get(usize::from(packet.interface))
            .map_or(0, |interface| interface.clock.nanos(packet.ticks))
    }

    /// Adds a packet, whose bytes `fill` writes. Without memory, it is not added: returns false.
    pub(super) fn add(
        &mut self,
        (key, packet, reason): (&FlowKey, HeldPacket, PassReason),
        out: &mut Outbox,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let len = packet.cap_len as usize;
        if self.region.as_ref().is_some_and(|region| region.len() - self.used < len) {
            self.emit(out);
        }
        if self.region.is_none() {
            self.region = self.take_region(len);
            self.used = 0;
        }
        let Some(region) = &mut self.region else { return false };
        fill(&mut region.bytes_mut()[self.used..self.used + len]);
        self.metas.push(PacketMeta {
            offset: self.used as u32,
            cap_len: packet.cap_len,
            wire_len: packet.wire_len,
            ticks: packet.ticks,
            interface: packet.interface,
        });
        self.packets.push((*key, packet, reason));
        self.used += len;
        true
    }

    /// A region that nobody uses any more, or a new one.
    fn take_region(&mut self, len: usize) -> Option<Region> {
        if len > REGION {
            return Region::new(len).ok();
        }
        let unused = self.regions.iter().position(|region| Arc::strong_count(region) == 1);
        unused
            .and_then(|place| Arc::into_inner(self.regions.swap_remove(place)))
            .or_else(|| Region::new(REGION).ok())
    }

    /// Emits what was added.
    pub(super) fn emit(&mut self, out: &mut Outbox) {
        let Some(region) = self.region.take() else { return };
        let region = Arc::new(region);
        if region.len() == REGION && self.regions.len() < KEPT {
            self.regions.push(Arc::clone(&region));
        }
        for (metas, packets) in self.metas.chunks(BATCH).zip(self.packets.chunks(BATCH)) {
            out.emit(self.batch(&region, metas, packets));
        }
        self.metas.clear();
        self.packets.clear();
    }

    fn batch(
        &self,
        region: &Arc<Region>,
        metas: &[PacketMeta],
        packets: &[(FlowKey, HeldPacket, PassReason)],
    ) -> Batch {
        let mut batch = Batch::new(Arc::clone(region), Arc::clone(&self.interfaces));
        for meta in metas {
            // At most as many as fit.
            let _ = batch.push(*meta);
        }
        if self.is_classified {
            batch.hash.extend(packets.iter().map(|(_, packet, _)| packet.hash));
            batch.key.extend(packets.iter().map(|(key, ..)| *key));
            batch.reversed.extend(packets.iter().map(|(_, packet, _)| packet.reversed));
            batch.tcp_flags.extend(packets.iter().map(|(_, packet, _)| packet.tcp_flags));
        }
        // The record of a packet that came long ago may have ended.
        batch.record.resize(packets.len(), NO_RECORD);
        let [mut suspect, mut rehashed, mut exempt] = [LiveMask::EMPTY; 3];
        for (i, (_, packet, reason)) in packets.iter().enumerate() {
            let marks = [
                (&mut suspect, *reason != PassReason::PREFIX),
                (&mut rehashed, packet.rehashed),
                (&mut exempt, *reason == PassReason::EXEMPT),
            ];
            marks.into_iter().filter(|(_, has)| *has).for_each(|(mask, _)| mask.insert(i));
        }
        (batch.suspect, batch.rehashed, batch.exempt) = (suspect, rehashed, exempt);
        batch
    }
}
