//! The table of flows beside DPDK's hash table and hashbrown: look-ups of flows that are there,
//! and mixed traffic, in which flows begin and end. The rows of [`shed`] come last.

mod adversary;
mod ageing;
mod engines;
mod report;
mod traffic;

use std::fs;
use std::hint::black_box;

use forebay_flow::Level;
use forebay_packet::random::Random;
use serde_json::json;

use crate::bar::{self, Bar};
use crate::failure::{Failure, Result, ensure};
use crate::options::Options;
use crate::peers::dpdk;
use crate::peers::stopwatch::Stopwatch;
use crate::record::{Record, Row};
use crate::rounds::{Contender, Role, Run, Timing, Trial};
use crate::stats::Sample;
use crate::suites::shed;
use ageing::Pace;
use engines::{ABSENT, BULK, BULK_WIDE, Engine, Engines, batches};
use report::{lookup, mixed};
use traffic::{Input, LIFETIME, Stream, state};

/// Flows of a table.
const SIZES: [u32; 4] = [20_000, 1_000_000, 8_000_000, 32_000_000];
const QUICK_SIZES: [u32; 2] = [20_000, 1_000_000];

/// The largest size is left out where less memory than this is free, in bytes.
const FREE_MEMORY: u64 = 12 << 30;

const ROUNDS: usize = 31;
const QUICK_ROUNDS: usize = 7;

/// Flows that are timed in a turn, and before that as many to warm up with.
const TURN: usize = 1 << 20;
const QUICK_TURN: usize = 1 << 17;

/// Flows whose keys are read before they are timed together.
const SEGMENT: usize = 4_096;

/// Flows that are not in a table, of which none may be found.
const ABSENT_FLOWS: u32 = 1_000;

const SEED: u64 = 20_261_123;

/// Packets that are timed one by one.
const SINGLE: usize = 1 << 20;

/// Rounds of mixed traffic, each with a packet of every flow under way, before anything is
/// timed: as many as until flows end as fast as they begin.
const ROUNDS_TO_FILL: usize = 6;

/// Epochs while every flow under way has a packet or a little less, so that [`LIFETIME`] is
/// longer than two rounds.
const EPOCHS_A_ROUND: usize = 16;

const _: () = assert!(LIFETIME as usize > 2 * EPOCHS_A_ROUND * 10 / 9 + 2);

pub fn run(options: &Options) -> Result<Record> {
    let mut run = Run::new(options);
    let sizes: &[u32] = if options.quick { &QUICK_SIZES } else { &SIZES };
    for &flows in sizes {
        if flows == SIZES[3] && free_memory() < FREE_MEMORY {
            run.notes.push(format!("{flows} flows: too little memory is free"));
            continue;
        }
        if options.names(&lookup(flows)) {
            lookups(&mut run, flows)?;
        }
        if flows != SIZES[3] && options.names(&mixed(flows)) {
            mixed_traffic(&mut run, flows)?;
        }
    }
    if options.names(adversary::CASE) {
        let rows = adversary::measure(&mut run.timing, rounds(options))?;
        run.results.0.extend(rows);
    }
    shed::add(&mut run)?;
    let (turn, rounds) = (turn(options), rounds(options));
    run.note_conditions(format!(
        "{rounds} rounds of {turn} flows for each engine, after as many others; the same for all, \
         drawn anew for each round, and engines take turns in a new order; seed {SEED}"
    ));
    if let Ok(environment) = dpdk::environment() {
        let pages = if environment.huge_pages { "huge" } else { "ordinary" };
        run.notes.push(format!("DPDK's heap lies in {pages} pages"));
    }
    let Run { timing, mut results, notes, .. } = run;
    results.add_ratios("ratio", |_, row| {
        let has_whole_keys = row.engine.contains("wide") && row.case.starts_with("lookup");
        Some(if has_whole_keys { BULK_WIDE } else { BULK }.to_owned())
    });
    let bars: Vec<Bar> = report::bars(&results).into_iter().chain(shed::bars(&results)).collect();
    let shown = report::tables(&results) + &shed::tables(&results) + &bar::text(&bars);
    let gigahertz = Some(timing.clock.gigahertz());
    let record = Record::new("flows", notes, results.0, gigahertz);
    Ok(Record { shown, summary: json!({ "bars": bars }), ..record })
}

fn turn(options: &Options) -> usize {
    if options.quick { QUICK_TURN } else { TURN }
}

fn rounds(options: &Options) -> usize {
    options.rounds.unwrap_or(if options.quick { QUICK_ROUNDS } else { ROUNDS })
}

