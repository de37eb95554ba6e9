//! The command line of `forebay split`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::capture::{KeyArgs, ReadLimits};
use super::headings::STUDY;
use super::rules::ListChoice;
use super::selection::Backend;
use super::values::parse_hash_key;

/// `forebay split`.
#[derive(Debug, Args)]
pub struct SplitArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub read: PathBuf,
    /// Number of sensors
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "weights")]
    pub sensors: Option<usize>,
    /// Folder for sensor-0.pcap, sensor-1.pcap …; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Each sensor's share of the load, in whole numbers
    #[arg(long, value_name = "W,W,…", value_delimiter = ',')]
    pub weights: Option<Vec<u32>>,
    /// Split only packets that this pcap expression selects
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// The back end that runs the filter
    #[arg(long, help_heading = STUDY, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Split only packets that these rules pass, and packets that are not IP
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// The list of the rules' file
    #[command(flatten, next_help_heading = "Which list of the rules' file")]
    pub choice: ListChoice,
    /// Packets that must stay together
    #[arg(long, value_enum, default_value_t = SplitKey::FiveTuple)]
    pub key: SplitKey,
    /// The load to spread evenly. `packets` and `bytes` read the capture twice: first to
    /// count the load of packets that must stay together (--key), then to assign it to the
    /// sensors, largest first
    #[arg(long, value_enum, default_value_t = SplitBalance::Hash)]
    pub balance: SplitBalance,
    /// For --balance packets and bytes: copy up to that many MiB of a capture that can be
    /// read only once, such as a pipe, to a temporary file in $TMPDIR
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub spill: u32,
    /// Control protocols whose announced data flows stay with their control connection:
    /// ftp, sip, with a port if it is not 21 or 5060, like sip:5061
    #[arg(long, value_name = "PROTOCOL,…", value_delimiter = ',')]
    pub follow: Vec<String>,
    /// The definition of a flow
    #[command(flatten)]
    pub flow: KeyArgs,
    /// Secret key of the hash, 32 hexadecimal digits; the same key splits the same way
    #[arg(long, value_name = "HEX", value_parser = parse_hash_key)]
    pub hash_key: Option<forebay_packet::HashKey>,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
    /// Write a page with the load of each sensor, the largest flows and the ledger
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Replace the sensors' files of an earlier run in the folder
    #[arg(long)]
    pub force: bool,
    /// Worker threads, at most 64; by default as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
}

/// The load that a split spreads evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitBalance {
    /// Hash values: each sensor gets about its share of the flows
    Hash,
    /// Packets
    Packets,
    /// Bytes on the wire
    Bytes,
}

/// The packets that a split keeps together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitKey {
    /// Packets of one transport connection
    #[value(name = "5tuple")]
    FiveTuple,
    /// Packets between two addresses
    IpPair,
    /// Packets from one address, which separates the directions of a connection
    Src,
    /// Packets to one address, likewise
    Dst,
}
