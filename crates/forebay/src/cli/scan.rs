//! The command line of `forebay scan`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use forebay_scan::Engine;

use super::capture::ReadLimits;
use super::headings::STUDY;

/// `forebay scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// The literals, one a line, in hexadecimal digits; empty lines and lines that begin with
    /// # are skipped; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub literals: PathBuf,
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "PCAP")]
    pub read: PathBuf,
    /// ASCII letters match in both cases
    #[arg(long)]
    pub nocase: bool,
    /// Print a line for each packet and literal found in it: the number of the packet, from 1,
    /// and the line of the literal in its file, from 1
    #[arg(long)]
    pub hits: bool,
    /// Depth of tunnels to decode; 0 scans the payload of the outermost packet
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub tunnel_depth: u8,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
    /// The engine that scans
    #[arg(long, help_heading = STUDY, value_name = "NAME", default_value = Engine::Oracle.name())]
    #[arg(value_parser = engine_names())]
    pub engine: Engine,
}

/// The names of the engines that scan.
fn engine_names() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.map(Engine::name)).try_map(|name| name.parse::<Engine>())
}
