//! `forebay gateway`: sensors get the flows that may matter to them, live or offline.
//!
//! Offline the capture is read twice. The first reading goes through the stages of the live broker
//! and notes by packet what passes; the second writes these packets, in the order of the capture.

mod result;
mod settings;

use std::sync::{Arc, Mutex, PoisonError};

use forebay_broker::compiled::CompiledConfig;
use forebay_broker::config::Config;
use forebay_io::{OutputName, ReadOptions, WriteOptions, Writer};
use forebay_packet::{Batch, HashKey, Interface, LiveMask};
use forebay_pipeline::stages::{
    Classify, Gateway, GatewayObserver, GatewayOptions, Scan, ScannedFlowsOf,
};
use forebay_pipeline::{Chain, Ledger, Settings};

use super::run;
use crate::cli::{Cli, GatewayArgs};
use crate::ending::{conclude, loss_of, refuse_input};
use crate::failure::Failure;
use crate::input::{Input, copy_of_stream, processors, read_options};
use result::GatewayResult;

pub fn run(cli: &Cli, args: &GatewayArgs) -> Result<(), Failure> {
    if let Some(path) = &args.config {
        return run::run_broker(cli, path, args.check, true);
    }
    let Some(read) = &args.read else {
        return Err(Failure::Usage("expected -c FILE or -r PCAP".to_owned()));
    };
    if args.write.is_none() && !args.explain {
        return Err(Failure::Usage("-r PCAP: expected -w PCAP, --explain, or both".to_owned()));
    }
    if let Some(write) = &args.write {
        refuse_input(write, read)?;
    }
    let config = settings::config(args)?;
    let compiled = run::compiled(cli, &config, &run::code_options(cli)?)?;
    let reading =
        ReadOptions { stop: Some(Arc::default()), ..read_options(&args.limits, processors()) };
    let copy = match &args.write {
        Some(_) => copy_of_stream(read, args.spill, "-w reads it twice", || Ok(()))?,
        None => None,
    };
    let passed = Passed::default();
    let serial = chain(&config, &compiled, passed.clone());
    let mut input = Input::open_copy(copy.as_ref(), read, &reading, cli.quiet)?;
    input.watch_signals()?;
    let workers = input.workers((0..processors()).map(|_| Chain::new()).collect());
    let run = forebay_pipeline::run(workers, serial, |_| Ok::<(), Failure>(()));
    let bytes = input.wire_bytes();
    drop(input);
    let mut ledger = run.ledger;
    let failure = run.error.map(Failure::from);
    // Packets before a truncation are valid; after any other failure nothing is written.
    let stands = failure.as_ref().is_none_or(Failure::is_damaged_input);
    let mut written = Ok(None);
    if let Some(write) = args.write.as_ref().filter(|_| stands) {
        let again = Input::open_copy(copy.as_ref(), read, &reading, cli.quiet)?;
        written = write_passed(again, write, &passed, &mut ledger).map(Some);
    }
    let (file, failed) = match written {
        Ok(file) => (file, None),
        Err(failure) => (None, Some(failure)),
    };
    let result = GatewayResult {
        args,
        scan: compiled.scan.as_deref(),
        remarks: &run.remarks,
        ledger: &ledger,
        bytes,
        file: file.as_ref(),
        error: failure.as_ref().or(failed.as_ref()).map(ToString::to_string),
    };
    let shown = match failed {
        Some(failed) => Err(failed),
        None => result.show(cli),
    };
    conclude(&ledger, cli, failure, shown)
}

/// The stages of the first reading.
fn chain(config: &Config, compiled: &CompiledConfig, passed: Passed) -> Chain {
    let scan = compiled.scan.clone();
    let flows = ScannedFlowsOf::of(scan.as_deref());
    let decoder = scan.as_ref().map(|scan| scan.options().decode).unwrap_or_default();
    let options = config.groups.iter().find_map(|group| group.stages.setting());
    let options = GatewayOptions { clears_at_end: true, ..options.unwrap_or_default() };
    let gateway = Gateway::new(options).observed(Box::new(passed));
    Chain::new()
        .with(Scan::optional(scan, HashKey::OFFLINE).reporting(compiled.reports))
        .with(Classify::with_keys_only(forebay_packet::Decoder::new(decoder)))
        .with(gateway)
        .configured(&Settings::new().with(flows))
}

/// The packets that pass, by their place in the capture: a bit each.
#[derive(Clone, Default)]
struct Passed(Arc<Mutex<Vec<u64>>>);

impl GatewayObserver for Passed {
    fn passed(&mut self, number: u64) {
        let mut bits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let word = (number / 64) as usize;
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] |= 1 << (number % 64);
    }
}

/// The second reading: writes the packets that pass. The ledger loses those that are not written.
fn write_passed(
    mut input: Input,
    path: &std::path::Path,
    passed: &Passed,
    ledger: &mut Ledger,
) -> Result<forebay_io::Summary, Failure> {
    input.watch_signals()?;
    let bits = std::mem::take(&mut *passed.0.lock().unwrap_or_else(PoisonError::into_inner));
    let (format, mut first) = (input.format(), 0);
    let mut writer: Option<Writer> = None;
    let create = |interfaces: &Arc<Vec<Interface>>| {
        let name = OutputName::Exact(path.to_owned());
        Writer::create(name, format, interfaces, &WriteOptions::default())
    };
    let workers = input.workers((0..processors()).map(|_| Chain::new()).collect());
    let run = forebay_pipeline::run(workers, Chain::new(), |batch: &Batch| {
        let mut mask = LiveMask::EMPTY;
        for i in batch.live().iter() {
            let number: u64 = first;
            first += 1;
            if bits.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 != 0) {
                mask.insert(i);
            }
        }
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(create(batch.interfaces())?),
        };
        Ok::<(), Failure>(writer.write(batch, &mask)?)
    });
    let all = match input.interfaces() {
        some if some.is_empty() => vec![Interface::default()],
        some => some.to_vec(),
    };
    drop(input);
    let failure = run.error.map(Failure::from).filter(|failure| !failure.is_damaged_input());
    let written = match (failure, writer) {
        (Some(failure), _) => Err(failure),
        (None, Some(writer)) => writer.finish().map_err(Failure::from),
        (None, None) => create(&Arc::new(all)).and_then(Writer::finish).map_err(Failure::from),
    };
    match &written {
        Ok(file) => ledger.keep_output(file.packets, "not_written"),
        Err(failure) => ledger.keep_output(0, loss_of(failure)),
    }
    written
}
