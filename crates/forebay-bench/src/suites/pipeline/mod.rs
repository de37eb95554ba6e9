//! A worker of the broker, from memory to memory on one processor: the time of each stage.

mod measure;
mod oracle;
mod packets;
mod scanning;
mod stages;

use std::path::Path;
use std::sync::Arc;

use forebay_balance::{BUCKETS, Tally};
use forebay_filter::compile;
use forebay_jit::{Backend, FilterSet, Options as Code, cpu};
use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey, Interface, LinkType};
use forebay_pipeline::stages::CompiledRules;
use forebay_rules::choose::EngineName;
use forebay_rules::{Action, RuleList};
use serde_json::{Map, json};

use self::measure::{Times, Trial};
use self::oracle::{Expected, Oracle};
use self::scanning::Matcher;
use self::stages::{KeptFlows, Setup, Stage};
use super::rules::lists;
use super::scan::traffic::Traffic;
use crate::bar::{self, Bar};
use crate::clock::Clock;
use crate::failure::{Result, ensure};
use crate::options::Options;
use crate::record::{Record, Row, cache_note};
use crate::stats::Sample;
use crate::table::{number, range, table};

/// The filter, which tests the ports of three protocols of two families.
const FILTER: &str = "port 3000";

/// Rounds of a full run, and of a quick one.
const ROUNDS: usize = 101;
const QUICK_ROUNDS: usize = 31;

/// Windows of the clock before anything is measured.
const FIRST_WINDOWS: usize = 50;

#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    set: &'static str,
    /// Different packets, each a flow of its own unless they are `connections`.
    packets: usize,
    /// Packets are those of TCP connections from their start on, in order.
    connections: bool,
    /// Passes of the packets in a run.
    passes: u64,
    /// Whether rules are matched, too.
    with_rules: bool,
    /// Whether flows have records and a cutoff, too.
    with_flows: bool,
    /// Whether payloads are scanned, too.
    with_scan: bool,
    /// Bytes of a packet.
    len: usize,
    /// Flows of others that are shunted by hand.
    shunted: usize,
    affinity: Affinity,
    /// Bar and aim for the million packets a second that enter.
    bar: Option<[f64; 2]>,
}

/// The cases: from memory, and over so few packets that the second level of the cache holds.
const CASES: [Case; 12] = [
    FILTERED,
    FULL,
    WITH_FLOWS,
    SHUNTED,
    WITH_SCAN,
    Case { set: "mem-1500", len: packets::LARGE, ..WITH_SCAN },
    CONNECTIONS,
    Case { set: "flows-1500", len: packets::LARGE, ..CONNECTIONS },
    FILTERED.in_cache(),
    FULL.in_cache(),
    WITH_FLOWS.in_cache(),
    SHUNTED.in_cache(),
];

const FILTERED: Case = Case {
    name: "filter+balance",
    set: "mem",
    packets: 1 << 18,
    connections: false,
    passes: 4,
    with_rules: false,
    with_flows: false,
    with_scan: false,
    len: packets::LEN,
    shunted: 0,
    affinity: Affinity::IpPair,
    bar: Some([60.0, 148.8]),
};

const FULL: Case = Case {
    name: "full",
    packets: 1 << 20,
    passes: 1,
    with_rules: true,
    affinity: Affinity::FiveTuple,
    bar: Some([14.88, 40.0]),
    ..FILTERED
};

const WITH_FLOWS: Case =
    Case { name: "full+flow", with_flows: true, bar: Some([14.88, 14.88]), ..FULL };

const SHUNTED: Case = Case { name: "full+shunt", shunted: 100_000, bar: None, ..FULL };

/// Fewer packets than `full`, as each run begins with an empty table of flows. In one pass: segments
/// that come again are retransmissions, which no matcher gets.
const WITH_SCAN: Case =
    Case { name: "full+scan", packets: 1 << 18, passes: 1, with_scan: true, bar: None, ..FULL };

