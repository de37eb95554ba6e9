//! Random early detection: chosen packets against the curve, marks, thresholds of flows.

use forebay_flow::policy::{Ecn, Packet, Reason, Red, RedOptions, Verdict};
use forebay_packet::random::Random;

const OPTIONS: RedOptions = RedOptions { min: 10_000, max: 30_000, probability: 0.1 };

/// Packets of a test.
const PACKETS: u64 = 200_000;

fn packet(ecn: Ecn, weight: u16) -> Packet {
    Packet { at: 0, flow: 0, len: 1_000, ecn, weight, label: None }
}

/// A policy whose average is the length of a queue that has been constant.
fn settled(queue: u64) -> (Red, Random) {
    let (mut red, mut random) = (Red::new(OPTIONS, 10_000_000).unwrap(), Random::new(queue));
    for _ in 0..20_000 {
        red.packet(&packet(Ecn::NotCapable, 1), &mut 0, queue, &mut random);
    }
    assert!((red.average() - queue as f64).abs() <= 1e-6 * queue as f64, "{}", red.average());
    (red, random)
}

/// The mean gap between packets that are chosen with probability p/(1 - np) after n others:
/// the sum over k of P(gap > k) = 1 - kp.
fn mean_gap(p: f64) -> f64 {
    let n = (1.0 / p).floor();
    n + 1.0 - p * n * (n + 1.0) / 2.0
}

/// The curve for a flow of weight `w`, from its definition.
fn curve(queue: u64, w: f64) -> f64 {
    let (q, a, b) = (queue as f64, 10_000.0 * w, 30_000.0 * w);
    match q {
        _ if q < a => 0.0,
        _ if q < b => 0.1 * (q - a) / (b - a),
        _ => (0.1 + 0.9 * (q - b) / b).min(1.0),
    }
}

/// Asserts that `chosen` of [`PACKETS`] are as the curve says, within 4.5 standard deviations of
/// a binomial distribution. Gaps are more regular than its, so that is no tight bound.
fn assert_on_curve(chosen: u64, probability: f64, what: &str) {
    let expected = if probability > 0.0 { 1.0 / mean_gap(probability) } else { 0.0 };
    let off = chosen as f64 / PACKETS as f64 - expected;
    let deviation = (expected * (1.0 - expected) / PACKETS as f64).sqrt();
    assert!(off.abs() <= 4.5 * deviation + 1e-9, "{what}: {off} off {expected}");
}

#[test]
fn drops_against_the_average_queue_follow_the_curve() {
    let queues = [0, 5_000, 9_999, 12_000, 17_000, 20_000, 29_000, 31_000, 45_000, 59_000, 60_001];
    for queue in queues {
        for weight in [1, 2] {
            let (mut red, mut random) = settled(queue);
            let mut state = 0;
            let (mut early, mut forced) = (0, 0);
            for _ in 0..PACKETS {
                let packet = packet(Ecn::NotCapable, weight);
                match red.packet(&packet, &mut state, queue, &mut random) {
                    Verdict::Drop(Reason::Early) => early += 1,
                    Verdict::Drop(Reason::Forced) => forced += 1,
                    other => assert_eq!(other, Verdict::Pass, "{queue}"),
                }
            }
            assert_eq!(state, 2_500 * weight, "a threshold in units of 4 bytes");
            let probability = curve(queue, weight.into());
            assert!((red.probability(state) - probability).abs() < 1e-6, "{queue}");
            assert_on_curve(early + forced, probability, &format!("{queue}, weight {weight}"));
            assert_eq!(forced > 0, probability == 1.0, "{queue}");
        }
    }
}

#[test]
fn capable_packets_are_marked_and_not_dropped_below_the_upper_threshold() {
    for ecn in [Ecn::Capable, Ecn::Experienced] {
        for queue in [12_000, 20_000, 29_000] {
            let ((mut red, mut random), mut state, mut marked) = (settled(queue), 0, 0);
            for _ in 0..PACKETS {
                match red.packet(&packet(ecn, 1), &mut state, queue, &mut random) {
                    Verdict::Mark => marked += 1,
                    other => assert_eq!(other, Verdict::Pass),
                }
            }
            assert_on_curve(marked, curve(queue, 1.0), &format!("{queue}"));
        }
        let ((mut red, mut random), mut state) = (settled(40_000), 0);
        let verdicts =
            (0..1_000).map(|_| red.packet(&packet(ecn, 1), &mut state, 40_000, &mut random));
        assert_eq!(verdicts.filter(|verdict| *verdict == Verdict::Mark).count(), 0);
    }
    let of_class = [0b1011_1000, 1, 2, 3].map(Ecn::of_class);
    assert_eq!(of_class, [Ecn::NotCapable, Ecn::Capable, Ecn::Capable, Ecn::Experienced]);
}

#[test]
fn gaps_between_drops_are_uniform() {
    let (queue, mut state, mut gap) = (18_000, 0, 0);
    let (mut red, mut random) = settled(queue);
    // The probability is 0.04: gaps of 1 to 25 packets.
    let mut gaps = vec![0_u32; 26];
    for _ in 0..PACKETS {
        gap += 1;
        if red.packet(&packet(Ecn::NotCapable, 1), &mut state, queue, &mut random) != Verdict::Pass
        {
            gaps[gap] += 1;
            gap = 0;
        }
    }
    let expected = f64::from(gaps.iter().sum::<u32>()) / 25.0;
    for &count in &gaps[1..] {
        assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{gaps:?}");
    }
}

#[test]
fn while_the_link_is_idle_the_average_falls_as_with_packets() {
    let (mut red, mut random) = settled(20_000);
    red.idle(1_000_000_000);
    red.idle(1_700_000_000);
    // 1 s at 10 Mbit/s are 1,250 packets of 1,000 bytes.
    let packet = Packet { at: 2_000_000_000, ..packet(Ecn::NotCapable, 1) };
    red.packet(&packet, &mut 0, 0, &mut random);
    let expected = 20_000.0 * 0.998_f64.powi(1_250);
    assert!((red.average() / expected - 1.0).abs() < 1e-3, "{}", red.average());
}

#[test]
fn options_out_of_bounds_are_errors() {
    let refused = |options| Red::new(options, 1).unwrap_err().to_string();
    for (min, max) in [(3, 10), (262_141, 300_000), (5_000, 5_000)] {
        let error = refused(RedOptions { min, max, ..OPTIONS });
        assert!(error.contains("4 to 262140 bytes"), "{error}");
    }
    for probability in [0.0, 1.1, f64::NAN] {
        assert!(refused(RedOptions { probability, ..OPTIONS }).contains("at most 1"));
    }
}
