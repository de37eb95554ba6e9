//! Three brokers, by three types of ports, at once: below and above what the machine can do,
//! with reloads, sensors that come and go, busy processors and memory under pressure. Each
//! frame is accounted for at each device on its way, and memory does not grow.
//!
//! Some seconds of it are a test. `scripts/soak.sh` runs it for longer, by these variables:
//!
//! | variable | meaning |
//! |---|---|
//! | `FOREBAY_SOAK_SECONDS` | how long, 20 if it is not there |
//! | `FOREBAY_SOAK_DISK` | a folder on a small disk, for a recorder |
//! | `FOREBAY_SOAK_RECORD` | where the record goes, as JSON |

mod support {
    pub mod broker;
    pub mod command;
    pub mod namespace;
    pub mod skb_drops;
    pub mod soak_chain;
}

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use support::broker::{number, row};
use support::namespace::in_namespace;
use support::skb_drops::SkbDrops;
use support::soak_chain::{Chain, Counts};

const KINDS: [&str; 3] = ["af_packet", "af_xdp", "xdp"];

/// Seconds that are sent in a cycle, and the loads of cycles: packets a second of each
/// generator and bytes of a packet. The higher ones are more than two processors can do.
const SENDING: u64 = 6;
const LOADS: [(u64, u64); 4] = [(2_000, 60), (300_000, 60), (20_000, 600), (150_000, 1_400)];

/// Cycles from which on memory is compared: the first fill buffers.
const WARM: usize = 8;

/// Bytes that are filled and given back while packets are sent.
const PRESSURE: usize = 96 << 20;

/// Ends what runs beside the test, however that ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Run {
    cycles: usize,
    reloads: usize,
    totals: [Vec<Value>; 3],
    resident: [Vec<u64>; 3],
    unexplained: Vec<Value>,
}

impl Run {
    /// One load, from the first packet to the last, and its account.
    fn cycle(&mut self, chains: &mut [Chain], before: &mut [Counts], drops: Option<&SkbDrops>) {
        let (rate, size) = LOADS[self.cycles % LOADS.len()];
        chains.iter_mut().for_each(|chain| chain.begin(rate, SENDING, size));
        let until = Instant::now() + Duration::from_secs(SENDING);
        while Instant::now() < until {
            for chain in chains.iter() {
                chain.configure(self.reloads);
                // One that comes while the last is under way is refused, or waits.
                chain.ask(&["reload"]);
                let action = if self.reloads.is_multiple_of(2) { "drain" } else { "auto" };
                chain.ask(&["sensor", "s0", action]);
            }
            self.reloads += 1;
            std::thread::sleep(Duration::from_millis(300));
        }
        chains.iter_mut().for_each(Chain::end);
        for (place, (chain, before)) in chains.iter().zip(before).enumerate() {
            let counts = chain.counts_since(before);
            let unexplained = counts.unexplained();
            println!("cycle {} {}: {counts}", self.cycles, chain.kind);
            if !unexplained.is_empty() {
                let dropped = drops.map(SkbDrops::take).unwrap_or_default();
                let what = json!({
                    "cycle": self.cycles, "ports": chain.kind, "hops": unexplained,
                    "devices": chain.device_drops(), "kernel": dropped,
                });
                println!("UNEXPLAINED {what}");
                self.unexplained.push(what);
            }
            self.totals[place].push(counts.as_json());
            self.resident[place].push(chain.resident_kib());
        }
        drops.map(SkbDrops::take);
        self.cycles += 1;
    }

    /// Chains whose memory grew: the most of the second half against that of the first, once
    /// warm.
    fn growth(&self) -> Vec<String> {
        let mut grown = Vec::new();
        for (kind, resident) in KINDS.iter().zip(&self.resident) {
            let warm = resident.get(WARM..).unwrap_or_default();
            let (first, second) = warm.split_at(warm.len() / 2);
            let most = |part: &[u64]| part.iter().max().copied().unwrap_or(0);
            if most(second) > most(first) + most(first) / 10 + 4_096 {
                grown.push(format!("{kind}: {} KiB, then {} KiB", most(first), most(second)));
            }
        }
        grown
    }

