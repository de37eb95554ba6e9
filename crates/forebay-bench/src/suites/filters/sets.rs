//! Where packets lie while they are filtered, and in what order they come.
//!
//! Slots follow what the arena of the packet crate promises: a stride that is no power
//! of two, and packets placed so that the EtherType starts a 64-byte line. In frames of a device the
//! packet itself starts one.

use std::ops::Range;
use std::str::FromStr;

use forebay_jit::Packets;
use forebay_packet::{BATCH, Region};

use super::packets::Descriptors;
use crate::failure::{During, Result};
use crate::named::named;
use crate::peers::touch::ETHER_TYPE;

/// Bytes of a line of the cache.
pub const LINE: usize = 64;

/// Where the packet starts in its slot.
const HEADROOM: usize = LINE - ETHER_TYPE;

/// Bytes from slot to slot, and before the packet in its slot.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    stride: usize,
    headroom: usize,
}

/// Slots of the sets of heads: three lines spread the heads over all sets of the cache, which
/// two or four would not.
pub const HEADS: Layout = Layout { stride: 3 * LINE, headroom: HEADROOM };

/// What packets are received from: slots of the longest one generated, and no line is shared.
pub const NETWORK: Layout = Layout { stride: LINE, headroom: 0 };

/// Slots of whole packets: 2 KiB and a line.
const WHOLE: Layout = Layout { stride: 2048 + LINE, headroom: HEADROOM };

/// The same as frames of AF_XDP, or buffers of DPDK.
const FRAMES: Layout = Layout { stride: 2048 + LINE, headroom: 0 };

/// Heads that lie in the second-level cache.
pub const CACHED: usize = 4_096;

/// Packets that are copied and filtered, a batch at a time, in a round of `hot`.
pub const COPIED: usize = 16_384;

/// Packets in slots for whole packets.
pub const IN_MEMORY: usize = 204_800;

named! {
    /// What a row was measured on.
    pub enum Set {
        /// Each batch copied into one receive buffer just before.
        Hot = "hot",
        /// Heads in the second-level cache.
        Cache = "cache",
        /// Packets in slots of 2 KB.
        Memory = "memory",
        /// The same, but packets that start a line.
        Frames = "frames",
        /// A capture as its file is.
        Capture = "capture",
        /// As `cache`, so many packets a call.
        Batch1 = "batch-1",
        Batch8 = "batch-8",
        Batch32 = "batch-32",
        Batch64 = "batch-64",
        Batch256 = "batch-256",
    }
}

impl Set {
    /// How packets that come from memory are laid out.
    pub fn in_memory(self) -> Option<Layout> {
        match self {
            Self::Memory => Some(WHOLE),
            Self::Frames => Some(FRAMES),
            _ => None,
        }
    }

    /// Packets a call.
    pub fn batch(self) -> usize {
        match self {
            Self::Batch1 => 1,
            Self::Batch8 => 8,
            Self::Batch32 => 32,
            Self::Batch64 => 64,
            _ => BATCH,
        }
    }
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|set| set.name() == text);
        let known = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("no set is called `{text}`; there are {}", known()))
    }
}

/// Slots of equal size that packets are copied into.
#[derive(Debug)]
pub struct Slots {
    pub memory: Region,
    layout: Layout,
    /// The packets in the order of the slots.
    pub descriptors: Descriptors,
}

impl Slots {
    pub fn new(count: usize, layout: Layout) -> Result<Self> {
        let memory = Region::new(count * layout.stride).during("making room for packets")?;
        Ok(Self { memory, layout, descriptors: Descriptors::default() })
    }

    /// Copies the packets of `from` that `chosen` names, one a slot. What does not fit into a
    /// slot is cut off, as by a shorter snap length.
    pub fn fill(&mut self, from: &Packets<'_>, chosen: &[u32]) {
        let Layout { stride, headroom } = self.layout;
        self.descriptors = Descriptors::default();
        for (slot, &packet) in chosen.iter().enumerate() {
            let bytes = from.packet(packet as usize);
            let bytes = &bytes[..bytes.len().min(stride - headroom)];
            let start = slot * stride + headroom;
            self.memory.bytes_mut()[start..start + bytes.len()].copy_from_slice(bytes);
            let wire_len = from.wire_len(packet as usize);
            self.descriptors.push([start as u32, bytes.len() as u32, wire_len]);
        }
    }

    /// Copies the packets of these slots of `network`, and does little else: what is timed
    /// comes right after.
    pub fn receive(&mut self, network: &Self, slots: Range<usize>) {
        let Layout { stride, headroom } = self.layout;
        let [offset, cap_len, wire_len] = &mut self.descriptors.0;
        let [_, from_cap_len, from_wire_len] = &network.descriptors.0;
        offset.clear();
        offset.extend((0..slots.len()).map(|slot| (slot * stride + headroom) as u32));
        cap_len.clear();
        cap_len.extend_from_slice(&from_cap_len[slots.clone()]);
        wire_len.clear();
        wire_len.extend_from_slice(&from_wire_len[slots.clone()]);
        let from =
            &network.memory.bytes()[slots.start * NETWORK.stride..slots.end * NETWORK.stride];
        let to = self.memory.bytes_mut().chunks_exact_mut(stride);
        for (from, to) in from.chunks_exact(NETWORK.stride).zip(to) {
            to[headroom..headroom + NETWORK.stride].copy_from_slice(from);
        }
    }

    pub fn packets(&self) -> Packets<'_> {
        self.descriptors.packets(&self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Traffic;
    use super::*;

    #[test]
    fn the_ether_type_starts_a_line() {
        let traffic = Traffic::generate(1_000).unwrap();
        let mut slots = Slots::new(8, HEADS).unwrap();
        slots.fill(&traffic.packets(), &[7, 3, 999]);
        let packets = slots.packets();
        assert_eq!(packets.len(), 3);
        assert_eq!(packets.packet(1), traffic.packets().packet(3));
        let ether_type = packets.packet(2)[ETHER_TYPE..].as_ptr();
        assert_eq!(ether_type.align_offset(LINE), 0);
    }

    #[test]
    fn received_packets_are_those_of_the_network() {
        let traffic = Traffic::generate(1_000).unwrap();
        let mut network = Slots::new(10, NETWORK).unwrap();
        network.fill(&traffic.packets(), &[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        let mut buffer = Slots::new(4, HEADS).unwrap();
        buffer.receive(&network, 2..6);
        let (received, all) = (buffer.packets(), traffic.packets());
        assert_eq!(received.len(), 4);
        for (i, from) in [7, 6, 5, 4].into_iter().enumerate() {
            assert_eq!(received.packet(i), all.packet(from));
            assert_eq!(received.wire_len(i), all.wire_len(from));
        }
    }

    #[test]
    fn sets_have_the_names_that_scripts_look_for() {
        for set in Set::ALL {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        assert_eq!("batch-64".parse(), Ok(Set::Batch64));
        assert!("warm".parse::<Set>().unwrap_err().contains("batch-256"));
    }
}
