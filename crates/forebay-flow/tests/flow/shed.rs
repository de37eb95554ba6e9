//! Shedding: a sensor is within its limit in every 100 ms, nothing is shed below it, and few
//! flows are harmed.

use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex};

use forebay_flow::policy::Count;
use forebay_flow::shed::{
    Arrival, Limit, LimitEstimate, OnOverload, Rates, SensorReport, Shed, Shedder, WINDOW,
};
use forebay_packet::random::Random;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Packet {
    at: u64,
    flow: u32,
    len: u32,
    is_end: bool,
    is_suspect: bool,
}

/// What became of a flow.
#[derive(Clone, Debug, Default)]
struct Flow {
    state: u16,
    prior: Count,
    /// What became of each packet, in order.
    fates: Vec<Option<Shed>>,
}

/// Packets that passed, by time, and flows by number.
#[derive(Debug, Default)]
struct Outcome {
    sent: Vec<Packet>,
    flows: HashMap<u32, Flow>,
    /// Some batches were near the limit or above.
    was_near: bool,
}

/// A worker: batches of up to 64 packets of at most 200 µs.
fn shed(shedder: &mut Shedder, packets: &[Packet]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut rest = packets;
    while let Some(first) = rest.first() {
        let is_in = |packet: &&Packet| packet.at < first.at + 200_000;
        let batch = rest.iter().take(64).take_while(is_in).count();
        let (batch, others) = rest.split_at(batch);
        rest = others;
        let now = batch[batch.len() - 1].at;
        let offered = batch.iter().map(|packet| Count::of(packet.len)).sum();
        let decides = shedder.begin(now, offered);
        outcome.was_near |= decides;
        if decides {
            let suspect = batch.iter().filter(|packet| packet.is_suspect);
            shedder.expect_suspect(suspect.map(|packet| Count::of(packet.len)).sum());
        }
        for packet in batch {
            let flow = outcome.flows.entry(packet.flow).or_default();
            let arrival = Arrival {
                flow: packet.flow,
                len: packet.len,
                prior: flow.prior,
                is_first: flow.prior.packets == 0,
                is_end: packet.is_end,
                is_suspect: packet.is_suspect,
                label: None,
            };
            let fate = if decides { shedder.packet(&arrival, &mut flow.state) } else { None };
            flow.prior += Count::of(packet.len);
            flow.fates.push(fate);
            if fate.is_none() {
                outcome.sent.push(Packet { at: now, ..*packet });
            }
        }
        if decides {
            shedder.end();
        }
    }
    outcome
}

/// The most packets and bytes of any 100 ms.
fn most_in_a_window(packets: &[Packet]) -> Count {
    let (mut first, mut window, mut most) = (0, Count::default(), Count::default());
    for packet in packets {
        window += Count::of(packet.len);
        while packet.at - packets[first].at >= WINDOW {
            window.packets -= 1;
            window.bytes -= u64::from(packets[first].len);
            first += 1;
        }
        most.packets = most.packets.max(window.packets);
        most.bytes = most.bytes.max(window.bytes);
    }
    most
}

/// Flows whose numbers of packets have a heavy tail, at random times, with about `pps` packets
/// a second, for `seconds`.
fn heavy_tailed(seed: u64, pps: u64, seconds: u64) -> Vec<Packet> {
    let mut random = Random::new(seed);
    let (mut packets, mut flow) = (Vec::new(), 0);
    while (packets.len() as u64) < pps * seconds {
        let size = random.pareto(1, 1 << 14);
        let begin = random.below(seconds * SECOND);
        let gap = random.between(100_000, 20_000_000).min(seconds * SECOND / size);
        let mut at = begin;
        for left in (0..size).rev() {
            let (len, is_end) = (random.between(60, 1_514) as u32, left == 0);
            let at_once = at % (seconds * SECOND);
            packets.push(Packet { at: at_once, flow, len, is_end, is_suspect: false });
            at += random.between(1, 2 * gap);
        }
        flow += 1;
    }
    packets.sort_by_key(|packet| packet.at);
    packets
}

