//! The kernel's flow hashes against `forebay-packet`'s, on every capture.

use std::cell::RefCell;

use forebay_bpf::flow::FlowOptions;
use forebay_bpf::programs::probe::Probe;
use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey, LinkType};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::splitter::{Splitter, settings};
use crate::support;
use crate::support::frames::{ethernet, ipv4, ipv6, ports};
use forebay_testkit::packets::build::{BACK, FORTH};
use forebay_testkit::packets::table::cases;

const HASH_KEY: HashKey = HashKey([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);

/// The kernel's side and user space's of one way to tell flows.
struct BothDecoders {
    kernel: Probe,
    user_space: Decoder,
}

impl BothDecoders {
    fn new(affinity: Affinity, tunnels: bool) -> Self {
        let options = FlowOptions { affinity, hash_key: HASH_KEY, tunnels };
        let tunnel_depth = if tunnels { 4 } else { 0 };
        let decode = DecodeOptions { affinity, tunnel_depth, ..DecodeOptions::default() };
        Self { kernel: Probe::load(&options).unwrap(), user_space: Decoder::new(decode) }
    }

    /// Whether the kernel claims the frame; if so, its hash is right.
    fn agree(&mut self, frame: &[u8]) -> bool {
        let Some(hash) = self.kernel.hash(frame).unwrap() else { return false };
        let decoded = self.user_space.decode(LinkType::ETHERNET, frame);
        assert_eq!(hash, decoded.affinity.hash(&HASH_KEY), "{decoded:?} in {frame:02x?}");
        true
    }
}

const ALL: [Affinity; 4] =
    [Affinity::FiveTuple, Affinity::IpPair, Affinity::Source, Affinity::Destination];

#[test]
fn every_hash_is_that_of_user_space() {
    let Some(data) = support::data() else { return };
    let mut decoders: Vec<BothDecoders> = ALL
        .into_iter()
        .flat_map(|affinity| [true, false].map(|tunnels| BothDecoders::new(affinity, tunnels)))
        .collect();
    let (mut frames, mut mine) = (0, 0);
    for path in support::captures(&data) {
        for frame in support::captured_frames(&path) {
            frames += 1;
            let claims: Vec<bool> =
                decoders.iter_mut().map(|decoders| decoders.agree(&frame)).collect();
            mine += usize::from(claims[0]);
            assert!(claims.iter().skip(2).step_by(2).all(|&claim| claim == claims[0]));
        }
    }
    assert!(frames > forebay_testkit::data::at_least(100_000, 3_000), "{frames} frames");
    assert!(mine * 2 > frames, "the kernel claims {mine} of {frames}");
}

/// Every kind of packet that user space decodes, on Ethernet: the kernel finds the same flow,
/// or leaves the packet to user space.
#[test]
fn every_kind_of_packet_is_understood_alike_or_left_to_user_space() {
    if !support::bpf() {
        return;
    }
    let mut decoders = BothDecoders::new(Affinity::FiveTuple, true);
    let mut claimed = Vec::new();
    for case in cases().into_iter().filter(|case| case.link == LinkType::ETHERNET) {
        let claims = [FORTH, BACK].map(|way| decoders.agree(&(case.build)(way)));
        assert_eq!(claims[0], claims[1], "{}", case.name);
        let splitter = Splitter::new(&settings());
        assert_eq!(splitter.passes(&(case.build)(FORTH)), !claims[0], "{}", case.name);
        if claims[0] {
            claimed.push(case.name);
        }
    }
    let tags = ["tag 0x8100", "tag 0x88a8", "tag 0x9100", "tag 0x9200", "802.1BR"];
    let others = ["Cisco MetaData", "VN-Tag", "HSR", "802.1CB", "EDSA", "PRP"];
    let expected = [&["Ethernet"][..], &tags, &others].concat();
    assert_eq!(claimed, expected);
}

#[test]
fn the_kernel_claims_most_of_common_traffic() {
    let Some(data) = support::data() else { return };
    let mut decoders = BothDecoders::new(Affinity::FiveTuple, true);
    let frames = support::captured_frames(&data.join("mix/dev-mix.pcap"));
    let mine = frames.iter().filter(|frame| decoders.agree(frame)).count();
    eprintln!("the kernel claims {mine} of {} frames of dev-mix", frames.len());
    assert!(mine * 10 > frames.len() * 6);
}

/// Frames of every kind that is the kernel's, and some that are not.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let end = || (0_u16..3, prop_oneof![0_u16..3, Just(4789), Just(2152), any::<u16>()]);
    let protocol = prop_oneof![
        4 => prop::sample::select(vec![6_u8, 17]),
        2 => prop::sample::select(vec![1, 4, 33, 41, 47, 50, 51, 58, 60, 132, 136]),
        1 => any::<u8>(),
    ];
    let tag = (prop::sample::select(vec![0x8100_u16, 0x88a8, 0x9100, 0x9200]), any::<u16>());
    let payload = prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..20], 0..40);
    (end(), end(), protocol, prop::collection::vec(tag, 0..4), payload, any::<bool>()).prop_map(
        |(from, to, protocol, tags, payload, v6)| {
            let transport = [ports(from, to), payload].concat();
            if v6 {
                ethernet(&tags, 0x86dd, &ipv6(protocol, from, to, &transport))
            } else {
                ethernet(&tags, 0x0800, &ipv4(protocol, from, to, 0, &transport))
            }
        },
    )
}

#[test]
fn damaged_frames_are_understood_alike_or_left_to_user_space() {
    if !support::bpf() {
        return;
    }
    let decoders =
        ALL.map(|affinity| [true, false].map(|tunnels| BothDecoders::new(affinity, tunnels)));
    let decoders = RefCell::new(decoders);
    let damage = (0_usize..60, prop_oneof![any::<u8>(), 0_u8..8]);
    let damage = prop::collection::vec(damage, 0..3);
    let cut = prop_oneof![3 => Just(usize::MAX), 1 => 14_usize..70];
    let mut runner =
        TestRunner::new(Config { cases: 20_000, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(frame(), damage, cut), |(mut frame, damage, cut)| {
        for (at, byte) in damage {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame.truncate(cut);
        for decoders in decoders.borrow_mut().iter_mut().flatten() {
            let claimed = decoders.agree(&frame);
            // What is plain to see for user space is so for the kernel.
            let plain = decoders.user_space.decode_plain(&frame);
            prop_assert!(claimed || plain.is_none(), "{frame:02x?}");
        }
        Ok(())
    });
    outcome.unwrap();
}
