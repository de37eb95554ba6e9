//! Compiled filters beside libpcap, other compilers of filters, and compiled C.
//!
//! [`expressions`] are the filters, [`traffic`] the packets, [`sets`] where the packets
//! lie, [`engines`] who takes part; [`measure`] runs the rounds, and [`results`],
//! [`summary`] and [`tables`] make something of the times. [`paper`] has the numbers
//! that ours are put beside.

pub mod packets;
pub mod turns;

mod bars;
mod c_forms;
mod engines;
mod expressions;
mod figures;
mod fit;
mod list;
mod measure;
mod ours;
mod paper;
mod results;
mod schedules;
mod sets;
mod summary;
mod tables;
mod traffic;

pub use list::probe;

use std::path::PathBuf;

use clap::Args;
use forebay_codegen::cost;
use serde_json::json;

use crate::clock::Clock;
use crate::peers::libpcap::Libpcap;
use crate::record::{Record, Row};
use crate::{BenchError, Options, io_error};
use engines::{Contender, Makers, OURS};
use expressions::Case;
use fit::Shape;
use list::ListTime;
use measure::{Bench, Expected, OnSet};
use ours::{Subject, Variant};
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

/// Rounds for each window of the clock, and the fewest windows of a run.
const ROUNDS_A_WINDOW: usize = 6;
const FEWEST_WINDOWS: usize = 50;

/// What to measure of the suite.
#[derive(Debug, Args)]
pub struct FilterOptions {
    /// Only cases whose expression or name contains this; rules and forward: or one of several
    /// texts with commas between them; cases of forward are like 64/capacity
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Filters: only on this set; can be repeated
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<Set>,
    /// Filters: only this engine beside libpcap and touch; rules and forward: only this one; can
    /// be repeated
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// Filters: our back ends with other load latencies and prefetch distances
    #[arg(long)]
    sweep: bool,
    /// Filters, rules and forward: rounds on every set
    #[arg(long, value_name = "NUMBER")]
    pub rounds: Option<usize>,
    /// Compile a list of hosts, and print time and memory: what the suite runs for each
    #[arg(long, hide = true, value_name = "NUMBER")]
    pub compile_hosts: Option<usize>,
    /// Filters, rules and forward: write the figures to this folder, as SVG
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

/// The suite under way.
struct Suite<'a> {
    options: &'a Options,
    makers: Makers,
    bench: Bench,
    /// The clock of the whole run.
    clock: Clock,
    /// The fewest windows of the clock while a filter is measured on a set.
    fewest_windows: usize,
    notes: Vec<String>,
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
        fewest_windows: 0,
        notes: Vec::new(),
    };
    let cases = if options.quick { expressions::few() } else { expressions::all() };
    let cases: Vec<Case> = cases.into_iter().filter(|case| wanted.includes(case)).collect();
    let sets: Vec<Set> = Set::ALL.into_iter().filter(|set| wanted.wants(*set)).collect();
    let measured = cases.len() * sets.iter().filter(|set| suite.bench.has(**set)).count();
    suite.fewest_windows = FEWEST_WINDOWS.div_ceil(measured.max(1));
    let mut outcomes = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, cases.len(), case.short);
        outcomes.push(suite.case(case, &sets)?);
    }
    suite.again(&mut outcomes)?;
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
    let gigahertz = suite.clock.gigahertz();
    let summary = Summary::of(OURS, &outcomes, list, suite.bench.reading_cost(), gigahertz);
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

    /// Whether a part of a suite is asked for whose `--only` takes several texts.
    pub fn names(&self, part: &str) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|texts| texts.split(',').any(|text| part.contains(text)))
    }

    fn includes(&self, case: &Case) -> bool {
        let Some(text) = &self.only else { return true };
        case.expression.contains(text) || case.short.contains(text)
    }
}

impl Suite<'_> {
    /// Measures one filter on these sets.
    fn case(&mut self, case: &Case, wanted: &[Set]) -> Result<Outcome, BenchError> {
        let subject = Subject::new(&case.expression)?;
        let mut judge = Libpcap::new(&subject.program).map_err(BenchError::WrongAnswer)?;
        let captured = self.bench.captured();
        let expected = Expected {
            traffic: self.bench.traffic().verdicts(&mut judge),
            captured: captured.map(|some| some.verdicts(&mut judge)).unwrap_or_default(),
        };
        let mut contenders = self.makers.contenders(&subject);
        let mut sets = Vec::new();
        for &set in wanted {
            sets.push(self.set(set, &mut contenders, &expected)?);
        }
        let loops = schedules::loops(&subject.function);
        let mut outcome = Outcome {
            case: case.clone(),
            instructions: subject.program.instructions().len(),
            names: Vec::new(),
            backends: Vec::new(),
            compile_us: Vec::new(),
            excess_ii: loops.map(|loops| loops.excess_ii),
            shape: Shape {
                intervals: loops.map(|loops| loops.intervals),
                tests: cost::tests(&subject.function),
            },
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

    /// Measures on one set.
    fn set(
        &mut self,
        set: Set,
        contenders: &mut [Contender],
        expected: &Expected,
    ) -> Result<OnSet, BenchError> {
        if !self.bench.has(set) {
            return Ok(OnSet { set, times: vec![None; contenders.len()], clock: Clock::default() });
        }
        let [short, long] = if self.options.quick { QUICK_ROUNDS } else { ROUNDS };
        let usual = if matches!(set, Set::Memory | Set::Capture) { long } else { short };
        let rounds = self.options.filters.rounds.unwrap_or(usual);
        let windows = rounds.div_ceil(ROUNDS_A_WINDOW).max(self.fewest_windows);
        let measured = self.bench.measure(set, contenders, expected, rounds, windows)?;
        self.clock.absorb(&measured.clock);
        Ok(measured)
    }

    /// Measures anew what was measured while the clock was slow, which is known only
    /// now, and notes what stays so.
    fn again(&mut self, outcomes: &mut [Outcome]) -> Result<(), BenchError> {
        let repeats = if self.options.quick { 0 } else { REPEATS };
        for _ in 0..repeats {
            let fastest = self.clock.clone();
            for outcome in &mut *outcomes {
                let slow = outcome.slow_sets(&fastest, CLOCK_TOLERANCE);
                if !slow.is_empty() {
                    eprintln!("{}: the clock was slow, measuring again", outcome.case.short);
                    outcome.take_faster(self.case(&outcome.case, &slow)?);
                }
            }
        }
        for outcome in outcomes {
            let slow = outcome.slow_sets(&self.clock, CLOCK_TOLERANCE);
            if !slow.is_empty() {
                let names = slow.iter().map(Set::to_string).collect::<Vec<_>>().join(", ");
                self.note(format!(
                    "the clock was slower than the run's fastest by more than 5% (`gigahertz` in \
                     the rows): `{}` on {names}",
                    outcome.case.short
                ));
            }
        }
        Ok(())
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
             take turns in a new order; {all} different packets, of which {COPIED} a round are in hot, \
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
    }
}
