//! Rule lists: the paper's comparison of scans, and ClassBench's sets beside DPDK.
//!
//! [`lists`] are the rules, [`traffic`] and [`headers`] what is matched against them,
//! [`engines`] and [`acl`] who takes part; [`measure`] runs the rounds, and [`results`],
//! [`paper`], [`bars`] and [`tables`] make something of the times.

pub mod engines;
pub mod frames;
pub mod headers;
pub mod lists;

mod acl;
mod bars;
mod figures;
mod measure;
mod paper;
mod parsing;
mod results;
mod sets;
mod tables;
mod traffic;
mod updates;

pub use acl::probe;

use std::path::Path;
use std::slice::from_mut;

use forebay_rules::RuleList;
use forebay_rules::packed::Key4;
use serde_json::json;

use crate::bar::Bar;
use crate::peers::dpdk;
use crate::record::{Record, Row};
use crate::stats::rounded;
use crate::{BenchError, Options, io_error};
use bars::{ACL, NAIVE};
use engines::{Contender, Role, first_match};
use headers::Form;
use lists::{CLASSBENCH, ClassBench, Source};
use measure::{Bench, Headers, OnSet, Trial, UnderWay};
use paper::Line;
use results::{Outcome, Participant};
use sets::Set;
use updates::Updates;

/// Rounds where a round is short, and of a million headers.
const ROUNDS: [usize; 2] = [101, 31];

/// The same in a quick run.
const QUICK_ROUNDS: [usize; 2] = [31, 31];

/// How often a set is measured anew because the clock was slow; never in a quick run.
const REPEATS: usize = 2;

/// Headers drawn for `memory`, in a quick run, and those for `cache`.
const IN_MEMORY: usize = 1_000_000;
const QUICK_IN_MEMORY: usize = 100_000;
const CACHED: usize = 16_384;

/// Headers to warm up with.
const OTHERS: usize = 65_536;

/// The seeds that headers are drawn with.
const SEED: u64 = 20_261_121;
const OTHERS_SEED: u64 = 20_261_122;

/// Headers times rules that the oracle is asked about for one list.
const ORACLE_WORK: usize = 1_000_000_000;
const QUICK_ORACLE_WORK: usize = 200_000_000;

/// Lists up to this size are scanned, too.
const MOST_SCANNED: usize = 1_100;

/// Sizes that lists are cut to, up to this power of two.
const LARGEST_CUT: u32 = 12;

/// The set that lists are cut from.
const CUT: Source = CLASSBENCH[3];

/// The suite under way.
struct Suite<'a> {
    options: &'a Options,
    bench: Bench,
    notes: Vec<String>,
}

/// What the paper's comparison gave.
struct Compared {
    outcomes: Vec<Outcome>,
    alphas: Vec<f64>,
}

/// Pairs of windows with and without changes to the list.
const WINDOWS: usize = 41;
const QUICK_WINDOWS: usize = 31;

/// What ClassBench's sets gave.
#[derive(Default)]
struct Measured {
    outcomes: Vec<Outcome>,
    /// Of each list in its first form, what changing it took.
    updates: Vec<(String, Vec<Updates>)>,
}

/// Runs the suite.
pub fn run(options: &Options) -> Result<Record, BenchError> {
    let folder = tempfile::tempdir().map_err(io_error("making a folder"))?;
    let bench = Bench::new(if options.quick { 0 } else { REPEATS });
    let mut suite = Suite { options, bench, notes: Vec::new() };
    let compared = suite.compare(folder.path())?;
    let mut measured = Measured::default();
    for source in CLASSBENCH {
        for form in [Form::Packets, Form::FiveTuples] {
            let case = case_name(source, form);
            if suite.wants(&case, source) {
                eprintln!("{case}");
                suite.classbench(source, form, case, &mut measured)?;
            }
        }
    }
    let Measured { outcomes, updates } = measured;
    let cuts = if suite.includes("crossover") { suite.crossover()? } else { Vec::new() };
    let parsing = if suite.includes("parse") {
        let rounds = suite.rounds(Set::Cache);
        Some(parsing::measure(&mut suite.bench, &traffic::headers(), rounds)?)
    } else {
        None
    };
    suite.note_conditions();
    let gigahertz = suite.bench.clock.gigahertz();
    let pairs: Vec<(&Outcome, f64)> =
        compared.outcomes.iter().zip(compared.alphas.iter().copied()).collect();
    let lines = paper::lines(&pairs, gigahertz);
    if let Some(folder) = &options.filters.plots {
        figures::write(folder, &lines, &cuts)?;
    }
    let mut bars = bars::linear(&pairs, &lines);
    bars.extend(bars::large(&outcomes));
    bars.extend(bars::updates(&updates));
    bars.extend(bars::pairs(compared.outcomes.iter().chain(&outcomes)));
    let mut rows = paper_rows(&compared, &lines, gigahertz);
    rows.extend(outcomes.iter().flat_map(|one| one.rows(gigahertz, ACL)));
    let changes = updates.iter().flat_map(|(case, all)| all.iter().map(move |one| (case, one)));
    rows.extend(changes.map(|(case, one)| one.row(case, gigahertz)));
    rows.extend(parsing.map(|times| parsing::row(times, gigahertz)));
    rows.extend(cuts.iter().flat_map(|one| one.rows(gigahertz, "tree")));
    let mut shown = String::new();
    if !lines.is_empty() {
        shown += &tables::paper(&lines, &compared.alphas);
    }
    if !outcomes.is_empty() {
        shown += &tables::classbench(&outcomes);
        shown += &tables::bounds(&outcomes);
    }
    shown += &tables::updates(&updates);
    shown += &tables::crossover(CUT.name, &cuts);
    shown.extend(bars.iter().map(Bar::text));
    let mut record = Record::new("rules", suite.notes, rows);
    record.shown = Some(shown);
    record.summary = Some(json!({ "lines": lines, "bars": bars }));
    Ok(record)
}

