//! The protocol of moving buckets is written twice: for workers (`forebay_balance::moves`), and
//! as code for the kernel (`forebay_bpf::programs::splitter`). Both are driven here through the
//! traits that mover and stages use, and compared in every state after every packet.

use forebay_balance::moves::{RecordLimits, Worker, WorkerTable};
use forebay_balance::{BucketTable, NO_SENSOR, Phase, bucket_of};
use forebay_bpf::programs::splitter::entry::{CANCELLED, LOOK_UP, OTHER_SHIFT, RECORD, TURNED};
use forebay_bpf::programs::splitter::{self, Limits, Sensor};

use super::*;

/// The sensors of every move here, and one that no key is at.
const FROM: u16 = 0;
const TO: u16 = 1;
const OTHER: u16 = 2;

const HOLD: u64 = 600_000_000_000;

const PHASES: [Phase; 5] =
    [Phase::Settled, Phase::Learning, Phase::Turning, Phase::Moving, Phase::Cancelled];

const SIGNALS: [TcpSignal; 5] = [
    TcpSignal::Nothing,
    TcpSignal::BareSyn,
    TcpSignal::LowFin,
    TcpSignal::HighFin,
    TcpSignal::Reset,
];

/// One of the two implementations.
struct Side {
    table: Box<dyn ForwardingTable>,
    worker: Box<dyn Steering>,
    restarts: Box<dyn Fn() -> u64>,
}

/// What can be seen of a side.
#[derive(Debug, PartialEq)]
struct Seen {
    sensor: u16,
    entry: Entry,
    displaced: [Displaced; 3],
    restarts: u64,
}

impl Side {
    fn packet(&mut self, hash: u64, tcp: TcpSignal) -> Seen {
        let mut sensors = Vec::new();
        let facts = PacketFacts { tcp, bytes: 100, ..PacketFacts::default() };
        self.worker.assign(&[hash], &mut sensors, &|_| facts);
        Seen {
            sensor: sensors[0],
            entry: self.table.entry(bucket_of(hash)),
            displaced: [FROM, TO, OTHER].map(|sensor| self.table.displaced(sensor)),
            restarts: (self.restarts)(),
        }
    }

    fn records(&self) -> Vec<(u16, u16)> {
        let mut records = Vec::new();
        self.table.sweep(0, &mut |pinned| {
            records.push((pinned.bucket, pinned.sensor));
            true
        });
        records.sort_unstable();
        records
    }
}

/// Both sides, which must not differ.
struct Both([Side; 2]);

impl Both {
    /// None where no BPF programs can be loaded.
    fn new(records: u32, keys_per_move: u32) -> Option<Self> {
        let limits = Limits { records, keys_per_move, workers: 1, ..Limits::default() };
        let maps = match SplitterMaps::create(limits) {
            Ok(maps) => Arc::new(maps),
            Err(error) => {
                forebay_testkit::skipped(&format!("no BPF here: {error}"));
                return None;
            }
        };
        for sensor in [FROM, TO, OTHER] {
            let entry = Sensor { device: 0, destination: None, source: None, tag: None };
            maps.set_sensor(sensor, Some(entry)).unwrap();
        }
        let clock = Clock::default();
        let kernel =
            Arc::new(KernelTable::new(Arc::clone(&maps), 1, HOLD, records as usize, clock));
        let limits = RecordLimits { keys: records as usize, keys_per_move };
        let user = Arc::new(WorkerTable::new(BucketTable::without_sensors(), 1, HOLD, limits));
        let restarts = Arc::clone(&user);
        let mut sides = [
            Side {
                table: Box::new(Arc::clone(&user)),
                worker: Box::new(Worker::new(user, 0)),
                restarts: Box::new(move || restarts.restarts()),
            },
            Side {
                table: Box::new(Arc::clone(&kernel)),
                worker: Box::new(KernelWorker::new(&kernel, 0).unwrap()),
                restarts: Box::new(move || maps.outcomes().restarts),
            },
        ];
        sides.iter_mut().for_each(|side| side.worker.begin(clock.now()));
        Some(Self(sides))
    }

    fn set(&self, bucket: u16, entry: Entry) {
        for Side { table, .. } in &self.0 {
            assert_eq!(table.replace(bucket, table.entry(bucket), entry), Ok(()));
        }
    }

    fn set_alive(&self, sensor: u16, alive: bool) {
        self.0.iter().for_each(|side| side.table.set_alive(sensor, alive));
    }

    /// The same packet on both sides.
    fn packet(&mut self, hash: u64, tcp: TcpSignal, story: &dyn std::fmt::Debug) -> Seen {
        let [user, kernel] = self.0.each_mut().map(|side| side.packet(hash, tcp));
        assert_eq!(user, kernel, "{tcp:?} after {story:?}");
        user
    }
}

