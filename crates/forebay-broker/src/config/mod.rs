//! `run.toml`: what a broker is to do.
//!
//! Reading goes in two steps. `raw` takes the text apart and refuses what is no TOML, or
//! has keys that there are not. What the values mean is judged here, in `ports` and in
//! `groups`, and every fault names its line. What comes out is whole and free of
//! contradictions, but nothing on the machine has been looked at.

mod error;
mod groups;
mod kernel;
mod ports;
mod raw;
mod rules;

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_io::text::{self, Source};
use forebay_pipeline::stages::annotated_keys;
pub use forebay_pipeline::units;
use forebay_rules::language::load::Selection;
use toml::Spanned;

pub use error::{ConfigError, Place};
pub(crate) use groups::digest_of;
pub use groups::{Group, Key, NoSensor, Sensor, Shunt, ShuntAction};
pub use ports::{Port, PortKind, Rotate, Sending};
pub use rules::RULE_KEYS;

use crate::alarms::LossRule;
use error::Fault;

/// The most workers.
const MAX_WORKERS: u64 = 64;

/// The longest time over which losses are watched: each counter keeps its value of every
/// second of it.
const MAX_WINDOW: Duration = Duration::from_secs(600);

/// The most tunnels to look into.
const MAX_TUNNEL_DEPTH: u64 = 16;

/// Memory that the preparation of a change may take by default, in bytes: some more
/// than the largest lists of rules do.
const RELOAD_MEMORY: u64 = 2 << 30;

/// The annotated example, which has every key.
#[must_use]
pub fn example() -> String {
    include_str!("example.toml").replace("# STAGES\n", &annotated_keys())
}

/// Examples for one purpose each, by name.
pub const EXAMPLES: [(&str, &str); 4] = [
    ("minimal", include_str!("examples/minimal.toml")),
    ("switch", include_str!("examples/switch.toml")),
    ("xdp", include_str!("examples/xdp.toml")),
    ("recorder", include_str!("examples/recorder.toml")),
];

