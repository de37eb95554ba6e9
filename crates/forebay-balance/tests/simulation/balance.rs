//! The load comes to be where it should.

use crate::traffic::{Profile, SECOND, Traffic};
use crate::world::{Tallies, World, equal_sensors, settings};

const SHORT: Profile = Profile { flows: 6_000.0, life: 1.0, largest: 200, ends: true };

fn limited_world(profile: Profile, workers: usize) -> World {
    // The mean load, from the same traffic.
    let mut traffic = Traffic::new(profile, 1);
    let packets = std::iter::from_fn(|| traffic.next_before(8 * SECOND));
    let rate = packets.filter(|packet| packet.time >= 4 * SECOND).count() as f64 / 4.0;
    let mut sensors = equal_sensors(4);
    sensors[0].max_packets = Some(rate / 8.0);
    World::new(settings(), &sensors, workers, vec![Traffic::new(profile, 1)])
}

/// One of four sensors can take half its share, from the start.
fn limited_sensor(profile: Profile, workers: usize, scattered: bool) {
    let mut world = limited_world(profile, workers);
    world.scattered = scattered;
    world.run(5 * SECOND, 0);
    let early = world.run(8 * SECOND, 5 * SECOND);
    let new = Tallies::share(&early.new, 0);
    assert!((new / 0.125 - 1.0).abs() < 0.1, "share of new flows after 5 s: {new}");
    world.run(15 * SECOND, 0);
    let late = world.run(18 * SECOND, 0);
    let all = Tallies::share(&late.all, 0);
    assert!((all / 0.125 - 1.0).abs() < 0.1, "share of all after 15 s: {all}");
    for other in 1..4 {
        let share = Tallies::share(&late.all, other);
        assert!((share / (7.0 / 24.0) - 1.0).abs() < 0.1, "share of {other}: {share}");
    }
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
    let counts = world.group.counts();
    assert!(counts.completed > 4_000 && counts.cancelled == 0, "{counts:?}");
    assert!(counts.begun < 14_000, "moves to and fro: {counts:?}");
}

#[test]
fn a_limited_sensor_is_relieved_and_no_flow_is_torn() {
    limited_sensor(SHORT, 2, false);
}

#[test]
fn with_few_flows_and_one_worker() {
    let few = Profile { flows: 3_000.0, largest: 30, ..SHORT };
    limited_sensor(few, 1, false);
}

#[test]
fn with_keys_whose_packets_come_to_every_worker() {
    limited_sensor(Profile { ends: false, ..SHORT }, 4, true);
}

#[test]
fn flows_that_last_are_not_torn_and_the_bound_is_told() {
    let lasting = Profile { flows: 8_000.0, life: f64::INFINITY, largest: 20, ends: false };
    let mut world = limited_world(lasting, 2);
    world.run(20 * SECOND, 0);
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
    let outlook = world.sensor(0).outlook;
    let over = outlook.measured.packets / outlook.target.packets;
    assert!((1.8..2.3).contains(&over), "no flow has ended: {over}");
    let bound = |event: &forebay_balance::Event| {
        matches!(event, forebay_balance::Event::Bound { sensor: 0, .. })
    };
    assert_eq!(world.events.iter().filter(|event| bound(event)).count(), 1);
    assert!(outlook.lasting.packets > 0.3 * outlook.measured.packets, "{outlook:?}");
}

#[test]
fn in_an_emergency_flows_that_last_are_torn_and_counted() {
    let lasting = Profile { flows: 8_000.0, life: f64::INFINITY, largest: 20, ends: false };
    let mut world = limited_world(lasting, 2);
    let mut settings = settings();
    settings.balance.emergency = true;
    world.group.configure(settings);
    world.run(30 * SECOND, 0);
    let late = world.run(32 * SECOND, 0);
    let share = Tallies::share(&late.all, 0);
    assert!(share < 0.125 * 1.1, "{share}");
    let told: f32 = world
        .events
        .iter()
        .map(|event| match event {
            forebay_balance::Event::Torn { flows, .. } => flows.about,
            _ => 0.0,
        })
        .sum();
    let torn = world.checker.torn as f32;
    // Flows that paused for half the idle timeout may not be counted as live.
    let part = told / torn;
    assert!(torn > 0.0 && (0.7..1.3).contains(&part), "{told} told, {torn} torn");
}

#[test]
fn a_draining_sensor_keeps_its_flows_and_is_told_to_be_empty_when_they_end() {
    let mut world = World::new(settings(), &equal_sensors(3), 2, vec![Traffic::new(SHORT, 4)]);
    world.run(4 * SECOND, 0);
    world.command(1, forebay_balance::health::Manual::Drain);
    world.run(16 * SECOND, 0);
    assert!(world.events.contains(&forebay_balance::Event::Drained { sensor: 1 }));
    let late = world.run(18 * SECOND, 0);
    assert_eq!(late.all.get(&1), None);
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
}
