//! User space beside the splitter: workers that go by its tables, and sensors that stand in.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use forebay_bpf::flow::FlowOptions;
use forebay_bpf::programs::splitter::entry::{CANCELLED, LOOK_UP, OTHER_SHIFT, RECORD, TURNED};
use forebay_bpf::programs::splitter::{
    self, Limits, NO_SENSOR, Sensor, Settings, Signal, SplitterMaps, UserSpace, UserspaceSteering,
};
use forebay_bpf::{Action, Program};
use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey, LinkType};

use crate::support;
use crate::support::frames::{ACK, SYN, tcp, udp};

const HASH_KEY: HashKey = HashKey([78, 1 << 62]);

/// The loopback interface, which is in every network namespace.
const LOOPBACK: u32 = 1;

/// A move from sensor 0 to sensor 1.
const LEARNING: u32 = LOOK_UP | RECORD | 1 << OTHER_SHIFT;
const MOVING: u32 = LOOK_UP | TURNED | 1;

fn settings() -> Settings {
    Settings {
        filter: None,
        group_filter: None,
        input: 0,
        flow: FlowOptions { affinity: Affinity::FiveTuple, hash_key: HASH_KEY, tunnels: true },
        idle_timeout: Duration::from_secs(1),
        user_space: UserSpace::Stack,
        multi_buffer: false,
    }
}

/// A splitter with four sensors, known by the last byte of their addresses, and two workers.
struct Splitter {
    maps: Arc<SplitterMaps>,
    program: Program,
    workers: [UserspaceSteering; 2],
}

impl Splitter {
    fn new(settings: &Settings) -> Self {
        let limits = Limits { records: 100, keys_per_move: 8, workers: 2, ..Limits::default() };
        let maps = Arc::new(SplitterMaps::create(limits).unwrap());
        maps.devices().set(0, LOOPBACK).unwrap();
        for last in 0..4 {
            let destination = Some([2, 0, 0, 0, 1, last]);
            let sensor = Sensor { device: 0, destination, source: None, tag: None };
            maps.set_sensor(last.into(), Some(sensor)).unwrap();
        }
        let program = splitter::load(&maps, settings).unwrap();
        let workers =
            [0, 1].map(|number| UserspaceSteering::load(Arc::clone(&maps), number).unwrap());
        Self { maps, program, workers }
    }

    /// What the kernel does with a frame, and the sensor it is for.
    fn run(&self, frame: &[u8]) -> (Action, u16) {
        let mut out = vec![0; frame.len() + 64];
        let run = self.program.run(frame, &mut out).unwrap();
        (Action::from_result(run.result).unwrap(), out[5].into())
    }

    fn redirected(&self, frame: &[u8]) -> u16 {
        let (action, sensor) = self.run(frame);
        assert_eq!(action, Action::Redirect);
        sensor
    }
}

fn hash(frame: &[u8]) -> u64 {
    let decoded = Decoder::new(DecodeOptions::default()).decode(LinkType::ETHERNET, frame);
    decoded.affinity.hash(&HASH_KEY)
}

#[test]
fn a_worker_and_the_kernel_agree_whichever_saw_a_key_first() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let maps = &splitter.maps;
    let frames: Vec<_> = (0..6).map(|port| tcp((1, 1000 + port), (2, 80), ACK)).collect();
    let asked = |steering: usize, frame: &Vec<u8>, signal| {
        splitter.workers[steering].sensor_of(hash(frame), signal, 60).unwrap()
    };
    (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, u32::from(bucket % 4)));
    for frame in &frames {
        assert_eq!(asked(0, frame, Signal::Nothing), (hash(frame) >> 48) as u16 % 4);
        assert_eq!(splitter.redirected(frame), (hash(frame) >> 48) as u16 % 4);
    }
    // Two keys are recorded by the kernel, two by a worker.
    (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, LEARNING));
    frames[..2].iter().for_each(|frame| assert_eq!(splitter.redirected(frame), 0));
    frames[2..4].iter().for_each(|frame| assert_eq!(asked(1, frame, Signal::Nothing), 0));
    (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, MOVING));
    for (i, frame) in frames.iter().enumerate() {
        let sensor = u16::from(i >= 4);
        assert_eq!(
            (splitter.redirected(frame), asked(0, frame, Signal::Nothing)),
            (sensor, sensor)
        );
    }
    // A worker renews what it sees.
    let seen = |frame| maps.record(hash(frame)).unwrap().unwrap().seen();
    let before = seen(&frames[0]);
    sleep(Duration::from_millis(20));
    asked(0, &frames[0], Signal::Nothing);
    assert!(seen(&frames[0]) > before);
    // A connection that has ended by what a worker saw begins anew in the kernel, and the
    // other way round.
    assert_eq!(asked(0, &frames[0], Signal::LowEnds), 0);
    assert_eq!(asked(1, &frames[0], Signal::HighEnds), 0);
    assert_eq!(splitter.redirected(&tcp((1, 1000), (2, 80), SYN)), 1);
    assert_eq!(splitter.redirected(&tcp((1, 1001), (2, 80), 0x04)), 0);
    assert_eq!(asked(1, &frames[1], Signal::Begins), 1);
    assert_eq!(asked(1, &frames[2], Signal::Reset), 0);
    assert_eq!(asked(1, &frames[2], Signal::Begins), 1);
    maps.set_alive(0, false).unwrap();
    assert_eq!(asked(0, &frames[3], Signal::Nothing), 1);
    assert_eq!(maps.outcomes().restarts, 3);
}

