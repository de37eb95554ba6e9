//! Tests of plans by the checker, and of the checker by invalid plans.

use forebay_filter::compile_function;
use forebay_filter::ir::{BlockId, Function};
use forebay_packet::LinkType;

use super::checker::{Fault, check_run, check_schedule};
use super::graph::Verdict;
use super::patterns::{End, Packet, Step};
use super::schedule::MAX_STAGES;
use super::{EmsError, EmsPlan};
use crate::code::{Backend, Isa, Options};

const EXPRESSIONS: [&str; 12] = [
    "ip",
    "ip and tcp",
    "len >= 100",
    "net 10.0.0.0/8",
    "port 80",
    "not (tcp dst port 17)",
    "udp and (port 53 or port 67)",
    "tcp[13] & 7 != 0 and ip[2:2] > 20",
    "ip[2:2] - ((ip[0] & 15) << 2) - ((tcp[12] & 0xf0) >> 2) != 0",
    "ether[100] & 0 = 0 or len > 60",
    "ip[12:4] = ip[16:4]",
    "src portrange 20-80 or dst portrange 80-100",
];

fn function(expression: &str) -> Function {
    compile_function(expression, LinkType::ETHERNET).expect(expression)
}

fn options(ems_patterns: usize) -> Options {
    Options { ems_patterns, ..Options::new(Backend::Ems, Isa::Scalar) }
}

/// A pseudo-random outcome for each packet and block. For some seeds one outcome is more likely,
/// so that packets pass many blocks.
fn coin(seed: u64, packet: usize, block: BlockId) -> bool {
    let mut mixed = seed << 40 ^ (packet as u64) << 20 ^ u64::from(block.0);
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    match seed % 3 {
        0 => mixed >> 63 == 1,
        1 => mixed >> 61 != 0,
        _ => mixed >> 61 == 0,
    }
}

fn check(plan: &EmsPlan<'_>, seeds: u64) -> Result<(), Fault> {
    check_schedule(plan)?;
    for packets in 0..=10 {
        for seed in 0..seeds {
            check_run(plan, packets, &|packet, block| coin(seed, packet, block))?;
        }
    }
    Ok(())
}

#[test]
fn every_packet_takes_its_way_whatever_the_outcomes() {
    for expression in EXPRESSIONS {
        let function = function(expression);
        for bound in [2048, 256, 64] {
            match EmsPlan::new(&function, &options(bound)) {
                Ok(plan) => assert_eq!(check(&plan, 60), Ok(()), "{expression}, {bound}"),
                Err(error) => assert_eq!(error, EmsError::Patterns(bound), "{expression}"),
            }
        }
    }
}

#[test]
fn all_packets_alike_take_their_way() {
    let function = function("port 80");
    let plan = EmsPlan::new(&function, &options(2048)).expect("a plan");
    for packets in 0..=40 {
        for holds in [false, true] {
            assert_eq!(check_run(&plan, packets, &|_, _| holds), Ok(()));
        }
    }
}

/// The statements on code size in this back end's documentation.
#[test]
fn fewer_patterns_mean_fewer_packets_in_flight() {
    for (expression, patterns) in [("ip and tcp", [200, 74, 24]), ("port 3000", [939, 244, 85])] {
        let function = function(expression);
        let plan = |bound| EmsPlan::new(&function, &options(bound));
        for (stages, most) in [MAX_STAGES, 3, 2].into_iter().zip(patterns) {
            let plan = plan(most).expect("a plan");
            assert_eq!((plan.schedule.stages, plan.patterns.len()), (stages, most));
            assert!(plan.schedule.ii >= plan.schedule.mii);
        }
        let too_few = patterns[2] - 1;
        assert_eq!(plan(too_few).err(), Some(EmsError::Patterns(too_few)));
    }
}

#[test]
fn loops_are_turned_down() {
    let function = function("ip6 protochain 17");
    assert_eq!(EmsPlan::new(&function, &options(2048)).err(), Some(EmsError::ControlFlow));
}

