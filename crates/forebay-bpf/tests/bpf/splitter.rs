//! The splitter, frame by frame: what becomes of it and what is counted.

use std::thread::sleep;
use std::time::{Duration, Instant};

use forebay_bpf::flow::FlowOptions;
use forebay_bpf::programs::splitter::entry::{CANCELLED, LOOK_UP, OTHER_SHIFT, RECORD, TURNED};
use forebay_bpf::programs::splitter::{
    self, Limits, NO_SENSOR, Record, Sensor, Settings, SplitterMaps, Traffic, UserSpace,
};
use forebay_bpf::{Action, Program};
use forebay_packet::{Affinity, DecodeOptions, Decoder, FlowKey, HashKey, LinkType};

use crate::support;
use crate::support::frames::{
    ACK, DESTINATION, SOURCE, SYN, ethernet, fragment, ipv4, tcp, tcp_header, udp, udp6,
};

const HASH_KEY: HashKey = HashKey([77, 1 << 63]);
const IDLE: Duration = Duration::from_millis(400);

/// The loopback interface, which is in every network namespace.
const LOOPBACK: u32 = 1;

pub fn settings() -> Settings {
    Settings {
        filter: None,
        flow: FlowOptions { affinity: Affinity::FiveTuple, hash_key: HASH_KEY, tunnels: true },
        idle_timeout: IDLE,
        user_space: UserSpace::Stack,
        group_filter: None,
        input: 5,
        multi_buffer: true,
    }
}

/// Frames go out by slot 3; what a sensor's MAC address is, its last byte says.
fn sensor(last: u8) -> Sensor {
    let destination = Some([2, 0, 0, 0, 1, last]);
    Sensor { device: 3, destination, source: None, tag: None }
}

pub struct Splitter {
    maps: SplitterMaps,
    program: Program,
}

impl Splitter {
    /// With two sensors, 0 and 1; all buckets are sensor 0's.
    pub fn new(settings: &Settings) -> Self {
        let limits = Limits { records: 100, keys_per_move: 8, ..Limits::default() };
        let maps = SplitterMaps::create(limits).unwrap();
        maps.devices().set(3, LOOPBACK).unwrap();
        maps.set_sensor(0, Some(sensor(0))).unwrap();
        maps.set_sensor(1, Some(sensor(1))).unwrap();
        (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, 0));
        let program = splitter::load(&maps, settings).unwrap();
        Self { maps, program }
    }

    fn run(&self, frame: &[u8]) -> (Action, Vec<u8>) {
        let mut out = vec![0; frame.len() + 64];
        let run = self.program.run(frame, &mut out).unwrap();
        out.truncate(run.length);
        (Action::from_result(run.result).unwrap(), out)
    }

    /// The sensor a frame goes to.
    fn sensor_of(&self, frame: &[u8]) -> u8 {
        let (action, out) = self.run(frame);
        assert_eq!(action, Action::Redirect);
        out[5]
    }

    pub fn passes(&self, frame: &[u8]) -> bool {
        self.run(frame).0 == Action::Pass
    }
}

fn decode(frame: &[u8]) -> FlowKey {
    Decoder::new(DecodeOptions::default()).decode(LinkType::ETHERNET, frame).affinity
}

fn bucket_of(frame: &[u8]) -> u16 {
    (decode(frame).hash(&HASH_KEY) >> 48) as u16
}

