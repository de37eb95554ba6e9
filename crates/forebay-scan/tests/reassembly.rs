//! Reassembly against a map of all bytes sent.

mod support {
    pub mod stream_model;
}

use forebay_scan::reassembly::{
    BLOCK_BYTES, Connection, Pool, Segment, Uncertainties, Uncertainty,
};
use proptest::prelude::*;
use support::stream_model::{ACK, FIN, Judged, RST, SYN, URG, connections_of, pool};

/// A segment with a payload, from the sequence number of the stream's first byte.
fn segment(first: u32, at: u32, payload: &[u8]) -> Segment<'_> {
    Segment {
        sequence: first.wrapping_add(at),
        acknowledgment: 0,
        flags: 0,
        payload,
        sent: payload.len() as u32,
    }
}

fn syn(isn: u32) -> Segment<'static> {
    Segment { flags: SYN, ..segment(isn, 0, b"") }
}

fn ack(sequence: u32, acknowledgment: u32) -> Segment<'static> {
    Segment { flags: ACK, acknowledgment, ..segment(sequence, 0, b"") }
}

/// The causes of doubt, by name.
fn names(found: Uncertainties) -> Vec<&'static str> {
    found.iter().map(Uncertainty::name).collect()
}

/// Gives segments of direction 0 with these first bytes and payloads, after a SYN, to a
/// connection. Returns what was delivered, and the causes of doubt with those at the end.
fn doubts(segments: &[(u32, &[u8])]) -> (Vec<u8>, Vec<&'static str>) {
    let mut pool = pool(8, 8, 4);
    let mut judged = Judged::default();
    judged.segment(0, &syn(99), &mut pool);
    for &(at, payload) in segments {
        judged.segment(0, &segment(100, at, payload), &mut pool);
    }
    let delivered = judged.delivered(0).to_vec();
    (delivered, names(judged.end(&mut pool)))
}

#[test]
fn every_order_of_every_segmentation_gives_the_stream() {
    const TEXT: &[u8] = b"abcdef";
    let mut pool = pool(8, 8, 2);
    let mut orders = 0;
    for cuts in 0u32..1 << (TEXT.len() - 1) {
        let mut segments = vec![];
        let mut start = 0;
        for end in 1..=TEXT.len() {
            if end == TEXT.len() || cuts >> (end - 1) & 1 != 0 {
                segments.push(start..end);
                start = end;
            }
        }
        for order in 0..(1..=segments.len()).product() {
            let (mut left, mut order) = (segments.clone(), order);
            // The sequence number wraps somewhere inside.
            let first = u32::MAX - orders % 8;
            let mut judged = Judged::default();
            judged.segment(0, &syn(first.wrapping_sub(1)), &mut pool);
            while !left.is_empty() {
                let range = left.swap_remove(order % left.len());
                order /= left.len() + 1;
                let at = range.start as u32;
                judged.segment(0, &segment(first, at, &TEXT[range]), &mut pool);
            }
            assert_eq!(judged.delivered(0), TEXT, "{segments:?}");
            assert_eq!(names(judged.end(&mut pool)), [""; 0], "{segments:?}");
            orders += 1;
        }
    }
    // The sum over n parts of C(5, n - 1) n!.
    assert_eq!(orders, 1 + 5 * 2 + 10 * 6 + 10 * 24 + 5 * 120 + 720);
}

#[test]
fn retransmissions_of_whole_segments_are_recognised() {
    let (delivered, doubts) =
        doubts(&[(0, b"abc"), (3, b"def"), (0, b"abc"), (0, b"abcdef"), (3, b"defgh")]);
    assert_eq!((&*delivered, &*doubts), (&b"abcdefgh"[..], &[][..]));
}

