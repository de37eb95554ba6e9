//! What the tests share: test data, captures, and the oracles.

pub mod kernel;
pub mod libpcap;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_filter::Instruction;

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

/// The lines of a file of test data that are neither empty nor comments.
pub fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    text.lines().filter(content).map(str::to_owned).collect()
}

/// The expressions that compile for Ethernet.
pub fn expressions(data: &Path) -> Vec<String> {
    lines(&data.join("filters/expressions.txt"))
}

/// A packet as captured, and its length on the wire.
pub struct Captured {
    pub bytes: Vec<u8>,
    pub wire_len: u32,
}

/// All captures of the test data, in order of their paths.
pub fn captures(data: &Path) -> Vec<PathBuf> {
    let index = fs::read_to_string(data.join("captures/INDEX.tsv")).unwrap();
    let file = |line: &str| data.join("captures").join(line.split('\t').next().unwrap());
    index.lines().skip(1).map(file).collect()
}

/// The packets that libpcap reads of an Ethernet capture; none of any other.
pub fn ethernet_packets(path: &Path) -> Vec<Captured> {
    let mut packets = Vec::new();
    let Ok(mut capture) = pcap::Capture::from_file(path) else {
        return packets;
    };
    if capture.get_datalink() != pcap::Linktype::ETHERNET {
        return packets;
    }
    while let Ok(packet) = capture.next_packet() {
        packets.push(Captured { bytes: packet.data.to_vec(), wire_len: packet.header.len });
    }
    packets
}

/// An instruction, its fields in the order of `tcpdump -ddd`.
pub const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}
