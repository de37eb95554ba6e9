//! Fragments go where their first goes, in order, within bounds.

use std::sync::Arc;

use crate::support::*;
use forebay_pipeline::Chain;
use forebay_pipeline::stages::{Fragments, Window};

fn chain(window: Window) -> Chain {
    Chain::new().with(classify()).with(Fragments::new(window))
}

fn remark(chain: &Chain, name: &str) -> u64 {
    chain.remarks().get(name)
}

#[test]
fn later_fragments_follow_their_first_before_and_after_it() {
    let flow = (1000, 2000);
    let input = vec![
        (0, whole(1, 2, flow)),
        (1, later(1, 2, 7)),
        (2, whole(3, 4, (5, 6))),
        (3, first(1, 2, 7, flow)),
        (4, later(1, 2, 7)),
        (5, later(1, 2, 8)),
    ];
    for size in 1..=input.len() {
        let mut chain = chain(Window::OFFLINE);
        let out = through(&mut chain, batches(&input, size));
        assert_eq!(packets(&out), input, "order and bytes, batches of {size}");
        let hash = hashes(&out);
        assert_eq!([hash[1], hash[3], hash[4]], [hash[0]; 3], "batches of {size}");
        assert_ne!(hash[5], hash[0], "of another datagram");
        assert_eq!(remark(&chain, "fragments_joined"), 2);
        assert_eq!(remark(&chain, "fragments_without_first"), 1);
    }
}

#[test]
fn a_short_wait_copies_nothing_and_a_long_one_keeps_few_regions() {
    let mut input = vec![(0, later(1, 2, 7))];
    input.extend((1..10).map(|i| (i, whole(3, 4, (5, 6)))));
    input.push((10, first(1, 2, 7, (1000, 2000))));
    let batches = batches(&input, 1);
    let regions: Vec<_> = batches.iter().map(|batch| Arc::clone(batch.region())).collect();
    let out = through(&mut chain(Window::OFFLINE), batches);
    assert_eq!(packets(&out), input);
    assert_eq!(hashes(&out)[0], hashes(&out)[10]);
    let in_place: Vec<bool> =
        out.iter().zip(&regions).map(|(batch, own)| Arc::ptr_eq(batch.region(), own)).collect();
    assert_eq!(in_place, [[true; 4].as_slice(), &[false; 7]].concat());
}

#[test]
fn orphans_of_one_datagram_stay_together_and_with_their_addresses() {
    let input = vec![(0, later(1, 2, 7)), (1, later(2, 1, 9)), (2, later(1, 2, 7))];
    let mut chain = chain(Window::OFFLINE);
    let hash = hashes(&through(&mut chain, batches(&input, 1)));
    assert_eq!([hash[1], hash[2]], [hash[0]; 2]);
    assert_eq!(remark(&chain, "fragments_without_first"), 3);
}

#[test]
fn an_identification_is_good_for_half_a_minute() {
    let input = vec![
        (0, first(1, 2, 7, (1, 1))),
        (29 * SECOND, later(1, 2, 7)),
        (31 * SECOND, later(1, 2, 7)),
        (32 * SECOND, first(1, 2, 7, (2, 2))),
    ];
    let mut chain = chain(Window::OFFLINE);
    let hash = hashes(&through(&mut chain, batches(&input, 1)));
    assert_eq!(hash[1], hash[0]);
    assert_eq!(hash[2], hash[3], "the identification was used anew");
    assert_ne!(hash[3], hash[0]);
}

#[test]
fn a_name_used_again_is_a_new_datagram_even_if_its_end_comes_first() {
    let datagram = |start: u64, ports, reversed: bool| {
        let parts = [first(1, 2, 7, ports), last(1, 2, 7)];
        let order: [usize; 2] = if reversed { [1, 0] } else { [0, 1] };
        order.map(|i| (start + i as u64, parts[i].clone())).to_vec()
    };
    let mut input = datagram(0, (1, 1), false);
    // A copy of a fragment of a whole datagram is still of that datagram.
    input.push((SECOND / 2, last(1, 2, 7)));
    input.extend(datagram(9 * SECOND, (2, 2), true));
    for size in [1, 2, 5] {
        let mut chain = chain(Window::OFFLINE);
        let hash = hashes(&through(&mut chain, batches(&input, size)));
        assert_eq!([hash[1], hash[2]], [hash[0]; 2], "batches of {size}");
        assert_eq!(hash[3], hash[4], "batches of {size}");
        assert_ne!(hash[3], hash[0]);
        assert_eq!(remark(&chain, "fragments_without_first"), 0);
    }
}

#[test]
fn a_guess_at_an_earlier_datagram_is_counted_as_a_guess() {
    let mut input = vec![(0, first(1, 2, 7, (1, 1))), (1, last(1, 2, 7))];
    // Copies of either fragment belong to the datagram, and do not renew its name.
    input.push((2, first(1, 2, 7, (1, 1))));
    input.push((SECOND / 2, last(1, 2, 7)));
    input.push((5 * SECOND, later(1, 2, 7)));
    let mut chain = chain(Window::OFFLINE);
    let hash = hashes(&through(&mut chain, batches(&input, 1)));
    assert_eq!(hash[1..4], [hash[0]; 3]);
    assert_eq!(remark(&chain, "fragments_joined"), 2);
    assert_eq!(remark(&chain, "fragments_without_first"), 1);
}

