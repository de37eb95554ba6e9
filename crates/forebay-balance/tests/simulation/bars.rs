//! How soon a sensor that is limited carries no more than it should, over many seeds.
//!
//! Four sensors share flows of 1 s mean life, the idle timeout is 2 s, and at t = 0 one
//! of them, which has a quarter of the load, may take an eighth. Five intervals later new
//! flows are to be within a tenth of its target, fifteen intervals later the whole load.
//!
//! What a sensor gets by chance is in these numbers, too: its flows are a sample. With
//! sizes by Zipf's law the largest decide how far a sample's load is from its mean, whoever
//! spreads them. What the balancer decides is how many buckets a sensor has, and flows to
//! come fall into all alike: that share has no such chance in it.

use std::sync::Mutex;

use forebay_balance::balancer::targets::HEADROOM;

use crate::traffic::{Profile, SECOND, Traffic};
use crate::world::{Tallies, World, equal_sensors, settings};

/// Seconds before t = 0: flows have come to a steady number.
const BEFORE: u64 = 5;

/// The part of the load that the limited sensor should have.
const TARGET: f64 = HEADROOM / 8.0;

/// No flow has more than a hundredth of the target.
const SMALL: Profile = Profile { flows: 5_000.0, life: 1.0, largest: 4, ends: true };

/// The largest flows have a tenth of the target.
const ZIPF: Profile = Profile { flows: 480.0, life: 1.0, largest: 140, ends: true };

/// What the limited sensor has over what it should have.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The load of new flows, from the fifth to the eighth interval.
    new: f64,
    /// The load of all flows, from the fifteenth to the eighteenth.
    all: f64,
    /// Buckets, after five intervals and after fifteen.
    buckets: [f64; 2],
}

fn trial(profile: Profile, seed: u64) -> Trial {
    let mut sensors = equal_sensors(4);
    let mut world = World::new(settings(), &sensors, 2, vec![Traffic::new(profile, seed)]);
    world.run(2 * SECOND, 0);
    let before = world.run(BEFORE * SECOND, 0);
    let rate = before.all.values().sum::<u64>() as f64 / (BEFORE - 2) as f64;
    sensors[0].max_packets = Some(rate / 8.0);
    world.group.set_sensors(&sensors).unwrap();
    let at = |interval: u64| (BEFORE + interval) * SECOND;
    let buckets = |world: &World| f64::from(world.sensor(0).held.buckets) / 65_536.0 / TARGET;
    world.run(at(5), 0);
    let after_5 = buckets(&world);
    let early = world.run(at(8), at(5));
    world.run(at(15), 0);
    let after_15 = buckets(&world);
    let late = world.run(at(18), 0);
    assert_eq!((world.checker.torn, world.checker.nowhere), (0, 0), "seed {seed}");
    Trial {
        new: Tallies::share(&early.new, 0) / TARGET,
        all: Tallies::share(&late.all, 0) / TARGET,
        buckets: [after_5, after_15],
    }
}

/// A trial for each seed, as many at a time as there are processors.
fn trials(profile: Profile, seeds: u64) -> Vec<Trial> {
    let (next, done) = (Mutex::new(1..=seeds), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = { next.lock().unwrap().next() } {
                    let trial = trial(profile, seed);
                    done.lock().unwrap().push(trial);
                }
            });
        }
    });
    let trials = done.into_inner().unwrap();
    assert_eq!(trials.len() as u64, seeds);
    trials
}

fn is_within(part: f64, load: f64) -> bool {
    (load - 1.0).abs() < part
}

#[test]
fn new_flows_are_within_a_tenth_of_the_target_in_5_intervals_and_all_in_15() {
    for trial in trials(SMALL, 8) {
        println!("{trial:.3?}");
        assert!(is_within(0.1, trial.new) && is_within(0.1, trial.all), "{trial:?}");
    }
}

/// With so large flows the load of three seconds says little, and the balancer, which has
/// no more to go by, follows some of it: a single trial's buckets are within a fifth of what
/// they should be, and loads are in the mean.
#[test]
fn with_zipf_sizes_buckets_are_as_they_should_be_and_loads_in_the_mean() {
    let trials = trials(ZIPF, 16);
    for trial in &trials {
        println!("{trial:.3?}");
        assert!(trial.buckets.iter().all(|&buckets| is_within(0.2, buckets)), "{trial:?}");
    }
    let mean = |of: fn(&Trial) -> f64| trials.iter().map(of).sum::<f64>() / trials.len() as f64;
    let (new, all) = (mean(|trial| trial.new), mean(|trial| trial.all));
    println!("new flows' load over the target: {new:.3}, all flows' {all:.3}");
    assert!(is_within(0.1, new) && is_within(0.1, all), "{new} {all}");
}
