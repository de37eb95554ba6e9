//! Deficit round robin: the bound of its unfairness, weights, what is dropped.

use forebay_flow::policy::{
    Bottleneck, DrrOptions, Ecn, LinkOptions, Outcome, Packet, Policy, Reason, SharedLink, Verdict,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn link(rate: u64, buffer: u64, quantum: u16) -> LinkOptions {
    LinkOptions { rate, buffer, policy: Policy::Drr(DrrOptions { quantum }), seed: 1 }
}

fn packet(at: u64, flow: u32, len: u32) -> Packet {
    Packet { at, flow, len, ecn: Ecn::NotCapable, weight: 1, label: None }
}

/// Follows what two flows are sent while both always have packets in the buffer.
#[derive(Default)]
struct Race {
    /// Packets of each in the buffer, or being sent.
    inside: [i64; 2],
    /// The same when the packet that is being sent was taken out of the buffer.
    at_start: [i64; 2],
    /// Bytes sent of flow 0 less those of flow 1.
    lead: i64,
    least: i64,
    most: i64,
    /// Over the intervals in which both have packets.
    widest: i64,
    sent: u64,
}

impl Race {
    fn arrives(&mut self, flow: u32) {
        if let Some(inside) = self.inside.get_mut(flow as usize) {
            *inside += 1;
        }
    }

    fn leaves(&mut self, Outcome { flow, len, verdict }: Outcome) {
        let is_sent = verdict == Verdict::Pass;
        if let Some(inside) = self.inside.get_mut(flow as usize) {
            *inside -= 1;
            let lost_turn = is_sent && self.at_start[flow as usize] < 2;
            if is_sent {
                self.lead += if flow == 0 { i64::from(len) } else { -i64::from(len) };
                self.sent += 1;
            }
            // One that is being sent is not in the buffer. A flow whose last packet is taken out
            // of it has lost its turn, even if others arrive before that one is sent.
            if lost_turn || self.inside.iter().any(|&inside| inside < 2) {
                (self.least, self.most) = (self.lead, self.lead);
            }
            self.least = self.least.min(self.lead);
            self.most = self.most.max(self.lead);
            self.widest = self.widest.max(self.most - self.least);
        }
        if is_sent {
            self.at_start = self.inside;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]
    #[test]
    fn two_backlogged_flows_differ_by_at_most_two_packets_and_a_quantum(
        quantum in 256_u16..4_000,
        largest in 60_u32..9_000,
        rate in 1_000_000_u64..1_000_000_000,
        buffer in 20_000_u64..2_000_000,
        steps in prop::collection::vec((0_u64..40_000, 0_u32..4, 0.0..1.0_f64), 500..1_500),
    ) {
        let mut drr = Bottleneck::new(&link(rate, buffer, quantum)).unwrap();
        let (mut race, mut at, mut max) = (Race::default(), 0, 0);
        for (gap, flow, size) in steps {
            at += gap;
            // Flows 0 and 1 have packets of very different lengths.
            let part = if flow == 1 { size * size * size } else { size.sqrt() };
            let len = 40 + (f64::from(largest - 40) * part) as u32;
            max = max.max(i64::from(len));
            drr.advance(at, |outcome| race.leaves(outcome));
            race.arrives(flow);
            drr.packet(packet(at, flow, len), &mut 0, |outcome| race.leaves(outcome));
        }
        drr.advance(u64::MAX, |outcome| race.leaves(outcome));
        prop_assert!(race.sent > 0 && drr.totals().closes());
        prop_assert!(
            race.widest <= 2 * max + i64::from(quantum),
            "{} bytes; max {max}, quantum {quantum}", race.widest
        );
    }
}

#[test]
fn flows_that_send_more_or_longer_packets_get_no_more() {
    // Over 10 Mbit/s for 10 s: lengths of 100 to 1,500, rates of 5 to 40 Mbit/s.
    let mut drr = SharedLink::new(&link(10_000_000, 256 << 10, 1_514)).unwrap();
    let mut packets = Vec::new();
    for (flow, len, rate) in [(0, 100, 5e6), (1, 1_500, 5e6), (2, 700, 40e6), (3, 1_200, 1e6)] {
        let gap = f64::from(len) * 8e9 / rate;
        packets
            .extend((0..(10e9 / gap) as u64).map(|n| packet((n as f64 * gap) as u64, flow, len)));
    }
    packets.sort_by_key(|packet| packet.at);
    packets.into_iter().for_each(|packet| drr.packet(packet));
    // The last wants 1 Mbit/s and has it; the others share 9 Mbit/s.
    for (share, expected) in drr.flows().iter().zip([3e6, 3e6, 3e6, 1e6]) {
        let rate = share.sent().bytes as f64 * 8.0 / 10.0;
        assert!((rate / expected - 1.0).abs() < 0.02, "{rate} of {expected}");
    }
    let fairness = drr.fairness().unwrap();
    assert!(fairness.jain_of_fair_share > 0.999 && fairness.jain < 0.95, "{fairness:?}");
}

#[test]
fn weights_are_shares() {
    let mut drr = SharedLink::new(&link(10_000_000, 256 << 10, 500)).unwrap();
    for n in 0..40_000_u64 {
        let (flow, weight) = if n % 2 == 0 { (0, 3) } else { (1, 1) };
        drr.packet(Packet { weight, ..packet(n * 250_000, flow, 1_000) });
    }
    let [heavy, light] = [0, 1].map(|flow| drr.flows()[flow].sent().bytes as f64);
    assert!((heavy / light - 3.0).abs() < 0.03, "{}", heavy / light);
    assert_eq!([drr.reading(0), drr.reading(1), drr.reading(2)], [1_500, 500, 0]);
}

#[test]
fn a_full_buffer_drops_the_last_packet_of_the_longest_queue() {
    let mut drr = Bottleneck::new(&link(8, 3_000, 1_514)).unwrap();
    let mut dropped = Vec::new();
    let mut arrives = |flow, len| {
        drr.packet(packet(0, flow, len), &mut 0, |outcome| dropped.push(outcome));
    };
    // The first is sent for minutes. Flow 1 then has 2,400 bytes, flow 2 has 500.
    for (flow, len) in [(0, 1_000), (1, 1_100), (1, 800), (2, 500), (1, 500), (2, 300)] {
        arrives(flow, len);
    }
    let full = |flow, len| Outcome { flow, len, verdict: Verdict::Drop(Reason::BufferFull) };
    assert_eq!(dropped, [full(1, 500),]);
    dropped.clear();
    // One packet may take the place of several.
    drr.packet(packet(0, 3, 1_400), &mut 0, |outcome| dropped.push(outcome));
    assert_eq!(dropped, [full(1, 800), full(3, 1_400)]);
    dropped.clear();
    drr.packet(packet(0, 3, 65_536), &mut 0, |outcome| dropped.push(outcome));
    let too_long = Verdict::Drop(Reason::TooLong);
    assert_eq!(dropped, [Outcome { flow: 3, len: 65_536, verdict: too_long }]);
    assert!(drr.totals().closes());
    let error = Bottleneck::new(&link(8, 3_000, 255)).unwrap_err().to_string();
    assert_eq!(error, "a quantum of 255 bytes: expected 256 to 65535 bytes");
}
