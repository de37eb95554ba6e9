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
use serde_json::json;

use crate::cli::{Cli, FilterArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{
    Input, compiler_options, filter_of, prepare, print, print_json, processors, read_options,
};
use crate::show::JsonList;
use rotate::Files;
use summary::Summarizer;

/// Where selected packets go.
enum Sink {
    Files(Box<Files>),
    Count,
    Verdicts(BufWriter<io::Stdout>),
    Summaries(BufWriter<io::Stdout>, Summarizer),
    /// The same as members of one JSON object.
    VerdictsJson(JsonList<BufWriter<io::Stdout>>),
    SummariesJson(JsonList<BufWriter<io::Stdout>>, Summarizer),
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
        prepare(programs, input.first_interfaces(), capture, &options)?;
    }
    let mut sink = Sink::of(cli, args, input.format())?;
    input.watch_signals()?;
    let serial = limited(Chain::new(), args);
    // Without an expression there are verdicts all the same.
    if args.verdicts && programs.is_none() {
        programs = Some(FilterSet::new("", compiler_options(cli, args.selection.backend)?));
    }
    let chains = (0..processors()).map(|_| chain(args, programs.as_ref())).collect();
    let workers = input.workers(chains);
    let run = forebay_pipeline::run(workers, serial, |batch| {
        sink.take(batch)?;
        if sink.wants_no_more() { Err(Failure::Enough) } else { Ok(()) }
    });
    let mut ledger = run.ledger;
    let failure =
        run.error.map(Failure::from).filter(|failure| !matches!(failure, Failure::Enough));
    // What precedes a cut is whole; after any other failure an unfinished file is not kept.
    let stands = failure.as_ref().is_none_or(Failure::is_damaged_input);
    let interfaces = input.interfaces();
    drop(input);
    let closed = if stands { sink.close(&interfaces) } else { Ok(()) };
    let cause = if stands { closed.as_ref().err() } else { failure.as_ref() };
    sink.correct(&mut ledger, cause);
    let shown = if closed.is_ok() && (stands || sink.has_begun()) {
        sink.show(cli, &ledger, failure.as_ref())
    } else {
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
    /// Where packets of an input of that format go.
    fn of(cli: &Cli, args: &FilterArgs, format: Format) -> Result<Self, Failure> {
        let out = || BufWriter::with_capacity(1 << 16, io::stdout());
        if args.write.is_some() {
            return Ok(Self::Files(Box::new(Files::new(args, format)?)));
        }
        let only_totals = cli.json && !args.verdicts && !args.packets;
        Ok(match (args.count || only_totals, args.verdicts) {
            (true, _) => Self::Count,
            (_, true) if cli.json => Self::VerdictsJson(JsonList::new(out(), "verdicts")),
            (_, true) => Self::Verdicts(out()),
            _ if cli.json => {
                Self::SummariesJson(JsonList::new(out(), "selected"), Summarizer::default())
            }
            _ => Self::Summaries(out(), Summarizer::default()),
        })
    }

    fn take(&mut self, batch: &Batch) -> Result<(), Failure> {
        match self {
            Self::Count => Ok(()),
            Self::Files(files) => files.send(batch),
            Self::Verdicts(out) => each(batch, |i| writeln!(out, "{}", batch.verdict[i])),
            Self::Summaries(out, summarizer) => {
                each(batch, |i| summarizer.write_line(out, batch, i))
            }
            Self::VerdictsJson(list) => each(batch, |i| list.push(&batch.verdict[i])),
            Self::SummariesJson(list, summarizer) => {
                each(batch, |i| list.push(&summarizer.json(batch, i)))
            }
        }
    }

    /// Nothing comes at the moment: whoever looks is to see what has come.
    fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::Verdicts(out) | Self::Summaries(out, _) => out.flush(),
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.flush(),
            Self::Files(files) => return files.flush(),
            Self::Count => Ok(()),
        }
        .map_err(Failure::Stdout)
    }

    /// Whether a result was begun, so that it has to be finished whatever happened.
    fn has_begun(&self) -> bool {
        match self {
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.has_begun(),
            _ => false,
        }
    }

    /// The input has ended, perhaps by damage: what was selected stands.
    fn close(&mut self, interfaces: &[Interface]) -> Result<(), Failure> {
        match self {
            Self::Files(files) => files.finish(interfaces),
            _ => Ok(()),
        }
    }

    /// Whether as much was written as was asked for.
    fn wants_no_more(&self) -> bool {
        match self {
            Self::Files(files) => files.are_all_written(),
            _ => false,
        }
    }

    /// Takes packets that are in no file, because of `cause` if there is one, out of the
    /// account of what was written.
    fn correct(&self, ledger: &mut Ledger, cause: Option<&Failure>) {
        if let Self::Files(files) = self {
            files.correct(ledger, cause);
        }
    }

    /// Shows the result.
    fn show(self, cli: &Cli, ledger: &Ledger, failure: Option<&Failure>) -> Result<(), Failure> {
        let matched = ledger.output();
        let mut result = json!({
            "packets": ledger.input(),
            "matched": matched,
            "ledger": ledger,
            "closes": ledger.closes(),
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
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => {
                list.finish(&result).map_err(Failure::Stdout)
            }
            Self::Verdicts(mut out) | Self::Summaries(mut out, _) => {
                out.flush().map_err(Failure::Stdout)
            }
        }
    }
}

/// Writes something for each live packet.
fn each(batch: &Batch, write: impl FnMut(usize) -> io::Result<()>) -> Result<(), Failure> {
    batch.live().iter().try_for_each(write).map_err(Failure::Stdout)
}
