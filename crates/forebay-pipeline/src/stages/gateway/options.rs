//! The key `gateway` of a group.

use std::sync::Arc;

use serde::Deserialize;
use toml::Value;

use super::backlog::Backlog;
use super::held::HeldPackets;
use super::{Flow, Gateway};
use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::stage::{Setting, Settings, Stage};
use crate::stages::{CompiledScan, ScanOptions};
use crate::units;

/// The key.
pub(in crate::stages) static STAGE: OptionalStage = OptionalStage {
    key: "gateway",
    help: "Which packets a passive sensor gets, where there is a table [scan]. With mode `hold` the\n\
           packets of a flow wait until something is found that may matter, and then all go on, or\n\
           until the flow has ended without that, and are dropped. Of a worker all flows wait in\n\
           `memory`, one in `flow_memory`, for at most `wait`. With mode `prefix` the first bytes of\n\
           payload in each direction pass besides, as many as `prefix` says (4KiB); with `annotate`,\n\
           the default, all packets do.",
    example: "{ mode = \"annotate\", memory = \"256MiB\", flow_memory = \"4MiB\", wait = \"60s\" }",
    place: Place::BehindFragments,
    needs: &[],
    keys: true,
    read: |value| GatewayOptions::read(value).map(|options| Arc::new(options) as _),
};

const EXPECTED: &str =
    "expected a table with some of `mode`, `memory`, `flow_memory`, `wait` and `prefix`";

/// The least and the most memory.
const LEAST_MEMORY: usize = 1 << 20;
const MOST_MEMORY: usize = 64 << 30;

/// What becomes of flows in which nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayMode {
    /// They pass, as all do.
    Annotate,
    /// They are withheld.
    Hold,
    /// They are withheld but for the first bytes of payload each way.
    Prefix,
}

impl GatewayMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Annotate, Self::Hold, Self::Prefix];

    /// The mode's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Annotate => "annotate",
            Self::Hold => "hold",
            Self::Prefix => "prefix",
        }
    }
}

/// How flows wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    /// What becomes of them.
    pub mode: GatewayMode,
    /// Bytes in which the packets of all flows of a worker wait.
    pub memory: usize,
    /// Bytes in which those of one flow do.
    pub flow_memory: u64,
    /// Nanoseconds that a packet waits at most.
    pub wait: u64,
    /// Bytes of payload in each direction that pass, with [`GatewayMode::Prefix`].
    pub prefix: u32,
    /// Flows that have not ended when the input has are withheld all the same if no byte of
    /// theirs is missing: nothing comes behind the end of a capture.
    pub clears_at_end: bool,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            mode: GatewayMode::Annotate,
            memory: 256 << 20,
            flow_memory: 4 << 20,
            wait: 60_000_000_000,
            prefix: 4 << 10,
            clears_at_end: false,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGateway {
    mode: Option<String>,
    memory: Option<String>,
    flow_memory: Option<String>,
    wait: Option<String>,
    prefix: Option<String>,
}

impl GatewayOptions {
    /// Reads the value of the key.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(value: &Value) -> Result<Self, String> {
        let Value::Table(table) = value else { return Err(EXPECTED.into()) };
        let raw: RawGateway =
            table.clone().try_into().map_err(|error| format!("{}; {EXPECTED}", error.message()))?;
        let usual = Self::default();
        let mode = raw.mode.as_deref().map_or(Ok(usual.mode), |name| {
            let found = GatewayMode::ALL.into_iter().find(|mode| mode.name() == name);
            found.ok_or_else(|| {
                format!("`mode` `{name}`: expected one of `annotate`, `hold`, `prefix`")
            })
        })?;
        let size = |key: &str, text: Option<String>, usual: usize| match text {
            None => Ok(usual),
            Some(text) => units::size(&text).map_err(|error| format!("`{key}`: {error}")),
        };
        let memory = size("memory", raw.memory, usual.memory)?;
        if !(LEAST_MEMORY..=MOST_MEMORY).contains(&memory) {
            return Err(format!("`memory` of {memory} bytes: expected 1MiB to 64GiB"));
        }
        let wait = match raw.wait {
            None => usual.wait,
            Some(text) => match units::duration(&text) {
                Ok(time) => time.as_nanos() as u64,
                Err(error) => return Err(format!("`wait`: {error}")),
            },
        };
        let prefix = size("prefix", raw.prefix.clone(), usual.prefix as usize)?;
        if raw.prefix.is_some() && mode != GatewayMode::Prefix {
            return Err(format!("`prefix` with mode `{}`: expected mode `prefix`", mode.name()));
        }
        let flow_memory = match raw.flow_memory {
            None => memory.min(usual.flow_memory as usize),
            given => size("flow_memory", given, 0)?,
        };
        if flow_memory > memory {
            let what = format!("`flow_memory` of {flow_memory} bytes");
            return Err(format!("{what}: expected at most `memory`, {memory} bytes"));
        }
        Ok(Self {
            mode,
            memory,
            flow_memory: flow_memory as u64,
            wait,
            prefix: u32::try_from(prefix).unwrap_or(u32::MAX),
            clears_at_end: false,
        })
    }

    /// The memory of a worker for each flow that the scanner follows, in bytes.
    #[must_use]
    pub fn bytes_of_flow() -> u64 {
        size_of::<Flow>() as u64
    }

    /// The memory that a worker takes besides if packets wait for a sensor, in bytes.
    #[must_use]
    pub fn bytes_of_backlog(&self) -> u64 {
        Backlog::most_bytes(self.memory)
    }
}

impl Setting for GatewayOptions {}

/// What the scanner says of its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedFlowsOf {
    /// The most at a time.
    pub flows: usize,
    /// Nanoseconds of silence after which it forgets a flow.
    pub idle: u64,
}

impl Default for ScannedFlowsOf {
    fn default() -> Self {
        Self { flows: 0, idle: 60_000_000_000 }
    }
}

impl ScannedFlowsOf {
    /// Those of a scan, if there is one.
    #[must_use]
    pub fn of(scan: Option<&CompiledScan>) -> Self {
        scan.map_or_else(Self::default, |scan| {
            let ScanOptions { flows, idle, .. } = *scan.options();
            Self { flows, idle }
        })
    }
}

impl Setting for ScannedFlowsOf {}

impl StageConfig for GatewayOptions {
    fn build(&self, _: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(Gateway::new(*self)))
    }

    fn settings(&self) -> Settings {
        Settings::new().with(*self)
    }

    fn memory_bytes(&self) -> u64 {
        match self.mode {
            GatewayMode::Annotate => 0,
            GatewayMode::Hold | GatewayMode::Prefix => HeldPackets::most_bytes(self.memory),
        }
    }
}