    fn sum(&self, place: usize, key: &str) -> u64 {
        self.totals[place].iter().map(|one| number(one, key)).sum()
    }
}

/// Keeps a processor busy, and takes memory and gives it back.
fn press(stop: &AtomicBool, memory: bool) {
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        if memory {
            let filled = vec![1_u8; PRESSURE];
            sum = sum.wrapping_add(filled.iter().step_by(4_096).map(|&byte| u64::from(byte)).sum());
        }
        (0..100_000).for_each(|i: u64| sum = std::hint::black_box(sum.wrapping_mul(31) ^ i));
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn every_frame_is_accounted_for_at_every_device_under_overload() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let seconds = variable("FOREBAY_SOAK_SECONDS").map_or(20, |text| text.parse().unwrap());
    let disk = variable("FOREBAY_SOAK_DISK").map(PathBuf::from);
    let record = variable("FOREBAY_SOAK_RECORD").map(PathBuf::from);
    in_namespace(move || {
        let started = Instant::now();
        let recording = |kind: &str| {
            let disk = disk.as_ref().filter(|_| kind == "af_packet");
            disk.map(|folder| folder.join("all.pcapng"))
        };
        let each = KINDS.iter().enumerate();
        let mut chains: Vec<Chain> =
            each.map(|(number, kind)| Chain::start(kind, number, recording(kind))).collect();
        let mut before: Vec<Counts> = chains.iter().map(Chain::counts).collect();
        let drops = SkbDrops::begin();
        let mut run = Run::default();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            for memory in [false, true] {
                let stop = &stop;
                scope.spawn(move || press(stop, memory));
            }
            while started.elapsed() < Duration::from_secs(seconds) {
                run.cycle(&mut chains, &mut before, drops.as_ref());
            }
        });
        let ends: Vec<(Value, Option<u64>)> = chains.into_iter().map(Chain::finish).collect();
        let growth = run.growth();
        if let Some(path) = record {
            let text = serde_json::to_string_pretty(&written(&run, started, &growth, &ends));
            std::fs::write(path, text.unwrap() + "\n").unwrap();
        }
        for (said, recorded) in &ends {
            assert_eq!(said["closes"], true, "{said}");
            if let Some(packets) = recorded {
                assert_eq!(number(row(said, "tx disk"), "out"), *packets, "{said}");
            }
        }
        assert!(run.unexplained.is_empty(), "{:#?}", run.unexplained);
        assert!(growth.is_empty(), "{growth:?}");
        let made: Vec<u64> = (0..KINDS.len()).map(|place| run.sum(place, "sent")).collect();
        assert!(made.iter().all(|&packets| packets > 1_000), "{made:?}");
    });
}

/// The record of a run.
fn written(run: &Run, started: Instant, growth: &[String], ends: &[(Value, Option<u64>)]) -> Value {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let ended = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let chains = KINDS.iter().enumerate().map(|(place, kind)| {
        let sums = ["sent", "taken", "lost_by_name", "undelivered", "out", "heard"];
        let sums = sums.map(|key| (key.to_owned(), Value::from(run.sum(place, key))));
        json!({
            "ports": kind,
            "packets": Value::Object(sums.into_iter().collect()),
            "resident_kib": run.resident[place],
            "ledger": ends[place].0["ledger"],
            "errors": ends[place].0["errors"],
            "recorded": ends[place].1,
        })
    });
    json!({
        "what": "soak: every frame at every device",
        "ended_unix_s": ended,
        "seconds": started.elapsed().as_secs(),
        "kernel": kernel.trim(),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_limit": variable("FOREBAY_SOAK_MEMORY"),
        "cycles": run.cycles,
        "reloads_of_each": run.reloads,
        "chains": chains.collect::<Vec<_>>(),
        "unexplained": run.unexplained,
        "growth": growth,
    })
}
