//! Compiled filters beside libpcap, other compilers of filters, and compiled C.
//!
//! [`expressions`] are the filters, [`traffic`] the packets, [`sets`] where the packets
//! lie, [`engines`] who takes part; [`measure`] runs the rounds, and [`results`],
//! [`summary`] and [`tables`] make something of the times. [`paper`] has the numbers
//! that ours are put beside.

pub mod packets;

mod c_forms;
mod engines;
mod expressions;
mod figures;
mod list;
mod measure;
mod ours;
mod paper;
mod results;
mod sets;
mod summary;
mod svg;
mod tables;
mod traffic;

pub use list::probe;

use std::path::PathBuf;

use clap::Args;
use forebay_filter::compile;
use forebay_packet::LinkType;
use serde_json::json;

use crate::clock::Clock;
use crate::peers::libpcap::Libpcap;
use crate::record::{Record, Row};
use crate::{BenchError, Options, io_error};
use engines::{Contender, Makers, OURS};
use expressions::Case;
use list::ListTime;
use measure::{Bench, Expected, Times};
use ours::Variant;
use results::Outcome;
use sets::{CACHED, COPIED, IN_MEMORY, Set};
use summary::Summary;
use traffic::{CAPTURE, Traffic};

/// Rounds on sets whose rounds are short, and on `memory` and `capture`.
const ROUNDS: [usize; 2] = [101, 41];

/// The same in a quick run.
const QUICK_ROUNDS: [usize; 2] = [31, 31];

/// Packets generated.
const PACKETS: u64 = IN_MEMORY as u64;

/// A clock that is this much slower than the fastest in the run is another clock.
const CLOCK_TOLERANCE: f64 = 0.05;

/// How often a set is measured anew because the clock was slow.
const REPEATS: usize = 2;

/// What to measure of the suite.
#[derive(Debug, Args)]
pub struct FilterOptions {
    /// Filters: only those whose expression or name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Filters: only on this set; can be repeated
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<Set>,
    /// Filters: only this engine beside libpcap and touch; can be repeated
    #[arg(long = "engine", value_name = "NAME")]
    engines: Vec<String>,
    /// Filters: our back ends with other load latencies and prefetch distances
    #[arg(long)]
    sweep: bool,
    /// Filters: rounds on every set
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<usize>,
    /// Compile a list of hosts, and print time and memory: what the suite runs for each
    #[arg(long, hide = true, value_name = "NUMBER")]
    pub compile_hosts: Option<usize>,
    /// Filters: write the figures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// The suite under way.
struct Suite<'a> {
    options: &'a Options,
    makers: Makers,
    bench: Bench,
    /// The fastest clock so far.
    clock: Clock,
    notes: Vec<String>,
    /// Sets whose clock stayed slow.
    slow: usize,
}

/// Runs the suite.
pub fn run(options: &Options) -> Result<Record, BenchError> {
    eprintln!("generating {PACKETS} packets");
    let traffic = Traffic::generate(PACKETS)?;
    let shares = traffic.paper_shares()?;
    let captured = Traffic::captured()?;
    let wanted = &options.filters;
    let in_memory = if wanted.wants(Set::Memory) { IN_MEMORY } else { 0 };
    let folder = tempfile::tempdir().map_err(io_error("making a folder"))?;
    let variants = if wanted.sweep { Variant::swept() } else { Variant::usual() };
    let mut suite = Suite {
        options,
        makers: Makers::new(folder.path(), &wanted.engines, variants),
        bench: Bench::new(traffic, captured, in_memory)?,
        clock: Clock::default(),
        notes: Vec::new(),
        slow: 0,
    };
    let cases = if options.quick { expressions::few() } else { expressions::all() };
    let cases: Vec<Case> = cases.into_iter().filter(|case| wanted.includes(case)).collect();
    let mut outcomes = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, cases.len(), case.short);
        outcomes.push(suite.case(case)?);
    }
    let list = if wanted.wants_list() { suite.list()? } else { None };
    suite.note_conditions();
    let gigahertz = suite.clock.gigahertz();
    if let Some(folder) = &wanted.plots {
        figures::write(folder, &outcomes, gigahertz)?;
    }
    let mut rows: Vec<Row> = outcomes.iter().flat_map(|one| one.rows(gigahertz)).collect();
    rows.extend(wanted.wants_list().then(|| list::row(list.as_ref())));
    let mut record = Record::new("filters", suite.notes, rows);
    if wanted.sweep {
        record.shown = Some(tables::swept(&outcomes));
        return Ok(record);
    }
    let summary = Summary::of(OURS, &outcomes, list);
    record.shown = Some(tables::text(&outcomes, &shares, gigahertz) + &summary.text());
    record.summary = Some(json!(summary));
    Ok(record)
}

impl FilterOptions {
    fn wants(&self, set: Set) -> bool {
        self.sets.is_empty() || self.sets.contains(&set)
    }

