//! `forebay filter`: filters the packets of a capture or a device, as tcpdump does.

mod live;
mod rotate;
mod summary;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use forebay_io::{Format, ReadOptions};
use forebay_jit::FilterSet;
use forebay_packet::{Batch, Interface};
use forebay_pipeline::stages::{Filter, Limit};
use forebay_pipeline::{Chain, Ledger};
use serde_json::json;

use crate::cli::{Cli, FilterArgs};
use crate::ending::{conclude, loss_of};
use crate::failure::Failure;
use crate::input::{
    Input, compiler_options, filter_of, prepare, print, print_json, processors, read_options,
};
use crate::show::{JsonList, Results};
use rotate::Files;
use summary::Summarizer;

/// The destination of selected packets.
enum Sink {
    Files(Box<Files>),
    Count,
    Verdicts(Results<File>),
    Summaries(Results<File>, Summarizer),
    /// The same as members of one JSON object.
    VerdictsJson(JsonList<File>),
    SummariesJson(JsonList<File>, Summarizer),
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
    // As libpcap, whose verdicts these are: bytes past the snapshot length do not count.
    let options =
        ReadOptions { clamp_to_snap_len: true, ..read_options(&args.limits, processors()) };
    let mut programs = filter_of(cli, &args.selection)?;
    let streams = args.write.is_none() && !args.count && !cli.json;
    // A progress bar would be drawn between the lines of the results.
    let mut input = Input::open(capture, &options, cli.quiet || streams)?;
    if let Some(programs) = &mut programs {
        prepare(programs, input.first_interfaces(), capture, &options)?;
    }
    let mut sink = Sink::of(cli, args, input.format())?;
    input.watch_signals()?;
    let serial = limited(Chain::new(), args);
    // Verdicts are printed even without an expression.
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
    // Packets before a truncation are valid; after any other failure an incomplete file is
    // removed.
    let stands = failure.as_ref().is_none_or(Failure::is_damaged_input);
    let interfaces = input.interfaces();
    drop(input);
    let closed = if stands { sink.close(&interfaces) } else { sink.flush() };
    let cause = closed.as_ref().err().or(failure.as_ref().filter(|_| !stands));
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

/// A chain that ends after the requested number of packets.
fn limited(chain: Chain, args: &FilterArgs) -> Chain {
    match args.limit {
        Some(limit) => chain.with(Limit::new(limit)),
        None => chain,
    }
}

impl Sink {
    /// The destination of packets of an input with this format.
    fn of(cli: &Cli, args: &FilterArgs, format: Format) -> Result<Self, Failure> {
        let results = || Results::to_stdout().map_err(Failure::Stdout);
        if args.write.is_some() {
            return Ok(Self::Files(Box::new(Files::new(args, format)?)));
        }
        let only_totals = cli.json && !args.verdicts && !args.packets;
        Ok(match (args.count || only_totals, args.verdicts) {
            (true, _) => Self::Count,
            (_, true) if cli.json => Self::VerdictsJson(JsonList::new(results()?, "verdicts")),
            (_, true) => Self::Verdicts(results()?),
            _ if cli.json => {
                Self::SummariesJson(JsonList::new(results()?, "selected"), Summarizer::default())
            }
            _ => Self::Summaries(results()?, Summarizer::default()),
        })
    }

    fn take(&mut self, batch: &Batch) -> Result<(), Failure> {
        match self {
            Self::Count => Ok(()),
            Self::Files(files) => files.send(batch),
            Self::Verdicts(results) => {
                each(batch, |i| results.push(|out| writeln!(out, "{}", batch.verdict[i])))
            }
            Self::Summaries(results, summarizer) => {
                each(batch, |i| results.push(|out| summarizer.write_line(out, batch, i)))
            }
            Self::VerdictsJson(list) => each(batch, |i| list.push(&batch.verdict[i])),
            Self::SummariesJson(list, summarizer) => {
                each(batch, |i| list.push(&summarizer.json(batch, i)))
            }
        }
    }

    /// Writes buffered results, for readers that wait for them.
    fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::Verdicts(results) | Self::Summaries(results, _) => results.flush(),
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.flush(),
            Self::Files(files) => return files.flush(),
            Self::Count => Ok(()),
        }
        .map_err(Failure::Stdout)
    }

    /// Whether output was started, so that it must be finished in any case.
    fn has_begun(&self) -> bool {
        match self {
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.has_begun(),
            _ => false,
        }
    }

    /// Finishes after the end of the input, possibly by damage: results so far are valid.
    fn close(&mut self, interfaces: &[Interface]) -> Result<(), Failure> {
        match self {
            Self::Files(files) => files.finish(interfaces),
            _ => self.flush(),
        }
    }

    /// Whether the requested number of packets was written.
    fn wants_no_more(&self) -> bool {
        match self {
            Self::Files(files) => files.are_all_written(),
            _ => false,
        }
    }

    /// Moves packets from the ledger's output to losses if they are in no file, or if
    /// standard output did not accept their lines; `cause` is the failure, if there is one.
    fn correct(&self, ledger: &mut Ledger, cause: Option<&Failure>) {
        let taken = match self {
            Self::Files(files) => return files.correct(ledger, cause),
            Self::Count => return,
            Self::Verdicts(results) | Self::Summaries(results, _) => results.taken(),
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.taken(),
        };
        ledger.keep_output(taken, cause.map_or("aborted", loss_of));
    }

    /// Prints the result.
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
            Self::Verdicts(_) | Self::Summaries(..) => Ok(()),
        }
    }
}

/// Calls `write` for each live packet.
fn each(batch: &Batch, write: impl FnMut(usize) -> io::Result<()>) -> Result<(), Failure> {
    batch.live().iter().try_for_each(write).map_err(Failure::Stdout)
}
