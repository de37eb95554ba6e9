//! The file or stream that records are written to.

use std::io;
use std::path::{Path, PathBuf};

use forebay_export::{RecordFormat, RecordWriter, Row};
use forebay_io::{Placement, WholeFile, is_stream};

use crate::cli::{FlowFormat, FlowsArgs};
use crate::failure::Failure;
use crate::input::file_failure;

/// An output of records. A file appears under its name when it is complete; that of a device can
/// be read before as `NAME.partial`.
pub(super) struct Output {
    writer: RecordWriter<WholeFile>,
    path: PathBuf,
    records: u64,
}

impl Output {
    /// Begins the output that the options name, which is standard output if none is named.
    ///
    /// # Errors
    /// If `format` is none of a file, or the file cannot be created.
    pub(super) fn new(format: FlowFormat, args: &FlowsArgs) -> Result<Self, Failure> {
        let format = match (format, &args.write) {
            (FlowFormat::Csv, _) => RecordFormat::Csv,
            (FlowFormat::Jsonl, _) => RecordFormat::JsonLines,
            (FlowFormat::Parquet, Some(_)) => RecordFormat::Parquet,
            (FlowFormat::Parquet, None) => {
                let what = "--format parquet: expected -w with the name of a file";
                return Err(Failure::Usage(what.to_owned()));
            }
            (FlowFormat::Table | FlowFormat::Json, _) => {
                let what = "-w: expected --format csv, jsonl or parquet with it";
                return Err(Failure::Usage(what.to_owned()));
            }
        };
        let path = args.write.clone().unwrap_or_else(|| PathBuf::from("-"));
        let placement =
            if args.interface.is_some() { Placement::Growing } else { Placement::Hidden };
        let file = WholeFile::create(&path, placement);
        let writer = file.and_then(|file| RecordWriter::new(file, format, false));
        let writer = writer.map_err(|error| failure(&path, error))?;
        Ok(Self { writer, path, records: 0 })
    }

    pub(super) fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.writer.write(row)?;
        self.records += 1;
        Ok(())
    }

    /// Passes buffered lines on to a reader of a stream.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map(drop).map_err(|error| failure(&self.path, error))
    }

    /// Whether written records cannot be removed.
    pub(super) fn is_stream(&self) -> bool {
        is_stream(&self.path)
    }

    /// The failure that an error of this output is.
    pub(super) fn failure(&self, error: io::Error) -> Failure {
        failure(&self.path, error)
    }

    /// Completes the output under its name, or removes it unless it `stands`. Returns the number
    /// of its records.
    pub(super) fn finish(self, stands: bool) -> Result<u64, Failure> {
        if !stands && !self.is_stream() {
            return Ok(0);
        }
        let Self { writer, path, records } = self;
        let named = writer.finish().and_then(|file| file.finish(&path));
        named.map_err(|error| failure(&path, error)).map(|()| records)
    }
}

fn failure(path: &Path, error: io::Error) -> Failure {
    match path.to_str() {
        Some("-") => Failure::Stdout(error),
        _ => file_failure("write", path, error),
    }
}
