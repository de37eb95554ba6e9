//! Hashes of many packets at once against those of one packet after another: on every
//! capture of the test data, and on plain packets of which each byte is changed.

use forebay_testkit::capture;
use forebay_testkit::data::{at_least, captures, folder};
use std::sync::Arc;

use forebay_packet::{
    Affinity, BATCH, Batch, DecodeOptions, Decoder, HashKey, Interface, LinkType, PacketMeta,
    Region, SimdLevel,
};
use forebay_testkit::packets::build::{protocol as ip, *};

const KEY: HashKey = HashKey([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);

/// Batches of the packets, one after another in one region.
fn batches(packets: &[&[u8]]) -> Vec<Batch> {
    let mut region = Region::new(packets.iter().map(|packet| packet.len()).sum()).unwrap();
    let mut at = 0;
    for packet in packets {
        region.bytes_mut()[at..at + packet.len()].copy_from_slice(packet);
        at += packet.len();
    }
    let (region, interfaces) = (Arc::new(region), Arc::new(vec![Interface::default()]));
    let mut offset = 0;
    packets
        .chunks(BATCH)
        .map(|packets| {
            let mut batch = Batch::new(Arc::clone(&region), Arc::clone(&interfaces));
            for packet in packets {
                let len = packet.len() as u32;
                let meta =
                    PacketMeta { offset, cap_len: len, wire_len: len, ticks: 0, interface: 0 };
                batch.push(meta).unwrap();
                offset += len;
            }
            batch
        })
        .collect()
}

/// Holds all levels against the decoder; returns how many packets were found plain.
fn check(packets: &[&[u8]]) -> usize {
    let mut found = 0;
    for affinity in [Affinity::FiveTuple, Affinity::IpPair, Affinity::Source, Affinity::Destination]
    {
        let decoder = Decoder::new(DecodeOptions { affinity, ..DecodeOptions::default() });
        for lanes in SimdLevel::all() {
            for mut batch in batches(packets) {
                let plain = decoder.hash_plain(lanes, &KEY, &mut batch);
                assert_eq!(batch.hash.len(), batch.len());
                for i in plain.iter() {
                    let expected = decoder.decode(LinkType::ETHERNET, batch.packet(i));
                    let text = format!("{lanes:?} {affinity:?} {:02x?}", batch.packet(i));
                    assert_eq!(batch.hash[i], expected.affinity.hash(&KEY), "{text}");
                    assert!(expected.fragments[0].is_none(), "{text}");
                }
                // Whatever is plain to see, all see.
                let long = |i: &usize| batch.packet(*i).len() >= 44;
                let seen = |i: &usize| decoder.decode_plain(batch.packet(*i)).is_some();
                for i in (0..batch.len()).filter(|i| long(i) && seen(i)) {
                    assert!(plain.contains(i), "{lanes:?} {:02x?}", batch.packet(i));
                }
                found += plain.count();
            }
        }
    }
    found
}

#[test]
fn every_capture_is_hashed_alike() {
    let mut found = 0;
    for path in captures(&folder()) {
        let capture = capture::read(path);
        // Packets of other links serve as frames that make no sense.
        let packets: Vec<&[u8]> = capture.packets.iter().map(|one| one.data.as_slice()).collect();
        found += check(&packets);
    }
    assert!(found > at_least(150_000, 1_000), "only {found} packets were plain");
}

#[test]
fn plain_packets_with_a_byte_changed_are_hashed_alike() {
    let frame = |datagram: &[u8]| {
        let mut frame = [&[2; 12][..], &[0x08, 0x00], datagram].concat();
        frame.resize(60, 0);
        frame
    };
    let mut packets = Vec::new();
    for ends in [FORTH, BACK] {
        packets.push(frame(&ends.ip4(1, ip::TCP, &ends.tcp(1, 2))));
        packets.push(frame(&ends.ip4(1, ip::UDP, &ends.udp(3, 4, b"payload"))));
        for port in [4789, 8472, 6081, 2152] {
            packets.push(frame(&ends.ip4(1, ip::UDP, &ends.udp(9, port, b"payload"))));
        }
    }
    let mut changed = packets.clone();
    for packet in &packets {
        for at in 0..packet.len() {
            for value in [0, 1, 2, 6, 17, 23, 24, 0x3f, 0x40, 0x45, 0x46, 0x80, 0xff] {
                let mut packet = packet.clone();
                packet[at] = value;
                changed.push(packet);
            }
        }
        changed.extend((0..=packet.len()).map(|len| packet[..len].to_vec()));
    }
    let changed: Vec<&[u8]> = changed.iter().map(Vec::as_slice).collect();
    assert!(check(&changed) > 10_000);
    // Batches that are no whole groups.
    for len in [0, 1, 7, 8, 9, 15, 16, 17, 255] {
        check(&changed[..len]);
    }
}