fn shedder(rates: Rates, policy: OnOverload) -> Shedder {
    Shedder::new(Arc::new(Limit::new(rates)), policy, 7).unwrap()
}

const POLICIES: [OnOverload; 4] =
    [OnOverload::Fair, OnOverload::Red, OnOverload::Drr, OnOverload::WholeFlows];

fn check_limit(outcome: &Outcome, rates: Rates) {
    let most = most_in_a_window(&outcome.sent);
    assert!(rates.pps.is_none_or(|pps| most.packets <= pps / 10), "{most:?} of {rates:?}");
    assert!(rates.bps.is_none_or(|bps| most.bytes <= bps / 80), "{most:?} of {rates:?}");
}

#[test]
fn the_limit_holds_in_every_window_and_most_of_it_is_used() {
    let packets = heavy_tailed(1, 40_000, 4);
    let bits = packets.iter().map(|packet| u64::from(packet.len) * 8).sum::<u64>() / 4;
    for policy in POLICIES {
        for over in [2, 10] {
            for rates in [
                Rates { pps: Some(40_000 / over), bps: None },
                Rates { pps: None, bps: Some(bits / over) },
                Rates { pps: Some(40_000 / over), bps: Some(bits / over) },
            ] {
                let outcome = shed(&mut shedder(rates, policy), &packets);
                check_limit(&outcome, rates);
                let part = outcome.sent.len() as f64 / packets.len() as f64 * over as f64;
                assert!(part > 0.6, "{policy:?}, {rates:?}: {part} of the limit is used");
            }
        }
    }
}

/// Numbers of slots are kept to 24 bits.
#[test]
fn a_limit_that_is_used_for_the_first_time_or_after_hours_sheds_nothing() {
    const AROUND: u64 = (1 << 24) * (WINDOW / 128);
    for begin in [0, 5_000, 20 * SECOND, 60 * SECOND].map(|before| AROUND - before) {
        let mut shedder = shedder(Rates { pps: Some(3_000), bps: None }, OnOverload::Fair);
        for idle in [0, AROUND - 20 * SECOND, AROUND + 1] {
            let mut packets = steady(0, 2_000, 2, 10, false);
            packets.iter_mut().for_each(|packet| packet.at += begin + idle);
            let outcome = shed(&mut shedder, &packets);
            assert_eq!(outcome.sent.len(), packets.len(), "{begin}, {idle}");
        }
    }
}

#[test]
fn nothing_is_shed_below_the_limit() {
    let packets = heavy_tailed(2, 20_000, 3);
    let most = most_in_a_window(&packets);
    // A limit counts a slot more than a window.
    let pps = most.packets * 10 * 11 / 10;
    let bps = most.bytes * 80 * 11 / 10;
    for policy in POLICIES {
        for rates in [
            Rates { pps: Some(pps), bps: None },
            Rates { pps: Some(pps), bps: Some(bps) },
            Rates { pps: None, bps: Some(bps) },
        ] {
            let outcome = shed(&mut shedder(rates, policy), &packets);
            assert!(outcome.was_near);
            assert_eq!(outcome.sent.len(), packets.len(), "{policy:?}");
        }
    }
}

#[test]
fn when_the_overload_is_over_nothing_is_shed_any_more() {
    let mut packets = heavy_tailed(3, 40_000, 2);
    packets.retain(|packet| packet.at < SECOND || packet.flow % 8 == 0);
    for policy in POLICIES {
        let outcome = shed(&mut shedder(Rates { pps: Some(20_000), bps: None }, policy), &packets);
        let late = |packets: &[Packet]| {
            packets.iter().filter(|packet| packet.at > SECOND + 2 * WINDOW).count()
        };
        assert!(outcome.sent.len() < packets.len());
        assert!(late(&outcome.sent).abs_diff(late(&packets)) < 70, "{policy:?}");
    }
}

