//! A network with sensors behind a switch: a generator's link `g`–`b`, the broker's port
//! `out`, a Linux bridge `sw`, and sensors `x0` … with the addresses 02:00:00:00:01:00 ….

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::broker::{Started, ask, broker};
use super::command::{command, run};
use super::namespace::{ip, veth};

/// Where the broker's frames come from.
const BROKER: &str = "02:00:00:00:00:fe";

/// The network.
pub struct Switched {
    pub folder: TempDir,
    pub sensors: usize,
}

/// How the switch knows where sensors are.
#[derive(Clone, Copy, PartialEq)]
pub enum Switch {
    /// It has been told.
    Static,
    /// It learns from what they send, and forgets after two seconds.
    Learning,
    /// It does not, and sends their frames to everyone.
    Flooding,
}

impl Switched {
    pub fn new(sensors: usize, switch: Switch) -> Self {
        veth("g", "b");
        veth("out", "p");
        ip("link add sw type bridge ageing_time 200 mcast_snooping 0 stp_state 0");
        ip("link set dev sw arp off multicast off up");
        let learning = if switch == Switch::Learning { "on" } else { "off" };
        ip("link set dev p master sw");
        ip(&format!("link set dev p type bridge_slave learning {learning}"));
        for i in 0..sensors {
            veth(&format!("x{i}"), &format!("q{i}"));
            ip(&format!("link set dev x{i} address {}", address(i)));
            ip(&format!("link set dev q{i} master sw"));
            ip(&format!("link set dev q{i} type bridge_slave learning {learning}"));
            if switch == Switch::Static {
                tell(&format!("q{i}"), &address(i));
            }
        }
        if switch == Switch::Static {
            tell("p", BROKER);
        }
        Self { folder: tempfile::tempdir().unwrap(), sensors }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration; `top` goes before everything, `of_sensor` adds to each.
    pub fn configure(&self, top: &str, of_sensor: impl Fn(usize) -> String) -> PathBuf {
        let mut text = format!(
            "{top}\n[broker]\ncontrol = \"{}\"\n\
             [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
             ring = \"64MiB\"\n[[output]]\nname = \"switch\"\ntype = \"af_packet\"\ninterface = \"out\"\n\
             wait = \"100ms\"\n[[group]]\nname = \"ids\"\n\
             source_mac = \"{BROKER}\"\n",
            self.path("control").display()
        );
        for i in 0..self.sensors {
            let (mac, more) = (address(i), of_sensor(i));
            text += &format!("[[group.sensor]]\nname = \"s{i}\"\nmac = \"{mac}\"\n{more}\n");
        }
        let path = self.path("run.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn broker(&self, config: &std::path::Path) -> Started {
        broker(config, &self.path("control"))
    }

    pub fn ask(&self, words: &[&str]) -> Option<Value> {
        ask(&self.path("control"), words)
    }

    /// What is known of a sensor.
    pub fn sensor(&self, i: usize) -> Value {
        self.ask(&["sensors"]).unwrap()[0]["sensors"][i].clone()
    }

    /// Says hello for a sensor.
    pub fn hello(&self, i: usize, interval: &str) -> Started {
        let device = format!("x{i}");
        let name = format!("s{i}");
        let words = [
            "sensor-hello",
            "-i",
            &device,
            "--interval",
            interval,
            "--name",
            &name,
            "--to",
            BROKER,
        ];
        Started::start(command(words))
    }

    /// A sink that hears all sensors.
    pub fn sink(&self, idle_timeout: &str) -> Started {
        let mut words = vec!["sink".to_owned(), "--json".to_owned()];
        (0..self.sensors).for_each(|i| words.extend(["-i".to_owned(), format!("x{i}")]));
        let ends = ["--quiet-after", "2s", "--duration", "120s", "--idle-timeout", idle_timeout];
        words.extend(ends.map(String::from));
        Started::listening(command(words))
    }

    pub fn generate(&self, words: &str) -> Value {
        let words = ["gen", "--json", "-i", "g"].into_iter().chain(words.split_whitespace());
        let ran = run(words);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        serde_json::from_slice(&ran.stdout).unwrap()
    }
}

/// A sensor's address.
pub fn address(i: usize) -> String {
    format!("02:00:00:00:01:{i:02x}")
}

/// Tells the switch that a station is behind a port.
pub fn tell(port: &str, station: &str) {
    let entry = ["fdb", "replace", station, "dev", port, "master", "static"];
    let output = Command::new("bridge").args(entry).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What `ip -json` says of a device.
pub fn device(name: &str) -> Value {
    let shown = ["-json", "-details", "-statistics", "link", "show", "dev", name];
    let output = Command::new("ip").args(shown).output().unwrap();
    serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].clone()
}

/// Packets that a device has received.
pub fn received(name: &str) -> u64 {
    device(name)["stats64"]["rx"]["packets"].as_u64().unwrap()
}
