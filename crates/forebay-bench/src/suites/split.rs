//! `forebay filter` beside tcpdump on a generated capture, and `forebay split`.
//!
//! Both commands do the whole job: start, compile, read, filter, write or count, end.
//! Files lie in memory, so that no disk is measured. Answers: counts are equal, and
//! written captures are equal byte for byte.

use std::path::{Path, PathBuf};
use std::{fs, mem};

use forebay_gen::{Config, Generator};
use forebay_io::{Format, OutputName, WriteOptions, Writer};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::failure::{During, Result, ensure};
use crate::options::Options;
use crate::peers::process::{CommandLine, find};
use crate::record::{Record, Results, Row};
use crate::table::{number, range, table};

/// Filters: name, expression.
const FILTERS: [(&str, &str); 3] = [
    ("broad", "ip or ip6 or vlan"),
    ("middle", "tcp port 443"),
    ("selective", "udp port 53 and net 10.0.0.0/8"),
];

const SEED: u64 = 20_261_121;

/// Windows of the clock after each pair of runs.
const CLOCK_WINDOWS: usize = 3;

struct Suite {
    forebay: PathBuf,
    tcpdump: Option<PathBuf>,
    folder: PathBuf,
    /// The capture, its packets and its bytes.
    capture: String,
    packets: u64,
    bytes: u64,
    pairs: usize,
    clock: Clock,
    results: Results,
}

pub fn run(options: &Options) -> Result<Record> {
    let folder = tempfile::Builder::new()
        .prefix("forebay-bench-")
        .tempdir_in(&options.folder)
        .during(format_args!("making a folder in {}", options.folder.display()))?;
    let (packets, pairs) = if options.quick { (300_000, 7) } else { (900_000, 21) };
    eprintln!("generating {packets} packets");
    let capture = folder.path().join("traffic.pcap");
    let mut suite = Suite {
        forebay: options.forebay()?,
        tcpdump: find("tcpdump"),
        folder: folder.path().to_owned(),
        bytes: generate(&capture, packets)?,
        capture: capture.display().to_string(),
        packets,
        pairs,
        clock: Clock::default(),
        results: Results::default(),
    };
    let mut notes = vec![format!(
        "capture: {packets} packets, {:.0} MB, generated with seed {SEED}; {pairs} alternated pairs; \
         ratios are medians over pairs of tcpdump's time to forebay's",
        suite.bytes as f64 / 1e6,
    )];
    if suite.tcpdump.is_none() {
        notes.push("tcpdump is not installed: its rows are empty".to_owned());
    }
    for (name, expression) in FILTERS {
        suite.compare(name, expression, true)?;
        suite.compare(name, expression, false)?;
    }
    suite.split()?;
    suite
        .results
        .add_ratios("ratio", |_, row| (row.engine == "forebay").then(|| "tcpdump".to_owned()));
    let gigahertz = suite.clock.gigahertz();
    notes.push(format!("clock: {gigahertz:.2} GHz"));
    let record = Record::new("split", notes, suite.results.0, Some(gigahertz));
    Ok(Record { shown: shown(&record.rows), ..record })
}

/// Generates a capture. Returns its bytes.
fn generate(path: &Path, packets: u64) -> Result<u64> {
    let config = Config { packets, flows: packets / 18, seed: SEED, ..Config::default() };
    let mut generator = Generator::new(config)?;
    let name = OutputName::Exact(path.to_owned());
    let options = WriteOptions::default();
    let mut writer = Writer::create(name, Format::Pcap, generator.interfaces(), &options)?;
    while let Some(batch) = generator.next_batch().during("generating")? {
        writer.write(&batch, &batch.live())?;
    }
    Ok(writer.finish()?.file_len)
}

