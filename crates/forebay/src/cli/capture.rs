//! The options of verbs that read captures.

use clap::Args;

/// Limits of reading a capture.
#[derive(Debug, Args)]
pub struct ReadLimits {
    /// Read zstd with a window of up to that many MiB, rounded down to a power of two;
    /// takes as much memory. `zstd --long` and `--ultra` use large windows
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub zstd_window: u16,
    /// Read records of up to that many MiB; takes twice as much memory. Only packets of
    /// D-Bus are ever that long
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=129))]
    pub longest_record: u16,
}

/// The definition of a flow.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// VLAN identifiers distinguish flows
    #[arg(long)]
    pub vlan_in_key: bool,
    /// Tunnel identifiers (VNI, TEID, GRE key, session, label) distinguish flows
    #[arg(long)]
    pub tunnel_in_key: bool,
    /// Depth of tunnels to decode; 0 uses the outermost addresses
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub tunnel_depth: u8,
}
