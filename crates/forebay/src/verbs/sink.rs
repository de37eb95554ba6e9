//! `forebay sink`: receives and evaluates the probes of `forebay gen -i`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use forebay_gen::probe::{Tally, Tracker};
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Rx, RxCounters};
use forebay_packet::Batch;
use serde_json::json;

use crate::cli::{Cli, SinkArgs};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::receiving::{receive, take_rest, tell_listening, wait};
use crate::show::{Colour, Column, Table, human, terminal_columns};
use crate::signals;

/// The most devices: places that a flow's record distinguishes.
const MAX_DEVICES: usize = 64;

pub fn run(cli: &Cli, args: &SinkArgs) -> Result<(), Failure> {
    if args.interface.len() > MAX_DEVICES {
        let got = args.interface.len();
        return Err(Failure::Usage(format!("{got} devices: at most {MAX_DEVICES} are possible")));
    }
    // Blocks of 20 ms each: the ring bridges seconds in which this process does not run.
    // Packets have the kernel's time.
    let options = RxOptions { retire_ms: 20, ..RxOptions::default() };
    let open = |device: &String| PacketRx::open(device, &options);
    let mut ports: Vec<PacketRx> = args.interface.iter().map(open).collect::<Result<_, _>>()?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let idle_timeout = u64::try_from(args.idle_timeout.as_nanos()).unwrap_or(u64::MAX);
    let mut tracker = Tracker::new(idle_timeout);
    // The time of the last probe.
    let heard: Cell<Option<Instant>> = Cell::new(None);
    let mut take = |place: usize, batch: Batch| {
        let mut any = false;
        for i in batch.live().iter() {
            let nanos = u64::try_from(batch.nanos(i)).unwrap_or(0);
            any |= tracker.frame(batch.packet(i), place as u8, nanos);
        }
        if any {
            heard.set(Some(Instant::now()));
        }
        Ok(())
    };
    tell_listening(cli, &args.interface);
    let started = Instant::now();
    loop {
        let looked = Instant::now();
        let over = args.duration.is_some_and(|most| looked - started >= most);
        if over || stop.load(Ordering::Relaxed) {
            take_rest(&mut ports, &mut take)?;
            break;
        }
        if receive(&mut ports, &mut take)? {
            continue;
        }
        // Nothing was there although that long had passed when this looked.
        let silent = |at| args.quiet_after.is_some_and(|most| looked - at >= most);
        if heard.get().is_some_and(silent) {
            take_rest(&mut ports, &mut take)?;
            break;
        }
        wait(&ports)?;
    }
    let counters: Vec<RxCounters> = ports.iter_mut().map(Rx::counters).collect::<Result<_, _>>()?;
    show(cli, args, &tracker.tally(), &counters)
}

/// Packets by cause.
fn counts(losses: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    losses.iter().copied().collect()
}

fn show(cli: &Cli, args: &SinkArgs, tally: &Tally, counters: &[RxCounters]) -> Result<(), Failure> {
    let lost_here: u64 =
        counters.iter().flat_map(|one| &one.losses).map(|(_, packets)| packets).sum();
    if cli.json {
        let devices: Vec<_> = args
            .interface
            .iter()
            .zip(counters)
            .map(|(name, one)| {
                json!({
                    "interface": name,
                    "packets": one.packets,
                    "bytes": one.bytes,
                    "losses": counts(&one.losses),
                    "before": counts(&one.before),
                })
            })
            .collect();
        return print_json(&json!({
            "flows": tally.flows,
            "received": tally.received,
            "lost": tally.lost,
            "duplicates": tally.duplicates,
            "reordered": tally.reordered,
            "torn_flows": tally.torn_flows,
            "foreign": tally.foreign,
            "lost_here": lost_here,
            "interfaces": devices,
        }));
    }
    let mut table = Table::new(vec![Column::left("probes"), Column::right("")]);
    let rows = [
        ("flows", tally.flows),
        ("received", tally.received),
        ("lost", tally.lost),
        ("of these at this sink", lost_here),
        ("duplicates", tally.duplicates),
        ("reordered", tally.reordered),
        ("torn flows", tally.torn_flows),
        ("other frames", tally.foreign),
    ];
    for (name, count) in rows {
        table.row([name.to_owned(), human::count(count)]);
    }
    let text = table.render(terminal_columns(std::io::stdout().as_fd()), Colour::stdout());
    print(|out| out.write_all(text.as_bytes()))
}
