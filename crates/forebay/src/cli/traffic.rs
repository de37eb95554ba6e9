//! The command line of `forebay gen` and `forebay sink`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_packet::MacAddress;

use super::parse_duration;

/// `forebay gen`.
#[derive(Debug, Args)]
pub struct GenArgs {
    /// The capture to make; `-` is standard output
    #[arg(
        short,
        long,
        value_name = "FILE",
        required_unless_present = "interface",
        conflicts_with = "interface"
    )]
    pub write: Option<PathBuf>,
    /// The network device to send on: frames that carry their numbers, for `forebay sink`
    #[arg(short, long, value_name = "IFACE", conflicts_with = "profile")]
    pub interface: Option<String>,
    /// Number of flows; with -i, of those alive at any time
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub flows: u64,
    /// Number of packets; 100,000 if not given, with -i no end
    #[arg(long, value_name = "N")]
    pub packets: Option<u64>,
    /// The same seed makes the same traffic
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// What traffic a capture has: mix, uniform, paper
    #[arg(long, value_name = "NAME", default_value = "mix")]
    pub profile: String,
    /// Size of the packets, or of the largest, on the wire without checksum
    #[arg(long, value_name = "BYTES")]
    pub size: Option<u32>,
    /// Mean rate in packets a second, for the time stamps; with -i, the rate
    #[arg(long, value_name = "PPS", default_value_t = 100_000)]
    pub rate: u64,
    /// With -i: how long to send, like 10s
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// With -i: how long flows live on average, like 1s; as long as the traffic if not given
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    pub life: Option<Duration>,
    /// With -i: all flows have as many packets, instead of some many and most few
    #[arg(long, requires = "interface")]
    pub even: bool,
    /// With -i: the station that frames are for
    #[arg(long, value_name = "MAC", requires = "interface")]
    pub to: Option<MacAddress>,
    /// With -i: the station that frames are from
    #[arg(long, value_name = "MAC", requires = "interface")]
    pub from: Option<MacAddress>,
}

impl GenArgs {
    /// Packets of a capture.
    #[must_use]
    pub fn capture_packets(&self) -> u64 {
        self.packets.unwrap_or(100_000)
    }

    /// The most packets to send.
    #[must_use]
    pub fn live_packets(&self) -> u64 {
        self.packets.unwrap_or(u64::MAX)
    }
}

/// `forebay sink`.
#[derive(Debug, Args)]
pub struct SinkArgs {
    /// A network device to receive on; with several, each is a sensor, and a flow seen by two
    /// of them is torn
    #[arg(short, long, value_name = "IFACE", required = true)]
    pub interface: Vec<String>,
    /// How long to receive, like 10s; until a signal if not given
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// End when no probe has come for so long, like 2s, after the first
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub quiet_after: Option<Duration>,
    /// A flow that pauses longer may go on at another sensor
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub idle_timeout: Duration,
}
