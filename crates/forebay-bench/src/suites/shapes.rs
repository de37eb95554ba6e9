//! Rule lists that are hard on classifiers, with the instructions of every level.
//!
//! The shapes are those that the tests of `forebay-rules` draw, and so are the headers. Each is
//! built and measured in a process of its own, so that the peak of memory is its own. Times are
//! those of the thread, so that other work on the machine does not count, and are shown beside
//! the estimate of the classifier when it was built.

#[path = "../../../forebay-rules/tests/support/draw.rs"]
mod draw;
#[path = "../../../forebay-rules/tests/support/headers.rs"]
mod headers;
#[path = "../../../forebay-rules/tests/support/lists.rs"]
mod lists;

use std::hint::black_box;
use std::time::Duration;

use draw::Draw;
use forebay_codegen::code::Isa;
use forebay_jit::cpu;
use forebay_packet::BATCH;
use forebay_rules::RuleList;
use forebay_rules::engine::{Engine as _, NO_RULE};
use forebay_rules::key::Key;
use forebay_rules::packed::{Key4, Key6, Packed};
use forebay_rules::tree::Tree;
use headers::Header;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::failure::{During, Failure, Result, ensure};
use crate::options::Options;
use crate::peers::process::{self, own_high_water, restart_high_water};
use crate::record::{Record, Row};
use crate::stats::Sample;
use crate::table::table;

/// Rules of a list, and of one whose rules have 512 ranges of addresses each.
const RULES: usize = 100_000;
const QUICK_RULES: usize = 10_000;
const WIDE_RULES: usize = 1_000;

/// Headers of a round, and those that are compared with the oracle.
const HEADERS: usize = 1 << 15;
const CHECKED: usize = 100;

const ROUNDS: usize = 7;
const SEED: u64 = 20_261_123;

/// The time of a process for one shape.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// How headers are drawn.
const SETS: [&str; 2] = ["near", "mixed"];

/// The measurement of a shape.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    rules: usize,
    /// Rules that are matched by their ranges.
    ranged: usize,
    build_s: f64,
    /// Memory that building added to the process.
    peak_mib: f64,
    bytes: usize,
    levels: Vec<Level>,
}

/// The measurement at one instruction-set level.
#[derive(Debug, Serialize, Deserialize)]
struct Level {
    isa: String,
    /// The classifier's own estimate, in packets a second.
    estimate: u64,
    /// Nanoseconds a packet of each round, on each of [`SETS`].
    nanos: [Vec<f64>; 2],
}

impl Level {
    /// Packets a second on the set that takes longest.
    fn rate(&self) -> f64 {
        let [near, mixed] = self.nanos.each_ref().map(|nanos| Sample::new(nanos.clone()).median());
        1e9 / near.max(mixed)
    }
}

pub fn run(options: &Options) -> Result<Record> {
    let mut all: Vec<(&str, Measured)> = Vec::new();
    for shape in lists::ADVERSARIAL.into_iter().filter(|shape| options.names(shape)) {
        eprintln!("{shape}");
        let rules = match (shape, options.quick) {
            ("octets", _) => WIDE_RULES,
            (_, true) => QUICK_RULES,
            _ => RULES,
        };
        let what = format!("{shape}:{rules}:{}", options.rounds.unwrap_or(ROUNDS));
        let measured = process::probe(&["shapes", "--shape", &what], TIME_LIMIT)?;
        all.push((shape, measured.ok_or("takes too long").during(shape)?));
    }
    let rows = all.iter().flat_map(|(shape, measured)| rows(shape, measured)).collect();
    let record = Record::new("shapes", Vec::new(), rows, None);
    Ok(Record { shown: shown(&all), ..record })
}

fn rows(shape: &str, measured: &Measured) -> Vec<Row> {
    let Measured { rules, ranged, build_s, peak_mib, bytes, levels } = measured;
    let rows = levels.iter().flat_map(|level| {
        SETS.into_iter().zip(&level.nanos).map(move |(set, nanos)| {
            Row::new(shape, set, format!("tree-{}", level.isa), nanos.clone())
                .with("rules", rules)
                .with("ranged", ranged)
                .with("build_s", build_s)
                .with("peak_mib", peak_mib)
                .with("bytes", bytes)
                .with("estimate", level.estimate)
        })
    });
    rows.collect()
}

/// Millions of packets a second at each level, measured and expected.
fn shown(all: &[(&str, Measured)]) -> String {
    let headings = ["shape", "Mpps (expected) by level", "rules", "ranged", "build s", "MiB peak"];
    let line = |(shape, measured): &(&str, Measured)| {
        let Measured { rules, ranged, build_s, peak_mib, levels, .. } = measured;
        let rates = levels.iter().map(|level| {
            let (rate, expected) = (level.rate() / 1e6, level.estimate as f64 / 1e6);
            format!("{}: {rate:.2} ({expected:.2})", level.isa)
        });
        vec![
            (*shape).to_owned(),
            rates.collect::<Vec<_>>().join(" "),
            rules.to_string(),
            ranged.to_string(),
            format!("{build_s:.2}"),
            format!("{peak_mib:.0}"),
        ]
    };
    table("", 2, &headings, all.iter().map(line).collect())
}

