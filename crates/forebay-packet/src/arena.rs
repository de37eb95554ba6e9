//! An [`Arena`] cuts one region into slots for packets that are written by us:
//! generated, copied out of a ring, or received from a device.
//!
//! Two measured facts decide the layout. Slots whose stride is a multiple of
//! 2048 bytes put every packet head into a handful of L1 sets, so the stride
//! is an odd number of 64-byte lines. And a packet is placed so that its
//! EtherType (byte 12) starts a line: the headers that a filter reads, up to the
//! transport ports of IPv4, then lie in one line.

use std::io;
use std::sync::Arc;

use crate::batch::Batch;
use crate::batch_size::BATCH;
use crate::columns::PacketMeta;
use crate::link::Interface;
use crate::region::Region;

const LINE: usize = 64;

/// Offset of a packet's first byte within its slot: EtherType at a line start.
const LEAD: usize = LINE - 12;

/// Packet slots of equal size, filled one after another.
pub struct Arena {
    region: Region,
    stride: usize,
    slots: usize,
    meta: Vec<PacketMeta>,
}

impl Arena {
    /// Maps `slots` slots that each hold a packet of up to `max_len` bytes.
    ///
    /// # Errors
    /// The system's error when the memory cannot be had.
    pub fn new(slots: usize, max_len: usize) -> io::Result<Self> {
        let too_big = || io::Error::new(io::ErrorKind::InvalidInput, "arena size overflows");
        let lines = max_len.checked_add(LEAD).ok_or_else(too_big)?.div_ceil(LINE) | 1;
        let stride = lines.checked_mul(LINE).ok_or_else(too_big)?;
        let total = stride.checked_mul(slots).ok_or_else(too_big)?;
        if u32::try_from(total).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("an arena of {total} bytes; a batch addresses at most {}", u32::MAX),
            ));
        }
        let region = Region::new(total)?;
        Ok(Self { region, stride, slots, meta: Vec::with_capacity(slots) })
    }

    /// Distance between slots in bytes: an odd number of 64-byte lines.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Packets written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.meta.len()
    }

    /// Whether no packet was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.meta.is_empty()
    }

    /// Copies a packet into the next slot. Returns false, and changes nothing,
    /// when all slots are taken or the packet is larger than a slot.
    pub fn push(&mut self, packet: &[u8], wire_len: u32, ticks: u64, interface: u16) -> bool {
        let slot = self.meta.len();
        if slot == self.slots || packet.len() > self.stride - LEAD {
            return false;
        }
        let at = slot * self.stride + LEAD;
        self.region.bytes_mut()[at..at + packet.len()].copy_from_slice(packet);
        // `new` checked that every offset fits 32 bits.
        self.meta.push(PacketMeta {
            offset: at as u32,
            cap_len: packet.len() as u32,
            wire_len,
            ticks,
            interface,
        });
        true
    }

    /// Gives the packets up as full batches (the last may be shorter).
    #[must_use]
    pub fn into_batches(self, interfaces: &Arc<Vec<Interface>>) -> Vec<Batch> {
        let region = Arc::new(self.region);
        self.meta
            .chunks(BATCH)
            .map(|chunk| {
                let mut batch = Batch::new(Arc::clone(&region), Arc::clone(interfaces));
                for meta in chunk {
                    // A chunk never exceeds BATCH packets.
                    let _ = batch.push(*meta);
                }
                batch
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_avoid_the_2048_stride_and_align_the_ethertype() {
        let mut arena = Arena::new(3, 2048).unwrap();
        assert_eq!(arena.stride(), 33 * 64);
        assert_eq!(Arena::new(3, 64).unwrap().stride(), 3 * 64);
        assert!(arena.push(&[1; 60], 60, 5, 0));
        assert!(arena.push(&[2; 2048], 9000, 6, 0));
        assert!(!arena.push(&[3; 9000], 9000, 7, 0), "larger than a slot");
        assert!(arena.push(&[], 0, 8, 0));
        assert!(!arena.push(&[4; 60], 60, 9, 0), "arena full");
        let batches = arena.into_batches(&Arc::new(vec![Interface::default()]));
        assert_eq!(batches.len(), 1);
        assert_eq!(batches[0].packet(0), &[1; 60]);
        assert_eq!(batches[0].packet(1), &[2; 2048][..]);
        assert_eq!((batches[0].offset(0) as usize + 12) % 64, 0);
    }
}