/// Connections from their start, side by side, so that no batch has two segments of one.
const CONNECTIONS: Case = Case { set: "flows", connections: true, ..WITH_SCAN };

/// The most nanoseconds that a scanned packet takes above the matcher's own time.
const MOST_ABOVE_MATCHER: f64 = 80.0;

/// The most of a packet's time that flows of others which are shunted by hand may take.
const MOST_OF_SHUNTED: f64 = 0.03;

pub fn run(options: &Options) -> Result<Record> {
    let usual = if options.quick { QUICK_ROUNDS } else { ROUNDS };
    let rounds = options.rounds.unwrap_or(usual);
    let only = options.only.as_deref().unwrap_or_default();
    let mut clock = Clock::default();
    clock.sample(FIRST_WINDOWS);
    let (mut measured, mut absent) = (Vec::new(), Vec::new());
    for case in CASES.iter().filter(|case| case.title().contains(only)) {
        eprintln!("{}: {} packets", case.title(), case.packets);
        match case.measure(rounds, &options.data, &mut clock)? {
            Some((expected, times)) => measured.push((case, expected, times)),
            None => absent.push(case),
        }
    }
    let gigahertz = clock.gigahertz();
    let bar = |(case, _, times): &(&Case, Expected, Times)| {
        let [least, aim] = case.bar?;
        let what = format!("{}: million packets a second that enter, aim {aim}", case.name);
        Some(Bar::at_least(what, least, 1e3 / whole(times).median()))
    };
    let share = |(case, _, times): &(&Case, Expected, Times)| {
        // From memory alone, as the other bars.
        let share = case.share_of_shunted(times).filter(|_| case.set == FULL.set)?;
        let what = format!("{}: part of a packet's time that shunted flows take", case.name);
        Some(Bar::at_most(what, MOST_OF_SHUNTED, share))
    };
    let above = |(case, expected, times): &(&Case, Expected, Times)| {
        let above = case.above_matcher(expected, times)?;
        let what = format!("{}: nanoseconds above the matcher's for a packet", case.title());
        Some(Bar::at_most(what, MOST_ABOVE_MATCHER, above))
    };
    let bars = measured.iter().filter_map(bar).chain(measured.iter().filter_map(share));
    let bars: Vec<Bar> = bars.chain(measured.iter().filter_map(above)).collect();
    let rows = measured.iter().map(|(case, expected, times)| case.row(expected, times, gigahertz));
    let without = |case: &&Case| Row::new(case.name, case.set, "forebay", Vec::new());
    let rows = rows.chain(absent.iter().map(without));
    let lines = measured.iter().map(|(case, _, times)| case.line(times, gigahertz)).collect();
    let notes = measured.iter().map(|(case, expected, times)| case.note(expected, times));
    let conditions = [
        format!(
            "packets of {} bytes (of {} in the sets mem-1500 and flows-1500), each a flow of its \
             own (in the sets flows and flows-1500 TCP connections of {} packets from their start \
             on, all side by side), in slots of 2,112 bytes visited in shuffled order; filter \
             `{FILTER}`; {rounds} rounds of every prefix of the stages, in new orders; times are \
             those of the thread, so that other programs do not count",
            packets::LEN,
            packets::LARGE,
            packets::SEGMENTS,
        ),
        format!("clock: {gigahertz:.2} GHz, the fastest of {} windows", clock.windows()),
    ];
    let without = |case: &&Case| {
        format!("{}: not measured: no rules to scan for; FOREBAY_DATA names them", case.title())
    };
    let notes = notes.chain(absent.iter().map(without));
    let notes = conditions.into_iter().chain(cache_note()).chain(notes).collect();
    let mut headings = vec!["case", "set", "Mpps", "10%–90%", "cycles"];
    headings.extend(Stage::ALL.map(Stage::name));
    let shown = table("", 2, &headings, lines) + &bar::text(&bars);
    let record = Record::new("pipeline", notes, rows.collect(), Some(gigahertz));
    Ok(Record { shown, summary: json!({ "bars": bars }), ..record })
}

