//! Files or a stream.

use std::io;
use std::path::Path;

use crate::files::RecordFiles;
use crate::row::Row;
use crate::stream::RecordStream;

/// Where a broker's records go.
pub enum RecordOutput {
    /// Files that follow one another.
    Files(Box<RecordFiles>),
    /// A program that reads them.
    Stream(RecordStream),
}

impl RecordOutput {
    /// Opens a file or the stream, if none is open.
    ///
    /// # Errors
    /// If it cannot be opened, other than for want of a reader.
    pub fn begin(&mut self) -> io::Result<()> {
        match self {
            Self::Files(files) => files.open(),
            Self::Stream(stream) => match stream.open() {
                Err(error) if RecordStream::is_without_reader(&error) => Ok(()),
                opened => opened,
            },
        }
    }

    /// Writes a record with its origin.
    ///
    /// # Errors
    /// [`RecordFiles::write`], [`RecordStream::write`]
    pub fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        match self {
            Self::Files(files) => files.write(row),
            Self::Stream(stream) => stream.write(row),
        }
    }

    /// Writes buffered records.
    ///
    /// # Errors
    /// [`RecordFiles::flush`], [`RecordStream::flush`]
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Files(files) => files.flush(),
            Self::Stream(stream) => stream.flush(),
        }
    }

    /// Completes the present file, or writes the last records to the stream.
    ///
    /// # Errors
    /// [`RecordFiles::finish`], [`RecordStream::flush`]
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Files(files) => files.finish(),
            Self::Stream(stream) => stream.flush(),
        }
    }

    /// Records in files, or that the stream's reader can read.
    #[must_use]
    pub fn written(&self) -> u64 {
        match self {
            Self::Files(files) => files.written(),
            Self::Stream(stream) => stream.written(),
        }
    }

    /// Records that are neither written nor lost.
    #[must_use]
    pub fn held(&self) -> u64 {
        match self {
            Self::Files(files) => files.held(),
            Self::Stream(stream) => stream.held(),
        }
    }

    /// Files begun or readers connected to so far, and how many files were removed for newer ones.
    #[must_use]
    pub fn files(&self) -> (u64, u64) {
        match self {
            Self::Files(files) => files.files(),
            Self::Stream(stream) => (stream.connections(), 0),
        }
    }

    /// The present file.
    #[must_use]
    pub fn current(&self) -> Option<&Path> {
        match self {
            Self::Files(files) => files.current(),
            Self::Stream(_) => None,
        }
    }

    /// The stream, if it is one.
    #[must_use]
    pub fn stream(&self) -> Option<&RecordStream> {
        match self {
            Self::Files(_) => None,
            Self::Stream(stream) => Some(stream),
        }
    }
}
