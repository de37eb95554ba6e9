//! Records of flows agree with the ledger, and behind the cutoff only ends pass.

use std::collections::HashMap;
use std::sync::Arc;

use crate::support::*;
use forebay_flow::FlowRecord;
use forebay_gen::{Config, Generator, Profile};
use forebay_packet::flow::AddressKind;
use forebay_packet::random::Random;
use forebay_packet::{Batch, DecodeOptions, Decoder, FlowKey, HashKey, LiveMask};
use forebay_pipeline::stages::{Classify, LiveFragments, OPTIONAL};
use forebay_pipeline::{
    Chain, GroupStages, Outbox, Place, Promises, RecordExport, RecordSink, Settings, SharedFlows,
    Stage, StageError,
};

const OFFLINE: HashKey = HashKey::OFFLINE;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Settings with the optional stages of these keys and values.
fn settings(keys: &str) -> Settings {
    let mut stages = GroupStages::default();
    for (key, value) in toml::from_str::<toml::Table>(keys).unwrap() {
        let kind = OPTIONAL.iter().find(|stage| stage.key == key).unwrap();
        stages.add(kind, value).unwrap();
    }
    Settings::new().with(stages)
}

fn classified() -> Chain {
    Chain::new()
        .with(Classify::hashing(Decoder::new(DecodeOptions::default()), OFFLINE))
        .with(LiveFragments::new(OFFLINE))
}

/// The part of a live chain in which flows are found.
fn chain(keys: &str, sink: &Arc<Kept>) -> Chain {
    let sink = Arc::clone(sink) as Arc<dyn RecordSink>;
    let settings = settings(keys).with(RecordExport(Some(sink)));
    classified().with_optional(Place::BehindFragments, OFFLINE).configured(&settings)
}

/// What comes out of a chain that is not drained.
fn push(chain: &mut Chain, batches: Vec<Batch>) -> Vec<Batch> {
    let mut out = Vec::new();
    for batch in batches {
        let mut keep = |batch| {
            out.push(batch);
            Ok::<(), StageError>(())
        };
        chain.push(batch, &mut keep).unwrap();
    }
    out
}

/// Packets of all kinds; those of the same seed are the same.
fn mix(seed: u64, packets: u64) -> Vec<Batch> {
    let profile = Profile::Mix;
    let config = Config { profile, packets, flows: 300, seed, ..Config::default() };
    let mut generator = Generator::new(config).unwrap();
    let mut batches: Vec<Batch> = std::iter::from_fn(|| generator.next_batch().unwrap()).collect();
    batches.extend(self::batches(&traffic(500), 100));
    batches
}

fn drops(chain: &Chain) -> u64 {
    let rows = chain.rows();
    assert!(rows.iter().all(forebay_pipeline::LedgerRow::closes), "{rows:?}");
    let row = rows.iter().find(|row| row.stage == "flows").unwrap();
    row.drops.iter().find(|drop| drop.name == "cutoff").unwrap().packets
}

/// The packets of a batch, each in a batch of its own.
fn single(batch: &Batch) -> impl Iterator<Item = Batch> {
    batch.live().iter().map(|i| {
        let mut one = batch.clone();
        let mut which = LiveMask::default();
        which.insert(i);
        one.retain(&which);
        one.compact_indices();
        one
    })
}

/// Bytes of a flow each way, and what passes of it: by a map, packet by packet.
struct Model {
    bytes: HashMap<FlowKey, [u64; 2]>,
    cutoff: u64,
    per_direction: bool,
}

impl Model {
    /// Whether the one packet of a batch passes, which may be the first of a record.
    fn passes(&mut self, batch: &Batch, is_first: bool) -> bool {
        let (mut key, reversed) = batch.flow(0).unwrap();
        if key.kind == AddressKind::Opaque {
            key.low = 0;
        }
        let bytes = self.bytes.entry(key).or_default();
        if is_first {
            *bytes = [0; 2];
        }
        let way = usize::from(reversed);
        let before = if self.per_direction { bytes[way] } else { bytes[0] + bytes[1] };
        bytes[way] += u64::from(batch.wire_len(0));
        let is_ip = matches!(key.kind, AddressKind::Ipv4 | AddressKind::Ipv6);
        !is_ip || before < self.cutoff || batch.tcp_flags[0] & (FIN | RST) != 0
    }
}

