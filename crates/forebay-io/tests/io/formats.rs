//! What the formats allow and what they do not, byte by byte.

use crate::common::{
    Packet, block, blocks, drain, half, interface, packet, pcap_header, pcap_record, read_all,
    reader, section, word,
};
use forebay_io::{Error, Format, ReadOptions};
use forebay_packet::{Clock, Layout, LinkType, Resolution};
use proptest::prelude::*;

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
const PATCHED: u32 = 0xa1b2_cd34;

fn plain(bytes: &[u8], wire_len: u32, ticks: u64) -> Packet {
    Packet { bytes: bytes.to_vec(), wire_len, ticks, interface: 0 }
}

#[test]
fn pcap_of_either_clock_and_byte_order() {
    for big in [false, true] {
        for (magic, clock, per_second) in
            [(MICROS, Clock::MICROS, 1_000_000), (NANOS, Clock::NANOS, 1_000_000_000)]
        {
            // The upper bits of the link field tell of a frame check sequence.
            let mut bytes = pcap_header(magic, (2, 4), 96, 0xf400_0071, big);
            bytes.extend(pcap_record([7, 5, 3, 90], b"abc", big));
            // A fraction of more than a second counts as it stands.
            bytes.extend(pcap_record([7, u32::MAX, 0, 0], b"", big));
            let reader = reader(&bytes, &ReadOptions::default()).unwrap();
            assert_eq!(reader.format(), Format::Pcap);
            let (packets, interfaces, error) = drain(reader);
            assert!(error.is_none());
            assert_eq!(interfaces[0].link, LinkType::LINUX_SLL);
            assert_eq!((interfaces[0].snap_len, interfaces[0].clock), (96, clock));
            let first = 7 * per_second;
            let expected =
                [plain(b"abc", 90, first + 5), plain(b"", 0, first + u64::from(u32::MAX))];
            assert_eq!(packets, expected);
        }
    }
}

#[test]
fn only_records_that_can_be_written_as_they_stand_are_called_so() {
    let layout = |magic, version, snap_len, numbers, clamp, big| {
        let mut bytes = pcap_header(magic, version, snap_len, 1, big);
        let header = if magic == PATCHED { &[9; 8][..] } else { &[] };
        bytes.extend(pcap_record(numbers, header, big));
        bytes.extend(b"abc");
        let options = ReadOptions { clamp_to_snap_len: clamp, ..ReadOptions::default() };
        let batch = reader(&bytes, &options).unwrap().receive().unwrap().unwrap();
        assert_eq!(batch.len(), 1);
        (batch.layout(), batch.cap_len(0), batch.wire_len(0))
    };
    use Layout::{PcapRecords, Scattered};
    let ordinary = [1, 1, 3, 7];
    assert_eq!(layout(MICROS, (2, 4), 0, ordinary, false, false), (PcapRecords, 3, 7));
    assert_eq!(layout(NANOS, (2, 4), 2, ordinary, false, false), (PcapRecords, 3, 7));
    assert_eq!(layout(MICROS, (2, 4), 2, ordinary, true, false), (Scattered, 2, 7));
    assert_eq!(layout(MICROS, (2, 4), 3, ordinary, true, false), (PcapRecords, 3, 7));
    assert_eq!(layout(MICROS, (2, 4), 0, ordinary, false, true), (Scattered, 3, 7));
    assert_eq!(layout(PATCHED, (2, 4), 0, ordinary, false, false), (Scattered, 3, 7));
    assert_eq!(layout(MICROS, (2, 3), 0, ordinary, false, false), (PcapRecords, 3, 7));
    assert_eq!(layout(MICROS, (2, 3), 0, [1, 1, 7, 3], false, false), (Scattered, 3, 7));
    assert_eq!(layout(MICROS, (2, 2), 0, [1, 1, 7, 3], false, false), (Scattered, 3, 7));
    assert_eq!(layout(MICROS, (543, 0), 0, [1, 1, 7, 3], false, true), (Scattered, 3, 7));
}

#[test]
fn snap_lengths_mean_what_they_mean_to_libpcap() {
    let snap_len = |magic, stored, link| {
        let bytes = pcap_header(magic, (2, 4), stored, link, true);
        reader(&bytes, &ReadOptions::default()).unwrap().interfaces()[0].snap_len
    };
    assert_eq!(snap_len(MICROS, 0, 1), 262_144);
    assert_eq!(snap_len(MICROS, u32::MAX, 1), 262_144);
    assert_eq!(snap_len(MICROS, 0, 249), 1 << 20);
    assert_eq!(snap_len(PATCHED, 96, 1), 110);
    assert_eq!(snap_len(PATCHED, 96, 101), 96);
}

