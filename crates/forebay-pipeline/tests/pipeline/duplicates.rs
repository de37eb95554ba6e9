//! Copies of a mirror port are dropped, and nothing else.

use crate::support::*;
use forebay_packet::HashKey;
use forebay_pipeline::stages::OPTIONAL;
use forebay_pipeline::{Chain, GroupStages, Place, Settings};

const WINDOW: u64 = 2_000_000;

fn chain(window: &str) -> Chain {
    Chain::new().with_optional(Place::BehindFilter, HashKey::OFFLINE).configured(&stages(window))
}

/// Settings with a window, or without the stage where it is empty.
fn stages(window: &str) -> Settings {
    let mut stages = GroupStages::default();
    if !window.is_empty() {
        let kind = OPTIONAL.iter().find(|stage| stage.key == "duplicates").unwrap();
        stages.add(kind, window.into()).unwrap();
    }
    Settings::new().with(stages)
}

/// Which of the packets pass.
fn passed(chain: &mut Chain, packets: &[(u64, Vec<u8>)]) -> Vec<bool> {
    let out = through(chain, batches(packets, 3));
    assert!(chain.rows().iter().all(|row| row.closes()));
    let mut passed = crate::support::packets(&out).into_iter().peekable();
    packets.iter().map(|packet| passed.next_if_eq(packet).is_some()).collect()
}

/// As a router sends it on: other stations, a tag, one hop less.
fn routed(packet: &[u8]) -> Vec<u8> {
    let mut copy = vec![7; 12];
    copy.extend([0x81, 0, 0, 5]);
    copy.extend(&packet[12..]);
    copy[18 + 8] -= 1;
    copy[18 + 10..18 + 12].copy_from_slice(&[0xab, 0xcd]);
    // Frames are padded to 60 bytes.
    copy.resize(60, 0);
    copy
}

fn ipv6(hops: u8, last: u8) -> Vec<u8> {
    let mut packet = vec![2; 12];
    packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 3, 59, hops]);
    packet.extend([9; 32]);
    packet.extend([1, 2, last]);
    packet
}

#[test]
fn copies_are_dropped_within_the_window_alone() {
    let packet = whole(1, 2, (3, 4));
    let sequence = [
        (0, packet.clone()),
        (1_000_000, routed(&packet)),
        (WINDOW, packet.clone()),
        (WINDOW + 1, packet.clone()),
        (WINDOW + 2, whole(1, 2, (3, 5))),
        (WINDOW + 3, ipv6(64, 3)),
        (WINDOW + 4, ipv6(63, 3)),
        (WINDOW + 5, ipv6(64, 4)),
    ];
    let expected = [true, false, false, true, true, true, false, true];
    assert_eq!(passed(&mut chain("2ms"), &sequence), expected);
    assert_eq!(passed(&mut chain(""), &sequence), [true; 8]);
}

#[test]
fn what_is_not_ip_is_a_copy_when_all_of_it_is() {
    let arp = |first: u8| [vec![first; 12], vec![8, 6, 0, 1, 8, 0], vec![5; 24]].concat();
    let sequence = [(0, arp(1)), (1, arp(1)), (2, arp(2)), (3, vec![]), (4, vec![]), (5, vec![0])];
    let expected = [true, false, true, true, false, true];
    assert_eq!(passed(&mut chain("2ms"), &sequence), expected);
}

#[test]
fn times_that_jump_drop_nothing() {
    let packet = whole(1, 2, (3, 4));
    let times = [1_u64 << 62, 5, 1 << 61, 3 * WINDOW];
    let sequence = times.map(|time| (time, packet.clone()));
    assert_eq!(passed(&mut chain("2ms"), &sequence), [true, true, true, true]);
}

#[test]
fn a_flood_drops_nothing_that_came_once() {
    let mut chain = chain("2ms");
    for round in 0..40_u16 {
        let flood: Vec<_> =
            (0..10_000_u16).map(|i| (u64::from(i), whole(1, 2, (i, round)))).collect();
        assert_eq!(packets(&through(&mut chain, batches(&flood, 256))).len(), 10_000);
    }
}

#[test]
fn a_window_that_ends_or_begins_loses_nothing() {
    let packet = (0, whole(1, 2, (3, 4)));
    let mut chain = chain("2ms");
    let twice = [packet.clone(), packet];
    assert_eq!(passed(&mut chain, &twice), [true, false]);
    reload(&mut chain, &stages(""));
    assert_eq!(passed(&mut chain, &twice), [true, true]);
    reload(&mut chain, &stages("1us"));
    assert_eq!(passed(&mut chain, &twice), [true, false]);
    reload(&mut chain, &Settings::new());
    assert_eq!(passed(&mut chain, &twice), [false, false], "as before");
    reload(&mut chain, &stages("2us"));
    assert_eq!(passed(&mut chain, &twice), [false, false], "the stage stays");
    let row = &chain.rows()[0];
    assert_eq!((row.input, row.output), (8, 2), "the account goes on: {row:?}");
}