/// The record of the one packet of a batch.
fn record_of(flows: &SharedFlows, key: FlowKey) -> FlowRecord {
    let key = if key.kind == AddressKind::Opaque { FlowKey { low: 0, ..key } } else { key };
    *flows.lock().table.as_ref().unwrap().records().find(|record| record.key == key).unwrap()
}

/// Marks the packets to one address as suspect.
struct Suspects;

impl Stage for Suspects {
    fn name(&self) -> &'static str {
        "suspects"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        batch.suspect = LiveMask::default();
        for i in 0..batch.len() {
            if batch.packet(i)[33] == 2 {
                batch.suspect.insert(i);
            }
        }
        out.emit(batch);
        Ok(())
    }
}

#[test]
fn records_of_suspect_packets_are_marked() {
    let sink = Arc::new(Kept::default());
    let export = RecordExport(Some(Arc::clone(&sink) as Arc<dyn RecordSink>));
    let mut chain = Chain::new()
        .with(Suspects)
        .with(Classify::hashing(Decoder::new(DecodeOptions::default()), OFFLINE))
        .with_optional(Place::BehindFragments, OFFLINE)
        .configured(&settings("flows = true").with(export));
    // Of the first flow one direction is suspect, of the second none.
    let packets =
        [(1, 2), (2, 1), (1, 3), (3, 1), (2, 1)].map(|(from, to)| whole(from, to, (7, 7)));
    let packets: Vec<_> = (0..).zip(packets).collect();
    through(&mut chain, batches(&packets, 2));
    let records = sink.0.lock().unwrap();
    let marked: Vec<_> =
        records.iter().map(|one| (one.is_suspect(), one.total_packets())).collect();
    assert_eq!(marked, [(true, 3), (false, 2)]);
}

#[test]
fn records_and_ledger_agree_and_a_map_says_the_same() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let (cutoff, per_direction) = (64 << random.below(10), random.below(2) == 1);
        let per = if per_direction { "direction" } else { "flow" };
        let keys = format!("cutoff = {{ bytes = \"{cutoff}B\", per = \"{per}\" }}");
        let (sink, in_batches) = (Arc::new(Kept::default()), Arc::new(Kept::default()));
        let mut classified = Chain::new().with(classify()).with(LiveFragments::new(OFFLINE));
        let (mut chain, mut batched) = (chain(&keys, &sink), self::chain(&keys, &in_batches));
        let mut model = Model { bytes: HashMap::new(), cutoff, per_direction };
        let mut seen = 0;
        for batch in mix(seed, 2_000) {
            seen += batch.live().count() as u64;
            let mut passed = Vec::new();
            for one in single(&batch) {
                let expected = push(&mut classified, vec![one.clone()]).remove(0);
                let out = push(&mut chain, vec![one]);
                let record = record_of(chain.flows(), expected.flow(0).unwrap().0);
                let passes = model.passes(&expected, record.total_packets() == 1);
                assert_eq!(!out.is_empty(), passes, "seed {seed}, {record:?}");
                passed.extend(packets(&out));
            }
            let out = push(&mut batched, vec![batch]);
            assert_eq!(packets(&out), passed, "seed {seed}");
        }
        let dropped = drops(&chain);
        assert!(dropped > 0, "seed {seed}");
        assert_eq!(drops(&batched), dropped, "seed {seed}");
        for (mut chain, sink) in [(chain, sink), (batched, in_batches)] {
            through(&mut chain, Vec::new());
            let records = sink.0.lock().unwrap();
            let packets: u64 = records.iter().map(FlowRecord::total_packets).sum();
            let cut: u64 = records.iter().map(|record| u64::from(record.cut)).sum();
            assert_eq!((packets, cut), (seen, dropped), "seed {seed}");
        }
    }
}

