//! What the tests share: packets as values, captures made byte by byte, and
//! the way to the test data.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Cursor, Write};
use std::sync::Arc;

use forebay_io::{Error, ReadOptions, Reader};
use forebay_packet::{Batch, Interface, PacketMeta, Region};

#[allow(unused_imports, reason = "each test uses its part")]
pub use forebay_testkit::data::{at_least, captures, folder as test_data};

/// A packet, out of any batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub wire_len: u32,
    pub ticks: u64,
    pub interface: u16,
}

/// The packets of a batch.
pub fn packets_of(batch: &Batch) -> Vec<Packet> {
    (0..batch.len())
        .map(|i| Packet {
            bytes: batch.packet(i).to_vec(),
            wire_len: batch.wire_len(i),
            ticks: batch.ticks(i),
            interface: batch.interface_id(i),
        })
        .collect()
}

/// A batch of those packets, in a region of its own.
pub fn batch_of(packets: &[Packet], interfaces: &Arc<Vec<Interface>>) -> Batch {
    let mut region = Region::new(packets.iter().map(|p| p.bytes.len()).sum()).unwrap();
    let mut metas = Vec::new();
    let mut at = 0;
    for packet in packets {
        region.bytes_mut()[at..at + packet.bytes.len()].copy_from_slice(&packet.bytes);
        metas.push(PacketMeta {
            offset: at as u32,
            cap_len: packet.bytes.len() as u32,
            wire_len: packet.wire_len,
            ticks: packet.ticks,
            interface: packet.interface,
        });
        at += packet.bytes.len();
    }
    let mut batch = Batch::new(Arc::new(region), Arc::clone(interfaces));
    for meta in metas {
        batch.push(meta).unwrap();
    }
    batch
}

/// Reads blocks of `block_len`.
pub fn blocks(block_len: usize) -> ReadOptions {
    ReadOptions { block_len, ..ReadOptions::default() }
}

/// A reader of bytes in memory.
pub fn reader(bytes: &[u8], options: &ReadOptions) -> Result<Reader, Error> {
    Reader::from_read(Box::new(Cursor::new(bytes.to_vec())), "test".to_owned(), options)
}

/// All packets, the last interfaces, and the error that ended them.
pub fn drain(mut reader: Reader) -> (Vec<Packet>, Arc<Vec<Interface>>, Option<Error>) {
    let mut packets = Vec::new();
    loop {
        match reader.receive() {
            Ok(Some(batch)) => {
                assert!(!batch.is_empty());
                assert!(reader.interfaces().starts_with(batch.interfaces()));
                packets.extend(packets_of(&batch));
            }
            Ok(None) => return (packets, Arc::clone(reader.interfaces()), None),
            Err(error) => {
                assert!(reader.receive().unwrap().is_none(), "nothing follows an error");
                return (packets, Arc::clone(reader.interfaces()), Some(error));
            }
        }
    }
}

/// As [`drain`], from bytes in memory; opening may fail already.
pub fn read_all(bytes: &[u8], options: &ReadOptions) -> (Vec<Packet>, Option<Error>) {
    match reader(bytes, options) {
        Ok(reader) => {
            let (packets, _, error) = drain(reader);
            (packets, error)
        }
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// A number in either byte order.
pub fn word(value: u32, big: bool) -> [u8; 4] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

/// A short number in either byte order.
pub fn half(value: u16, big: bool) -> [u8; 2] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

/// The header of a pcap file.
pub fn pcap_header(
    magic: u32,
    version: (u16, u16),
    snap_len: u32,
    link: u32,
    big: bool,
) -> Vec<u8> {
    let mut out = word(magic, big).to_vec();
    out.extend(half(version.0, big));
    out.extend(half(version.1, big));
    out.extend([0; 8]);
    out.extend(word(snap_len, big));
    out.extend(word(link, big));
    out
}

/// A pcap record of four header numbers and its bytes.
pub fn pcap_record(numbers: [u32; 4], bytes: &[u8], big: bool) -> Vec<u8> {
    let mut out: Vec<u8> = numbers.iter().flat_map(|n| word(*n, big)).collect();
    out.extend(bytes);
    out
}

/// An ordinary pcap capture of `n` packets, of 0 to 96 bytes.
pub fn small_pcap(n: u32) -> Vec<u8> {
    let mut out = pcap_header(0xa1b2_c3d4, (2, 4), 262_144, 1, false);
    for i in 0..n {
        let bytes = vec![i as u8; (i * 37 % 97) as usize];
        let numbers = [1_700_000_000 + i, i, bytes.len() as u32, bytes.len() as u32 + 4];
        out.extend(pcap_record(numbers, &bytes, false));
    }
    out
}

/// A pcapng block around `body`, padded.
pub fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = word(padded as u32 + 12, big);
    let mut out = word(kind, big).to_vec();
    out.extend(len);
    out.extend(body);
    out.resize(8 + padded, 0);
    out.extend(len);
    out
}

/// A section header.
pub fn section(big: bool) -> Vec<u8> {
    let mut body = word(0x1a2b_3c4d, big).to_vec();
    body.extend(half(1, big));
    body.extend(half(0, big));
    body.extend([0xff; 8]);
    block(0x0a0d_0d0a, &body, big)
}

/// An interface description with options `(code, value)`.
pub fn interface(link: u16, snap_len: u32, options: &[(u16, &[u8])], big: bool) -> Vec<u8> {
    let mut body = half(link, big).to_vec();
    body.extend([0; 2]);
    body.extend(word(snap_len, big));
    for (code, value) in options {
        body.extend(half(*code, big));
        body.extend(half(value.len() as u16, big));
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(1, &body, big)
}

/// An enhanced packet block.
pub fn packet(id: u32, ticks: u64, bytes: &[u8], wire_len: u32, big: bool) -> Vec<u8> {
    let numbers = [id, (ticks >> 32) as u32, ticks as u32, bytes.len() as u32, wire_len];
    let mut body: Vec<u8> = numbers.iter().flat_map(|n| word(*n, big)).collect();
    body.extend(bytes);
    block(6, &body, big)
}

/// A pcapng capture of `n` packets of two interfaces.
pub fn small_pcapng(n: u32) -> Vec<u8> {
    let mut out = section(false);
    out.extend(interface(1, 0, &[], false));
    for i in 0..n {
        if i == n / 2 {
            out.extend(interface(101, 96, &[(9, &[9])], false));
        }
        let id = u32::from(i > n / 2) * (i % 2);
        let bytes = vec![i as u8; (i * 37 % 97) as usize];
        out.extend(packet(id, u64::from(i) << 31, &bytes, bytes.len() as u32 + 4, false));
    }
    out
}

/// `bytes` as gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// `bytes` as a zstd frame with a checksum behind it.
pub fn zstandard(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
