//! Packets made of any bytes, through scanner and gateway: every packet is accounted for, goes on once
//! and in the order of its flow, and a flow that the scanner gives a reason for goes on whole. Nothing
//! goes on while no sensor is up, and the same in the end where there is room for all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_packet::{
    Arena, Batch, Clock, DecodeOptions, Decoder, HashKey, Interface, NO_RECORD, Scanned,
};
use forebay_pipeline::stages::{
    Classify, CompiledScan, Gateway, GatewayMode, GatewayOptions, Scan, ScanMode, ScanOptions,
    ScanReports, ScannedFlowsOf, WaitForSensor,
};
use forebay_pipeline::{Chain, LedgerRow, Settings, StageError};
use forebay_scan::{Engine, LiteralSet};

/// What payloads are made of: parts of the literal, and others.
const WORDS: [&[u8]; 8] = [b"", b".", b"ev", b"il", b"evil", b"e", b"vil", b"a longer text"];

/// Times between packets, in nanoseconds.
const GAPS: [u64; 4] = [0, 1_000, 300_000_000, 5_000_000_000];

const FLAGS: [u8; 8] = [0x02, 0x12, 0x10, 0x10, 0x18, 0x11, 0x04, 0x14];

/// A packet: its time, and a frame with its number as IP identification.
fn packet(number: u16, bytes: [u8; 4], time: &mut u64) -> (u64, Vec<u8>) {
    let [flow, kind, place, rest] = bytes;
    *time += GAPS[usize::from(rest >> 6)];
    let (client, back) = (flow & 7, flow & 8 != 0);
    let word = WORDS[usize::from(kind & 7)];
    let mut ports = [[0x40, client], [0, 80]];
    let (mut from, mut to) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    if back {
        ports.reverse();
        std::mem::swap(&mut from, &mut to);
    }
    let (protocol, transport) = if flow & 0x30 == 0x30 {
        let len = (8 + word.len() as u16).to_be_bytes();
        (17, [&ports.concat()[..], &len, &[0, 0], word].concat())
    } else {
        let number = |base: u32, place: u8| (base + u32::from(place & 15)).to_be_bytes();
        let (sequence, answer) = if back { (500, 100) } else { (100, 500) };
        let flags = [0x50, FLAGS[usize::from(kind >> 3 & 7)], 0xff, 0xff, 0, 0, 0, 0];
        let numbers = [number(sequence, place), number(answer, place >> 4)].concat();
        (6, [&ports.concat()[..], &numbers, &flags, word].concat())
    };
    let len = (20 + transport.len() as u16).to_be_bytes();
    let id = number.to_be_bytes();
    let fragment = if rest & 0x3f == 0x3f { 0x20 } else { 0 };
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend([len[0], len[1], id[0], id[1], fragment, 0, 64, protocol, 0, 0]);
    frame.extend(from.iter().chain(&to).chain(&transport));
    (*time, frame)
}

fn number_of(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[18], frame[19]])
}

/// What tells flows apart, both directions together.
fn name_of(frame: &[u8]) -> (u8, u16) {
    let ports = [34, 36].map(|at| u16::from_be_bytes([frame[at], frame[at + 1]]));
    (frame[23], ports[0].max(ports[1]))
}

fn batches(packets: &[(u64, Vec<u8>)], size: usize) -> Vec<Batch> {
    let interfaces = Arc::new(vec![Interface { clock: Clock::NANOS, ..Interface::default() }]);
    let batch = |chunk: &[(u64, Vec<u8>)]| {
        let mut arena = Arena::new(chunk.len(), 256).unwrap();
        for (time, frame) in chunk {
            assert!(arena.push(frame, frame.len() as u32, *time, 0));
        }
        arena.into_batches(&interfaces).remove(0)
    };
    packets.chunks(size).map(batch).collect()
}

