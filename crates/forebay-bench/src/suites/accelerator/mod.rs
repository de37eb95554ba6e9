//! Accelerators: bytes a second and latency by batch size and batches in flight, for the scanner in
//! the caller's thread, on another thread, and in another process over shared memory.
//!
//! A closed loop: as many batches as the case says are kept in flight. The latency of a batch is the
//! time from its submission to the poll that returns it, queueing included. Matches are compared
//! with those of the scanner alone.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_gen::{Config, Generator};
use forebay_packet::random::Random;
use forebay_packet::{DecodeOptions, Decoder};
use forebay_scan::accelerator::{
    Accelerator, BatchLimits, Completion, Inline, Refused, Remote, RemoteOptions, Threads,
};
use forebay_scan::{Engine, LiteralSet, Matches, Scanner};

use crate::clock::Clock;
use crate::failure::{During, Failure, Result, ensure};
use crate::options::Options;
use crate::record::{Record, Row};
use crate::stats::Sample;
use crate::table::{number, range, table};

/// What scans, in all of them.
const ENGINE: Engine = Engine::Simd;

const SEED: u64 = 20_261_124;

/// Bytes of payload of a pass.
const PAYLOAD: usize = 4 << 20;

/// Literals that are random, and that are taken from payloads.
const LITERALS: [usize; 2] = [1000, 10];

const BATCH_BYTES: [u32; 4] = [2 << 10, 16 << 10, 64 << 10, 256 << 10];

const IN_FLIGHT: [u32; 3] = [1, 4, 16];

/// Time within which a batch must be completed, and a device must accept its clients.
const LIMIT: Duration = Duration::from_secs(10);

/// Rounds of a full run, and of a quick one.
const ROUNDS: usize = 31;
const QUICK_ROUNDS: usize = 7;

/// An accelerator with one size of batches, and its measurements.
struct Cell {
    name: &'static str,
    limits: BatchLimits,
    accelerator: Box<dyn Accelerator>,
    /// Nanoseconds a text, and the median and 99th percentile of the microseconds of a batch.
    times: Vec<f64>,
    medians: Vec<f64>,
    tails: Vec<f64>,
}

/// A device process, which ends when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn run(options: &Options) -> Result<Record> {
    let rounds = options.rounds.unwrap_or(if options.quick { QUICK_ROUNDS } else { ROUNDS });
    let texts = payloads()?;
    let (set, lines) = literals(&texts)?;
    let scanner = Arc::new(Scanner::compile(&set, ENGINE)?);
    let expected = count_matches(&scanner, &texts);
    let folder = tempfile::tempdir_in(&options.folder).during("making a folder")?;
    let file = folder.path().join("literals");
    std::fs::write(&file, lines).during(file.display())?;
    let socket = folder.path().join("device");
    let _process = Process(
        Command::new(options.forebay()?)
            .args(["accelerator", "--quiet", "--clients", "64", "--engine", ENGINE.name()])
            .args([Path::new("--socket"), &socket, Path::new("--literals"), &file])
            .stdout(Stdio::null())
            .spawn()
            .during("starting a device")?,
    );
    let mut cells = cells(&scanner, &set, &socket)?;
    cells.retain(|cell| options.names(&cell.case()));
    let mut clock = Clock::default();
    for round in 0..=rounds {
        for cell in &mut cells {
            cell.pass(&texts, expected, round > 0)?;
        }
        clock.sample(1);
    }
    let gigahertz = clock.gigahertz();
    let notes = vec![
        format!(
            "{} payloads of generated traffic, {:.1} MB; {} literals; {expected} matches; {rounds} \
             rounds; a closed loop, latencies with queueing",
            texts.len(),
            bytes(&texts) as f64 / 1e6,
            set.len(),
        ),
        format!("clock: {gigahertz:.2} GHz"),
    ];
    let rows = cells.into_iter().map(|cell| cell.row(&texts)).collect();
    let record = Record::new("accelerator", notes, rows, Some(gigahertz));
    Ok(Record { shown: shown(&record.rows), ..record })
}

