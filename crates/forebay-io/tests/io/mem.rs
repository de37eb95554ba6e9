//! Rings in memory: what goes in comes out, in order, or is counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::live::{Seen, assert_same, batch_of, frame, loss, receive_all, send, sent_in_all};
use forebay_io::mem::{Replay, RingOptions, RingRx, Sink, WhenFull, ring};
use forebay_io::{Received, Rx, Tx};
use forebay_packet::{
    Annotation, Arena, Batch, Interface, LabelField, LinkType, LiveMask, MacAddress, RateLabel,
    Rewrite, Rewrites,
};
use forebay_testkit::make;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn options(slots: usize) -> RingOptions {
    RingOptions { slots, max_len: 256, ..RingOptions::default() }
}

fn next(rx: &mut RingRx) -> Batch {
    match rx.receive().unwrap() {
        Received::Batch(batch) => batch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn packets_go_through_a_ring_many_times_its_size() {
    let (mut tx, mut rx) = ring(&options(64)).unwrap();
    let mut seen = Seen::default();
    for sequence in 0..1000 {
        let frames: Vec<_> =
            (0..10).map(|flow| frame(flow, sequence, 60 + flow as usize * 13, &[])).collect();
        send(&mut tx, &frames);
        seen.note_all(&next(&mut rx));
    }
    assert_eq!((seen.count, seen.missing), (10_000, 0));
    assert_eq!(rx.counters().unwrap().packets, 10_000);
    let counters = tx.counters().unwrap();
    assert_eq!((counters.packets, counters.held), (10_000, 0));
    assert!(matches!(rx.receive().unwrap(), Received::Idle));
    drop(tx);
    assert!(matches!(rx.receive().unwrap(), Received::End));
}

#[test]
fn a_full_ring_loses_and_counts() {
    let (mut tx, mut rx) = ring(&options(64)).unwrap();
    let frames: Vec<_> = (0..100).map(|i| frame(0, i, 60, &[])).collect();
    send(&mut tx, &frames);
    let counters = tx.counters().unwrap();
    assert_eq!((counters.held, loss(&counters.losses, "ring_full")), (64, 36));
    let got = receive_all(&mut rx);
    assert_same(&got, &frames[..64]);
    let counters = tx.counters().unwrap();
    assert_eq!((counters.packets, counters.held, sent_in_all(&counters)), (64, 0, 100));
}

#[test]
fn a_sender_may_wait_for_the_reader_but_not_for_ever() {
    let when_full = WhenFull::Wait(Duration::from_secs(20));
    let (mut tx, mut rx) = ring(&RingOptions { when_full, ..options(64) }).unwrap();
    let reader = std::thread::spawn(move || {
        let mut seen = Seen::default();
        loop {
            match rx.receive().unwrap() {
                Received::Batch(batch) => seen.note_all(&batch),
                Received::Idle => std::thread::yield_now(),
                Received::End => return seen,
            }
        }
    });
    for sequence in 0..200 {
        let frames: Vec<_> = (0..100).map(|flow| frame(flow, sequence, 64, &[])).collect();
        send(&mut tx, &frames);
    }
    drop(tx);
    let seen = reader.join().unwrap();
    assert_eq!((seen.count, seen.missing), (20_000, 0));

    let when_full = WhenFull::Wait(Duration::from_millis(20));
    let (mut tx, rx) = ring(&RingOptions { when_full, ..options(1) }).unwrap();
    let start = Instant::now();
    send(&mut tx, &[frame(0, 0, 60, &[]), frame(0, 1, 60, &[]), frame(0, 2, 60, &[])]);
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(loss(&tx.counters().unwrap().losses, "ring_full"), 2);
    drop(rx);
    send(&mut tx, &[frame(0, 3, 60, &[])]);
    assert_eq!(loss(&tx.counters().unwrap().losses, "no_reader"), 1);
}

#[test]
fn a_held_batch_keeps_its_bytes_and_only_what_lies_behind_it_waits() {
    let (mut tx, mut rx) = ring(&options(16)).unwrap();
    let sent: Vec<_> = (0..4).map(|i| frame(0, i, 100, &[])).collect();
    send(&mut tx, &sent);
    let held = next(&mut rx);
    send(&mut tx, &(4..8).map(|i| frame(0, i, 100, &[])).collect::<Vec<_>>());
    let later = next(&mut rx);
    drop(later);
    // Eight slots are free behind the two batches; those of the later one come back only
    // after the earlier one's.
    send(&mut tx, &(8..20).map(|i| frame(0, i, 100, &[])).collect::<Vec<_>>());
    assert_eq!(loss(&tx.counters().unwrap().losses, "ring_full"), 4);
    let copy = held.clone();
    drop(held);
    for (i, frame) in sent.iter().enumerate() {
        assert_eq!(copy.packet(i), frame, "kept by the copy");
    }
    assert_eq!(tx.counters().unwrap().held, 16);
    drop(copy);
    assert_eq!(tx.counters().unwrap().held, 8);
    assert_eq!(receive_all(&mut rx).len(), 8);
    assert_eq!(tx.counters().unwrap().held, 0);
}

#[test]
fn a_sleeping_reader_is_woken() {
    let (mut tx, mut rx) = ring(&options(64)).unwrap();
    let reader = std::thread::spawn(move || {
        let mut seen = Seen::default();
        let mut waits = 0;
        loop {
            match rx.receive().unwrap() {
                Received::Batch(batch) => seen.note_all(&batch),
                Received::End => return (seen, waits),
                Received::Idle => {
                    waits += 1;
                    let fd = rx.descriptor().unwrap();
                    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
                    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit));
                    assert_eq!(ready, Ok(1), "a packet came and nobody was told");
                }
            }
        }
    });
    for sequence in 0..300 {
        if sequence % 3 == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
        send(&mut tx, &[frame(0, sequence, 60, &[])]);
    }
    drop(tx);
    let (seen, waits) = reader.join().unwrap();
    assert_eq!((seen.count, seen.missing), (300, 0));
    assert!(waits < 2000, "{waits} waits for 300 packets: it does not sleep");
}