/// The name of a set in the rows.
fn case_name(source: Source, form: Form) -> String {
    match form {
        Form::Packets => source.name.to_owned(),
        Form::FiveTuples => format!("{}-5tuple", source.name),
    }
}

/// The rows of the paper's lists, with each engine's line.
fn paper_rows(compared: &Compared, lines: &[Line], gigahertz: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (one, alpha) in compared.outcomes.iter().zip(&compared.alphas) {
        for mut row in one.rows(gigahertz, NAIVE) {
            row.more.insert("alpha".into(), json!(rounded(*alpha)));
            if let Some(line) =
                lines.iter().find(|line| line.engine == row.engine && line.set == row.set)
            {
                row.more.insert("t_o".into(), json!(line.t_o));
                row.more.insert("t_p".into(), json!(line.t_p));
                row.more.insert("t_p_spread".into(), json!(line.t_p_spread));
            }
            rows.push(row);
        }
    }
    rows
}

/// The first matches of all headers, by the oracle, on all processors.
fn decided(list: &RuleList, keys: &[Key4]) -> Vec<u32> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = keys.len().div_ceil(workers).max(1);
    let mut rules = vec![0; keys.len()];
    std::thread::scope(|scope| {
        for (keys, rules) in keys.chunks(share).zip(rules.chunks_mut(share)) {
            scope.spawn(move || {
                for (key, rule) in keys.iter().zip(rules) {
                    *rule = first_match(list, key);
                }
            });
        }
    });
    rules
}

