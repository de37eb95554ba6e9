//! `forebay filter`: filters the packets of a capture or a device, as tcpdump does.

mod chains;
mod live;
mod rotate;
mod sink;
mod summary;

use std::path::Path;

use forebay_io::ReadOptions;
use forebay_jit::FilterSet;
use forebay_pipeline::Chain;

use crate::cli::{Cli, FilterArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{Input, compiler_options, filter_of, prepare, processors, read_options};
use chains::{chain, limited};
use sink::Sink;

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
