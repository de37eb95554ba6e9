//! A group as its caller sees it, in simulated time.

use std::sync::Arc;

use forebay_packet::FlowKey;

use super::event::Onsets;
use super::*;
use crate::balancer::load::{Dimension, Load};
use crate::balancer::targets::HEADROOM;
use crate::balancer::{Decisions, Oversize};
use crate::health::HelloRule;
use crate::moves::{PacketFacts, Worker, WorkerTable};

const MS: u64 = 1_000_000;

struct Rig {
    group: Group<Arc<WorkerTable>>,
    workers: Vec<Worker>,
    now: u64,
    events: Vec<Event>,
    /// Where the packets of the last pass went.
    went: Vec<u16>,
}

impl Rig {
    fn new(sensors: &[SensorSettings]) -> Self {
        let settings = GroupSettings { idle_timeout: 2_000 * MS, ..GroupSettings::default() };
        let (group, workers) = Group::new(settings, sensors, 1, 0).unwrap();
        Self { group, workers, now: 0, events: Vec::new(), went: Vec::new() }
    }

    fn pass(&mut self, time: u64) {
        self.pass_with(time, &[], 0);
    }

    /// Time passes; every 20 ms a packet of each hash comes.
    fn pass_with(&mut self, time: u64, hashes: &[u64], bytes: u32) {
        let mut sensors = Vec::new();
        self.went.clear();
        for _ in 0..time / (20 * MS) {
            self.now += 20 * MS;
            let worker = &mut self.workers[0];
            worker.begin(self.now);
            let key = |i: usize| FlowKey { low: u128::from(hashes[i]), ..FlowKey::default() };
            let facts = |i| PacketFacts { key: key(i), bytes, ..PacketFacts::default() };
            worker.assign(hashes, &mut sensors, facts);
            self.went.extend(&sensors);
            worker.count(hashes, &vec![bytes; hashes.len()]);
            worker.rest();
            self.events.extend(self.group.tick(self.now));
        }
    }

    fn buckets(&self, sensor: u16) -> u32 {
        let sensors = self.group.sensors();
        sensors[usize::from(sensor)].as_ref().map_or(0, |sensor| sensor.held.buckets)
    }
}

fn sensors(ids: &[u64]) -> Vec<SensorSettings> {
    ids.iter().map(|&id| SensorSettings::new(id, 1)).collect()
}

