//! `forebay gen`: a capture of synthetic traffic.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_gen::{Config, Generator};
use forebay_io::{Format, OutputName, Summary, WriteOptions, Writer, is_stream};
use forebay_pipeline::{DropCount, Ledger, LedgerRow};
use serde_json::json;

use crate::cli::{Cli, GenArgs};
use crate::ending::{conclude, loss_of};
use crate::failure::Failure;
use crate::input::print_json;
use crate::show::human;
use crate::signals;

pub fn run(cli: &Cli, args: &GenArgs) -> Result<(), Failure> {
    match (&args.interface, &args.write) {
        (Some(device), _) => super::gen_live::run(cli, args, device),
        (None, Some(path)) => to_capture(cli, args, path),
        (None, None) => Err(Failure::Usage("gen: expected -w FILE or -i IFACE".to_owned())),
    }
}

fn to_capture(cli: &Cli, args: &GenArgs, path: &Path) -> Result<(), Failure> {
    let profile = args.profile.parse().map_err(|error| Failure::Usage(format!("{error}")))?;
    let framing = args.framing.parse().map_err(|error| Failure::Usage(format!("{error}")))?;
    let size = args.size.map(|size| {
        u16::try_from(size)
            .map_err(|_| Failure::Usage(format!("--size {size}: at most {}", u16::MAX)))
    });
    let config = Config {
        packets: args.capture_packets(),
        flows: args.flows,
        seed: args.seed,
        profile,
        framing,
        size: size.transpose()?,
        rate_pps: args.rate,
    };
    let mut generator = Generator::new(config)?;
    let (mut made, mut written) = (0, 0);
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let outcome = write(path, &mut generator, &stop, &mut made, &mut written);
    let ledger = match &outcome {
        Err(_) if !is_stream(path) => ledger(made, 0, "discarded"),
        Err(failure) => ledger(made, written, loss_of(failure)),
        Ok(_) => ledger(made, written, "aborted"),
    };
    match outcome {
        Ok(summary) => conclude(&ledger, cli, None, show(cli, (args, path), &summary, &ledger)),
        Err(failure) => conclude(&ledger, cli, Some(failure), Ok(())),
    }
}

/// Writes the traffic; counts the packets generated, and those accepted by the system.
fn write(
    path: &Path,
    generator: &mut Generator,
    stop: &AtomicBool,
    made: &mut u64,
    written: &mut u64,
) -> Result<Summary, Failure> {
    let name = OutputName::Exact(path.to_owned());
    let options = WriteOptions::default();
    let mut writer = Writer::create(name, Format::Pcap, generator.interfaces(), &options)?;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let batch = generator.next_batch().map_err(|source| Failure::File {
            doing: "hold packets for",
            file: path.display().to_string(),
            source,
        })?;
        let Some(batch) = batch else { break };
        let live = batch.live();
        *made += live.count() as u64;
        let wrote = writer.write(&batch, &live);
        *written = writer.written().packets;
        wrote?;
    }
    let flushed = writer.flush();
    *written = writer.written().packets;
    flushed?;
    Ok(writer.finish()?)
}

/// The ledger. Packets generated and not written are lost with a cause.
fn ledger(made: u64, written: u64, loss: &'static str) -> Ledger {
    let generate = LedgerRow {
        stage: "generate".into(),
        injected: made,
        output: made,
        ..LedgerRow::default()
    };
    let mut write = LedgerRow { input: made, ..LedgerRow::passed("write", written) };
    if made > written {
        write.drops.push(DropCount { name: loss, packets: made - written });
    }
    Ledger { rows: vec![generate, write] }
}

fn show(
    cli: &Cli,
    (args, path): (&GenArgs, &Path),
    summary: &Summary,
    ledger: &Ledger,
) -> Result<(), Failure> {
    if cli.json && path.as_os_str() != "-" {
        return print_json(&json!({
            "file": summary.path.display().to_string(),
            "packets": summary.packets,
            "bytes": summary.bytes,
            "flows": args.flows,
            "seed": args.seed,
            "profile": args.profile,
            "ledger": ledger,
            "closes": ledger.closes(),
        }));
    }
    if !cli.quiet {
        let (packets, flows) = (human::count(summary.packets), human::count(args.flows));
        let bytes = human::bytes(summary.bytes);
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{packets} packets of {flows} flows, {bytes}");
    }
    Ok(())
}
