//! Rule lists: the paper's comparison of scans, and ClassBench's sets beside DPDK.

pub mod engines;
pub mod frames;
pub mod headers;
pub mod lists;

mod measure;
mod paper;
mod report;
mod updates;

pub use engines::probe;

use std::hint::black_box;
use std::path::Path;

use forebay_packet::random::Random;
use forebay_rules::RuleList;
use forebay_rules::packed::Key4;
use serde_json::json;

use crate::bar;
use crate::failure::{During, Result, ensure};
use crate::options::Options;
use crate::peers::dpdk;
use crate::peers::matcher::Matcher;
use crate::record::{Record, Row};
use crate::rounds::{Contender, Role, Run};
use engines::{ACL, Contenders, NAIVE, TREE, first_match, is_linear};
use frames::{FRAME, frame, parsed};
use headers::HeaderKind;
use lists::{CLASSBENCH, ClassBench, Source};
use measure::{Headers, OnSet, Set, UnderWay, measure};
use report::Report;

/// Rounds where a round is short, and of a million headers.
const ROUNDS: [usize; 2] = [101, 31];
const QUICK_ROUNDS: [usize; 2] = [31, 31];

/// Headers drawn for `memory`, in a quick run, and those for `cache`.
const IN_MEMORY: usize = 1_000_000;
const QUICK_IN_MEMORY: usize = 100_000;
const CACHED: usize = 16_384;

/// Headers to warm up with.
const OTHERS: usize = 65_536;

/// The seeds that headers are drawn with.
const SEED: u64 = 20_261_121;
const OTHERS_SEED: u64 = 20_261_122;

/// Headers times rules that the oracle decides for one list.
const ORACLE_WORK: usize = 1_000_000_000;
const QUICK_ORACLE_WORK: usize = 200_000_000;

/// Lists up to this size are scanned, too.
const MOST_SCANNED: usize = 1_100;

/// The set that lists are cut from, up to this power of two.
const CUT: Source = CLASSBENCH[3];
const LARGEST_CUT: u32 = 12;

/// Turns of windows with and without changes to the list.
const TURNS: usize = 41;
const QUICK_TURNS: usize = 31;

struct Suite<'a>(Run<'a>);

