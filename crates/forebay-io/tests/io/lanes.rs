//! Lanes give what one reader gives: the same packets in turn, the same end.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::common::{
    Packet, at_least, blocks, captures, drain, packets_of, pcap_record, small_pcap, test_data,
    zstandard,
};
use forebay_io::{Error, Lane, ParallelReader, Reader};
use forebay_packet::Batch;

/// Runs each lane in its thread and takes their answers in turn.
fn in_turn(lanes: Vec<Lane>) -> (Vec<Packet>, Option<String>) {
    let mut packets = Vec::new();
    let mut error = None;
    thread::scope(|scope| {
        let mut results = Vec::new();
        for mut lane in lanes {
            let (send, receive) = sync_channel::<Result<Vec<Batch>, Error>>(1);
            scope.spawn(move || {
                while let Some(answer) = lane.receive().transpose() {
                    if send.send(answer).is_err() {
                        break;
                    }
                }
            });
            results.push(receive);
        }
        for result in results.iter().cycle() {
            match result.recv() {
                Ok(Ok(batches)) => packets.extend(batches.iter().flat_map(packets_of)),
                Ok(Err(found)) => error = Some(found.to_string()),
                Err(_) => break,
            }
        }
        // An error is told by the lane that met it, when it is asked again.
        for result in results {
            for answer in result {
                match answer {
                    Ok(batches) => assert!(batches.is_empty(), "batches behind the end"),
                    Err(found) => error = Some(found.to_string()),
                }
            }
        }
    });
    (packets, error)
}

fn by_lanes(path: &Path, block_len: usize, lanes: usize) -> (Vec<Packet>, Option<String>) {
    match Reader::open(path, &blocks(block_len)) {
        Ok(reader) => in_turn(ParallelReader::new(reader).split(lanes)),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

fn by_one(path: &Path) -> (Vec<Packet>, Option<String>) {
    match Reader::open(path, &blocks(1 << 16)) {
        Ok(reader) => {
            let (packets, _, error) = drain(reader);
            (packets, error.map(|error| error.to_string()))
        }
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

#[test]
fn every_capture_reads_alike_in_any_number_of_lanes() {
    let mut packets = 0;
    for (i, path) in captures(&test_data()).into_iter().enumerate() {
        let expected = by_one(&path);
        packets += expected.0.len();
        let (lanes, block_len) = [(1, 4096), (2, 256), (3, 1000), (5, 64)][i % 4];
        assert_eq!(
            by_lanes(&path, block_len, lanes),
            expected,
            "{}, {lanes} lanes",
            path.display()
        );
    }
    assert!(packets > at_least(100_000, 6_000));
}

#[test]
fn compressed_and_piped_input_is_shared_by_lanes_too() {
    let folder = test_data();
    let plain = folder.join("mix/dev-mix.pcap");
    let temp = tempfile::tempdir().unwrap();
    let compressed = temp.path().join("c");
    fs::write(&compressed, zstandard(&fs::read(&plain).unwrap())).unwrap();
    assert_eq!(by_lanes(&compressed, 1 << 16, 3), by_one(&plain));
}

#[test]
fn the_regions_of_a_stream_go_round() {
    let temp = tempfile::tempdir().unwrap();
    let compressed = temp.path().join("c");
    fs::write(&compressed, zstandard(&even_records())).unwrap();
    let mut lanes = ParallelReader::new(Reader::open(&compressed, &blocks(1024)).unwrap()).split(2);
    let (mut regions, mut answers) = (HashSet::new(), 0);
    'reading: loop {
        for lane in &mut lanes {
            let Some(batches) = lane.receive().unwrap() else { break 'reading };
            regions.extend(batches.iter().map(|batch| batch.region().as_ptr().addr()));
            answers += 1;
        }
    }
    assert!(answers > 400, "{answers}");
    assert!(regions.len() < 16, "{} regions for {answers} answers", regions.len());
}

/// A capture of 5,000 records of 100 bytes each.
fn even_records() -> Vec<u8> {
    let mut bytes = small_pcap(0);
    for i in 0..5_000 {
        bytes.extend(pcap_record([i, 0, 84, 84], &[7; 84], false));
    }
    bytes
}

#[test]
fn a_file_truncated_while_lanes_read_it_is_cut_off() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("t.pcap");
    fs::write(&path, even_records()).unwrap();
    let mut lanes = ParallelReader::new(Reader::open(&path, &blocks(4096)).unwrap()).split(1);
    let first = lanes[0].receive().unwrap().unwrap();
    assert!(!first.is_empty());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100_050).unwrap();
    let (packets, error) = in_turn(lanes);
    let all = packets.len() + first.iter().map(Batch::len).sum::<usize>();
    assert_eq!(all, (100_050 - 24) / 100);
    assert!(error.unwrap().contains("cut off"));
}

#[test]
fn a_lane_that_is_given_up_ends_the_others() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("t.pcap");
    fs::write(&path, even_records()).unwrap();
    let mut lanes = ParallelReader::new(Reader::open(&path, &blocks(4096)).unwrap()).split(2);
    let (mut second, mut first) = (lanes.pop().unwrap(), lanes.pop().unwrap());
    assert!(first.receive().unwrap().is_some());
    assert!(second.receive().unwrap().is_some());
    // The second lane waits for the first, which never comes.
    let waiting = thread::spawn(move || second.receive().unwrap().is_none());
    thread::sleep(Duration::from_millis(20));
    drop(first);
    assert!(waiting.join().unwrap());
}
