//! Core-stateless fair queueing: rates, shares, unresponsive flows.

use forebay_flow::policy::{
    Csfq, CsfqOptions, Ecn, LinkOptions, Packet, Policy, Reason, SharedLink, Verdict,
};
use forebay_packet::random::Random;

const LINK: u64 = 10_000_000;
const SECOND: u64 = 1_000_000_000;

/// Packets of sources that send at constant rates with packets of random lengths, by time.
fn sources(rates: &[f64], seconds: u64, seed: u64) -> Vec<Packet> {
    let mut packets = Vec::new();
    for (flow, &rate) in (0_u32..).zip(rates) {
        let mut random = Random::of_part(seed, flow.into());
        let mut at = random.below(SECOND / 10);
        while at < seconds * SECOND {
            let len = random.between(200, 1_500) as u32;
            packets.push(Packet { at, flow, len, ecn: Ecn::NotCapable, weight: 1, label: None });
            at += (f64::from(len) * 8e9 / rate) as u64;
        }
    }
    packets.sort_by_key(|packet| packet.at);
    packets
}

/// The bits a second that each flow is sent, after 2 seconds in which rates are learnt.
fn goodputs(packets: &[Packet], seconds: u64) -> Vec<f64> {
    let policy = Policy::Csfq(CsfqOptions::default());
    let options = LinkOptions { rate: LINK, buffer: 128 << 10, policy, seed: 7 };
    let mut link = SharedLink::new(&options).unwrap();
    let (first, later): (Vec<Packet>, Vec<Packet>) =
        packets.iter().partition(|packet| packet.at < 2 * SECOND);
    first.into_iter().for_each(|packet| link.packet(packet));
    let before = link.flows().to_vec();
    later.into_iter().for_each(|packet| link.packet(packet));
    assert!(link.bottleneck().totals().closes());
    let bytes = link.flows().iter().zip(&before);
    let bytes = bytes.map(|(after, before)| after.sent().bytes - before.sent().bytes);
    bytes.map(|bytes| bytes as f64 * 8.0 / (seconds - 2) as f64).collect()
}

#[test]
fn equal_sources_get_within_a_tenth_of_the_equal_share() {
    for sources_of_link in [2, 8, 32] {
        for overload in [1.2, 2.0, 5.0] {
            let fair = LINK as f64 / f64::from(sources_of_link);
            let rates = vec![fair * overload; sources_of_link as usize];
            let goodputs = goodputs(&sources(&rates, 42, 3), 42);
            for goodput in goodputs {
                let share = goodput / fair;
                let what = format!("{sources_of_link} sources, {overload}: {share}");
                assert!((0.9..=1.1).contains(&share), "{what}");
            }
        }
    }
}

#[test]
fn an_unresponsive_source_gains_nothing() {
    let fair = LINK as f64 / 8.0;
    let mut rates = [1.5 * fair; 8];
    rates[3] *= 10.0;
    let goodputs = goodputs(&sources(&rates, 42, 5), 42);
    for goodput in &goodputs {
        assert!((0.9..=1.1).contains(&(goodput / fair)), "{goodputs:?}");
    }
    // Nor does it take from those that want less than their share.
    rates[0] = 0.3 * fair;
    let goodputs = self::goodputs(&sources(&rates, 42, 6), 42);
    assert!(goodputs[0] > 0.27 * fair, "{goodputs:?}");
}

#[test]
fn nothing_is_dropped_below_the_rate_of_the_link() {
    let rates = [0.5, 0.2, 0.1, 0.1].map(|part| part * LINK as f64);
    let policy = Policy::Csfq(CsfqOptions::default());
    let options = LinkOptions { rate: LINK, buffer: 128 << 10, policy, seed: 7 };
    let mut link = SharedLink::new(&options).unwrap();
    sources(&rates, 30, 1).into_iter().for_each(|packet| link.packet(packet));
    let totals = link.bottleneck().totals();
    assert!(totals.closes() && totals.dropped.iter().all(|count| count.packets == 0));
}

