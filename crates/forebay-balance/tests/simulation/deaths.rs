//! Sensors that die and come back.

use forebay_balance::Event;
use forebay_balance::health::Manual;

use crate::traffic::{Profile, SECOND, Traffic};
use crate::world::{Tallies, World, equal_sensors, settings};

const SHORT: Profile = Profile { flows: 3_000.0, life: 1.0, largest: 100, ends: true };

fn world(sensors: u64) -> World {
    World::new(settings(), &equal_sensors(sensors), 2, vec![Traffic::new(SHORT, 2)])
}

#[test]
fn a_dead_sensors_load_is_elsewhere_at_once_in_proportion_to_room() {
    let mut world = world(4);
    world.run(5 * SECOND, 0);
    world.command(2, Manual::Down);
    let after = world.run(8 * SECOND, 5 * SECOND + SECOND / 10);
    assert_eq!(after.new.get(&2), None);
    assert!(after.all.get(&2).copied().unwrap_or(0) < 1_000, "only until the tick");
    for sensor in [0, 1, 3] {
        let share = Tallies::share(&after.new, sensor);
        assert!((share * 3.0 - 1.0).abs() < 0.1, "{sensor}: {share}");
    }
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
    let deaths = world.events.iter().filter(|event| matches!(event, Event::Died { .. }));
    assert_eq!(deaths.count(), 1);
}

/// Most flows that had a packet within the idle timeout have ended: what a death broke is
/// told an idle timeout later, by those that went on.
#[test]
fn a_death_broke_the_flows_that_went_on_afterwards() {
    let brief = Profile { flows: 4_000.0, life: 0.02, largest: 50, ends: true };
    let lasting = Profile { flows: 600.0, life: f64::INFINITY, largest: 20, ends: false };
    let traffic = vec![Traffic::new(brief, 5), Traffic::new(lasting, 6)];
    let mut world = World::new(settings(), &equal_sensors(4), 2, traffic);
    world.run(5 * SECOND + SECOND / 3, 0);
    world.command(1, Manual::Down);
    world.command(3, Manual::Down);
    world.run(9 * SECOND, 0);
    let died = |event: &Event| match event {
        Event::Died { sensor, live, .. } => Some((*sensor, *live)),
        _ => None,
    };
    let broke = |event: &Event| match event {
        Event::Broken { sensor, flows, or_more: false } => Some((*sensor, *flows)),
        _ => None,
    };
    let died: Vec<_> = world.events.iter().filter_map(died).collect();
    let broke: Vec<_> = world.events.iter().filter_map(broke).collect();
    // `World` has held each number against the truth.
    assert_eq!(broke.iter().map(|one| one.0).collect::<Vec<_>>(), [1, 3], "{broke:?}");
    for ((_, live), (_, flows)) in died.into_iter().zip(broke) {
        assert!(live > 5 * flows, "{live} alive, {flows} broken");
        assert!((100..600).contains(&flows), "{flows}");
    }
}

#[test]
fn a_sensor_that_returns_takes_load_slowly() {
    let mut world = world(4);
    world.run(4 * SECOND, 0);
    world.command(0, Manual::Down);
    world.run(8 * SECOND, 0);
    world.command(0, Manual::Up);
    let mut shares = Vec::new();
    for second in 9..30 {
        let tallies = world.run(second * SECOND, 0);
        shares.push(Tallies::share(&tallies.all, 0));
    }
    let first = shares.iter().position(|&share| share > 0.0).unwrap();
    let half = shares.iter().position(|&share| share > 0.125).unwrap();
    assert!(half >= first + 3, "{shares:?}");
    assert!(shares[shares.len() - 1] > 0.2, "{shares:?}");
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
}

/// Moves are under way all the time, since one sensor after the other drains, when sensors die
/// that are their sources or targets, in every phase.
#[test]
fn sensors_may_die_in_every_phase_of_a_move() {
    let mut world = world(4);
    world.run(3 * SECOND, 0);
    let mut now = 3 * SECOND;
    for round in 0..12_u64 {
        let (drained, dead) = ((round % 4) as u16, ((round * 7 / 3 + 1) % 4) as u16);
        world.command(drained, Manual::Drain);
        now += SECOND + round * SECOND * 37 / 100;
        world.run(now, 0);
        world.command(dead, Manual::Down);
        now += SECOND / 2;
        world.run(now, 0);
        world.command(dead, Manual::Automatic);
        world.command(drained, Manual::Automatic);
    }
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
    let counts = world.group.counts();
    assert!(counts.decided_by_death > 1_000 && counts.completed > 10_000, "{counts:?}");
}

#[test]
fn without_any_sensor_packets_go_nowhere_until_one_is_back() {
    let mut world = world(2);
    world.run(3 * SECOND, 0);
    world.command(0, Manual::Down);
    world.run(6 * SECOND, 0);
    world.command(1, Manual::Down);
    world.run(7 * SECOND, 0);
    let nowhere = world.checker.nowhere;
    assert!(nowhere > 1_000);
    world.command(1, Manual::Up);
    world.run(7 * SECOND + SECOND / 10, 0);
    let after = world.checker.nowhere;
    world.run(10 * SECOND, 0);
    assert_eq!(world.checker.nowhere, after, "every bucket has a sensor again");
    assert_eq!(world.checker.torn, 0);
}