#[test]
fn each_doubt_has_its_name() {
    for (segments, expected) in [
        // A retransmission with other bytes, of a delivered and of a held segment.
        (&[(0, &b"abc"[..]), (0, b"abX")][..], &["overlap"][..]),
        (&[(3, b"def"), (3, b"dXf"), (0, b"abc")], &["overlap"]),
        (&[(3, b"def"), (0, b"abcdX")], &["overlap"]),
        (&[(3, b"def"), (5, b"Xgh"), (0, b"abc")], &["overlap"]),
        // Part of a delivered segment, of which only a digest is kept.
        (&[(0, b"abc"), (1, b"bc")], &["unverified"]),
        (&[(0, b"abc"), (0, b"ab")], &["unverified"]),
        // Bytes from before the start.
        (&[(0, b"abc"), (u32::MAX, b"xabc")], &["unverified"]),
        // A hole until the end.
        (&[(0, b"abc"), (4, b"e")], &["gap"]),
        (&[(0, b"abc"), (1 << 30, b"e")], &["gap"]),
        (&[(0, b"abc"), (1 << 31, b"e")], &["out_of_window"]),
    ] {
        assert_eq!(doubts(segments).1, expected, "{segments:?}");
    }
}

#[test]
fn held_bytes_that_overlap_are_delivered_once() {
    let (delivered, doubts) =
        doubts(&[(6, b"ghi"), (2, b"cde"), (4, b"efgh"), (1, b"bcdefghij"), (0, b"ab")]);
    assert_eq!((&*delivered, &*doubts), (&b"abcdefghij"[..], &[][..]));
}

#[test]
fn acknowledged_holes_are_skipped() {
    let mut pool = pool(8, 8, 4);
    let mut judged = Judged::default();
    judged.segment(0, &syn(99), &mut pool);
    judged.segment(1, &Segment { flags: SYN | ACK, acknowledgment: 100, ..syn(499) }, &mut pool);
    judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
    judged.segment(0, &segment(100, 5, b"fgh"), &mut pool);
    // The receiver has not got the hole yet.
    judged.segment(1, &ack(500, 103), &mut pool);
    assert!(judged.uncertain.is_empty());
    judged.segment(1, &ack(500, 108), &mut pool);
    assert_eq!(names(judged.uncertain), ["gap"]);
    assert_eq!(judged.delivered(0), b"abcfgh");
    judged.segment(0, &segment(100, 8, b"ijk"), &mut pool);
    assert_eq!(judged.delivered(0), b"abcfghijk");
    judged.end(&mut pool);
}

#[test]
fn an_acknowledgment_may_overtake_what_it_acknowledges() {
    let mut pool = pool(8, 8, 4);
    let mut judged = Judged::default();
    judged.segment(0, &syn(99), &mut pool);
    judged.segment(1, &Segment { flags: SYN | ACK, acknowledgment: 100, ..syn(499) }, &mut pool);
    judged.segment(1, &ack(500, 106), &mut pool);
    judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
    judged.segment(0, &segment(100, 3, b"def"), &mut pool);
    assert_eq!(names(judged.end(&mut pool)), [""; 0]);
}

#[test]
fn bytes_that_were_acknowledged_and_not_seen_are_a_gap_at_the_end() {
    let mut pool = pool(8, 8, 4);
    let mut judged = Judged::default();
    judged.segment(0, &syn(99), &mut pool);
    judged.segment(1, &Segment { flags: SYN | ACK, acknowledgment: 100, ..syn(499) }, &mut pool);
    judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
    judged.segment(1, &ack(500, 104), &mut pool);
    assert_eq!(names(judged.end(&mut pool)), ["gap"]);
}

#[test]
fn keep_alives_and_window_probes_are_no_doubt_if_they_repeat_a_byte() {
    let mut pool = pool(8, 8, 4);
    let mut judged = Judged::default();
    judged.segment(0, &syn(99), &mut pool);
    judged.segment(1, &Segment { flags: SYN | ACK, acknowledgment: 100, ..syn(499) }, &mut pool);
    judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
    // A window probe: the next byte, which the receiver has no room for, and later with more.
    judged.segment(0, &segment(100, 3, b"d"), &mut pool);
    judged.segment(0, &segment(100, 3, b"d"), &mut pool);
    judged.segment(0, &segment(100, 3, b"def"), &mut pool);
    judged.segment(1, &ack(500, 106), &mut pool);
    // Keep-alives without a byte, and with the last one; of the other side before its first byte.
    judged.segment(0, &segment(100, 5, b""), &mut pool);
    judged.segment(0, &segment(100, 5, b"f"), &mut pool);
    judged.segment(1, &Segment { payload: b"\0", sent: 1, ..ack(499, 106) }, &mut pool);
    assert!(judged.uncertain.is_empty(), "{:?}", names(judged.uncertain));
    // Of another value it is the byte of who has not taken the last segment.
    judged.segment(0, &segment(100, 5, b"\0"), &mut pool);
    assert_eq!(names(judged.end(&mut pool)), ["overlap"]);
}

