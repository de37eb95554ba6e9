//! What the tests share: test data, captures, and the oracles.

pub mod kernel;
pub mod libpcap;

use std::path::Path;

use forebay_filter::Instruction;
pub use forebay_testkit::data::{at_least, captures, expressions, folder as data, lines};

/// A packet as captured, and its length on the wire.
pub struct Captured {
    pub bytes: Vec<u8>,
    pub wire_len: u32,
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
