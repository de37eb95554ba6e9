//! `--learn`: which bytes are frequent in the traffic, by a capture of it.

use std::path::Path;

use forebay_packet::{Batch, Decoder};
use forebay_pipeline::Chain;
use forebay_scan::TrafficModel;

use crate::cli::{Cli, ScanArgs};
use crate::failure::Failure;
use crate::input::{Input, processors, read_options};

/// The frequencies of bytes in the payloads of a capture.
///
/// # Errors
/// If it cannot be read to its end.
pub(super) fn model(
    cli: &Cli,
    args: &ScanArgs,
    capture: &Path,
    decoder: &Decoder,
) -> Result<TrafficModel, Failure> {
    let mut model = TrafficModel::default();
    let options = read_options(&args.limits, processors());
    let mut input = Input::open(capture, &options, cli.quiet)?;
    input.watch_signals()?;
    let workers = input.workers(vec![Chain::new()]);
    let run = forebay_pipeline::run(workers, Chain::new(), |batch: &Batch| {
        for i in batch.live().iter() {
            let payload = decoder.payload(batch.interface(i).link, batch.packet(i));
            model.learn(payload.unwrap_or_default());
        }
        Ok(())
    });
    drop(input);
    run.error.map_or(Ok(model), |error| Err(error.into()))
}