#[test]
fn no_packet_is_unaccounted_for_when_the_table_is_full() {
    let sink = Arc::new(Kept::default());
    let mut chain = chain("flows = { max_flows = 9 }\ncutoff = { bytes = \"200B\" }", &sink);
    let (mut seen, mut passed) = (0, 0);
    for batch in mix(3, 10_000) {
        seen += batch.live().count() as u64;
        passed += packets(&push(&mut chain, vec![batch])).len() as u64;
    }
    let evicted = chain.remarks().get("flows_evicted");
    let dropped = drops(&chain);
    assert!(evicted > 100 && dropped > 100);
    through(&mut chain, Vec::new());
    let records = sink.0.lock().unwrap();
    let packets: u64 = records.iter().map(FlowRecord::total_packets).sum();
    let cut: u64 = records.iter().map(|record| u64::from(record.cut)).sum();
    let unrecorded = chain.remarks().get("packets_without_record");
    assert_eq!((packets + unrecorded, cut, passed), (seen, dropped, seen - dropped));
}

#[test]
fn packets_lead_to_their_records() {
    let mut chain = chain("flows = true", &Arc::new(Kept::default()));
    let mut records = 0;
    for batch in mix(7, 5_000) {
        for out in push(&mut chain, vec![batch]) {
            let flows = chain.flows().lock();
            for i in out.live().iter() {
                let record = flows.table.as_ref().unwrap().record(out.record[i]).unwrap();
                let (key, _) = out.flow(i).unwrap();
                assert!(record.key == key || key.kind == AddressKind::Opaque);
                records += 1;
            }
        }
    }
    assert_eq!(records, 5_500);
}

/// A frame of 1,000 bytes: between two hosts, with a tag or none, of IPv4 or IPv6.
fn frame(tagged: bool, ipv6: bool, back: bool, flags: Option<u8>) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if tagged {
        frame.extend([0x81, 0, 0, 7]);
    }
    let mut ends = [(1_u8, 1000_u16), (2, 2000)];
    if back {
        ends.reverse();
    }
    let [(from, from_port), (to, to_port)] = ends;
    let protocol = if flags.is_some() { 6 } else { 17 };
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 3, 0xb6, protocol, 64]);
        frame.extend([[from; 16], [to; 16]].concat());
    } else {
        frame.extend([8, 0]);
        let header = frame.len() + 20;
        frame.extend(ipv4_header(from, to, protocol, 0, 0, 1000 - header));
    }
    match flags {
        Some(flags) => {
            frame.extend([from_port.to_be_bytes(), to_port.to_be_bytes()].concat());
            frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        }
        None => frame.extend(udp(from_port, to_port)),
    }
    frame.resize(1000, 0);
    frame
}

/// Which packets pass, all in one batch.
fn passed(chain: &mut Chain, frames: &[Vec<u8>]) -> Vec<bool> {
    let numbered: Vec<(u64, Vec<u8>)> = (0..).zip(frames.iter().cloned()).collect();
    let out = packets(&push(chain, batches(&numbered, 256)));
    let mut out = out.into_iter().peekable();
    numbered.iter().map(|packet| out.next_if_eq(packet).is_some()).collect()
}