#[test]
fn frames_are_addressed_as_the_sensor_s_entry_says() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let plain = ipv4(6, (1, 2), (3, 4), 0, &tcp_header((1, 2), (3, 4), ACK));
    let new = ([6, 5, 4, 3, 2, 1], [0xa, 0xb, 0xc, 0xd, 0xe, 0xf]);
    for tags in [&[][..], &[(0x8100, 0x6005)], &[(0x88a8, 9), (0x8100, 5)]] {
        for (destination, source, tag) in [
            (None, None, None),
            (Some(new.0), None, None),
            (None, Some(new.1), None),
            (Some(new.0), Some(new.1), None),
            (None, None, Some(0x2064)),
            (Some(new.0), Some(new.1), Some(0xffff)),
        ] {
            let entry = Sensor { device: 3, destination, source, tag };
            splitter.maps.set_sensor(0, Some(entry)).unwrap();
            let outer = tag.map(|tag| (0x8100, tag));
            let tags_out: Vec<_> = outer.into_iter().chain(tags.iter().copied()).collect();
            let mut expected = ethernet(&tags_out, 0x0800, &plain);
            expected[..6].copy_from_slice(&destination.unwrap_or(DESTINATION));
            expected[6..12].copy_from_slice(&source.unwrap_or(SOURCE));
            let (action, out) = splitter.run(&ethernet(tags, 0x0800, &plain));
            assert_eq!((action, out), (Action::Redirect, expected));
        }
    }
    assert!(splitter.maps.outcomes().closes());
}

#[test]
fn every_frame_of_every_capture_has_its_outcome() {
    let Some(data) = support::data() else { return };
    let filter = forebay_filter::compile("not port 53", LinkType::ETHERNET).unwrap();
    let splitter = Splitter::new(&Settings { filter: Some(filter.clone()), ..settings() });
    // Half of the buckets have no sensor.
    for bucket in 0..=u16::MAX {
        let nowhere = if bucket % 4 == 1 { 9 } else { NO_SENSOR };
        let sensor = if bucket & 1 == 0 { bucket / 2 % 2 } else { nowhere };
        splitter.maps.set_entry(bucket, sensor.into());
    }
    let mut buckets = vec![Traffic::default(); 65_536];
    let mut sensors = [Traffic::default(); 2];
    let (mut filtered, mut user_space) = (Traffic::default(), Traffic::default());
    for path in support::captures(&data) {
        for frame in support::captured_frames(&path) {
            let one = Traffic { packets: 1, bytes: frame.len() as u64 };
            let (action, out) = splitter.run(&frame);
            let bucket = bucket_of(&frame);
            if filter.run(&frame, frame.len() as u32) == 0 {
                assert_eq!(action, Action::Drop);
                filtered += one;
            } else if action == Action::Pass {
                user_space += one;
            } else {
                buckets[usize::from(bucket)] += one;
                let expected = if bucket & 1 == 0 { Action::Redirect } else { Action::Drop };
                assert_eq!(action, expected);
                if bucket & 1 == 0 {
                    assert_eq!(u16::from(out[5]), bucket / 2 % 2);
                    sensors[usize::from(out[5])] += one;
                }
            }
        }
    }
    let outcomes = splitter.maps.outcomes();
    assert!(outcomes.closes(), "{outcomes:?}");
    assert_eq!((outcomes.filtered, outcomes.to_user_space), (filtered, user_space));
    let redirected = splitter.maps.redirected(3);
    assert_eq!(redirected.packets, sensors[0].packets + sensors[1].packets);
    assert_eq!((redirected, splitter.maps.received(5)), (outcomes.to_sensors, outcomes.received));
    assert!(outcomes.no_sensor.packets > 1000 && user_space.packets > 1000);
    for (bucket, traffic) in (0..=u16::MAX).zip(buckets) {
        let tally = (traffic.packets << 36) + traffic.bytes;
        assert_eq!(splitter.maps.bucket_tally(bucket), tally, "bucket {bucket}");
        assert_eq!(splitter.maps.bucket_flows(bucket) == 0, tally == 0);
    }
}

