//! `forebay filter -i`: filters the packets of a device, as tcpdump does.
//!
//! One thread receives, filters and writes. A signal ends the capture after the packets
//! received by then. A file is `NAME.partial` from its first packet on, so that it can be
//! read while it grows, and gets its name at the end, when it is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_broker::report::received;
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Format, Received, Rx};
use forebay_jit::FilterSet;
use forebay_packet::Batch;
use forebay_pipeline::{Chain, Ledger};

use super::chains::{chain, limited};
use super::sink::Sink;
use crate::cli::{Cli, FilterArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{compiler_options, filter_of};
use crate::receiving::{take_rest, tell_listening, wait};
use crate::signals;

/// Captures on a device.
pub fn run(cli: &Cli, args: &FilterArgs, device: &str) -> Result<(), Failure> {
    let mut programs = filter_of(cli, &args.selection)?;
    if args.verdicts && programs.is_none() {
        programs = Some(FilterSet::new("", compiler_options(cli, args.selection.backend)?));
    }
    let mut port = PacketRx::open(device, &RxOptions::default())?;
    if let Some(programs) = &mut programs {
        for (index, interface) in port.interfaces().iter().enumerate() {
            programs.require(index, interface).map_err(Failure::WrongFilter)?;
        }
    }
    let mut sink = Sink::of(cli, args, Format::Pcap)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let mut stages = limited(chain(args, programs.as_ref()), args);
    tell_listening(cli, [device]);
    let outcome = capture(&mut port, &mut stages, &mut sink, &stop);
    let closed = sink.close(port.interfaces());
    let mut ledger = ledger(&mut port, &stages, device)?;
    sink.correct(&mut ledger, closed.as_ref().err().or(outcome.as_ref().err()));
    let failure = outcome.and(closed).err();
    let shown = sink.show(cli, &ledger, failure.as_ref());
    conclude(&ledger, cli, failure, shown)
}

/// Processes packets until a signal, a stage or the device ends the run.
fn capture(
    port: &mut PacketRx,
    stages: &mut Chain,
    sink: &mut Sink,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    while !stop.load(Ordering::Relaxed) {
        match port.receive()? {
            Received::Batch(batch) => pass(stages, sink, batch)?,
            Received::Idle => {
                sink.flush()?;
                wait(std::slice::from_ref(port))?;
                continue;
            }
            Received::End => return Ok(()),
        }
        if stages.wants_no_more() || sink.wants_no_more() {
            return Ok(());
        }
    }
    take_rest(std::slice::from_mut(port), |_, batch| pass(stages, sink, batch))
}

fn pass(stages: &mut Chain, sink: &mut Sink, batch: Batch) -> Result<(), Failure> {
    stages.push(batch, &mut |batch| sink.take(&batch))
}

/// The ledger: the device's account, then the stages'.
fn ledger(port: &mut PacketRx, stages: &Chain, device: &str) -> Result<Ledger, Failure> {
    let device = received(device, &port.counters()?);
    Ok(Ledger { rows: std::iter::once(device).chain(stages.rows()).collect() })
}
