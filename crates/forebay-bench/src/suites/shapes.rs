//! Rule lists that are hard on classifiers, with the instructions of every level.
//!
//! The shapes are those that the tests of `forebay-rules` draw. Each is built and measured
//! in a process of its own, so that the peak of memory is its own. Times are those of the
//! thread, so that they mean something on a machine that does other things too, and come
//! with what the classifier itself expected when it was built.

#[path = "../../../forebay-rules/tests/support/draw.rs"]
mod draw;
#[path = "../../../forebay-rules/tests/support/lists.rs"]
mod lists;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use draw::Draw;
use forebay_codegen::code::Isa;
use forebay_jit::cpu;
use forebay_packet::BATCH;
use forebay_rules::engine::{Engine as _, NO_RULE};
use forebay_rules::key::Key;
use forebay_rules::packed::{Key4, Key6, Packed};
use forebay_rules::rule::{PortTest, ProtocolTest, TCP, UDP};
use forebay_rules::tree::Tree;
use forebay_rules::{Rule, RuleList};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::peers::process::{CommandLine, own_high_water, restart_high_water};
use crate::record::{Record, Row};
use crate::stats::{Sample, rounded};
use crate::{BenchError, Options, io_error};

/// Rules of a list, and of one whose rules have 512 ranges of addresses each.
const RULES: usize = 100_000;
const QUICK_RULES: usize = 10_000;
const WIDE_RULES: usize = 1_000;

/// Headers of a round, and those whose answers the oracle is asked for.
const HEADERS: usize = 1 << 15;
const ASKED: usize = 100;

const ROUNDS: usize = 7;
const SEED: u64 = 20_261_123;

/// What a process may take for one shape.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Where headers lie.
const SETS: [&str; 2] = ["near", "mixed"];

/// What a shape came to.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    rules: usize,
    /// Rules that are matched by their ranges.
    ranged: usize,
    build_s: f64,
    /// What building added to the memory of the process.
    peak_mib: f64,
    bytes: usize,
    levels: Vec<Level>,
}

/// The same with the instructions of a level.
#[derive(Debug, Serialize, Deserialize)]
struct Level {
    isa: String,
    /// What the classifier expects, in packets a second.
    estimate: u64,
    /// Nanoseconds a packet of each round, on each of [`SETS`].
    nanos: [Vec<f64>; 2],
}

impl Level {
    fn median(&self, set: usize) -> f64 {
        Sample::new(self.nanos[set].clone()).median()
    }

    /// Packets a second on the set that takes longest.
    fn rate(&self) -> f64 {
        1e9 / self.median(0).max(self.median(1))
    }
}

/// Runs the suite.
pub fn run(options: &Options) -> Result<Record, BenchError> {
    let this = std::env::current_exe().map_err(io_error("finding this program"))?;
    let mut all = Vec::new();
    for shape in lists::ADVERSARIAL {
        if !options.filters.names(shape) {
            continue;
        }
        eprintln!("{shape}");
        let rules = match (shape, options.quick) {
            ("octets", _) => WIDE_RULES,
            (_, true) => QUICK_RULES,
            _ => RULES,
        };
        let rounds = options.filters.rounds.unwrap_or(ROUNDS);
        let what = format!("{shape}:{rules}:{rounds}");
        let command = CommandLine::new(&this, &["shapes", "--shape", &what]);
        let said = command.answer_within(TIME_LIMIT)?;
        let failed = |message: String| BenchError::Command { command: shape.to_owned(), message };
        let said = said.ok_or_else(|| failed("takes too long".to_owned()))?;
        let measured: Measured =
            serde_json::from_str(&said).map_err(|error| failed(error.to_string()))?;
        all.push((shape, measured));
    }
    let rows = all.iter().flat_map(|(shape, measured)| rows(shape, measured)).collect();
    let mut record = Record::new("shapes", Vec::new(), rows);
    record.shown = Some(table(&all));
    Ok(record)
}

fn rows(shape: &str, measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for level in &measured.levels {
        for (set, name) in SETS.into_iter().enumerate() {
            let sample = Sample::new(level.nanos[set].clone());
            let mut more = Map::new();
            more.insert("rules".into(), json!(measured.rules));
            more.insert("ranged".into(), json!(measured.ranged));
            more.insert("build_s".into(), json!(rounded(measured.build_s)));
            more.insert("peak_mib".into(), json!(rounded(measured.peak_mib)));
            more.insert("bytes".into(), json!(measured.bytes));
            more.insert("estimate".into(), json!(level.estimate));
            rows.push(Row {
                case: shape.to_owned(),
                set: name.to_owned(),
                engine: format!("tree-{}", level.isa),
                ns: Some(rounded(sample.median())),
                cycles: None,
                n: level.nanos[set].len(),
                spread: Some(sample.spread().map(rounded)),
                more,
            });
        }
    }
    rows
}

/// Millions of packets a second of each level, measured and expected.
fn table(all: &[(&str, Measured)]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "shape     rules   ranged  build s  MiB peak  Mpps (expected) by level");
    for (shape, measured) in all {
        let Measured { rules, ranged, build_s, peak_mib, levels, .. } = measured;
        let _ = write!(out, "{shape:<9} {rules:<7} {ranged:<7} {build_s:<8.2} {peak_mib:<9.0}");
        for level in levels {
            let (rate, expected) = (level.rate() / 1e6, level.estimate as f64 / 1e6);
            let _ = write!(out, " {}: {rate:.2} ({expected:.2})", level.isa);
        }
        let _ = writeln!(out);
    }
    out
}