impl Suite {
    /// One filter, written out or counted, by both.
    fn compare(&mut self, case: &str, expression: &str, write: bool) -> Result<()> {
        let set = if write { "read-write" } else { "count" };
        eprintln!("{case}, {set}");
        let outputs = ["ours.pcap", "theirs.pcap"].map(|name| self.folder.join(name));
        let command = |program: &PathBuf, output: &Path, flags: &[&str]| {
            let output = output.display().to_string();
            let job = if write { &["-w", &output][..] } else { &["--count"][..] };
            let arguments = [flags, &["-r", &self.capture], job, &[expression]].concat();
            CommandLine::new(program, &arguments)
        };
        // The capture has nanoseconds, which tcpdump keeps only if told to; as root it
        // would give its files to another user.
        let flags = ["--time-stamp-precision=nano", "-Z", "root"];
        let ours = command(&self.forebay, &outputs[0], &["filter"]);
        let theirs = self.tcpdump.as_ref().map(|tcpdump| command(tcpdump, &outputs[1], &flags));
        let commands: Vec<&CommandLine> = [&ours].into_iter().chain(&theirs).collect();
        let mut times = self.rounds(&commands, |answers| {
            let file = |(index, answer): (usize, &String)| match write {
                true => fs::read(&outputs[index]).during(outputs[index].display()),
                false => Ok(answer.clone().into_bytes()),
            };
            let answers: Vec<Vec<u8>> =
                answers.iter().enumerate().map(file).collect::<Result<_>>()?;
            let are_equal = answers.iter().all(|answer| *answer == answers[0]);
            ensure!(are_equal, "{case}, {set}: `{expression}`");
            // So that no command has to empty a file.
            let written = if write { &outputs[..commands.len()] } else { &[] };
            written.iter().try_for_each(|file| fs::remove_file(file).during(file.display()))
        })?;
        let (our_times, their_times) = (mem::take(&mut times[0]), times.pop());
        let their_times = their_times.filter(|_| theirs.is_some()).unwrap_or_default();
        self.add_row(Row::new(case, set, "tcpdump", their_times), theirs.as_ref())?;
        self.add_row(Row::new(case, set, "forebay", our_times), Some(&ours))
    }

    /// Runs commands in turns, and `check` on their answers. Returns nanoseconds a packet of
    /// each, round by round.
    fn rounds(
        &mut self,
        commands: &[&CommandLine],
        check: impl Fn(&[String]) -> Result<()>,
    ) -> Result<Vec<Vec<f64>>> {
        let mut times = vec![Vec::new(); commands.len()];
        for round in 0..=self.pairs {
            let mut answers = Vec::new();
            for (command, times) in commands.iter().zip(&mut times) {
                let (time, answer) = command.time()?;
                answers.push(answer);
                // The first round warms caches up.
                if round > 0 {
                    times.push(time.as_nanos() as f64 / self.packets as f64);
                }
            }
            check(&answers)?;
            self.clock.sample(CLOCK_WINDOWS);
        }
        Ok(times)
    }

    /// `forebay split` over four sensors.
    fn split(&mut self) -> Result<()> {
        eprintln!("split");
        let output = self.folder.join("sensors").display().to_string();
        let arguments =
            ["split", "--json", "--force", "-r", &self.capture, "-n", "4", "-o", &output];
        let command = CommandLine::new(&self.forebay, &arguments);
        let packets = json!(self.packets);
        let times = self.rounds(&[&command], |answers| {
            let answer: Value = serde_json::from_str(&answers[0]).unwrap_or_default();
            ensure!(answer["totals"]["packets_out"] == packets, "split: packets are missing");
            Ok(())
        })?;
        let times = times.into_iter().flatten().collect();
        self.add_row(Row::new("split-4", "read-write", "forebay", times), Some(&command))
    }

    fn add_row(&mut self, row: Row, command: Option<&CommandLine>) -> Result<()> {
        self.results.0.push(match (row.ns, command) {
            (Some(ns), Some(command)) => {
                let peak = command.peak_memory()? as f64;
                row.with("gbytes_per_s", self.bytes as f64 / (ns * self.packets as f64))
                    .with("max_rss_mib", peak / f64::from(1 << 20))
            }
            _ => row,
        });
        Ok(())
    }
}

fn shown(rows: &[Row]) -> String {
    let headings = [
        "case",
        "set",
        "engine",
        "ns/packet",
        "10%–90%",
        "cycles",
        "GB/s",
        "peer/forebay",
        "10%–90%",
        "MiB",
    ];
    let cells = |row: &Row| {
        let blank = |value: Option<f64>| value.map_or_else(String::new, |_| number(value));
        let ratios = row.more.get("ratio_spread").cloned().unwrap_or_default();
        let ratios: Option<[f64; 2]> = serde_json::from_value(ratios).ok();
        vec![
            row.case.clone(),
            row.set.clone(),
            row.engine.clone(),
            number(row.ns),
            row.spread.map_or_else(String::new, range),
            number(row.cycles),
            number(row.number("gbytes_per_s")),
            blank(row.number("ratio")),
            ratios.map_or_else(String::new, range),
            blank(row.number("max_rss_mib")),
        ]
    };
    table("", 3, &headings, rows.iter().map(cells).collect())
}
