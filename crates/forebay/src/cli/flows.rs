//! The command line of `forebay flows`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::capture::{KeyArgs, ReadLimits};
use super::flow_policy::PolicyArgs;

/// `forebay flows`.
#[derive(Debug, Args)]
pub struct FlowsArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub read: PathBuf,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
    /// How to print the flows
    #[arg(long, value_enum, default_value_t = FlowFormat::Table)]
    pub format: FlowFormat,
    /// List only the N largest flows by bytes
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
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
}
