//! `forebay gen -i`: probes on a network device.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use forebay_gen::probe::{Life, ProbeBatches, ProbeOptions, Probes};
use forebay_io::Tx;
use forebay_io::af_packet::{PacketTx, TxOptions};
use forebay_packet::{BATCH, MacAddress, Rewrites};
use forebay_pipeline::{DropCount, Ledger, LedgerRow};
use serde_json::json;

use crate::cli::{Cli, GenArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::print_json;
use crate::show::human;
use crate::signals;

/// The longest delay that is made up for; packets delayed longer are skipped.
const CATCH_UP: Duration = Duration::from_millis(2);

/// How long to sleep when nothing is due.
const NAP: Duration = Duration::from_micros(50);

/// Default addresses of probes.
const DESTINATION: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x02]);
const SOURCE: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x01]);

pub fn run(cli: &Cli, args: &GenArgs, device: &str) -> Result<(), Failure> {
    let len = args.size.unwrap_or(60) as usize;
    let flows = u32::try_from(args.flows).unwrap_or(u32::MAX);
    let life = match args.life {
        Some(life) => Life::Mean(u64::try_from(life.as_nanos()).unwrap_or(u64::MAX)),
        None => Life::Persistent,
    };
    let options = ProbeOptions {
        len,
        flows,
        life,
        zipf: !args.even,
        seed: args.seed,
        run: run_number(),
        destination: args.to.unwrap_or(DESTINATION),
        source: args.from.unwrap_or(SOURCE),
    };
    let mut probes = Probes::new(&options).map_err(|error| Failure::Usage(error.to_string()))?;
    let memory = |source| Failure::File { doing: "hold packets for", file: device.into(), source };
    let mut batches = ProbeBatches::new(len).map_err(memory)?;
    let patience = Duration::from_millis(100);
    let mut port = PacketTx::open(device, &TxOptions { patience, ..TxOptions::default() })?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let most = args.live_packets();
    let started = Instant::now();
    let (mut made, mut left_out) = (0_u64, 0_u64);
    while !stop.load(Ordering::Relaxed) && made < most {
        let elapsed = started.elapsed();
        if args.duration.is_some_and(|duration| elapsed >= duration) {
            break;
        }
        let due = (elapsed.as_secs_f64() * args.rate as f64) as u64;
        let late = due.saturating_sub(made + left_out);
        left_out += late.saturating_sub((CATCH_UP.as_secs_f64() * args.rate as f64) as u64 + 1);
        let packets = due.saturating_sub(made + left_out).min(most - made).min(BATCH as u64);
        if packets == 0 {
            std::thread::sleep(NAP);
            continue;
        }
        let now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let batch = batches.next(&mut probes, packets as usize, now).map_err(memory)?;
        port.send(&batch, &batch.live(), &Rewrites::NONE)?;
        port.flush()?;
        made += packets;
    }
    let took = started.elapsed();
    let ledger = settle(&mut port, made)?;
    let shown =
        show(cli, &Sending { device, ledger: &ledger, took, left_out, flows: probes.started() });
    conclude(&ledger, cli, None, shown)
}

/// A run number that differs from other runs', unless they are a multiple of 65.536 s
/// apart, to the millisecond.
fn run_number() -> u16 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u16)
}

/// Waits until the ring is empty, and computes the ledger.
fn settle(port: &mut PacketTx, made: u64) -> Result<Ledger, Failure> {
    let until = Instant::now() + Duration::from_secs(1);
    let mut counters = port.counters()?;
    while counters.held > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
        port.flush()?;
        counters = port.counters()?;
    }
    let generate = LedgerRow {
        stage: "generate".into(),
        injected: made,
        output: made,
        ..LedgerRow::default()
    };
    let drops = counters.losses.iter().map(|&(name, packets)| DropCount { name, packets });
    let send = LedgerRow {
        stage: "send".into(),
        input: made,
        output: counters.packets,
        drops: drops.collect(),
        held: counters.held,
        ..LedgerRow::default()
    };
    Ok(Ledger { rows: vec![generate, send] })
}

/// Frames that were sent, and how fast.
struct Sending<'a> {
    device: &'a str,
    ledger: &'a Ledger,
    took: Duration,
    /// Packets that were due and skipped, to avoid a burst.
    left_out: u64,
    flows: u64,
}

fn show(cli: &Cli, sending: &Sending<'_>) -> Result<(), Failure> {
    let Sending { device, ledger, took, left_out, flows } = *sending;
    let sent = ledger.output();
    let rate = sent as f64 / took.as_secs_f64().max(1e-9);
    if cli.json {
        return print_json(&json!({
            "interface": device,
            "packets": sent,
            "flows": flows,
            "seconds": took.as_secs_f64(),
            "packets_per_s": rate,
            "left_out": left_out,
            "ledger": ledger,
            "closes": ledger.closes(),
        }));
    }
    if !cli.quiet {
        let (packets, flows) = (human::count(sent), human::count(flows));
        let rate = human::packet_rate(rate);
        let late = match left_out {
            0 => String::new(),
            packets => format!(", {} left out because they were late", human::count(packets)),
        };
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{packets} packets of {flows} flows, {rate}{late}");
    }
    Ok(())
}
