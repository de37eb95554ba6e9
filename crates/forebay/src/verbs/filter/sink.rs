//! Where the selected packets go: files, counts, lines.

use std::fs::File;
use std::io::{self, Write as _};

use forebay_io::Format;
use forebay_packet::{Batch, Interface};
use forebay_pipeline::Ledger;
use serde_json::json;

use super::rotate::Files;
use super::summary::Summarizer;
use crate::cli::{Cli, FilterArgs};
use crate::ending::loss_of;
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::show::{JsonList, Results};

/// The destination of selected packets.
pub(super) enum Sink {
    Files(Box<Files>),
    Count,
    Verdicts(Results<File>),
    Summaries(Results<File>, Summarizer),
    /// The same as members of one JSON object.
    VerdictsJson(JsonList<File>),
    SummariesJson(JsonList<File>, Summarizer),
}

impl Sink {
    /// The destination of packets of an input with this format.
    pub(super) fn of(cli: &Cli, args: &FilterArgs, format: Format) -> Result<Self, Failure> {
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

    pub(super) fn take(&mut self, batch: &Batch) -> Result<(), Failure> {
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
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Self::Verdicts(results) | Self::Summaries(results, _) => results.flush(),
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.flush(),
            Self::Files(files) => return files.flush(),
            Self::Count => Ok(()),
        }
        .map_err(Failure::Stdout)
    }

    /// Whether output was started, so that it must be finished in any case.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.has_begun(),
            _ => false,
        }
    }

    /// Finishes after the end of the input, possibly by damage: results so far are valid.
    pub(super) fn close(&mut self, interfaces: &[Interface]) -> Result<(), Failure> {
        match self {
            Self::Files(files) => files.finish(interfaces),
            _ => self.flush(),
        }
    }

    /// Whether the requested number of packets was written.
    pub(super) fn wants_no_more(&self) -> bool {
        match self {
            Self::Files(files) => files.are_all_written(),
            _ => false,
        }
    }

    /// Moves packets from the ledger's output to losses if they are in no file, or if
    /// standard output did not accept their lines; `cause` is the failure, if there is one.
    pub(super) fn correct(&self, ledger: &mut Ledger, cause: Option<&Failure>) {
        let taken = match self {
            Self::Files(files) => return files.correct(ledger, cause),
            Self::Count => return,
            Self::Verdicts(results) | Self::Summaries(results, _) => results.taken(),
            Self::VerdictsJson(list) | Self::SummariesJson(list, _) => list.taken(),
        };
        ledger.keep_output(taken, cause.map_or("aborted", loss_of));
    }

    /// Prints the result.
    pub(super) fn show(
        self,
        cli: &Cli,
        ledger: &Ledger,
        failure: Option<&Failure>,
    ) -> Result<(), Failure> {
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
