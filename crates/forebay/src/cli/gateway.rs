//! The command line of `forebay gateway`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::broker::Check;
use super::capture::ReadLimits;
use super::scan::variable;
use super::values::parse_duration;

/// `forebay gateway`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("traffic").required(true).args(["config", "read"])))]
#[command(group(ArgGroup::new("searched").args(["literals", "rules"])))]
pub struct GatewayArgs {
    /// Run a broker with a gateway on live traffic: a configuration as of `forebay run`, in which a
    /// group has the key `gateway`
    #[arg(short, long, value_name = "FILE", conflicts_with = "searched")]
    pub config: Option<PathBuf>,
    /// Check the configuration and whether a start would succeed, as `forebay run` does
    #[arg(
        long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true,
        default_missing_value = "all", conflicts_with = "read"
    )]
    pub check: Option<Check>,
    /// A capture in place of live traffic; `-` is standard input
    #[arg(short, long, value_name = "PCAP", requires = "searched")]
    pub read: Option<PathBuf>,
    /// Write the packets that pass, in the order and with the times of the capture
    #[arg(short, long, value_name = "PCAP", requires = "read")]
    pub write: Option<PathBuf>,
    /// Show what passes, and why, by packets and bytes
    #[arg(long, requires = "read")]
    pub explain: bool,
    /// Rules of Suricata or Snort: a flow passes if one of them may fire on it
    #[arg(long, value_name = "FILES", num_args = 1..)]
    pub rules: Vec<PathBuf>,
    /// Literals in place of rules, one a line, in hexadecimal digits
    #[arg(long, value_name = "FILE")]
    pub literals: Option<PathBuf>,
    /// The value of a variable of the rules, as in HOME_NET=[10.0.0.0/8]; one without a value
    /// admits everything
    #[arg(long = "var", value_name = "NAME=VALUE", requires = "rules", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// What becomes of flows in which nothing is found
    #[arg(long, value_enum, value_name = "MODE", requires = "read", default_value_t = Mode::Hold)]
    pub mode: Mode,
    /// With --mode prefix: bytes of payload in each direction that pass [default: 4KiB]
    #[arg(long, value_name = "SIZE", requires = "read")]
    pub prefix: Option<String>,
    /// Memory in which packets wait
    #[arg(long, value_name = "SIZE", requires = "read", default_value = "1GiB")]
    pub memory: String,
    /// Memory in which those of one flow wait; a longer flow passes [default: a quarter of --memory]
    #[arg(long, value_name = "SIZE", requires = "read")]
    pub flow_memory: Option<String>,
    /// How long a flow may be open and wait; one that is open for longer passes
    #[arg(long, value_name = "TIME", requires = "read", default_value = "1h")]
    pub wait: String,
    /// How long a flow may be silent and still be the same: at least as long as for the sensor
    #[arg(long, value_name = "TIME", requires = "read", default_value = "300s", value_parser = parse_duration)]
    pub idle_timeout: Duration,
    /// The most flows that are followed at a time; beyond, one that has long been silent passes
    #[arg(long, value_name = "N", requires = "read", default_value_t = 1 << 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    pub max_flows: u32,
    /// VLAN identifiers distinguish flows
    #[arg(long, requires = "read")]
    pub vlan_in_key: bool,
    /// Depth of tunnels to decode: at least that of the sensor
    #[arg(long, value_name = "N", requires = "read", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=16))]
    pub tunnel_depth: u8,
    /// Copy up to that many MiB of a capture that can be read only once, such as a pipe, to a
    /// temporary file in $TMPDIR: with -w it is read twice
    #[arg(long, value_name = "MIB", requires = "read", default_value_t = 4096)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub spill: u32,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
}

/// What becomes of flows in which nothing is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// They pass, and are counted
    Annotate,
    /// They are withheld
    Hold,
    /// They are withheld but for their first bytes
    Prefix,
}