#[test]
fn only_chosen_packets_go_and_as_their_output_wants_them() {
    let (mut tx, mut rx) = ring(&options(64)).unwrap();
    let mut batch = batch_of(&(0..8).map(|i| frame(0, i, 60, &[])).collect::<Vec<_>>());
    batch.drop_packet(1);
    batch.output = vec![0, 0, 1, 1, 2, 2, 0, 0];
    let mut which = LiveMask::default();
    for i in [0, 1, 2, 4, 300] {
        if i < batch.len() {
            which.insert(i);
        }
    }
    let destination = Some(MacAddress([6; 6]));
    let rewrites =
        [Rewrite { destination, ..Rewrite::NONE }, Rewrite { push_vlan: Some(5), ..Rewrite::NONE }];
    tx.send(&batch, &which, &Rewrites::from_iter(rewrites)).unwrap();
    let got = receive_all(&mut rx);
    assert_eq!(got.len(), 3);
    assert_eq!((&got[0][..6], &got[0][6..]), (&[6; 6][..], &frame(0, 0, 60, &[])[6..]));
    assert_eq!(got[1], frame(0, 2, 64, &[[0x81, 0, 0, 5]]));
    assert_eq!(got[2], frame(0, 4, 60, &[]), "no change for an output past the list");
    let long = batch_of(&[frame(0, 9, 400, &[])]);
    tx.send(&long, &long.live(), &Rewrites::NONE).unwrap();
    assert_eq!(loss(&tx.counters().unwrap().losses, "too_long"), 1);
}