    /// Whether the long list is to be compiled.
    fn wants_list(&self) -> bool {
        self.sets.is_empty() && self.only.is_none() && self.engines.is_empty() && !self.sweep
    }

    fn includes(&self, case: &Case) -> bool {
        let Some(text) = &self.only else { return true };
        case.expression.contains(text) || case.short.contains(text)
    }
}

impl Suite<'_> {
    /// Measures one filter on all sets.
    fn case(&mut self, case: &Case) -> Result<Outcome, BenchError> {
        let program = compile(&case.expression, LinkType::ETHERNET)?;
        let mut judge = Libpcap::new(&program).map_err(BenchError::WrongAnswer)?;
        let captured = self.bench.captured();
        let expected = Expected {
            traffic: self.bench.traffic().verdicts(&mut judge),
            captured: captured.map(|some| some.verdicts(&mut judge)).unwrap_or_default(),
        };
        let wanted = &self.options.filters;
        let mut contenders = self.makers.contenders(&program);
        let mut sets = Vec::new();
        for set in Set::ALL.into_iter().filter(|set| wanted.wants(*set)) {
            let times = match self.bench.has(set) {
                true => self.set(set, &mut contenders, &expected)?,
                false => vec![None; contenders.len()],
            };
            sets.push((set, times));
        }
        let mut outcome = Outcome {
            case: case.clone(),
            instructions: program.instructions().len(),
            names: Vec::new(),
            backends: Vec::new(),
            compile_us: Vec::new(),
            sets,
        };
        for contender in contenders {
            outcome.names.push(contender.name);
            outcome.backends.push(contender.backend);
            outcome.compile_us.push(contender.compile_us);
            for note in contender.notes {
                self.note(format!("{note} (`{}`)", case.short));
            }
        }
        Ok(outcome)
    }

    /// Measures on one set, again if the clock was slow meanwhile.
    fn set(
        &mut self,
        set: Set,
        contenders: &mut [Contender],
        expected: &Expected,
    ) -> Result<Times, BenchError> {
        let [short, long] = if self.options.quick { QUICK_ROUNDS } else { ROUNDS };
        let usual = if matches!(set, Set::Memory | Set::Capture) { long } else { short };
        let rounds = self.options.filters.rounds.unwrap_or(usual);
        let mut repeats = 0;
        loop {
            let mut clock = Clock::default();
            let times = self.bench.measure(set, contenders, expected, rounds, &mut clock)?;
            let here = clock.gigahertz();
            self.clock.absorb(clock);
            let steady = here >= self.clock.gigahertz() * (1.0 - CLOCK_TOLERANCE);
            if steady || self.options.quick || repeats == REPEATS {
                self.slow += usize::from(!steady);
                return Ok(times);
            }
            repeats += 1;
            eprintln!("{set}: the clock was slow, measuring again");
        }
    }

    /// Compiles the long list.
    fn list(&mut self) -> Result<Option<ListTime>, BenchError> {
        let hosts = expressions::LISTED_HOSTS[1];
        eprintln!("a list of {hosts} hosts");
        let time = list::measure()?;
        if time.is_none() {
            let seconds = list::LIMIT.as_secs();
            self.note(format!("{hosts} hosts were not compiled within {seconds} s"));
        }
        Ok(time)
    }

    /// Adds a note once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Says how the rows were measured.
    fn note_conditions(&mut self) {
        let [short, long] = if self.options.quick { QUICK_ROUNDS } else { ROUNDS };
        let rounds = match self.options.filters.rounds {
            Some(rounds) => format!("{rounds} rounds"),
            None => format!("{short} rounds, {long} on memory and capture"),
        };
        let all = self.bench.traffic().descriptors.len();
        self.note(format!(
            "{rounds}; in each, all engines filter the same packets in the same new order, and \
             another goes first; {all} different packets, of which {COPIED} a round are in hot, \
             {CACHED} in cache and batch-*, all in memory"
        ));
        self.note(format!(
            "times are of the time stamp counter, less the {:.1} ns that reading it takes; clock: \
             {:.2} GHz, the fastest of {} windows",
            self.bench.reading_cost(),
            self.clock.gigahertz(),
            self.clock.windows(),
        ));
        match self.bench.captured() {
            Some(captured) => {
                let packets = captured.descriptors.len();
                let bytes = captured.memory.len() as f64;
                self.note(format!("capture: {packets} packets in {:.1} MB", bytes / 1e6));
            }
            None => self.note(format!(
                "capture: no {CAPTURE} in the folder that FOREBAY_DATA names, or in shared/data \
                 beside the project"
            )),
        }
        if let Some(cache) = crate::machine::last_level_cache() {
            self.note(format!("the last level of the cache has {cache}"));
        }
        if self.options.quick {
            self.note("quick: 8 of the 25 filters, fewer rounds".to_owned());
        }
        if self.slow > 0 {
            let slow = self.slow;
            self.note(format!("the clock was slow by more than 5% in {slow} sets: run again"));
        }
    }
}