#[test]
fn bursts_about_the_rate_of_the_link_cost_little_of_it() {
    let small = [16_000.0; 5];
    for part in [0.9, 0.98, 1.0, 1.03] {
        let mut packets = sources(&small, 30, 1);
        let (mut random, mut at) = (Random::new(3), 0.0);
        while at < 30e9 {
            let packet = Packet {
                at: at as u64,
                flow: 5,
                len: 1_000,
                ecn: Ecn::NotCapable,
                weight: 1,
                label: None,
            };
            packets.push(packet);
            let uniform = (random.below(1 << 32) + 1) as f64 / (1_u64 << 32) as f64;
            at -= 8_000.0 * 1e9 / (part * LINK as f64) * uniform.ln();
        }
        packets.sort_by_key(|packet| packet.at);
        let offered: u64 = packets.iter().map(|packet| u64::from(packet.len)).sum();
        let possible = offered.min(30 * LINK / 8) as f64;
        let policy = Policy::Csfq(CsfqOptions::default());
        let options = LinkOptions { rate: LINK, buffer: 128 << 10, policy, seed: 7 };
        let mut link = SharedLink::new(&options).unwrap();
        packets.into_iter().for_each(|packet| link.packet(packet));
        let sent = link.bottleneck().totals().sent().bytes as f64;
        assert!(sent > 0.95 * possible, "{part}: {}", sent / possible);
    }
}

#[test]
fn the_rate_in_the_state_is_that_of_the_flow() {
    let csfq = Csfq::new(CsfqOptions::default(), LINK).unwrap();
    let mut random = Random::new(1);
    // Packets of 1,000 bytes; at the lowest rate five in the averaging time.
    for (rate, weight) in [(0.4e6, 1), (2e6, 1), (10e6, 1), (100e6, 1), (10e6, 4)] {
        let (mut state, mut at, mut sum, mut packets) = (0, 0.0, 0.0, 0);
        while at < 60e9 {
            let (flow, len, ecn) = (0, 1_000, Ecn::NotCapable);
            let packet = Packet { at: at as u64, flow, len, ecn, weight, label: None };
            let label = csfq.label(&packet, &mut state, &mut random);
            if at > 1e9 {
                (sum, packets) = (sum + label, packets + 1);
            }
            at += 8_000.0 * 1e9 / rate;
        }
        let ratio = sum / f64::from(packets) / (rate / f64::from(weight));
        assert!((ratio - 1.0).abs() < 0.05, "{rate}: {ratio}");
        let last = csfq.rate(state) / (rate / f64::from(weight));
        assert!((0.7..1.4).contains(&last), "{rate}: {last}");
    }
}

#[test]
fn a_second_link_needs_no_state_of_flows() {
    // Labels are made at the first link; the second, of half its rate, reads them.
    let options = CsfqOptions::default();
    let mut edge = Csfq::new(options, LINK).unwrap();
    let mut core = Csfq::new(options, LINK / 2).unwrap();
    let mut random = Random::new(9);
    let rates = [1.0, 0.6, 0.4, 0.2].map(|part| part * LINK as f64);
    let (mut states, mut sent) = ([0; 4], [0.0; 4]);
    for packet in sources(&rates, 42, 4) {
        let flow = packet.flow as usize;
        let label = edge.label(&packet, &mut states[flow], &mut random);
        let passed = edge.forward(packet.at, label, packet.len, &mut random);
        let passed = passed.and_then(|label| {
            assert!(label <= edge.fair_share());
            core.forward(packet.at, label, packet.len, &mut random)
        });
        if passed.is_some() && packet.at >= 2 * SECOND {
            sent[flow] += f64::from(packet.len) * 8.0 / 40.0;
        }
    }
    let fair = LINK as f64 / 8.0;
    assert!(sent.iter().all(|rate| (0.85..=1.15).contains(&(rate / fair))), "{sent:?}");
}

#[test]
fn drops_have_their_names() {
    let policy = Policy::Csfq(CsfqOptions::default());
    let options = LinkOptions { rate: LINK, buffer: 4_096, policy, seed: 7 };
    let mut link = forebay_flow::policy::Bottleneck::new(&options).unwrap();
    let (mut states, mut reasons) = ([0; 2], Vec::new());
    for packet in sources(&[1.5e7, 1.5e7], 3, 1) {
        link.packet(packet, &mut states[packet.flow as usize], |outcome| {
            if let Verdict::Drop(reason) = outcome.verdict {
                reasons.push(reason);
            }
        });
    }
    assert!(reasons.contains(&Reason::FairShare) && reasons.contains(&Reason::BufferFull));
    let error = Csfq::new(CsfqOptions { window: 5 }, LINK).unwrap_err().to_string();
    assert_eq!(error, "an averaging time of 5 ns: expected 1 ms to 10 s");
}
