//! The engines: ours, the naive C, and DPDK's classifier.
//!
//! `rte_acl` divides rules into several tries, and walks each for each packet. How large they
//! may be is up to the caller: by default they are small, with a limit of gibibytes they are
//! as few as can be. Both are built and tried on the set's headers, and the faster one takes
//! part. Long lists can take it minutes and more memory than there is, so that they are first
//! built in a process of their own, the default way only.

use std::fmt::Display;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use forebay_codegen::code::{Backend, Isa};
use forebay_jit::cpu;
use forebay_rules::RuleList;
use forebay_rules::choose::EngineName;
use forebay_rules::engine::{Engine, NO_RULE};
use forebay_rules::linear::{Compiled, Generic, LaneContent, Naive, Pe};
use forebay_rules::packed::Key4;
use forebay_rules::rule::Family;
use forebay_rules::tree::{Bound, Tree};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Map, Value, json};

use super::frames::unpacked;
use super::headers::HeaderKind;
use super::lists::{CLASSBENCH, ClassBench, Source};
use crate::failure::{During, Failure, Result};
use crate::peers::matcher::Matcher;
use crate::peers::naive_c::{ALIGNED, NaiveC, PACKED};
use crate::peers::process;
use crate::peers::rte_acl::{ALGORITHMS, Context, RteAcl, is_installed};
use crate::rounds::{Contender, Role};

/// How the names of DPDK's algorithms, and of the naive C, start.
pub const ACL: &str = "rte_acl";
pub const NAIVE: &str = "naive-";

/// Our classifier of long lists.
pub const TREE: &str = "tree";

/// The engine that users get.
pub const AUTO: &str = "auto";

/// Our scan that is called with one packet.
const SINGLE: &str = "pe-1";

/// Builds of which the median counts, where they are short.
const BUILDS: usize = 5;

/// Limits of the size of tries, in bytes: the library's own, and one that no list here meets.
const SIZES: [usize; 2] = [0, 4 << 30];

/// Longer lists are built in a process of their own first, within these limits.
const LONG: usize = 20_000;
const TIME_LIMIT: Duration = Duration::from_secs(120);
const MEMORY_LIMIT: u64 = 14 << 30;

/// Headers that the two ways to build tries are tried on.
const TRIED: usize = 65_536;

/// The engines of a list.
pub type Contenders = Vec<Contender<dyn Matcher>>;

/// Whether an engine scans rule by rule, and is not made for long lists.
pub fn is_linear(one: &Contender<dyn Matcher>) -> bool {
    one.name != TREE && one.name != AUTO && !one.name.starts_with(ACL)
}

fn boxed<M: Matcher + 'static>(made: Result<M>) -> Result<Box<dyn Matcher>> {
    made.map(|matcher| Box::new(matcher) as Box<dyn Matcher>)
}

/// One of our engines, with values for its rows.
type Made = Result<(Box<dyn Engine>, Map<String, Value>)>;

type Make = fn(&RuleList) -> Made;

/// Our engines, in the order of the rows.
const OURS: [(&str, Make); 8] = [
    ("naive", |list| made(Naive::new(list))),
    ("list", |list| compiled(list, Backend::List)),
    ("pe", |list| made(Pe::new(list, level()))),
    ("pe-generic", |list| made(Generic::new(list, LaneContent::Packets, level()))),
    (SINGLE, |list| made(Generic::new(list, LaneContent::Rules, level()))),
    ("ems", |list| compiled(list, Backend::Ems)),
    (TREE, tree),
    (AUTO, auto),
];

/// The level that is forced, or the highest of the machine.
pub fn level() -> Isa {
    cpu::choose(None).unwrap_or_else(|_| cpu::detect())
}

/// What `auto` takes.
fn auto(list: &RuleList) -> Made {
    let chosen = EngineName::Auto.choose(list, level())?;
    let backend = json!(chosen.name.name());
    Ok((chosen.engine, [("backend".to_owned(), backend)].into_iter().collect()))
}

fn made<E: Engine + 'static>(made: Result<E, impl Display>) -> Made {
    let engine = made?;
    Ok((Box::new(engine), Map::new()))
}

/// Code with branches. A back end may fall back to another.
fn compiled(list: &RuleList, backend: Backend) -> Made {
    let compiled = Compiled::new(list, backend, level());
    let compiled = compiled?;
    let backend = json!(compiled.backend(Family::Ipv4).name());
    Ok((Box::new(compiled), [("backend".to_owned(), backend)].into_iter().collect()))
}

fn tree(list: &RuleList) -> Made {
    let tree = Tree::new(list, level())?;
    let Bound { trees, nodes, blocks, vectors, .. } = tree.bound(Family::Ipv4);
    let bound = json!({ "trees": trees, "nodes": nodes, "blocks": blocks, "vectors": vectors });
    Ok((Box::new(tree), [("bound".to_owned(), bound)].into_iter().collect()))
}

fn bytes_per_rule(bytes: usize, list: &RuleList) -> f64 {
    bytes as f64 / list.rules.len().max(1) as f64
}

/// Our engines for `list`.
pub fn ours(list: &RuleList) -> Contenders {
    let contender = |(name, make): (&str, Make)| {
        Contender::timed((name, Role::Ours), BUILDS, ("build_ms", 1e3), || {
            let (engine, mut more) = make(list)?;
            let bytes = bytes_per_rule(engine.bytes(), list);
            more.insert("bytes_per_rule".to_owned(), json!(bytes));
            let batch = (name == SINGLE).then_some(1);
            Ok((Box::new(EngineMatcher { engine, batch }) as Box<dyn Matcher>, more))
        })
    };
    OURS.into_iter().map(contender).collect()
}