#[test]
fn behind_the_cutoff_only_the_end_of_a_flow_passes() {
    for (tagged, ipv6) in [(false, false), (false, true), (true, false), (true, true)] {
        let tcp = |back: bool, flags: u8| frame(tagged, ipv6, back, Some(flags));
        let frames = [
            tcp(false, SYN),
            tcp(true, SYN | ACK),
            tcp(false, ACK),
            tcp(false, ACK),
            tcp(true, ACK),
            tcp(true, ACK),
            tcp(true, FIN | ACK),
            tcp(false, RST),
            tcp(false, ACK),
            // The connection was closed: this is another.
            tcp(false, SYN),
        ];
        for (per, expected) in [
            ("flow", [true, true, true, false, false, false, true, true, false, true]),
            ("direction", [true, true, true, false, true, false, true, true, false, true]),
        ] {
            let keys = format!("cutoff = {{ bytes = \"2000B\", per = \"{per}\" }}");
            let keys = if per == "flow" { keys.replace("2000", "2001") } else { keys };
            let sink = Arc::new(Kept::default());
            let mut chain = chain(&keys, &sink);
            let case = format!("{tagged}, {ipv6}, {per}");
            assert_eq!(passed(&mut chain, &frames), expected, "{case}");
            let dropped = expected.iter().filter(|passes| !**passes).count() as u64;
            assert_eq!(drops(&chain), dropped, "{case}");
            through(&mut chain, Vec::new());
            let closed = sink.0.lock().unwrap()[0];
            assert_eq!((closed.total_packets(), u64::from(closed.cut)), (9, dropped), "{case}");
        }
        // Without an end there is nothing that passes.
        let datagrams = [false, true, true, false].map(|back| frame(tagged, ipv6, back, None));
        let mut chain = chain("cutoff = { bytes = \"1KiB\" }", &Arc::new(Kept::default()));
        assert_eq!(passed(&mut chain, &datagrams), [true, true, false, false]);
    }
}

#[test]
fn a_flow_stays_cut_off_behind_the_active_timeout_and_begins_anew_behind_the_idle_timeout() {
    let keys = "cutoff = { bytes = \"1500B\" }\n\
                flows = { active_timeout = \"10s\", idle_timeout = \"5s\" }";
    let mut chain = chain(keys, &Arc::new(Kept::default()));
    let packet = frame(false, false, false, None);
    let times = [0, 1, 2, 6, 10, 11, 12, 18, 19, 20].map(|time| (time * SECOND, packet.clone()));
    let out = packets(&push(&mut chain, batches(&times, 3)));
    let passed: Vec<u64> = out.iter().map(|(time, _)| time / SECOND).collect();
    assert_eq!(passed, [0, 1, 18, 19]);
    let ended = ["flows_active", "flows_idle"].map(|name| chain.remarks().get(name));
    assert_eq!(ended, [1, 1]);
}

#[test]
fn what_is_of_no_flow_is_not_cut_off() {
    let arp = [vec![255; 12], vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1], vec![5; 900]].concat();
    let unknown = [vec![3; 12], vec![0x88, 0xb5], vec![5; 900]].concat();
    let mut chain = chain("cutoff = { bytes = \"1B\" }", &Arc::new(Kept::default()));
    let frames = [arp.clone(), unknown.clone(), arp, unknown];
    assert_eq!(passed(&mut chain, &frames), [true; 4]);
}

#[test]
fn a_later_fragment_is_of_the_flow_of_its_first() {
    let mut chain = chain("cutoff = { bytes = \"50B\" }", &Arc::new(Kept::default()));
    let frames = [first(1, 2, 7, (3, 4)), later(1, 2, 7), last(1, 2, 7), whole(1, 2, (3, 4))];
    assert_eq!(passed(&mut chain, &frames), [true, true, false, false]);
    assert_eq!(chain.flows().lock().table.as_ref().unwrap().open(), 1);
}

