//! Decisions on given loads.

use forebay_packet::{HashKey, siphash13};

use super::*;
use crate::assign::Assignment;
use crate::table::{NO_SENSOR, Phase};

/// Buckets, sensors, and a mover that takes a few intervals for each move.
struct Model {
    balancer: Balancer,
    sensors: Vec<SensorShare>,
    loads: Vec<Load>,
    flows: Vec<f64>,
    entries: Vec<Entry>,
    delay: u32,
    moving: Vec<(u32, u16)>,
    interval: u32,
    moved: usize,
}

impl Model {
    fn new(sensors: &[SensorShare]) -> Self {
        let weights: Vec<u32> = sensors.iter().map(|sensor| sensor.weight).collect();
        let assignment = Assignment::of_weights(&weights).unwrap();
        let entry = |bucket| Entry::settled(assignment.sensor_of_bucket(bucket));
        Self {
            balancer: Balancer::new(BalanceSettings::default()),
            sensors: sensors.to_vec(),
            loads: vec![load(1.0); BUCKETS],
            flows: vec![1.0; BUCKETS],
            entries: (0..=u16::MAX).map(entry).collect(),
            delay: 3,
            moving: Vec::new(),
            interval: 0,
            moved: 0,
        }
    }

    fn equal(n: usize) -> Self {
        Self::new(&vec![SensorShare::of_weight(1); n])
    }

    /// Simulates an interval.
    fn step(&mut self) -> Decisions {
        self.interval += 1;
        let decisions = self.balancer.decide(&View {
            sensors: &self.sensors,
            loads: &self.loads,
            latest: &self.loads,
            entries: &self.entries,
            displaced: &vec![Load::NONE; self.sensors.len()],
            flows: &self.flows,
            is_movable: &|bucket| self.entries[usize::from(bucket)].phase() == Phase::Settled,
            moves: BUCKETS,
            keys: 1e9,
        });
        for planned in &decisions.moves {
            let entry = &mut self.entries[usize::from(planned.bucket)];
            *entry = Entry::of_move(Phase::Learning, entry.default_sensor(), planned.to);
            self.moving.push((self.interval + self.delay, planned.bucket));
        }
        self.moved += decisions.moves.len();
        let interval = self.interval;
        for &(_, bucket) in self.moving.iter().filter(|moving| moving.0 <= interval) {
            let entry = &mut self.entries[usize::from(bucket)];
            *entry = Entry::settled(entry.destination());
        }
        self.moving.retain(|moving| moving.0 > interval);
        decisions
    }

    fn steps(&mut self, n: usize) {
        for _ in 0..n {
            self.step();
        }
    }

    /// The fraction of the packets that each sensor has.
    fn parts(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.sensors.len()];
        for (entry, load) in self.entries.iter().zip(&self.loads) {
            if let Some(sum) = sums.get_mut(usize::from(entry.default_sensor())) {
                *sum += load.packets;
            }
        }
        let total: f64 = sums.iter().sum();
        sums.into_iter().map(|sum| sum / total).collect()
    }

    fn total(&self) -> Load {
        total(&self.loads)
    }
}

fn load(packets: f64) -> Load {
    Load { packets, bits: packets * 4_000.0 }
}

/// Heavy-tailed loads; the largest is twenty times the mean.
fn skewed(seed: u64) -> Vec<Load> {
    let draw = |i| (siphash13(&HashKey([seed, 2]), &[i]) >> 12) as f64 / (1_u64 << 52) as f64;
    (0..BUCKETS as u64).map(|i| load(1.0 / (0.01 + draw(i)))).collect()
}

fn assert_parts(parts: &[f64], expected: &[f64], tolerance: f64) {
    for (part, expected) in parts.iter().zip(expected) {
        assert!((part / expected - 1.0).abs() <= tolerance, "{parts:?}, not {expected:?}");
    }
}

#[test]
fn nothing_moves_where_nothing_is_over() {
    let mut model = Model::equal(4);
    model.loads = skewed(1);
    let before = model.parts();
    assert!(before.iter().all(|part| *part < 0.25 * 1.05), "{before:?}");
    model.steps(50);
    assert_eq!(model.moved, 0);
}