#[test]
fn what_has_no_place_to_go_is_counted() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let frame = udp((1, 2), (3, 4));
    let one = Traffic { packets: 1, bytes: frame.len() as u64 };
    splitter.maps.set_sensor(0, None).unwrap();
    assert_eq!(splitter.run(&frame).0, Action::Drop);
    splitter.maps.set_sensor(0, Some(sensor(0))).unwrap();
    assert!(splitter.maps.devices().clear(3).unwrap());
    assert_eq!(splitter.run(&frame).0, Action::Drop);
    let outcomes = splitter.maps.outcomes();
    assert_eq!((outcomes.no_sensor, outcomes.no_interface), (one, one));
    assert!(outcomes.closes());

    let sockets = UserSpace::Sockets { first: 4, queues: 1, per_queue: 2 };
    let splitter = Splitter::new(&Settings { user_space: sockets, ..settings() });
    let hard = fragment((1, 0), (2, 0));
    let one = Traffic { packets: 1, bytes: hard.len() as u64 };
    assert_eq!(splitter.run(&hard).0, Action::Drop);
    let outcomes = splitter.maps.outcomes();
    assert_eq!((outcomes.no_sensor, outcomes.no_socket), (Traffic::default(), one));
    assert!(outcomes.closes());
    assert!(splitter.maps.set_sensor(1024, None).is_err());
}

#[test]
fn a_flow_stays_in_user_space_until_it_was_idle() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    for (plain, answer, hard) in [
        (udp((1, 7), (2, 9)), udp((2, 9), (1, 7)), fragment((1, 0), (2, 0))),
        (udp6((1, 7), (2, 9)), udp6((2, 9), (1, 7)), {
            let mut options = udp6((2, 0), (1, 0));
            options[20] = 60;
            options
        }),
    ] {
        let other = udp((1, 7), (3, 9));
        assert!(!splitter.passes(&plain) && !splitter.passes(&other));
        assert!(splitter.passes(&hard));
        // Packets that follow keep the mark fresh for longer than the timeout.
        let mut seen = Instant::now();
        for _ in 0..4 {
            sleep(IDLE / 2);
            if seen.elapsed() > IDLE * 3 / 4 {
                // This machine was busy with other things.
                splitter.passes(&hard);
            }
            seen = Instant::now();
            assert!(splitter.passes(&plain) && splitter.passes(&answer));
            assert!(!splitter.passes(&other));
        }
        sleep(IDLE * 3 / 2);
        assert!(!splitter.passes(&plain));
    }
    // Without addresses nothing is to be marked.
    assert!(splitter.passes(&ethernet(&[], 0x0806, &[0; 46])));
    let outcomes = splitter.maps.outcomes();
    assert!(outcomes.closes() && outcomes.not_marked == 0);
}

#[test]
fn of_more_pairs_than_can_be_marked_the_one_not_seen_for_longest_is_forgotten() {
    if !support::bpf() {
        return;
    }
    // As many as a broker has.
    let maps = SplitterMaps::create(Limits::default()).unwrap();
    let most = Limits::default().marks as usize;
    maps.devices().set(3, LOOPBACK).unwrap();
    maps.set_sensor(0, Some(sensor(0))).unwrap();
    (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, 0));
    let settings = Settings { idle_timeout: Duration::from_secs(600), ..settings() };
    let program = splitter::load(&maps, &settings).unwrap();
    let splitter = Splitter { maps, program };
    let pairs = || (0..300).flat_map(|a| (0..most / 200).map(move |b| (a, 1_000 + b as u16)));
    for (a, b) in pairs() {
        assert!(splitter.passes(&fragment((a, 0), (b, 0))));
    }
    let marked: Vec<bool> = pairs().map(|(a, b)| splitter.passes(&udp((a, 1), (b, 2)))).collect();
    let kept = marked.iter().filter(|&&is_marked| is_marked).count();
    assert!((most * 9 / 10..=most).contains(&kept), "{kept} of {}", marked.len());
    let last = &marked[marked.len() - most / 2..];
    assert!(last.iter().all(|&is_marked| is_marked) && !marked[0]);
    assert_eq!(splitter.maps.outcomes().not_marked, 0);
}

/// A move from sensor 0 to sensor 1.
const LEARNING: u32 = LOOK_UP | RECORD | 1 << OTHER_SHIFT;
const TURNING: u32 = LOOK_UP | RECORD | TURNED | 1;
const MOVING: u32 = LOOK_UP | TURNED | 1;
const OFF: u32 = LOOK_UP | CANCELLED | 1 << OTHER_SHIFT;

