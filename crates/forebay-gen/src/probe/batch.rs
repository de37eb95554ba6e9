//! Batches of probes, for ports.

use std::io;
use std::sync::Arc;

use forebay_packet::{BATCH, Batch, Clock, Interface, PacketMeta, Region};

use super::frame::MIN_FRAME;
use super::traffic::Probes;

/// Generates batches in memory that is reused once a batch is dropped.
pub struct ProbeBatches {
    region: Arc<Region>,
    stride: usize,
    interfaces: Arc<Vec<Interface>>,
}

impl ProbeBatches {
    /// For frames of up to `len` bytes.
    ///
    /// # Errors
    /// The system's, when the memory cannot be had.
    pub fn new(len: usize) -> io::Result<Self> {
        // An odd number of cache lines, so that frames do not share cache sets.
        let stride = (len.max(MIN_FRAME).div_ceil(64) | 1) * 64;
        let interface = Interface { clock: Clock::NANOS, ..Interface::default() };
        let region = Arc::new(Region::new(stride * BATCH)?);
        Ok(Self { region, stride, interfaces: Arc::new(vec![interface]) })
    }

    /// The next `packets` probes, at most [`BATCH`]; `now` is the time since the first, in
    /// nanoseconds.
    ///
    /// # Errors
    /// As [`ProbeBatches::new`], if the previous batch is still in use.
    pub fn next(&mut self, probes: &mut Probes, packets: usize, now: u64) -> io::Result<Batch> {
        let packets = packets.min(BATCH);
        if Arc::get_mut(&mut self.region).is_none() {
            self.region = Arc::new(Region::new(self.stride * BATCH)?);
        }
        let mut lens = [0; BATCH];
        if let Some(region) = Arc::get_mut(&mut self.region) {
            let slots = region.bytes_mut().chunks_exact_mut(self.stride);
            for (slot, len) in slots.zip(&mut lens).take(packets) {
                let (_, frame) = probes.next(now);
                let kept = frame.len().min(slot.len());
                slot[..kept].copy_from_slice(&frame[..kept]);
                *len = kept as u32;
            }
        }
        let region = Arc::clone(&self.region);
        let mut batch = Batch::with_capacity(region, Arc::clone(&self.interfaces), packets);
        for (i, &len) in lens.iter().take(packets).enumerate() {
            let offset = (i * self.stride) as u32;
            // No more than a batch holds.
            let _ = batch.push(PacketMeta {
                offset,
                cap_len: len,
                wire_len: len,
                ticks: now,
                interface: 0,
            });
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use forebay_packet::MacAddress;

    use super::super::{Life, Probe, ProbeOptions};
    use super::*;

    #[test]
    fn batches_hold_the_probes_in_order() {
        let options = ProbeOptions {
            len: 100,
            flows: 1,
            life: Life::Persistent,
            zipf: false,
            seed: 1,
            run: 0,
            destination: MacAddress([2; 6]),
            source: MacAddress([4; 6]),
        };
        let mut probes = Probes::new(&options).unwrap();
        let mut batches = ProbeBatches::new(100).unwrap();
        let first = batches.next(&mut probes, 300, 0).unwrap();
        // The first is in use while the second is made.
        let second = batches.next(&mut probes, 10, 0).unwrap();
        let numbers = |batch: &Batch| -> Vec<u64> {
            let of = |i| Probe::of_frame(batch.packet(i)).unwrap().sequence;
            (0..batch.len()).map(of).collect()
        };
        assert_eq!(numbers(&first), (0..256).collect::<Vec<_>>());
        assert_eq!(numbers(&second), (256..266).collect::<Vec<_>>());
        assert_eq!(second.packet(0).len(), 100);
    }
}
