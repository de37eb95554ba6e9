//! The command line of `forebay sensor-hello`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_packet::MacAddress;

use super::{parse_interval, parse_name};
use crate::verbs::sensor_hello::StatsSource;

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
