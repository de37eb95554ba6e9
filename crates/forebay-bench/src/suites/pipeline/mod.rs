//! A worker of the broker, from memory to memory on one processor: what it does with a
//! packet, and what each step of that takes.
//!
//! [`packets`] are what goes in, [`oracle`] knows what has to come out, [`stages`] makes
//! workers, [`measure`] runs them, and [`results`] makes something of the times.

mod measure;
mod oracle;
mod packets;
mod results;
mod stages;

use std::sync::Arc;

use forebay_balance::{Assignment, BUCKETS, Tally};
use forebay_filter::compile;
use forebay_jit::{Backend, FilterSet, Options as Code, cpu};
use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey, Interface, LinkType};
use forebay_pipeline::stages::CompiledRules;
use forebay_rules::choose::EngineName;
use forebay_rules::{Action, RuleList};
use serde_json::json;

use self::measure::{Times, Trial};
use self::oracle::{Expected, Oracle};
use self::results::Outcome;
use self::stages::{Setup, Stage};
use super::rules::lists;
use crate::bar::Bar;
use crate::clock::Clock;
use crate::record::Record;
use crate::{BenchError, Options};

/// The filter: its class is that of `port 3000`, which asks for the ports of three
/// protocols of two families.
const FILTER: &str = "port 3000";

/// Rounds of a full run, and of a quick one.
const ROUNDS: usize = 101;
const QUICK_ROUNDS: usize = 31;

/// Windows of the clock before anything is measured.
const FIRST_WINDOWS: usize = 50;

/// What is measured.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Where the packets lie.
    set: &'static str,
    /// Different packets, each a flow of its own.
    packets: usize,
    /// How often they go round in a run.
    passes: u64,
    /// Whether they are held against rules, too.
    with_rules: bool,
    /// What a flow is.
    affinity: Affinity,
    /// Million packets a second that are to enter at least, and that are aimed at.
    bar: Option<[f64; 2]>,
}

const CASES: [Case; 4] = [
    Case {
        name: "filter+balance",
        set: "mem",
        packets: 1 << 18,
        passes: 4,
        with_rules: false,
        affinity: Affinity::IpPair,
        bar: Some([60.0, 148.8]),
    },
    Case {
        name: "full",
        set: "mem",
        packets: 1 << 20,
        passes: 1,
        with_rules: true,
        affinity: Affinity::FiveTuple,
        bar: Some([14.88, 40.0]),
    },
    Case {
        name: "filter+balance",
        set: "mem-cache",
        packets: 1 << 13,
        passes: 128,
        with_rules: false,
        affinity: Affinity::IpPair,
        bar: None,
    },
    Case {
        name: "full",
        set: "mem-cache",
        packets: 1 << 13,
        passes: 128,
        with_rules: true,
        affinity: Affinity::FiveTuple,
        bar: None,
    },
];

/// Runs the suite.
pub fn run(options: &Options) -> Result<Record, BenchError> {
    let usual = if options.quick { QUICK_ROUNDS } else { ROUNDS };
    let rounds = options.filters.rounds.unwrap_or(usual);
    let only = options.filters.only.as_deref();
    let mut clock = Clock::default();
    clock.sample(FIRST_WINDOWS);
    let mut outcomes = Vec::new();
    for case in CASES.iter().filter(|case| only.is_none_or(|only| case.title().contains(only))) {
        eprintln!("{}: {} packets", case.title(), case.packets);
        outcomes.push(case.measure(rounds, &mut clock)?);
    }
    let gigahertz = clock.gigahertz();
    let mut notes = vec![
        format!(
            "packets of {} bytes, each a flow of its own, in slots of 2,112 bytes visited in \
             shuffled order; filter `{FILTER}`; {rounds} rounds of every prefix of the stages, in \
             new orders",
            packets::LEN
        ),
        format!("clock: {gigahertz:.2} GHz, the fastest of {} windows", clock.windows()),
    ];
    if let Some(cache) = crate::machine::last_level_cache() {
        notes.push(format!("the last level of the cache has {cache}"));
    }
    notes.extend(outcomes.iter().map(Outcome::note));
    let bars: Vec<Bar> = outcomes.iter().filter_map(Outcome::bar).collect();
    let rows = outcomes.iter().map(|one| one.row(gigahertz)).collect();
    let mut record = Record::new("pipeline", notes, rows);
    record.summary = Some(json!({ "bars": bars }));
    let table = results::table(&outcomes, gigahertz);
    record.shown = Some(bars.iter().fold(table, |shown, bar| shown + &bar.text()));
    Ok(record)
}

