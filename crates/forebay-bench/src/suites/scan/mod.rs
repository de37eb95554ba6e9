//! Literals in payloads: our matcher beside Vectorscan and automata, on sets of rules' literals
//! and larger ones, over real, generated, random and hostile payloads.

mod answers;
mod engines;
pub mod literals;
mod report;
pub mod traffic;

use serde_json::json;

use crate::bar;
use crate::clock::nanos_of;
use crate::failure::{Result, ensure};
use crate::options::Options;
use crate::peers::vectorscan;
use crate::record::Record;
use crate::rounds::{Run, Trial};
use engines::{Input, Set};
use literals::{Rates, Sample, Text};
use traffic::{Kind, Traffic};

/// Literals of the sets, but those of all rules.
const DRAWN: [usize; 3] = [10, 100, 1_000];
const GENERATED: [usize; 3] = [10_000, 12_000, 100_000];

/// Sets and kinds of payloads of a quick run.
const QUICK: [usize; 3] = [100, 1_000, 12_000];

const ROUNDS: usize = 31;
const QUICK_ROUNDS: usize = 5;

/// Bytes of payloads of a kind, at most.
const BYTES: usize = 16 << 20;
const QUICK_BYTES: usize = 2 << 20;
/// Of those that are made.
const MADE_BYTES: usize = 4 << 20;

/// Values of rows.
const GBPS: &str = "gbps";
const HITS: &str = "hits";
const HITS_A_MEGABYTE: &str = "hits_per_mb";
const CANDIDATES_A_MEGABYTE: &str = "candidates_per_mb";

/// A set of literals with the end of its cases' names.
struct Literals {
    name: String,
    texts: Vec<Text>,
}

pub fn run(options: &Options) -> Result<Record> {
    let mut run = Run::new(options);
    let most = if options.quick { QUICK_BYTES } else { BYTES };
    let captured = Traffic::captured(&options.data, most)?;
    let texts = captured.texts();
    let sets = literal_sets(options, &Sample::new(&texts))?;
    for kind in Kind::ALL {
        let made = most.min(MADE_BYTES);
        let traffic = match kind {
            Kind::DevMix => None,
            Kind::Http => Some(Traffic::generated(made)?),
            Kind::Random => Some(Traffic::random(made)),
            Kind::Worst => None,
        };
        for set in &sets {
            let near = (kind == Kind::Worst).then(|| Traffic::near_misses(&set.texts, made));
            let traffic = traffic.as_ref().or(near.as_ref()).unwrap_or(&captured);
            measure(&mut run, kind, traffic, set)?;
        }
    }
    if let Ok(version) = vectorscan::version() {
        run.notes
            .push(format!("Vectorscan {version}, in the fastest of four variants for each case"));
    }
    run.note_conditions(format!(
        "{} rounds, in each of which every engine scans all payloads once, in an order drawn anew; \
         times are those of the thread, so that other programs do not count; every engine notes \
         each match",
        rounds(options)
    ));
    let Run { timing, mut results, notes, .. } = run;
    results.add_ratios("ratio", |_, _| Some(engines::VECTORSCAN.to_owned()));
    let bars = report::bars(&results);
    let shown = report::tables(&results) + &bar::text(&bars);
    let record = Record::new("scan", notes, results.0, Some(timing.clock.gigahertz()));
    Ok(Record { shown, summary: json!({ "bars": bars }), ..record })
}

fn rounds(options: &Options) -> usize {
    options.rounds.unwrap_or(if options.quick { QUICK_ROUNDS } else { ROUNDS })
}

/// The sets, smallest first.
fn literal_sets(options: &Options, sample: &Sample<'_>) -> Result<Vec<Literals>> {
    let rules = literals::of_rules(&options.data.join("ids-rules"))?;
    let named = |count: usize, texts| Literals { name: count.to_string(), texts };
    let is_measured = |count: &usize| !options.quick || QUICK.contains(count);
    let mut sets: Vec<Literals> = DRAWN
        .into_iter()
        .filter(is_measured)
        .map(|count| named(count, literals::drawn(&rules, count)))
        .collect();
    if !options.quick {
        sets.push(Literals { name: "all".to_owned(), texts: rules.clone() });
    }
    for count in GENERATED.into_iter().filter(is_measured) {
        sets.push(named(count, sample.generate(&rules, count)?));
    }
    Ok(sets)
}

/// Measures all sets of one case.
fn measure(run: &mut Run<'_>, kind: Kind, traffic: &Traffic, literals: &Literals) -> Result<()> {
    let case = format!("{kind}-{}", literals.name);
    let options = run.options;
    let is_wanted = |set: &Set| match kind {
        _ if !options.names(&case) => false,
        Kind::DevMix => !options.quick || *set == Set::Block,
        _ => *set == Set::Block && (!options.quick || literals.name == "12000"),
    };
    let wanted: Vec<Set> = Set::ALL.into_iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let texts = traffic.texts();
    let rates = Sample::new(&texts).rates(&literals.texts)?;
    let (streams, stream_count) = (traffic.streams.as_slice(), traffic.stream_count());
    let input = Input { texts: &texts, streams, stream_count };
    for set in wanted {
        eprintln!("{case} {set}: {} literals, {} bytes", literals.texts.len(), traffic.bytes());
        measure_set(run, (&case, set), traffic.bytes(), &input, (&literals.texts, rates))?;
    }
    Ok(())
}

fn measure_set(
    run: &mut Run<'_>,
    (case, set): (&str, Set),
    bytes: usize,
    input: &Input<'_>,
    (literals, rates): (&[Text], Rates),
) -> Result<()> {
    let mut all = engines::all(run.options, literals, set, input);
    let payloads = input.texts.len();
    let expected = answers::expected(literals, set, input)?;
    let mut trial = Trial::new(case, set, &all, |_| true);
    for _ in 0..rounds(run.options) {
        let number = run.timing.next_round();
        trial.round(number, &mut all, (payloads, false), |engine, _, _| {
            engine.reset(input.stream_count)?;
            let ((), nanos) = nanos_of(|| engine.run(input));
            let mut found = engine.found();
            found.sort_unstable();
            ensure!(found == expected, "{} matches instead of {}", found.len(), expected.len());
            Ok(nanos / payloads as f64)
        })?;
    }
    for contender in &all {
        run.notes.extend(contender.notes.iter().map(|note| format!("{case} {set}: {note}")));
    }
    run.add(trial, &all, |row| {
        let gbps = row.ns.map(|ns| bytes as f64 * 8.0 / (ns * payloads as f64));
        row.with(GBPS, gbps)
            .with(HITS, expected.len())
            .with(HITS_A_MEGABYTE, rates.hits)
            .with(CANDIDATES_A_MEGABYTE, rates.candidates)
    });
    Ok(())
}
