//! What can be done about a loss: a command, or a key of the configuration.

use std::collections::HashMap;

use forebay_io::device::at_other_end;

use crate::alarms::Counter;
use crate::config::{Config, Port};

/// Where a loss is, and what is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cure {
    /// The device, where it is one's.
    pub device: Option<String>,
    /// What to do; commands stand between backquotes.
    pub what: String,
}

/// What is known of devices from the start, when they can still be asked.
#[derive(Debug, Default)]
pub struct Cures {
    /// By output device, the command after which it takes redirected frames.
    napi: HashMap<String, String>,
}

impl Cures {
    /// Asks about the output devices of `config`.
    #[must_use]
    pub fn open(config: &Config) -> Self {
        let devices = config.outputs.iter().filter_map(Port::device);
        Self { napi: devices.map(|device| (device.to_owned(), napi_command(device))).collect() }
    }

    /// The command after which `device` takes redirected frames.
    #[must_use]
    pub fn napi(&self, device: &str) -> String {
        self.napi.get(device).cloned().unwrap_or_else(|| napi_command(device))
    }

    /// What to do about a counter.
    #[must_use]
    pub fn of(&self, config: &Config, counter: &Counter) -> Cure {
        let Counter { stage, reason } = counter;
        let (device, port) = place(config, stage);
        let name = stage.split_once(' ').map_or("", |(_, name)| name);
        let what = match (&device, port) {
            (Some(device), Some(_)) if stage.starts_with("tx ") => match *reason {
                "refused" => self.napi(device),
                reason => at_output(device, reason),
            },
            (Some(device), Some(_)) => at_input(device, name, reason),
            _ => elsewhere(config, name, reason),
        };
        Cure { device, what }
    }
}

/// The port of a stage, and its device.
fn place<'a>(config: &'a Config, stage: &str) -> (Option<String>, Option<&'a Port>) {
    let (kind, name) = stage.split_once(' ').unwrap_or((stage, ""));
    let ports = if kind == "tx" { &config.outputs } else { &config.inputs };
    // Queues of an input have a number behind its name.
    let is_of = |port: &&Port| {
        let rest = name.strip_prefix(&port.name);
        matches!(kind, "tx" | "rx" | "before")
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let port = ports.iter().find(is_of);
    (port.and_then(Port::device).map(str::to_owned), port)
}

fn at_input(device: &str, name: &str, reason: &str) -> String {
    match reason {
        "device_missed" => format!("`ethtool -G {device} rx 4096`"),
        "device_dropped" => "`sysctl -w net.core.netdev_max_backlog=10000`".to_owned(),
        "device_errors" => format!("damaged frames: `ethtool -S {device}` shows which"),
        "too_long" => format!("`ethtool -K {device} gro off lro off`"),
        _ => format!("give input {name} a larger `ring`, or the broker more `workers`"),
    }
}

fn at_output(device: &str, reason: &str) -> String {
    match reason {
        "too_long" => format!("`ip link set dev {device} mtu 9000`"),
        "link_down" => format!("`ip link set dev {device} up`, there and at its other end"),
        "device_failed" | "port_failed" => {
            format!("`ip link show dev {device}`, then start the broker anew")
        }
        _ => {
            format!("what {device} leads to is too slow: send it less, or give its sensors limits")
        }
    }
}

fn elsewhere(config: &Config, name: &str, reason: &str) -> String {
    let ctl =
        config.control.as_ref().map_or_else(String::new, |path| format!(" -s {}", path.display()));
    match reason {
        "no_sensor" => format!("`forebay ctl{ctl} sensors` shows why no sensor is up"),
        "no_interface" => "an output's device is gone: start the broker anew".to_owned(),
        "no_socket" => "leave out the key `queues` of inputs".to_owned(),
        "wrong_link_type" => {
            "change the filter: it is wrong for the link type of a capture that is an input"
                .to_owned()
        }
        reason if reason.starts_with("shed_") => format!(
            "`forebay ctl{ctl} sensors` shows which sensor of group {name} gets too much: add \
             another, or raise its limit if it can take more"
        ),
        reason if reason.starts_with("class_") => format!(
            "`forebay ctl{ctl} sensors` shows which class of group {name} has more than its limit"
        ),
        "no_route" | "no_room" => format!("`forebay ctl{ctl} ledger` shows where"),
        _ if name.is_empty() => {
            "give inputs a larger `ring`, or the broker more `workers`".to_owned()
        }
        _ => format!("`forebay ctl{ctl} ledger` shows more"),
    }
}

/// What gives the other end of a veth device NAPI.
fn napi_command(device: &str) -> String {
    match at_other_end(device, "gro on") {
        Some(command) => format!("`{command}`"),
        None => "switch gro on at its other end".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cure(stage: &str, reason: &'static str) -> Cure {
        let config = Config::parse("run.toml", &crate::config::example()).unwrap();
        Cures::default().of(&config, &Counter { stage: stage.to_owned(), reason })
    }

    #[test]
    fn a_cure_names_the_device_and_a_command() {
        for (stage, reason, device, part) in [
            ("before tap-in", "device_missed", Some("eth1"), "`ethtool -G eth1 rx 4096`"),
            ("rx tap-out.3", "ring_full", Some("eth2"), "larger `ring`"),
            ("tx switch", "too_long", Some("eth3"), "`ip link set dev eth3 mtu 9000`"),
            ("tx switch", "refused", Some("eth3"), "gro on"),
            ("tx disk", "port_failed", None, "forebay ctl"),
            ("group ids", "no_sensor", None, "control.sock sensors`"),
            ("user_space", "ring_full", None, "larger `ring`"),
            ("group ids", "shed_tail", None, "sensor of group ids gets too much"),
            ("group ids", "class_fair", None, "which class of group ids has more"),
        ] {
            let cure = cure(stage, reason);
            assert_eq!(cure.device.as_deref(), device, "{stage} {reason}");
            assert!(cure.what.contains(part), "{stage} {reason}: {}", cure.what);
        }
    }
}