#[test]
fn on_a_slow_link_the_wait_is_that_of_the_fragment_not_of_its_batch() {
    let mut input: Vec<(u64, Vec<u8>)> =
        (0..255).map(|i| (i * SECOND, whole(3, 4, (5, 6)))).collect();
    input.push((255 * SECOND, later(1, 2, 7)));
    input.push((255 * SECOND + 10, first(1, 2, 7, (8, 9))));
    let mut chain = chain(Window::OFFLINE);
    let hash = hashes(&through(&mut chain, batches(&input, 256)));
    assert_eq!(hash[255], hash[256]);
    assert_eq!(remark(&chain, "fragments_without_first"), 0);
}

#[test]
fn the_wait_is_bounded_in_packets_bytes_and_capture_time() {
    let wide = Window::OFFLINE;
    let windows = [
        Window { packets: 10, ..wide },
        Window { bytes: 30_000, ..wide },
        Window { capture_nanos: 10_000_000, ..wide },
    ];
    for window in windows {
        let mut chain = chain(window);
        let mut input = vec![(0, later(1, 2, 7))];
        input.extend((1..200).map(|i| (i * 1_000_000, whole(3, 4, (5, 6)))));
        let mut out = Vec::new();
        let mut most_held = 0;
        for batch in batches(&input, 2) {
            chain
                .push(batch, &mut |batch| {
                    out.push(batch);
                    Ok::<(), forebay_pipeline::StageError>(())
                })
                .unwrap();
            most_held = most_held.max(chain.rows()[1].held);
            assert!(chain.rows().iter().all(|row| row.closes()));
        }
        assert!((1..=13).contains(&most_held), "{window:?} held {most_held}");
        assert_eq!(packets(&out), input);
    }
}

#[test]
fn on_a_live_link_the_wait_ends_by_the_clock() {
    let window = Window { live_nanos: Some(1_000), ..Window::OFFLINE };
    let mut chain = chain(window);
    let mut out = 0;
    let mut count = |batch: forebay_packet::Batch| {
        out += batch.live().count();
        Ok::<(), forebay_pipeline::StageError>(())
    };
    chain.tick(5, &mut count).unwrap();
    for batch in batches(&[(0, later(1, 2, 7)), (1, whole(1, 2, (3, 4)))], 2) {
        chain.push(batch, &mut count).unwrap();
    }
    chain.tick(1_005, &mut count).unwrap();
    assert_eq!(chain.rows()[1].held, 2);
    chain.tick(1_006, &mut count).unwrap();
    assert_eq!(chain.rows()[1].held, 0);
    assert_eq!(out, 2);
}

/// Each packet is the first fragment of one datagram and carries, in a tunnel, a
/// later fragment of the one before: all wait for the last link of the chain.
#[test]
fn a_long_chain_of_waiting_packets_neither_recurses_nor_tears() {
    const LINKS: u16 = 20_000;
    let link = |id: u16| {
        let inner = later(1, 2, id);
        // The outer datagram has the addresses and protocol of the next inner one.
        ipv4(1, 2, 4, id + 1, MORE, &inner[14..])
    };
    // Inner later fragments are UDP; outer firsts are IP in IP: make them match.
    let link = |id: u16| {
        let mut packet = link(id);
        packet[14 + 20 + 9] = 4;
        packet
    };
    let mut input: Vec<(u64, Vec<u8>)> = (0..LINKS).map(|id| (u64::from(id), link(id))).collect();
    let inner = ipv4(1, 2, 17, 0, 0, &udp(5, 6));
    input.push((u64::from(LINKS), ipv4(1, 2, 4, 0, MORE, &inner[14..])));
    let mut chain = chain(Window { bytes: 64 << 20, ..Window::OFFLINE });
    let out = through(&mut chain, batches(&input, 256));
    assert_eq!(packets(&out), input);
    let hash = hashes(&out);
    assert!(hash.iter().all(|h| *h == hash[0]));
    assert_eq!(remark(&chain, "fragments_joined"), u64::from(LINKS));
}

#[test]
fn a_flood_of_fragments_holds_bounded_memory_and_loses_nothing() {
    let window = Window { packets: 1_000, ..Window::OFFLINE };
    let mut chain = chain(window);
    let input: Vec<(u64, Vec<u8>)> =
        (0..100_000_u64).map(|i| (i, later((i >> 16) as u8, 2, i as u16))).collect();
    let out = through(&mut chain, batches(&input, 256));
    assert_eq!(packets(&out).len(), input.len());
    assert_eq!(remark(&chain, "fragments_without_first"), 100_000);
    assert!(chain.rows().iter().all(|row| row.closes() && row.held == 0));
}