fn bytes(texts: &[Vec<u8>]) -> usize {
    texts.iter().map(Vec::len).sum()
}

/// Payloads of generated traffic.
fn payloads() -> Result<Vec<Vec<u8>>> {
    let config = Config { packets: 100_000, flows: 5_000, seed: SEED, ..Config::default() };
    let mut generator = Generator::new(config)?;
    let decoder = Decoder::new(DecodeOptions::default());
    let (mut texts, mut total) = (Vec::new(), 0);
    while let Some(batch) = generator.next_batch().during("generating")? {
        for i in batch.live().iter() {
            let payload = decoder.payload(batch.interface(i).link, batch.packet(i));
            let payload = payload.unwrap_or_default();
            if !payload.is_empty() && total < PAYLOAD {
                total += payload.len();
                texts.push(payload.to_vec());
            }
        }
    }
    ensure!(total > PAYLOAD / 2, "the generated traffic has {total} bytes of payload");
    Ok(texts)
}

/// The literals, and the file that has them.
fn literals(texts: &[Vec<u8>]) -> Result<(LiteralSet, String)> {
    let mut random = Random::new(SEED);
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..LITERALS[0] {
        all.push((0..8).map(|_| random.between(b'a'.into(), b'z'.into()) as u8).collect());
    }
    let long: Vec<&Vec<u8>> = texts.iter().filter(|text| text.len() >= 64).collect();
    for _ in 0..LITERALS[1] {
        all.push(long[random.index(long.len())][32..48].to_vec());
    }
    let mut set = LiteralSet::new();
    let mut lines = String::new();
    for literal in &all {
        set.push(literal, false)?;
        literal.iter().for_each(|byte| lines.push_str(&format!("{byte:02x}")));
        lines.push('\n');
    }
    Ok((set, lines))
}

fn count_matches(scanner: &Scanner, texts: &[Vec<u8>]) -> usize {
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut matches = Matches::new();
    scanner.scan(&texts, &mut scanner.scratch(), &mut matches);
    matches.as_slice().len()
}

fn cells(scanner: &Arc<Scanner>, set: &LiteralSet, socket: &Path) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for bytes in BATCH_BYTES {
        for in_flight in IN_FLIGHT {
            let time_limit = LIMIT.as_nanos() as u64;
            let limits = BatchLimits { bytes, texts: 4096, matches: 4096, in_flight, time_limit };
            let mut add = |name, accelerator: Box<dyn Accelerator>| {
                let (times, medians, tails) = Default::default();
                cells.push(Cell { name, limits, accelerator, times, medians, tails });
            };
            if in_flight == 1 {
                add("inline", Box::new(Inline::new(Arc::clone(scanner), limits)?));
            }
            add("threads", Box::new(Threads::new(scanner, 1, limits)?));
            let options = RemoteOptions { limits, ..RemoteOptions::new(socket.to_owned()) };
            add("remote", Box::new(connect(Remote::new(options, set)?)?));
        }
    }
    Ok(cells)
}

/// Waits until the device has accepted the client.
fn connect(mut remote: Remote) -> Result<Remote> {
    let started = Instant::now();
    while !remote.is_connected() {
        remote.poll(started.elapsed().as_nanos() as u64, &mut Vec::new());
        std::thread::sleep(Duration::from_millis(1));
        if started.elapsed() > LIMIT {
            let trouble = remote.take_trouble().map(|trouble| trouble.to_string());
            return Err(Failure(trouble.unwrap_or_else(|| "no device".to_owned())));
        }
    }
    Ok(remote)
}

impl Cell {
    fn case(&self) -> String {
        format!("{}-{}-{}", self.name, self.limits.bytes, self.limits.in_flight)
    }