#[test]
fn lasting_loads_come_to_their_targets_and_rest_there() {
    for limit in [0.125, 0.05, 0.2] {
        let mut model = Model::equal(4);
        model.loads = skewed(2);
        model.steps(10);
        model.sensors[0].max_packets = Some(model.total().packets * limit);
        model.steps(10);
        let other = (1.0 - limit) / 3.0;
        assert_parts(&model.parts(), &[limit, other, other, other], 0.07);
        assert!(model.parts()[0] <= limit);
        let moved = model.moved;
        model.steps(100);
        assert_eq!(model.moved, moved, "to and fro");
    }
}

#[test]
fn passing_loads_are_split_by_buckets_and_do_not_chase_noise() {
    let mut model = Model::equal(4);
    let total = 1e6;
    for round in 0..60 {
        // The loads of the buckets are random in each interval.
        model.loads = skewed(1_000 + round);
        let factor = total / model.total().packets;
        model.loads.iter_mut().for_each(|load| *load = *load * factor);
        if round == 10 {
            model.sensors[0].max_packets = Some(total / 8.0);
        }
        model.step();
    }
    let buckets = model.entries.iter().filter(|entry| entry.default_sensor() == 0).count();
    assert!((0.9..1.1).contains(&(buckets as f64 / 8_192.0)), "{buckets}");
    assert!(model.moved < 10_000, "{}", model.moved);
}

#[test]
fn the_cheapest_buckets_move() {
    let mut model = Model::equal(2);
    // Buckets of equal load, some with one flow and some with a hundred.
    model.flows = (0..BUCKETS).map(|i| if i % 3 == 0 { 1.0 } else { 100.0 }).collect();
    model.sensors[0].max_packets = Some(model.total().packets * 0.4);
    let decisions = model.step();
    assert!(decisions.moves.len() > 5_000, "{}", decisions.moves.len());
    assert!(decisions.moves.iter().all(|planned| planned.bucket % 3 == 0));
}

#[test]
fn a_drained_sensor_loses_all_and_a_new_one_gains_slowly() {
    let mut model = Model::equal(4);
    model.steps(5);
    model.sensors[2].standing = Standing::Draining;
    model.steps(12);
    let third = 1.0 / 3.0;
    assert_eq!(model.parts()[2], 0.0);
    assert_parts(&[model.parts()[0], model.parts()[1], model.parts()[3]], &[third; 3], 0.06);
    model.sensors[2].standing = Standing::Down;
    model.steps(15);
    model.sensors[2].standing = Standing::Up;
    let mut last = 0.0;
    for _ in 0..40 {
        model.step();
        let now = model.parts()[2];
        assert!(now - last <= 0.25 * 0.11, "from {last} to {now}");
        last = now;
    }
    assert_parts(&model.parts(), &[0.25; 4], 0.07);
}

#[test]
fn a_bucket_too_big_for_any_sensor_is_named_and_left_alone() {
    let mut model = Model::equal(4);
    let bucket = 77_u16;
    let home = model.entries[usize::from(bucket)];
    model.loads[usize::from(bucket)] = load(BUCKETS as f64);
    let mut intervals: Vec<Decisions> = (0..40).map(|_| model.step()).collect();
    assert_eq!(model.entries[usize::from(bucket)], home);
    let moved =
        |decisions: &Decisions| decisions.moves.iter().any(|planned| planned.bucket == bucket);
    assert!(!intervals.iter().any(moved));
    let last = intervals.pop().unwrap();
    assert_eq!(last.oversize.len(), 1);
    assert_eq!((last.oversize[0].bucket, last.oversize[0].dimension), (bucket, Dimension::Packets));
    let quiet = intervals[30..].iter().all(|decisions| decisions.moves.is_empty());
    assert!(quiet, "everything else has found its place");
    let big = usize::from(home.default_sensor());
    let others: Vec<f64> = (0..4).filter(|&i| i != big).map(|i| model.parts()[i]).collect();
    assert_parts(&others, &[0.5 / 3.0; 3], 0.06);
}

