//! `forebay filter` beside tcpdump on a generated capture, and `forebay split`.
//!
//! Both commands do the whole job: start, compile, read, filter, write or count, end.
//! Files lie in memory, so that no disk is measured. Answers: counts are equal, and
//! written captures are equal byte for byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_gen::{Config, Generator};
use forebay_io::{Format, OutputName, WriteOptions, Writer};
use serde_json::{Map, json};

use crate::clock::Clock;
use crate::peers::process::{CommandLine, find};
use crate::record::{Record, Row};
use crate::stats::Sample;
use crate::{BenchError, Options, io_error};

/// Filters: name, expression.
const FILTERS: [(&str, &str); 3] = [
    ("broad", "ip or ip6 or vlan"),
    ("middle", "tcp port 443"),
    ("selective", "udp port 53 and net 10.0.0.0/8"),
];

const SEED: u64 = 20_261_121;

/// Windows of the clock after each pair of runs.
const CLOCK_WINDOWS: usize = 3;

struct Capture {
    path: PathBuf,
    packets: u64,
    bytes: u64,
}

struct Bench<'a> {
    forebay: PathBuf,
    tcpdump: Option<PathBuf>,
    folder: &'a Path,
    capture: Capture,
    pairs: usize,
    clock: Clock,
    rows: Vec<Row>,
}

/// Runs the suite.
pub fn run(options: &Options) -> Result<Record, BenchError> {
    let folder = tempfile::Builder::new()
        .prefix("forebay-bench-")
        .tempdir_in(&options.folder)
        .map_err(io_error(format!("making a folder in {}", options.folder.display())))?;
    let (packets, pairs) = if options.quick { (300_000, 7) } else { (900_000, 21) };
    eprintln!("generating {packets} packets");
    let capture = generate(folder.path(), packets)?;
    let mut bench = Bench {
        forebay: forebay_command(options)?,
        tcpdump: find("tcpdump"),
        folder: folder.path(),
        capture,
        pairs,
        clock: Clock::default(),
        rows: Vec::new(),
    };
    let mut notes = vec![format!(
        "capture: {} packets, {:.0} MB, generated with seed {SEED}; {pairs} alternated pairs; \
         ratios are medians over pairs of tcpdump's time to forebay's",
        bench.capture.packets,
        bench.capture.bytes as f64 / 1e6,
    )];
    if bench.tcpdump.is_none() {
        notes.push("tcpdump is not installed: its rows are empty".to_owned());
    }
    for (name, expression) in FILTERS {
        bench.compare(name, expression, true)?;
        bench.compare(name, expression, false)?;
    }
    bench.split()?;
    let gigahertz = bench.clock.gigahertz();
    for row in &mut bench.rows {
        row.cycles = row.ns.map(|ns| ns * gigahertz);
    }
    notes.push(format!("clock: {gigahertz:.2} GHz"));
    Ok(Record::new("split", notes, bench.rows))
}

fn forebay_command(options: &Options) -> Result<PathBuf, BenchError> {
    let beside = || -> Result<PathBuf, BenchError> {
        let here = std::env::current_exe().map_err(io_error("finding this program"))?;
        Ok(here.with_file_name("forebay"))
    };
    let path = options.forebay.clone().map_or_else(beside, Ok)?;
    if path.is_file() {
        return Ok(path);
    }
    Err(BenchError::Command {
        command: path.display().to_string(),
        message: "there is no such program; build it, or name it with --forebay".to_owned(),
    })
}

fn generate(folder: &Path, packets: u64) -> Result<Capture, BenchError> {
    let path = folder.join("traffic.pcap");
    let config = Config { packets, flows: packets / 18, seed: SEED, ..Config::default() };
    let mut generator = Generator::new(config)?;
    let name = OutputName::Exact(path.clone());
    let options = WriteOptions::default();
    let mut writer = Writer::create(name, Format::Pcap, generator.interfaces(), &options)?;
    while let Some(batch) = generator.next_batch().map_err(io_error("generating"))? {
        writer.write(&batch, &batch.live())?;
    }
    let summary = writer.finish()?;
    Ok(Capture { path, packets, bytes: summary.file_len })
}

