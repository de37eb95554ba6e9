//! The first reading of `--balance packets` and `bytes`: counts the load of each unit.

use std::fs::File;

use forebay_balance::UnitLoads;
use forebay_pipeline::{Chain, Worker};

use crate::cli::{SplitArgs, SplitBalance};
use crate::failure::Failure;
use crate::input::{self, Receive};

/// A copy of the capture if it is read twice but can be read only once.
pub fn copy_of_stream(args: &SplitArgs) -> Result<Option<File>, Failure> {
    if args.balance == SplitBalance::Hash {
        return Ok(None);
    }
    let before = || super::outputs::refuse_occupied(&args.output, args.force).map(drop);
    input::copy_of_stream(&args.read, args.spill, "--balance reads it twice", before)
}

/// Counts the load of each unit, as far as the input can be read: errors are reported when
/// it is read again.
pub fn count(
    by: SplitBalance,
    workers: Vec<Worker<Receive>>,
    serial: Chain,
) -> Result<UnitLoads, Failure> {
    let mut loads = UnitLoads::default();
    let run = forebay_pipeline::run(workers, serial, |batch| {
        for i in batch.live().iter() {
            let load = match by {
                SplitBalance::Bytes => u64::from(batch.wire_len(i)),
                SplitBalance::Packets | SplitBalance::Hash => 1,
            };
            loads.add(batch.hash[i], load);
        }
        Ok::<(), Failure>(())
    });
    match run.error.map(Failure::from) {
        Some(failure) if !failure.is_damaged_input() => Err(failure),
        _ => Ok(loads),
    }
}