#[test]
fn a_seat_counts_and_cancels_as_the_kernel_does() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let (maps, steering) = (&splitter.maps, &splitter.workers[1]);
    let flow = |low: u64| 7 << 48 | low;
    for (low, bytes) in [(1 << 43, 60), (2 << 43, 1500), (1 << 43, 100)] {
        steering.count(flow(low), bytes);
    }
    assert_eq!(maps.bucket_tally(7), 3 << 36 | 1660);
    assert_eq!(maps.bucket_flows(7), 0b110);
    maps.rotate_flows();
    maps.rotate_flows();
    assert_eq!(maps.bucket_flows(7), 0);
    maps.set_entry(7, LEARNING);
    for key in 0..9 {
        assert_eq!(steering.sensor_of(flow(key), Signal::Nothing, 60).unwrap(), 0);
    }
    assert_eq!(maps.entry(7), LOOK_UP | CANCELLED | 1 << OTHER_SHIFT);
    // What goes by a record elsewhere than new keys counts as displaced.
    maps.set_entry(7, MOVING);
    assert_eq!(steering.sensor_of(flow(0), Signal::Nothing, 60).unwrap(), 0);
    assert_eq!((maps.displaced(0), maps.displaced(1)), ((1 << 36 | 60, 0), (0, 1 << 36 | 60)));
    let outcomes = maps.outcomes();
    assert!(outcomes.closes() && outcomes.received.packets == 0, "{outcomes:?}");
    assert!(UserspaceSteering::load(Arc::clone(maps), 2).is_err());
}

#[test]
fn what_turns_to_workers_is_counted_by_them_alone() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let (maps, steering) = (&splitter.maps, &splitter.workers[0]);
    let frame = tcp((1, 1000), (2, 80), ACK);
    let (hash, bytes) = (hash(&frame), frame.len() as u32);
    let bucket = (hash >> 48) as u16;
    let one = 1 << 36 | u64::from(bytes);
    maps.set_entry(bucket, LEARNING);
    assert_eq!(splitter.redirected(&frame), 0);
    maps.set_entry(bucket, MOVING);
    assert_eq!(splitter.redirected(&frame), 0);
    let displaced = || [maps.displaced(0), maps.displaced(1)];
    assert_eq!((maps.bucket_tally(bucket), displaced()), (2 * one, [(one, 0), (0, one)]));

    maps.set_by_workers(0, true);
    assert_eq!(splitter.run(&frame).0, Action::Pass);
    assert_eq!((maps.bucket_tally(bucket), displaced()), (2 * one, [(one, 0), (0, one)]));
    steering.count(hash, bytes);
    assert_eq!(steering.sensor_of(hash, Signal::Nothing, bytes).unwrap(), 0);
    let two = 2 * one;
    assert_eq!((maps.bucket_tally(bucket), displaced()), (3 * one, [(two, 0), (0, two)]));
    // A frame that is not displaced, as its bucket does not move any more.
    let other = udp((5, 6), (7, 8));
    maps.set_entry((self::hash(&other) >> 48) as u16, 1);
    assert_eq!(splitter.run(&other).0, Action::Pass);
    assert_eq!(displaced(), [(two, 0), (0, two)]);
    assert_eq!(maps.bucket_tally((self::hash(&other) >> 48) as u16), 0);
    assert!(maps.outcomes().closes());
}

#[test]
fn spare_sensors_take_what_has_none() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let maps = &splitter.maps;
    (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, NO_SENSOR.into()));
    let frame = udp((1, 2), (3, 4));
    assert_eq!(splitter.run(&frame).0, Action::Drop);
    let spares = [3, 1, 2];
    maps.set_spare(&spares);
    let mut seen = [0; 4];
    for port in 0..100 {
        let frame = udp((1, port), (3, 4));
        let place = ((hash(&frame) >> 32) * 3) >> 32;
        let sensor = spares[place as usize];
        assert_eq!(splitter.redirected(&frame), sensor);
        seen[usize::from(sensor)] += 1;
    }
    assert!(seen[0] == 0 && seen[1..].iter().all(|&count| count > 10), "{seen:?}");
    maps.set_spare(&[2, 5000]);
    assert_eq!(splitter.redirected(&frame), 2);
    maps.set_spare(&[]);
    assert_eq!(splitter.run(&frame).0, Action::Drop);
    assert_eq!(maps.outcomes().no_sensor.packets, 2);
}

#[test]
fn each_filter_counts_what_it_drops() {
    if !support::bpf() {
        return;
    }
    let compile = |text| Some(forebay_filter::compile(text, LinkType::ETHERNET).unwrap());
    let (filter, group_filter) = (compile("ip"), compile("udp"));
    let splitter = Splitter::new(&Settings { filter, group_filter, input: 31, ..settings() });
    (0..=u16::MAX).for_each(|bucket| splitter.maps.set_entry(bucket, 0));
    let arp = support::frames::ethernet(&[], 0x0806, &[0; 46]);
    assert_eq!(splitter.run(&arp).0, Action::Drop);
    assert_eq!(splitter.run(&tcp((1, 2), (3, 4), ACK)).0, Action::Drop);
    assert_eq!(splitter.redirected(&udp((1, 2), (3, 4))), 0);
    let outcomes = splitter.maps.outcomes();
    assert!(outcomes.closes());
    assert_eq!((outcomes.filtered.packets, outcomes.group_filtered.packets), (1, 1));
    assert_eq!(splitter.maps.received(31), outcomes.received);
    let beyond = Settings { input: 32, ..settings() };
    assert!(splitter::load(&splitter.maps, &beyond).is_err());
}
