//! Captures that end too early, damaged compression, readers dropped midway.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};

use crate::common::{
    Packet, blocks, drain, gzip, packets_of, read_all, small_pcap, small_pcapng, zstandard,
};
use forebay_io::{Error, ReadOptions, Reader};

/// Where each record of a capture ends: lengths at which it is whole.
fn whole_lengths(pcap: &[u8], pcapng: bool) -> Vec<usize> {
    let number = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap()) as usize;
    let mut at = if pcapng { 0 } else { 24 };
    let mut ends = vec![at];
    while at < pcap.len() {
        at += if pcapng { number(at + 4) } else { 16 + number(at + 8) };
        ends.push(at);
    }
    ends
}

#[test]
fn a_cut_anywhere_gives_the_packets_before_it_and_its_place() {
    for (bytes, pcapng) in [(small_pcap(12), false), (small_pcapng(12), true)] {
        let (all, error) = read_all(&bytes, &ReadOptions::default());
        assert!(error.is_none() && all.len() == 12);
        let ends = whole_lengths(&bytes, pcapng);
        for len in 4..bytes.len() {
            let start = ends.iter().rev().find(|end| **end <= len).copied();
            let before = all.len() - read_tail(&bytes, &ends, len, pcapng);
            let in_blocks = |len_of_block| read_all(&bytes[..len], &blocks(len_of_block));
            for (packets, error) in [in_blocks(64), in_blocks(1 << 20), drip(&bytes[..len])] {
                assert_eq!(packets, all[..before], "cut at {len}");
                match error {
                    None => assert_eq!(start, Some(len), "cut at {len}"),
                    Some(Error::CutOff { offset, .. }) => {
                        assert_ne!(start, Some(len));
                        assert_eq!(offset, start.unwrap_or(0) as u64, "cut at {len}");
                    }
                    Some(other) => panic!("cut at {len}: {other}"),
                }
            }
        }
    }
}

/// Reads from a source that gives one byte at a time, so that each record is
/// put together from many pieces.
fn drip(bytes: &[u8]) -> (Vec<Packet>, Option<Error>) {
    struct Drip(io::Cursor<Vec<u8>>);
    impl Read for Drip {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let len = buf.len().min(1);
            self.0.read(&mut buf[..len])
        }
    }
    let input = Box::new(Drip(io::Cursor::new(bytes.to_vec())));
    match Reader::from_read(input, "drip".to_owned(), &blocks(64)) {
        Ok(reader) => {
            let (packets, _, error) = drain(reader);
            (packets, error)
        }
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// Packets that are not whole in the first `len` bytes.
fn read_tail(bytes: &[u8], ends: &[usize], len: usize, pcapng: bool) -> usize {
    let is_packet = |start: usize| !pcapng || bytes[start] == 6;
    ends.windows(2).filter(|record| record[1] > len && is_packet(record[0])).count()
}

#[test]
fn compressed_captures_read_alike_cut_or_not() {
    let pcap = small_pcap(40);
    let (all, _) = read_all(&pcap, &ReadOptions::default());
    for compress in [gzip, zstandard] {
        // Members and frames follow one another.
        let halves = [compress(&pcap[..500]), compress(&pcap[500..])].concat();
        for block_len in [64, 1 << 20] {
            let (packets, error) = read_all(&halves, &blocks(block_len));
            assert!(error.is_none(), "{error:?}");
            assert_eq!(packets, all);
        }
        let (packets, error) = read_all(&compress(&pcap[..500]), &ReadOptions::default());
        assert!(matches!(error, Some(Error::CutOff { .. })), "{error:?}");
        assert!(packets.len() > 5 && packets == all[..packets.len()]);
    }
}

#[test]
fn compressed_data_cut_anywhere_are_never_taken_for_whole() {
    let pcap = small_pcap(40);
    let (all, _) = read_all(&pcap, &ReadOptions::default());
    for compressed in [gzip(&pcap), zstandard(&pcap)] {
        let mut most = 0;
        for len in 4..compressed.len() {
            let (packets, error) = read_all(&compressed[..len], &blocks(256));
            assert_eq!(packets, all[..packets.len()]);
            assert!(matches!(error, Some(Error::CutOff { .. })), "cut at {len}: {error:?}");
            most = most.max(packets.len());
        }
        assert_eq!(most, all.len(), "all are there when only the checksum is cut");
    }
}

#[test]
fn damaged_compressed_data_are_called_so() {
    let pcap = small_pcap(4000);
    for (mut compressed, name) in [(gzip(&pcap), "gzip"), (zstandard(&pcap), "zstd")] {
        let middle = compressed.len() / 2;
        compressed[middle..middle + 40].fill(0xff);
        let (_, error) = read_all(&compressed, &blocks(4096));
        let text = error.expect("an error").to_string();
        assert!(text.contains(&format!("{name} data")) || text.contains("damaged"), "{text}");
    }
    let trailing = [gzip(&pcap), b"garbage".to_vec()].concat();
    let (packets, error) = read_all(&trailing, &ReadOptions::default());
    assert_eq!(packets.len(), 4000);
    assert!(matches!(error, Some(Error::Decompress { .. } | Error::CutOff { .. })), "{error:?}");
}

#[test]
fn a_file_truncated_while_it_is_read_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shrinks.pcap");
    let pcap = small_pcap(200_000);
    fs::write(&path, &pcap).unwrap();
    // What is left ends at a record's end, where the records alone would not
    // tell that anything is missing.
    let left = 24 + 64;
    let mut reader = Reader::open(&path, &blocks(4096)).unwrap();
    let first = reader.receive().unwrap().unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
    let (packets, _, error) = drain(reader);
    assert!(packets.len() + first.len() < 200_000);
    let error = error.expect("an error");
    assert!(matches!(error, Error::CutOff { .. }), "{error}");
    assert!(error.to_string().contains("bytes when it was opened and lost"), "{error}");
}

