//! Batches filled, cut down and compacted.

use super::*;

fn batch_of(n: usize) -> Batch {
    let mut region = Region::new(n * 10).unwrap();
    for (i, b) in region.bytes_mut().iter_mut().enumerate() {
        *b = (i / 10) as u8;
    }
    let mut batch = Batch::new(Arc::new(region), Arc::new(vec![Interface::default()]));
    for i in 0..n {
        let meta = PacketMeta {
            offset: i as u32 * 10,
            cap_len: 10,
            wire_len: 100,
            ticks: i as u64,
            interface: 0,
        };
        batch.push(meta).unwrap();
    }
    batch
}

#[test]
fn a_batch_takes_256_packets_and_no_more() {
    let mut batch = batch_of(BATCH);
    assert_eq!(batch.push(batch.meta(0)), Err(Full));
    assert_eq!(batch.live().count(), BATCH);
    assert_eq!(batch.live().iter().collect::<Vec<_>>(), (0..BATCH).collect::<Vec<_>>());
}

#[test]
fn packets_gathered_are_as_packets_one_by_one() {
    let meta = |i: usize, whole: bool, timed: bool, interface| PacketMeta {
        offset: i as u32 * 10,
        cap_len: 10,
        wire_len: if whole { 10 } else { 10 + i as u32 % 3 },
        ticks: if timed { i as u64 * 7 } else { 0 },
        interface,
    };
    for (whole, timed, interface) in [(true, true, 0), (false, true, 0), (true, false, 1)] {
        for one_by_one in [0, 1, 100, BATCH] {
            let region = Arc::new(Region::new(BATCH * 10).unwrap());
            let interfaces = Arc::new(vec![Interface::default(); 2]);
            let mut expected = Batch::new(Arc::clone(&region), Arc::clone(&interfaces));
            let mut batch = Batch::new(region, interfaces);
            let meta = |i| meta(i, whole, timed, interface);
            (0..BATCH).for_each(|i| expected.push(meta(i)).unwrap());
            (0..one_by_one).for_each(|i| batch.push(meta(i)).unwrap());
            let mut rest = (one_by_one..2 * BATCH).map(meta);
            batch.fill(|| rest.next());
            assert_eq!((batch.len(), batch.live()), (BATCH, expected.live()));
            assert_eq!(batch.wire_bytes(), expected.wire_bytes());
            let (places, mut nanos) = ([0, 3, BATCH as u16 - 1], Vec::new());
            batch.nanos_at(&places, &mut nanos);
            assert_eq!(nanos, places.map(|place| expected.nanos(place.into())));
            for i in 0..BATCH {
                assert_eq!(batch.meta(i), expected.meta(i));
            }
        }
    }
}

#[test]
#[should_panic(expected = "packet outside its region")]
fn packets_gathered_must_lie_in_the_region() {
    let mut batch = batch_of(1);
    let outside = PacketMeta { offset: 5, ..batch.meta(0) };
    let mut packets = [batch.meta(0), outside].into_iter();
    batch.fill(|| packets.next());
}

#[test]
fn compacted_batches_have_what_was_live_in_order() {
    for kept in [1, 2, 3, 300] {
        let batch = batch_of(200);
        let mut compacted = batch.clone();
        compacted.hash = (0..200).collect();
        for i in (0..200).filter(|i| i % kept != 0) {
            compacted.drop_packet(i);
        }
        compacted.compact_indices();
        let expected: Vec<usize> = (0..200).step_by(kept).collect();
        assert_eq!(compacted.len(), expected.len());
        assert_eq!(compacted.live().iter().count(), expected.len());
        for (i, was) in expected.into_iter().enumerate() {
            assert!(compacted.live().contains(i));
            assert_eq!(compacted.meta(i), batch.meta(was));
            assert_eq!(compacted.hash[i], was as u64);
        }
        assert!(compacted.verdict.is_empty());
    }
}

#[test]
fn swapping_what_was_found_leaves_packets_where_they_are() {
    let (mut few, mut many) = (batch_of(3), batch_of(200));
    (few.hash, many.hash) = (vec![7; 3], vec![8; 200]);
    std::mem::swap(&mut *few, &mut *many);
    assert_eq!((few.hash.len(), many.hash.len()), (200, 3));
    assert_eq!((few.len(), many.len()), (3, 200));
    let end = |batch: &Batch| batch.offset(batch.len() - 1) + batch.cap_len(batch.len() - 1);
    assert!([&few, &many].iter().all(|batch| end(batch) as usize == batch.region().len()));
}

#[test]
fn packets_that_end_in_another_line_are_noticed() {
    let mut batch =
        Batch::new(Arc::new(Region::new(4096).unwrap()), Arc::new(vec![Interface::default()]));
    let meta =
        |offset, cap_len| PacketMeta { offset, cap_len, wire_len: cap_len, ticks: 0, interface: 0 };
    batch.push(meta(52, 76)).unwrap();
    batch.push(meta(64 + 52, 13)).unwrap();
    assert!(!batch.frames().any_longer_than_a_line());
    batch.push(meta(128 + 52, 77)).unwrap();
    assert!(batch.frames().any_longer_than_a_line());
}

#[test]
#[should_panic(expected = "packet outside its region")]
fn a_packet_must_lie_in_the_region() {
    let mut batch = batch_of(2);
    let _ = batch.push(PacketMeta { offset: 15, ..batch.meta(0) });
}

#[test]
fn compact_keeps_what_is_known_of_live_packets() {
    let mut batch = batch_of(200);
    batch.hash = (0..200).collect();
    for i in (0..200).filter(|i| i % 3 != 0) {
        batch.drop_packet(i);
    }
    let copy = batch.compact().unwrap();
    assert_eq!(copy.len(), 67);
    assert_eq!(copy.region().len(), 670);
    for i in 0..copy.len() {
        assert_eq!(copy.packet(i), &[(i * 3) as u8; 10]);
        assert_eq!((copy.hash[i], copy.ticks(i)), (i as u64 * 3, i as u64 * 3));
    }
}