/// A number of kibibytes in a file of the kernel, in bytes.
fn kibibytes(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn free_memory() -> u64 {
    kibibytes("/proc/meminfo", "MemAvailable")
}

/// Memory of this process in huge pages.
fn huge_pages() -> u64 {
    kibibytes("/proc/self/smaps_rollup", "AnonHugePages")
}

fn keep_wanted(run: &Run<'_>, engines: &mut Engines) {
    let wanted = &run.options.engines;
    engines.retain(|one| wanted.is_empty() || wanted.contains(&one.name));
}

/// Look-ups of flows that are in the table.
fn lookups(run: &mut Run<'_>, flows: u32) -> Result<()> {
    eprintln!("{}", lookup(flows));
    let before = huge_pages();
    let mut all = engines::exact(flows);
    let huge = huge_pages().saturating_sub(before) >> 20;
    let one = all.iter().find_map(|one| Some(one.engine.as_ref()?.bytes()));
    let (tables, mebibytes) = (Level::all().len(), one.unwrap_or(0) >> 20);
    run.notes.push(format!(
        "{}: {tables} tables of ours with {mebibytes} MiB each, of which {huge} MiB together lie \
         in huge pages",
        lookup(flows)
    ));
    all.extend(engines::rte_hash(flows));
    all.extend(engines::hashbrown(flows));
    if flows != SIZES[3] {
        all.extend(engines::exact_wide(flows));
        all.extend(engines::rte_hash_wide(flows));
    }
    keep_wanted(run, &mut all);
    check_absent(flows, &mut all)?;
    let (turn, rounds) = (turn(run.options), rounds(run.options));
    for input in Input::ALL {
        let trials = run.timing.steady(|timing| {
            let mut trial = Trial::new(&lookup(flows), input, &all, |_| true);
            for _ in 0..rounds {
                let mut random = Random::of_part(SEED, timing.next_round());
                let drawn = input.draw(&mut random, flows, 2 * turn);
                let expected: Vec<u32> = drawn.iter().map(|&flow| state(flow).into()).collect();
                round(timing, &mut trial, &mut all, &drawn, &expected, turn)?;
            }
            Ok(vec![trial])
        })?;
        add(run, trials, &all, flows, &[]);
    }
    Ok(())
}

/// Checks that no engine finds flows that it does not have.
fn check_absent(flows: u32, all: &mut Engines) -> Result<()> {
    let absent: Vec<u32> = (flows..flows + ABSENT_FLOWS).collect();
    for contender in all {
        let Some(engine) = &mut contender.engine else { continue };
        let mut found = vec![0; absent.len()];
        engine.load(&absent);
        engine.run(0..absent.len(), &mut found);
        engine.answers(&mut found);
        if found.iter().any(|&one| one != ABSENT) {
            contender.is_wrong("finds flows that it does not have")?;
            contender.engine = None;
        }
    }
    Ok(())
}

/// Every engine runs over the drawn flows, the first `warm` of them untimed.
fn round(
    timing: &mut Timing,
    trial: &mut Trial,
    all: &mut Engines,
    drawn: &[u32],
    expected: &[u32],
    warm: usize,
) -> Result<()> {
    for engine in all.iter_mut().filter_map(|one| one.engine.as_mut()) {
        engine.load(drawn);
    }
    let (number, stopwatch) = (timing.next_round(), timing.stopwatch);
    let mut found = vec![0; drawn.len()];
    trial.round(number, all, (drawn.len(), false), |engine, _: Role, range| {
        let (first, timed) = found.split_at_mut(warm);
        engine.run(range.start..warm, first);
        let mut ticks = 0;
        for (range, found) in batches(warm..range.end, timed, SEGMENT) {
            engine.touch(range.clone());
            ticks += stopwatch.ticks(|| engine.run(range, found));
        }
        let nanos = stopwatch.nanos(ticks) / timed.len() as f64;
        engine.answers(&mut found);
        compare(&found, expected).map(|()| nanos)
    })
}

fn compare(found: &[u32], expected: &[u32]) -> Result<()> {
    let mut pairs = found.iter().zip(expected).enumerate();
    if let Some((at, (found, right))) = pairs.find(|(_, (found, right))| found != right) {
        let missing = found == &ABSENT;
        let found = if missing { "nothing".to_owned() } else { found.to_string() };
        return Err(Failure(format!("flow {at} of a round: {found} instead of {right}")));
    }
    Ok(())
}

/// Adds the rows of trials, with the bytes that each engine takes for a flow, and more values
/// for some.
fn add(
    run: &mut Run<'_>,
    trials: Vec<Trial>,
    all: &Engines,
    flows: u32,
    more: &[(String, Quantiles)],
) {
    let bytes = |name: &str| {
        let one = all.iter().find(|one| one.name == name)?;
        Some(one.engine.as_ref()?.bytes() as f64 / f64::from(flows))
    };
    for trial in trials {
        run.add(trial, all, |row| {
            let bytes = bytes(&row.engine);
            let quantiles = more.iter().find(|(name, _)| *name == row.engine);
            let row = row.with("bytes_per_flow", bytes);
            quantiles.map_or(row.clone(), |(_, quantiles)| quantiles.add_to(row))
        });
    }
    let noted = |one: &Contender<dyn Engine>| one.notes.clone();
    let notes = all.iter().flat_map(noted).map(|note| format!("{note} ({flows} flows)"));
    run.notes.extend(notes.collect::<Vec<_>>());
}

/// Times of single operations, in nanoseconds.
struct Quantiles {
    median: f64,
    p9999: f64,
    worst: f64,
}

impl Quantiles {
    /// Of so many operations, each timed by itself.
    fn of(stopwatch: &Stopwatch, count: usize, mut operation: impl FnMut(usize)) -> Self {
        let times = (0..count).map(|at| stopwatch.nanos(stopwatch.ticks(|| operation(at))));
        let times = Sample::new(times.collect());
        Self { median: times.median(), p9999: times.quantile(0.9999), worst: times.quantile(1.0) }
    }

    fn add_to(&self, row: Row) -> Row {
        let Self { median, p9999, worst } = self;
        let row = row.with("single_p50_ns", median).with("single_p9999_us", p9999 / 1e3);
        row.with("worst_us", worst / 1e3)
    }
}

/// Traffic in which one packet in ten begins a flow, and as many flows end.
fn mixed_traffic(run: &mut Run<'_>, flows: u32) -> Result<()> {
    eprintln!("{}", mixed(flows));
    // The others are flows that are over and not noticed yet.
    let live = flows as usize * 3 / 4;
    let mut all = ageing::engines(flows as usize, Pace::new(live / EPOCHS_A_ROUND));
    keep_wanted(run, &mut all);
    let mut stream = Stream::new(live);
    let mut left = ROUNDS_TO_FILL * live;
    while left > 0 {
        let (drawn, expected) = stream.draw(left.min(TURN));
        left -= drawn.len();
        let mut found = vec![0; drawn.len()];
        for contender in &mut all {
            let Some(engine) = &mut contender.engine else { continue };
            engine.load(&drawn);
            engine.run(0..drawn.len(), &mut found);
            if let Err(Failure(why)) = compare(&found, &expected) {
                contender.is_wrong(&format!("{}: {why}", mixed(flows)))?;
                contender.engine = None;
            }
        }
    }
    let (turn, rounds) = (turn(run.options), rounds(run.options));
    let trials = run.timing.steady(|timing| {
        let mut trial = Trial::new(&mixed(flows), Input::Uniform, &all, |_| true);
        for _ in 0..rounds {
            let (drawn, expected) = stream.draw(turn + turn / 4);
            round(timing, &mut trial, &mut all, &drawn, &expected, turn / 4)?;
        }
        Ok(vec![trial])
    })?;
    let singles = singles(&run.timing, &mut stream, &mut all)?;
    add(run, trials, &all, flows, &singles);
    let (case, stopwatch) = (mixed(flows), run.timing.stopwatch);
    let empty = Quantiles::of(&stopwatch, SINGLE, |at| {
        black_box(at);
    });
    let row = Row::new(case, Input::Uniform, "empty-loop", Vec::new());
    run.results.0.push(empty.add_to(row));
    Ok(())
}

/// The times of single packets, of the engines that take one at a time.
fn singles(
    timing: &Timing,
    stream: &mut Stream,
    all: &mut Engines,
) -> Result<Vec<(String, Quantiles)>> {
    let (drawn, expected) = stream.draw(SINGLE);
    let mut singles = Vec::new();
    for contender in all {
        let is_single = !contender.name.contains("batch") && contender.name != BULK;
        let Some(engine) = contender.engine.as_mut().filter(|_| is_single) else { continue };
        engine.load(&drawn);
        let mut found = vec![0; drawn.len()];
        let quantiles = Quantiles::of(&timing.stopwatch, drawn.len(), |at| {
            engine.run(at..at + 1, &mut found[at..=at]);
        });
        ensure!(found == expected, "{}: single packets of mixed traffic", contender.name);
        singles.push((contender.name.clone(), quantiles));
    }
    Ok(singles)
}
