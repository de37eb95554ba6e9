//! The test data: expressions and packets.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_io::{ReadOptions, Reader};
use forebay_packet::{Batch, LinkType, Region};

/// The folder of test data, or nothing where there is none. Under `CI=true`
/// it must be there.
pub fn data() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = env::var_os("FOREBAY_DATA").map_or_else(default, PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    assert!(env::var("CI").as_deref() != Ok("true"), "no test data at {}", path.display());
    eprintln!("skipped: no test data at {}; set FOREBAY_DATA", path.display());
    None
}

/// Whether everything is to be tried, not a sample.
pub fn full() -> bool {
    env::var_os("FOREBAY_FULL").is_some_and(|value| value == "1")
}

/// The expressions that compile for Ethernet.
pub fn expressions(data: &Path) -> Vec<String> {
    let text = fs::read_to_string(data.join("filters/expressions.txt")).unwrap();
    let content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(content).map(str::to_owned).collect()
}

/// All captures of the test data, in order of their paths.
pub fn captures(data: &Path) -> Vec<PathBuf> {
    let index = fs::read_to_string(data.join("captures/INDEX.tsv")).unwrap();
    let file = |line: &str| data.join("captures").join(line.split('\t').next().unwrap());
    index.lines().skip(1).map(file).collect()
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
