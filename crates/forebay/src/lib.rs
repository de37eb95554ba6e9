//! The `forebay` command: options, verbs, and their output.
//!
//! * [`cli`]: the command line, which also gives man pages and completions;
//! * [`help`]: the command line's definition, with a shorter help of `ctl`;
//! * [`verbs`]: one file for each verb;
//! * [`show`]: tables, numbers and progress on a terminal;
//! * [`report`]: the HTML page of a split;
//! * [`receiving`]: receiving from devices;
//! * [`ending`]: messages and statuses at the end of a run.
#![forbid(unsafe_code)]

pub mod cli;
pub mod ending;
pub mod failure;
pub mod help;
pub mod input;
pub mod naming;
pub mod receiving;
pub mod report;
pub mod series;
pub mod show;
pub mod signals;
pub mod verbs;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use failure::Failure;
use forebay_jit::Isa;
use forebay_packet::Vectors;
use show::{Colour, Style, text};

/// Runs the command with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let matches = help::command().get_matches();
    let cli = cli::Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    signals::outlive_file_limits();
    // An unavailable level is reported by the verbs that need one.
    if let Ok(Some(isa)) = forebay_jit::cpu::wanted(cli.isa.map(Into::into)) {
        vectors(isa).limit();
    }
    match verbs::dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                let label = Colour::stderr().paint(Style::Bad, "error:");
                let message = text::visible_lines(&failure.to_string());
                // A failure to write to standard error cannot be reported.
                let _ = writeln!(io::stderr(), "{label} {message}");
            }
            if let Failure::WithLedger { table, .. } = &failure {
                let _ = io::stderr().write_all(table.as_bytes());
            }
            failure.exit_code()
        }
    }
}

/// The vector width of an instruction-set level.
fn vectors(isa: Isa) -> Vectors {
    match isa {
        Isa::Scalar => Vectors::Scalar,
        Isa::Avx2 => Vectors::Avx2,
        Isa::Avx512Bw => Vectors::Avx512,
        Isa::Avx512Vbmi => Vectors::Avx512Vbmi,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_allows_the_vectors_it_has() {
        assert_eq!(Isa::ALL.map(vectors), Vectors::ALL);
    }
}
