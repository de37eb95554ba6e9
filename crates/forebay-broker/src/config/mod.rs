//! `run.toml`: what a broker is to do.
//!
//! Reading goes in two steps. `raw` takes the text apart and refuses what is no TOML, or
//! has keys that there are not. What the values mean is judged here, in `ports` and in
//! `groups`, and every fault names its line. What comes out is whole and free of
//! contradictions, but nothing on the machine has been looked at.

mod error;
mod export;
mod groups;
mod kernel;
mod ports;
mod raw;
mod rules;
mod scan;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_io::text::{self, Source};
use forebay_pipeline::stages::{GatewayOptions, annotated_keys};
use forebay_pipeline::units;
use forebay_rules::language::load::Selection;
use forebay_scan::Engine;
use toml::Spanned;

pub use error::{ConfigError, Place};
pub use export::{Export, ExportTarget};
pub(crate) use groups::digest_of;
pub use groups::{Key, NoSensor, Sensor, SensorGroup, Shunt, ShuntAction};
pub use ports::{Port, PortKind, Rotate, Sending};
pub use rules::RULE_KEYS;
pub use scan::{ScanConfig, ScanSubject};

use crate::alarms::LossRule;
use error::Fault;
use values::{bounded, duration, read};

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
    let engines: Vec<&str> = Engine::ALL.iter().map(|engine| engine.name()).collect();
    include_str!("example.toml")
        .replace("# STAGES\n", &annotated_keys())
        .replace("ENGINES", &engines.join(" | "))
        .replace("ENGINE", Engine::default().name())
}

/// Examples for one purpose each, by name.
pub const EXAMPLES: [(&str, &str); 5] = [
    ("minimal", include_str!("examples/minimal.toml")),
    ("switch", include_str!("examples/switch.toml")),
    ("xdp", include_str!("examples/xdp.toml")),
    ("recorder", include_str!("examples/recorder.toml")),
    ("gateway", include_str!("examples/gateway.toml")),
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
    /// What payloads are scanned for, if anything.
    pub scan: Option<ScanConfig>,
    /// Where records of flows are written, if at all.
    pub export: Option<Export>,
    /// Where packets come from.
    pub inputs: Vec<Port>,
    /// Where they go.
    pub outputs: Vec<Port>,
    /// Who gets them.
    pub groups: Vec<SensorGroup>,
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

    /// Whether a group has a gateway, which asks the scanner for more.
    #[must_use]
    pub fn has_gateway(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.stages.setting::<GatewayOptions>().is_some())
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
    let mut inputs = ports::check(&raw.input, "input")?;
    let outputs = ports::check(&raw.output, "output")?;
    ports::return_paths(&raw.input, &mut inputs, &outputs)?;
    let groups = groups::check(&raw.group, &outputs)?;
    kernel::check(raw, &inputs, &outputs)?;
    scan::check_inline(&raw.group, &groups, &inputs)?;
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
        scan: scan::check(raw.scan.as_ref(), &raw.group, &groups)?,
        export: export::check(raw.export.as_ref(), &groups, &outputs)?,
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
