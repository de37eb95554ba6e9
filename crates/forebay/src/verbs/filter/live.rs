//! `forebay filter -i`: what tcpdump does with a device.
//!
//! One thread receives, filters and writes. A signal ends the capture after what has been
//! received by then. A file has its name from its first packet on, for those who read it
//! while it grows, and is whole at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Format, Received, Rx};
use forebay_jit::FilterSet;
use forebay_packet::Batch;
use forebay_pipeline::{Chain, DropCount, Ledger, LedgerRow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Sink, chain, limited};
use crate::cli::{Cli, FilterArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{compiler_options, filter_of};
use crate::signals;

/// The longest that one waits for packets before looking for signals.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Batches that are still taken in after a signal: a ring full of them.
const LAST_BATCHES: usize = 4_096;

/// Captures on a device.
pub fn run(cli: &Cli, args: &FilterArgs, device: &str) -> Result<(), Failure> {
    let mut programs = filter_of(cli, &args.selection)?;
    if args.verdicts && programs.is_none() {
        programs = Some(FilterSet::new("", compiler_options(cli, args.selection.backend)?));
    }
    let mut port = PacketRx::open(device, &RxOptions::default())?;
    if let Some(programs) = &mut programs {
        programs.prepare(port.interfaces())?;
    }
    let mut sink = Sink::of(cli, args, Format::Pcap, true)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let mut stages = limited(chain(args, programs.as_ref()), args);
    let outcome = capture(&mut port, &mut stages, &mut sink, &stop);
    let closed = sink.close(port.interfaces());
    let ledger = ledger(&mut port, &stages, device)?;
    let failure = outcome.and(closed).err();
    let shown = sink.show(cli, &ledger, failure.as_ref());
    conclude(&ledger, cli, failure, shown)
}

/// Takes packets until a signal, a stage or the device ends it.
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
                wait(port)?;
                continue;
            }
            Received::End => return Ok(()),
        }
        if stages.wants_no_more() {
            return Ok(());
        }
    }
    for _ in 0..LAST_BATCHES {
        let Received::Batch(batch) = port.receive()? else { break };
        pass(stages, sink, batch)?;
    }
    Ok(())
}

fn pass(stages: &mut Chain, sink: &mut Sink, batch: Batch) -> Result<(), Failure> {
    stages.push(batch, &mut |batch| sink.take(&batch))
}

fn wait(port: &PacketRx) -> Result<(), Failure> {
    let descriptor = port.descriptor();
    let mut polled: Vec<PollFd<'_>> =
        descriptor.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&NAP)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Failure::Live(format!("cannot wait for packets: {error}"))),
    }
}

/// The account: of the device, then of the stages.
fn ledger(port: &mut PacketRx, stages: &Chain, device: &str) -> Result<Ledger, Failure> {
    let counters = port.counters()?;
    let lost: u64 = counters.losses.iter().map(|(_, packets)| packets).sum();
    let drop = |&(name, packets): &(&'static str, u64)| DropCount { name, packets };
    let received = LedgerRow {
        stage: format!("rx {device}").into(),
        input: counters.packets + lost,
        output: counters.packets,
        drops: counters.losses.iter().map(drop).collect(),
        ..LedgerRow::default()
    };
    Ok(Ledger { rows: std::iter::once(received).chain(stages.rows()).collect() })
}