/// Frames of other flows than `frame` in its bucket.
fn neighbours(frame: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let (bucket, frame) = (bucket_of(frame), frame.to_vec());
    let frames = (0..).flat_map(|host| (0..u16::MAX).map(move |port| (host, port)));
    frames
        .map(|(host, port)| tcp((100 + host, port), (2, 80), ACK))
        .filter(move |other| bucket_of(other) == bucket && *other != frame)
}

fn records(maps: &SplitterMaps) -> Vec<Record> {
    let mut records = Vec::new();
    maps.sweep(|record| {
        records.push(record);
        true
    })
    .unwrap();
    records
}

#[test]
fn a_moving_bucket_tears_no_flow() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let maps = &splitter.maps;
    let (a, b) = ((1, 40_000), (2, 80));
    let (data, answer) = (tcp(a, b, ACK), tcp(b, a, SYN | ACK));
    let bucket = bucket_of(&data);
    let hash = decode(&data).hash(&HASH_KEY);
    let mut others = neighbours(&data);
    let (turned, later) = (others.next().unwrap(), others.next().unwrap());

    assert_eq!(splitter.sensor_of(&data), 0);
    assert_eq!(maps.record(hash).unwrap(), None);
    maps.set_entry(bucket, LEARNING);
    assert_eq!((splitter.sensor_of(&data), splitter.sensor_of(&answer)), (0, 0));
    let found = records(maps);
    let [record] = found[..] else { panic!("{found:?}") };
    assert_eq!((record.hash, record.bucket(), record.sensor()), (hash, bucket, 0));

    // What is new while it turns is recorded as well, and what comes later is not.
    assert_eq!(maps.replace_entry(bucket, TURNING, LEARNING), Err(LEARNING));
    maps.replace_entry(bucket, LEARNING, TURNING).unwrap();
    assert_eq!((splitter.sensor_of(&data), splitter.sensor_of(&turned)), (0, 1));
    maps.set_entry(bucket, MOVING);
    assert_eq!((splitter.sensor_of(&later), splitter.sensor_of(&turned)), (1, 1));
    assert_eq!(records(maps).len(), 2);
    sleep(Duration::from_millis(20));
    assert_eq!(splitter.sensor_of(&answer), 0);
    assert!(maps.record(hash).unwrap().unwrap().seen() > record.seen());

    // A record that has changed since it was read stays, another goes.
    let stale = records(maps);
    sleep(Duration::from_millis(20));
    assert_eq!(splitter.sensor_of(&data), 0);
    let mut turns = 0;
    maps.sweep(|record| {
        if record.hash == hash {
            sleep(Duration::from_millis(20));
            assert_eq!(splitter.sensor_of(&data), 0);
        }
        turns += 1;
        false
    })
    .unwrap();
    assert_eq!((turns, stale.len()), (2, 2));
    assert_eq!(records(maps).iter().map(|record| record.hash).collect::<Vec<_>>(), [hash]);
    assert_eq!(splitter.sensor_of(&data), 0);
    maps.sweep(|_| false).unwrap();
    assert_eq!((splitter.sensor_of(&data), records(maps).len()), (1, 0));

    let length = data.len() as u64;
    let displaced = (5 << 36) + 5 * length;
    assert_eq!((maps.displaced(0), maps.displaced(1)), ((displaced, 0), (0, displaced)));
    assert!(maps.outcomes().closes());
    maps.quiesce().unwrap();
}

