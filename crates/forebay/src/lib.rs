//! What the `forebay` command does: options, verbs, and what they show.
//!
//! * [`cli`]: the command line, from which man pages and completions are made too;
//! * [`help`]: the command line as it is parsed, with the help of `ctl` made shorter;
//! * [`verbs`]: one file a verb;
//! * [`show`]: tables, numbers and progress on a terminal;
//! * [`report`]: the HTML page of a split;
//! * [`receiving`]: waiting for what devices receive;
//! * [`ending`]: what a run says when it is over.
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
    // A level that is not to be had is refused by the verbs that need one.
    if let Ok(Some(isa)) = forebay_jit::cpu::wanted(cli.isa.map(Into::into)) {
        vectors(isa).limit();
    }
    match verbs::dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                let label = Colour::stderr().paint(Style::Bad, "error:");
                let message = text::visible_lines(&failure.to_string());
                // Nobody is there to be told of a standard error that takes nothing.
                let _ = writeln!(io::stderr(), "{label} {message}");
            }
            if let Failure::WithLedger { table, .. } = &failure {
                let _ = io::stderr().write_all(table.as_bytes());
            }
            failure.exit_code()
        }
    }
}

/// The vectors of an instruction-set level.
fn vectors(isa: Isa) -> Vectors {
    match isa {
        Isa::Scalar => Vectors::Scalar,
        Isa::Avx2 => Vectors::Avx2,
        Isa::Avx512Bw | Isa::Avx512Vbmi => Vectors::Avx512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_allows_the_vectors_it_has() {
        let all = [Vectors::Scalar, Vectors::Avx2, Vectors::Avx512, Vectors::Avx512];
        assert_eq!(Isa::ALL.map(vectors), all);
    }
}
