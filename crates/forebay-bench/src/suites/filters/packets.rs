//! Packets as the engines are given them.
//!
//! Every packet lies inside its memory. That is checked once, where the columns that
//! describe the packets are put together, outside of what is timed, and the engines
//! rely on it.

use std::ops::Range;

use forebay_packet::Region;

/// Where packets lie, and how long they are.
#[derive(Clone, Debug, Default)]
pub struct Descriptors {
    /// Bytes from the start of the memory.
    pub offset: Vec<u32>,
    /// Captured bytes.
    pub cap_len: Vec<u32>,
    /// Bytes on the wire.
    pub wire_len: Vec<u32>,
}

impl Descriptors {
    /// The number of packets.
    pub fn len(&self) -> usize {
        self.offset.len()
    }

    /// Forgets all packets, and keeps the room for them.
    pub fn clear(&mut self) {
        self.offset.clear();
        self.cap_len.clear();
        self.wire_len.clear();
    }

    /// Adds a packet.
    pub fn push(&mut self, offset: u32, cap_len: u32, wire_len: u32) {
        self.offset.push(offset);
        self.cap_len.push(cap_len);
        self.wire_len.push(wire_len);
    }

    /// The packets that `order` names, in that order.
    pub fn pick(&self, order: &[u32]) -> Self {
        let column = |from: &[u32]| order.iter().map(|&i| from[i as usize]).collect();
        Self {
            offset: column(&self.offset),
            cap_len: column(&self.cap_len),
            wire_len: column(&self.wire_len),
        }
    }
}

/// Packets of one memory, each of them inside it.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    described: forebay_jit::Packets<'a>,
    first: usize,
}

impl<'a> Packets<'a> {
    /// The packets of `descriptors` in `memory`.
    ///
    /// # Panics
    /// When one lies outside: a mistake of the suite.
    pub fn new(memory: &'a Region, descriptors: &'a Descriptors) -> Self {
        let Descriptors { offset, cap_len, wire_len } = descriptors;
        let described = forebay_jit::Packets::in_region(memory, offset, cap_len, wire_len);
        match described {
            Ok(described) => Self { described, first: 0 },
            Err(error) => panic!("{error}"),
        }
    }

    /// Some of them.
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self { first: self.first + range.start, described: self.described.slice(range) }
    }

    /// As our own filters take them.
    pub fn described(&self) -> &forebay_jit::Packets<'a> {
        &self.described
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.described.len()
    }

    /// The number of the first among those they were sliced from.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Where the memory starts that they lie in.
    pub fn base(&self) -> *const u8 {
        self.described.base()
    }

    /// Where each starts in the memory.
    pub fn offset(&self) -> &'a [u32] {
        self.described.tables()[0]
    }

    /// Captured bytes of each.
    pub fn cap_len(&self) -> &'a [u32] {
        self.described.tables()[1]
    }

    /// Bytes of each on the wire.
    pub fn wire_len(&self) -> &'a [u32] {
        self.described.tables()[2]
    }

    /// The captured bytes of packet `i`.
    pub fn bytes(&self, i: usize) -> &'a [u8] {
        self.described.packet(i)
    }
}

/// What is measured: a filter of one expression, made by one of those that make them.
pub trait Engine {
    /// Does what a receiver would have done before the filter runs; not timed.
    fn prepare(&mut self, _packets: &Packets<'_>) {}

    /// Filters. `verdict` has as many places as there are packets.
    fn run(&mut self, packets: &Packets<'_>, verdict: &mut [u32]);
}