/// A configuration that makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Threads that packets are worked on by.
    pub workers: usize,
    /// Workers ask their inputs again and again instead of sleeping.
    pub busy_poll: bool,
    /// The control socket, if there is to be one.
    pub control: Option<PathBuf>,
    /// Where metrics are served, if at all.
    pub metrics: Option<SocketAddr>,
    /// The user to become once the ports are open.
    pub user: Option<String>,
    /// Memory that the preparation of a change may take, in bytes.
    pub reload_memory: u64,
    /// Tunnels to look into for a packet's flow.
    pub tunnel_depth: u8,
    /// VLAN identifiers tell flows apart.
    pub vlan_in_key: bool,
    /// How long a flow without packets is still one flow.
    pub idle_timeout: Duration,
    /// Between two readings of the sensors' loads.
    pub interval: Duration,
    /// Flows may be torn to relieve a sensor.
    pub emergency: bool,
    /// How long a sensor that sends hellos may be silent.
    pub hello_timeout: Duration,
    /// What share of packets may be lost before that is an alarm.
    pub alarm: LossRule,
    /// The filter that all packets have to pass.
    pub filter: Option<String>,
    /// The file of the rule list that they are held against.
    pub rules: Option<PathBuf>,
    /// Which list of the file, and how it is read.
    pub rule_selection: Selection,
    /// Where packets come from.
    pub inputs: Vec<Port>,
    /// Where they go.
    pub outputs: Vec<Port>,
    /// Who gets them.
    pub groups: Vec<Group>,
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`]: the file cannot be read, is no regular file or too long, or what is
    /// wrong where in it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let text = text::read(path, Source::Regular, "a configuration", text::MOST_CONFIG);
        let text = text.map_err(|error| ConfigError {
            file: file.clone(),
            place: None,
            what: format!("cannot be read: {error}"),
        })?;
        Self::parse(&file, &text)
    }

    /// Whether packets stay in the kernel: all ports are of type `xdp`.
    #[must_use]
    pub fn is_in_kernel(&self) -> bool {
        self.inputs.iter().any(|port| port.kind.is_in_kernel())
    }

    /// Reads the text of a configuration; `file` is its name in errors.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let raw = raw::File::parse(text).map_err(|error| ConfigError {
            file: file.to_owned(),
            place: error.span().map(|span| Place::of(text, span.start)),
            what: error.message().replace('\n', "; "),
        })?;
        check(&raw).map_err(|fault| fault.in_file(file, text))
    }
}

fn check(raw: &raw::File) -> Result<Config, Fault> {
    let inputs = ports::check(&raw.input, "input")?;
    let outputs = ports::check(&raw.output, "output")?;
    let groups = groups::check(&raw.group, &outputs)?;
    kernel::check(raw, &inputs, &outputs)?;
    let workers = raw.broker.workers.as_ref();
    let workers = bounded(workers, 1..=MAX_WORKERS, "workers")?.unwrap_or(1) as usize;
    let depth = bounded(raw.flow.tunnel_depth.as_ref(), 0..=MAX_TUNNEL_DEPTH, "tunnels")?;
    let text = |text: &Option<raw::Text>| text.as_ref().map(|text| text.get_ref().clone());
    Ok(Config {
        workers,
        busy_poll: raw.broker.busy_poll.unwrap_or(false),
        control: text(&raw.broker.control).map(PathBuf::from),
        metrics: read(raw.broker.metrics.as_ref(), |text| {
            text.parse().map_err(|_| {
                format!("`{text}` is no address and port: expected one like 127.0.0.1:9464")
            })
        })?,
        user: text(&raw.broker.user),
        reload_memory: read(raw.broker.reload_memory.as_ref(), units::size)?
            .map_or(RELOAD_MEMORY, |bytes| bytes as u64),
        tunnel_depth: depth.unwrap_or(4) as u8,
        vlan_in_key: raw.flow.vlan_in_key.as_ref().is_some_and(|key| *key.get_ref()),
        idle_timeout: duration(raw.flow.idle_timeout.as_ref(), 100, 30_000)?,
        interval: duration(raw.balance.interval.as_ref(), 100, 1_000)?,
        emergency: raw.balance.emergency.unwrap_or(false),
        hello_timeout: duration(raw.health.hello_timeout.as_ref(), 60, 1_000)?,
        alarm: alarm(&raw.alarm)?,
        filter: text(&raw.filter),
        rules: text(&raw.rules).map(PathBuf::from),
        rule_selection: rules::check(raw)?,
        inputs,
        outputs,
        groups,
    })
}

/// What share of packets may be lost.
fn alarm(raw: &raw::Alarm) -> Result<LossRule, Fault> {
    let usual = LossRule::default();
    let share = read(raw.loss.as_ref(), units::percentage)?.unwrap_or(usual.share);
    let window = duration(raw.window.as_ref(), 1_000, usual.window.as_millis() as u64)?;
    if window > MAX_WINDOW {
        let at = raw.window.as_ref().map_or(0..0, Spanned::span);
        return Err(Fault::new(at, "losses can be watched over 10m at the most"));
    }
    Ok(LossRule { share, window })
}

/// What `reader` makes of a text, if there is one.
fn read<T, E: Display>(
    text: Option<&raw::Text>,
    reader: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Fault> {
    let fault = |text: &raw::Text, error: E| Fault::new(text.span(), error);
    text.map(|text| reader(text.get_ref()).map_err(|error| fault(text, error))).transpose()
}

/// A length of time of at least so many milliseconds, or so many where none is given.
fn duration(text: Option<&raw::Text>, least: u64, default: u64) -> Result<Duration, Fault> {
    let judged = |text: &str| -> Result<Duration, String> {
        let duration = units::duration(text).map_err(|error| error.to_string())?;
        if duration < Duration::from_millis(least) {
            return Err(format!("`{text}` is too short: expected at least {least}ms"));
        }
        Ok(duration)
    };
    Ok(read(text, judged)?.unwrap_or(Duration::from_millis(default)))
}

/// A number within bounds, if there is one.
fn bounded(
    number: Option<&Spanned<u64>>,
    bounds: std::ops::RangeInclusive<u64>,
    what: &str,
) -> Result<Option<u64>, Fault> {
    let Some(number) = number else { return Ok(None) };
    if bounds.contains(number.get_ref()) {
        return Ok(Some(*number.get_ref()));
    }
    let (least, most) = bounds.into_inner();
    let got = number.get_ref();
    Err(Fault::new(number.span(), format!("{got} {what}: expected {least} to {most}")))
}

/// One of some names.
fn choice<T: Copy>(text: &raw::Text, what: &str, choices: &[(&str, T)]) -> Result<T, Fault> {
    let found = choices.iter().find(|(name, _)| name == text.get_ref());
    found.map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        let got = text.get_ref();
        Fault::new(text.span(), format!("{what} `{got}`: expected one of {}", names.join(", ")))
    })
}

/// Whether names are given, not too long, and different.
fn names<'a>(all: impl Iterator<Item = &'a raw::Text>, what: &str) -> Result<(), Fault> {
    let mut seen: Vec<&str> = Vec::new();
    for name in all {
        let text = name.get_ref().as_str();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty() || text.len() > 32 || !text.chars().all(fits) {
            return Err(Fault::new(
                name.span(),
                format!(
                    "`{text}` is no name for {what}: expected 1 to 32 letters, digits, `-`, `_` \
                     and `.`"
                ),
            ));
        }
        if seen.contains(&text) {
            return Err(Fault::new(name.span(), format!("a second {what} named `{text}`")));
        }
        seen.push(text);
    }
    Ok(())
}