    /// Scans all texts once, and records the times if `counts`.
    fn pass(&mut self, texts: &[Vec<u8>], expected: usize, counts: bool) -> Result<()> {
        let mut pass = Pass::new(&mut *self.accelerator, self.limits.in_flight as usize);
        for text in texts {
            if pass.accelerator.push(&[text]) == Err(Refused::Full) {
                pass.submit()?;
                ensure!(pass.accelerator.push(&[text]) == Ok(()), "a text is refused");
            }
        }
        pass.submit()?;
        pass.wait_below(1)?;
        let (time, found) = (pass.started.elapsed(), pass.matches);
        let latencies = Sample::new(std::mem::take(&mut pass.latencies));
        ensure!(found == expected, "{}: {found} matches, not {expected}", self.case());
        if counts {
            self.times.push(time.as_nanos() as f64 / texts.len() as f64);
            self.medians.push(latencies.median());
            self.tails.push(latencies.quantile(0.99));
        }
        Ok(())
    }

    fn row(self, texts: &[Vec<u8>]) -> Row {
        let bytes_a_text = bytes(texts) as f64 / texts.len() as f64;
        let case = self.case();
        let row = Row::new(case, "gen", ENGINE.name(), self.times);
        let gbps = row.ns.map(|ns| bytes_a_text * 8.0 / ns);
        row.with("gbps", gbps)
            .with("latency_us", Sample::new(self.medians).median())
            .with("latency_p99_us", Sample::new(self.tails).median())
            .with("batch_bytes", self.limits.bytes)
            .with("in_flight", self.limits.in_flight)
    }
}

/// A pass over all texts, under way.
struct Pass<'a> {
    accelerator: &'a mut dyn Accelerator,
    most: usize,
    started: Instant,
    /// When the batches in flight were submitted, from the ticket `first`.
    submitted: VecDeque<Instant>,
    first: Option<u64>,
    completions: Vec<Completion>,
    latencies: Vec<f64>,
    matches: usize,
}

impl<'a> Pass<'a> {
    fn new(accelerator: &'a mut dyn Accelerator, most: usize) -> Self {
        Self {
            accelerator,
            most,
            started: Instant::now(),
            submitted: VecDeque::new(),
            first: None,
            completions: Vec::new(),
            latencies: Vec::new(),
            matches: 0,
        }
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Submits the open batch, and waits until another can be opened.
    fn submit(&mut self) -> Result<()> {
        let submitted = Instant::now();
        if let Some(ticket) = self.accelerator.submit(self.now()) {
            self.first.get_or_insert(ticket);
            self.submitted.push_back(submitted);
        }
        self.wait_below(self.most)
    }

    /// Waits until fewer batches than `most` are in flight.
    fn wait_below(&mut self, most: usize) -> Result<()> {
        loop {
            self.accelerator.poll(self.now(), &mut self.completions);
            let now = Instant::now();
            for Completion { ticket, result } in self.completions.drain(..) {
                let matches = result.map_err(|cause| format!("a batch may match: {cause}"))?;
                self.matches += matches.len();
                let index = (ticket - self.first.unwrap_or_default()) as usize;
                self.latencies.push((now - self.submitted[index]).as_nanos() as f64 / 1e3);
            }
            if self.accelerator.in_flight() < most {
                return Ok(());
            }
            self.accelerator.wait(LIMIT)?;
        }
    }
}

fn shown(rows: &[Row]) -> String {
    let headings =
        ["case", "engine", "ns/text", "10%–90%", "Gbit/s", "latency µs", "99%", "KiB", "in flight"];
    let cells = |row: &Row| {
        vec![
            row.case.clone(),
            row.engine.clone(),
            number(row.ns),
            row.spread.map_or_else(String::new, range),
            number(row.number("gbps")),
            number(row.number("latency_us")),
            number(row.number("latency_p99_us")),
            number(row.number("batch_bytes").map(|bytes| bytes / 1024.0)),
            number(row.number("in_flight")),
        ]
    };
    table("", 2, &headings, rows.iter().map(cells).collect())
}