impl Bench<'_> {
    /// One filter, written out or counted, by both.
    fn compare(&mut self, case: &str, expression: &str, write: bool) -> Result<(), BenchError> {
        let set = if write { "read-write" } else { "count" };
        eprintln!("{case}, {set}");
        let read = self.capture.path.display().to_string();
        let ours_out = self.folder.join("ours.pcap");
        let theirs_out = self.folder.join("theirs.pcap");
        let (ours_name, theirs_name) =
            (ours_out.display().to_string(), theirs_out.display().to_string());
        let ours = if write {
            CommandLine::new(&self.forebay, &["filter", "-r", &read, "-w", &ours_name, expression])
        } else {
            CommandLine::new(&self.forebay, &["filter", "-r", &read, "--count", expression])
        };
        let theirs = self.tcpdump.as_ref().map(|tcpdump| {
            // The capture counts nanoseconds, and only told to does tcpdump keep them;
            // as root it would give its files to another user.
            let nanos = "--time-stamp-precision=nano";
            if write {
                let arguments = [nanos, "-Z", "root", "-r", &read, "-w", &theirs_name, expression];
                CommandLine::new(tcpdump, &arguments)
            } else {
                CommandLine::new(tcpdump, &[nanos, "-r", &read, "--count", expression])
            }
        });
        let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
        for round in 0..=self.pairs {
            let (our_time, our_answer) = timed(&ours, &ours_out)?;
            let their_run = theirs.as_ref().map(|theirs| timed(theirs, &theirs_out)).transpose()?;
            if let Some((_, their_answer)) = &their_run {
                let equal = match write {
                    true => same_file(&ours_out, &theirs_out)?,
                    false => our_answer == *their_answer,
                };
                if !equal {
                    return Err(BenchError::WrongAnswer(format!("{case}, {set}: `{expression}`")));
                }
            }
            // The first round warms caches up.
            if round > 0 {
                our_times.push(our_time);
                their_times.extend(their_run.map(|(time, _)| time));
            }
            self.clock.sample(CLOCK_WINDOWS);
        }
        let ratio = ratio(&our_times, &their_times);
        if let Some(theirs) = &theirs {
            self.add_row(case, set, "tcpdump", &their_times, theirs.peak_memory()?, None);
        } else {
            self.add_row(case, set, "tcpdump", &[], 0, None);
        }
        self.add_row(case, set, "forebay", &our_times, ours.peak_memory()?, ratio);
        Ok(())
    }

    /// `forebay split` over four sensors.
    fn split(&mut self) -> Result<(), BenchError> {
        eprintln!("split");
        let out = self.folder.join("sensors");
        let (read, out_name) = (self.capture.path.display().to_string(), out.display().to_string());
        let arguments = ["split", "--json", "--force", "-r", &read, "-n", "4", "-o", &out_name];
        let command = CommandLine::new(&self.forebay, &arguments);
        let mut times = Vec::new();
        for round in 0..=self.pairs {
            let (time, answer) = command.time()?;
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
            if answer["totals"]["packets_out"] != json!(self.capture.packets) {
                return Err(BenchError::WrongAnswer("split: packets are missing".to_owned()));
            }
            if round > 0 {
                times.push(time);
            }
            self.clock.sample(CLOCK_WINDOWS);
        }
        self.add_row("split-4", "read-write", "forebay", &times, command.peak_memory()?, None);
        Ok(())
    }

    fn add_row(
        &mut self,
        case: &str,
        set: &str,
        engine: &str,
        times: &[Duration],
        peak: u64,
        ratio: Option<Sample>,
    ) {
        let packets = self.capture.packets as f64;
        let nanos =
            Sample::new(times.iter().map(|time| time.as_nanos() as f64 / packets).collect());
        let measured = !times.is_empty();
        let mut more = Map::new();
        if measured {
            let seconds = nanos.median() * packets / 1e9;
            more.insert("gbytes_per_s".into(), json!(self.capture.bytes as f64 / 1e9 / seconds));
            more.insert("max_rss_mib".into(), json!(peak as f64 / f64::from(1 << 20)));
        }
        if let Some(ratio) = ratio {
            more.insert("ratio".into(), json!(ratio.median()));
            more.insert("ratio_spread".into(), json!(ratio.spread()));
        }
        self.rows.push(Row {
            case: case.to_owned(),
            set: set.to_owned(),
            engine: engine.to_owned(),
            ns: measured.then(|| nanos.median()),
            cycles: None,
            n: times.len(),
            spread: measured.then(|| nanos.spread()),
            more,
        });
    }
}

/// Runs a command whose output file, if any, does not exist yet.
fn timed(command: &CommandLine, out: &Path) -> Result<(Duration, String), BenchError> {
    match fs::remove_file(out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io_error(format!("removing {}", out.display()))(error))
        }
        _ => command.time(),
    }
}

fn ratio(ours: &[Duration], theirs: &[Duration]) -> Option<Sample> {
    let pairs = ours.iter().zip(theirs);
    (!theirs.is_empty())
        .then(|| Sample::new(pairs.map(|(a, b)| b.as_secs_f64() / a.as_secs_f64()).collect()))
}

fn same_file(a: &Path, b: &Path) -> Result<bool, BenchError> {
    let read =
        |path: &Path| fs::read(path).map_err(io_error(format!("reading {}", path.display())));
    Ok(read(a)? == read(b)?)
}