#[test]
fn places_that_nothing_bounds_are_turned_down() {
    let function = function("ip[ip[2:2]] = 17");
    let error = EmsPlan::new(&function, &options(2048)).expect_err("no plan");
    assert!(matches!(error, EmsError::Value(_)), "{error}");
}

/// Plans with one error each in pattern `id` of `plan`.
fn broken<'f>(plan: &EmsPlan<'f>, id: usize) -> Vec<(String, EmsPlan<'f>)> {
    let stages = plan.schedule.stages;
    let mut plans = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut EmsPlan<'f>)| {
        let mut plan = plan.clone();
        change(&mut plan);
        plans.push((what, plan));
    };
    match plan.patterns[id].end {
        End::Test { packet, node, then, otherwise } => {
            let end = End::Test { packet, node, then: otherwise, otherwise: then };
            add(format!("{id}: exchanged"), &|plan| plan.patterns[id].end = end);
        }
        End::Next { some, none } => {
            if none.is_some() {
                let end = End::Next { some, none: None };
                add(format!("{id}: ended early"), &|plan| plan.patterns[id].end = end);
            }
            if some.is_some() {
                for some in [None, none] {
                    let end = End::Next { some, none };
                    add(format!("{id}: left out"), &|plan| plan.patterns[id].end = end);
                }
            }
        }
    }
    for (at, &step) in plan.patterns[id].steps.iter().enumerate() {
        add(format!("{id}: no {step:?}"), &|plan| {
            plan.patterns[id].steps.remove(at);
        });
        let moved = |packet: Packet| Packet { set: (packet.set + 1) % stages, ..packet };
        let later = |packet: Packet| Packet { stage: packet.stage + 1, ..packet };
        let (other_set, other_stage) = match step {
            Step::Enter(packet) => (Some(Step::Enter(moved(packet))), Step::Enter(later(packet))),
            Step::Load(packet, load) => {
                (Some(Step::Load(moved(packet), load)), Step::Load(later(packet), load))
            }
            Step::Decide(packet, node) => {
                (Some(Step::Decide(moved(packet), node)), Step::Decide(later(packet), node))
            }
            // It is not stored from a register.
            Step::Verdict(packet, verdict @ Verdict::Constant(_)) => {
                (None, Step::Verdict(later(packet), verdict))
            }
            Step::Verdict(packet, verdict) => {
                (Some(Step::Verdict(moved(packet), verdict)), Step::Verdict(later(packet), verdict))
            }
        };
        for other in other_set.into_iter().chain([other_stage]) {
            add(format!("{id}: {other:?}"), &|plan| plan.patterns[id].steps[at] = other);
        }
    }
    plans
}

#[test]
fn the_checker_finds_every_broken_pattern() {
    for (expression, bound) in [("ip and tcp", 64), ("net 10.0.0.0/8", 100), ("ip", 200)] {
        let function = function(expression);
        let plan = EmsPlan::new(&function, &options(bound)).expect("a plan");
        assert_eq!(check(&plan, 1), Ok(()));
        let mut missed = Vec::new();
        for id in 0..plan.patterns.len() {
            for (what, plan) in broken(&plan, id) {
                let fails = |seed: u64| {
                    let packets = 1 + seed as usize % 10;
                    let outcome = |packet, block| coin(seed, packet, block);
                    check_run(&plan, packets, &outcome).is_err()
                };
                if !(0..30_000).any(fails) {
                    missed.push(what);
                }
            }
        }
        assert!(missed.is_empty(), "{expression}: {missed:#?}");
    }
}

#[test]
fn the_checker_finds_broken_schedules() {
    let function = function("net 10.0.0.0/8");
    let plan = EmsPlan::new(&function, &options(2048)).expect("a plan");
    for (node, &time) in plan.schedule.times.iter().enumerate() {
        for wrong in [0, time + 100 * plan.schedule.ii] {
            let mut plan = plan.clone();
            plan.schedule.times[node] = wrong;
            assert!(check_schedule(&plan).is_err(), "test {node} at {wrong}");
        }
    }
}