#[test]
fn a_syn_may_have_data() {
    let mut pool = pool(8, 8, 4);
    let mut judged = Judged::default();
    let with_data = Segment { payload: b"abc", sent: 3, ..syn(99) };
    judged.segment(0, &with_data, &mut pool);
    judged.segment(0, &with_data, &mut pool);
    judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
    judged.segment(0, &segment(100, 3, b"def"), &mut pool);
    assert_eq!(judged.delivered(0), b"abcdef");
    assert_eq!(names(judged.end(&mut pool)), [""; 0]);
}

#[test]
fn a_connection_may_follow_another() {
    let mut pool = pool(8, 8, 4);
    for end in [FIN, RST] {
        let mut connection = Connection::default();
        let mut delivered = Vec::new();
        let mut give = |direction, segment: &Segment<'_>, pool: &mut Pool| {
            connection.segment(direction, segment, pool, |piece| {
                delivered.extend_from_slice(piece.bytes);
            })
        };
        give(0, &syn(99), &mut pool);
        give(1, &Segment { flags: SYN | ACK, acknowledgment: 100, ..syn(499) }, &mut pool);
        let data = Segment { flags: FIN, ..segment(100, 0, b"abc") };
        assert!(give(0, &data, &mut pool).uncertain.is_empty());
        let last = Segment { flags: end | ACK, ..ack(500, 104) };
        assert!(give(1, &last, &mut pool).uncertain.is_empty());
        let outcome = give(0, &syn(7_000_000), &mut pool);
        assert!(outcome.restarted && outcome.uncertain.is_empty());
        let outcome = give(0, &segment(7_000_001, 0, b"def"), &mut pool);
        assert!(!outcome.restarted && outcome.uncertain.is_empty());
        assert!(!connection.is_closed() && !connection.is_waiting());
        assert_eq!(delivered, b"abcdef");
        assert!(connection.end(&mut pool).is_empty());
    }
}

