//! Packets throughout a memory: long and short, from its start to its end.

use std::cell::RefCell;

use crate::guarded::{Described, End, GuardedPackets};

/// The most packets of one run: two batches, the second partly filled.
pub const MOST: usize = 300;

/// Bytes of a memory whose packets contain loads at 16-bit offsets.
const LONG: usize = 128 << 10;

/// Bytes of a memory for the longest packet at the highest offset.
const FAR: usize = 2 * u32::MAX as usize;

/// Offsets and captured lengths of packets in that memory.
const FAR_EDGES: [u32; 11] = [
    0,
    1,
    40,
    100,
    (1 << 31) - 90,
    (1 << 31) - 1,
    1 << 31,
    (1 << 31) + 7,
    u32::MAX - 150,
    u32::MAX - 1,
    u32::MAX,
];

/// Bytes of that memory that are written at each place where loads beyond its packets are
/// likely.
const FAR_PIECE: usize = 512;

/// The most captured bytes of packets for a filter with loops.
const MOST_IN_LOOPS: u32 = 300;

thread_local! {
    static NEAR: RefCell<GuardedPackets> = RefCell::new(GuardedPackets::new(LONG, MOST));
    // Only the written pieces take memory.
    static VAST: RefCell<GuardedPackets> = RefCell::new(GuardedPackets::new(FAR, MOST));
}

/// The placement of packets.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Selects the memory and its end.
    pub place: u8,
    /// The number of packets: at least one, and [`MOST`] at most.
    pub packets: usize,
    /// The length on the wire of some packets; that of others is derived from it.
    pub wire_len: u32,
    /// Whether the filter has loops.
    pub has_loops: bool,
}

/// Calls `work` with packets that consist of `data`.
pub fn with_packets(data: &[u8], layout: Layout, work: impl FnOnce(Described<'_>)) {
    let end = if layout.place & 1 == 0 { End::High } else { End::Low };
    match layout.place / 2 % 8 {
        0..=5 => near(data, data.len().min(LONG), end, layout, work),
        6 => near(data, LONG, end, layout, work),
        _ => vast(data, end, layout, work),
    }
}

/// Packets in `room` bytes.
fn near(data: &[u8], room: usize, end: End, layout: Layout, work: impl FnOnce(Described<'_>)) {
    NEAR.with_borrow_mut(|packets| {
        fill(packets.memory(end, room), data);
        let offset = |i: usize| if i.is_multiple_of(3) { 0 } else { i * 7 % (room + 1) };
        let cap_len = |i: usize| {
            let left = room - offset(i);
            if i % 5 < 3 { left } else { (i * 3 % 80).min(left) }
        };
        let wire_len =
            |i: usize| layout.wire_len.wrapping_add(if i.is_multiple_of(4) { 0 } else { i as u32 });
        let tables = layout.tables(|i| (offset(i) as u32, cap_len(i) as u32), wire_len);
        work(packets.describe(end, room, tables.each_ref().map(Vec::as_slice)));
    });
}

/// Packets in a memory that needs more than 32 address bits.
fn vast(data: &[u8], end: End, layout: Layout, work: impl FnOnce(Described<'_>)) {
    VAST.with_borrow_mut(|packets| {
        let memory = packets.memory(end, FAR);
        for middle in [FAR_PIECE / 2, 1 << 31, 1 << 32, 3 << 31, FAR - FAR_PIECE / 2] {
            let start = middle - FAR_PIECE / 2;
            fill(&mut memory[start..start + FAR_PIECE], data);
        }
        let edge = |number: usize| FAR_EDGES[number % FAR_EDGES.len()];
        let packet = |i: usize| (edge(i * 7), edge(i * 3 + i / FAR_EDGES.len()));
        let wire_len = |i: usize| layout.wire_len.wrapping_mul(edge(i) | 1);
        let tables = layout.tables(packet, wire_len);
        work(packets.describe(end, FAR, tables.each_ref().map(Vec::as_slice)));
    });
}

impl Layout {
    /// The tables for packets with these offsets and captured lengths, and their lengths on
    /// the wire.
    fn tables(
        self,
        packet: impl Fn(usize) -> (u32, u32),
        wire_len: impl Fn(usize) -> u32,
    ) -> [Vec<u32>; 3] {
        let most = if self.has_loops { MOST_IN_LOOPS } else { u32::MAX };
        let mut tables = [Vec::new(), Vec::new(), Vec::new()];
        for i in 0..self.packets {
            let (offset, cap_len) = packet(i);
            tables[0].push(offset);
            tables[1].push(cap_len.min(most));
            tables[2].push(wire_len(i));
        }
        tables
    }
}

/// Fills the memory with copies of `data`.
fn fill(memory: &mut [u8], data: &[u8]) {
    if data.is_empty() {
        memory.fill(0);
        return;
    }
    for chunk in memory.chunks_mut(data.len()) {
        chunk.copy_from_slice(&data[..chunk.len()]);
    }
}
