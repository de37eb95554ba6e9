//! Links: every packet is accounted for, times are exact, equal seeds give equal results.

use forebay_flow::policy::{
    Bottleneck, Count, CsfqOptions, DrrOptions, Ecn, LinkOptions, Packet, Policy, RedOptions,
    SharedLink, Totals,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn policies(buffer: u64) -> [Policy; 3] {
    [
        Policy::Red(RedOptions::for_buffer(buffer)),
        Policy::Csfq(CsfqOptions::default()),
        Policy::Drr(DrrOptions::default()),
    ]
}

fn arbitrary_packet() -> impl Strategy<Value = Packet> {
    let len = prop_oneof![0_u32..20, 40_u32..1_514, 1_000_u32..80_000];
    let at = prop_oneof![9 => 0_u64..5_000_000_000, 1 => any::<u64>()];
    (at, 0_u32..20, len, any::<u8>(), 0_u16..5).prop_map(|(at, flow, len, class, weight)| Packet {
        at,
        flow,
        len,
        ecn: Ecn::of_class(class),
        weight,
        label: None,
    })
}

/// Asserts that the totals of a link are the sums over its flows, and that nothing is missing.
fn check(link: &SharedLink, offered: Count) -> Totals {
    let totals = link.bottleneck().totals();
    assert!(totals.closes(), "{totals:?}");
    assert_eq!(totals.offered, offered);
    let dropped: Count = totals.dropped.into_iter().sum();
    let sum = |of: fn(&forebay_flow::policy::FlowShare) -> Count| {
        link.flows().iter().map(of).sum::<Count>()
    };
    assert_eq!(sum(|flow| flow.offered), totals.offered);
    assert_eq!(sum(|flow| flow.delivered), totals.delivered);
    assert_eq!(sum(|flow| flow.marked), totals.marked);
    assert_eq!(sum(|flow| flow.dropped), dropped);
    totals
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]
    #[test]
    fn every_packet_is_accounted_for(
        rate in 1_u64..1_000_000_000,
        buffer in 64_u64..200_000,
        mut packets in prop::collection::vec(arbitrary_packet(), 1..600),
        in_order in any::<bool>(),
    ) {
        if in_order {
            packets.sort_by_key(|packet| packet.at);
        }
        let offered = packets.iter().map(|packet| Count::of(packet.len)).sum();
        for policy in policies(buffer) {
            let options = LinkOptions { rate, buffer, policy, seed: 3 };
            let mut link = SharedLink::new(&options).unwrap();
            packets.iter().for_each(|&packet| link.packet(packet));
            let totals = check(&link, offered);
            prop_assert!(link.bottleneck().queue().peak() <= buffer);
            prop_assert!(!in_order || totals.late == 0);
            let mut again = SharedLink::new(&options).unwrap();
            packets.iter().for_each(|&packet| again.packet(packet));
            prop_assert_eq!(again.flows(), link.flows());
        }
    }
}

#[test]
fn a_busy_link_sends_exactly_its_rate() {
    // 3 Mbit/s: a byte takes 2,666 2/3 ns.
    let rate = 3_000_000;
    for policy in policies(1 << 20) {
        let options = LinkOptions { rate, buffer: 1 << 20, policy, seed: 3 };
        let mut link = Bottleneck::new(&options).unwrap();
        let mut sent = 0;
        for n in 0..100_000_u64 {
            let (flow, ecn) = ((n % 7) as u32, Ecn::NotCapable);
            let packet = Packet { at: n * 100_000, flow, len: 101, ecn, weight: 1, label: None };
            link.packet(packet, &mut 0, |_| ());
            let bytes = link.totals().sent().bytes;
            assert!(bytes >= sent);
            sent = bytes;
        }
        // 10 s less the last 100 us.
        let bytes = rate / 8 * 99_999 / 10_000;
        let expected = bytes - bytes % 101;
        assert_eq!(sent, expected, "{policy:?}");
    }
}

#[test]
fn what_is_in_the_buffer_at_the_end_is_counted_as_queued() {
    for policy in policies(100_000) {
        let options = LinkOptions { rate: 8_000_000, buffer: 100_000, policy, seed: 3 };
        let mut link = Bottleneck::new(&options).unwrap();
        for at in 0..4 {
            let packet =
                Packet { at, flow: 0, len: 1_000, ecn: Ecn::Capable, weight: 1, label: None };
            link.packet(packet, &mut 0, |_| ());
        }
        let Totals { queued, delivered, .. } = link.totals();
        assert_eq!((queued, delivered), (Count { packets: 4, bytes: 4_000 }, Count::default()));
        // Each takes a millisecond.
        link.advance(2_999_999, |_| ());
        assert_eq!(link.totals().queued.packets, 2);
        link.advance(4_000_000, |_| ());
        assert_eq!((link.totals().queued, link.totals().closes()), (Count::default(), true));
    }
}

#[test]
fn links_out_of_bounds_are_errors() {
    let [policy, ..] = policies(100_000);
    let good = LinkOptions { rate: 8_000, buffer: 100_000, policy, seed: 3 };
    let refused = |options| Bottleneck::new(&options).unwrap_err().to_string();
    assert!(refused(LinkOptions { rate: 0, ..good }).contains("1 bit/s to 1 Tbit/s"));
    assert!(refused(LinkOptions { buffer: 63, ..good }).contains("64 bytes to 1 GiB"));
    assert!(refused(LinkOptions { buffer: 1 << 31, ..good }).contains("64 bytes to 1 GiB"));
}