#[test]
fn pcap_versions_and_lengths_that_cannot_be_are_named() {
    let header = |version| pcap_header(MICROS, version, 96, 1, false);
    for version in [(1, 4), (2, 5), (3, 0), (543, 1)] {
        let (_, error) = read_all(&header(version), &ReadOptions::default());
        let text = error.unwrap().to_string();
        let (major, minor) = version;
        assert!(text.contains(&format!("pcap version {major}.{minor}; expected 2.0")), "{text}");
    }
    for (lying, big) in [(262_145, false), (u32::MAX, false), (u32::MAX, true)] {
        let mut bytes = pcap_header(MICROS, (2, 4), u32::MAX, 1, big);
        bytes.extend(pcap_record([1, 1, 3, 3], b"abc", big));
        bytes.extend(pcap_record([1, 1, lying, 3], b"abc", big));
        let (packets, error) = read_all(&bytes, &ReadOptions::default());
        assert_eq!(packets.len(), 1);
        let text = error.unwrap().to_string();
        assert!(text.contains("byte 43: a captured length of"), "{text}");
    }
}

#[test]
fn what_is_no_capture_is_described() {
    let (_, error) = read_all(b"", &ReadOptions::default());
    assert_eq!(
        error.unwrap().to_string(),
        "test is empty; expected a pcap or pcapng capture, plain or compressed by gzip or zstd"
    );
    let (_, error) = read_all(&crate::common::gzip(b""), &ReadOptions::default());
    assert!(matches!(error, Some(Error::NotACapture { .. })));
    let (_, error) = read_all(b"#!/bin/sh", &ReadOptions::default());
    let text = error.unwrap().to_string();
    assert!(text.contains("begins with the bytes 23 21 2f 62 69 6e 2f 73"), "{text}");
    let (_, error) = read_all(&[0xd4, 0xc3], &ReadOptions::default());
    assert!(error.unwrap().to_string().contains("the bytes d4 c3;"));
}

#[test]
fn pcapng_sections_number_their_interfaces_through() {
    let offset = (-3_i64).to_be_bytes();
    let mut bytes = section(false);
    bytes.extend(interface(1, 96, &[(2, b"eth0\0"), (3, "größe".as_bytes())], false));
    bytes.extend(packet(0, 1 << 40 | 7, b"one", 9, false));
    // A custom block of no interest to us.
    bytes.extend(block(0x0bad, &[1, 2, 3, 4, 5], false));
    bytes.extend(section(true));
    let options: [(u16, &[u8]); 5] =
        [(9, &[0x8a]), (14, &offset), (1, b"a comment"), (0, b""), (9, b"after the end")];
    bytes.extend(interface(101, 2, &options, true));
    bytes.extend(packet(0, 2, b"two", 3, true));
    let mut simple = word(9, true).to_vec();
    simple.extend(b"three");
    bytes.extend(block(3, &simple, true));
    let mut old = half(0, true).to_vec();
    old.extend([0xff, 0xff]);
    old.extend([0, 5, 4, 4].iter().flat_map(|n| word(*n, true)));
    old.extend(b"four");
    bytes.extend(block(2, &old, true));
    // Those described before the end of the first batch, which never spans two blocks.
    for (block_len, described) in [(64, 1), (1 << 20, 2)] {
        let reader = reader(&bytes, &blocks(block_len)).unwrap();
        assert_eq!(reader.format(), Format::Pcapng);
        assert_eq!(reader.interfaces().len(), described);
        let (packets, interfaces, error) = drain(reader);
        assert!(error.is_none(), "{error:?}");
        let in_second = |packet| Packet { interface: 1, ..packet };
        let expected = [
            plain(b"one", 9, 1 << 40 | 7),
            in_second(plain(b"two", 3, 2)),
            in_second(plain(b"th", 9, 0)),
            in_second(plain(b"four", 4, 5)),
        ];
        assert_eq!(packets, expected);
        assert_eq!(interfaces[0].name.as_deref(), Some("eth0"));
        assert_eq!(interfaces[0].description.as_deref(), Some("größe"));
        assert_eq!((interfaces[0].snap_len, interfaces[0].clock), (96, Clock::MICROS));
        let clock = Clock { resolution: Resolution::Binary(10), offset_seconds: -3 };
        assert_eq!((interfaces[1].link, interfaces[1].clock), (LinkType::RAW, clock));
    }
    let options = ReadOptions { clamp_to_snap_len: true, ..ReadOptions::default() };
    let (packets, _) = read_all(&bytes, &options);
    let lengths: Vec<usize> = packets.iter().map(|packet| packet.bytes.len()).collect();
    assert_eq!(lengths, [3, 2, 2, 2]);
}