#[test]
fn an_ended_connection_begins_anew_at_the_new_sensor() {
    if !support::bpf() {
        return;
    }
    let (a, b) = ((1, 40_000), (2, 80));
    const FIN: u8 = 1;
    const RST: u8 = 4;
    let open = tcp(a, b, ACK);
    for (ending, ends) in [
        (vec![tcp(a, b, FIN | ACK), tcp(b, a, FIN | ACK)], true),
        (vec![tcp(b, a, FIN | ACK), tcp(a, b, FIN | ACK)], true),
        (vec![tcp(b, a, RST)], true),
        (vec![tcp(a, b, FIN | ACK), tcp(a, b, FIN | ACK)], false),
        (vec![tcp(b, a, FIN | ACK), tcp(b, a, FIN | ACK)], false),
        (vec![tcp(a, b, ACK)], false),
    ] {
        let splitter = Splitter::new(&settings());
        let (maps, bucket) = (&splitter.maps, bucket_of(&open));
        maps.set_entry(bucket, LEARNING);
        splitter.sensor_of(&open);
        // While the bucket records, a connection begins where the one before was.
        ending.iter().for_each(|frame| assert_eq!(splitter.sensor_of(frame), 0));
        assert_eq!(splitter.sensor_of(&tcp(a, b, SYN)), 0);
        assert!(!records(maps)[0].has_ended());
        ending.iter().for_each(|frame| assert_eq!(splitter.sensor_of(frame), 0));
        maps.set_entry(bucket, MOVING);
        assert_eq!(splitter.sensor_of(&open), 0, "what comes late belongs to the end");
        assert_eq!(records(maps)[0].has_ended(), ends);
        assert_eq!(splitter.sensor_of(&tcp(b, a, SYN | ACK)), 0, "not a bare SYN");
        let sensor = u8::from(ends);
        assert_eq!(splitter.sensor_of(&tcp(a, b, SYN)), sensor);
        assert_eq!(splitter.sensor_of(&tcp(b, a, SYN | ACK)), sensor);
        assert_eq!(splitter.sensor_of(&open), sensor);
        assert_eq!(maps.outcomes().restarts, u64::from(ends));
        assert_eq!(records(maps).len(), usize::from(!ends));
    }
}

#[test]
fn what_a_connection_says_means_nothing_for_wider_keys() {
    if !support::bpf() {
        return;
    }
    let flow = FlowOptions { affinity: Affinity::IpPair, ..settings().flow };
    let splitter = Splitter::new(&Settings { flow, ..settings() });
    (0..=u16::MAX).for_each(|bucket| splitter.maps.set_entry(bucket, LEARNING));
    let (a, b) = ((1, 40_000), (2, 80));
    for flags in [ACK, 0x04, SYN] {
        assert_eq!(splitter.sensor_of(&tcp(a, b, flags)), 0);
    }
    (0..=u16::MAX).for_each(|bucket| splitter.maps.set_entry(bucket, MOVING));
    assert_eq!(splitter.sensor_of(&tcp(a, b, SYN)), 0);
    assert_eq!(records(&splitter.maps).len(), 1);
}

#[test]
fn keys_of_a_dead_sensor_are_not_on_record() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let maps = &splitter.maps;
    let frame = udp((1, 2), (3, 4));
    let bucket = bucket_of(&frame);
    maps.set_entry(bucket, LEARNING);
    assert_eq!(splitter.sensor_of(&frame), 0);
    maps.set_entry(bucket, MOVING);
    maps.set_alive(0, false).unwrap();
    assert_eq!(splitter.sensor_of(&frame), 1);
    // An entry says nothing of life.
    maps.set_sensor(0, Some(sensor(0))).unwrap();
    assert_eq!(splitter.sensor_of(&frame), 1);
    maps.set_alive(0, true).unwrap();
    assert_eq!(splitter.sensor_of(&frame), 0);
    maps.set_alive(0, false).unwrap();
    // While the bucket records, the key is recorded where it goes now.
    maps.set_entry(bucket, TURNING);
    assert_eq!(splitter.sensor_of(&frame), 1);
    maps.set_alive(0, true).unwrap();
    assert_eq!(splitter.sensor_of(&frame), 1);
    assert_eq!(records(maps)[0].sensor(), 1);
    assert!(maps.set_alive(1024, true).is_err());
}