/// Measures a shape, named as in [`run`], and prints what it came to.
pub fn probe(what: &str) -> Result<(), BenchError> {
    let wrong = || BenchError::Command {
        command: "shapes".to_owned(),
        message: format!("{what}: expected SHAPE:RULES:ROUNDS"),
    };
    let mut parts = what.split(':');
    let mut next = || parts.next().ok_or_else(wrong);
    let shape = next()?;
    let rules: usize = next()?.parse().map_err(|_| wrong())?;
    let rounds: usize = next()?.parse().map_err(|_| wrong())?;
    let list = lists::adversarial(&mut Draw::Seed(SEED), shape, rules);
    let headers = SETS.map(|set| drawn(&list, set));
    restart_high_water().map_err(io_error("counting memory anew"))?;
    let before = own_high_water().unwrap_or(0);
    let begun = thread_nanos();
    let built = |isa| Tree::new(&list, isa).map_err(|error| BenchError::Unable(error.to_string()));
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
    let text = serde_json::to_string(&measured).map_err(std::io::Error::from);
    println!("{}", text.map_err(io_error("writing what was measured"))?);
    Ok(())
}

/// The time that this thread has run.
fn thread_nanos() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Headers of one family, as the classifier takes them and, the first, as the oracle does.
struct Headers {
    four: Vec<Key4>,
    six: Vec<Key6>,
    asked: Vec<Key>,
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

    /// Holds the first answers against the oracle's.
    fn check(&self, list: &RuleList, tree: &Tree) -> Result<(), BenchError> {
        let mut answers = Vec::with_capacity(self.asked.len());
        self.classify(tree, self.asked.len(), |rules| answers.extend_from_slice(rules));
        for (key, answer) in self.asked.iter().zip(answers) {
            let right = list.decide(key).rule.map_or(NO_RULE, |rule| rule as u32);
            if answer != right {
                let complaint = format!("{key}: rule {answer} instead of {right}");
                return Err(BenchError::WrongAnswer(complaint));
            }
        }
        Ok(())
    }
}

/// Headers near the rules of `list`: inside one, half of them moved just out of it by one
/// field; or mixed, each field of a rule of its own.
fn drawn(list: &RuleList, set: &str) -> Headers {
    let mut draw = Draw::Seed(SEED + 1);
    let mut headers = Headers { four: Vec::new(), six: Vec::new(), asked: Vec::new() };
    for at in 0..HEADERS {
        let key = if set == "near" { near(&mut draw, list) } else { mixed(&mut draw, list) };
        match Packed::from(&key) {
            Packed::V4(key) => headers.four.push(key),
            Packed::V6(key) => headers.six.push(key),
        }
        if at < ASKED {
            headers.asked.push(key);
        }
    }
    headers
}

/// A point of four fields, each of one of these rules.
fn point(draw: &mut Draw, of: [&Rule; 4]) -> Key {
    let address = |draw: &mut Draw, set: &forebay_rules::RangeSet<u128>| {
        let range = draw.pick(set.ranges());
        draw.within(range)
    };
    let port = |draw: &mut Draw, test: &PortTest| match test {
        PortTest::Any => draw.half(),
        PortTest::In(set) => {
            let (first, last) = draw.pick(set.ranges());
            draw.within((first.into(), last.into())) as u16
        }
    };
    let protocol = match &of[0].protocol {
        ProtocolTest::Any => draw.pick(&[TCP, UDP]),
        ProtocolTest::Only(test) => {
            let all: Vec<u8> = test.protocols.iter().collect();
            if all.is_empty() { UDP } else { draw.pick(&all) }
        }
    };
    Key {
        family: of[0].family,
        source: address(draw, &of[0].source),
        destination: address(draw, &of[1].destination),
        protocol: Some(protocol),
        ports: [TCP, UDP]
            .contains(&protocol)
            .then(|| (port(draw, &of[2].source_ports), port(draw, &of[3].destination_ports))),
        tcp_flags: (protocol == TCP).then_some(0x10),
        icmp: None,
    }
}

fn near(draw: &mut Draw, list: &RuleList) -> Key {
    let rule = &list.rules[draw.below(list.rules.len())];
    let mut key = point(draw, [rule; 4]);
    if draw.one_in(2) {
        return key;
    }
    let greatest = key.family.greatest();
    let beside = |draw: &mut Draw, (first, last): (u128, u128), greatest: u128| match draw.below(2)
    {
        0 => first.saturating_sub(1),
        _ => last.saturating_add(1).min(greatest),
    };
    let beside_port = |draw: &mut Draw, test: &PortTest, inside: u16| match test {
        PortTest::Any => inside,
        PortTest::In(set) => {
            let (first, last) = draw.pick(set.ranges());
            beside(draw, (first.into(), last.into()), u16::MAX.into()) as u16
        }
    };
    match draw.below(4) {
        0 => key.source = beside(draw, rule.source.ranges()[0], greatest),
        1 => key.destination = beside(draw, rule.destination.ranges()[0], greatest),
        field => {
            if let Some((source, destination)) = &mut key.ports {
                match field {
                    2 => *source = beside_port(draw, &rule.source_ports, *source),
                    _ => *destination = beside_port(draw, &rule.destination_ports, *destination),
                }
            }
        }
    }
    key
}

fn mixed(draw: &mut Draw, list: &RuleList) -> Key {
    let of = std::array::from_fn(|_| &list.rules[draw.below(list.rules.len())]);
    point(draw, of)
}
