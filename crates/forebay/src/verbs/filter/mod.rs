//! `forebay filter`: what tcpdump does with a capture.

mod rotate;
mod summary;

use std::io::{self, BufWriter, Write};

use forebay_filter::FilterSet;
use forebay_io::ReadOptions;
use forebay_packet::Batch;
use forebay_pipeline::stages::{Filter, Limit};
use forebay_pipeline::{Chain, Ledger};
use serde_json::{Value, json};

use crate::cli::{Cli, FilterArgs};
use crate::failure::Failure;
use crate::input::{Input, check_ledger, filter_of, print, print_json, processors, tell_ledger};
use rotate::Files;
use summary::Summarizer;

/// Where selected packets go.
enum Sink {
    Files(Box<Files>),
    Count,
    Verdicts { out: BufWriter<io::Stdout>, collected: Option<Vec<u32>> },
    Summaries { out: BufWriter<io::Stdout>, summarizer: Summarizer, collected: Option<Vec<Value>> },
}

pub fn run(cli: &Cli, args: &FilterArgs) -> Result<(), Failure> {
    // As libpcap, whose verdicts these are: bytes past the snapshot length do not
    // count.
    let options = ReadOptions { clamp_to_snap_len: true, ..ReadOptions::default() };
    let mut programs = filter_of(&args.selection)?;
    let mut input = Input::open(&args.read, &options, cli)?;
    if let Some(programs) = &mut programs {
        programs.prepare(&input.interfaces())?;
    }
    let mut sink = Sink::of(cli, args)?;
    let serial = match args.limit {
        Some(limit) => Chain::new().with(Limit::new(limit)),
        None => Chain::new(),
    };
    let workers = input.workers(chains(args, programs.as_ref()));
    let run = forebay_pipeline::run(workers, serial, |batch| sink.take(batch));
    let failure = run.error.map(Failure::from);
    if failure.as_ref().is_none_or(Failure::is_damaged_input) {
        sink.finish(cli, &input, &run.ledger, failure.as_ref())?;
    }
    drop(input);
    tell_ledger(&run.ledger, cli, failure.as_ref().is_some_and(|failure| !failure.is_silent()));
    match failure {
        Some(failure) => Err(failure),
        None => check_ledger(&run.ledger),
    }
}

fn chains(args: &FilterArgs, programs: Option<&FilterSet>) -> Vec<Chain> {
    let programs = match (programs, args.verdicts) {
        (Some(programs), _) => Some(programs.clone()),
        // Without an expression there are verdicts all the same.
        (None, true) => Some(FilterSet::new("")),
        (None, false) => None,
    };
    let chain = || match &programs {
        Some(programs) if args.verdicts => Chain::new().with(Filter::judge_only(programs.clone())),
        Some(programs) => Chain::new().with(Filter::new(programs.clone())),
        None => Chain::new(),
    };
    (0..processors()).map(|_| chain()).collect()
}

impl Sink {
    fn of(cli: &Cli, args: &FilterArgs) -> Result<Self, Failure> {
        let out = || BufWriter::with_capacity(1 << 16, io::stdout());
        if args.write.is_some() {
            return Ok(Self::Files(Box::new(Files::new(args)?)));
        }
        Ok(match (args.count, args.verdicts) {
            (true, _) => Self::Count,
            (_, true) => Self::Verdicts { out: out(), collected: cli.json.then(Vec::new) },
            _ => Self::Summaries {
                out: out(),
                summarizer: Summarizer::default(),
                collected: cli.json.then(Vec::new),
            },
        })
    }

    fn take(&mut self, batch: &Batch) -> Result<(), Failure> {
        match self {
            Self::Count => Ok(()),
            Self::Files(files) => files.send(batch),
            Self::Verdicts { collected: Some(collected), .. } => {
                collected.extend(batch.live().iter().map(|i| batch.verdict[i]));
                Ok(())
            }
            Self::Verdicts { out, .. } => batch
                .live()
                .iter()
                .try_for_each(|i| writeln!(out, "{}", batch.verdict[i]))
                .map_err(Failure::Stdout),
            Self::Summaries { summarizer, collected: Some(collected), .. } => {
                collected.extend(batch.live().iter().map(|i| summarizer.json(batch, i)));
                Ok(())
            }
            Self::Summaries { out, summarizer, .. } => batch
                .live()
                .iter()
                .try_for_each(|i| summarizer.write_line(out, batch, i))
                .map_err(Failure::Stdout),
        }
    }

    /// The input has ended, perhaps by damage: what was selected stands.
    fn finish(
        self,
        cli: &Cli,
        input: &Input,
        ledger: &Ledger,
        failure: Option<&Failure>,
    ) -> Result<(), Failure> {
        let matched = ledger.output();
        let mut result = json!({
            "packets": ledger.input(),
            "matched": matched,
            "ledger": ledger,
            "error": failure.map(ToString::to_string),
        });
        match self {
            Self::Files(files) => {
                let to_stdout = files.is_stdout();
                let names = files.finish(&input.interfaces())?;
                result["files"] = json!(names);
                if cli.json && !to_stdout {
                    return print_json(&result);
                }
                Ok(())
            }
            Self::Count if cli.json => print_json(&result),
            Self::Count => {
                let plural = if matched == 1 { "" } else { "s" };
                print(|out| writeln!(out, "{matched} packet{plural}"))
            }
            Self::Verdicts { collected: Some(verdicts), .. } => {
                result["verdicts"] = json!(verdicts);
                print_json(&result)
            }
            Self::Summaries { collected: Some(packets), .. } => {
                result["selected"] = json!(packets);
                print_json(&result)
            }
            Self::Verdicts { mut out, .. } | Self::Summaries { mut out, .. } => {
                out.flush().map_err(Failure::Stdout)
            }
        }
    }
}
