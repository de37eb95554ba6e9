//! Sensors get no more than their limits, and every packet that is shed has a name in the ledger and
//! is counted in the record of its flow.

use std::sync::Arc;

use crate::support::*;
use forebay_balance::Assignment;
use forebay_flow::shed::{Limit, OnOverload, Rates, Shed as Reason, WINDOW};
use forebay_gen::{Config, Generator};
use forebay_packet::{Batch, DecodeOptions, Decoder, HashKey};
use forebay_pipeline::stages::{Balance, Classify, LiveFragments, OPTIONAL, Shedding};
use forebay_pipeline::{Chain, GroupStages, Place, RecordExport, RecordSink, Settings, StageError};

const OFFLINE: HashKey = HashKey::OFFLINE;

/// Packets a second of the traffic, for two sensors.
const RATE: u64 = 40_000;

fn settings(keys: &str, shedding: Shedding) -> Settings {
    let mut stages = GroupStages::default();
    for (key, value) in toml::from_str::<toml::Table>(keys).unwrap() {
        let kind = OPTIONAL.iter().find(|stage| stage.key == key).unwrap();
        stages.add(kind, value).unwrap();
    }
    Settings::new().with(stages).with(shedding)
}

/// The first of two sensors has a limit of packets a second.
fn limited(policy: OnOverload, pps: u64) -> (Shedding, Arc<Limit>) {
    let limit = Arc::new(Limit::new(Rates { pps: Some(pps), bps: None }));
    (Shedding(vec![Some((policy, Arc::clone(&limit))), None]), limit)
}

fn chain(settings: &Settings) -> Chain {
    Chain::new()
        .with(Classify::hashing(Decoder::new(DecodeOptions::default()), OFFLINE))
        .with(LiveFragments::new(OFFLINE))
        .with_optional(Place::BehindFragments, OFFLINE)
        .with(Balance::new(Assignment::of_weights(&[1, 1]).unwrap()))
        .with_optional(Place::BehindBalance, OFFLINE)
        .configured(settings)
}

/// What comes out, with the time of its batch: packets to each sensor.
type Passed = Vec<(u64, [u64; 2])>;

/// Sends batches through at the times of their last packets.
fn push(chain: &mut Chain, batches: &[Batch]) -> Passed {
    let mut passed = Vec::new();
    for batch in batches {
        let now = batch.nanos(batch.len() - 1).unsigned_abs();
        let mut count = |batch: Batch| {
            let mut packets = [0; 2];
            batch.live().iter().for_each(|i| packets[usize::from(batch.output[i])] += 1);
            passed.push((now, packets));
            Ok::<(), StageError>(())
        };
        chain.begin(now);
        chain.push(batch.clone(), &mut count).unwrap();
    }
    passed
}

fn mix(seed: u64, packets: u64) -> Vec<Batch> {
    let config = Config { packets, flows: packets / 10, rate_pps: RATE, seed, ..Config::default() };
    let mut generator = Generator::new(config).unwrap();
    std::iter::from_fn(|| generator.next_batch().unwrap()).collect()
}

/// Packets that were shed, by the ledger.
fn drops(chain: &Chain) -> Vec<(&'static str, u64)> {
    let rows = chain.rows();
    assert!(rows.iter().all(forebay_pipeline::LedgerRow::closes), "{rows:?}");
    let row = rows.iter().find(|row| row.stage == "shed").unwrap();
    let dropped = row.drops.iter().filter(|drop| drop.packets > 0);
    dropped.map(|drop| (drop.name, drop.packets)).collect()
}

/// The most packets to a sensor in any 100 ms.
fn most_in_a_window(passed: &Passed, sensor: usize) -> u64 {
    let of = |(begin, _): &(u64, [u64; 2])| -> u64 {
        let window = passed.iter().filter(|(at, _)| (*begin..begin + WINDOW).contains(at));
        window.map(|(_, packets)| packets[sensor]).sum()
    };
    passed.iter().map(of).max().unwrap()
}

fn sent(passed: &Passed, sensor: usize) -> u64 {
    passed.iter().map(|(_, packets)| packets[sensor]).sum()
}

