//! Where records of flows are written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_export::{FileOptions, LineFormat, RecordFormat, RecordStream, StreamTarget};
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

/// The name of standard output.
const STDOUT: &str = "-";

/// Where records are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportTarget {
    /// To files.
    Files(FileOptions),
    /// To a program that reads lines.
    Stream(StreamTarget, LineFormat),
}

impl ExportTarget {
    /// The name of the file, FIFO or socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Files(files) => &files.path,
            Self::Stream(StreamTarget::Fifo(path) | StreamTarget::Socket(path), _) => path,
            Self::Stream(StreamTarget::Stdout, _) => Path::new(STDOUT),
        }
    }

    /// Bytes that the writer takes.
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Files(files) => files.format.memory_bytes(),
            Self::Stream(..) => RecordStream::MEMORY_BYTES,
        }
    }
}

#[derive(Clone, Copy)]
enum TargetKind {
    File,
    Fifo,
    Socket,
}

const TYPES: [(&str, TargetKind); 3] =
    [("file", TargetKind::File), ("fifo", TargetKind::Fifo), ("socket", TargetKind::Socket)];

/// The export of records.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// Where they are written.
    pub target: ExportTarget,
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

    /// Bytes for the writer, which is one for all workers.
    #[must_use]
    pub fn writer_bytes(&self) -> u64 {
        self.target.memory_bytes()
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
    let queue = bounded(raw.queue.as_ref(), QUEUES, "records")?.unwrap_or(QUEUE);
    Ok(Some(Export {
        target: target(raw, path)?,
        groups: raw.groups.iter().map(|name| name.get_ref().clone()).collect(),
        queue: queue as usize,
    }))
}

/// Where records are written, and how.
fn target(raw: &raw::Export, path: PathBuf) -> Result<ExportTarget, Fault> {
    let format = raw.format.as_ref().map(|text| choice(text, "format", &RecordFormat::NAMES));
    let format = format.transpose()?.unwrap_or(RecordFormat::Csv);
    let kind = raw.kind.as_ref().map(|text| choice(text, "type", &TYPES)).transpose()?;
    let is_stdout = path.as_os_str() == STDOUT;
    let stream = match kind.unwrap_or(TargetKind::File) {
        TargetKind::File if is_stdout => StreamTarget::Stdout,
        TargetKind::File => {
            let rotate = raw.rotate.as_ref().map(rotate).transpose()?;
            return Ok(ExportTarget::Files(FileOptions {
                path,
                format,
                max_len: rotate.and_then(|rotate| rotate.size),
                max_age: rotate.and_then(|rotate| rotate.every).map(Duration::from_secs),
                keep: rotate.and_then(|rotate| rotate.keep),
            }));
        }
        TargetKind::Fifo | TargetKind::Socket if is_stdout => {
            let what = "`-` is standard output: expected the name of a FIFO or socket";
            return Err(Fault::new(raw.path.span(), what.to_owned()));
        }
        TargetKind::Fifo => StreamTarget::Fifo(path),
        TargetKind::Socket => StreamTarget::Socket(path),
    };
    let format = match format {
        RecordFormat::Csv => LineFormat::Csv,
        RecordFormat::JsonLines => LineFormat::JsonLines,
        RecordFormat::Parquet => {
            let what = "parquet needs a file: expected `csv` or `jsonl` for a stream";
            let span = raw.format.as_ref().map_or(raw.path.span(), |text| text.span());
            return Err(Fault::new(span, what.to_owned()));
        }
    };
    if let Some(rotate) = &raw.rotate {
        let what = "a stream has no files that follow one another: expected no `rotate`";
        return Err(Fault::new(rotate.span(), what.to_owned()));
    }
    Ok(ExportTarget::Stream(stream, format))
}
