//! `forebay split`: splits a capture.
//!
//! With `--balance packets` or `bytes` the capture is read twice by the same stages: the
//! first reading counts the load of each hash, the second writes.
//!
//! Workers filter and classify in parallel; they take turns, in the order of the input, at
//! reassembling fragments, looking up buckets and writing, so that each sensor's packets
//! keep that order.

mod loads;
mod outputs;
mod result;

use std::io;
use std::sync::Arc;

use forebay_balance::{Assignment, MAX_SENSORS};
use forebay_flow::{FlowTable, OnFull, RecordOptions};
use forebay_io::ReadOptions;
use forebay_jit::FilterSet;
use forebay_packet::{Affinity, Decoder, HashKey};
use forebay_pipeline::stages::{
    Balance, Classify, CompiledRules, Expectations, Filter, Follow, Fragments, Rules, Timing,
    Window,
};
use forebay_pipeline::{Chain, Run};
use forebay_rules::language::load::Selection;

use crate::cli::{Cli, SplitArgs, SplitBalance, SplitKey};
use crate::ending::{conclude, refuse_input};
use crate::failure::Failure;
use crate::input::{
    Input, MOST_WORKERS, compiler_options, decode_options, prepare, print, print_json, processors,
    read_options,
};
use crate::series::Series;
use crate::show::{Colour, terminal_columns};
use outputs::Outputs;
use result::SplitResult;

/// The most flows that are recorded, so that memory is bounded for captures of any length:
/// some 400 MB.
const RECORDED_FLOWS: usize = 1_000_000;

pub fn run(cli: &Cli, args: &SplitArgs) -> Result<(), Failure> {
    let weights = weights(args)?;
    let follow = follow(args)?;
    let assignment = Assignment::of_weights(&weights)?;
    let stop = Some(Arc::default());
    let reading = ReadOptions { stop, ..read_options(&args.limits, workers(args)) };
    let compiled_rules = compiled_rules(cli, args)?;
    args.report.iter().try_for_each(|report| refuse_input(report, &args.read))?;
    let copy = loads::copy_of_stream(args)?;
    let open = || Input::open_copy(copy.as_ref(), &args.read, &reading, cli.quiet);
    let mut input = open()?;
    let options = compiler_options(cli, args.backend)?;
    let mut programs = args.filter.as_ref().map(|filter| FilterSet::new(filter, options));
    if let Some(programs) = &mut programs {
        prepare(programs, input.first_interfaces(), &args.read, &reading)?;
    }
    input.watch_signals()?;
    let mut outputs = Outputs::in_folder(&args.output, weights.len(), &args.read, args.force)?;
    let chains = || chains(args, programs.as_ref(), compiled_rules.as_ref());
    let mut counted = None;
    let units = match args.balance {
        SplitBalance::Hash => assignment.clone().into(),
        by => {
            let counting = input.workers(chains());
            let loads = loads::count(by, counting, serial_chain(args, follow.clone()))?;
            input = open()?;
            let (units, summary) = loads.assign(&assignment);
            counted = Some(summary);
            units
        }
    };
    let workers = input.workers(chains());
    let serial = serial_chain(args, follow).with(Balance::new(units));
    let mut flows = FlowTable::new(RecordOptions::new(RECORDED_FLOWS, OnFull::Ignore));
    let mut series = Series::new(weights.len());
    let run = forebay_pipeline::run(workers, serial, |batch| {
        flows.count(batch, |_| {});
        for i in batch.live().iter() {
            let output = usize::from(batch.output[i]);
            series.count(output, batch.nanos(i), u64::from(batch.wire_len(i)));
        }
        outputs.send(batch)
    });
    flows.finish();
    let Run { mut ledger, remarks, error } = run;
    let failure = error.map(Failure::from);
    let (interfaces, bytes_in) = (input.interfaces(), input.wire_bytes());
    drop(input);
    // Packets before a truncation are valid; after any other failure nothing is kept.
    let files = if failure.as_ref().is_none_or(Failure::is_damaged_input) {
        outputs.finish(&interfaces).map(Some)
    } else {
        Ok(None)
    };
    let files = match files {
        Ok(Some(files)) => files,
        not_kept => {
            ledger.keep_output(outputs.named(), "discarded");
            return conclude(&ledger, cli, failure, not_kept.map(drop));
        }
    };
    let replaced = outputs.remove_stale(&files);
    let result = SplitResult {
        args,
        assignment: &assignment,
        counted: counted.as_ref(),
        files: &files,
        ledger: &ledger,
        remarks: &remarks,
        flows: &flows,
        series: &series,
        bytes_in,
        error: failure.as_ref().map(ToString::to_string),
    };
    let shown = replaced.and_then(|()| show(cli, &result));
    conclude(&ledger, cli, failure, shown)
}