#[test]
fn other_doubts_have_their_names() {
    let give = |segments: &[(usize, Segment<'_>)]| {
        let mut pool = pool(8, 8, 4);
        let mut judged = Judged::default();
        segments.iter().for_each(|(way, segment)| judged.segment(*way, segment, &mut pool));
        names(judged.end(&mut pool))
    };
    let data = segment(100, 0, b"abc");
    let fin = Segment { flags: FIN, ..data };
    assert_eq!(give(&[(0, data)]), ["middle"]);
    assert_eq!(give(&[(0, syn(99)), (0, Segment { flags: URG, ..data })]), ["urgent"]);
    assert_eq!(give(&[(0, syn(99)), (0, Segment { sent: 4, ..data })]), ["truncated"]);
    assert_eq!(give(&[(0, syn(99)), (0, syn(7_000_000))]), ["syn"]);
    assert_eq!(give(&[(0, syn(99)), (0, fin), (0, segment(100, 3, b"def"))]), ["past_fin"]);
    let early = Segment { flags: FIN, ..segment(100, 0, b"") };
    assert_eq!(give(&[(0, syn(99)), (0, fin), (0, early)]), ["fin"]);
    // Found by the fuzzer: a FIN half of all sequence numbers away is neither ahead nor behind.
    for far in [1 << 31, (1 << 30) + 4, u32::MAX << 30] {
        let far = Segment { flags: FIN, ..segment(100, far, b"") };
        assert_eq!(give(&[(0, syn(99)), (0, data), (0, far)]), ["out_of_window"]);
    }
    // A port that is closed: a SYN, and a reset that has no place in any stream.
    let refused = Segment { flags: RST | ACK, ..ack(0, 100) };
    assert_eq!(give(&[(0, syn(99)), (1, refused)]), [""; 0]);
    // Found by the fuzzer: with SYN, too, a reset starts nothing.
    let both = Segment { flags: SYN | RST, ..syn(99) };
    assert_eq!(give(&[(0, both), (0, segment(100, 2, b"cde"))]), ["middle"]);
}

/// A connection that was opened in both directions; the first bytes have the numbers 100 and 500.
fn opened(pool: &mut Pool) -> Judged {
    let mut judged = Judged::default();
    judged.segment(0, &syn(99), pool);
    judged.segment(1, &Segment { flags: SYN | ACK, acknowledgment: 100, ..syn(499) }, pool);
    judged
}

#[test]
fn the_bytes_of_a_reset_are_a_doubt_and_a_reset_alone_is_none() {
    for (payload, expected) in [(&b""[..], &[][..]), (b"why", &["reset"])] {
        let mut pool = pool(8, 8, 4);
        let mut judged = opened(&mut pool);
        judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
        judged.segment(0, &Segment { flags: RST, ..segment(100, 3, payload) }, &mut pool);
        assert_eq!(names(judged.end(&mut pool)), expected);
    }
    // Not captured, or before anything else.
    let mut pool = pool(8, 8, 4);
    let mut judged = opened(&mut pool);
    judged.segment(0, &Segment { flags: RST, sent: 5, ..segment(100, 0, b"") }, &mut pool);
    assert_eq!(names(judged.end(&mut pool)), ["reset"]);
}

#[test]
fn a_reset_that_a_receiver_may_ignore_ends_no_connection() {
    // A reset of direction 0 or 1 behind three bytes, and a SYN to this number.
    let doubts = |way: usize, reset: Segment<'_>, next: u32| {
        let mut pool = pool(8, 8, 4);
        let mut judged = opened(&mut pool);
        judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
        judged.segment(way, &reset, &mut pool);
        judged.segment(0, &syn(next), &mut pool);
        names(judged.end(&mut pool))
    };
    let reset = |sequence| Segment { flags: RST, ..segment(sequence, 0, b"") };
    assert_eq!(doubts(0, reset(103), 7_000_000), [""; 0]);
    assert_eq!(doubts(1, reset(500), 7_000_000), [""; 0]);
    for (way, sequence) in [(0, 77), (0, 102), (0, 104), (1, 501), (1, 9999)] {
        assert_eq!(doubts(way, reset(sequence), 7_000_000), ["syn"], "{way} {sequence}");
    }
    // What is behind such a SYN could be the next bytes of the old connection.
    for next in [102, 50, 103 + 60_000] {
        assert_eq!(doubts(0, reset(103), next), ["syn"], "{next}");
    }
    assert_eq!(doubts(0, reset(103), 103 + 65_537), [""; 0]);
}

