//! Reads a capture in two ways and compares.

use std::io::Cursor;

use forebay_io::{ReadOptions, Reader};

/// A packet: interface, ticks, wire length, bytes.
type Packet = (u16, u64, u32, Vec<u8>);

fn read(bytes: &[u8], block_len: usize) -> (Vec<Packet>, Option<String>) {
    let options = ReadOptions { block_len, ..ReadOptions::default() };
    let source = Box::new(Cursor::new(bytes.to_vec()));
    let mut packets = Vec::new();
    let mut reader = match Reader::from_read(source, "fuzz".to_owned(), &options) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error.to_string())),
    };
    loop {
        match reader.receive() {
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error.to_string())),
            Ok(Some(batch)) => {
                assert!(!batch.is_empty());
                for i in 0..batch.len() {
                    let _ = batch.nanos(i);
                    packets.push((
                        batch.interface_id(i),
                        batch.ticks(i),
                        batch.wire_len(i),
                        batch.packet(i).to_vec(),
                    ));
                }
            }
        }
    }
}

/// Packets and end must not depend on the block size, and no packet may be longer than the
/// input.
pub fn check(bytes: &[u8]) {
    let whole = read(bytes, 1 << 16);
    assert_eq!(whole, read(bytes, 64));
    let captured: usize = whole.0.iter().map(|packet| packet.3.len()).sum();
    assert!(captured <= bytes.len());
}