/// Writes the report and prints the result.
fn show(cli: &Cli, result: &SplitResult<'_>) -> Result<(), Failure> {
    let shown = result.evaluate();
    if let Some(path) = &result.args.report {
        result::write_report(path, &shown)?;
    }
    if cli.json {
        print_json(&result::as_json(&shown, result.remarks))
    } else if cli.quiet {
        Ok(())
    } else {
        let width = terminal_columns(io::stdout());
        let text = result.as_text(&shown, Colour::stdout(), width);
        print(|out| out.write_all(text.as_bytes()))
    }
}

fn weights(args: &SplitArgs) -> Result<Vec<u32>, Failure> {
    match (&args.weights, args.sensors) {
        (Some(weights), Some(n)) if n != weights.len() => Err(Failure::Usage(format!(
            "-n {n} sensors, but --weights gives {}: give one weight for each sensor",
            weights.len()
        ))),
        (Some(weights), _) => Ok(weights.clone()),
        (None, Some(n)) if n > MAX_SENSORS => {
            Err(Failure::Usage(format!("-n {n}: at most {MAX_SENSORS} sensors are possible")))
        }
        (None, n) => Ok(vec![1; n.unwrap_or(0)]),
    }
}

/// The compiled rules, if any are given.
fn compiled_rules(cli: &Cli, args: &SplitArgs) -> Result<Option<CompiledRules>, Failure> {
    let Some(rules) = &args.rules else {
        return match args.choice.selection() == Selection::default() {
            true => Ok(None),
            false => Err(Failure::Usage("a choice of a list needs --rules".to_owned())),
        };
    };
    let streams = [&args.read, rules].iter().filter(|path| path.as_os_str() == "-").count();
    if streams > 1 {
        return Err(Failure::Usage("the capture or the rules can be `-`, not both".to_owned()));
    }
    super::rules::compiled_rules_of(cli, rules, &args.choice).map(Some)
}

/// The control protocols to follow.
fn follow(args: &SplitArgs) -> Result<Follow, Failure> {
    let mut follow = Follow::default();
    if !args.follow.is_empty() && matches!(args.key, SplitKey::Src | SplitKey::Dst) {
        return Err(Failure::Usage(
            "--follow with --key src or dst, which part a connection's two directions: expected \
             --key 5tuple or ip-pair"
                .to_owned(),
        ));
    }
    for name in &args.follow {
        follow.add(name).map_err(|error| Failure::Usage(format!("--follow {error}")))?;
    }
    Ok(follow)
}

/// The stages that need all packets in order, except the last.
fn serial_chain(args: &SplitArgs, follow: Follow) -> Chain {
    let mut chain = Chain::new();
    if !follow.0.is_empty() {
        let options = decode_options(&args.flow, affinity(args.key));
        chain = chain.with(Expectations::new(follow, options, Timing::Capture));
    }
    chain.with(Fragments::new(Window::OFFLINE))
}

fn affinity(key: SplitKey) -> Affinity {
    match key {
        SplitKey::FiveTuple => Affinity::FiveTuple,
        SplitKey::IpPair => Affinity::IpPair,
        SplitKey::Src => Affinity::Source,
        SplitKey::Dst => Affinity::Destination,
    }
}

fn chains(
    args: &SplitArgs,
    programs: Option<&FilterSet>,
    compiled_rules: Option<&CompiledRules>,
) -> Vec<Chain> {
    let decoder = Decoder::new(decode_options(&args.flow, affinity(args.key)));
    let hash_key = args.hash_key.unwrap_or(HashKey::OFFLINE);
    let chain = || {
        let chain = match programs {
            Some(programs) => Chain::new().with(Filter::new(programs.clone())),
            None => Chain::new(),
        };
        let chain = match compiled_rules {
            Some(compiled_rules) => chain.with(Rules::new(compiled_rules.clone())),
            None => chain,
        };
        chain.with(Classify::new(decoder, hash_key))
    };
    (0..workers(args)).map(|_| chain()).collect()
}

fn workers(args: &SplitArgs) -> usize {
    args.workers.map_or_else(processors, |workers| usize::from(workers).min(MOST_WORKERS))
}
