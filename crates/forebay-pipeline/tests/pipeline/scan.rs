//! Scanning as a stage: which packets are suspect, why, and what groups get of them.

use std::sync::Arc;

use forebay_packet::HashKey;
use forebay_packet::random::Random;
use forebay_pipeline::stages::{
    CompiledScan, Hits, MOST_COUNTED, OPTIONAL, Scan, ScanMode, ScanOptions,
};
use forebay_pipeline::{Chain, GroupStages, Place, Settings};
use forebay_scan::reassembly::{Limits, Uncertainty};
use forebay_scan::{Engine, LiteralSet};

use crate::support::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A set of literals, compiled.
pub fn compiled(mode: ScanMode, literals: &[&[u8]]) -> Arc<CompiledScan> {
    with_options(ScanOptions::new(mode, Engine::default()), literals)
}

pub fn with_options(options: ScanOptions, literals: &[&[u8]]) -> Arc<CompiledScan> {
    let mut set = LiteralSet::new();
    literals.iter().for_each(|literal| assert!(set.push(literal, false).is_ok()));
    Arc::new(CompiledScan::new(set, options, None).unwrap())
}

fn chain(scan: &Arc<CompiledScan>) -> Chain {
    Chain::new().with(Scan::optional(Some(Arc::clone(scan)), HashKey::OFFLINE))
}

pub fn udp_packet(from: u8, to: u8, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len() as u16).to_be_bytes();
    let header = [ports.0.to_be_bytes(), ports.1.to_be_bytes(), len, [0, 0]].concat();
    ipv4(from, to, 17, 0, 0, &[&header, payload].concat())
}

