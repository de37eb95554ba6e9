//! `forebay flows`: the flows of a capture or a device.

mod formats;
mod listing;
mod live;
mod output;
mod stored;

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use forebay_flow::{FlowTable, OnFull, RecordOptions};
use forebay_packet::{Affinity, Batch, Decoder};
use forebay_pipeline::stages::{Classify, Fragments, Limit, Window};
use forebay_pipeline::{Chain, Ledger, Remarks};
use serde_json::json;

use super::flow_policy;
use crate::cli::{Cli, FlowFormat, FlowsArgs};
use crate::ending::{conclude, refuse_input};
use crate::failure::Failure;
use crate::input::{Input, decode_options, print, print_json, processors, read_options};
use crate::naming;
use crate::show::human;
use formats::{Document, write_table};
use listing::Listing;

pub fn run(cli: &Cli, args: &FlowsArgs) -> Result<(), Failure> {
    match (&args.interface, &args.read) {
        (Some(device), _) => live::run(cli, args, device),
        (None, Some(capture)) if args.policy.policy.is_some() => {
            flow_policy::run(cli, args, capture)
        }
        (None, Some(capture)) => read(cli, args, capture),
        (None, None) => Err(Failure::Usage("expected -r FILE or -i DEVICE".to_owned())),
    }
}

/// Counts the packets of a capture.
fn read(cli: &Cli, args: &FlowsArgs, capture: &Path) -> Result<(), Failure> {
    args.write.iter().try_for_each(|output| refuse_input(output, capture))?;
    let options = read_options(&args.limits, processors());
    let mut input = Input::open(capture, &options, cli.quiet)?;
    let mut count = Count::new(cli, args, args.idle_timeout, args.active_timeout)?;
    input.watch_signals()?;
    let decoder = Decoder::new(decode_options(&args.flow, Affinity::FiveTuple));
    let chain = || Chain::new().with(Classify::with_keys_only(decoder));
    let workers = input.workers((0..processors()).map(|_| chain()).collect());
    let serial = limited(args).with(Fragments::new(Window::OFFLINE));
    let run = forebay_pipeline::run(workers, serial, |batch| count.take(batch));
    drop(input);
    count.finish(cli, args, &run.ledger, &run.remarks, run.error.map(Failure::from))
}

/// A chain that ends after the requested number of packets.
fn limited(args: &FlowsArgs) -> Chain {
    match args.limit {
        Some(limit) => Chain::new().with(Limit::new(limit)),
        None => Chain::new(),
    }
}

/// Flows, and the records that have ended.
struct Count {
    flows: FlowTable,
    listing: Listing,
    format: FlowFormat,
}

impl Count {
    fn new(
        cli: &Cli,
        args: &FlowsArgs,
        idle: Option<Duration>,
        active: Option<Duration>,
    ) -> Result<Self, Failure> {
        let is_document = cli.json && args.write.is_none();
        let format = if is_document { FlowFormat::Json } else { args.format };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let flows = FlowTable::new(RecordOptions {
            idle: idle.map(nanos),
            active: active.map(nanos),
            ..RecordOptions::new(args.max_flows as usize, OnFull::Evict)
        });
        Ok(Self { flows, listing: Listing::new(format, args)?, format })
    }

    /// Counts the packets of a batch.
    fn take(&mut self, batch: &Batch) -> Result<(), Failure> {
        let Self { flows, listing, .. } = self;
        let mut added = Ok(());
        flows.count(batch, |record| {
            if added.is_ok() {
                added = listing.add(&record);
            }
        });
        added
    }

    /// No packet has come for that long since the last batch.
    fn pass_time(&mut self, silence: Duration) -> Result<(), Failure> {
        let Self { flows, listing, .. } = self;
        let mut added = Ok(());
        flows.pass_time(u64::try_from(silence.as_nanos()).unwrap_or(u64::MAX), |_, record| {
            if added.is_ok() {
                added = listing.add(&record);
            }
        });
        added
    }

    /// Shows all flows, and what became of all packets.
    fn finish(
        mut self,
        cli: &Cli,
        args: &FlowsArgs,
        ledger: &Ledger,
        remarks: &Remarks,
        failure: Option<Failure>,
    ) -> Result<(), Failure> {
        self.flows.finish();
        let evicted = self.listing.evicted();
        let error = failure.as_ref().map(ToString::to_string);
        // Records of the packets before damage are valid, and those of a device cannot be had
        // again; after another failure a file that is not complete is removed.
        let stands =
            args.interface.is_some() || failure.as_ref().is_none_or(Failure::is_damaged_input);
        let records = self.listing.with_open(&self.flows);
        let shown = records.and_then(|records| match self.format {
            FlowFormat::Json => print_json(&Document { records: &records, ledger, remarks, error }),
            FlowFormat::Table => print(|out| write_table(out, &records)),
            FlowFormat::Csv | FlowFormat::Jsonl | FlowFormat::Parquet => {
                let written = records.write(stands)?;
                if !cli.json {
                    return Ok(());
                }
                print_json(&json!({
                    "closes": ledger.closes(),
                    "error": error,
                    "ledger": ledger,
                    "records": written,
                    "undecoded": naming::undecoded_json(remarks),
                }))
            }
        });
        if !cli.quiet && !cli.json {
            let evicted = (evicted > 0).then(|| {
                format!(
                    "{} flows ended early, as more than {} were open (--max-flows); in CSV and \
                     JSON, `ended` says which",
                    human::count(evicted),
                    human::count(args.max_flows.into()),
                )
            });
            for note in naming::undecoded(remarks).into_iter().chain(evicted) {
                // A failure to write to standard error cannot be reported.
                let _ = writeln!(io::stderr(), "{note}");
            }
        }
        conclude(ledger, cli, failure, shown)
    }
}
