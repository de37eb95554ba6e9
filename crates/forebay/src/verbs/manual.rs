//! Manual pages and shell completions, generated from the command line's definition.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::input::{file_failure, print};

/// Writes forebay.1 and a page for each verb into `folder`.
pub fn write_pages(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|source| file_failure("create", folder, source))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .map_err(|source| file_failure("write", folder, source))
}

/// Prints the completions for `shell`.
pub fn print_completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    print(|out| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut text);
        out.write_all(&text)
    })
}