/// When no sensor is up.
#[derive(Default)]
struct Outages {
    flag: Arc<AtomicBool>,
    /// After so many batches the last sensor goes down, and after as many again one is up; 0 for never.
    every: usize,
    /// It is not up again at the end.
    lasts: bool,
}

impl Outages {
    /// Batch `i` is about to come.
    fn begin(&self, i: usize) {
        let is_down = i.checked_div(self.every).is_some_and(|phase| phase % 2 == 1);
        self.flag.store(is_down, Ordering::Relaxed);
    }

    fn is_down(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

fn through(
    mut chain: Chain,
    packets: &[(u64, Vec<u8>)],
    size: usize,
    outages: &Outages,
) -> (Vec<Batch>, Chain) {
    let mut out = Vec::new();
    let mut keep = |batch: Batch| -> Result<(), StageError> {
        assert!(!outages.is_down() || batch.live().count() == 0, "no sensor is up");
        out.push(batch);
        Ok(())
    };
    for (i, batch) in batches(packets, size).into_iter().enumerate() {
        outages.begin(i);
        let lost = no_sensor_drops(&chain);
        chain.push(batch, &mut keep).unwrap();
        assert!(outages.is_down() || no_sensor_drops(&chain) == lost, "a sensor is up");
        assert!(chain.rows().iter().all(LedgerRow::closes), "{:?}", chain.rows());
    }
    if !outages.lasts {
        outages.flag.store(false, Ordering::Relaxed);
    }
    let lost = no_sensor_drops(&chain);
    chain.drain(&mut keep).unwrap();
    assert!(outages.is_down() || no_sensor_drops(&chain) == lost, "a sensor is up");
    (out, chain)
}

/// Sends packets made of `data` through a gateway, and checks what comes out.
pub fn packets_of(data: &[u8]) {
    let Some((options, data)) = data.split_first_chunk::<2>() else { return };
    let mut time = 1_000_000_000;
    let packets: Vec<_> = (0..4_000)
        .zip(data.as_chunks::<4>().0)
        .map(|(number, bytes)| packet(number, *bytes, &mut time))
        .collect();
    let size = usize::from(options[0] & 31) + 1;
    let mut set = LiteralSet::new();
    set.push(b"evil", false).unwrap();
    let mut scan = ScanOptions::new(ScanMode::Stream, Engine::default());
    scan.flows = if options[0] & 0x40 == 0 { 64 } else { 4 };
    let scan = Arc::new(CompiledScan::new(set, scan, None).unwrap());
    let few = options[0] & 0x80 != 0;
    let gateway = GatewayOptions {
        mode: if options[1] & 1 == 0 { GatewayMode::Hold } else { GatewayMode::Prefix },
        memory: if few { 4 << 10 } else { 4 << 20 },
        flow_memory: if options[1] & 2 == 0 { 4 << 20 } else { 1 << 10 },
        wait: if options[1] & 4 == 0 { u64::MAX } else { 4_000_000_000 },
        prefix: 8,
        clears_at_end: options[1] & 8 != 0,
    };
    let scanner = || {
        let stage = Scan::optional(Some(Arc::clone(&scan)), HashKey::OFFLINE);
        Chain::new().with(stage.reporting(ScanReports(true)))
    };
    let classify = || Classify::new(Decoder::new(DecodeOptions::default()), HashKey::OFFLINE);
    let flows = ScannedFlowsOf { flows: 64, idle: scan.options().idle };
    let chain = |outages: &Outages| {
        let wait = WaitForSensor(Some(Arc::clone(&outages.flag)));
        let settings = Settings::new().with(flows).with(wait);
        scanner().with(classify()).with(Gateway::new(gateway)).configured(&settings)
    };
    let outages = Outages {
        every: usize::from(options[1] >> 4),
        lasts: options[0] & 0x20 != 0,
        ..Outages::default()
    };
    let (out, chain_behind) = through(chain(&outages), &packets, size, &outages);
    for row in chain_behind.rows() {
        assert!(row.closes() && row.held == 0, "{row:?}");
    }
    let passed = packets_of_all(&out);
    let lost = no_sensor_drops(&chain_behind);
    if !few && gateway.flow_memory > 1 << 10 && gateway.wait == u64::MAX && !outages.is_down() {
        assert_eq!(lost, 0, "there was room");
        let (out, _) = through(chain(&Outages::default()), &packets, size, &Outages::default());
        let numbers = |passed: &[&[u8]]| {
            let mut numbers: Vec<u16> = passed.iter().map(|frame| number_of(frame)).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(numbers(&passed), numbers(&packets_of_all(&out)), "as without outages");
    }
    let (out, _) = through(scanner(), &packets, size, &Outages::default());
    let reports: Vec<(u16, Scanned)> = out
        .iter()
        .flat_map(|batch| {
            batch.live().iter().map(|i| (number_of(batch.packet(i)), batch.scanned[i]))
        })
        .collect();
    let seen = in_order_and_once(&passed, &packets, &reports, scan.options().flows == 64);
    if lost == 0 {
        whole_flows(&seen, &packets, &reports, &gateway);
    }
}

/// The live packets of batches.
fn packets_of_all(out: &[Batch]) -> Vec<&[u8]> {
    out.iter().flat_map(|batch| batch.live().iter().map(|i| batch.packet(i))).collect()
}

/// Packets that were dropped for want of a sensor.
fn no_sensor_drops(chain: &Chain) -> u64 {
    let rows = chain.rows();
    let drops = rows.iter().flat_map(|row| &row.drops);
    drops.filter(|drop| drop.name == "no_sensor").map(|drop| drop.packets).sum()
}

/// The numbers of packets that went on; those of a flow are in order if `in_order`.
fn in_order_and_once(
    passed: &[&[u8]],
    packets: &[(u64, Vec<u8>)],
    reports: &[(u16, Scanned)],
    in_order: bool,
) -> HashSet<u16> {
    let mut last: HashMap<_, u16> = HashMap::new();
    let mut seen = HashSet::new();
    for frame in passed {
        let number = number_of(frame);
        assert_eq!(*frame, packets[usize::from(number)].1, "changed");
        assert!(seen.insert(number), "twice");
        // Fragments have no ports: they are of flows of their own.
        if frame[20] == 0
            && let Some(before) = last.insert(name_of(frame), number)
            && in_order
        {
            let of_flow = reports
                .iter()
                .filter(|(number, _)| name_of(&packets[usize::from(*number)].1) == name_of(frame));
            let times = of_flow.map(|one| (packets[usize::from(one.0)].0, one));
            assert!(before < number, "{number} behind {before}: {:#?}", times.collect::<Vec<_>>());
        }
    }
    seen
}

/// Flows that the scanner gives a reason for are among those that went on.
fn whole_flows(
    seen: &HashSet<u16>,
    packets: &[(u64, Vec<u8>)],
    reports: &[(u16, Scanned)],
    gateway: &GatewayOptions,
) {
    let mut suspect = HashSet::new();
    let mut ended = HashSet::new();
    for (_, report) in reports {
        let flow = (report.flow, report.generation);
        if report.reason != 0 && !report.is_alone {
            suspect.insert(flow);
        }
        if report.ends_clean {
            ended.insert(flow);
        }
    }
    for (number, report) in reports {
        let flow = (report.flow, report.generation);
        let must_pass = match report.flow {
            NO_RECORD => report.reason != 0,
            // Connections before the last one of a flow may have ended, and been withheld.
            _ => suspect.contains(&flow) && !ended.contains(&flow),
        };
        if must_pass && !seen.contains(number) {
            let of_flow = reports.iter().filter(|(_, one)| (one.flow, one.generation) == flow);
            let times = of_flow.map(|one| (packets[usize::from(one.0)].0, one));
            panic!("{number} is withheld, {gateway:?}: {:#?}", times.collect::<Vec<_>>());
        }
    }
}