pub fn tcp_packet(from: u8, to: u8, flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let ports = if from < to { [4000u16, 80] } else { [80, 4000] }.map(u16::to_be_bytes).concat();
    let rest = [0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    let header = [&ports[..], &sequence.to_be_bytes(), &[0; 4], &rest].concat();
    ipv4(from, to, 6, 0, 0, &[&header, payload].concat())
}

/// A TCP packet with an acknowledgment number.
pub fn acknowledging(number: u32, mut packet: Vec<u8>) -> Vec<u8> {
    packet[42..46].copy_from_slice(&number.to_be_bytes());
    packet
}

/// A SYN of 1 to 2, and the answer: the first bytes have the numbers 101 and 501.
fn opening() -> Vec<Vec<u8>> {
    vec![tcp_packet(1, 2, SYN, 100, b""), acknowledging(101, tcp_packet(2, 1, SYN | ACK, 500, b""))]
}

/// Whether each packet is suspect, where packets come one microsecond after another.
pub fn suspects(chain: &mut Chain, packets: &[Vec<u8>]) -> Vec<bool> {
    let timed: Vec<_> = (0..).map(|i| i * 1000).zip(packets.iter().cloned()).collect();
    let out = through(chain, batches(&timed, 7));
    out.iter().flat_map(|batch| batch.live().iter().map(|i| batch.suspect.contains(i))).collect()
}

#[test]
fn a_flow_is_suspect_from_its_hit_on_and_others_are_not() {
    for mode in ScanMode::ALL {
        let scan = compiled(mode, &[b"evil", b"never"]);
        let mut chain = chain(&scan);
        let (one, other) = ((1000, 53), (1001, 53));
        let packets = [
            udp_packet(1, 2, one, b"good"),
            udp_packet(1, 2, other, b"good"),
            udp_packet(2, 1, (53, 1000), b"so evil, evil"),
            udp_packet(1, 2, one, b"good"),
            udp_packet(1, 2, other, b"good"),
            udp_packet(2, 1, (53, 1000), b"good"),
        ];
        let expected = [false, false, true, true, false, true];
        assert_eq!(suspects(&mut chain, &packets), expected, "{mode}");
        let remarks = chain.remarks();
        assert_eq!((remarks.get("scan_packets_hit"), remarks.get("scan_flows_hit")), (1, 1));
        assert_eq!(remarks.get("scan_packets_suspect"), 3);
        assert_eq!(scan.hits().read(), Hits { literals: vec![(0, 1)], others: 0 });
    }
}

#[test]
fn literals_across_segments_are_found_in_streams_only() {
    // In order, and the other way round.
    for order in [[0, 1], [1, 0]] {
        let parts = [(101, &b"so ev"[..]), (106, &b"il!"[..])];
        let mut packets = vec![tcp_packet(1, 2, SYN, 100, b"")];
        packets.extend(order.map(|i| tcp_packet(1, 2, ACK, parts[i].0, parts[i].1)));
        packets.push(tcp_packet(2, 1, SYN | ACK, 500, b""));
        let streams = suspects(&mut chain(&compiled(ScanMode::Stream, &[b"evil"])), &packets);
        // Bytes that come early are suspect until those before them come.
        assert_eq!(streams, [false, order == [1, 0], true, true]);
        let alone = suspects(&mut chain(&compiled(ScanMode::Packet, &[b"evil"])), &packets);
        assert_eq!(alone, [false; 4]);
    }
}

#[test]
fn every_doubt_makes_a_flow_suspect_and_is_counted() {
    let doubt = |packets: &[Vec<u8>], cause: Uncertainty| {
        let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
        let suspects = suspects(&mut chain, packets);
        let remark = format!("scan_doubt_{cause}");
        assert_eq!((suspects.last(), chain.remarks().get(&remark)), (Some(&true), 1), "{cause}");
    };
    let start = tcp_packet(1, 2, SYN, 100, b"");
    doubt(&[first(1, 2, 7, (1, 2))], Uncertainty::Fragment);
    doubt(&[later(1, 2, 7)], Uncertainty::Fragment);
    doubt(&[tcp_packet(1, 2, ACK, 101, b"abc")], Uncertainty::Middle);
    let overlap =
        [start.clone(), tcp_packet(1, 2, ACK, 101, b"abc"), tcp_packet(1, 2, ACK, 101, b"abd")];
    doubt(&overlap, Uncertainty::Overlap);
    let mut unknown = start.clone();
    unknown[12..14].copy_from_slice(&[0x12, 0x34]);
    doubt(&[unknown], Uncertainty::Undecoded);
    let mut cut = start.clone();
    cut.truncate(36);
    doubt(&[cut], Uncertainty::Truncated);
}

#[test]
fn a_reset_with_bytes_is_a_doubt() {
    let mut packets = opening();
    packets.push(tcp_packet(1, 2, RST | ACK, 101, b"evil"));
    packets.push(tcp_packet(1, 2, ACK, 101, b"good"));
    let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
    assert_eq!(suspects(&mut chain, &packets), [false, false, true, true]);
    assert_eq!(chain.remarks().get("scan_doubt_reset"), 1);
}

#[test]
fn a_suspect_flow_stays_so_whatever_resets_and_syns_come() {
    for mode in ScanMode::ALL {
        let mut chain = chain(&compiled(mode, &[b"evil"]));
        // A reset that no receiver accepts, silence, a SYN that none accepts, and the rest.
        let packets = [
            (0, tcp_packet(1, 2, SYN, 100, b"")),
            (0, tcp_packet(1, 2, ACK, 101, b"evil")),
            (0, tcp_packet(1, 2, RST, 77, b"")),
            (0, tcp_packet(1, 2, SYN, 999_999, b"")),
            (0, tcp_packet(2, 1, ACK, 501, b"good")),
            (30, tcp_packet(1, 2, ACK, 105, b"good")),
            (60, tcp_packet(1, 2, SYN, 1, b"")),
            (61, tcp_packet(1, 2, ACK, 2, b"good")),
            (300, tcp_packet(1, 2, SYN, 1, b"")),
        ];
        let timed: Vec<_> =
            packets.into_iter().map(|(seconds, packet)| (seconds * SECOND, packet)).collect();
        let out = through(&mut chain, batches(&timed, 1));
        let found: Vec<usize> = out.iter().map(|batch| batch.suspect.count()).collect();
        assert_eq!(found, [0, 1, 1, 1, 1, 1, 1, 1, 0], "{mode}");
    }
}

#[test]
fn no_reset_and_syn_hide_a_literal_that_they_part() {
    // The SYN is one that the receiver ignores; the bytes behind it continue the old stream.
    for (both_directions, silence) in [(false, 0), (false, 7), (true, 0), (true, 7)] {
        let mut packets = if both_directions { opening() } else { opening()[..1].to_vec() };
        packets.push(tcp_packet(1, 2, ACK, 101, b"ev"));
        packets.push(tcp_packet(1, 2, RST, 77, b""));
        let before = packets.len();
        packets.push(tcp_packet(1, 2, SYN, 102, b""));
        packets.push(tcp_packet(1, 2, ACK, 103, b"il"));
        let times = (0..).map(|i| if i < before { 0 } else { silence * SECOND });
        let timed: Vec<_> = times.zip(packets).collect();
        let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
        let out = through(&mut chain, batches(&timed, 1));
        let found: Vec<usize> = out.iter().map(|batch| batch.suspect.count()).collect();
        assert_eq!(found[before..], [1, 1], "{both_directions} {silence}");
        assert_eq!(chain.remarks().get("scan_doubt_syn"), 1);
    }
}

#[test]
fn connections_between_the_same_ends_are_told_apart_where_that_is_certain() {
    let mut packets = opening();
    packets.push(tcp_packet(1, 2, ACK, 101, b"ev"));
    packets.push(tcp_packet(1, 2, RST, 103, b""));
    // Retransmitted, too.
    packets.extend([(); 2].map(|()| tcp_packet(1, 2, SYN, 7_000_000, b"")));
    packets.push(acknowledging(7_000_001, tcp_packet(2, 1, SYN | ACK, 900, b"")));
    packets.push(tcp_packet(1, 2, ACK, 7_000_001, b"il"));
    packets.push(tcp_packet(1, 2, FIN | ACK, 7_000_003, b""));
    packets.push(acknowledging(7_000_004, tcp_packet(2, 1, FIN | ACK, 901, b"")));
    packets.push(tcp_packet(1, 2, SYN, 3_000_000, b""));
    packets.push(tcp_packet(1, 2, ACK, 3_000_001, b"ev"));
    let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
    assert_eq!(suspects(&mut chain, &packets), [false; 12]);
}

#[test]
fn bytes_that_were_acknowledged_and_not_seen_are_a_doubt() {
    let mut packets = opening();
    packets.push(acknowledging(601, tcp_packet(2, 1, ACK, 501, b"")));
    packets.push(acknowledging(601, tcp_packet(2, 1, ACK, 501, b"reply")));
    packets.push(acknowledging(506, tcp_packet(1, 2, FIN | ACK, 601, b"")));
    packets.push(acknowledging(602, tcp_packet(2, 1, FIN | ACK, 506, b"")));
    let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
    assert_eq!(suspects(&mut chain, &packets), [false, false, false, false, true, true]);
    assert_eq!(chain.remarks().get("scan_doubt_gap"), 1);
}

#[test]
fn packets_are_suspect_while_bytes_are_missing() {
    let packets = [
        tcp_packet(1, 2, SYN, 100, b""),
        tcp_packet(1, 2, ACK, 102, b"evil"),
        tcp_packet(1, 2, FIN | ACK, 106, b""),
    ];
    let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
    assert_eq!(suspects(&mut chain, &packets), [false, true, true]);
    assert_eq!(chain.remarks().get("scan_packets_waiting"), 2);
    // The byte comes, and with it the end of the doubt, or the literal.
    for (payload, expected) in [(b"good", false), (b"evil", true)] {
        let packets = [
            tcp_packet(3, 4, SYN, 100, b""),
            tcp_packet(3, 4, ACK, 102, payload),
            tcp_packet(3, 4, ACK, 101, b" "),
            tcp_packet(3, 4, ACK, 106, b"."),
        ];
        let scan = compiled(ScanMode::Stream, &[b"evil"]);
        let found = suspects(&mut self::chain(&scan), &packets);
        assert_eq!(found, [false, true, expected, expected]);
    }
}

#[test]
fn tunnels_that_are_not_decoded_are_a_doubt() {
    let inner = tcp_packet(1, 2, SYN, 100, b"");
    let gre = |packet: &[u8]| ipv4(7, 8, 47, 0, 0, &[&[0, 0, 8, 0], packet].concat());
    let nested = |depth: usize| (0..depth).fold(inner.clone(), |packet, _| gre(&packet[14..]));
    let teredo = |prefix: &[u8], cut: usize| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        packet.extend([&[0; 15], &[1][..], &[0; 15], &[2], &inner[34..54]].concat());
        packet.truncate(packet.len() - cut);
        udp_packet(7, 8, (3544, 3544), &[prefix, &packet].concat())
    };
    let with_depth = |tunnel_depth: u8, packet: Vec<u8>| {
        let options = ScanOptions::new(ScanMode::Stream, Engine::default());
        let decode = forebay_packet::DecodeOptions { tunnel_depth, ..options.decode };
        let scan = with_options(ScanOptions { decode, ..options }, &[b"evil"]);
        let mut chain = chain(&scan);
        let suspect = suspects(&mut chain, &[packet])[0];
        assert_eq!(chain.remarks().get("scan_doubt_undecoded"), u64::from(suspect));
        suspect
    };
    let vxlan = |flags: u8| {
        let header = [flags, 0, 0, 0, 0, 0, 1, 0];
        udp_packet(7, 8, (5000, 4789), &[&header[..], &inner].concat())
    };
    for (depth, packet, expected) in [
        (4, nested(4), false),
        (4, nested(5), true),
        (0, nested(0), false),
        (0, nested(1), true),
        (0, vxlan(8), true),
        (1, vxlan(8), false),
        // No tunnel by its header, or one with a route, which is not decoded.
        (1, vxlan(0), true),
        (4, ipv4(7, 8, 47, 0, 0, &[&[0x40, 0, 8, 0, 0, 0, 0, 0], &inner[14..]].concat()), true),
        (4, teredo(b"", 0), true),
        (4, teredo(b"\0\0abcdef", 0), true),
        (4, teredo(b"", 1), false),
        (4, teredo(b"\0\x01abcdef", 0), false),
        (4, udp_packet(7, 8, (1, 2), b""), false),
    ] {
        assert_eq!(with_depth(depth, packet.clone()), expected, "{depth} {packet:?}");
    }
}

