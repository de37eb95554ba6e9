//! Compiled filters beside libpcap, other compilers of filters, and compiled C.

pub mod packets;
pub mod sets;

mod engines;
mod expressions;
mod list;
mod loops;
mod measure;
mod model;
mod paper;
mod report;
mod summary;
pub mod traffic;

pub use list::probe;

use forebay_codegen::cost;
use serde_json::json;

use crate::failure::{During, Result};
use crate::options::Options;
use crate::peers::libpcap::Libpcap;
use crate::record::Record;
use crate::rounds::Run;
use engines::{JUDGE, Makers, OURS, Subject, Variant};
use expressions::{Case, LISTED_HOSTS};
use loops::Loops;
use measure::{Bench, Expected};
use sets::{CACHED, COPIED, IN_MEMORY, Set};
use summary::Measured;
use traffic::{CAPTURE, Traffic};

/// Rounds on sets whose rounds are short, and on `memory` and `capture`.
const ROUNDS: [usize; 2] = [101, 41];
const QUICK_ROUNDS: [usize; 2] = [31, 31];

/// Packets generated.
const PACKETS: u64 = IN_MEMORY as u64;

struct Suite<'a> {
    run: Run<'a>,
    makers: Makers,
    bench: Bench,
}

pub fn run(options: &Options) -> Result<Record> {
    eprintln!("generating {PACKETS} packets");
    let traffic = Traffic::generate(PACKETS)?;
    let shares = traffic.paper_shares()?;
    let captured = Traffic::captured(&options.data)?;
    let wants = |set: Set| options.sets.is_empty() || options.sets.contains(&set);
    let sets: Vec<Set> = Set::ALL.into_iter().filter(|&set| wants(set)).collect();
    let folder = tempfile::tempdir().during("making a folder")?;
    let variants = if options.sweep { Variant::swept() } else { Variant::usual() };
    let (folder, wanted) = (folder.path().to_owned(), options.engines.clone());
    let bench = Bench::new(traffic, captured, &sets)?;
    let makers = Makers { folder, variants, wanted };
    let mut suite = Suite { run: Run::new(options), makers, bench };
    let mut cases = if options.quick { expressions::few() } else { expressions::all() };
    let only = options.only.as_deref().unwrap_or_default();
    cases.retain(|case| case.expression.contains(only) || case.short.contains(only));
    let count = cases.len();
    for (case, number) in cases.iter_mut().zip(1..) {
        eprintln!("{number} of {count}: {}", case.short);
        suite.case(case, &sets)?;
    }
    suite.run.results.add_ratios("ratio", |_, _| Some(JUDGE.to_owned()));
    // A part of the suite does without the long list.
    let is_whole = options.sets.is_empty() && options.only.is_none();
    let list = if is_whole && options.engines.is_empty() && !options.sweep {
        Some(suite.list()?)
    } else {
        None
    };
    suite.note_conditions();
    let Run { timing, results, notes, .. } = suite.run;
    let gigahertz = timing.clock.gigahertz();
    if let Some(folder) = &options.plots {
        report::figures(folder, &cases, &results, gigahertz)?;
    }
    let rows = results.0.iter().cloned().chain(list.map(|time| list::row(time.as_ref())));
    let mut record = Record::new("filters", notes, rows.collect(), Some(gigahertz));
    if options.sweep {
        record.shown = report::swept(&results);
        return Ok(record);
    }
    let (reading_cost, list) = (timing.stopwatch.cost(), list.flatten());
    let (results, cases) = (&results, &cases[..]);
    let measured = Measured { engine: OURS, cases, results, list, reading_cost, gigahertz };
    let summary = measured.summary();
    record.shown = report::tables(cases, results, &shares, gigahertz) + &summary.text();
    record.summary = json!(summary);
    Ok(record)
}

impl Suite<'_> {
    /// Measures one filter on these sets.
    fn case(&mut self, case: &mut Case, sets: &[Set]) -> Result<()> {
        let subject = Subject::new(&case.expression)?;
        case.instructions = subject.program.instructions().len();
        case.loops = Loops::of(&subject.function);
        case.tests = cost::tests(&subject.function);
        let mut judge = Libpcap::new(&subject.program)?;
        let captured = self.bench.captured.as_ref();
        let expected = Expected {
            traffic: self.bench.traffic.verdicts(&mut judge),
            captured: captured.map(|some| some.verdicts(&mut judge)).unwrap_or_default(),
        };
        let mut contenders = self.makers.contenders(&subject);
        for &set in sets {
            let [short, long] = self.usual_rounds();
            let usual =
                if matches!(set, Set::Memory | Set::Frames | Set::Capture) { long } else { short };
            let rounds = self.run.options.rounds.unwrap_or(usual);
            let bench = &mut self.bench;
            let trials = self.run.timing.steady(|timing| {
                let on = (case.expression.as_str(), set);
                bench.measure(timing, on, &mut contenders, &expected, rounds)
            })?;
            for trial in trials {
                self.run.add(trial, &contenders, |row| row.with("paper", case.paper));
            }
        }
        let notes = contenders.into_iter().flat_map(|contender| contender.notes);
        self.run.notes.extend(notes.map(|note| format!("{note} (`{}`)", case.short)));
        Ok(())
    }

    fn usual_rounds(&self) -> [usize; 2] {
        if self.run.options.quick { QUICK_ROUNDS } else { ROUNDS }
    }

    /// Compiles the long list; none if that takes too long.
    fn list(&mut self) -> Result<Option<list::ListTime>> {
        let hosts = LISTED_HOSTS[1];
        eprintln!("a list of {hosts} hosts");
        let time = list::measure()?;
        if time.is_none() {
            let seconds = list::LIMIT.as_secs();
            self.run.notes.push(format!("{hosts} hosts were not compiled within {seconds} s"));
        }
        Ok(time)
    }

    fn note_conditions(&mut self) {
        let [short, long] = self.usual_rounds();
        let rounds = match self.run.options.rounds {
            Some(rounds) => format!("{rounds} rounds"),
            None => format!("{short} rounds, {long} on memory and capture"),
        };
        let all = self.bench.traffic.descriptors.len();
        let notes = format!(
            "{rounds}; in each, all engines filter the same packets in the same new order, and \
             take turns in a new order; {all} different packets, of which {COPIED} a round are in hot, \
             {CACHED} in cache and batch-*, all in memory"
        );
        self.run.note_conditions(notes);
        if let Some(level) = engines::forced() {
            self.run.notes.push(format!("our engines use nothing above {level}, which is forced"));
        }
        self.run.notes.push(match &self.bench.captured {
            Some(captured) => {
                let packets = captured.descriptors.len();
                format!(
                    "capture: {packets} packets in {:.1} MB",
                    captured.memory.len() as f64 / 1e6
                )
            }
            None => format!("capture: no {CAPTURE} in {}", self.run.options.data.display()),
        });
        if self.run.options.quick {
            self.run.notes.push("quick: 8 of the 25 filters, fewer rounds".to_owned());
        }
    }
}
