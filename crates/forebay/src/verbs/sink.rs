//! `forebay sink`: what became of the probes of `forebay gen -i`.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_gen::probe::{Tally, Tracker};
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Received, Rx, RxCounters};
use serde_json::json;

use crate::cli::{Cli, SinkArgs};
use crate::failure::Failure;
use crate::input::{print, print_json};
use crate::receiving::wait;
use crate::show::{Colour, Column, Table, human, terminal_columns};
use crate::signals;

/// The most devices: places that a flow's account tells apart.
const MAX_DEVICES: usize = 64;

pub fn run(cli: &Cli, args: &SinkArgs) -> Result<(), Failure> {
    if args.interface.len() > MAX_DEVICES {
        let got = args.interface.len();
        return Err(Failure::Usage(format!("{got} devices: at most {MAX_DEVICES} are possible")));
    }
    let open = |device: &String| PacketRx::open(device, &RxOptions::default());
    let mut ports: Vec<PacketRx> = args.interface.iter().map(open).collect::<Result<_, _>>()?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let idle_timeout = u64::try_from(args.idle_timeout.as_nanos()).unwrap_or(u64::MAX);
    let mut tracker = Tracker::new(idle_timeout);
    let started = Instant::now();
    let mut heard: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let now = started.elapsed();
        let silent =
            heard.is_some_and(|at| args.quiet_after.is_some_and(|most| at.elapsed() >= most));
        if silent || args.duration.is_some_and(|most| now >= most) {
            break;
        }
        if take(&mut ports, &mut tracker, now)? {
            heard = Some(Instant::now());
        } else {
            wait(&ports)?;
        }
    }
    let counters: Vec<RxCounters> = ports.iter_mut().map(Rx::counters).collect::<Result<_, _>>()?;
    show(cli, args, &tracker.tally(), &counters)
}

/// Takes what has come to all devices; says whether anything had.
fn take(ports: &mut [PacketRx], tracker: &mut Tracker, now: Duration) -> Result<bool, Failure> {
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let mut any = false;
    for (place, port) in (0_u8..).zip(ports) {
        if let Received::Batch(batch) = port.receive()? {
            any = true;
            for i in batch.live().iter() {
                tracker.frame(batch.packet(i), place, now);
            }
        }
    }
    Ok(any)
}

fn show(cli: &Cli, args: &SinkArgs, tally: &Tally, counters: &[RxCounters]) -> Result<(), Failure> {
    let lost_here: u64 =
        counters.iter().flat_map(|one| &one.losses).map(|(_, packets)| packets).sum();
    if cli.json {
        let devices: Vec<_> = args.interface.iter().zip(counters).map(|(name, one)| {
            json!({
                "interface": name,
                "packets": one.packets,
                "bytes": one.bytes,
                "losses": one.losses.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
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