pub fn run(options: &Options) -> Result<Record> {
    let folder = tempfile::tempdir().during("making a folder")?;
    let mut suite = Suite(Run::new(options));
    let alphas = suite.compare(folder.path())?;
    let mut classbench = Vec::new();
    for source in CLASSBENCH {
        for kind in HeaderKind::ALL {
            let case = source.case(kind);
            if suite.wants(&case, source) {
                eprintln!("{case}");
                if suite.classbench(source, kind, &case)? {
                    classbench.push(case);
                }
            }
        }
    }
    if options.names("parse") {
        suite.parsing()?;
    }
    let cuts = if options.names("crossover") { suite.crossover()? } else { Vec::new() };
    suite.note_conditions();
    let Run { timing, mut results, notes, .. } = suite.0;
    results.add_ratios("ratio", |results, row| {
        let peers = match &row.case {
            _ if row.set.starts_with("updates-") => return None,
            case if case.starts_with("paper-") => NAIVE,
            case if case.contains("-cut-") => TREE,
            _ => ACL,
        };
        let best = results.best(&row.case, &row.set, |name| name.starts_with(peers));
        best.map(|best| best.engine.clone())
    });
    let gigahertz = timing.clock.gigahertz();
    let lines = paper::lines(&results, &alphas, gigahertz);
    for row in &mut results.0 {
        let is_paper = row.case.starts_with("paper-");
        let of_row = |line: &&paper::Line| line.engine == row.engine && line.set == row.set;
        if let Some(line) = lines.iter().find(of_row).filter(|_| is_paper) {
            row.more.insert("t_o".into(), json!(line.t_o));
            row.more.insert("t_p".into(), json!(line.t_p));
            row.more.insert("t_p_spread".into(), json!(line.t_p_spread));
        }
    }
    let (results, alphas, cuts) = (&results, &alphas[..], &cuts[..]);
    let report = Report { results, lines: &lines, alphas, classbench: &classbench, cuts };
    if let Some(folder) = &options.plots {
        report.figures(folder)?;
    }
    let bars = report.bars();
    let shown = report.tables() + &bar::text(&bars);
    let summary = json!({ "lines": lines, "bars": bars });
    let record = Record::new("rules", notes, results.0.clone(), Some(gigahertz));
    Ok(Record { shown, summary, ..record })
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
    fn wants(&self, case: &str, source: Source) -> bool {
        let quick = self.0.options.quick && self.0.options.only.is_none();
        self.0.options.names(case) && !(quick && source.rules > 1_000)
    }

    fn keeps(&self, contender: &Contender<dyn Matcher>) -> bool {
        let wanted = &self.0.options.engines;
        wanted.is_empty() || wanted.contains(&contender.name)
    }

    /// Whether a list is to be changed: in a quick run, only the first.
    fn updates_are_wanted(&self, source: Source) -> bool {
        let wanted = &self.0.options.engines;
        let quick = self.0.options.quick && self.0.options.only.is_none();
        (wanted.is_empty() || wanted.iter().any(|name| name == TREE))
            && !(quick && source != CLASSBENCH[0])
    }

    fn rounds(&self, set: Set) -> usize {
        let [short, long] = if self.0.options.quick { QUICK_ROUNDS } else { ROUNDS };
        self.0.options.rounds.unwrap_or(if set.is_sliced() { long } else { short })
    }

    /// The paper's comparison, in which all lists are measured in each round. Returns α of
    /// each list.
    fn compare(&mut self, folder: &Path) -> Result<Vec<f64>> {
        if !self.0.options.names("paper") {
            return Ok(Vec::new());
        }
        eprintln!("the paper's lists");
        let keys = headers::of_paper();
        let (mut lists, mut alphas) = (Vec::new(), Vec::new());
        for list in lists::paper()? {
            let mut contenders = engines::naive_c(&list, folder);
            contenders.extend(engines::ours(&list));
            contenders.retain(|contender| self.keeps(contender));
            let expected = decided(&list, &keys);
            alphas.push(paper::alpha(&expected, list.rules.len()));
            let others = headers::draw(&list, OTHERS, HeaderKind::Packets, OTHERS_SEED);
            let headers = Headers { keys: keys.clone(), expected };
            let sets = paper::SETS.map(|set| {
                let in_cache = |one: &Contender<_>| set == Set::Cache || one.role == Role::Ours;
                let case = paper::case(list.rules.len());
                OnSet::new(&case, (set, headers.clone()), &contenders, in_cache)
            });
            lists.push(UnderWay { contenders, others, sets: sets.into() });
        }
        let first = self.0.results.0.len();
        self.measure(&mut lists, &paper::SIZES, self.rounds(Set::Cache))?;
        for row in &mut self.0.results.0[first..] {
            let list = paper::SIZES.iter().position(|&rules| row.case == paper::case(rules));
            let alpha = list.map(|list| alphas[list]);
            row.more.insert("alpha".into(), json!(alpha));
        }
        Ok(alphas)
    }

    /// Measures lists of so many rules, and adds their rows and notes.
    fn measure(&mut self, lists: &mut [UnderWay], rules: &[usize], rounds: usize) -> Result<()> {
        let mut trials = measure(&mut self.0.timing, lists, rounds)?.into_iter();
        for (list, rules) in lists.iter().zip(rules) {
            for (on, trial) in list.sets.iter().zip(&mut trials) {
                let (headers, matched) = on.matched();
                let notes = list.contenders.iter().flat_map(|contender| &contender.notes);
                self.0.notes.extend(notes.map(|note| format!("{note} ({})", trial.case)));
                self.0.add(trial, &list.contenders, |row| {
                    row.with("rules", rules).with("headers", headers).with("matched", matched)
                });
            }
        }
        Ok(())
    }

    /// Measures one of ClassBench's sets. Returns whether it is there.
    fn classbench(&mut self, source: Source, kind: HeaderKind, case: &str) -> Result<bool> {
        let set = ClassBench::read(&self.0.options.data, source, kind)?;
        let Some(ClassBench { list, trace, expected }) = set else {
            self.0.notes.push("ClassBench's sets are not in the folder of the data".to_owned());
            return Ok(false);
        };
        let count = if self.0.options.quick { QUICK_IN_MEMORY } else { IN_MEMORY };
        let keys = headers::draw(&list, count, kind, SEED);
        let mut contenders = engines::ours(&list);
        let scans = list.rules.len() <= MOST_SCANNED && !self.0.options.quick;
        contenders.retain(|one| scans || !is_linear(one));
        contenders.extend(engines::rte_acl(source, &list, kind, &keys)?);
        contenders.retain(|contender| self.keeps(contender));
        let headers = self.judged(&list, keys.clone(), &mut contenders)?;
        let traced = self.judged(&list, trace, &mut contenders)?;
        let is_known = expected.is_none_or(|expected| expected == traced.expected);
        ensure!(is_known, "{case}: not the trace's known results");
        let cached = Headers {
            keys: headers.keys.iter().copied().take(CACHED).collect(),
            expected: headers.expected.iter().copied().take(CACHED).collect(),
        };
        let others = headers::draw(&list, OTHERS, kind, OTHERS_SEED);
        let mut list_under_way = UnderWay { contenders, others, sets: Vec::new() };
        for set in [Set::Cache, Set::Memory, Set::MemoryWide, Set::Trace] {
            if set == Set::MemoryWide && self.0.options.quick {
                continue;
            }
            // Calls of many headers are tried with the fastest peer only.
            let peer = self.0.results.best(case, "memory", |name| name.starts_with(ACL));
            let peer = peer.map(|row| row.engine.as_str());
            let takes_part = |one: &Contender<dyn Matcher>| match set {
                Set::Cache => true,
                Set::MemoryWide => {
                    !is_linear(one) && (one.role == Role::Ours || Some(one.name.as_str()) == peer)
                }
                _ => !is_linear(one),
            };
            let headers = match set {
                Set::Cache => cached.clone(),
                Set::Trace => traced.clone(),
                _ => headers.clone(),
            };
            let on = OnSet::new(case, (set, headers), &list_under_way.contenders, takes_part);
            list_under_way.sets = vec![on];
            let rounds = self.rounds(set);
            self.measure(std::slice::from_mut(&mut list_under_way), &[list.rules.len()], rounds)?;
        }
        if kind == HeaderKind::Packets && self.updates_are_wanted(source) {
            let turns = if self.0.options.quick { QUICK_TURNS } else { TURNS };
            match updates::measure(case, &list, &keys, turns)? {
                Some(rows) => self.0.results.0.extend(rows),
                None => self.0.notes.push("updates: there is only one processor".to_owned()),
            }
        }
        Ok(true)
    }

    /// Finds the right answers. The oracle decides as many headers as it can in a reasonable
    /// time; where these are not all, the other answers are those of the first contender that
    /// agrees with it, and every other is compared with them.
    fn judged(
        &self,
        list: &RuleList,
        keys: Vec<Key4>,
        contenders: &mut Contenders,
    ) -> Result<Headers> {
        let work = if self.0.options.quick { QUICK_ORACLE_WORK } else { ORACLE_WORK };
        let known = decided(list, &keys[..keys.len().min(work / list.rules.len().max(1))]);
        if known.len() == keys.len() {
            return Ok(Headers { keys, expected: known });
        }
        let mut expected = vec![0; keys.len()];
        for contender in contenders.iter_mut().filter(|one| !is_linear(one)) {
            let Some(matcher) = &mut contender.engine else { continue };
            matcher.load(&keys)?;
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
            contender.engine = None;
        }
        expected = decided(list, &keys);
        Ok(Headers { keys, expected })
    }

    /// Lists of growing size, cut from one set. Returns the cases with their rules.
    fn crossover(&mut self) -> Result<Vec<(String, usize)>> {
        let set = ClassBench::read(&self.0.options.data, CUT, HeaderKind::Packets)?;
        let Some(ClassBench { list, .. }) = set else { return Ok(Vec::new()) };
        let mut cases = Vec::new();
        let step = if self.0.options.quick { 3 } else { 1 };
        for power in (0..=LARGEST_CUT).step_by(step) {
            let rules = 1_usize << power;
            eprintln!("{rules} rules of {}", CUT.name);
            let every = list.rules.len() / rules;
            let kept = list.rules.iter().step_by(every).take(rules).cloned().collect();
            let cut = RuleList { rules: kept, default: list.default };
            let keys = headers::draw(&cut, CACHED, HeaderKind::Packets, SEED);
            let others = headers::draw(&cut, OTHERS, HeaderKind::Packets, OTHERS_SEED);
            let mut contenders = engines::ours(&cut);
            contenders.retain(|contender| self.keeps(contender));
            let expected = decided(&cut, &keys);
            let case = format!("{}-cut-{rules}", CUT.name);
            let on = (Set::Cache, Headers { keys, expected });
            let sets = vec![OnSet::new(&case, on, &contenders, |_| true)];
            let rounds = self.rounds(Set::MemoryWide);
            self.measure(&mut [UnderWay { contenders, others, sets }], &[rules], rounds)?;
            cases.push((case, rules));
        }
        Ok(cases)
    }

    /// Parses frames of the paper's headers, one after another in memory, in a new order each
    /// round: engines are timed without that.
    fn parsing(&mut self) -> Result<()> {
        let (headers, stopwatch) = (headers::of_paper(), self.0.timing.stopwatch);
        let mut times = Vec::new();
        for round in 0..self.rounds(Set::Cache) {
            let order = Random::new(round as u64).draw(headers.len(), headers.len());
            let keys: Vec<Key4> = order.iter().map(|&i| headers[i as usize]).collect();
            let frames: Vec<u8> = keys.iter().flat_map(frame).collect();
            let mut found = vec![None; keys.len()];
            let ticks = stopwatch.ticks(|| {
                for (frame, found) in frames.chunks_exact(FRAME).zip(&mut found) {
                    *found = parsed(black_box(frame));
                }
            });
            times.push(stopwatch.nanos(ticks) / keys.len() as f64);
            ensure!(found.iter().flatten().eq(&keys), "packets parsed to other keys");
            self.0.timing.clock.sample(1);
        }
        self.0.results.0.push(Row::new("parse", Set::Cache, "key", times));
        Ok(())
    }

    fn note_conditions(&mut self) {
        let [short, long] = [Set::Cache, Set::Memory].map(|set| self.rounds(set));
        let count = if self.0.options.quick { QUICK_IN_MEMORY } else { IN_MEMORY };
        let rounds = format!(
            "{short} rounds, {long} on memory; in each, all engines match the same headers in the \
             same new order, and take turns in a new order; {count} different headers in memory, \
             {CACHED} of them in cache, drawn from and beside the rules by seed {SEED}; paper's \
             headers by seed {}",
            headers::SEED
        );
        self.0.note_conditions(rounds);
        if let Ok(environment) = dpdk::environment() {
            let pages = if environment.huge_pages { "huge" } else { "ordinary" };
            self.0.notes.push(format!("DPDK's heap lies in {pages} pages"));
        }
        if self.0.options.quick {
            let note = "quick: lists of 1,000 rules only, fewer headers and rounds";
            self.0.notes.push(note.to_owned());
        }
    }
}
