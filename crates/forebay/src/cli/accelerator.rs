//! The command line of `forebay accelerator`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_scan::Engine;

use super::headings::STUDY;
use super::scan::engine_names;
use super::values::parse_duration;

/// `forebay accelerator`.
#[derive(Debug, Args)]
pub struct AcceleratorArgs {
    /// The Unix socket to which clients connect. Who may write to it may connect
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// The literals, one a line, in hexadecimal digits; empty lines and lines that begin with
    /// # are skipped; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub literals: PathBuf,
    /// ASCII letters match in both cases
    #[arg(long)]
    pub nocase: bool,
    /// The most clients at a time; each has a thread
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub clients: u16,
    /// The most shared memory of a client, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub client_memory: u16,
    /// Time to poll for the next batch before waiting, like 50us; it uses a processor fully
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub spin: Option<Duration>,
    /// The engine that scans
    #[arg(long, help_heading = STUDY, value_name = "NAME", default_value = Engine::default().name())]
    #[arg(value_parser = engine_names())]
    pub engine: Engine,
}
