//! DPDK's classifier as a contender: all its algorithms on the better of two ways to
//! build its tries.
//!
//! `rte_acl` parts rules into several tries, of which each is walked for each packet.
//! How large they may be is up to the caller: by default they are small, with a limit of
//! gibibytes they are as few as can be. Both are built and tried on the set's headers,
//! and the faster one takes part. Long lists can take it minutes and more memory than
//! there is, so that they are first built in a process of their own, the default way
//! only.

use std::rc::Rc;
use std::time::{Duration, Instant};

use forebay_rules::RuleList;
use forebay_rules::packed::Key4;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;

use super::engines::{Contender, Matcher as _, Role};
use super::headers::Form;
use super::lists::{CLASSBENCH, ClassBench, Source};
use crate::peers::process::CommandLine;
use crate::peers::rte_acl::{ALGORITHMS, Context, Fields, RteAcl, is_installed};
use crate::stats::rounded;
use crate::{BenchError, io_error};

/// Limits of the size of tries, in bytes: the library's own, and one that is none.
const SIZES: [usize; 2] = [0, 4 << 30];

/// Longer lists are built in a process of their own first.
const LONG: usize = 20_000;

/// What that process may take.
const TIME_LIMIT: Duration = Duration::from_secs(120);
const MEMORY_LIMIT: u64 = 14 << 30;

/// Headers of a trial.
const TRIED: usize = 65_536;

/// A context, and what making it took.
struct Built {
    context: Rc<Context>,
    max_size: usize,
    build_ms: f64,
}

/// All algorithms for the list of `source`.
pub fn contenders(
    source: Source,
    list: &RuleList,
    form: Form,
    keys: &[Key4],
) -> Result<Vec<Contender>, BenchError> {
    let keys = &keys[..keys.len().min(TRIED)];
    let best = match fits(source, list, form)? {
        Ok(()) => best(list, form, keys),
        Err(why) => Err(why),
    };
    let contender = |(name, algorithm)| {
        let contender = Contender::new(name, Role::Peer);
        match &best {
            Err(why) => contender.with::<RteAcl>(Err(why.clone())),
            Ok(built) => {
                let mut contender = contender.with(RteAcl::new(&built.context, algorithm));
                contender.build_ms = Some(rounded(built.build_ms));
                contender.bytes = Some(built.context.bytes());
                contender.more.insert("max_size".into(), json!(built.max_size));
                contender
            }
        }
    };
    Ok(ALGORITHMS.into_iter().map(contender).collect())
}

/// The fields that the library is given.
fn fields(form: Form) -> Fields {
    match form {
        Form::Packets => Fields::All,
        Form::FiveTuples => Fields::FiveTuple,
    }
}

/// Builds both ways and keeps the faster one.
fn best(list: &RuleList, form: Form, keys: &[Key4]) -> Result<Built, String> {
    let sizes = if list.rules.len() > LONG { &SIZES[..1] } else { &SIZES[..] };
    let mut best: Option<(f64, Built)> = None;
    let mut refused = String::new();
    for &max_size in sizes {
        let started = Instant::now();
        match Context::build(list, fields(form), max_size) {
            Err(why) => refused = why,
            Ok(context) => {
                let build_ms = started.elapsed().as_secs_f64() * 1e3;
                let context = Rc::new(context);
                let nanos = trial(&context, keys)?;
                if best.as_ref().is_none_or(|(least, _)| nanos < *least) {
                    best = Some((nanos, Built { context, max_size, build_ms }));
                }
            }
        }
    }
    best.map(|(_, built)| built).ok_or(refused)
}

/// The least time of any algorithm for the headers, of a few runs.
fn trial(context: &Rc<Context>, keys: &[Key4]) -> Result<f64, String> {
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
fn fits(source: Source, list: &RuleList, form: Form) -> Result<Result<(), String>, BenchError> {
    if let Err(why) = is_installed() {
        return Ok(Err(why));
    }
    if list.rules.len() <= LONG {
        return Ok(Ok(()));
    }
    eprintln!("rte_acl: trying to build {}", source.name);
    let this = std::env::current_exe().map_err(io_error("finding this program"))?;
    let what = format!("{}:{}", source.name, form_name(form));
    let command = CommandLine::new(this, &["rules", "--build-acl", &what]);
    let gibibytes = MEMORY_LIMIT >> 30;
    Ok(match command.answer_within(TIME_LIMIT) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("builds no tries within {} s", TIME_LIMIT.as_secs())),
        Err(_) => Err(format!("builds no tries within {gibibytes} GiB")),
    })
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::Packets => "packets",
        Form::FiveTuples => "five-tuples",
    }
}

/// Builds the tries of a set, named as in [`fits`], within the limit of memory.
pub fn probe(what: &str) -> Result<(), BenchError> {
    let failed = |message: String| BenchError::Command { command: "rte_acl".into(), message };
    let forms = [Form::Packets, Form::FiveTuples];
    let all = CLASSBENCH.into_iter().flat_map(|source| forms.map(|form| (source, form)));
    let named =
        |(source, form): &(Source, Form)| what == format!("{}:{}", source.name, form_name(*form));
    let (source, form) = { all }.find(named).ok_or_else(|| failed(format!("no set {what}")))?;
    let limit = Rlimit { current: Some(MEMORY_LIMIT), maximum: Some(MEMORY_LIMIT) };
    setrlimit(Resource::As, limit).map_err(|error| io_error("limiting memory")(error.into()))?;
    let set =
        ClassBench::read(source, form)?.ok_or_else(|| failed(format!("{what} is not there")))?;
    Context::build(&set.list, fields(form), SIZES[0]).map_err(failed)?;
    println!("built");
    Ok(())
}
