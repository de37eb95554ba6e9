//! `forebay gen`: a capture of synthetic traffic.

use std::sync::atomic::Ordering;

use forebay_gen::{Config, Generator};
use forebay_io::{Format, OutputName, Tx as _, WriteOptions, Writer};
use serde_json::json;

use crate::cli::{Cli, GenArgs};
use crate::failure::Failure;
use crate::input::{print_json, stop_flag};
use crate::show::human;

pub fn run(cli: &Cli, args: &GenArgs) -> Result<(), Failure> {
    let profile = args.profile.parse().map_err(|error| Failure::Usage(format!("{error}")))?;
    let size = args.size.map(|size| {
        u16::try_from(size)
            .map_err(|_| Failure::Usage(format!("--size {size}: at most {}", u16::MAX)))
    });
    let config = Config {
        packets: args.packets,
        flows: args.flows,
        seed: args.seed,
        profile,
        size: size.transpose()?,
        rate_pps: args.rate,
    };
    let mut generator = Generator::new(config)?;
    let name = OutputName::Exact(args.write.clone());
    let options = WriteOptions::default();
    let mut writer = Writer::create(name, Format::Pcap, generator.interfaces(), &options)?;
    let stop = stop_flag()?;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let made = generator.next_batch().map_err(|source| Failure::File {
            doing: "hold packets for",
            file: args.write.display().to_string(),
            source,
        })?;
        let Some(batch) = made else { break };
        writer.send(&batch, &batch.live())?;
    }
    let summary = writer.finish()?;
    if cli.json && args.write.as_os_str() != "-" {
        return print_json(&json!({
            "file": summary.path.display().to_string(),
            "packets": summary.packets,
            "bytes": summary.bytes,
            "flows": args.flows,
            "seed": args.seed,
            "profile": args.profile,
        }));
    }
    if !cli.quiet {
        eprintln!(
            "{} packets of {} flows, {}",
            human::count(summary.packets),
            human::count(args.flows),
            human::bytes(summary.bytes),
        );
    }
    Ok(())
}
