//! The command line of `forebay split`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Backend, KeyArgs, ListChoice, ReadLimits, parse_hash_key};

/// `forebay split`.
#[derive(Debug, Args)]
pub struct SplitArgs {
    /// The capture; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub read: PathBuf,
    /// Number of sensors
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "weights")]
    pub sensors: Option<usize>,
    /// Folder for sensor-0.pcap, sensor-1.pcap …; made if it does not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Each sensor's share of the load, in whole numbers
    #[arg(long, value_name = "W,W,…", value_delimiter = ',')]
    pub weights: Option<Vec<u32>>,
    /// Split only what this pcap expression selects
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// What runs the filter
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Split only what these rules pass, and what is not IP
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Which list of the rules' file
    #[command(flatten, next_help_heading = "Which list of the rules' file")]
    pub choice: ListChoice,
    /// What must stay together
    #[arg(long, value_enum, default_value_t = SplitKey::FiveTuple)]
    pub key: SplitKey,
    /// What to spread evenly. `packets` and `bytes` read the capture twice: first they count
    /// what must stay together (--key), then they give it to the sensors, largest first
    #[arg(long, value_enum, default_value_t = SplitBalance::Hash)]
    pub balance: SplitBalance,
    /// For --balance packets and bytes: keep up to that many MiB of a capture that can be read
    /// only once, such as a pipe, in a temporary file in $TMPDIR
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub spill: u32,
    /// Control connections that take the data flows they announce with them: ftp, sip, with a
    /// port if it is not 21 or 5060, like sip:5061
    #[arg(long, value_name = "PROTOCOL,…", value_delimiter = ',')]
    pub follow: Vec<String>,
    /// What a flow is
    #[command(flatten)]
    pub flow: KeyArgs,
    /// Secret key of the hash, 32 hexadecimal digits; the same key splits the same way
    #[arg(long, value_name = "HEX", value_parser = parse_hash_key)]
    pub hash_key: Option<forebay_packet::HashKey>,
    /// What reading may take
    #[command(flatten)]
    pub limits: ReadLimits,
    /// Write a page with the load of each sensor, the largest flows and the ledger
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Replace the sensors' files of an earlier run in the folder
    #[arg(long)]
    pub force: bool,
    /// Worker threads, of which more than 64 are 64; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
}

/// What a split spreads evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitBalance {
    /// The values of a hash: each sensor gets its share of the flows, about
    Hash,
    /// Packets
    Packets,
    /// Bytes on the wire
    Bytes,
}

/// What packets of a split must stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitKey {
    /// Those of one transport connection
    #[value(name = "5tuple")]
    FiveTuple,
    /// All between two addresses
    IpPair,
    /// All from one address: the two directions of a connection are apart
    Src,
    /// All to one address: likewise
    Dst,
}