#[test]
fn cutoff_and_records_come_and_go_under_traffic() {
    let sink = Arc::new(Kept::default());
    let mut chain = chain("", &sink);
    let export = || Some(Arc::clone(&sink) as Arc<dyn RecordSink>);
    let one = [frame(false, false, false, None)];
    let mut all = Vec::new();
    for (keys, expected) in [
        ("", true),
        ("cutoff = { bytes = \"1B\" }", true),
        ("cutoff = { bytes = \"1B\" }", false),
        ("cutoff = { bytes = \"1B\" }\nflows = { idle_timeout = \"5s\" }", false),
        ("flows = { idle_timeout = \"5s\" }", true),
        ("cutoff = { bytes = \"1KiB\" }\nflows = true", false),
        // Another size: flows begin anew.
        ("cutoff = { bytes = \"1B\" }\nflows = { max_flows = 5 }", true),
        ("cutoff = { bytes = \"1B\" }\nflows = { max_flows = 5 }", false),
        ("", true),
        ("cutoff = { bytes = \"1B\" }", true),
    ] {
        reload(&mut chain, &settings(keys).with(RecordExport(export())));
        all.push((keys, passed(&mut chain, &one) == [true], expected));
    }
    assert!(all.iter().all(|(_, passed, expected)| passed == expected), "{all:?}");
    through(&mut chain, Vec::new());
    let records = sink.0.lock().unwrap();
    let counts: Vec<_> = records.iter().map(|one| (one.total_packets(), one.cut)).collect();
    assert_eq!(counts, [(5, 3), (2, 1), (1, 0)]);
    assert_eq!(drops(&chain), 4);
}

#[test]
fn silent_flows_end_although_no_packet_comes() {
    let sink = Arc::new(Kept::default());
    let mut chain = chain("flows = { idle_timeout = \"2s\" }", &sink);
    chain.begin(77);
    passed(&mut chain, &[frame(false, false, false, None)]);
    let mut held = |_| -> Result<(), StageError> { panic!("a packet from nowhere") };
    chain.tick(77 + 2 * SECOND, &mut held).unwrap();
    assert_eq!(chain.remarks().get("flows_idle"), 0);
    // Batches come to other groups; this one's filter passes none of their packets.
    chain.begin(77 + 3 * SECOND);
    passed(&mut chain, &[]);
    chain.tick(77 + 3 * SECOND, &mut held).unwrap();
    assert_eq!((chain.remarks().get("flows_idle"), sink.0.lock().unwrap().len()), (1, 1));
}

#[test]
fn values_that_are_none_name_what_was_expected() {
    for (key, value, expected) in [
        ("flows", "false", "expected true or a table"),
        ("flows", "{ max_flows = 0 }", "`max_flows` 0: expected 1 to 67108864"),
        ("flows", "{ max_flows = \"5\" }", "expected i64"),
        ("flows", "{ idle_timeout = \"5\" }", "`idle_timeout`: `5` is no duration"),
        ("flows", "{ idle = \"5s\" }", "unknown field `idle`"),
        ("cutoff", "\"1MiB\"", "expected a table with `bytes`"),
        ("cutoff", "{}", "missing field `bytes`"),
        ("cutoff", "{ bytes = \"5\" }", "`bytes`: `5` is no size"),
        ("cutoff", "{ bytes = \"5B\", per = \"host\" }", "expected one of `flow`, `direction`"),
    ] {
        let kind = OPTIONAL.iter().find(|stage| stage.key == key).unwrap();
        let table: toml::Table = toml::from_str(&format!("it = {value}")).unwrap();
        let error = GroupStages::default().add(kind, table["it"].clone()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_cutoff_that_is_raised_releases_flows_and_a_flood_of_ends_is_cut_off() {
    let sink = Arc::new(Kept::default());
    let mut chain = chain("cutoff = { bytes = \"1B\" }", &sink);
    let one = [frame(false, false, false, Some(ACK))];
    assert_eq!(passed(&mut chain, &one), [true]);
    assert_eq!(passed(&mut chain, &one), [false]);
    reload(&mut chain, &settings("cutoff = { bytes = \"10KiB\" }"));
    assert_eq!(passed(&mut chain, &one), [true]);
    reload(&mut chain, &settings("cutoff = { bytes = \"1B\" }"));
    assert_eq!(passed(&mut chain, &one), [false]);
    let ends: Vec<bool> = (0..5)
        .flat_map(|_| passed(&mut chain, &[frame(false, false, false, Some(FIN | ACK))]))
        .collect();
    assert_eq!(ends, [true, true, true, false, false]);
}
