//! The test data: expressions and packets.

use std::env;
use std::path::{Path, PathBuf};

use forebay_io::{ReadOptions, Reader};
use forebay_packet::{Batch, LinkType, Region};
#[allow(unused_imports, reason = "each test uses its part")]
pub use forebay_testkit::data::{at_least, captures, expressions, folder as data};

/// Whether everything is to be tried, not a sample.
pub fn full() -> bool {
    env::var_os("FOREBAY_FULL").is_some_and(|value| value == "1")
}

/// The batches of a capture, up to where it breaks off.
pub fn batches(path: &Path) -> Vec<Batch> {
    let options = ReadOptions { clamp_to_snap_len: true, ..ReadOptions::default() };
    let mut batches = Vec::new();
    if let Ok(mut reader) = Reader::open(path, &options) {
        while let Ok(Some(batch)) = reader.receive() {
            batches.push(batch);
        }
    }
    batches
}

/// Packets in memory of any kind, and the tables that describe them.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub offset: Vec<u32>,
    pub cap_len: Vec<u32>,
    pub wire_len: Vec<u32>,
}

impl Tables {
    pub fn push(&mut self, offset: usize, packet: &[u8], wire_len: u32) {
        self.offset.push(offset as u32);
        self.cap_len.push(packet.len() as u32);
        self.wire_len.push(wire_len);
    }
}

/// A packet as captured, and its length on the wire.
#[derive(Clone, Debug)]
pub struct Captured {
    pub bytes: Vec<u8>,
    pub wire_len: u32,
}

/// The Ethernet packets of `paths`.
pub fn ethernet(paths: &[PathBuf]) -> Vec<Captured> {
    let mut packets = Vec::new();
    for batch in paths.iter().flat_map(|path| batches(path)) {
        for i in 0..batch.len() {
            if batch.interface(i).link == LinkType::ETHERNET {
                let (bytes, wire_len) = (batch.packet(i).to_vec(), batch.wire_len(i));
                packets.push(Captured { bytes, wire_len });
            }
        }
    }
    packets
}

/// `packets` in a region one after another, packet `i` at an offset that leaves
/// `alignment(i)` when divided by 64.
pub fn laid_out(packets: &[Captured], alignment: impl Fn(usize) -> usize) -> (Region, Tables) {
    let mut tables = Tables::default();
    let mut at = 0_usize;
    for (i, packet) in packets.iter().enumerate() {
        let start = at + (alignment(i) + 64 - at % 64) % 64;
        tables.push(start, &packet.bytes, packet.wire_len);
        at = start + packet.bytes.len();
    }
    let mut region = Region::new(at).unwrap();
    for (packet, &start) in packets.iter().zip(&tables.offset) {
        let start = start as usize;
        region.bytes_mut()[start..start + packet.bytes.len()].copy_from_slice(&packet.bytes);
    }
    (region, tables)
}
