//! The first reading of `--balance packets` and `bytes`: counts the load of each unit.

use std::env::temp_dir;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use forebay_balance::UnitLoads;
use forebay_pipeline::{Chain, Worker};

use crate::cli::{SplitArgs, SplitBalance};
use crate::failure::Failure;
use crate::input::{Receive, file_failure, file_name};

/// A copy of a capture that must be read twice but can be read only once, in an unnamed
/// file; `None` if the capture itself can be read twice.
pub fn copy_of_stream(args: &SplitArgs) -> Result<Option<File>, Failure> {
    if args.balance == SplitBalance::Hash {
        return Ok(None);
    }
    let opened = if args.read == Path::new("-") {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(&args.read)
    };
    // A file that cannot be opened is reported when it is read.
    let Ok(input) = opened else { return Ok(None) };
    if input.metadata().is_ok_and(|metadata| metadata.is_file() || metadata.is_dir()) {
        return Ok(None);
    }
    super::outputs::refuse_occupied(&args.output, args.force)?;
    let folder = temp_dir();
    let no_file = |source| file_failure("create a temporary file in", &folder, source);
    let mut copy = tempfile::tempfile_in(&folder).map_err(no_file)?;
    let most = u64::from(args.spill) << 20;
    let copied = io::copy(&mut input.take(most + 1), &mut copy);
    let not_copied = |source| Failure::File { doing: "copy", file: file_name(&args.read), source };
    let in_folder = |source: io::Error| {
        let text = format!("{source} (in {}, which TMPDIR can name)", folder.display());
        not_copied(io::Error::new(source.kind(), text))
    };
    let copied = copied.map_err(in_folder)?;
    if copied > most {
        let text = format!(
            "it has more than {} MiB, and --balance reads it twice; name a file, or allow more \
             with --spill",
            args.spill
        );
        let source = io::Error::new(io::ErrorKind::FileTooLarge, text);
        return Err(not_copied(source));
    }
    copy.rewind().map_err(no_file)?;
    Ok(Some(copy))
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