impl Suite<'_> {
    /// Whether a part of the suite is asked for.
    fn includes(&self, name: &str) -> bool {
        self.options.filters.names(name)
    }

    fn wants(&self, case: &str, source: Source) -> bool {
        let quick = self.options.quick && self.options.filters.only.is_none();
        self.includes(case) && !(quick && source.rules > 1_000)
    }

    fn keeps(&self, contender: &Contender) -> bool {
        let wanted = &self.options.filters.engines;
        wanted.is_empty() || wanted.iter().any(|name| name == contender.name)
    }

    /// Whether a list of so many rules is scanned, too.
    fn scans(&self, rules: usize) -> bool {
        rules <= MOST_SCANNED && !self.options.quick
    }

    /// Whether lists are to be changed: in a quick run, one of them.
    fn updates_are_wanted(&self, source: Source) -> bool {
        let wanted = &self.options.filters.engines;
        let quick = self.options.quick && self.options.filters.only.is_none();
        (wanted.is_empty() || wanted.iter().any(|name| name == "tree"))
            && !(quick && source != CLASSBENCH[0])
    }

    /// Rounds of a set.
    fn rounds(&self, set: Set) -> usize {
        let [short, long] = if self.options.quick { QUICK_ROUNDS } else { ROUNDS };
        let usual = if set.is_sliced() { long } else { short };
        self.options.filters.rounds.unwrap_or(usual)
    }

    /// The paper's comparison, in which all lists are measured in each round.
    fn compare(&mut self, folder: &Path) -> Result<Compared, BenchError> {
        let mut compared = Compared { outcomes: Vec::new(), alphas: Vec::new() };
        if !self.includes("paper") {
            return Ok(compared);
        }
        eprintln!("the paper's lists");
        let keys = traffic::headers();
        let mut lists = Vec::new();
        for list in lists::paper()? {
            let mut contenders = engines::naive_c(&list, folder);
            contenders.extend(engines::ours(&list));
            contenders.retain(|contender| self.keeps(contender));
            let expected = decided(&list, &keys);
            compared.alphas.push(paper::alpha(&expected, list.rules.len()));
            let others = headers::draw(&list, OTHERS, Form::Packets, OTHERS_SEED);
            let headers = Headers { keys: keys.clone(), expected };
            let trials = paper::SETS.map(|set| {
                let in_cache = |one: &Contender| set == Set::Cache || one.role == Role::Ours;
                Trial::new(set, headers.clone(), others.clone(), &contenders, in_cache)
            });
            lists.push(UnderWay { contenders, trials: trials.into() });
        }
        let measured = self.bench.measure(&mut lists, self.rounds(Set::Cache))?;
        for (rules, (list, sets)) in paper::SIZES.into_iter().zip(lists.iter().zip(measured)) {
            let outcome = self.outcome(format!("paper-{rules}"), rules, &list.contenders, sets);
            compared.outcomes.push(outcome);
        }
        Ok(compared)
    }

    /// What was measured of a list.
    fn outcome(
        &mut self,
        case: String,
        rules: usize,
        contenders: &[Contender],
        sets: Vec<OnSet>,
    ) -> Outcome {
        for note in contenders.iter().flat_map(|contender| &contender.notes) {
            self.note(format!("{note} ({case})"));
        }
        for on in &sets {
            if on.clock_is_slow(&self.bench.clock) {
                self.note(format!("the clock was slow while {case} was measured on {}", on.set));
            }
        }
        let participants = contenders.iter().map(Participant::from).collect();
        Outcome { case, rules, participants, sets }
    }

    /// Measures one of ClassBench's sets, if it is there.
    fn classbench(
        &mut self,
        source: Source,
        form: Form,
        case: String,
        measured: &mut Measured,
    ) -> Result<(), BenchError> {
        let Some(ClassBench { list, trace, expected }) = ClassBench::read(source, form)? else {
            self.note("ClassBench's sets are not in the folder that FOREBAY_DATA names".to_owned());
            return Ok(());
        };
        let count = if self.options.quick { QUICK_IN_MEMORY } else { IN_MEMORY };
        let keys = headers::draw(&list, count, form, SEED);
        let mut contenders = engines::ours(&list);
        contenders.retain(|one| !one.linear || self.scans(list.rules.len()));
        contenders.extend(acl::contenders(source, &list, form, &keys)?);
        contenders.retain(|contender| self.keeps(contender));
        let headers = self.judged(&list, keys.clone(), &mut contenders)?;
        let traced = self.judged(&list, trace, &mut contenders)?;
        if expected.is_some_and(|expected| expected != traced.expected) {
            return Err(BenchError::WrongAnswer(format!("{case}: not the trace's known results")));
        }
        let cached = Headers {
            keys: headers.keys.iter().copied().take(CACHED).collect(),
            expected: headers.expected.iter().copied().take(CACHED).collect(),
        };
        let others = headers::draw(&list, OTHERS, form, OTHERS_SEED);
        let mut under_way = UnderWay { contenders, trials: Vec::new() };
        let mut sets: Vec<OnSet> = Vec::new();
        for set in [Set::Cache, Set::Memory, Set::MemoryWide, Set::Trace] {
            if set == Set::MemoryWide && self.options.quick {
                continue;
            }
            // Calls of many headers are tried with the fastest peer only.
            let peer = sets.last().and_then(|on| on.fastest(&under_way.contenders, Role::Peer));
            let takes_part = |one: &Contender| match set {
                Set::Cache => true,
                Set::MemoryWide => {
                    !one.linear && (one.role == Role::Ours || Some(one.name) == peer)
                }
                _ => !one.linear,
            };
            let headers = match set {
                Set::Cache => cached.clone(),
                Set::Trace => traced.clone(),
                _ => headers.clone(),
            };
            let contenders = &under_way.contenders;
            let trial = Trial::new(set, headers, others.clone(), contenders, takes_part);
            under_way.trials = vec![trial];
            let measured = self.bench.measure(from_mut(&mut under_way), self.rounds(set))?;
            sets.extend(measured.into_iter().flatten());
        }
        if form == Form::Packets && self.updates_are_wanted(source) {
            let pairs = if self.options.quick { QUICK_WINDOWS } else { WINDOWS };
            match updates::measure(&list, &keys, pairs)? {
                Some(updates) => measured.updates.push((case.clone(), updates)),
                None => self.note("updates: there is only one processor".to_owned()),
            }
        }
        let outcome = self.outcome(case, list.rules.len(), &under_way.contenders, sets);
        measured.outcomes.push(outcome);
        Ok(())
    }

    /// Finds the right answers. The oracle says as many as it can in a reasonable time;
    /// where that is not all, the others are those of the first contender that agrees
    /// with it, and every other is held against them.
    fn judged(
        &self,
        list: &RuleList,
        keys: Vec<Key4>,
        contenders: &mut [Contender],
    ) -> Result<Headers, BenchError> {
        let work = if self.options.quick { QUICK_ORACLE_WORK } else { ORACLE_WORK };
        let known = decided(list, &keys[..keys.len().min(work / list.rules.len().max(1))]);
        if known.len() == keys.len() {
            return Ok(Headers { keys, expected: known });
        }
        let mut expected = vec![0; keys.len()];
        for contender in contenders.iter_mut().filter(|one| !one.linear) {
            let Some(matcher) = &mut contender.matcher else { continue };
            matcher.load(&keys).map_err(BenchError::WrongAnswer)?;
            let batch = Set::Memory.batch();
            for (index, rules) in expected.chunks_mut(batch).enumerate() {
                let first = index * batch;
                matcher.run(&keys[first..first + rules.len()], first, rules);
            }
            matcher.answers(&mut expected);
            if expected[..known.len()] == known {
                return Ok(Headers { keys, expected });
            }
            contender.is_wrong("answers are not the oracle's")?;
        }
        expected = decided(list, &keys);
        Ok(Headers { keys, expected })
    }

    /// Lists of growing size, cut from one set.
    fn crossover(&mut self) -> Result<Vec<Outcome>, BenchError> {
        let Some(ClassBench { list, .. }) = ClassBench::read(CUT, Form::Packets)? else {
            return Ok(Vec::new());
        };
        let mut outcomes = Vec::new();
        let step = if self.options.quick { 3 } else { 1 };
        for power in (0..=LARGEST_CUT).step_by(step) {
            let rules = 1_usize << power;
            eprintln!("{rules} rules of {}", CUT.name);
            let every = list.rules.len() / rules;
            let kept = list.rules.iter().step_by(every).take(rules).cloned().collect();
            let cut = RuleList { rules: kept, default: list.default };
            let keys = headers::draw(&cut, CACHED, Form::Packets, SEED);
            let others = headers::draw(&cut, OTHERS, Form::Packets, OTHERS_SEED);
            let mut contenders = engines::ours(&cut);
            contenders.retain(|contender| self.keeps(contender));
            let expected = decided(&cut, &keys);
            let headers = Headers { keys, expected };
            let trial = Trial::new(Set::Cache, headers, others, &contenders, |_| true);
            let rounds = self.rounds(Set::MemoryWide);
            let mut under_way = UnderWay { contenders, trials: vec![trial] };
            let measured = self.bench.measure(from_mut(&mut under_way), rounds)?;
            let sets = measured.into_iter().flatten().collect();
            let case = format!("{}-cut-{rules}", CUT.name);
            outcomes.push(self.outcome(case, rules, &under_way.contenders, sets));
        }
        Ok(outcomes)
    }

    /// Adds a note once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Says how the rows were measured.
    fn note_conditions(&mut self) {
        let [short, long] = [Set::Cache, Set::Memory].map(|set| self.rounds(set));
        let count = if self.options.quick { QUICK_IN_MEMORY } else { IN_MEMORY };
        self.note(format!(
            "{short} rounds, {long} on memory; in each, all engines match the same headers in the \
             same new order, and take turns in a new order; {count} different headers in memory, \
             {CACHED} of them in cache, drawn from and beside the rules by seed {SEED}; paper's \
             headers by seed {}",
            traffic::SEED
        ));
        self.note(format!(
            "times are of the time stamp counter, less the {:.1} ns that reading it takes; clock: \
             {:.2} GHz, the fastest of {} windows",
            self.bench.stopwatch().cost(),
            self.bench.clock.gigahertz(),
            self.bench.clock.windows(),
        ));
        if let Ok(environment) = dpdk::environment() {
            let pages = if environment.has_huge_pages() { "huge" } else { "ordinary" };
            self.note(format!("DPDK's heap lies in {pages} pages"));
        }
        if let Some(cache) = crate::machine::last_level_cache() {
            self.note(format!("the last level of the cache has {cache}"));
        }
        if self.options.quick {
            self.note("quick: lists of 1,000 rules only, fewer headers and rounds".to_owned());
        }
    }
}