/// Nanoseconds a packet that enters, of all stages.
fn whole(times: &Times) -> Sample {
    Sample::new(times.prefixes.last().cloned().unwrap_or_default())
}

impl Case {
    const fn in_cache(self) -> Self {
        Self { set: "mem-cache", packets: 1 << 13, passes: 128, bar: None, ..self }
    }

    fn title(&self) -> String {
        format!("{}, {}", self.name, self.set)
    }

    fn stages(&self) -> Vec<Stage> {
        let has = |stage: &Stage| match stage {
            Stage::Rules => self.with_rules,
            Stage::Flows => self.with_flows,
            Stage::Scan => self.with_scan,
            Stage::Overrides => self.shunted > 0,
            _ => true,
        };
        Stage::ALL.into_iter().filter(has).collect()
    }

    /// None without the rules that payloads are scanned for.
    fn measure(
        &self,
        rounds: usize,
        data: &Path,
        clock: &mut Clock,
    ) -> Result<Option<(Expected, Times)>> {
        let traffic = if self.with_scan { scanning::payloads()? } else { Traffic::default() };
        let scan = match self.with_scan {
            true => match scanning::compile(data, &traffic)? {
                Some(scan) => Some(scan),
                None => return Ok(None),
            },
            false => None,
        };
        let make = if self.connections { packets::connections } else { packets::batches };
        let batches = make(self.packets, self.len, &traffic.texts().concat())?;
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
        let expected = oracle.judge(&batches).ok_or("no packets")?;
        let mut filter = FilterSet::new(FILTER, Code::new(Backend::Auto, None)?.for_rings());
        filter.require(0, &Interface::default())?;
        let compile = |list: Arc<RuleList>| -> Result<CompiledRules> {
            let engine = EngineName::Auto.build(&list, cpu::detect())?;
            Ok(CompiledRules::new(list, engine))
        };
        let compiled_rules = list.map(compile).transpose()?;
        let connections = self.affinity == Affinity::FiveTuple;
        let forwarding = stages::forwarding(&assignment);
        let flows = self.with_flows.then(KeptFlows::default);
        let shunted = (self.shunted > 0).then(|| stages::shunted(self.shunted, &hash_key));
        let setup = Setup {
            filter,
            compiled_rules,
            decoder,
            hash_key,
            connections,
            forwarding,
            flows,
            scan,
            shunted,
        };
        let stages = self.stages();
        let (batches, passes) = (batches.as_slice(), self.passes);
        let scanner = setup.scan.as_ref().map(|scan| scan.scanner());
        let matcher = scanner.map(|scanner| Matcher::new(scanner, &decoder, &expected));
        let trial =
            Trial { setup: &setup, stages: &stages, batches, expected: &expected, passes, matcher };
        trial.check()?;
        let times = trial.measure(rounds, clock)?;
        // One pass more was that of the check.
        counted(&setup, &expected, times.counted + 1)?;
        Ok(Some((expected, times)))
    }

    /// Nanoseconds that the stage takes for a packet that it scans, above those of the matcher.
    fn above_matcher(&self, expected: &Expected, times: &Times) -> Option<f64> {
        let place = self.stages().iter().position(|stage| *stage == Stage::Scan)?;
        let scanned = expected.output() as f64 / expected.packets as f64;
        Some(times.steps().get(place)? / scanned - Sample::new(times.matcher.clone()).median())
    }

    /// The part of a packet's time in which it is looked up among shunted flows.
    fn share_of_shunted(&self, times: &Times) -> Option<f64> {
        let place = self.stages().iter().position(|stage| *stage == Stage::Overrides)?;
        Some(times.steps().get(place)? / whole(times).median())
    }

