//! The command line of `forebay run`, `forebay ctl` and `forebay top`.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::values::{parse_duration, parse_interval};

/// `forebay run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE", required_unless_present = "example")]
    pub config: Option<PathBuf>,
    /// Check the configuration, its filters and its rules, then whether a start would
    /// succeed on this machine, and do nothing else; with `=file` only the former
    #[arg(
        long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true,
        default_missing_value = "all"
    )]
    pub check: Option<Check>,
    /// Print an annotated configuration; by default one that has every key
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        num_args = 0..=1,
        default_missing_value = "all",
        conflicts_with_all = ["config", "check"]
    )]
    pub example: Option<Example>,
}

/// The extent of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// The configuration, its filters and its rules
    File,
    /// Also devices, queues, files, addresses and the user
    All,
}

/// Examples of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Example {
    /// Every key there is
    All,
    /// One input, three sensors at outputs of their own
    Minimal,
    /// Sensors behind a switch, by their addresses
    Switch,
    /// Packets stay in the kernel
    Xdp,
    /// A recorder beside a sensor
    Recorder,
    /// A sensor gets only flows on which a rule may fire
    Gateway,
}

impl Example {
    /// The configuration.
    #[must_use]
    pub fn text(self) -> Cow<'static, str> {
        let [minimal, switch, xdp, recorder, gateway] = forebay_broker::config::EXAMPLES;
        match self {
            Self::All => return forebay_broker::config::example().into(),
            Self::Minimal => minimal.1,
            Self::Switch => switch.1,
            Self::Xdp => xdp.1,
            Self::Recorder => recorder.1,
            Self::Gateway => gateway.1,
        }
        .into()
    }
}

/// `forebay ctl`.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// The control socket of the broker
    #[arg(
        short,
        long,
        global = true,
        value_name = "SOCKET",
        default_value = "/run/forebay/control.sock"
    )]
    pub socket: PathBuf,
    /// What to show or to do
    #[command(subcommand)]
    pub ask: CtlVerb,
}

/// What a running broker can be asked and told.
#[derive(Debug, Subcommand)]
pub enum CtlVerb {
    /// The state of the broker: ports, rates, losses
    Status,
    /// The sensors, their states and loads
    Sensors,
    /// Which sensor has which buckets, and how much traffic they carry
    Buckets {
        /// The group; the first if not given
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
    /// The largest open flows of a group that keeps records of flows
    ///
    /// The workers copy some records between batches. So each record is as it was at one time, but
    /// flows that begin or end while the list is made may be missing.
    Flows {
        /// The group; the first if not given
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
        /// How many flows are shown, those with the most bytes; 1000 at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        top: usize,
    },
    /// Where every packet went
    Ledger,
    /// What packets are scanned for, and in how many each literal was found
    Scan,
    /// The rules in force
    Rules {
        /// What to do
        #[command(subcommand)]
        ask: RulesAsk,
    },
    /// Flows that are handled by hand
    Flow {
        /// What to do
        #[command(subcommand)]
        ask: FlowAsk,
    },
    /// The last notices of the broker: losses, links, sensors, moves
    Events,
    /// Read the configuration again
    Reload,
    /// Pass on what was received, and end the broker
    Drain,
    /// Set the state of a sensor
    Sensor {
        /// Its name
        name: String,
        /// Its new state
        #[arg(value_enum)]
        action: SensorAction,
        /// Its group, where several have a sensor of that name
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
}

/// What can be asked of the rules in force.
#[derive(Debug, Subcommand)]
pub enum RulesAsk {
    /// The list, with the packets that each rule has decided
    ///
    /// They are counted from the start, or from the change that inserted the rule.
    Show {
        /// The place in the list of the first rule that is shown
        #[arg(long, value_name = "PLACE", default_value_t = 1)]
        from: usize,
        /// How many rules are shown, 10000 at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Only rules that have decided packets
        #[arg(long)]
        hit: bool,
    },
    /// Insert a rule
    Insert {
        /// Its place
        #[command(flatten)]
        place: RulePlaceArgs,
        /// The rule, as in a file of rules: ip filter NUMBER pass|reject …
        #[arg(required = true, value_name = "RULE")]
        text: Vec<String>,
    },
    /// Remove rules: all that are named, or none
    Delete {
        /// The rules
        #[arg(required = true, value_name = RULE_NAME)]
        rules: Vec<String>,
    },
    /// Move a rule; its counter continues
    Move {
        /// The rule
        #[arg(value_name = RULE_NAME)]
        rule: String,
        /// Its new place
        #[command(flatten)]
        place: RulePlaceArgs,
    },
    /// Replace a rule by another at the same place
    Replace {
        /// The old rule
        #[arg(value_name = RULE_NAME)]
        rule: String,
        /// The new rule: ip filter NUMBER pass|reject …
        #[arg(required = true, value_name = "RULE")]
        text: Vec<String>,
    },
    /// Write the list to a file, in Forebay's own language
    Save {
        /// The file
        file: PathBuf,
    },
}

/// What can be done to flows by hand.
#[derive(Debug, Subcommand)]
pub enum FlowAsk {
    /// Send the packets of flows to no sensor any more: they are dropped as `shunted_by_hand`
    Shunt(FlowEditArgs),
    /// Send the packets of flows to their sensors again, and drop none of them to save a sensor
    /// work
    Pass(FlowEditArgs),
    /// The flows that are shunted or passed by hand, with their packets
    Show {
        /// Only these flows, as for `shunt`; all if none is given
        #[arg(value_name = "KEY")]
        key: Vec<String>,
        /// Their group; every group if not given
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
        /// The place in the list of the first flow that is shown
        #[arg(long, value_name = "PLACE", default_value_t = 1)]
        from: usize,
        /// How many flows are shown, 10000 at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
}

/// Flows, and for how long they are handled by hand.
#[derive(Debug, Args)]
pub struct FlowEditArgs {
    /// The flow: `tcp 10.0.0.1:1234 > 10.0.0.2:80`, `udp [::1]:53 > [::2]:1024`, or its
    /// Community ID with seed 0, `1:…=`; `-` reads flows from standard input, one a line
    #[arg(value_name = "KEY", required = true)]
    pub key: Vec<String>,
    /// For how long, a year at most; once more for the same flow begins anew
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub lasts: Duration,
    /// Their group; every group if not given
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Send lines of standard input as they come, not all of them at its end
    #[arg(long)]
    pub follow: bool,
}

/// How a rule of a list is named.
const RULE_NAME: &str = "[ipv6:]NUMBER";

/// A place in the list of rules.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RulePlaceArgs {
    /// Before this rule
    #[arg(long, value_name = RULE_NAME)]
    pub before: Option<String>,
    /// After this rule
    #[arg(long, value_name = RULE_NAME)]
    pub after: Option<String>,
    /// Before all rules
    #[arg(long)]
    pub start: bool,
    /// After all rules
    #[arg(long)]
    pub end: bool,
}

/// What can be done to a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SensorAction {
    /// It gets flows, whatever its hellos and its link say
    Up,
    /// Its flows go to others at once
    Down,
    /// It gets no new flows
    Drain,
    /// Its hellos and its link decide again
    Auto,
}

/// `forebay top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The control socket of the broker
    #[arg(short, long, value_name = "SOCKET", default_value = "/run/forebay/control.sock")]
    pub socket: PathBuf,
    /// Time between two readings, like 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// Show one interval, and end
    #[arg(long)]
    pub once: bool,
}
