//! Floods of new keys: at one bucket, and at all of them.

use forebay_balance::Event;
use forebay_balance::health::Manual;
use forebay_balance::moves::RecordLimits;

use crate::traffic::{AIMED, Profile, SECOND, Traffic, bucket_of_key};
use crate::world::{World, equal_sensors, settings};

const SHORT: Profile = Profile { flows: 2_000.0, life: 1.0, largest: 50, ends: true };

/// Keys that are never seen again.
const FLOOD: Profile = Profile { flows: 20_000.0, life: 1e-3, largest: 1, ends: false };

/// A sensor drains, so that each of its buckets moves, and one of them is flooded.
#[test]
fn a_flood_at_one_bucket_cancels_its_move_and_no_other() {
    let bucket = bucket_of_key(AIMED);
    let traffic = vec![Traffic::new(SHORT, 6), Traffic::aimed(FLOOD, 7)];
    let mut world = World::new(settings(), &equal_sensors(3), 2, traffic);
    world.run(3 * SECOND, 0);
    let home = world.group.bucket(bucket).default_sensor();
    world.command(home, Manual::Drain);
    world.run(10 * SECOND, 0);
    let cancelled = |event: &Event| match event {
        Event::Cancelled { bucket } => Some(*bucket),
        _ => None,
    };
    let mut buckets: Vec<u16> = world.events.iter().filter_map(cancelled).collect();
    buckets.dedup();
    assert_eq!(buckets, [bucket]);
    assert!(world.group.counts().cancelled >= 1);
    assert!(world.group.counts().completed > 20_000, "{:?}", world.group.counts());
    world.traffic[1].stop();
    world.run(20 * SECOND, 0);
    assert!(world.events.contains(&Event::Drained { sensor: home }), "the flood is over");
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
}

/// Keys from everywhere, more than can be recorded: moves are cancelled, and what is on record
/// never exceeds the table.
#[test]
fn a_flood_of_random_keys_fills_the_table_and_tears_nothing() {
    let mut small = settings();
    small.records = RecordLimits { keys: 8_192, keys_per_move: 64 };
    let traffic = vec![Traffic::new(SHORT, 8), Traffic::new(FLOOD, 9)];
    let mut world = World::new(small, &equal_sensors(3), 2, traffic);
    world.run(SECOND / 2, 0);
    // Before there are loads to plan by, every bucket counts alike, and all begin to move.
    world.command(1, Manual::Drain);
    world.run(12 * SECOND, 0);
    let counts = world.group.counts();
    assert!(counts.cancelled > 0 && counts.completed > 100, "{counts:?}");
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0));
}