/// What `whole-flows` promises of each flow while an overload lasts.
fn check_whole_flows(flows: &HashMap<u32, Flow>, packets: &[Packet]) {
    for (number, flow) in flows {
        let fates = &flow.fates;
        if fates[0] == Some(Shed::NewFlow) {
            assert!(fates.iter().all(|&fate| fate == Some(Shed::NewFlow)), "{number}: {fates:?}");
            continue;
        }
        assert!(!fates.contains(&Some(Shed::NewFlow)), "{number}: {fates:?}");
        let Some(cut) = fates.iter().position(Option::is_some) else { continue };
        let ends = packets.iter().filter(|packet| packet.flow == *number).map(|one| one.is_end);
        let later = fates.iter().zip(ends).skip(cut);
        let passed: Vec<bool> =
            later.filter(|(fate, _)| fate.is_none()).map(|(_, is_end)| is_end).collect();
        assert!(passed.len() <= 3 && !passed.contains(&false), "{number}: {fates:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn flows_pass_whole_or_are_shed_by_name(seed: u64, pps in 2_000_u64..15_000) {
        // All at once from the start: the overload begins with the first window and lasts.
        let packets = heavy_tailed(seed, 40_000, 1);
        let rates = Rates { pps: Some(pps), bps: None };
        let mut shedder = shedder(rates, OnOverload::WholeFlows);
        let outcome = shed(&mut shedder, &packets);
        check_limit(&outcome, rates);
        check_whole_flows(&outcome.flows, &packets);
    }
}

#[test]
fn most_flows_are_whole_at_twice_the_limit() {
    let packets = heavy_tailed(5, 50_000, 8);
    let rates = Rates { pps: Some(25_000), bps: None };
    let outcome = shed(&mut shedder(rates, OnOverload::WholeFlows), &packets);
    let whole = |flow: &&Flow| flow.fates.iter().all(Option::is_none);
    let complete = outcome.flows.values().filter(whole).count();
    let part = complete as f64 / outcome.flows.len() as f64;
    assert!(part > 0.9, "{part}");
    let shed: usize = outcome.flows.values().map(|flow| flow.fates.iter().flatten().count()).sum();
    assert_eq!(shed + outcome.sent.len(), packets.len());
}

/// Flows of `size` packets each at so many packets a second, one after another.
fn steady(first: u32, pps: u64, seconds: u64, size: u64, is_end: bool) -> Vec<Packet> {
    let number = |at: u64| first + (at / size) as u32;
    let packet = |at: u64| Packet {
        at: at * SECOND / pps,
        flow: number(at),
        len: 100,
        is_end,
        is_suspect: false,
    };
    (0..pps * seconds).map(packet).collect()
}

fn together(parts: [Vec<Packet>; 2]) -> Vec<Packet> {
    let mut packets = parts.concat();
    packets.sort_by_key(|packet| packet.at);
    packets
}

/// The flows of which one in `of` is suspect.
fn suspect(packets: &mut [Packet], of: u32) {
    packets.iter_mut().for_each(|packet| packet.is_suspect = packet.flow % of == 0);
}

#[test]
fn at_twice_the_limit_suspect_flows_are_complete_where_they_fit_alone() {
    for seed in 5..9 {
        let mut packets = heavy_tailed(seed, 50_000, 8);
        suspect(&mut packets, 4);
        let alone: Vec<Packet> = packets.iter().filter(|one| one.is_suspect).copied().collect();
        let rates = Rates { pps: Some(25_000), bps: None };
        assert!(most_in_a_window(&alone).packets < 2_500 * 9 / 10, "they fit");
        let outcome = shed(&mut shedder(rates, OnOverload::WholeFlows), &packets);
        check_limit(&outcome, rates);
        // Before the overload is noticed, the others fill the first window.
        let early: std::collections::HashSet<u32> =
            alone.iter().filter(|one| one.at < 3 * WINDOW).map(|one| one.flow).collect();
        let suspect = outcome.flows.iter().filter(|(flow, _)| *flow % 4 == 0);
        let torn = suspect.filter(|(flow, _)| !early.contains(flow));
        let lost: usize = torn.map(|(_, flow)| flow.fates.iter().flatten().count()).sum();
        assert_eq!(lost, 0, "of {}", alone.len());
        // The others still use what is left, and most of them are whole.
        let part = outcome.sent.len() as f64 / packets.len() as f64 * 2.0;
        assert!(part > 0.8, "{part} of the limit is used");
        let whole = |flow: &&Flow| flow.fates.iter().all(Option::is_none);
        let complete = outcome.flows.values().filter(whole).count();
        assert!(complete as f64 / outcome.flows.len() as f64 > 0.8, "{complete}");
    }
}

#[test]
fn where_all_flows_are_suspect_they_are_shed_whole_as_if_none_were() {
    let mut packets = heavy_tailed(5, 50_000, 8);
    suspect(&mut packets, 1);
    let rates = Rates { pps: Some(25_000), bps: None };
    let outcome = shed(&mut shedder(rates, OnOverload::WholeFlows), &packets);
    check_limit(&outcome, rates);
    let whole = |flow: &&Flow| flow.fates.iter().all(Option::is_none);
    let complete = outcome.flows.values().filter(whole).count();
    let part = complete as f64 / outcome.flows.len() as f64;
    assert!(part > 0.9, "{part}");
}

#[test]
fn a_single_huge_flow_harms_no_other() {
    let packets = together([steady(1, 5_000, 4, 10, false), steady(0, 40_000, 4, 1 << 40, false)]);
    let rates = Rates { pps: Some(10_000), bps: None };
    let mut outcome = shed(&mut shedder(rates, OnOverload::WholeFlows), &packets);
    check_limit(&outcome, rates);
    let huge = outcome.flows.remove(&0).unwrap();
    assert!(huge.fates.contains(&Some(Shed::Tail)));
    let harmed = outcome.flows.values().filter(|flow| flow.fates.iter().any(Option::is_some));
    // The window is full for its rest when the overload begins.
    let harmed = harmed.count();
    assert!(harmed < 60, "{harmed} of {}", outcome.flows.len());
}

#[test]
fn floods_of_small_flows_and_of_ends_leave_room_for_flows_under_way() {
    // Flows of ten packets, under way from the begin; then new flows of a packet each.
    for (size, is_end) in [(1, false), (1, true), (1 << 40, true)] {
        let calm: Vec<Packet> = (0..40_000_u64)
            .map(|at| {
                let flow = (at % 1_000) as u32;
                let at = at * SECOND / 10_000;
                Packet { at, flow, len: 100, is_end: false, is_suspect: false }
            })
            .collect();
        let mut flood = steady(1_000, 90_000, 2, size, is_end);
        flood.iter_mut().for_each(|packet| packet.at += SECOND);
        let packets = together([calm, flood]);
        let rates = Rates { pps: Some(30_000), bps: None };
        let outcome = shed(&mut shedder(rates, OnOverload::WholeFlows), &packets);
        check_limit(&outcome, rates);
        let is_whole = |flow: &u32| outcome.flows[flow].fates.iter().all(Option::is_none);
        let whole = (0..1_000).filter(is_whole).count();
        // Before the overload is noticed its packets fill the window.
        assert!(whole > 450, "{size} {is_end}: {whole}");
    }
}

#[test]
fn workers_keep_the_limit_together() {
    const WORKERS: u64 = 4;
    let packets = Arc::new(heavy_tailed(9, 80_000, 2));
    for policy in POLICIES {
        let rates = Rates { pps: Some(20_000), bps: None };
        let limit = Arc::new(Limit::new(rates));
        let (barrier, sent) = (Barrier::new(WORKERS as usize), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (barrier, sent, packets) = (&barrier, &sent, &packets);
                let mut shedder = Shedder::new(Arc::clone(&limit), policy, worker).unwrap();
                scope.spawn(move || {
                    // All workers at the same time of the traffic, a millisecond each time.
                    let own = |packet: &&Packet| u64::from(packet.flow) % WORKERS == worker;
                    let own: Vec<Packet> = packets.iter().filter(own).copied().collect();
                    let mut rest = &own[..];
                    for step in 1..=2_000 {
                        let (now, rest_of) = (step * 1_000_000, rest);
                        let batch = rest_of.partition_point(|packet| packet.at < now);
                        let mut batch = rest_of[..batch].to_vec();
                        rest = &rest_of[batch.len()..];
                        batch.iter_mut().for_each(|packet| packet.at = now);
                        barrier.wait();
                        let outcome = shed(&mut shedder, &batch);
                        sent.lock().unwrap().extend(outcome.sent);
                    }
                });
            }
        });
        let mut sent = sent.into_inner().unwrap();
        sent.sort_by_key(|packet| packet.at);
        let most = most_in_a_window(&sent).packets;
        assert!(most <= 2_000, "{policy:?}: {most}");
        assert!(sent.len() > 28_000, "{policy:?}: {} of 40,000", sent.len());
    }
}

