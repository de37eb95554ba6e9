//! Every capture of the test data, read in blocks of several lengths, against
//! a plain parser of the whole file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Packet, at_least, blocks, read_all, test_data};

fn files_under(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_under(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The packets of a pcap file and whether all of it was sound, or nothing if
/// it is not a pcap file that this knows: one of version 2.4 and either of the
/// usual clocks.
fn plain_parse(file: &[u8]) -> Option<(Vec<Packet>, bool)> {
    let big = matches!(file.get(..4)?, [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d]);
    let number = |at: usize| {
        let bytes = file.get(at..at + 4)?.try_into().ok()?;
        Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    };
    let per_second = match number(0)? {
        0xa1b2_c3d4 => 1_000_000,
        0xa1b2_3c4d => 1_000_000_000,
        _ => return None,
    };
    let version = if big { 0x0002_0004 } else { 0x0004_0002 };
    if number(4)? != version {
        return None;
    }
    let longest = match number(20)? & 0x03ff_ffff {
        231 => 1 << 27,
        279 => 1 << 23,
        249 => 1 << 20,
        _ => 1 << 18,
    };
    let (mut packets, mut at) = (Vec::new(), 24);
    while at < file.len() {
        let Some(wire_len) = number(at + 12) else { return Some((packets, false)) };
        let cap_len = number(at + 8)?;
        let bytes = file.get(at + 16..at + 16 + cap_len as usize);
        let Some(bytes) = bytes.filter(|_| cap_len <= longest) else {
            return Some((packets, false));
        };
        let ticks = u64::from(number(at)?) * per_second + u64::from(number(at + 4)?);
        packets.push(Packet { bytes: bytes.to_vec(), wire_len, ticks, interface: 0 });
        at += 16 + bytes.len();
    }
    Some((packets, true))
}

#[test]
fn every_capture_reads_as_a_plain_parser_reads_it() {
    let data = test_data();
    let mut files = Vec::new();
    files_under(&data.join("captures"), &mut files);
    let (mut plain, mut packets_read) = (0, 0);
    for path in &files {
        let file = fs::read(path).unwrap();
        let (packets, error) = read_all(&file, &blocks(1 << 20));
        let shown = path.display();
        packets_read += packets.len();
        if let Some((expected, sound)) = plain_parse(&file) {
            assert!(packets == expected, "{shown}: {} of {}", packets.len(), expected.len());
            assert_eq!(error.is_none(), sound, "{shown}: {error:?}");
            plain += 1;
        }
        // Straddling changes nothing, not even the words of the error.
        let block_len = if file.len() < 1 << 16 { 64 } else { 4096 };
        let (again, error_again) = read_all(&file, &blocks(block_len));
        assert!(again == packets, "{shown} in blocks of {block_len}");
        let words = [error, error_again].map(|error| error.map(|error| error.to_string()));
        assert_eq!(words[0], words[1], "{shown}");
    }
    eprintln!("{} files, {plain} of them plain pcap; {packets_read} packets", files.len());
    assert!(
        plain > at_least(1000, 60) && packets_read > at_least(100_000, 6_000),
        "{plain} files, {packets_read} packets"
    );
}

#[test]
fn the_index_counts_the_packets_that_are_read() {
    let data = test_data();
    let index = fs::read_to_string(data.join("captures/INDEX.tsv")).unwrap();
    for line in index.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let counted: usize = fields[4].parse().unwrap();
        let file = fs::read(data.join("captures").join(fields[0])).unwrap();
        let (packets, error) = read_all(&file, &blocks(1 << 20));
        // The index was made by a reader that takes files of any version.
        let refused = error.is_some_and(|error| error.to_string().contains(": pcap version "));
        assert_eq!(packets.len(), if refused { 0 } else { counted }, "{}", fields[0]);
    }
}