/// A key of a bucket, by its number.
fn hash(bucket: usize, key: u64) -> u64 {
    (bucket as u64) << 48 | key << 32 | 0x5_a5a5
}

fn entry(phase: Phase, watched: bool) -> Entry {
    Entry::of_move(phase, FROM, TO).with_watch(watched)
}

/// No packet, one, and two with any signals.
fn histories() -> Vec<Vec<TcpSignal>> {
    let one = SIGNALS.map(|signal| vec![signal]);
    let two = SIGNALS.iter().flat_map(|&first| SIGNALS.map(|second| vec![first, second]));
    [vec![Vec::new()], one.to_vec(), two.collect()].concat()
}

#[test]
fn the_kernel_does_what_workers_do_in_every_state() {
    let Some(mut both) = Both::new(1 << 16, 1 << 16) else { return };
    let (mut bucket, mut sensors) = (0, [0; 3]);
    for first in [Phase::Learning, Phase::Turning] {
        for history in histories() {
            for (phase, dead) in
                PHASES.into_iter().flat_map(|phase| [OTHER, FROM, TO].map(|dead| (phase, dead)))
            {
                for (one, two) in SIGNALS.into_iter().flat_map(|one| SIGNALS.map(|two| (one, two)))
                {
                    let hash = hash(bucket, 0);
                    let watched = bucket % 2 == 1;
                    let story = (first, &history, phase, dead, one);
                    both.set(bucket as u16, entry(first, watched));
                    for &signal in &history {
                        both.packet(hash, signal, &story);
                    }
                    both.set(bucket as u16, entry(phase, watched));
                    both.set_alive(dead, false);
                    both.packet(hash, one, &story);
                    both.set_alive(dead, true);
                    let seen = both.packet(hash, two, &story);
                    sensors[usize::from(seen.sensor)] += 1;
                    bucket += 1;
                }
            }
        }
    }
    assert!(bucket < splitter::BUCKETS && sensors[0] > 1_000 && sensors[1] > 1_000, "{sensors:?}");
    assert!((both.0[0].restarts)() > 100);
    let [user, kernel] = both.0.each_ref().map(Side::records);
    assert!(user.len() > 1_000);
    assert_eq!(user, kernel);
}

#[test]
fn the_kernel_cancels_moves_as_workers_do() {
    const KEYS: u64 = 3;
    let Some(mut both) = Both::new(1 << 16, KEYS as u32) else { return };
    let forms = [Phase::Learning, Phase::Turning].map(|phase| [(phase, false), (phase, true)]);
    for (bucket, (phase, watched)) in forms.into_iter().flatten().enumerate() {
        both.set(bucket as u16, entry(phase, watched));
        for key in 0..KEYS {
            let seen = both.packet(hash(bucket, key), TcpSignal::Nothing, &(phase, key));
            assert_eq!(seen.entry, entry(phase, watched));
        }
        let seen = both.packet(hash(bucket, KEYS), TcpSignal::Nothing, &(phase, watched));
        assert_eq!(seen.entry, entry(Phase::Cancelled, watched));
        for key in 0..=KEYS {
            both.packet(hash(bucket, key), TcpSignal::BareSyn, &(phase, watched, key));
        }
        // A further move has its whole limit.
        both.0.iter().for_each(|side| side.table.allow_records(bucket as u16));
        both.set(bucket as u16, entry(Phase::Learning, watched));
        let seen = both.packet(hash(bucket, KEYS), TcpSignal::Nothing, &(phase, watched));
        assert_eq!(seen.entry, entry(Phase::Learning, watched));
    }
}

#[test]
fn both_number_sensors_and_buckets_alike() {
    assert_eq!(NO_SENSOR, splitter::NO_SENSOR);
    assert_eq!(forebay_balance::MAX_SENSORS, usize::from(splitter::MAX_SENSORS));
    assert_eq!(forebay_balance::BUCKETS, splitter::BUCKETS);
    for phase in PHASES {
        let flags = match phase {
            Phase::Settled => 0,
            Phase::Learning => LOOK_UP | RECORD,
            Phase::Turning => LOOK_UP | RECORD | TURNED,
            Phase::Moving => LOOK_UP | TURNED,
            Phase::Cancelled => LOOK_UP | CANCELLED,
        };
        let bits = entry(phase, false).to_bits();
        assert_eq!(bits >> (2 * OTHER_SHIFT), flags >> (2 * OTHER_SHIFT), "{phase:?}");
    }
}
