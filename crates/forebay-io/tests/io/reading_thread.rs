//! The thread that decompresses a capture; alone in its process, so that no other test has one.

use std::fs;

use crate::common::{blocks, drain, gzip, small_pcap};
use forebay_io::Reader;

/// What the threads of that name say of a field of their status (proc_pid_status(5)).
fn of_threads(name: &str, field: &str) -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let texts =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let of_name = texts.filter(|text| text.lines().next() == Some(&format!("Name:\t{name}")));
    of_name
        .map(|text| text.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().into())
        .collect()
}

#[test]
fn who_decompresses_a_capture_has_no_capabilities() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.pcap.gz");
    fs::write(&path, gzip(&small_pcap(1000))).unwrap();
    // Blocks so short that it waits for the parser.
    let reader = Reader::open(&path, &blocks(64)).unwrap();
    for field in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        assert_eq!(of_threads("forebay-read", field), ["0000000000000000"], "{field}");
    }
    assert_eq!(drain(reader).0.len(), 1000);
}
