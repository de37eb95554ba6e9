//! What the `forebay` command does: options, verbs, and what they show.
//!
//! * [`cli`]: the command line, from which man pages and completions are made too;
//! * [`verbs`]: one file a verb;
//! * [`show`]: tables, numbers and progress on a terminal;
//! * [`report`]: the HTML page of a split.
#![forbid(unsafe_code)]

pub mod cli;
pub mod failure;
pub mod input;
pub mod naming;
pub mod report;
pub mod series;
pub mod show;
pub mod verbs;

use std::process::ExitCode;

use clap::Parser as _;
use show::{Colour, Style};

/// Runs the command with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match verbs::dispatch(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                let label = Colour::stderr().paint(Style::Bad, "error:");
                eprintln!("{label} {failure}");
            }
            failure.exit_code()
        }
    }
}
