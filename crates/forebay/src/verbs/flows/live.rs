//! `forebay flows -i`: the flows of a device.
//!
//! One thread receives and counts. Records are written as they end; a signal ends the run
//! after the packets received by then, and the records that are open are written too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_broker::report::received;
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Received, Rx};
use forebay_packet::{Affinity, Batch, Decoder};
use forebay_pipeline::stages::{Classify, Fragments, Window};
use forebay_pipeline::{Chain, Ledger};

use super::{Count, limited};
use crate::cli::{Cli, FlowsArgs};
use crate::failure::Failure;
use crate::input::decode_options;
use crate::receiving::{take_rest, tell_listening, wait};
use crate::signals;

/// Timeouts of records where none are given: flows of a device may have no other end.
const IDLE: Duration = Duration::from_secs(60);
const ACTIVE: Duration = Duration::from_secs(1_800);

/// How fragments wait for the first of their datagram.
const WINDOW: Window = Window { live_nanos: Some(1_000_000_000), ..Window::OFFLINE };

/// Time between two passes over silent records, and the longest buffering of lines.
const TICK: Duration = Duration::from_millis(100);

/// Counts the packets of a device.
pub(super) fn run(cli: &Cli, args: &FlowsArgs, device: &str) -> Result<(), Failure> {
    let mut port = PacketRx::open(device, &RxOptions::default())?;
    let (idle, active) = (args.idle_timeout.unwrap_or(IDLE), args.active_timeout.unwrap_or(ACTIVE));
    let mut count = Count::new(cli, args, Some(idle), Some(active))?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let decoder = Decoder::new(decode_options(&args.flow, Affinity::FiveTuple));
    let mut stages =
        limited(args).with(Classify::with_keys_only(decoder)).with(Fragments::new(WINDOW));
    tell_listening(cli, [device]);
    let outcome = capture(&mut port, &mut stages, &mut count, &stop);
    let drained = stages.drain(&mut |batch| count.take(&batch));
    let device = received(device, &port.counters()?);
    let ledger = Ledger { rows: std::iter::once(device).chain(stages.rows()).collect() };
    count.finish(cli, args, &ledger, &stages.remarks(), outcome.and(drained).err())
}

/// Counts packets until a signal, the limit or the device ends the run.
fn capture(
    port: &mut PacketRx,
    stages: &mut Chain,
    count: &mut Count,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let began = Instant::now();
    let (mut last_packet, mut last_tick) = (began, began);
    while !stop.load(Ordering::Relaxed) && !stages.wants_no_more() {
        let is_idle = match port.receive()? {
            Received::Batch(batch) => {
                pass(stages, count, batch)?;
                last_packet = Instant::now();
                false
            }
            Received::Idle => true,
            Received::End => return Ok(()),
        };
        if last_tick.elapsed() >= TICK {
            last_tick = Instant::now();
            let now = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            stages.tick(now, &mut |batch| count.take(&batch))?;
            count.pass_time(last_packet.elapsed())?;
            count.listing.flush()?;
        }
        if is_idle {
            wait(std::slice::from_ref(port))?;
        }
    }
    if stages.wants_no_more() {
        return Ok(());
    }
    take_rest(std::slice::from_mut(port), |_, batch| pass(stages, count, batch))
}

fn pass(stages: &mut Chain, count: &mut Count, batch: Batch) -> Result<(), Failure> {
    stages.push(batch, &mut |batch| count.take(&batch))
}