#[test]
fn reports_of_drops_make_a_limit_that_rises_again() {
    let mut estimate = LimitEstimate::default();
    let mut report = |second: u64, received, dropped| {
        estimate.report(SensorReport { at: second * SECOND, received, dropped })
    };
    assert_eq!(report(1, 0, 0), None);
    assert_eq!(report(2, 100_000, 0), None, "no drops, no limit");
    assert_eq!(report(3, 200_000, 20_000), Some(72_000), "a little less than it took");
    let risen = report(4, 272_000, 20_000);
    assert_eq!(risen, Some(79_200), "a tenth, below 90,000");
    assert_eq!(report(5, 0, 0), risen, "a sensor that starts again");
    assert_eq!(report(6, 1_000, 1), risen, "a drop in a thousand");
    assert_eq!(report(7, 2_000, 501), risen, "much in a quiet second");
    assert_eq!(report(8, 3_000, 1_001), risen, "and in another");
    assert_eq!(report(9, 4_000, 1_501), Some(1_000), "going on, but never none");
    assert_eq!(report(19, 13_000, 1_501), Some(1_104), "a hundredth each second");
    assert_eq!(Limit::new(Rates { pps: Some(u64::MAX), bps: None }).pps(), None);
}

/// A sensor that takes 5,000 packets a second is offered 8,000, or its limit. It sends hellos every
/// 200 ms, and its program writes statistics less often.
#[test]
fn a_limit_is_what_the_sensor_takes_however_often_it_has_statistics() {
    const TICK: u64 = 200_000_000;
    for (period, is_late) in [(1, false), (5, false), (40, false), (1, true), (5, true)] {
        let mut estimate = LimitEstimate::default();
        let mut limit = None;
        let (mut received, mut dropped) = (0, 0);
        let mut statistics = SensorReport { at: 0, received, dropped };
        let mut dropped_before = 0;
        let mut limited = Vec::new();
        for tick in 1..=600 {
            let offered = limit.map_or(8_000, |pps: u64| pps.min(8_000)) / 5;
            received += offered;
            dropped += offered.saturating_sub(1_000);
            if tick % period == 0 {
                let known = std::mem::replace(&mut dropped_before, dropped);
                let dropped = if is_late { known } else { dropped };
                statistics = SensorReport { at: tick * TICK, received, dropped };
            }
            limit = estimate.report(statistics);
            limited.extend(limit);
        }
        let least = limited.iter().min().unwrap();
        assert!((4_400..=4_500).contains(least), "statistics every {period}: {least}");
        assert!(limited.len() > 500, "statistics every {period}: {}", limited.len());
        // Late statistics have it rise too far now and then.
        let later = &limited[100..];
        let mean = later.iter().sum::<u64>() / later.len() as u64;
        assert!((4_400..5_500).contains(&mean), "statistics every {period}: {mean}");
    }
}

#[test]
fn a_policy_needs_a_limit_that_it_can_express() {
    let limit = || Arc::new(Limit::new(Rates::default()));
    let error = Shedder::new(limit(), OnOverload::Fair, 1).unwrap_err().to_string();
    assert!(error.starts_with("a rate of"), "{error}");
    assert!(!Shedder::new(limit(), OnOverload::None, 1).unwrap().begin(5, Count::of(100)));
    let names: Vec<&str> = Shed::ALL.iter().map(|shed| shed.name()).collect();
    assert_eq!(names, Shed::NAMES);
}