#[test]
fn a_sensor_is_within_its_limit_and_records_have_what_was_shed() {
    let batches = mix(1, 80_000);
    let everything = push(&mut chain(&settings("", Shedding::default())), &batches);
    for policy in OnOverload::ALL {
        let (shedding, limit) = limited(policy, RATE / 4);
        let keys = format!("on_overload = \"{}\"", policy.name());
        let mut chain = chain(&settings(&keys, shedding));
        let passed = push(&mut chain, &batches);
        assert_eq!(sent(&passed, 1), sent(&everything, 1), "{policy:?}");
        let drops = drops(&chain);
        let shed: u64 = drops.iter().map(|(_, packets)| packets).sum();
        assert_eq!(sent(&passed, 0) + shed, sent(&everything, 0));
        if policy == OnOverload::None {
            assert_eq!(shed, 0);
            continue;
        }
        assert!(most_in_a_window(&passed, 0) <= RATE / 40, "{policy:?}");
        assert!(shed > 10_000, "{policy:?}: {shed}");
        let named: Vec<(&str, u64)> = Reason::NAMES.into_iter().zip(limit.shed()).collect();
        assert!(named.iter().filter(|(_, packets)| *packets > 0).eq(&drops), "{named:?} {drops:?}");
        let flows = chain.flows().lock();
        let records: Vec<_> = flows.table.as_ref().unwrap().records().collect();
        assert_eq!(records.iter().map(|record| u64::from(record.shed)).sum::<u64>(), shed);
        // Fragments of several flows may be one record, and so may what has no addresses.
        let mut flows = records.iter().filter(|one| one.key.has_ports);
        let wrong = flows.find(|one| one.output() != Some(0) && one.shed > 0);
        assert_eq!(wrong, None, "{policy:?}");
        assert!(records.iter().any(|one| one.output() == Some(1)));
        if policy == OnOverload::WholeFlows {
            // Of a flow that was refused there is nothing but what was shed.
            let refused = drops.iter().find(|(name, _)| *name == "shed_new_flow").unwrap().1;
            let nothing = records.iter().filter(|one| u64::from(one.shed) == one.total_packets());
            assert!(nothing.map(|one| u64::from(one.shed)).sum::<u64>() >= refused);
        }
    }
}

/// A TCP segment without payload, and its control bits.
fn segment(port: u16, flags: u8) -> Vec<u8> {
    let mut header = [port.to_be_bytes(), 80_u16.to_be_bytes()].concat();
    header.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    ipv4(1, 2, 6, 0, 0, &header)
}

#[test]
fn records_that_end_by_the_batch_have_what_was_shed_of_their_packets() {
    const SYN: u8 = 2;
    const RST: u8 = 4;
    // A connection that is opened and reset again and again; and many flows in a small table.
    let again = |i: u64| segment(1, if i.is_multiple_of(2) { SYN } else { RST });
    let many = |i: u64| segment((i * 7919 % 2_000) as u16, SYN);
    for (packet, keys) in
        [(&again as &dyn Fn(u64) -> Vec<u8>, ""), (&many, "flows.max_flows = 16\n")]
    {
        let packets: Vec<_> = (0..8_000).map(|i| (i * 25_000, packet(i))).collect();
        let (shedding, _) = limited(OnOverload::WholeFlows, 1_000);
        let shedding = Shedding(vec![shedding.0[0].clone()]);
        let keys = format!("on_overload = \"whole-flows\"\n{keys}");
        let sink = Arc::new(Kept::default());
        let export = RecordExport(Some(Arc::clone(&sink) as Arc<dyn RecordSink>));
        let mut chain = Chain::new()
            .with(Classify::hashing(Decoder::new(DecodeOptions::default()), OFFLINE))
            .with_optional(Place::BehindFragments, OFFLINE)
            .with(Balance::new(Assignment::of_weights(&[1]).unwrap()))
            .with_optional(Place::BehindBalance, OFFLINE)
            .configured(&settings(&keys, shedding).with(export));
        push(&mut chain, &batches(&packets, 256));
        let shed: u64 = drops(&chain).iter().map(|(_, packets)| packets).sum();
        assert!(shed > 4_000, "{shed}");
        through(&mut chain, Vec::new());
        let records = sink.0.lock().unwrap();
        assert!(records.len() > 1_000, "{}", records.len());
        assert_eq!(records.iter().map(|one| one.total_packets()).sum::<u64>(), 8_000);
        assert_eq!(records.iter().map(|one| u64::from(one.shed)).sum::<u64>(), shed);
        let wrong = records.iter().find(|one| u64::from(one.shed) > one.total_packets());
        assert_eq!(wrong, None);
        assert!(records.iter().all(|one| one.output() == Some(0)));
    }
}

