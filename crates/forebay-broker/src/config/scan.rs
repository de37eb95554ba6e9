//! What payloads are scanned for, and how.

use std::path::PathBuf;

use forebay_pipeline::stages::{ScanMode, ScanOptions, ScanSelection};
use forebay_pipeline::units;
use forebay_scan::Engine;
use forebay_scan::reassembly::Limits;
use toml::Spanned;

use super::error::Fault;
use super::groups::SensorGroup;
use super::raw;
use super::values::{bounded, choice, read};

/// The most flows of a worker.
const MOST_FLOWS: u64 = 1 << 26;

/// The least and the most memory for reassembly.
const LEAST_MEMORY: usize = 1 << 20;
const MOST_MEMORY: usize = 64 << 30;

/// The table `[scan]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanConfig {
    /// The file of literals.
    pub literals: PathBuf,
    /// ASCII letters match in both cases.
    pub nocase: bool,
    /// How packets are scanned. Which headers are decoded, and when a flow ends, is as for all
    /// flows.
    pub options: ScanOptions,
}

/// The table, if there is one, which a group needs that selects by it.
pub fn check(
    scan: Option<&Spanned<raw::Scan>>,
    raw_groups: &[Spanned<raw::GroupTable>],
    groups: &[SensorGroup],
) -> Result<Option<ScanConfig>, Fault> {
    let Some(scan) = scan else {
        for (raw, group) in raw_groups.iter().zip(groups) {
            let selection = group.stages.setting::<ScanSelection>();
            let selects = selection.is_some_and(|one| one != ScanSelection::All);
            let key = raw.get_ref().stages.iter().find(|(stage, _)| stage.key == "scan");
            if let (true, Some((_, value))) = (selects, key) {
                let what = "`scan` without anything to scan for: expected a table [scan]";
                return Err(Fault::new(value.span(), what));
            }
        }
        return Ok(None);
    };
    let raw = scan.get_ref();
    let modes = ScanMode::ALL.map(|mode| (mode.name(), mode));
    let engines = Engine::ALL.map(|engine| (engine.name(), engine));
    let mode = raw.mode.as_ref().map(|text| choice(text, "mode", &modes)).transpose()?;
    let engine = raw.engine.as_ref().map(|text| choice(text, "engine", &engines)).transpose()?;
    let usual = ScanOptions::new(mode.unwrap_or(ScanMode::Stream), engine.unwrap_or_default());
    let flows = bounded(raw.max_flows.as_ref(), 1..=MOST_FLOWS, "as `max_flows`")?;
    let memory = read(raw.memory.as_ref(), |text| {
        let bytes = units::size(text).map_err(|error| error.to_string())?;
        match bytes {
            LEAST_MEMORY..=MOST_MEMORY => Ok(bytes),
            _ => Err(format!("`{text}`: expected 1MiB to 64GiB")),
        }
    })?;
    let mut options = usual;
    options.flows = flows.map_or(usual.flows, |flows| flows as usize);
    if let Some(memory) = memory {
        options.reassembly = Limits::of(memory);
    }
    Ok(Some(ScanConfig {
        literals: PathBuf::from(raw.literals.get_ref()),
        nocase: raw.nocase.unwrap_or(false),
        options,
    }))
}