#[test]
fn a_reset_ends_a_connection_only_if_both_directions_were_seen_and_it_is_the_last() {
    let doubts = |segments: &[(usize, Segment<'_>)]| {
        let mut pool = pool(8, 8, 4);
        let mut judged = Judged::default();
        segments.iter().for_each(|(way, one)| judged.segment(*way, one, &mut pool));
        names(judged.end(&mut pool))
    };
    let (data, reset) = (segment(100, 0, b"abc"), Segment { flags: RST, ..ack(103, 0) });
    assert_eq!(doubts(&[(0, syn(99)), (0, data), (0, reset), (0, syn(7_000_000))]), ["syn"]);
    let answer = Segment { flags: SYN | ACK, acknowledgment: 100, ..syn(499) };
    let goes_on = segment(103, 0, b"def");
    assert_eq!(
        doubts(&[
            (0, syn(99)),
            (1, answer),
            (0, data),
            (0, reset),
            (0, goes_on),
            (0, syn(7_000_000))
        ]),
        ["syn"]
    );
    // Refused, and tried again from the same port; with data before, the reset may be forged.
    let refused = Segment { flags: RST | ACK, ..ack(0, 100) };
    assert_eq!(doubts(&[(0, syn(99)), (1, refused), (0, syn(7_000_000))]), [""; 0]);
    assert_eq!(doubts(&[(0, syn(99)), (1, refused), (0, syn(99)), (1, answer)]), [""; 0]);
    let late = Segment { flags: RST | ACK, ..ack(0, 103) };
    assert_eq!(doubts(&[(0, syn(99)), (0, data), (1, late), (0, syn(7_000_000))]), ["syn"]);
}

#[test]
fn a_side_that_goes_on_behind_missing_bytes_confirms_their_gap() {
    // Bytes that were acknowledged and not seen; then a segment of their sender.
    for (what, expected) in [
        (segment(100, 503, b"def"), &["gap"][..]),
        (Segment { flags: ACK, acknowledgment: 500, ..segment(100, 503, b"") }, &["gap"]),
        (Segment { flags: FIN, ..segment(100, 503, b"") }, &["gap"]),
        // A keep-alive, and a retransmission.
        (Segment { flags: ACK, acknowledgment: 500, ..segment(100, 2, b"") }, &[]),
        (segment(100, 0, b"abc"), &[]),
    ] {
        let mut pool = pool(8, 8, 4);
        let mut judged = opened(&mut pool);
        judged.segment(0, &segment(100, 0, b"abc"), &mut pool);
        judged.segment(1, &ack(500, 603), &mut pool);
        assert_eq!(names(judged.uncertain), [""; 0]);
        judged.segment(0, &what, &mut pool);
        assert_eq!(names(judged.uncertain), expected, "{what:?}");
        assert_eq!(judged.delivered(0).ends_with(b"def"), what.payload == b"def");
        judged.end(&mut pool);
    }
}

#[test]
fn acknowledgments_again_and_again_confirm_a_gap() {
    let mut pool = pool(8, 8, 4);
    let mut judged = opened(&mut pool);
    // Eight may overtake what they are for, each time.
    for round in 0..20 {
        for _ in 0..8 {
            judged.segment(1, &ack(500, 103 + 3 * round), &mut pool);
        }
        judged.segment(0, &segment(100, 3 * round, b"abc"), &mut pool);
    }
    assert_eq!(names(judged.uncertain), [""; 0]);
    for _ in 0..9 {
        judged.segment(1, &ack(500, 5000), &mut pool);
    }
    assert_eq!(names(judged.uncertain), ["gap"]);
    judged.end(&mut pool);
}

#[test]
fn a_hole_is_seen_until_it_is_filled() {
    let mut pool = pool(8, 8, 4);
    let mut connection = Connection::default();
    let mut has_hole = |segment: &Segment<'_>| {
        connection.segment(0, segment, &mut pool, |_| {});
        connection.has_hole()
    };
    assert!(!has_hole(&syn(99)));
    assert!(!has_hole(&segment(100, 0, b"abc")));
    assert!(has_hole(&segment(100, 4, b"efg")), "bytes are held");
    assert!(!has_hole(&segment(100, 3, b"d")));
    // No byte is held, but some were sent.
    assert!(has_hole(&ack(110, 1)));
    assert!(!has_hole(&segment(100, 7, b"hij")));
    assert!(has_hole(&Segment { flags: FIN, ..segment(100, 12, b"") }));
    assert!(!has_hole(&segment(100, 10, b"kl")));
    assert!(!has_hole(&ack(113, 1)), "the number behind the FIN");
    assert!(has_hole(&ack(114, 1)));
}

#[test]
fn a_truncated_segment_does_not_stop_the_stream() {
    let mut pool = pool(8, 8, 4);
    let mut judged = Judged::default();
    judged.segment(0, &syn(99), &mut pool);
    judged.segment(0, &Segment { sent: 1000, ..segment(100, 0, b"abc") }, &mut pool);
    judged.segment(0, &segment(100, 1000, b"def"), &mut pool);
    assert_eq!(judged.delivered(0), b"abcdef");
    assert_eq!(names(judged.end(&mut pool)), ["truncated"]);
}