#[test]
fn a_key_that_cannot_be_recorded_cancels_the_move() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let maps = &splitter.maps;
    let frame = tcp((1, 40_000), (2, 80), ACK);
    let bucket = bucket_of(&frame);
    let flood: Vec<_> = neighbours(&frame).take(10).collect();
    for (entry, at_first, after, off) in
        [(LEARNING, 0, 0, OFF), (TURNING, 1, 0, OFF), (LEARNING | 1 << 30, 0, 0, OFF | 1 << 30)]
    {
        maps.sweep(|_| false).unwrap();
        maps.allow_records(bucket);
        maps.set_entry(bucket, entry);
        for (i, frame) in flood.iter().enumerate() {
            assert_eq!(splitter.sensor_of(frame), if i < 8 { at_first } else { after });
            assert_eq!(maps.entry(bucket), if i < 8 { entry } else { off });
        }
        // What is on record stays, also where new keys do not go.
        assert_eq!(splitter.sensor_of(&flood[0]), at_first);
        assert_eq!(records(maps).len(), 8);
        maps.set_entry(bucket, 0);
    }
    assert_eq!(maps.outcomes().not_recorded, 3);

    // A map that is full, over all buckets.
    maps.sweep(|_| false).unwrap();
    (0..=u16::MAX).for_each(|bucket| maps.allow_records(bucket));
    (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, LEARNING));
    for port in 0..150 {
        assert_eq!(splitter.sensor_of(&udp((1, 1000 + port), (2, 9))), 0);
    }
    let (found, outcomes) = (records(maps).len() as u64, maps.outcomes());
    assert!((100..150).contains(&found), "{found} on record");
    assert_eq!(found + outcomes.not_recorded, 153);
    let off = (0..=u16::MAX).filter(|&bucket| maps.entry(bucket) == OFF).count() as u64;
    assert_eq!(off, 150 - found);
    assert!(outcomes.closes());
}

#[test]
fn flows_are_remembered_for_two_generations() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let maps = &splitter.maps;
    let frame = tcp((1, 40_000), (2, 80), ACK);
    let other = neighbours(&frame).next().unwrap();
    let bit = |frame: &[u8]| 1 << (decode(frame).hash(&HASH_KEY) >> 43 & 31);
    let bucket = bucket_of(&frame);
    splitter.run(&frame);
    assert_eq!(maps.bucket_flows(bucket), bit(&frame));
    maps.rotate_flows();
    splitter.run(&other);
    assert_eq!(maps.bucket_flows(bucket), bit(&frame) | bit(&other));
    assert_eq!(maps.bucket_flow_maps(bucket), [bit(&other), bit(&frame)]);
    maps.rotate_flows();
    assert_eq!(maps.bucket_flows(bucket), bit(&other));
    maps.rotate_flows();
    assert_eq!(maps.bucket_flows(bucket), 0);
}

#[test]
fn settings_can_be_replaced_over_the_same_state() {
    if !support::bpf() {
        return;
    }
    let Splitter { maps, program } = Splitter::new(&settings());
    let before = Splitter { maps, program };
    assert_eq!(before.sensor_of(&udp((1, 1), (2, 53))), 0);
    let filter = forebay_filter::compile("not port 53", LinkType::ETHERNET).unwrap();
    let settings = Settings { filter: Some(filter), ..settings() };
    let program = splitter::load(&before.maps, &settings).unwrap();
    let after = Splitter { maps: before.maps, program };
    assert_eq!(after.run(&udp((1, 1), (2, 53))).0, Action::Drop);
    let outcomes = after.maps.outcomes();
    assert_eq!((outcomes.filtered.packets, outcomes.received.packets), (1, 2));
    assert!(outcomes.closes());
    let none = Settings { idle_timeout: Duration::ZERO, ..settings };
    assert!(splitter::load(&after.maps, &none).is_err());
}

#[test]
fn a_measurement_runs_the_program_for_each_frame() {
    if !support::bpf() {
        return;
    }
    let splitter = Splitter::new(&settings());
    let frame = udp((1, 2), (3, 4));
    // A signal that stops this process for a while ends a run.
    while splitter.program.measure(&frame, 10_000).is_err() {}
    assert!(splitter.maps.outcomes().to_sensors.packets >= 10_000);
}
