//! The worker of every packet of every capture.

use std::collections::HashMap;

use forebay_bpf::programs::fanout::{self, worker_of};
use forebay_packet::flow::AddressKind;
use forebay_packet::{DecodeOptions, Decoder, FlowKey, HashKey, LinkType};

use crate::support;
use crate::support::frames::{ethernet, fragment, ipv4, tcp_header, udp, udp_header};

const HASH_KEY: HashKey = HashKey([3, 1_000_000_007]);

/// The most bytes of a frame that the kernel takes for a test of a socket's program.
const LONGEST: usize = 3000;

/// The address pair of a frame with an IP header behind at most two tags, by offsets
/// counted by hand.
fn address_pair(frame: &[u8]) -> Option<FlowKey> {
    let mut at = 12;
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    for _ in 0..2 {
        at += match kind(at)? {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => 4,
            0x8926 | 0x892f | 0xf1c1 => 6,
            0x893f | 0xdada => 8,
            0x8909 if frame.get(at + 3) == Some(&1) => 8,
            _ => 0,
        };
    }
    if !matches!(kind(at)?, 0x0800 | 0x86dd) {
        return None;
    }
    let packet = &frame[at + 2..];
    let number = |at: usize, length: usize| {
        let bytes = packet.get(at..at + length)?;
        Some(bytes.iter().fold(0_u128, |number, &byte| number << 8 | u128::from(byte)))
    };
    let (kind, a, b) = match packet.first()? {
        0x45..=0x4f => (AddressKind::Ipv4, number(12, 4)?, number(16, 4)?),
        0x60..=0x6f => (AddressKind::Ipv6, number(8, 16)?, number(24, 16)?),
        _ => return None,
    };
    Some(FlowKey { low: a.min(b), high: a.max(b), kind, ..FlowKey::default() })
}

#[test]
fn packets_between_two_addresses_have_one_worker() {
    let Some(data) = support::data() else { return };
    let program = fanout::load(&HASH_KEY, 7).unwrap();
    let outermost = DecodeOptions { tunnel_depth: 0, ..DecodeOptions::default() };
    let outermost = Decoder::new(outermost);
    let mut packets_of = [0; 7];
    for path in support::captures(&data) {
        for mut frame in support::captured_frames(&path) {
            frame.truncate(LONGEST);
            let worker = program.run(&frame, &mut []).unwrap().result;
            let pair = address_pair(&frame);
            let expected = pair.map_or(0, |pair| worker_of(pair.hash(&HASH_KEY), 7));
            assert_eq!(worker, expected, "{pair:?} of {frame:02x?}");
            if pair.is_some() {
                let decoded = outermost.decode(LinkType::ETHERNET, &frame);
                assert_eq!(pair, Some(decoded.key.address_pair()), "{frame:02x?}");
            }
            packets_of[worker as usize] += 1;
        }
    }
    assert!(
        packets_of.iter().all(|&packets| packets > forebay_testkit::data::at_least(5000, 200)),
        "{packets_of:?}"
    );
}

#[test]
fn fragments_options_tags_and_answers_stay_with_their_pair() {
    if !support::bpf() {
        return;
    }
    let program = fanout::load(&HASH_KEY, 64).unwrap();
    let mut workers = HashMap::new();
    for peer in 0..200 {
        let (a, b) = ((1, 1000 + peer), (2 + peer, 80));
        let plain = ipv4(6, a, b, 0, &tcp_header(a, b, 0));
        let mut options = plain.clone();
        options[0] = 0x46;
        options.splice(20..20, [1, 1, 1, 1]);
        let frames = [
            udp(a, b),
            udp(b, a),
            fragment(a, b),
            fragment(b, a),
            ethernet(&[], 0x0800, &options),
            ethernet(&[(0x8100, 5)], 0x0800, &plain),
            ethernet(&[(0x88a8, 7), (0x8100, 5)], 0x0800, &plain),
            ethernet(&[(0x8100, 5), (0x8909, 0x0101), (1, 512)], 0x0800, &plain),
            // GRE, whatever is in it.
            ethernet(&[], 0x0800, &ipv4(47, b, a, 0, &udp_header(a, b, 9))),
        ];
        let found: Vec<u32> =
            frames.iter().map(|frame| program.run(frame, &mut []).unwrap().result).collect();
        assert!(found.iter().all(|&worker| worker == found[0]), "{found:?}");
        *workers.entry(found[0]).or_insert(0) += 1;
        let three_tags = ethernet(&[(0x8100, 1), (0x8100, 2), (0x8100, 3)], 0x0800, &plain);
        assert_eq!(program.run(&three_tags, &mut []).unwrap().result, 0);
    }
    assert!(workers.len() > 55, "{} of 64 workers have a pair", workers.len());
}

#[test]
fn a_group_has_1_to_65536_workers() {
    if !support::bpf() {
        return;
    }
    let frame = udp((1, 1), (2, 2));
    let alone = fanout::load(&HASH_KEY, 1).unwrap();
    assert_eq!(alone.run(&frame, &mut []).unwrap().result, 0);
    let many = fanout::load(&HASH_KEY, 65_536).unwrap();
    let hash = address_pair(&frame).unwrap().hash(&HASH_KEY);
    assert_eq!(many.run(&frame, &mut []).unwrap().result, hash as u32 >> 16);
    for workers in [0, 65_537] {
        let error = fanout::load(&HASH_KEY, workers).unwrap_err().to_string();
        assert!(error.ends_with("must be 1 to 65536"), "{error}");
    }
}