/// Measures a shape, named as in [`run`], and prints a [`Measured`].
pub fn probe(what: &str) -> Result<()> {
    let mut parts = what.split(':');
    let mut next = || parts.next().ok_or("expected SHAPE:RULES:ROUNDS").during(what);
    let shape = next()?;
    let rules: usize = next()?.parse()?;
    let rounds: usize = next()?.parse()?;
    let list = lists::adversarial(&mut Draw::Seed(SEED), shape, rules);
    let headers = SETS.map(|set| drawn(&list, set));
    restart_high_water().during("counting memory anew")?;
    let before = own_high_water().unwrap_or(0);
    let begun = thread_nanos();
    let built = |isa| Tree::new(&list, isa).map_err(Failure::from);
    let tree = built(Isa::Scalar)?;
    let build_s = (thread_nanos() - begun) / 1e9;
    let peak = own_high_water().unwrap_or(0).saturating_sub(before);
    let mut measured = Measured {
        rules,
        ranged: tree.estimate().ranged,
        build_s,
        peak_mib: peak as f64 / f64::from(1 << 20),
        bytes: tree.bytes(),
        levels: Vec::new(),
    };
    drop(tree);
    for isa in [Isa::Scalar, Isa::Avx2, Isa::Avx512Vbmi] {
        if cpu::require(isa).is_err() {
            continue;
        }
        let tree = built(isa)?;
        let mut nanos = [Vec::new(), Vec::new()];
        for (headers, nanos) in headers.iter().zip(&mut nanos) {
            headers.check(&list, &tree)?;
            nanos.extend((0..rounds).map(|_| headers.nanos(&tree)));
        }
        let estimate = tree.estimate().rate;
        measured.levels.push(Level { isa: isa.name().to_owned(), estimate, nanos });
    }
    println!("{}", json!(measured));
    Ok(())
}

/// The time that this thread has run.
fn thread_nanos() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Headers of one family, in the form of the classifier, and the first in that of the oracle.
struct Headers {
    four: Vec<Key4>,
    six: Vec<Key6>,
    checked: Vec<Key>,
}

impl Headers {
    /// The first matches of all, or of so many, in batches.
    fn classify(&self, tree: &Tree, most: usize, mut take: impl FnMut(&[u32])) {
        let mut rules = [NO_RULE; BATCH];
        for keys in self.four[..most.min(self.four.len())].chunks(BATCH) {
            tree.classify4(keys, &mut rules[..keys.len()]);
            take(&rules[..keys.len()]);
        }
        for keys in self.six[..most.min(self.six.len())].chunks(BATCH) {
            tree.classify6(keys, &mut rules[..keys.len()]);
            take(&rules[..keys.len()]);
        }
    }

    /// Nanoseconds of a header.
    fn nanos(&self, tree: &Tree) -> f64 {
        let begun = thread_nanos();
        self.classify(tree, HEADERS, |rules| {
            black_box(rules);
        });
        (thread_nanos() - begun) / HEADERS as f64
    }

    /// Compares the first answers with the oracle's.
    fn check(&self, list: &RuleList, tree: &Tree) -> Result<()> {
        let mut answers = Vec::with_capacity(self.checked.len());
        self.classify(tree, self.checked.len(), |rules| answers.extend_from_slice(rules));
        for (key, answer) in self.checked.iter().zip(answers) {
            let right = list.decide(key).rule.map_or(NO_RULE, |rule| rule as u32);
            ensure!(answer == right, "{key}: rule {answer} instead of {right}");
        }
        Ok(())
    }
}

/// Headers near the rules of `list`, or mixed, each field of a rule of its own.
fn drawn(list: &RuleList, set: &str) -> Headers {
    let mut draw = Draw::Seed(SEED + 1);
    let mut headers = Headers { four: Vec::new(), six: Vec::new(), checked: Vec::new() };
    for at in 0..HEADERS {
        let header = match set {
            "near" => Header::near(&mut draw, list),
            _ => mixed(&mut draw, list),
        };
        let key = header.key();
        match Packed::from(&key) {
            Packed::V4(key) => headers.four.push(key),
            Packed::V6(key) => headers.six.push(key),
        }
        if at < CHECKED {
            headers.checked.push(key);
        }
    }
    headers
}

fn mixed(draw: &mut Draw, list: &RuleList) -> Header {
    let mut inside = || {
        let rule = &list.rules[draw.below(list.rules.len())];
        Header::inside(draw, rule)
    };
    let (source, destination) = (inside(), inside().destination);
    let ports = (inside().ports.0, inside().ports.1);
    Header { destination, ports, ..source }
}
