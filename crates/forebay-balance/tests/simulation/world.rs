//! Traffic, workers and the group in one simulated time.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_balance::health::Manual;
use forebay_balance::moves::{PacketFacts, Worker, WorkerTable};
use forebay_balance::{Event, Group, GroupSettings, SensorSettings};

use crate::checker::Checker;
use crate::traffic::{Packet, Random, SECOND, Traffic, hash_of};

/// The time of a batch.
const BATCH_TIME: u64 = 2_000_000;

/// How often the group is called.
const TICK: u64 = 20_000_000;

pub const IDLE_TIMEOUT: u64 = 2 * SECOND;

/// Packets by sensor, of all flows and of those begun since a time.
#[derive(Default)]
pub struct Tallies {
    pub all: HashMap<u16, u64>,
    pub new: HashMap<u16, u64>,
}

impl Tallies {
    pub fn share(counts: &HashMap<u16, u64>, sensor: u16) -> f64 {
        let sum: u64 = counts.values().sum();
        counts.get(&sensor).copied().unwrap_or(0) as f64 / sum as f64
    }
}

pub struct World {
    pub now: u64,
    pub group: Group<Arc<WorkerTable>>,
    workers: Vec<Worker>,
    queues: Vec<Vec<Packet>>,
    pub traffic: Vec<Traffic>,
    pub checker: Checker,
    random: Random,
    /// Whether packets of a key come to any worker, as those of a source address do.
    pub scattered: bool,
    pub events: Vec<Event>,
    pub packets: u64,
    sensors: Vec<u16>,
}

pub fn settings() -> GroupSettings {
    GroupSettings { idle_timeout: IDLE_TIMEOUT, ..GroupSettings::default() }
}

pub fn equal_sensors(n: u64) -> Vec<SensorSettings> {
    (0..n).map(|id| SensorSettings::new(id, 1)).collect()
}

impl World {
    pub fn new(
        settings: GroupSettings,
        sensors: &[SensorSettings],
        workers: usize,
        traffic: Vec<Traffic>,
    ) -> Self {
        let (group, workers) = Group::new(settings, sensors, workers, 0).unwrap();
        Self {
            now: 0,
            group,
            queues: workers.iter().map(|_| Vec::new()).collect(),
            workers,
            traffic,
            checker: Checker::new(settings.idle_timeout),
            random: Random::new(99),
            scattered: false,
            events: Vec::new(),
            packets: 0,
            sensors: Vec::new(),
        }
    }

    /// Goes on until `end`, and tells where packets went on the way: all, and those of flows
    /// begun since `since`.
    pub fn run(&mut self, end: u64, since: u64) -> Tallies {
        let mut tallies = Tallies::default();
        while self.now < end {
            let until = self.now + BATCH_TIME;
            self.arrive(until);
            self.now = until;
            for worker in 0..self.workers.len() {
                self.work(worker, since, &mut tallies);
            }
            if self.now.is_multiple_of(TICK) {
                self.tick();
            }
        }
        tallies
    }

    /// An operator speaks about a sensor.
    pub fn command(&mut self, sensor: u16, manual: Manual) {
        self.group.command(sensor, manual);
        self.tick();
    }

    fn tick(&mut self) {
        for event in self.group.tick(self.now) {
            if let Event::Died { sensor, .. } = event {
                let broken = self.checker.evict_sensor(sensor, self.now);
                self.events.push(event);
                self.check_broken(broken);
            } else {
                if let Event::Broken { sensor, flows, or_more } = event {
                    let truth = self.checker.went_on(sensor) as f64;
                    let (least, most) = (0.85 * truth - 10.0, 1.15 * truth + 10.0);
                    let holds = (least..=most).contains(&(flows as f64));
                    assert!(holds || or_more, "{flows} said, {truth} broken");
                }
                self.events.push(event);
            }
        }
    }

    /// What the group says of flows at risk must be about what the checker knows. Live flows
    /// are remembered for half to all of the idle timeout.
    fn check_broken(&self, (half, whole): (u64, u64)) {
        let Some(Event::Died { live, .. }) = self.events.last() else { return };
        let (least, most) = (0.85 * half as f64 - 10.0, 1.15 * whole as f64 + 10.0);
        let said = *live as f64;
        assert!((least..=most).contains(&said), "{said} said, {half} to {whole} alive");
    }

    fn arrive(&mut self, until: u64) {
        for (i, traffic) in self.traffic.iter_mut().enumerate() {
            while let Some(packet) = traffic.next_before(until) {
                let spread = if self.scattered { self.random.next() } else { hash_of(!packet.key) };
                let worker = spread as usize % self.queues.len();
                self.queues[worker].push(packet.with_key(packet.key | (i as u64) << 60));
            }
        }
        for queue in &mut self.queues {
            queue.sort_unstable_by_key(|packet| packet.time);
        }
    }

    /// A worker takes a batch, in two halves between which others may work; now and then it
    /// does not come to it, or is called away after the first half.
    fn work(&mut self, worker: usize, since: u64, tallies: &mut Tallies) {
        if self.random.below(10) == 0 {
            return;
        }
        let queue = std::mem::take(&mut self.queues[worker]);
        if queue.is_empty() {
            self.workers[worker].rest();
            return;
        }
        self.workers[worker].begin(self.now);
        let half = if self.random.below(4) == 0 { queue.len() / 2 } else { queue.len() };
        let (first, second) = queue.split_at(half);
        self.forward(worker, first, since, tallies);
        if !second.is_empty() {
            if self.random.below(2) == 0 {
                self.tick();
            }
            self.forward(worker, second, since, tallies);
        }
    }

    fn forward(&mut self, worker: usize, packets: &[Packet], since: u64, tallies: &mut Tallies) {
        let hashes: Vec<u64> = packets.iter().map(|packet| hash_of(packet.key)).collect();
        let bytes: Vec<u32> = packets.iter().map(|packet| packet.bytes).collect();
        let traffic = &self.traffic;
        let facts = |i: usize| {
            let packet: &Packet = &packets[i];
            let profile = &traffic[(packet.key >> 60) as usize].profile;
            PacketFacts {
                tcp: packet.signal(profile),
                bytes: packet.bytes,
                ..PacketFacts::default()
            }
        };
        let worker = &mut self.workers[worker];
        worker.assign(&hashes, &mut self.sensors, facts);
        worker.count(&hashes, &bytes);
        assert_eq!(self.sensors.len(), packets.len(), "a packet is lost");
        for (packet, &sensor) in packets.iter().zip(&self.sensors) {
            self.packets += 1;
            self.checker.see(packet.key, packet.time, sensor);
            *tallies.all.entry(sensor).or_default() += 1;
            if packet.begun >= since {
                *tallies.new.entry(sensor).or_default() += 1;
            }
        }
    }

    pub fn sensor(&self, sensor: u16) -> forebay_balance::SensorStatus {
        self.group.sensors()[usize::from(sensor)].clone().unwrap()
    }
}
