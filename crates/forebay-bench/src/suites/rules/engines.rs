//! Who takes part: our engines, the naive C, and DPDK's classifier.

use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

use forebay_codegen::code::Backend;
use forebay_jit::cpu;
use forebay_rules::engine::{Engine, NO_RULE};
use forebay_rules::linear::{Compiled, Generic, Lanes, Naive, Pe};
use forebay_rules::packed::Key4;
use forebay_rules::rule::Family;
use forebay_rules::tree::{Bound, Tree};
use forebay_rules::{RangeSet, RuleList};
use serde_json::{Map, Value, json};

use super::frames::unpacked;
use super::sets::Set;
use crate::BenchError;
use crate::peers::naive_c::{Compiler, Layout, NaiveC};
use crate::stats::{Sample, rounded};

/// What is measured: rules made ready, and headers to match against them.
pub trait Matcher {
    /// Takes headers in the engine's own form, which a receiver would have had them in;
    /// not timed.
    fn load(&mut self, _keys: &[Key4]) -> Result<(), String> {
        Ok(())
    }

    /// Reads `count` loaded headers from number `first` on, so that they are in the
    /// cache; nothing where the keys themselves are matched.
    fn touch(&self, _first: usize, _count: usize) -> u64 {
        0
    }

    /// Matches loaded headers: `keys`, of which the first has the number `first`.
    fn run(&mut self, keys: &[Key4], first: usize, rules: &mut [u32]);

    /// Turns what `run` wrote into indices of rules; not timed.
    fn answers(&self, _rules: &mut [u32]) {}
}

/// What a contender is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Somebody else's: a wrong answer takes it out of the set.
    Peer,
    /// A wrong answer ends the benchmark.
    Ours,
}

/// One that takes part, with a list made ready.
pub struct Contender {
    /// Its name in the rows.
    pub name: &'static str,
    /// What it is there for.
    pub role: Role,
    /// Nothing where it is not installed or does not take the list.
    pub matcher: Option<Box<dyn Matcher>>,
    /// Packets a call, where that is not up to the set.
    pub batch: Option<usize>,
    /// Whether it tries rule by rule, without being made for long lists.
    pub linear: bool,
    /// Milliseconds from a list to something that can match.
    pub build_ms: Option<f64>,
    /// Bytes of what it matches by.
    pub bytes: Option<usize>,
    /// What else there is to tell.
    pub more: Map<String, Value>,
    /// Why it has no part.
    pub notes: Vec<String>,
}

impl Contender {
    /// One that does not take part yet.
    pub fn new(name: &'static str, role: Role) -> Self {
        Self {
            name,
            role,
            matcher: None,
            batch: None,
            linear: false,
            build_ms: None,
            bytes: None,
            more: Map::new(),
            notes: Vec::new(),
        }
    }

    /// Takes the matcher, or the reason why there is none.
    pub fn with<M: Matcher + 'static>(mut self, made: Result<M, String>) -> Self {
        match made {
            Ok(matcher) => self.matcher = Some(Box::new(matcher)),
            Err(why) => self.notes.push(format!("{}: {why}", self.name)),
        }
        self
    }

    /// Notes a wrong answer, and takes no further part. One of ours is an error.
    pub fn is_wrong(&mut self, complaint: &str) -> Result<(), BenchError> {
        let complaint = format!("{}, {complaint}", self.name);
        if self.role == Role::Ours {
            return Err(BenchError::WrongAnswer(complaint));
        }
        self.notes.push(complaint);
        self.matcher = None;
        Ok(())
    }

    /// Packets a call on `set`.
    pub fn batch(&self, set: Set) -> usize {
        self.batch.unwrap_or(set.batch())
    }
}

/// An engine of ours, and what there is to tell of it.
struct Made {
    engine: Box<dyn Engine>,
    more: Map<String, Value>,
}

/// One of our engines.
struct Ours {
    name: &'static str,
    batch: Option<usize>,
    linear: bool,
    make: fn(&RuleList) -> Result<Made, String>,
}

/// Our engines, in the order of the rows.
const OURS: [Ours; 7] = [
    Ours { name: "naive", batch: None, linear: true, make: |list| made(Naive::new(list)) },
    Ours { name: "list", batch: None, linear: true, make: |list| compiled(list, Backend::List) },
    Ours { name: "pe", batch: None, linear: true, make: |list| made(Pe::new(list, cpu::detect())) },
    Ours {
        name: "pe-generic",
        batch: None,
        linear: true,
        make: |list| generic(list, Lanes::Packets),
    },
    Ours { name: "pe-1", batch: Some(1), linear: true, make: |list| generic(list, Lanes::Rules) },
    Ours { name: "ems", batch: None, linear: true, make: |list| compiled(list, Backend::Ems) },
    Ours { name: "tree", batch: None, linear: false, make: tree },
];

