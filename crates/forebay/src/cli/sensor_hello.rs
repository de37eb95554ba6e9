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
    /// The sensor's name in the broker's configuration; its address is enough where it has one
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// The group it is in, where not all that have a sensor of that name are meant
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = parse_name)]
    pub group: String,
    /// The station that hellos are for; all stations if not given
    #[arg(long, value_name = "MAC")]
    pub to: Option<MacAddress>,
    /// The sensor's address, `mac` in the broker's configuration; the device's if not given
    #[arg(long, value_name = "MAC")]
    pub from: Option<MacAddress>,
    /// Add the packets that the sensor's program says it drops: the last number in this file
    #[arg(long, value_name = "FILE")]
    pub drops: Option<PathBuf>,
    /// Take the last number of the last line of that file that has this text in it
    #[arg(long, value_name = "TEXT", requires = "drops")]
    pub drops_key: Option<String>,
    /// Take the packets dropped from the program's own statistics: suricata:SOCKET (its command
    /// socket), eve:FILE (Suricata's events), zeek:FILE (Zeek's stats.log)
    #[arg(long, value_name = "KIND:PATH", conflicts_with = "drops")]
    pub stats: Option<StatsSource>,
    /// Say hello only as long as this process lives, and end with it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<i32>,
    /// The sensor's program, to be started and to end with
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}
