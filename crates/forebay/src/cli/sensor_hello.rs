//! The command line of `forebay sensor-hello`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use forebay_packet::MacAddress;

use super::values::{parse_interval, parse_name};

/// `forebay sensor-hello`.
#[derive(Debug, Args)]
pub struct SensorHelloArgs {
    /// The sensor's network device
    #[arg(short, long, value_name = "IFACE")]
    pub interface: String,
    /// Time between two hellos, like 200ms; a number alone is seconds
    #[arg(long, value_name = "S", default_value = "200ms", value_parser = parse_interval)]
    pub interval: Duration,
    /// The sensor's name in the broker's configuration; not needed if its address is
    /// configured there
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Its group, if several groups have a sensor of that name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = parse_name)]
    pub group: String,
    /// The destination address of hellos; by default all stations
    #[arg(long, value_name = "MAC")]
    pub to: Option<MacAddress>,
    /// The sensor's address, `mac` in the broker's configuration; by default the device's
    #[arg(long, value_name = "MAC")]
    pub from: Option<MacAddress>,
    /// Add the packets that the sensor's program reports as dropped: the last number in
    /// this file
    #[arg(long, value_name = "FILE")]
    pub drops: Option<PathBuf>,
    /// Use the last number of the last line of that file that contains this text
    #[arg(long, value_name = "TEXT", requires = "drops")]
    pub drops_key: Option<String>,
    /// Read the dropped packets from the program's own statistics: suricata:SOCKET (its
    /// command socket), eve:FILE (Suricata's events), zeek:FILE (Zeek's stats.log)
    #[arg(long, value_name = "KIND:PATH", conflicts_with = "drops")]
    pub stats: Option<StatsSource>,
    /// Send hellos only while this process exists, and end with it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<i32>,
    /// The sensor's program: start it, and end with it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// A source of statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSource {
    /// The program, and the form.
    pub kind: StatsKind,
    /// The socket or the file.
    pub path: PathBuf,
}

/// The statistics that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsKind {
    /// Suricata's command socket.
    Suricata,
    /// A file of Suricata's events (EVE) with those of type `stats` among them.
    Eve,
    /// Zeek's stats.log, as tab-separated values or JSON.
    Zeek,
}

const KINDS: [(&str, StatsKind); 3] =
    [("suricata", StatsKind::Suricata), ("eve", StatsKind::Eve), ("zeek", StatsKind::Zeek)];

impl FromStr for StatsSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').filter(|(_, path)| !path.is_empty());
        let known = |name: &str| KINDS.iter().find(|(known, _)| *known == name);
        parts
            .and_then(|(name, path)| Some(Self { kind: known(name)?.1, path: path.into() }))
            .ok_or_else(|| "expected suricata:SOCKET, eve:FILE or zeek:FILE".to_owned())
    }
}

impl fmt::Display for StatsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}