#[test]
fn packets_without_addresses_of_ip_pass_as_long_as_there_is_room() {
    for policy in OnOverload::ALL {
        let frame = |kind: u16| {
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
            frame.extend(kind.to_be_bytes());
            frame.resize(60, 0);
            frame
        };
        // ARP, and an EtherType that is not decoded; a fiftieth of all each.
        let packet = |i: u64| match i % 50 {
            0 => frame(0x0806),
            1 => frame(0x9999),
            _ => whole(1, 2, (7, (i % 1_000) as u16)),
        };
        let packets: Vec<_> = (0..20_000).map(|i| (i * 100_000, packet(i))).collect();
        let (shedding, _) = limited(policy, 4_000);
        let shedding = Shedding(vec![shedding.0[0].clone()]);
        let keys = format!("on_overload = \"{}\"", policy.name());
        let mut chain = Chain::new()
            .with(Classify::hashing(Decoder::new(DecodeOptions::default()), OFFLINE))
            .with_optional(Place::BehindFragments, OFFLINE)
            .with(Balance::new(Assignment::of_weights(&[1]).unwrap()))
            .with_optional(Place::BehindBalance, OFFLINE)
            .configured(&settings(&keys, shedding));
        let mut others = 0;
        for batch in batches(&packets, 50) {
            chain.begin(batch.nanos(batch.len() - 1).unsigned_abs());
            let mut count = |batch: Batch| {
                let is_other = |&i: &usize| batch.packet(i)[12..14] != [8, 0];
                others += batch.live().iter().filter(is_other).count();
                Ok::<(), StageError>(())
            };
            chain.push(batch, &mut count).unwrap();
        }
        // With DRR, packets that a queue would push out have gone, and fill up the limit.
        let least = if policy == OnOverload::Drr { 480 } else { 720 };
        assert!(others >= least, "{policy:?}: {others} of 800");
    }
}

#[test]
fn suspect_flows_are_shed_last() {
    let mut batches = mix(4, 80_000);
    let decoder = Decoder::new(DecodeOptions::default());
    for batch in &mut batches {
        for i in 0..batch.len() {
            let key = decoder.decode(batch.interface(i).link, batch.packet(i)).key;
            if (key.low ^ key.high ^ u128::from(key.port_low ^ key.port_high)).is_multiple_of(5) {
                batch.suspect.insert(i);
            }
        }
    }
    // Packets of suspect flows to the sensor, behind the first windows: those are full before
    // the overload is noticed.
    let begin = batches[0].nanos(0).unsigned_abs();
    let count = |chain: &mut Chain| {
        let mut suspect = 0;
        for batch in &batches {
            let now = batch.nanos(batch.len() - 1).unsigned_abs();
            chain.begin(now);
            let mut sum = |batch: Batch| {
                let late = batch.live().and(&batch.suspect);
                let to_it =
                    late.iter().filter(|&i| batch.output[i] == 0 && now > begin + 3 * WINDOW);
                suspect += to_it.count();
                Ok::<(), StageError>(())
            };
            chain.push(batch.clone(), &mut sum).unwrap();
        }
        suspect
    };
    let all = count(&mut chain(&settings("", Shedding::default())));
    let (shedding, _) = limited(OnOverload::WholeFlows, RATE / 4);
    let mut chain = chain(&settings("on_overload = \"whole-flows\"", shedding));
    let passed = count(&mut chain);
    assert!(all > 2_000 && drops(&chain).iter().map(|(_, packets)| packets).sum::<u64>() > 10_000);
    // The traffic has bursts of several times the limit, in which the window can be full.
    assert!(passed * 50 > all * 49, "{passed} of {all}");
}

#[test]
fn policies_and_limits_change_under_traffic() {
    let batches = mix(2, 60_000);
    let mut parts = batches.chunks(batches.len() / 6 + 1);
    let mut chain = chain(&settings("", Shedding::default()));
    let mut before = 0;
    let mut next = |keys: &str, shedding: Shedding| {
        reload(&mut chain, &settings(keys, shedding));
        push(&mut chain, parts.next().unwrap());
        let rows = chain.rows();
        assert!(rows.iter().all(forebay_pipeline::LedgerRow::closes), "{rows:?}");
        let row = rows.iter().find(|row| row.stage == "shed");
        let all: u64 = row.iter().flat_map(|row| &row.drops).map(|drop| drop.packets).sum();
        all - std::mem::replace(&mut before, all)
    };
    let key = "on_overload = \"fair\"";
    assert_eq!(next("", Shedding::default()), 0);
    let (fair, _) = limited(OnOverload::Fair, 5_000);
    assert!(next(key, fair.clone()) > 1_000);
    let (drr, _) = limited(OnOverload::Drr, 5_000);
    assert!(next(key, drr) > 1_000);
    let (wide, _) = limited(OnOverload::WholeFlows, 1_000_000);
    assert_eq!(next(key, wide), 0);
    assert_eq!(next("flows = true", Shedding::default()), 0);
    // Without the stage the setting has no effect.
    assert_eq!(next("", fair), 0);
}

#[test]
fn the_key_is_read_or_refused() {
    let stage = OPTIONAL.iter().find(|stage| stage.key == "on_overload").unwrap();
    let read = |text: &str| {
        let table: toml::Table = toml::from_str(&format!("it = {text}")).unwrap();
        (stage.read)(&table["it"]).map(|_| ())
    };
    assert!(OnOverload::ALL.iter().all(|one| read(&format!("\"{}\"", one.name())).is_ok()));
    let expected = "expected one of `none`, `fair`, `red`, `drr`, `whole-flows`";
    for wrong in ["\"most\"", "true", "7", "{ policy = \"fair\" }"] {
        assert_eq!(read(wrong), Err(expected.to_owned()));
    }
}