/// An engine, given keys as they are.
struct EngineMatcher {
    engine: Box<dyn Engine>,
    batch: Option<usize>,
}

impl Matcher for EngineMatcher {
    fn batch(&self) -> Option<usize> {
        self.batch
    }

    fn run(&mut self, keys: &[Key4], _first: usize, rules: &mut [u32]) {
        self.engine.classify4(keys, rules);
    }
}

/// The oracle's answer to a header.
pub fn first_match(list: &RuleList, key: &Key4) -> u32 {
    list.decide(&unpacked(key)).rule.map_or(NO_RULE, |index| index as u32)
}

/// The naive C, by both compilers and in both layouts.
pub fn naive_c(list: &RuleList, folder: &Path) -> Contenders {
    let kinds = [
        ("naive-gcc", "gcc", PACKED),
        ("naive-clang", "clang", PACKED),
        ("naive-aligned-gcc", "gcc", ALIGNED),
        ("naive-aligned-clang", "clang", ALIGNED),
    ];
    let contender = |(name, compiler, layout)| {
        let file = format!("{name}-{}", list.rules.len());
        let made = NaiveC::new(list, layout, compiler, folder, &file);
        Contender::new(name, Role::Peer, boxed(made))
    };
    kinds.into_iter().map(contender).collect()
}

/// All algorithms of DPDK's classifier for the list of `source`.
pub fn rte_acl(
    source: Source,
    list: &RuleList,
    kind: HeaderKind,
    keys: &[Key4],
) -> Result<Contenders> {
    let best = match fits(source, list, kind)? {
        Ok(()) => best(list, kind, &keys[..keys.len().min(TRIED)]),
        Err(why) => Err(why),
    };
    let contender = |(name, algorithm)| match &best {
        Err(why) => Contender::new(name, Role::Peer, Err(why.clone())),
        Ok((context, max_size, build_ms)) => {
            Contender::new(name, Role::Peer, boxed(RteAcl::new(context, algorithm)))
                .with("build_ms", build_ms)
                .with("bytes_per_rule", bytes_per_rule(context.bytes, list))
                .with("max_size", max_size)
        }
    };
    Ok(ALGORITHMS.into_iter().map(contender).collect())
}

/// Builds both ways and keeps the faster one, with its limit and milliseconds to build it.
fn best(list: &RuleList, kind: HeaderKind, keys: &[Key4]) -> Result<(Rc<Context>, usize, f64)> {
    let sizes = if list.rules.len() > LONG { &SIZES[..1] } else { &SIZES[..] };
    let (mut best, mut least, mut refused) = (None, f64::INFINITY, Failure(String::new()));
    for &max_size in sizes {
        let started = Instant::now();
        match Context::build(list, kind, max_size) {
            Err(why) => refused = why,
            Ok(context) => {
                let build_ms = started.elapsed().as_secs_f64() * 1e3;
                let context = Rc::new(context);
                let nanos = trial(&context, keys)?;
                if nanos < least {
                    (least, best) = (nanos, Some((context, max_size, build_ms)));
                }
            }
        }
    }
    best.ok_or(refused)
}

/// The least time of any algorithm for the headers, of a few runs.
fn trial(context: &Rc<Context>, keys: &[Key4]) -> Result<f64> {
    const RUNS: usize = 3;
    let mut least = f64::INFINITY;
    let mut rules = vec![0; keys.len()];
    for (_, algorithm) in ALGORITHMS.into_iter().rev() {
        let Ok(mut acl) = RteAcl::new(context, algorithm) else { continue };
        acl.load(keys)?;
        for _ in 0..RUNS {
            let started = Instant::now();
            acl.run(keys, 0, &mut rules);
            least = least.min(started.elapsed().as_secs_f64());
        }
    }
    Ok(least)
}

/// Whether a long list can be built within the limits.
fn fits(source: Source, list: &RuleList, kind: HeaderKind) -> Result<Result<()>> {
    if let Err(why) = is_installed() {
        return Ok(Err(why));
    }
    if list.rules.len() <= LONG {
        return Ok(Ok(()));
    }
    eprintln!("rte_acl: trying to build {}", source.name);
    Ok(match process::probe(&["rules", "--build-acl", &source.case(kind)], TIME_LIMIT) {
        Ok(Some(true)) => Ok(()),
        Ok(_) => Err(format!("builds no tries within {} s", TIME_LIMIT.as_secs()).into()),
        Err(_) => Err(format!("builds no tries within {} GiB", MEMORY_LIMIT >> 30).into()),
    })
}

/// Builds the tries of a case within the limit of memory.
pub fn probe(case: &str, data: &Path) -> Result<()> {
    let mut all =
        CLASSBENCH.into_iter().flat_map(|source| HeaderKind::ALL.map(|kind| (source, kind)));
    let named = all.find(|(source, kind)| source.case(*kind) == case);
    let (source, kind) = named.ok_or("no such set").during(case)?;
    let limit = Rlimit { current: Some(MEMORY_LIMIT), maximum: Some(MEMORY_LIMIT) };
    setrlimit(Resource::As, limit).during("limiting memory")?;
    let set = ClassBench::read(data, source, kind)?;
    let set = set.ok_or("is not there").during(case)?;
    Context::build(&set.list, kind, SIZES[0])?;
    println!("true");
    Ok(())
}