/// A capture of one good packet, followed by `bad`, and what is said of it.
fn complaint(bad: &[u8]) -> String {
    let mut bytes = section(false);
    bytes.extend(interface(1, 0, &[], false));
    bytes.extend(packet(0, 1, b"good", 4, false));
    let offset = bytes.len();
    bytes.extend(bad);
    let mut text = String::new();
    for block_len in [64, 1 << 20] {
        let (packets, error) = read_all(&bytes, &blocks(block_len));
        assert_eq!(packets.len(), 1);
        text = error.expect("an error").to_string();
        assert!(text.contains(&format!("byte {offset}")), "{text} lacks {offset}");
    }
    text
}

#[test]
fn pcapng_blocks_that_cannot_be_are_named() {
    let good = packet(0, 1, b"data", 4, false);
    let changed = |at: usize, value: u32| {
        let mut block = good.clone();
        block[at..at + 4].copy_from_slice(&value.to_le_bytes());
        block
    };
    for len in [0, 8, 31, 33, u32::MAX, u32::MAX - 3, 1 << 25] {
        let text = complaint(&changed(4, len));
        assert!(text.contains(&format!("of type 6 and length {len};")), "{text}");
    }
    let text = complaint(&changed(good.len() - 4, 40));
    assert!(text.contains("length is 36 before and 40 behind"), "{text}");
    let text = complaint(&changed(8, 1));
    assert!(text.contains("packet of interface 1, but the section describes 1"), "{text}");
    let text = complaint(&changed(20, 5));
    assert!(text.contains("captured length of 5 bytes; at most 4"), "{text}");
    let text = complaint(&changed(20, u32::MAX));
    assert!(text.contains("at most 4"), "{text}");
    let mut simple = word(5, false).to_vec();
    simple.extend(b"data");
    assert!(complaint(&block(3, &simple, false)).contains("captured length of 5 bytes"));
    let text = complaint(&interface(1, 0, &[(9, &[6, 6])], false));
    assert!(text.contains("option 9 of 2 bytes; expected 1"), "{text}");
    let text = complaint(&interface(1, 0, &[(14, &[6; 7])], false));
    assert!(text.contains("option 14 of 7 bytes; expected 8"), "{text}");
    let mut overrun = interface(1, 0, &[(2, b"name")], false);
    overrun[18] = 9;
    assert!(complaint(&overrun).contains("option 2 of 9 bytes; its block has 4 left"));
    let mut order = section(false);
    order[8] = 0;
    assert!(complaint(&order).contains("byte-order number is 003c2b1a; expected 1a2b3c4d"));
    let mut version = section(false);
    version[12] = 2;
    assert!(complaint(&version).contains("pcapng version 2"));
}

#[test]
fn a_section_without_interfaces_has_no_packets() {
    let mut bytes = section(true);
    bytes.extend(block(3, &word(0, true), true));
    let (packets, error) = read_all(&bytes, &ReadOptions::default());
    assert!(packets.is_empty());
    let text = error.unwrap().to_string();
    assert!(text.contains("interface 0, but the section describes 0"), "{text}");
    let (_, error) = read_all(&section(true), &ReadOptions::default());
    assert!(error.is_none());
}

#[test]
fn interfaces_past_what_a_packet_can_name_are_refused() {
    let mut bytes = section(false);
    for _ in 0..=1 << 16 {
        bytes.extend(interface(1, 0, &[], false));
    }
    let (_, error) = read_all(&bytes, &ReadOptions::default());
    let text = error.unwrap().to_string();
    assert!(text.contains("more than 65536 interfaces at byte 1310748"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_read_alike_whatever_the_blocks(
        pcapng in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        block_len in 64..300_usize,
    ) {
        let mut bytes = if pcapng { crate::common::small_pcapng(9) } else { crate::common::small_pcap(9) };
        let sound = read_all(&bytes, &ReadOptions::default()).0.len();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let (packets, error) = read_all(&bytes, &ReadOptions::default());
        prop_assert!(packets.len() <= sound + bytes.len() / 16);
        let (again, error_again) = read_all(&bytes, &blocks(block_len));
        prop_assert_eq!(packets, again);
        let words = [error, error_again].map(|error| error.map(|error| error.to_string()));
        prop_assert_eq!(&words[0], &words[1]);
    }
}

/// Descriptions between packets must not cost a list of all interfaces each: 20,000 of
/// them had taken gigabytes.
#[test]
fn many_interfaces_between_packets_share_their_lists() {
    let mut bytes = section(false);
    for i in 0..3_000 {
        bytes.extend(interface(1, 0, &[(2, format!("if{i}").as_bytes())], false));
        bytes.extend(packet(i, 7, b"packet", 6, false));
    }
    let mut reader = reader(&bytes, &blocks(1 << 20)).unwrap();
    let (mut packets, mut batches) = (0, 0);
    while let Some(batch) = reader.receive().unwrap() {
        packets += batch.len();
        batches += 1;
    }
    assert_eq!(packets, 3_000);
    assert!(batches <= 3_000_usize.div_ceil(256), "{batches} batches");
}