    /// Nanoseconds a packet of each stage, by place among all stages.
    fn steps(&self, times: &Times) -> [Option<f64>; Stage::ALL.len()] {
        let (stages, steps) = (self.stages(), times.steps());
        Stage::ALL.map(|stage| steps.get(stages.iter().position(|one| *one == stage)?).copied())
    }

    fn row(&self, expected: &Expected, times: &Times, gigahertz: f64) -> Row {
        let named = Stage::ALL.into_iter().map(Stage::name).zip(self.steps(times));
        let stage_cycles: Map<String, serde_json::Value> = named
            .filter_map(|(name, nanos)| Some((name.to_owned(), json!(nanos? * gigahertz))))
            .collect();
        let whole = whole(times);
        let nanos = times.prefixes.last().cloned().unwrap_or_default();
        let row = Row::new(self.name, self.set, "forebay", nanos);
        let row = match self.above_matcher(expected, times) {
            Some(above) => row
                .with("matcher_ns", Sample::new(times.matcher.clone()).median())
                .with("above_matcher_ns", above),
            None => row,
        };
        row.with("gbps", self.len as f64 * 8.0 / whole.median())
            .with("pps", 1e9 / whole.median())
            .with("pps_best", 1e9 / whole.quantile(0.0))
            .with("packets", expected.packets)
            .with("hits", expected.packets - expected.misses)
            .with("sent", expected.output())
            .with("touch_ns", Sample::new(times.touch.clone()).median())
            .with("stage_cycles", stage_cycles)
    }

    /// The case in the table: cycles a packet that enters, of each stage.
    fn line(&self, times: &Times, gigahertz: f64) -> Vec<String> {
        let whole = whole(times);
        let [fast, slow] = whole.spread();
        let mut cells = vec![
            self.name.to_owned(),
            self.set.to_owned(),
            number(Some(1e3 / whole.median())),
            range([1e3 / slow, 1e3 / fast]),
            number(Some(whole.median() * gigahertz)),
        ];
        let steps = self.steps(times).map(|nanos| number(nanos.map(|nanos| nanos * gigahertz)));
        cells.extend(steps);
        cells
    }

    /// The conditions of the case.
    fn note(&self, expected: &Expected, times: &Times) -> String {
        let packets = expected.packets;
        let percent = |part: u64| 100.0 * part as f64 / packets as f64;
        let (touch, stolen) = (times.touch.clone(), Sample::new(times.stolen.clone()));
        let touch = Sample::new(touch).median();
        format!(
            "{}: {packets} packets, {:.1}% pass the filter, {:.1}% are sent; best round {:.1} Mpps; \
             a plain loop that reads one byte of each takes {touch:.1} ns, {:.1} Mpps; an idle loop \
             lost {:.1}% of its time in the middle round, {:.1}% in the tenth worst of a hundred",
            self.title(),
            percent(packets - expected.misses),
            percent(expected.output()),
            1e3 / whole(times).quantile(0.0),
            1e3 / touch,
            100.0 * stolen.median(),
            100.0 * stolen.quantile(0.9),
        )
    }
}

/// The paper's list of 71 rules; packets that no rule rejects pass.
fn rules() -> Result<Arc<RuleList>> {
    let lists = lists::paper()?;
    let longest = lists.into_iter().max_by_key(|list| list.rules.len());
    let list = longest.ok_or("no lists")?;
    Ok(Arc::new(RuleList { default: Action::Pass, ..list }))
}

/// Compares the counters of all buckets with what is expected of so many passes.
fn counted(setup: &Setup, expected: &Expected, passes: u64) -> Result<()> {
    let counters = setup.forwarding.counters();
    for bucket in 0..BUCKETS {
        let (packets, bytes) = (expected.buckets[bucket], expected.bytes[bucket]);
        let should = Tally::new(packets * passes, bytes * passes);
        let tally = counters.tally(bucket as u16);
        ensure!(tally == should, "bucket {bucket} counted {tally:?} instead of {should:?}");
    }
    Ok(())
}
