//! The end of a run: prints the ledger, and selects the most important of several failures.

use std::fs::{File, Metadata, metadata};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use forebay_pipeline::Ledger;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::show::{Colour, Column, Style, Table, human, terminal_columns};

/// Refuses an output that is the input file, under any name.
///
/// # Errors
/// [`Failure::ReplacesInput`]
pub fn refuse_input(output: &Path, input: &Path) -> Result<(), Failure> {
    let written = identity(output, io::stdout().as_fd());
    if written.is_some() && written == input_identity(input) {
        return Err(Failure::ReplacesInput { file: output.display().to_string() });
    }
    Ok(())
}

/// Device and inode of the input file; `-` is standard input.
#[must_use]
pub fn input_identity(input: &Path) -> Option<(u64, u64)> {
    identity(input, io::stdin().as_fd())
}

fn identity(path: &Path, stream: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let of_stream = || File::from(stream.try_clone_to_owned().ok()?).metadata().ok();
    let found = if path == Path::new("-") { of_stream() } else { metadata(path).ok() };
    // A terminal or a pipe can be input and output at once.
    found.filter(Metadata::is_file).map(|found| (found.dev(), found.ino()))
}

/// The name of the losses caused by a failure.
#[must_use]
pub fn loss_of(failure: &Failure) -> &'static str {
    use forebay_io::Error::{Create, Write};
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match failure {
        Failure::Stdout(source)
        | Failure::Capture(Write { source, .. } | Create { source, .. }) => match source.kind() {
            FileTooLarge | QuotaExceeded | StorageFull => "disk_full",
            _ => "write_failed",
        },
        _ => "aborted",
    }
}

/// Prints the ledger and returns the failure of a run: the one while packets moved (`run`),
/// else the one while results were printed (`shown`), else a ledger that does not close. A
/// closed standard output does not hide any other failure.
///
/// # Errors
/// That failure.
pub fn conclude(
    ledger: &Ledger,
    cli: &Cli,
    run: Option<Failure>,
    shown: Result<(), Failure>,
) -> Result<(), Failure> {
    let failures = [run, shown.err(), (!ledger.closes()).then_some(Failure::Ledger)];
    let (silent, loud): (Vec<_>, Vec<_>) =
        failures.into_iter().flatten().partition(Failure::is_silent);
    let table = shown_ledger(ledger, cli, !loud.is_empty());
    let failure = loud.into_iter().chain(silent).next();
    match (failure, table) {
        (Some(failure), Some(table)) => {
            Err(Failure::WithLedger { failure: Box::new(failure), table })
        }
        (Some(failure), None) => Err(failure),
        (None, table) => {
            // A failure to write to standard error cannot be reported.
            let _ = io::stderr().write_all(table.unwrap_or_default().as_bytes());
            Ok(())
        }
    }
}

/// The table of the ledger, if requested, or if the run failed after it had read packets.
fn shown_ledger(ledger: &Ledger, cli: &Cli, failed: bool) -> Option<String> {
    let is_shown = cli.verbose > 0 || failed && (ledger.input() > 0 || !ledger.closes());
    let width = terminal_columns(io::stderr());
    (is_shown && !cli.quiet).then(|| ledger_table(ledger, Colour::stderr(), width))
}

/// The ledger as a readable table.
#[must_use]
pub fn ledger_table(ledger: &Ledger, colour: Colour, width: Option<usize>) -> String {
    let mut table = Table::new(vec![
        Column::left("stage"),
        Column::right("in"),
        Column::right("out"),
        Column::right("held"),
        Column::wrapped("dropped"),
    ]);
    for row in &ledger.rows {
        let drops: Vec<String> = row
            .drops
            .iter()
            .filter(|drop| drop.packets > 0)
            .map(|drop| format!("{} {}", human::count(drop.packets), drop.name))
            .collect();
        table.row([
            row.stage.to_string(),
            human::count(row.input + row.copies + row.injected),
            human::count(row.output),
            human::count(row.held),
            drops.join(", "),
        ]);
    }
    let (text, style) = if ledger.closes() {
        ("every packet is accounted for", Style::Good)
    } else {
        ("THE LEDGER DOES NOT CLOSE", Style::Bad)
    };
    let verdict = colour.paint(style, text);
    let held = ledger.rows.iter().map(|row| row.held).sum();
    let held = if held > 0 { format!(" + {} held", human::count(held)) } else { String::new() };
    format!(
        "{}{verdict}: {} in = {} out + {} dropped{held}\n",
        table.render(width, colour),
        human::count(ledger.input()),
        human::count(ledger.output()),
        human::count(ledger.dropped()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use forebay_pipeline::{DropCount, LedgerRow};

    fn had_enough() -> Failure {
        Failure::Stdout(io::ErrorKind::BrokenPipe.into())
    }

    #[test]
    fn a_reader_that_has_had_enough_hides_no_other_failure() {
        let cli = Cli::parse_from(["forebay", "-q", "flows", "-r", "x"]);
        let end = |rows: Vec<LedgerRow>, run, shown| conclude(&Ledger { rows }, &cli, run, shown);
        let good = || vec![LedgerRow::passed("read", 1)];
        let bad = vec![LedgerRow { input: 1, ..LedgerRow::default() }];
        assert!(end(good(), None, Ok(())).is_ok());
        let both = end(good(), Some(Failure::Interrupted), Err(had_enough()));
        assert!(matches!(both, Err(Failure::Interrupted)));
        assert!(matches!(end(bad, None, Err(had_enough())), Err(Failure::Ledger)));
        assert!(matches!(end(good(), None, Err(had_enough())), Err(Failure::Stdout(_))));
    }

    #[test]
    fn packets_that_are_still_held_are_in_the_equation() {
        let drops = vec![DropCount { name: "buffer_full", packets: 3 }];
        let row = LedgerRow { input: 9, output: 4, held: 2, drops, ..LedgerRow::default() };
        let table = ledger_table(&Ledger { rows: vec![row] }, Colour::Never, None);
        assert!(table.contains("accounted for: 9 in = 4 out + 3 dropped + 2 held\n"), "{table}");
    }

    #[test]
    fn a_failure_comes_before_the_ledger_and_without_one_of_zeros() {
        let cli = Cli::parse_from(["forebay", "flows", "-r", "x"]);
        let end = |packets| {
            let ledger = Ledger { rows: vec![LedgerRow::passed("read", packets)] };
            conclude(&ledger, &cli, Some(Failure::Interrupted), Ok(()))
        };
        assert!(matches!(end(0), Err(Failure::Interrupted)));
        let Err(Failure::WithLedger { failure, table }) = end(1) else { panic!("a ledger") };
        assert!(matches!(*failure, Failure::Interrupted) && table.contains("1 in = 1 out"));
    }
}
