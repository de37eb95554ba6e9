//! What a reader holds in memory does not depend on what it reads. One test
//! alone in its process, because it looks at the peak of all of it.

mod common;

use std::fs;
use std::io::{self, Read};

use common::{pcap_header, pcap_record, read_all, section, word};
use forebay_io::{Error, ReadOptions, Reader};

/// The most memory this process has held so far, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A capture of that many records, none of which is ever held.
struct Endless {
    record: Vec<u8>,
    at: usize,
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.record.len() && self.left > 0 {
            (self.at, self.left) = (0, self.left - 1);
        }
        let n = (&self.record[self.at..]).read(buf)?;
        self.at += n;
        Ok(n)
    }
}

#[test]
fn memory_does_not_grow_with_the_capture_or_with_what_it_claims() {
    let record = pcap_record([1, 1, 60_000, 60_000], &vec![7; 60_000], false);
    let records = 4000;
    let endless = Endless { at: record.len(), record, left: records };
    let input =
        Box::new(io::Cursor::new(pcap_header(0xa1b2_c3d4, (2, 4), 0, 1, false)).chain(endless));
    let before = peak();
    let mut reader =
        Reader::from_read(input, "endless".to_owned(), &ReadOptions::default()).unwrap();
    let (mut read, mut held) = (0, Vec::new());
    while let Some(batch) = reader.receive().unwrap() {
        read += batch.len();
        // A consumer that lags some batches behind.
        held.push(batch);
        if held.len() > 4 {
            held.remove(0);
        }
    }
    assert_eq!(read, records);
    let grown = peak() - before;
    assert!(grown < 16 << 10, "{grown} KiB more for 240 MB of input");

    // Lengths that are possible, but not there.
    let mut pcap = pcap_header(0xa1b2_c3d4, (2, 4), 0, 231, false);
    pcap.extend(pcap_record([1, 1, 16 << 20, 1], b"few", false));
    let mut pcapng = section(false);
    pcapng.extend(word(6, false));
    pcapng.extend(word(16 << 20, false));
    pcapng.extend([0; 400]);
    for bytes in [pcap, pcapng] {
        for block_len in [64, 256 << 10] {
            let (_, error) = read_all(&bytes, &common::blocks(block_len));
            assert!(matches!(error, Some(Error::CutOff { .. })), "{error:?}");
        }
    }
    let grown = peak() - before;
    assert!(grown < 16 << 10, "{grown} KiB more for lengths that lie");
}
