//! The options of `forebay flows` for a link with a policy.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use forebay_pipeline::units;

use super::values::parse_duration;

/// A link that the packets of a capture pass.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// Show what each flow gets of a link with this policy, by the capture's time stamps
    #[arg(long, value_enum, value_name = "POLICY", requires = "link")]
    pub policy: Option<PolicyName>,
    /// Rate of the link, like 10mbit
    #[arg(long, value_name = "RATE", requires = "policy", value_parser = parse_bit_rate)]
    pub link: Option<u64>,
    /// Buffer before the link, like 64KiB; by default 128KiB
    #[arg(long, value_name = "SIZE", requires = "policy", value_parser = parse_size)]
    pub buffer: Option<u64>,
    /// For red: lower threshold of the average queue; by default an eighth of the buffer
    #[arg(long, value_name = "SIZE", requires = "policy", value_parser = parse_size)]
    pub red_min: Option<u64>,
    /// For red: upper threshold; by default three times the lower one
    #[arg(long, value_name = "SIZE", requires = "policy", value_parser = parse_size)]
    pub red_max: Option<u64>,
    /// For red: packets dropped or marked at the upper threshold; by default 10%
    #[arg(long, value_name = "PERCENT", requires = "policy", value_parser = parse_percentage)]
    pub red_p: Option<f64>,
    /// For csfq: time over which the rates of flows are averaged; by default 100ms
    #[arg(long, value_name = "TIME", requires = "policy", value_parser = parse_duration)]
    pub window: Option<Duration>,
    /// For drr: bytes that a flow may send at its turn; by default 1514
    #[arg(long, value_name = "BYTES", requires = "policy")]
    pub quantum: Option<u16>,
    /// Weight of the packets that a pcap expression selects, like '4=udp port 53', or that the
    /// rule list of a file passes, like '4=@voice.rules'; the first such option that selects a
    /// packet counts. Other packets have weight 1
    #[arg(long = "class", value_name = "WEIGHT=EXPR|@FILE", requires = "policy", value_parser = parse_class)]
    pub classes: Vec<Class>,
    /// Draw the length of the queue over time
    #[arg(long, value_name = "FILE.svg|html", requires = "policy")]
    pub plot: Option<PathBuf>,
}

/// A policy of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// Random early detection, with a threshold for each flow
    Red,
    /// Core-stateless fair queueing
    Csfq,
    /// Deficit round robin
    Drr,
}

/// Packets with a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The weight of their flows, at least 1.
    pub weight: u16,
    /// Which packets.
    pub members: ClassMembers,
}

/// The packets of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassMembers {
    /// Those that a pcap expression selects.
    Expression(String),
    /// Those that the rule list of a file passes.
    Rules(PathBuf),
}

fn parse_bit_rate(text: &str) -> Result<u64, String> {
    units::bit_rate(text).map_err(|error| error.to_string())
}

fn parse_size(text: &str) -> Result<u64, String> {
    units::size(text).map(|bytes| bytes as u64).map_err(|error| error.to_string())
}

fn parse_percentage(text: &str) -> Result<f64, String> {
    units::percentage(text).map_err(|error| error.to_string())
}

fn parse_class(text: &str) -> Result<Class, String> {
    let class = text.split_once('=').and_then(|(weight, expression)| {
        let weight = weight.trim().parse().ok().filter(|weight| (1..=1_000).contains(weight))?;
        let members = match expression.trim() {
            "" | "@" => return None,
            text => match text.strip_prefix('@') {
                Some(file) => ClassMembers::Rules(file.into()),
                None => ClassMembers::Expression(text.to_owned()),
            },
        };
        Some(Class { weight, members })
    });
    class.ok_or_else(|| {
        "expected a weight from 1 to 1000, `=`, and a pcap expression or @ and a file of rules, \
         like '4=udp port 53'"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_a_weight_and_its_packets() {
        let class = parse_class(" 4 = tcp[13] & 2 != 0").unwrap();
        let members = ClassMembers::Expression("tcp[13] & 2 != 0".to_owned());
        assert_eq!(class, Class { weight: 4, members });
        let members = ClassMembers::Rules("a b.rules".into());
        assert_eq!(parse_class("9=@a b.rules").unwrap(), Class { weight: 9, members });
        for bad in ["4=@", "", "4", "=ip", "0=ip", "1001=ip", "-1=ip", "2.5=ip", "4=", "4= "] {
            assert!(parse_class(bad).unwrap_err().contains("like '4=udp port 53'"), "{bad}");
        }
    }
}