#[test]
fn packets_cut_short_are_in_doubt_and_padding_is_none() {
    for mode in ScanMode::ALL {
        let mut arena = forebay_packet::Arena::new(2, 2048).unwrap();
        let packet = udp_packet(1, 2, (1, 2), b"some text");
        // Padding behind the datagram is cut, which the datagram is not; then the datagram too.
        let padded = [&packet[..], &[0; 4]].concat();
        assert!(arena.push(&padded, padded.len() as u32 + 10, 0, 0));
        let cut = &packet[..packet.len() - 2];
        assert!(arena.push(cut, packet.len() as u32, 0, 0));
        let interfaces = Arc::new(vec![forebay_packet::Interface::default()]);
        let mut chain = chain(&compiled(mode, &[b"evil"]));
        let out = through(&mut chain, arena.into_batches(&interfaces));
        let suspects: Vec<bool> = (0..2).map(|i| out[0].suspect.contains(i)).collect();
        assert_eq!(suspects, [false, true], "{mode}");
        assert_eq!(chain.remarks().get("scan_doubt_truncated"), 1);
    }
}

#[test]
fn packets_inside_tunnels_are_scanned_both_ways() {
    // IP in IP: a stream inside, and a literal across the inner header.
    let tunnelled = |packet: Vec<u8>| ipv4(7, 8, 4, 0, 0, &packet[14..]);
    let packets = [
        tunnelled(tcp_packet(1, 2, SYN, 100, b"")),
        tunnelled(tcp_packet(1, 2, ACK, 101, b"ev")),
        tunnelled(tcp_packet(1, 2, ACK, 103, b"il")),
    ];
    let scan = compiled(ScanMode::Stream, &[b"evil"]);
    assert_eq!(suspects(&mut chain(&scan), &packets), [false, false, true]);
    let scan = compiled(ScanMode::Stream, &[b"\xff\xff\0\0\0\0ev"]);
    assert_eq!(suspects(&mut chain(&scan), &packets), [false, true, true]);
}

