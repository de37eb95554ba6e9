//! `forebay flows`: the flows of a capture.

mod formats;
mod listing;
mod stored;

use std::io::{self, Write};

use forebay_flow::{FlowTable, OnFull, RecordOptions};
use forebay_packet::{Affinity, Decoder};
use forebay_pipeline::Chain;
use forebay_pipeline::stages::{Classify, Fragments, Window};

use crate::cli::{Cli, FlowFormat, FlowsArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{Input, decode_options, print, print_json, processors, read_options};
use crate::naming;
use crate::show::human;
use formats::{Document, write_table};
use listing::Listing;

pub fn run(cli: &Cli, args: &FlowsArgs) -> Result<(), Failure> {
    let options = read_options(&args.limits, processors());
    let mut input = Input::open(&args.read, &options, cli.quiet)?;
    input.watch_signals()?;
    let decoder = Decoder::new(decode_options(&args.flow, Affinity::FiveTuple));
    let chain = || Chain::new().with(Classify::with_keys_only(decoder));
    let workers = input.workers((0..processors()).map(|_| chain()).collect());
    let serial = Chain::new().with(Fragments::new(Window::OFFLINE));
    let format = if cli.json { FlowFormat::Json } else { args.format };
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut flows = FlowTable::new(RecordOptions {
        idle: args.idle_timeout.map(nanos),
        active: args.active_timeout.map(nanos),
        ..RecordOptions::new(args.max_flows as usize, OnFull::Evict)
    });
    let mut listing = Listing::new(format, args)?;
    let run = forebay_pipeline::run(workers, serial, |batch| {
        let mut added = Ok(());
        flows.count(batch, |record| {
            if added.is_ok() {
                added = listing.add(&record);
            }
        });
        added
    });
    drop(input);
    flows.finish();
    let failure = run.error.map(Failure::from);
    let evicted = listing.evicted();
    let shown = listing.with_open(&flows).and_then(|records| match format {
        FlowFormat::Json => print_json(&Document {
            records: &records,
            ledger: &run.ledger,
            remarks: &run.remarks,
            error: failure.as_ref().map(ToString::to_string),
        }),
        FlowFormat::Table => print(|out| write_table(out, &records)),
        FlowFormat::Csv | FlowFormat::Jsonl => records.print(),
    });
    if !cli.quiet && !cli.json {
        let evicted = (evicted > 0).then(|| {
            format!(
                "{} flows ended early, as more than {} were open (--max-flows); in CSV and JSON, \
                 `ended` says which",
                human::count(evicted),
                human::count(args.max_flows.into()),
            )
        });
        for note in naming::undecoded(&run.remarks).into_iter().chain(evicted) {
            // A failure to write to standard error cannot be reported.
            let _ = writeln!(io::stderr(), "{note}");
        }
    }
    conclude(&run.ledger, cli, failure, shown)
}
