//! The command line of `forebay gen` and `forebay sink`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_packet::MacAddress;

use super::values::parse_duration;

/// `forebay gen`.
#[derive(Debug, Args)]
pub struct GenArgs {
    /// The capture to generate; `-` is standard output
    #[arg(
        short,
        long,
        value_name = "FILE",
        required_unless_present = "interface",
        conflicts_with = "interface"
    )]
    pub write: Option<PathBuf>,
    /// The network device to send on: numbered frames, for `forebay sink`
    #[arg(short, long, value_name = "IFACE", conflicts_with = "profile")]
    pub interface: Option<String>,
    /// Number of flows; with -i, of flows active at any time
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub flows: u64,
    /// Number of packets; by default 100,000, with -i unlimited
    #[arg(long, value_name = "N")]
    pub packets: Option<u64>,
    /// Equal seeds give equal traffic
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// The kind of traffic of a capture: mix, uniform, paper
    #[arg(long, value_name = "NAME", default_value = "mix")]
    pub profile: String,
    /// What a capture's frames are put into: a tag or fabric in one direction, or a link type
    #[arg(long, value_name = "NAME", default_value = "ethernet", conflicts_with = "interface")]
    pub framing: String,
    /// Size of the packets, or of the largest, on the wire without checksum
    #[arg(long, value_name = "BYTES")]
    pub size: Option<u32>,
    /// Mean rate in packets a second, for the time stamps; with -i, the rate
    #[arg(long, value_name = "PPS", default_value_t = 100_000)]
    pub rate: u64,
    /// With -i: how long to send, like 10s
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// With -i: mean life of flows, like 1s; by default flows last as long as the traffic
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = parse_duration)]
    pub life: Option<Duration>,
    /// With -i: all flows have equally many packets, instead of a few with most
    #[arg(long, requires = "interface")]
    pub even: bool,
    /// With -i: the destination address of frames
    #[arg(long, value_name = "MAC", requires = "interface")]
    pub to: Option<MacAddress>,
    /// With -i: the source address of frames
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
    /// How long to receive, like 10s; by default until a signal
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// End when no probe has arrived for so long, like 2s, after the first
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub quiet_after: Option<Duration>,
    /// A flow that pauses longer may continue at another sensor
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub idle_timeout: Duration,
}