#[test]
fn a_verdict_ends_with_its_flow() {
    let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
    let packet = |payload: &[u8]| udp_packet(1, 2, (1, 2), payload);
    let minute = 61 * SECOND;
    let timed = [(0, packet(b"evil")), (SECOND, packet(b"good")), (2 * minute, packet(b"good"))];
    let out = through(&mut chain, batches(&timed, 1));
    assert_eq!(out.iter().map(|batch| batch.suspect.count()).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn of_a_full_table_the_flow_with_the_longest_silence_is_forgotten() {
    let options = ScanOptions { flows: 4, ..ScanOptions::new(ScanMode::Stream, Engine::default()) };
    let mut chain = chain(&with_options(options, &[b"evil"]));
    let packets: Vec<_> = (0..100).map(|port| udp_packet(1, 2, (port, 2), b"evil")).collect();
    assert_eq!(suspects(&mut chain, &packets), [true; 100]);
    assert_eq!(chain.remarks().get("scan_flows_evicted"), 96);
}

#[test]
fn new_literals_take_effect_between_two_batches() {
    let mut chain = chain(&compiled(ScanMode::Stream, &[b"evil"]));
    let start = [tcp_packet(1, 2, SYN, 100, b""), tcp_packet(1, 2, ACK, 101, b"ba")];
    assert_eq!(suspects(&mut chain, &start), [false, false]);
    let new = compiled(ScanMode::Stream, &[b"bad"]);
    reload(&mut chain, &Settings::new().with(Some(Arc::clone(&new))));
    // What came before may be the beginning of a new literal.
    let rest = [tcp_packet(1, 2, ACK, 103, b"x"), udp_packet(1, 2, (1, 2), b"evil")];
    assert_eq!(suspects(&mut chain, &rest), [true, false]);
    assert_eq!(chain.remarks().get("scan_doubt_reload"), 1);
    let other = [udp_packet(3, 4, (1, 2), b"bad"), udp_packet(3, 5, (1, 2), b"evil")];
    assert_eq!(suspects(&mut chain, &other), [true, false]);
    // The same again changes nothing.
    reload(&mut chain, &Settings::new().with(Some(new)));
    assert_eq!(suspects(&mut chain, &[udp_packet(3, 4, (1, 2), b"x")]), [true]);
    reload(&mut chain, &Settings::new().with(None::<Arc<CompiledScan>>));
    assert_eq!(suspects(&mut chain, &[udp_packet(3, 4, (1, 2), b"bad")]), [false]);
    assert!(chain.rows()[0].closes() && chain.rows()[0].output == 8);
}

#[test]
fn groups_get_what_they_select() {
    let packets = [
        udp_packet(1, 2, (1, 2), b"good"),
        udp_packet(3, 4, (1, 2), b"evil"),
        udp_packet(3, 4, (1, 2), b"good"),
    ];
    let get = |selection: &str| {
        let mut stages = GroupStages::default();
        let stage = OPTIONAL.iter().find(|stage| stage.key == "scan").unwrap();
        stages.add(stage, selection.into()).unwrap();
        let settings = Settings::new().with(stages);
        let mut chain = chain(&compiled(ScanMode::Packet, &[b"evil"]))
            .with_optional(Place::BehindFilter, HashKey::OFFLINE)
            .configured(&settings);
        let out = suspects(&mut chain, &packets);
        let rows = chain.rows();
        assert!(rows.iter().all(|row| row.closes()));
        let drops: Vec<u64> = rows[1].drops.iter().map(|drop| drop.packets).collect();
        (out.len(), drops)
    };
    assert_eq!(get("all"), (3, vec![0, 0]));
    assert_eq!(get("hits"), (2, vec![1, 0]));
    assert_eq!(get("clean"), (1, vec![0, 2]));
}

#[test]
fn packets_of_a_suspect_flow_stay_so_if_it_ends_behind_them_in_the_batch() {
    let idle = ScanOptions::new(ScanMode::Packet, Engine::default()).idle;
    let mut chain = chain(&compiled(ScanMode::Packet, &[b"evil"]));
    let packet = |text: &[u8]| udp_packet(1, 2, (1000, 53), text);
    let batch = |packets: Vec<(u64, Vec<u8>)>| batches(&packets, packets.len());
    let mut suspects = |packets| -> Vec<bool> {
        let out = through(&mut chain, batch(packets));
        let of_batch = |batch: &forebay_packet::Batch| -> Vec<bool> {
            batch.live().iter().map(|i| batch.suspect.contains(i)).collect()
        };
        out.iter().flat_map(of_batch).collect()
    };
    assert_eq!(suspects(vec![(0, packet(b"evil"))]), [true]);
    let times = [idle / 2, idle / 2 + 1, 2 * idle, 2 * idle + 1];
    let packets = times.map(|time| (time, packet(b"good"))).to_vec();
    assert_eq!(suspects(packets), [true, true, false, false]);
}

#[test]
fn counters_are_bounded() {
    let literals: Vec<Vec<u8>> = (0..1100u16).map(|i| format!("<{i:04}>").into()).collect();
    let slices: Vec<&[u8]> = literals.iter().map(|literal| &literal[..]).collect();
    let scan = compiled(ScanMode::Packet, &slices);
    let mut chain = chain(&scan);
    let packets: Vec<_> = slices.iter().map(|text| udp_packet(1, 2, (1, 2), text)).collect();
    suspects(&mut chain, &packets);
    let hits = scan.hits().read();
    assert_eq!((hits.literals.len(), hits.others), (MOST_COUNTED, 100));
    assert_eq!(hits.literals[0], (0, 1));
}

/// Segments of `len` bytes that begin `step` behind each other, from number 101 on.
fn segments(number: u32, len: usize, step: u32) -> Vec<Vec<u8>> {
    (0..number).map(|i| tcp_packet(1, 2, ACK, 101 + i * step, &vec![b'.'; len])).collect()
}

#[test]
fn more_held_bytes_and_parts_than_a_batch_has_room_for_are_scanned() {
    let mut options = ScanOptions::new(ScanMode::Stream, Engine::default());
    options.reassembly = Limits { connection: 128 << 20, held: 128 << 20, digests: 1 << 20 };
    let scan = with_options(options, &[b"evil"]);
    // The first segment comes last, and behind it, in the same batch, the end of a literal.
    let (mut late, end) = (opening(), 101 + 300 * 1_400);
    late.extend(segments(300, 1_400, 1_400).split_off(1));
    late.push(tcp_packet(1, 2, ACK, end, b"ev"));
    late.extend(segments(1, 1_400, 0));
    late.push(tcp_packet(1, 2, ACK, end + 2, b"il"));
    let suspect = suspects(&mut chain(&scan), &late);
    assert_eq!(suspect[suspect.len() - 3..], [true, false, true]);
    // The other end has all bytes, and half of them were not seen: each other one is a part.
    for number in [1_500, 66_000] {
        let mut holes = [opening(), segments(number, 1, 2).split_off(1)].concat();
        // Behind these parts, its own stream goes on with bytes that are held.
        holes.push(tcp_packet(2, 1, ACK, 503, b"il"));
        holes.push(acknowledging(101 + 2 * number, tcp_packet(2, 1, ACK, 501, b"ev")));
        holes.push(tcp_packet(1, 2, ACK, 100 + 2 * number, b"..evil"));
        let mut chain = chain(&scan);
        assert_eq!(suspects(&mut chain, &holes).last(), Some(&true));
        let remarks = chain.remarks();
        let found = ["scan_doubt_gap", "scan_packets_hit"].map(|name| remarks.get(name));
        assert_eq!(found, [1, 2], "{number}");
    }
}

#[test]
fn streams_of_many_flows_in_any_order_are_scanned_as_one_text() {
    let mut random = Random::new(7);
    // The second is found by its first bytes, as it ends in a run: how much of a stream is filtered
    // again matters.
    let literals = [b"evilevil".to_vec(), [&b"vile"[..], &[b'z'; 40]].concat()];
    for _ in 0..60 {
        let mut packets = Vec::new();
        let mut has_literal = Vec::new();
        for flow in 0..10 {
            let mut text: Vec<u8> = (0..200).map(|_| b"evli"[random.below(4) as usize]).collect();
            if let Some(literal) = literals.get(random.below(4) as usize) {
                let at = random.below(150) as usize;
                text[at..at + literal.len()].copy_from_slice(literal);
            }
            let is_in = |literal: &Vec<u8>| text.windows(literal.len()).any(|one| one == literal);
            has_literal.push(literals.iter().any(is_in));
            // Of the second flow and others, the end with the greater address sends.
            let ends = [2 * flow + flow % 2, 2 * flow + 1 - flow % 2];
            packets.push((flow, tcp_packet(ends[0], ends[1], SYN, 100, b"")));
            // Of every second flow, some are longer than what is kept of a stream.
            let longest = [40, 120][usize::from(flow % 2)];
            let mut at = 0;
            while at < text.len() {
                let len = (1 + random.below(longest) as usize).min(text.len() - at);
                let sequence = 101 + at as u32;
                let part = &text[at..at + len];
                packets.push((flow, tcp_packet(ends[0], ends[1], ACK, sequence, part)));
                at += len;
            }
        }
        // SYNs stay in front of the others.
        let mut rest = packets.split_off(0);
        let is_start = |packet: &(u8, Vec<u8>)| packet.1[47] == SYN;
        packets.extend(rest.iter().filter(|packet| is_start(packet)).cloned());
        rest.retain(|packet| !is_start(packet));
        while !rest.is_empty() {
            packets.push(rest.swap_remove(random.below(rest.len() as u64) as usize));
        }
        let frames: Vec<_> = packets.iter().map(|(_, packet)| packet.clone()).collect();
        let slices = literals.each_ref().map(|literal| &literal[..]);
        let mut chain = chain(&compiled(ScanMode::Stream, &slices));
        let suspects = suspects(&mut chain, &frames);
        for (flow, expected) in (0..).zip(&has_literal) {
            let last = packets.iter().rposition(|(of, _)| *of == flow).unwrap();
            assert_eq!(suspects[last], *expected, "flow {flow}");
        }
        assert_eq!(
            chain.remarks().get("scan_flows_hit"),
            has_literal.iter().filter(|has| **has).count() as u64
        );
    }
}
