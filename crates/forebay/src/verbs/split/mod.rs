//! `forebay split`: the broker on a capture.
//!
//! Workers filter and classify; one thread reunites fragments, looks buckets up and
//! writes, so that each sensor's packets keep the order of the input.

mod outcome;
mod outputs;

use std::io;

use forebay_balance::{Assignment, MAX_SENSORS};
use forebay_filter::FilterSet;
use forebay_io::ReadOptions;
use forebay_packet::{Affinity, Decoder, HashKey};
use forebay_pipeline::stages::{Balance, Classify, Filter, Fragments, Window};
use forebay_pipeline::{Chain, FlowTable, Run};

use crate::cli::{Cli, SplitArgs, SplitKey};
use crate::failure::Failure;
use crate::input::{Input, check_ledger, decode_options, print_json, processors};
use crate::series::Series;
use crate::show::{Colour, terminal_columns};
use outcome::Outcome;
use outputs::Outputs;

pub fn run(cli: &Cli, args: &SplitArgs) -> Result<(), Failure> {
    let weights = weights(args)?;
    let assignment = Assignment::of_weights(&weights)?;
    let mut input = Input::open(&args.read, &ReadOptions::default(), cli)?;
    let mut programs = args.filter.as_ref().map(FilterSet::new);
    if let Some(programs) = &mut programs {
        programs.prepare(&input.interfaces())?;
    }
    let mut outputs = Outputs::in_folder(&args.output, weights.len(), args.force)?;
    let workers = input.workers(chains(args, programs.as_ref()));
    let serial =
        Chain::new().with(Fragments::new(Window::OFFLINE)).with(Balance::new(assignment.clone()));
    let mut flows = FlowTable::new();
    let mut series = Series::new(weights.len());
    let run = forebay_pipeline::run(workers, serial, |batch| {
        flows.count(batch);
        for i in batch.live().iter() {
            let output = usize::from(batch.output[i]);
            series.count(output, batch.nanos(i), u64::from(batch.wire_len(i)));
        }
        outputs.send(batch)
    });
    let Run { ledger, remarks, error } = run;
    let failure = error.map(Failure::from);
    // What precedes a cut is whole; after any other failure nothing is kept.
    let files = match failure {
        Some(failure) if !failure.is_damaged_input() => return Err(failure),
        _ => outputs.finish(&input.interfaces())?,
    };
    let bytes_in = input.wire_bytes();
    drop(input);
    let outcome = Outcome {
        args,
        assignment: &assignment,
        files: &files,
        ledger: &ledger,
        remarks: &remarks,
        flows: &flows,
        series: &series,
        bytes_in,
        error: failure.as_ref().map(ToString::to_string),
    };
    let shown = outcome.evaluate();
    if let Some(path) = &args.report {
        outcome::write_report(path, &shown)?;
    }
    if cli.json {
        print_json(&outcome::as_json(&shown))?;
    } else if !cli.quiet {
        let width = terminal_columns(io::stdout());
        let text = outcome.as_text(&shown, Colour::stdout(), width);
        crate::input::print(|out| out.write_all(text.as_bytes()))?;
    }
    match failure {
        Some(failure) => Err(failure),
        None => check_ledger(&ledger),
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

fn chains(args: &SplitArgs, programs: Option<&FilterSet>) -> Vec<Chain> {
    let affinity = match args.key {
        SplitKey::FiveTuple => Affinity::FiveTuple,
        SplitKey::IpPair => Affinity::IpPair,
    };
    let decoder = Decoder::new(decode_options(&args.flow, affinity));
    let hash_key = args.hash_key.unwrap_or(HashKey::OFFLINE);
    let chain = || {
        let chain = match programs {
            Some(programs) => Chain::new().with(Filter::new(programs.clone())),
            None => Chain::new(),
        };
        chain.with(Classify::new(decoder, hash_key))
    };
    (0..args.workers.map_or_else(processors, usize::from)).map(|_| chain()).collect()
}