#[test]
fn dropping_a_reader_midway_ends_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.pcap");
    fs::write(&path, small_pcap(100_000)).unwrap();
    let threads = || fs::read_dir("/proc/self/task").unwrap().filter(is_reading_thread).count();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let mut reader = Reader::open(&path, &blocks(4096)).unwrap();
        kept.push(reader.receive().unwrap().unwrap());
    }
    // A pipe that nobody writes to: its thread waits in a read for ever.
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let mut far_end = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    far_end.write_all(&small_pcap(1)).unwrap();
    let mut reader = Reader::open(&fifo, &ReadOptions::default()).unwrap();
    assert_eq!(reader.receive().unwrap().unwrap().len(), 1, "given out before the pipe ends");
    drop(reader);
    // Other tests of this binary read at the same time, but not for long.
    let gone = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        threads() == 0
    });
    assert!(gone, "{} threads are left", threads());
    for batch in kept {
        assert_eq!(packets_of(&batch)[1].bytes, [1; 37], "batches outlive their reader");
    }
}

fn is_reading_thread(task: &io::Result<fs::DirEntry>) -> bool {
    let name = task.as_ref().map(|task| fs::read_to_string(task.path().join("comm")));
    matches!(name, Ok(Ok(name)) if name.trim() == "forebay-read")
}

/// Gives bytes out in pieces of growing length, then fails.
struct Failing {
    bytes: io::Cursor<Vec<u8>>,
    piece: usize,
}

impl Read for Failing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.piece += 1;
        let len = buf.len().min(self.piece);
        match self.bytes.read(&mut buf[..len])? {
            0 => Err(io::Error::from_raw_os_error(5)),
            n => Ok(n),
        }
    }
}

#[test]
fn a_failure_to_read_comes_after_the_packets_before_it() {
    let pcap = small_pcap(50);
    let input = Failing { bytes: io::Cursor::new(pcap.clone()), piece: 0 };
    let reader =
        Reader::from_read(Box::new(input), "disk".to_owned(), &ReadOptions::default()).unwrap();
    let (packets, _, error) = drain(reader);
    assert_eq!(packets, read_all(&pcap, &ReadOptions::default()).0);
    let text = error.unwrap().to_string();
    assert!(text.starts_with(&format!("cannot read disk after byte {}", pcap.len())), "{text}");
}

#[test]
fn progress_counts_stored_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.pcap.gz");
    let compressed = gzip(&small_pcap(1000));
    fs::write(&path, &compressed).unwrap();
    let reader = Reader::open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(reader.total_len(), Some(compressed.len() as u64));
    let position = reader.position();
    assert_eq!(drain(reader).0.len(), 1000);
    assert_eq!(position.load(std::sync::atomic::Ordering::Relaxed), compressed.len() as u64);
}

#[test]
fn what_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("absent.pcap")] {
        let error = Reader::open(&path, &ReadOptions::default()).err().expect("an error");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    let path = folder.path().join("empty");
    File::create(&path).unwrap();
    let error = Reader::open(&path, &ReadOptions::default()).err().expect("an error");
    assert!(error.to_string().contains("is empty"), "{error}");
}
