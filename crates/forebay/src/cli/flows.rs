//! The command line of `forebay flows`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::capture::{KeyArgs, ReadLimits};
use super::flow_policy::PolicyArgs;
use super::values::parse_duration;

/// `forebay flows`.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE", required_unless_present = "interface")]
    pub read: Option<PathBuf>,
    /// Count the packets that this device receives and sends, until a signal or -c ends it.
    /// Records end after 60s of silence and after 30m, unless other timeouts are given
    #[arg(short, long, value_name = "DEVICE", conflicts_with_all = ["read", "policy"])]
    pub interface: Option<String>,
    /// Write the records to a file, as CSV, JSON lines or Parquet; `-` is standard output. With -i
    /// it is FILE.partial until the run ends
    #[arg(short, long, value_name = "FILE", conflicts_with = "policy")]
    pub write: Option<PathBuf>,
    /// Stop after that many packets
    #[arg(short = 'c', value_name = "N", conflicts_with = "policy", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
    /// How to print the flows
    #[arg(long, value_enum, default_value_t = FlowFormat::Table)]
    pub format: FlowFormat,
    /// List only the N largest flows by bytes
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// End a record after so long without a packet, like 60s; a closed TCP connection after 5s
    /// at most. By default a flow is one record
    #[arg(long, value_name = "TIME", conflicts_with = "policy", value_parser = parse_duration)]
    pub idle_timeout: Option<Duration>,
    /// End a record with the first packet after so long, like 30m, and begin another
    #[arg(long, value_name = "TIME", conflicts_with = "policy", value_parser = parse_duration)]
    pub active_timeout: Option<Duration>,
    /// The most records that are open at a time, which bounds memory to 400 bytes each; then
    /// the record with the longest silence of some ends
    #[arg(long, value_name = "N", default_value_t = 10_000_000, conflicts_with = "policy", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub max_flows: u32,
    /// Seed of the Community IDs
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u16,
    /// The definition of a flow
    #[command(flatten)]
    pub flow: KeyArgs,
    /// A link that the packets pass
    #[command(flatten, next_help_heading = "What flows get of a link with a policy")]
    pub policy: PolicyArgs,
}

/// The format of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowFormat {
    /// A readable table
    Table,
    /// Comma-separated values with a header line (RFC 4180)
    Csv,
    /// As with the global --json
    Json,
    /// A JSON object on a line for each flow, as in the list of --json
    Jsonl,
    /// Apache Parquet, with -w
    Parquet,
}

impl FlowFormat {
    /// Whether nothing is printed before all records are known.
    #[must_use]
    pub fn is_shown_whole(self) -> bool {
        matches!(self, Self::Table | Self::Json)
    }
}