#[test]
fn a_few_big_buckets_find_places_without_wandering() {
    let mut model = Model::equal(3);
    model.loads = vec![Load::NONE; BUCKETS];
    let at_first: Vec<usize> =
        (0..BUCKETS).filter(|&i| model.entries[i].default_sensor() == 0).take(6).collect();
    for &bucket in &at_first {
        model.loads[bucket] = load(1_000.0);
    }
    model.steps(60);
    assert_parts(&model.parts(), &[1.0 / 3.0; 3], 0.01);
    let moved = model.moved;
    model.steps(60);
    assert_eq!(model.moved, moved);
}

#[test]
fn limits_below_the_load_leave_everyone_over_alike() {
    let mut model = Model::equal(3);
    for (sensor, part) in model.sensors.iter_mut().zip([0.2, 0.2, 0.4]) {
        sensor.max_packets = Some(BUCKETS as f64 * part);
    }
    model.steps(20);
    assert_parts(&model.parts(), &[0.25, 0.25, 0.5], 0.06);
    let moved = model.moved;
    model.steps(30);
    assert_eq!(model.moved, moved);
}

#[test]
fn lost_buckets_are_spread_in_proportion_to_room() {
    let mut model = Model::new(&[1, 1, 2, 4].map(SensorShare::of_weight));
    model.loads = skewed(5);
    model.steps(3);
    model.sensors[3].standing = Standing::Down;
    let lost: Vec<u16> = (0..=u16::MAX)
        .filter(|&bucket| model.entries[usize::from(bucket)].default_sensor() == 3)
        .collect();
    let places = model.balancer.spread(&model.sensors, &model.entries, &lost);
    for (&bucket, &place) in lost.iter().zip(&places) {
        model.entries[usize::from(bucket)] = Entry::settled(place);
    }
    assert_parts(&model.parts()[..3], &[0.25, 0.25, 0.5], 0.06);
    for sensor in &mut model.sensors {
        sensor.standing = Standing::Draining;
    }
    assert!(model.balancer.spread(&model.sensors, &model.entries, &lost).is_empty());
}

#[test]
fn an_emergency_comes_after_patience_and_takes_no_more_than_it_must() {
    let mut model = Model::equal(4);
    // No bucket can move, as if no flow ended.
    model.balancer.settings.emergency = true;
    model.sensors[1].max_packets = Some(BUCKETS as f64 / 8.0);
    let entries = model.entries.clone();
    let flows: Vec<f64> = (0..BUCKETS).map(|bucket| (bucket % 2 + 1) as f64).collect();
    let torn = |model: &mut Model| {
        let decisions = model.balancer.decide(&View {
            sensors: &model.sensors,
            loads: &model.loads,
            latest: &model.loads,
            entries: &entries,
            displaced: &[Load::NONE; 4],
            flows: &flows,
            is_movable: &|_| false,
            moves: 0,
            keys: 0.0,
        });
        decisions.moves
    };
    for _ in 1..model.balancer.settings.patience {
        assert_eq!(torn(&mut model), []);
    }
    let moves = torn(&mut model);
    let needed = BUCKETS as f64 / 4.0 - BUCKETS as f64 / 8.0 * targets::HEADROOM;
    assert!((moves.len() as f64 / needed - 1.0).abs() < 0.01, "{}", moves.len());
    let there = |bucket: u16| entries[usize::from(bucket)].default_sensor() == 1;
    assert!(moves.iter().all(|planned| planned.emergency && there(planned.bucket)));
    let cheap = moves.iter().filter(|planned| planned.bucket % 2 == 0).count();
    assert!(cheap as f64 > 0.9 * moves.len() as f64, "{cheap} of {}", moves.len());
    assert_eq!(torn(&mut model), [], "patience again");
}

#[test]
fn orphans_are_nobodys_load() {
    let mut model = Model::equal(2);
    for entry in &mut model.entries[..30_000] {
        *entry = Entry::settled(NO_SENSOR);
    }
    model.step();
    assert_eq!(model.entries[5], Entry::settled(NO_SENSOR));
}
