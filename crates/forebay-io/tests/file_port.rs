//! A capture that is taken down while packets of several inputs come.

use std::sync::Arc;

use forebay_io::{CaptureTx, Format, OutputName, ReadOptions, Reader, Tx, WriteOptions, Writer};
use forebay_packet::{Arena, Batch, Clock, Interface, MacAddress, Rewrite};

/// Packets of a device, at times in nanoseconds.
fn batch(device: &str, packets: &[(u64, &[u8])]) -> Batch {
    let interface = Interface {
        snap_len: 0,
        clock: Clock::NANOS,
        name: Some(device.to_owned()),
        ..Interface::default()
    };
    let mut arena = Arena::new(packets.len(), 128).unwrap();
    for (time, packet) in packets {
        assert!(arena.push(packet, packet.len() as u32, *time, 0));
    }
    arena.into_batches(&Arc::new(vec![interface])).remove(0)
}

/// Device, time and bytes of each packet of a capture.
fn read(path: &std::path::Path) -> Vec<(String, i64, Vec<u8>)> {
    let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
    let mut packets = Vec::new();
    while let Some(batch) = reader.receive().unwrap() {
        packets.extend(batch.live().iter().map(|i| {
            let device = batch.interface(i).name.clone().unwrap_or_default();
            (device, batch.nanos(i), batch.packet(i).to_vec())
        }));
    }
    packets
}

#[test]
fn packets_of_several_devices_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    let options = WriteOptions { in_place: true, ..WriteOptions::default() };
    let name = OutputName::Exact(path.clone());
    let writer = Writer::create(name, Format::Pcapng, &Arc::default(), &options).unwrap();
    let mut tx = CaptureTx::new(writer);
    let (one, two) = ([1_u8; 60], [2_u8; 70]);
    let sends = [
        batch("eth1", &[(1_000_000_001, &one), (1_000_000_002, &one)]),
        batch("eth2", &[(1_000_000_003, &two)]),
        batch("eth1", &[(1_000_000_004, &one)]),
    ];
    for batch in &sends {
        tx.send(batch, &batch.live(), &[Rewrite::NONE]).unwrap();
    }
    let change =
        Rewrite { destination: Some(MacAddress([9; 6])), slice: Some(64), ..Rewrite::NONE };
    let last = batch("eth2", &[(1_000_000_005, &two), (1_000_000_006, &two)]);
    tx.send(&last, &last.live(), &[change]).unwrap();
    assert_eq!(tx.counters().unwrap().packets, 6);
    Box::new(tx).finish().unwrap();
    let changed = [[9; 6].as_slice(), &[2; 58]].concat();
    let expected = [
        ("eth1", 1, one.to_vec()),
        ("eth1", 2, one.to_vec()),
        ("eth2", 3, two.to_vec()),
        ("eth1", 4, one.to_vec()),
        ("eth2", 5, changed.clone()),
        ("eth2", 6, changed),
    ];
    let expected =
        expected.map(|(device, time, bytes)| (device.to_owned(), 1_000_000_000 + time, bytes));
    assert_eq!(read(&path), expected);
}
