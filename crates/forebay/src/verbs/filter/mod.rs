//! `forebay filter`: what tcpdump does with a capture, or a device.

mod live;
mod rotate;
mod summary;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use forebay_io::{Format, ReadOptions};
use forebay_jit::FilterSet;
use forebay_packet::{Batch, Interface};
use forebay_pipeline::stages::{Filter, Limit};
use forebay_pipeline::{Chain, Ledger};
use serde_json::{Value, json};

use crate::cli::{Cli, FilterArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{
    Input, compiler_options, filter_of, print, print_json, processors, read_options,
};
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
    match (&args.interface, &args.read) {
        (Some(device), _) => live::run(cli, args, device),
        (None, Some(capture)) => read(cli, args, capture),
        (None, None) => Err(Failure::Usage("expected -r FILE or -i DEVICE".to_owned())),
    }
}

/// Selects packets of a capture.
fn read(cli: &Cli, args: &FilterArgs, capture: &Path) -> Result<(), Failure> {
    // As libpcap, whose verdicts these are: bytes past the snapshot length do not
    // count.
    let options =
        ReadOptions { clamp_to_snap_len: true, ..read_options(&args.limits, processors()) };
    let mut programs = filter_of(cli, &args.selection)?;
    let streams = args.write.is_none() && !args.count && !cli.json;
    // A bar would be drawn between the lines of the results.
    let mut input = Input::open(capture, &options, cli.quiet || streams)?;
    if let Some(programs) = &mut programs {
        programs.prepare(input.first_interfaces())?;
    }
    let mut sink = Sink::of(cli, args, input.format(), false)?;
    input.watch_signals()?;
    let serial = limited(Chain::new(), args);
    // Without an expression there are verdicts all the same.
    if args.verdicts && programs.is_none() {
        programs = Some(FilterSet::new("", compiler_options(cli, args.selection.backend)?));
    }
    let chains = (0..processors()).map(|_| chain(args, programs.as_ref())).collect();
    let workers = input.workers(chains);
    let run = forebay_pipeline::run(workers, serial, |batch| sink.take(batch));
    let mut ledger = run.ledger;
    let failure = run.error.map(Failure::from);
    // What precedes a cut is whole; after any other failure an unfinished file is not kept.
    let stands = failure.as_ref().is_none_or(Failure::is_damaged_input);
    let interfaces = input.interfaces();
    drop(input);
    let closed = if stands { sink.close(&interfaces) } else { Ok(()) };
    let shown = if stands && closed.is_ok() {
        sink.show(cli, &ledger, failure.as_ref())
    } else {
        sink.discard(&mut ledger);
        closed
    };
    conclude(&ledger, cli, failure, shown)
}

/// The filter, if there is one.
fn chain(args: &FilterArgs, programs: Option<&FilterSet>) -> Chain {
    match programs {
        Some(programs) if args.verdicts => Chain::new().with(Filter::judge_only(programs.clone())),
        Some(programs) => Chain::new().with(Filter::new(programs.clone())),
        None => Chain::new(),
    }
}

/// A chain that ends after the packets that were asked for.
fn limited(chain: Chain, args: &FilterArgs) -> Chain {
    match args.limit {
        Some(limit) => chain.with(Limit::new(limit)),
        None => chain,
    }
}

impl Sink {
    /// Where packets of an input of that format go. Files are written `in_place` where
    /// they may be read while they grow.
    fn of(cli: &Cli, args: &FilterArgs, format: Format, in_place: bool) -> Result<Self, Failure> {
        let out = || BufWriter::with_capacity(1 << 16, io::stdout());
        if args.write.is_some() {
            return Ok(Self::Files(Box::new(Files::new(args, format, in_place)?)));
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

    /// Nothing comes at the moment: whoever looks is to see what has come.
    fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::Verdicts { out, .. } | Self::Summaries { out, .. } => {
                out.flush().map_err(Failure::Stdout)
            }
            Self::Files(_) | Self::Count => Ok(()),
        }
    }

    /// The input has ended, perhaps by damage: what was selected stands.
    fn close(&mut self, interfaces: &[Interface]) -> Result<(), Failure> {
        match self {
            Self::Files(files) => files.finish(interfaces),
            Self::Count | Self::Verdicts { .. } | Self::Summaries { .. } => Ok(()),
        }
    }

    /// Takes packets whose file is not kept out of the account of what was written.
    fn discard(&self, ledger: &mut Ledger) {
        if let Self::Files(files) = self
            && !files.is_stream()
        {
            ledger.discard_output_after(files.packets());
        }
    }

    /// Shows the result.
    fn show(self, cli: &Cli, ledger: &Ledger, failure: Option<&Failure>) -> Result<(), Failure> {
        let matched = ledger.output();
        let mut result = json!({
            "packets": ledger.input(),
            "matched": matched,
            "ledger": ledger,
            "error": failure.map(ToString::to_string),
        });
        match self {
            Self::Files(files) => {
                result["files"] = json!(files.names());
                if cli.json && !files.is_stdout() {
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