#[test]
fn frames_go_out_with_their_labels() {
    let frame = make::udp(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2), &[5; 40]);
    let mut batch = batch_of(&vec![frame.clone(); 3]);
    let labels = [RateLabel::new(1_000.0, 0), RateLabel::NONE, RateLabel::new(2_000.0, 0)];
    batch.label = labels.to_vec();
    batch.output = vec![0, 0, 1];
    let label = Some(LabelField::Dscp);
    let rewrites = [
        Rewrite { label, ..Rewrite::NONE },
        Rewrite { label, push_vlan: Some(5), slice: Some(60), ..Rewrite::NONE },
    ];
    let (mut tx, mut rx) = ring(&options(64)).unwrap();
    tx.send(&batch, &batch.live(), &Rewrites::from_iter(rewrites)).unwrap();
    let got = receive_all(&mut rx);
    let mut sink = Sink::new(4).unwrap();
    sink.send(&batch, &batch.live(), &Rewrites::from_iter(rewrites)).unwrap();
    // 1 kbit/s is code point 1, and twice that 3; the class is behind the version, and the tag.
    for (i, (at, class)) in [(15, 4), (15, 0), (19, 12)].into_iter().enumerate() {
        assert_eq!(got[i][at], class, "{i}");
        assert_eq!(sink.recent(2 - i, 200).unwrap()[..got[i].len()], got[i][..], "{i}");
    }
    assert_eq!(got[1], frame, "no label is code point 0, as it was");
    // On a link that is not Ethernet no header is looked for.
    let raw = Interface { link: LinkType::RAW, ..Interface::default() };
    let mut arena = Arena::new(1, 200).unwrap();
    assert!(arena.push(&frame, frame.len() as u32, 0, 0));
    let mut batch = arena.into_batches(&Arc::new(vec![raw])).remove(0);
    batch.label = labels[..1].to_vec();
    sink.send(&batch, &batch.live(), &Rewrites::from_iter(rewrites)).unwrap();
    assert_eq!(sink.recent(0, 200).unwrap()[..frame.len()], frame);
}

#[test]
fn packets_of_suspect_flows_go_out_with_a_mark() {
    let frame = make::udp(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2), &[5; 40]);
    let mut batch = batch_of(&vec![frame.clone(); 4]);
    batch.suspect.insert(1);
    batch.suspect.insert(2);
    batch.output = vec![0, 0, 1, 1];
    let with = |annotation| Rewrite { annotation: Some(annotation), ..Rewrite::NONE };
    let rewrites = [with(Annotation::Dscp(46)), with(Annotation::Vlan(7))];
    let (mut tx, mut rx) = ring(&options(64)).unwrap();
    tx.send(&batch, &batch.live(), &Rewrites::from_iter(rewrites)).unwrap();
    let got = receive_all(&mut rx);
    assert_eq!((&got[0], &got[3]), (&frame, &frame));
    let mut marked = frame.clone();
    marked[15] = 46 << 2;
    // The checksum of a header (RFC 791): its words add up to 0xffff.
    let words = got[1][14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let before = frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let before: u32 = before.sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), (before & 0xffff) + (before >> 16));
    marked[24..26].copy_from_slice(&got[1][24..26]);
    assert_eq!(got[1], marked);
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    assert_eq!(got[2], tagged);
}

#[test]
fn what_cannot_be_a_ring_is_refused() {
    for (slots, max_len) in [(0, 64), (3, 64), (64, usize::MAX), (1 << 40, 64)] {
        let refused = ring(&RingOptions { slots, max_len, ..RingOptions::default() });
        assert!(refused.is_err(), "{slots} {max_len}");
    }
}

#[test]
fn batches_are_played_again_and_a_sink_takes_all() {
    let first = batch_of(&[frame(0, 0, 60, &[]), frame(0, 1, 1500, &[])]);
    let second = batch_of(&[frame(0, 2, 100, &[])]);
    let mut rx = Replay::new(vec![first, second], 3);
    let mut tx = Sink::new(4).unwrap();
    let rewrite = [Rewrite { source: Some(MacAddress([7; 6])), ..Rewrite::NONE }];
    let mut batches = 0;
    while let Received::Batch(batch) = rx.receive().unwrap() {
        tx.send(&batch, &batch.live(), &Rewrites::from_iter(rewrite)).unwrap();
        batches += 1;
    }
    assert!(matches!(rx.receive().unwrap(), Received::End));
    assert_eq!((batches, rx.counters().unwrap().packets), (6, 9));
    let counters = tx.counters().unwrap();
    assert_eq!((counters.packets, counters.bytes), (9, 3 * 1660));
    let last = tx.recent(0, 100).unwrap();
    assert_eq!((&last[6..12], &last[12..]), (&[7; 6][..], &frame(0, 2, 100, &[])[12..]));
    assert_eq!(tx.recent(2, 60).unwrap()[12..], frame(0, 0, 60, &[])[12..]);
    assert!(tx.recent(4, 60).is_none(), "the ring keeps four");
    assert!(matches!(Replay::new(Vec::new(), 5).receive().unwrap(), Received::End));
    assert!(matches!(
        Replay::new(vec![batch_of(&[[0_u8; 60]])], 0).receive().unwrap(),
        Received::End
    ));
}