impl Case {
    /// What it is called.
    fn title(&self) -> String {
        format!("{}, {}", self.name, self.set)
    }

    /// Its stages.
    fn stages(&self) -> Vec<Stage> {
        let has = |stage: &Stage| self.with_rules || *stage != Stage::Rules;
        Stage::ALL.into_iter().filter(has).collect()
    }

    fn measure(&self, rounds: usize, clock: &mut Clock) -> Result<Outcome, BenchError> {
        let batches = packets::batches(self.packets)?;
        let list = if self.with_rules { Some(rules()?) } else { None };
        let assignment = stages::assignment();
        let options = DecodeOptions { affinity: self.affinity, ..DecodeOptions::default() };
        let decoder = Decoder::new(options);
        let hash_key = HashKey::OFFLINE;
        let oracle = Oracle {
            filter: &compile(FILTER, LinkType::ETHERNET)?,
            rules: list.as_deref(),
            decoder,
            hash_key,
            assignment: &assignment,
        };
        let expected = oracle
            .judge(&batches)
            .ok_or_else(|| BenchError::WrongAnswer("no packets".to_owned()))?;
        let setup = self.setup(list, decoder, hash_key, &assignment)?;
        let stages = self.stages();
        let (batches, passes) = (batches.as_slice(), self.passes);
        let trial = Trial { setup: &setup, stages: &stages, batches, expected: &expected, passes };
        trial.check()?;
        let times = trial.measure(rounds, clock)?;
        // Once was for the check.
        counted(&setup, &expected, times.counted + 1)?;
        Ok(self.outcome(stages, &expected, times))
    }

    fn setup(
        &self,
        list: Option<Arc<RuleList>>,
        decoder: Decoder,
        hash_key: HashKey,
        assignment: &Assignment,
    ) -> Result<Setup, BenchError> {
        let refused = |error: &dyn std::error::Error| BenchError::WrongAnswer(error.to_string());
        let code = Code::new(Backend::Auto, None).map_err(|error| refused(&error))?;
        let mut filter = FilterSet::new(FILTER, code);
        filter.prepare(&[Interface::default()]).map_err(|error| refused(&error))?;
        let compiled_rules = match list {
            Some(list) => {
                let engine = EngineName::Auto
                    .build(&list, cpu::detect())
                    .map_err(|error| refused(&error))?;
                Some(CompiledRules::new(list, engine))
            }
            None => None,
        };
        let connections = self.affinity == Affinity::FiveTuple;
        let forwarding = stages::forwarding(assignment);
        Ok(Setup { filter, compiled_rules, decoder, hash_key, connections, forwarding })
    }

    fn outcome(&self, stages: Vec<Stage>, expected: &Expected, times: Times) -> Outcome {
        Outcome {
            case: self.name,
            set: self.set,
            bar: self.bar,
            packets: expected.packets,
            hits: expected.packets - expected.misses,
            output: expected.output(),
            stages,
            times,
        }
    }
}

/// The paper's list of 71 rules, as a broker would have it: what no rule rejects passes.
fn rules() -> Result<Arc<RuleList>, BenchError> {
    let lists = lists::paper()?;
    let longest = lists.into_iter().max_by_key(|list| list.rules.len());
    let list = longest.ok_or_else(|| BenchError::WrongAnswer("no lists".to_owned()))?;
    Ok(Arc::new(RuleList { default: Action::Pass, ..list }))
}

/// Holds the counters of all buckets against what they should be after so many rounds.
fn counted(setup: &Setup, expected: &Expected, passes: u64) -> Result<(), BenchError> {
    let counters = setup.forwarding.counters();
    for bucket in 0..BUCKETS {
        let (packets, bytes) = (expected.buckets[bucket], expected.bytes[bucket]);
        let should = Tally::new(packets * passes, bytes * passes);
        let tally = counters.tally(bucket as u16);
        if tally != should {
            return Err(BenchError::WrongAnswer(format!(
                "bucket {bucket} counted {tally:?} instead of {should:?}"
            )));
        }
    }
    Ok(())
}