/// Hashes of flows all over the buckets.
fn everywhere(n: u64) -> Vec<u64> {
    (1..=n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

#[test]
fn a_sensor_that_falls_silent_is_without_load_within_a_second() {
    let mut settings = sensors(&[0, 1, 2]);
    settings.iter_mut().for_each(|sensor| sensor.hello = Some(HelloRule::default()));
    let mut rig = Rig::new(&settings);
    let hello = Hello { interval: 200 * MS, ..Hello::default() };
    for _ in 0..10 {
        (0..3).for_each(|sensor| rig.group.hello(sensor, rig.now, hello));
        rig.pass(200 * MS);
    }
    assert_eq!(rig.events, []);
    for _ in 0..5 {
        (0..2).for_each(|sensor| rig.group.hello(sensor, rig.now, hello));
        rig.pass(200 * MS);
    }
    assert_eq!((rig.buckets(0) + rig.buckets(1), rig.buckets(2)), (BUCKETS as u32, 0));
    let died = |event: &Event| matches!(event, Event::Died { sensor: 2, buckets: 21_845.., .. });
    assert_eq!(rig.events.iter().filter(|event| died(event)).count(), 1, "{:?}", rig.events);
    for _ in 0..100 {
        (0..3).for_each(|sensor| rig.group.hello(sensor, rig.now, hello));
        rig.pass_with(200 * MS, &everywhere(300), 100);
    }
    assert!(rig.buckets(2) > 15_000, "it is back: {}", rig.buckets(2));
}

#[test]
fn other_sensors_keep_their_indices_and_the_gone_are_dead() {
    let mut rig = Rig::new(&sensors(&[10, 11, 12]));
    rig.pass(3_000 * MS);
    let places = rig.group.set_sensors(&sensors(&[12, 13, 10])).unwrap();
    assert_eq!(places, [2, 3, 0]);
    assert!(rig.group.sensors()[1].is_none());
    assert!((0..=u16::MAX).all(|bucket| rig.group.bucket(bucket).default_sensor() != 1));
    let again = rig.group.set_sensors(&sensors(&[12, 14, 13, 10])).unwrap();
    assert_eq!(again, [2, 4, 3, 0], "what is left of sensor 11 is not known yet");
    rig.pass(100 * MS);
    let later = rig.group.set_sensors(&sensors(&[12, 15, 14, 13, 10])).unwrap();
    assert_eq!(later, [2, 1, 4, 3, 0], "its index is free");
    rig.pass(30_000 * MS);
    for place in later {
        assert!(rig.buckets(place) > 10_000, "{place}: {}", rig.buckets(place));
    }
}

#[test]
fn who_is_let_in_gets_nothing_until_all_know_of_it() {
    let mut rig = Rig::new(&sensors(&[10, 11]));
    let settled = |rig: &Rig| (rig.buckets(0) + rig.buckets(1), rig.buckets(2));
    assert_eq!(rig.group.admit(&sensors(&[10, 11, 12])), Ok(vec![0, 1, 2]));
    rig.group.command(2, Manual::Automatic);
    rig.pass_with(30_000 * MS, &everywhere(300), 100);
    assert_eq!(settled(&rig), (BUCKETS as u32, 0));
    // One that goes before anybody knew of it leaves its index.
    assert_eq!(rig.group.set_sensors(&sensors(&[10, 11])), Ok(vec![0, 1]));
    assert_eq!(rig.group.admit(&sensors(&[10, 11, 13])), Ok(vec![0, 1, 2]));
    rig.pass_with(30_000 * MS, &everywhere(300), 100);
    assert_eq!(settled(&rig), (BUCKETS as u32, 0));
    assert_eq!(rig.group.set_sensors(&sensors(&[10, 11, 13])), Ok(vec![0, 1, 2]));
    rig.pass_with(30_000 * MS, &everywhere(300), 100);
    assert!(rig.buckets(2) > 15_000, "{}", rig.buckets(2));
}

#[test]
fn nothing_goes_to_a_sensor_that_is_said_to_have_drained() {
    let mut rig = Rig::new(&sensors(&[0, 1, 2]));
    let flows = everywhere(400);
    rig.pass_with(3_000 * MS, &flows, 100);
    rig.group.command(1, Manual::Drain);
    let mut live = 400;
    while !rig.events.contains(&Event::Drained { sensor: 1 }) {
        assert!(rig.now < 200_000 * MS, "it never drains");
        // Flows end one after another, and until then none may idle.
        live = (live - 1).max(40);
        let last = if rig.now < 60_000 * MS { live } else { 0 };
        rig.pass_with(100 * MS, &flows[..last], 100);
    }
    assert!(!rig.went.contains(&1), "as it was said");
    let held = rig.group.sensors()[1].as_ref().unwrap().held;
    assert_eq!(held, crate::moves::Held::default());
    rig.pass_with(1_000 * MS, &flows, 100);
    assert!(!rig.went.contains(&1));
}

#[test]
fn a_group_without_sensor_says_so_until_each_bucket_has_one() {
    let mut rig = Rig::new(&sensors(&[0, 1]));
    let flag = rig.group.is_without_sensor();
    let is_set = || flag.load(Ordering::Acquire);
    let flows = everywhere(1_000);
    rig.pass_with(3_000 * MS, &flows, 100);
    rig.group.command(0, Manual::Down);
    rig.pass_with(200 * MS, &flows, 100);
    assert!(!is_set() && !rig.went.contains(&NO_SENSOR));
    rig.group.command(1, Manual::Down);
    assert!(is_set());
    rig.pass_with(3_000 * MS, &flows, 100);
    assert!(is_set() && rig.went.iter().all(|&sensor| sensor == NO_SENSOR));
    // One that drains gets nothing that is new, so that there is still none for them.
    rig.group.command(0, Manual::Drain);
    rig.pass_with(200 * MS, &flows, 100);
    assert!(is_set() && rig.went.iter().all(|&sensor| sensor == NO_SENSOR));
    rig.group.command(0, Manual::Up);
    rig.pass_with(200 * MS, &flows, 100);
    assert!(!is_set());
    rig.pass_with(200 * MS, &flows, 100);
    assert!(!is_set() && rig.went.iter().all(|&sensor| sensor == 0));
    // A last sensor that drains keeps its flows, and what is new besides.
    rig.group.command(0, Manual::Drain);
    rig.pass_with(200 * MS, &flows, 100);
    assert!(!is_set() && rig.went.iter().all(|&sensor| sensor == 0));
    rig.group.command(0, Manual::Down);
    assert!(is_set());
    assert_eq!(rig.group.set_sensors(&sensors(&[7])).map(|places| places.len()), Ok(1));
    assert!(!is_set());
}

#[test]
fn a_sensor_that_has_drained_is_none() {
    let mut rig = Rig::new(&sensors(&[0, 1]));
    let flag = rig.group.is_without_sensor();
    let flows = everywhere(1_000);
    rig.pass_with(3_000 * MS, &flows, 100);
    rig.group.command(0, Manual::Drain);
    while !rig.events.contains(&Event::Drained { sensor: 0 }) {
        assert!(rig.now < 200_000 * MS, "it never drains");
        rig.pass_with(1_000 * MS, &flows[..0], 100);
    }
    assert!(!flag.load(Ordering::Acquire));
    rig.group.command(1, Manual::Down);
    assert!(flag.load(Ordering::Acquire));
    rig.group.command(0, Manual::Up);
    rig.pass_with(200 * MS, &flows, 100);
    assert!(!flag.load(Ordering::Acquire));
}

#[test]
fn all_sensors_may_be_replaced_at_once() {
    let mut rig = Rig::new(&sensors(&[1, 2]));
    let places = rig.group.set_sensors(&sensors(&[3, 4])).unwrap();
    assert_eq!(rig.buckets(places[0]) + rig.buckets(places[1]), BUCKETS as u32);
}

#[test]
fn sensors_that_contradict_each_other_change_nothing() {
    let mut rig = Rig::new(&sensors(&[1, 2]));
    assert_eq!(rig.group.set_sensors(&[]), Err(AssignmentError::NoSensors));
    let same = rig.group.set_sensors(&sensors(&[1, 3, 3]));
    assert_eq!(same, Err(AssignmentError::SameId(1, 2)));
    let ids: Vec<u64> = (100..100 + MAX_SENSORS as u64).collect();
    let many = rig.group.set_sensors(&sensors(&ids));
    assert_eq!(many, Err(AssignmentError::TooMany(MAX_SENSORS + 2)));
    assert_eq!(rig.group.sensors().len(), 2);
    assert_eq!(rig.buckets(0) + rig.buckets(1), BUCKETS as u32);
}

#[test]
fn a_flow_too_big_for_any_sensor_is_named_and_stays() {
    let mut rig = Rig::new(&sensors(&[0, 1, 2]));
    let big = 0x7777_0000_1234_5678;
    let mut hashes = everywhere(100);
    hashes.extend([big; 200]);
    let home = rig.group.bucket(0x7777);
    rig.pass_with(8_000 * MS, &hashes, 1_000);
    let named = rig.events.iter().filter_map(|event| match event {
        Event::Oversize { oversize, key } => Some((oversize.bucket, key.map(|key| key.low))),
        _ => None,
    });
    assert_eq!(named.collect::<Vec<_>>(), [(0x7777, Some(u128::from(big)))]);
    assert_eq!(rig.group.bucket(0x7777).with_watch(false), home);
    rig.pass_with(20_000 * MS, &everywhere(100), 1_000);
    assert!(rig.events.contains(&Event::OversizeOver { bucket: 0x7777 }));
    assert!(!rig.group.bucket(0x7777).is_watched());
}

#[test]
fn a_bucket_whose_load_swings_about_the_limit_is_told_once() {
    let mut rig = Rig::new(&sensors(&[0, 1, 2]));
    let big = 0x7777_0000_1234_5678;
    let mut hashes = everywhere(100);
    hashes.extend([big; 200]);
    for _ in 0..5 {
        rig.pass_with(8_000 * MS, &hashes, 1_000);
        rig.pass_with(3_000 * MS, &everywhere(100), 1_000);
    }
    let oversize =
        |event: &&Event| matches!(event, Event::Oversize { .. } | Event::OversizeOver { .. });
    let told: Vec<&Event> = rig.events.iter().filter(oversize).collect();
    let [Event::Oversize { key: Some(key), .. }] = told[..] else { panic!("{told:?}") };
    assert_eq!(key.low, u128::from(big));
}

#[test]
fn a_bucket_too_big_waits_for_the_name_of_its_flow_but_not_for_ever() {
    let mut onsets = Onsets::default();
    let mut rig = Rig::new(&sensors(&[0, 1]));
    let oversize = Oversize {
        bucket: 0x7777,
        load: Load { packets: 9.0, bits: 9.0 },
        dimension: Dimension::Bits,
        most: 1.0,
    };
    let decisions = Decisions { oversize: vec![oversize], ..Decisions::default() };
    let mut note = |rig: &mut Rig| {
        let mut events = Vec::new();
        onsets.note(&decisions, &[], &mut rig.group.mover, &mut events);
        events
    };
    // Its watch begins, and no packet comes.
    assert_eq!((0..5).map(|_| note(&mut rig).len()).sum::<usize>(), 0);
    assert_eq!(note(&mut rig), [Event::Oversize { oversize, key: None }]);
    assert_eq!((0..50).map(|_| note(&mut rig).len()).sum::<usize>(), 0, "it is told once");
}

#[test]
fn a_load_beyond_all_limits_is_told_once_and_when_it_is_over() {
    let mut settings = sensors(&[0, 1]);
    settings.iter_mut().for_each(|sensor| sensor.max_packets = Some(2_000.0 / HEADROOM));
    let mut rig = Rig::new(&settings);
    rig.pass_with(6_000 * MS, &everywhere(100), 100);
    rig.pass_with(6_000 * MS, &everywhere(40), 100);
    let told = |event: &&Event| matches!(event, Event::Overload { .. } | Event::OverloadOver);
    let told: Vec<&Event> = rig.events.iter().filter(told).collect();
    assert!(
        matches!(told[..], [Event::Overload { load, .. }, Event::OverloadOver] if load.packets > 4_000.0),
        "{told:?}"
    );
}

#[test]
fn what_the_group_is_told_of_sensors_it_has_not_is_ignored() {
    let mut rig = Rig::new(&sensors(&[0, 1]));
    rig.group.command(7, Manual::Down);
    rig.group.link(u16::MAX, false);
    rig.group.hello(2, 5, Hello::default());
    rig.pass(100 * MS);
    assert_eq!(rig.events, []);
}

#[test]
fn of_more_deaths_than_are_counted_at_once_the_oldest_is_told_early() {
    let mut settings = sensors(&(0..10).collect::<Vec<_>>());
    settings.iter_mut().for_each(|sensor| sensor.hello = Some(HelloRule::default()));
    let mut rig = Rig::new(&settings);
    let hello = Hello { interval: 200 * MS, ..Hello::default() };
    let flows = everywhere(200);
    let counted = |rig: &Rig| -> Vec<bool> {
        let or_more = |event: &Event| match event {
            Event::Broken { or_more, .. } => Some(*or_more),
            _ => None,
        };
        rig.events.iter().filter_map(or_more).collect()
    };
    let deaths =
        |rig: &Rig| rig.events.iter().filter(|event| matches!(event, Event::Died { .. })).count();
    // The first so many sensors are silent until it is enough.
    let until = |rig: &mut Rig, silent: u16, enough: &dyn Fn(&Rig) -> bool| {
        for _ in 0..100 {
            (silent..10).for_each(|sensor| rig.group.hello(sensor, rig.now, hello));
            rig.pass_with(200 * MS, &flows, 100);
            if enough(rig) {
                return;
            }
        }
        panic!("{:?}", rig.events);
    };
    until(&mut rig, 0, &|_| true);
    until(&mut rig, 8, &|rig| deaths(rig) == 8);
    assert_eq!(counted(&rig), [false; 0]);
    until(&mut rig, 9, &|rig| deaths(rig) == 9);
    assert_eq!(counted(&rig), [true]);
    until(&mut rig, 9, &|rig| counted(rig).len() == 9);
    assert_eq!(counted(&rig).iter().filter(|&&or_more| or_more).count(), 1);
}