/// An engine without a bound.
fn made<E: Engine + 'static>(made: Result<E, impl Display>) -> Result<Made, String> {
    let engine = made.map_err(|error| error.to_string())?;
    Ok(Made { engine: Box::new(engine), more: Map::new() })
}

fn generic(list: &RuleList, lanes: Lanes) -> Result<Made, String> {
    made(Generic::new(list, lanes, cpu::detect()))
}

/// Code with branches. One back end can give way to another.
fn compiled(list: &RuleList, backend: Backend) -> Result<Made, String> {
    let compiled =
        Compiled::new(list, backend, cpu::detect()).map_err(|error| error.to_string())?;
    let mut more = Map::new();
    more.insert("backend".into(), json!(compiled.backend(Family::Ipv4).name()));
    Ok(Made { engine: Box::new(compiled), more })
}

fn tree(list: &RuleList) -> Result<Made, String> {
    let tree = Tree::new(list, cpu::detect()).map_err(|error| error.to_string())?;
    let Bound { trees, nodes, blocks, vectors, .. } = tree.bound(Family::Ipv4);
    let bound = json!({ "trees": trees, "nodes": nodes, "blocks": blocks, "vectors": vectors });
    let more = [("bound".to_owned(), bound)].into_iter().collect();
    Ok(Made { engine: Box::new(tree), more })
}

/// Builds of which the median counts, where they are short.
const BUILDS: usize = 5;

/// A build that takes longer is done once.
const LONG_BUILD_MS: f64 = 200.0;

/// Our engines for `list`.
pub fn ours(list: &RuleList) -> Vec<Contender> {
    let contender = |one: &Ours| {
        let mut contender = Contender::new(one.name, Role::Ours);
        (contender.batch, contender.linear) = (one.batch, one.linear);
        let mut times = Vec::new();
        while times.len() < BUILDS {
            let started = Instant::now();
            let made = (one.make)(list);
            times.push(started.elapsed().as_secs_f64() * 1e3);
            match made {
                Ok(Made { engine, more }) => {
                    contender.bytes = Some(engine.bytes());
                    contender.more = more;
                    contender.matcher = Some(Box::new(EngineMatcher(engine)));
                }
                Err(why) => {
                    contender.notes.push(format!("{}: {why}", one.name));
                    return contender;
                }
            }
            if times[0] > LONG_BUILD_MS {
                break;
            }
        }
        contender.build_ms = Some(rounded(Sample::new(times).median()));
        contender
    };
    OURS.iter().map(contender).collect()
}

/// An engine, given keys as they are.
struct EngineMatcher(Box<dyn Engine>);

impl Matcher for EngineMatcher {
    fn run(&mut self, keys: &[Key4], _first: usize, rules: &mut [u32]) {
        self.0.classify4(keys, rules);
    }
}

/// What the oracle says of a header.
pub fn first_match(list: &RuleList, key: &Key4) -> u32 {
    list.decide(&unpacked(key)).rule.map_or(NO_RULE, |index| index as u32)
}

/// The naive C, by both compilers and in both layouts.
pub fn naive_c(list: &RuleList, folder: &Path) -> Vec<Contender> {
    let kinds = [
        ("naive-gcc", Compiler::Gcc, Layout::Packed),
        ("naive-clang", Compiler::Clang, Layout::Packed),
        ("naive-aligned-gcc", Compiler::Gcc, Layout::Aligned),
        ("naive-aligned-clang", Compiler::Clang, Layout::Aligned),
    ];
    let contender = |(name, compiler, layout): (&'static str, Compiler, Layout)| {
        let file = format!("{name}-{}", list.rules.len());
        let made = NaiveC::new(list, layout, compiler, folder, &file);
        Contender { linear: true, ..Contender::new(name, Role::Peer).with(made) }
    };
    kinds.into_iter().map(contender).collect()
}

/// Address and length of the prefix that an IPv4 rule's set of addresses is.
pub fn prefix(set: &RangeSet<u128>) -> Option<(u32, u8)> {
    let [(low, high)] = *set.ranges() else { return None };
    let (low, high) = (u32::try_from(low).ok()?, u32::try_from(high).ok()?);
    let varying = low ^ high;
    let is_prefix = varying & varying.wrapping_add(1) == 0 && low & varying == 0;
    is_prefix.then_some((low, varying.leading_zeros() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_told_from_other_ranges() {
        let of = |low, high| prefix(&RangeSet::range(low..=high).unwrap());
        assert_eq!(of(0, u128::from(u32::MAX)), Some((0, 0)));
        assert_eq!(of(0x0a00_0000, 0x0aff_ffff), Some((0x0a00_0000, 8)));
        assert_eq!(of(7, 7), Some((7, 32)));
        assert_eq!(of(7, 8), None);
        assert_eq!(of(2, 5), None);
        assert_eq!(of(0, 1 << 32), None);
    }
}