#[test]
fn memory_stays_within_its_limits_and_scanning_goes_on() {
    // Of a connection, and of all.
    for (per_connection, blocks) in [(3, 100), (100, 3)] {
        let mut pool = pool(per_connection, blocks, 1);
        let mut judged = Judged::default();
        judged.segment(0, &syn(99), &mut pool);
        for hole in 0..50 {
            judged.segment(0, &segment(100, 10 * hole + 5, b"abcde"), &mut pool);
            assert!(pool.held_bytes() <= 3 * BLOCK_BYTES);
        }
        assert_eq!(names(judged.uncertain), ["memory"]);
        assert_eq!(judged.delivered(0).len(), 47 * 5, "all but those that are held");
        judged.end(&mut pool);
        assert_eq!(pool.held_bytes(), 0);
    }
}

#[test]
fn a_history_whose_memory_another_took_is_not_used() {
    let mut pool = pool(8, 8, 2);
    let mut connections: Vec<Judged> = (0..4).map(|_| Judged::default()).collect();
    for connection in &mut connections {
        connection.segment(0, &syn(99), &mut pool);
        connection.segment(0, &segment(100, 0, b"abc"), &mut pool);
        connection.segment(0, &segment(100, 3, b"de"), &mut pool);
    }
    for (connection, expected) in connections.into_iter().zip([1, 1, 0, 0]) {
        let mut connection = connection;
        connection.segment(0, &segment(100, 0, b"abcde"), &mut pool);
        let doubts = names(connection.end(&mut pool));
        assert_eq!(doubts, ["unverified"; 1][..expected]);
    }
}

#[test]
fn a_single_segment_is_compared_without_a_history() {
    let mut pool = pool(8, 8, 1);
    for (again, expected) in [
        (&b"abc"[..], &[][..]),
        (b"abcd", &[]),
        (b"abC", &["overlap"]),
        (b"abCd", &["overlap"]),
        (b"ab", &["unverified"]),
    ] {
        let mut connections: Vec<Judged> = (0..4).map(|_| Judged::default()).collect();
        for connection in &mut connections {
            connection.segment(0, &syn(99), &mut pool);
            connection.segment(0, &segment(100, 0, b"abc"), &mut pool);
        }
        for connection in connections {
            let mut connection = connection;
            connection.segment(0, &segment(100, 0, again), &mut pool);
            assert_eq!(names(connection.end(&mut pool)), expected, "{again:?}");
        }
    }
}

/// A stream of up to 8,000 bytes in segments that overlap, in an order that a receiver may see.
fn consistent() -> impl Strategy<Value = (Vec<u8>, Vec<std::ops::Range<usize>>, u32)> {
    (prop::collection::vec(any::<u8>(), 1..8000), any::<u32>()).prop_flat_map(|(text, first)| {
        let len = text.len();
        let part = (0..len, 0..3000usize).prop_map(move |(at, n)| at..len.min(at + n));
        (Just(text), prop::collection::vec(part, 0..40), Just(first))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn consistent_segments_give_the_stream_or_a_named_doubt(
        (text, parts, first) in consistent(),
        step in 1usize..2000,
        held in 1usize..20,
    ) {
        let mut pool = pool(held, held, 2);
        let mut judged = Judged::default();
        judged.segment(0, &syn(first.wrapping_sub(1)), &mut pool);
        let whole = (0..text.len()).step_by(step).map(|at| at..text.len().min(at + step));
        for range in parts.into_iter().chain(whole) {
            let segment = segment(first, range.start as u32, &text[range]);
            judged.segment(0, &segment, &mut pool);
        }
        let delivered = judged.delivered(0).to_vec();
        let doubts = judged.end(&mut pool);
        for cause in doubts.iter() {
            prop_assert!(matches!(cause, Uncertainty::Unverified | Uncertainty::Memory));
        }
        if !doubts.contains(Uncertainty::Memory) {
            prop_assert!(delivered == text);
        }
    }

    #[test]
    fn any_segments_give_one_stream_or_a_doubt(data in prop::collection::vec(any::<u8>(), 0..400)) {
        connections_of(&data);
    }
}
