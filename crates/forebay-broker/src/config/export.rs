//! Where records of flows are written.

use std::path::PathBuf;
use std::time::Duration;

use forebay_export::{FileOptions, RecordFormat};
use forebay_flow::FlowRecord;
use toml::Spanned;

use super::error::Fault;
use super::groups::SensorGroup;
use super::ports::{Port, rotate};
use super::raw;
use super::values::{bounded, choice};

/// Records that a worker's queue of a group has room for: by default, the fewest and the most.
const QUEUE: u64 = 16_384;
const QUEUES: std::ops::RangeInclusive<u64> = 64..=1 << 22;

/// The key of a group whose stage keeps records.
const RECORDS: &str = "flows";

/// The export of records.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// The files.
    pub files: FileOptions,
    /// The groups; all that keep records if there are none.
    pub groups: Vec<String>,
    /// Records that the queue of a worker and group has room for.
    pub queue: usize,
}

impl Export {
    /// Whether the records of a group are written.
    #[must_use]
    pub fn has(&self, group: &SensorGroup) -> bool {
        keeps_records(group) && (self.groups.is_empty() || self.groups.contains(&group.name))
    }

    /// Bytes for each worker of a group: the queue, with those records that are being written, and
    /// the table of a stage that has ended, until its records are written.
    #[must_use]
    pub fn memory_bytes(&self, group: &SensorGroup) -> u64 {
        if !self.has(group) {
            return 0;
        }
        let table = group.stages.config(RECORDS).map_or(0, |flows| flows.memory_bytes());
        2 * (self.queue * size_of::<FlowRecord>()) as u64 + table
    }
}

fn keeps_records(group: &SensorGroup) -> bool {
    group.stages.config(RECORDS).is_some()
}

/// The export, if there is to be one.
pub fn check(
    export: Option<&Spanned<raw::Export>>,
    groups: &[SensorGroup],
    outputs: &[Port],
) -> Result<Option<Export>, Fault> {
    let Some(export) = export else { return Ok(None) };
    let raw = export.get_ref();
    let path = PathBuf::from(raw.path.get_ref());
    if path.file_name().is_none() {
        let what = format!("`{}`: expected the name of a file", path.display());
        return Err(Fault::new(raw.path.span(), what));
    }
    if let Some(port) = outputs.iter().find(|port| port.file() == Some(&path)) {
        let what = format!("output `{}` has the same file", port.name);
        return Err(Fault::new(raw.path.span(), what));
    }
    for name in &raw.groups {
        let group = groups.iter().find(|group| group.name == *name.get_ref());
        let what = match group {
            None => "no such group",
            Some(group) if !keeps_records(group) => {
                "the group keeps no records: expected `flows` in it"
            }
            Some(_) => continue,
        };
        return Err(Fault::new(name.span(), format!("`{}`: {what}", name.get_ref())));
    }
    if !groups.iter().any(keeps_records) {
        let what = "no group keeps records: expected `flows` in one";
        return Err(Fault::new(export.span(), what));
    }
    let format = raw.format.as_ref().map(|text| choice(text, "format", &RecordFormat::NAMES));
    let rotate = raw.rotate.as_ref().map(rotate).transpose()?;
    let queue = bounded(raw.queue.as_ref(), QUEUES, "records")?.unwrap_or(QUEUE);
    Ok(Some(Export {
        files: FileOptions {
            path,
            format: format.transpose()?.unwrap_or(RecordFormat::Csv),
            max_len: rotate.and_then(|rotate| rotate.size),
            max_age: rotate.and_then(|rotate| rotate.every).map(Duration::from_secs),
            keep: rotate.and_then(|rotate| rotate.keep),
        },
        groups: raw.groups.iter().map(|name| name.get_ref().clone()).collect(),
        queue: queue as usize,
    }))
}
