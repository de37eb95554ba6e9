//! `forebay scan`: literals in the payloads of a capture.
//!
//! Workers scan the packets of a batch together and queue what they find; it is counted and
//! printed in the order of the packets.

mod literals;
mod scanning;
mod tally;

use std::sync::Arc;

use forebay_packet::{DecodeOptions, Decoder};
use forebay_pipeline::Chain;
use forebay_scan::Scanner;

use crate::cli::{Cli, ScanArgs};
use crate::failure::Failure;
use crate::input::{Input, processors, read_options};
use literals::Literals;
use scanning::{Payloads, Queues, Scan};
use tally::Tally;

pub fn run(cli: &Cli, args: &ScanArgs) -> Result<(), Failure> {
    if args.literals.as_os_str() == "-" && args.read.as_os_str() == "-" {
        return Err(Failure::Usage("the literals or the capture can be `-`, not both".to_owned()));
    }
    let literals = Literals::read(&args.literals, args.nocase)?;
    let scanner = Arc::new(Scanner::compile(&literals.set, args.engine)?);
    let streams = args.hits && !cli.json;
    // A progress bar would be drawn between the lines of the results.
    let options = read_options(&args.limits, processors());
    let mut input = Input::open(&args.read, &options, cli.quiet || streams)?;
    input.watch_signals()?;
    let decoder =
        Decoder::new(DecodeOptions { tunnel_depth: args.tunnel_depth, ..Default::default() });
    let payloads = || Payloads::new(decoder, Arc::clone(&scanner));
    let queues = Queues::new(processors());
    let chain = |worker| Chain::new().with(Scan::new(payloads(), queues.clone(), worker));
    let workers = input.workers((0..processors()).map(chain).collect());
    let mut tally = Tally::new(cli, &literals, args.hits)?;
    let mut left = payloads();
    let run = forebay_pipeline::run(workers, Chain::new(), |batch| {
        queues.take(batch, &mut left, |i, scanned, matches| {
            tally.count(batch.wire_len(i), scanned, matches)
        })
    });
    drop(input);
    tally.conclude(cli, run.ledger, run.error.map(Failure::from))
}
