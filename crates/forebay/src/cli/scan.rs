//! The command line of `forebay scan`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use forebay_scan::Engine;

use super::capture::ReadLimits;
use super::headings::STUDY;

/// `forebay scan`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("searched").required(true).args(["literals", "rules"])))]
pub struct ScanArgs {
    /// The literals, one a line, in hexadecimal digits; empty lines and lines that begin with
    /// # are skipped; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub literals: Option<PathBuf>,
    /// Rules of Suricata or Snort: what is searched for are the literals that must be in traffic
    /// on which a rule fires
    #[arg(long, value_name = "FILES", num_args = 1.., conflicts_with = "nocase")]
    pub rules: Vec<PathBuf>,
    /// Show which rules can be filtered by literals, and why not the others; with a capture, what
    /// these cost on it
    #[arg(long, requires = "rules", conflicts_with = "hits")]
    pub explain: bool,
    /// Explain the rule with this number: its literals, what could hide them, or the reason
    #[arg(long, value_name = "SID", requires = "explain")]
    pub rule: Option<u32>,
    /// The value of a variable of the rules, as in HOME_NET=[10.0.0.0/8]; one without a value
    /// admits everything
    #[arg(long = "var", value_name = "NAME=VALUE", requires = "rules", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "PCAP", required_unless_present = "explain")]
    pub read: Option<PathBuf>,
    /// Scan each direction of a TCP connection as one text: a literal is found across segments, in
    /// the packet that completes it
    #[arg(long, conflicts_with = "explain")]
    pub stream: bool,
    /// ASCII letters match in both cases
    #[arg(long)]
    pub nocase: bool,
    /// Print a line for each packet and literal found in it: the number of the packet, from 1,
    /// and the line of the literal in its file, from 1
    #[arg(long)]
    pub hits: bool,
    /// Choose the bytes that literals are found by for traffic like that of a capture: the result is
    /// the same, faster if the traffic is unusual
    #[arg(long, value_name = "PCAP", conflicts_with = "explain")]
    pub learn: Option<PathBuf>,
    /// Keep compiled sets in a folder: the same literals are compiled faster again
    #[arg(long, value_name = "FOLDER", conflicts_with = "explain")]
    pub cache: Option<PathBuf>,
    /// Depth of tunnels to decode; 0 scans the payload of the outermost packet
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub tunnel_depth: u8,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
    /// The engine that scans
    #[arg(long, help_heading = STUDY, value_name = "NAME", default_value = Engine::default().name())]
    #[arg(value_parser = engine_names())]
    pub engine: Engine,
}

/// The names of the engines that scan.
pub(super) fn engine_names() -> impl TypedValueParser<Value = Engine> {
    PossibleValuesParser::new(Engine::ALL.map(Engine::name)).try_map(|name| name.parse::<Engine>())
}

/// A variable of rules and its value.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok((name.trim_start_matches('$').to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
