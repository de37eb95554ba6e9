//! One writer for all formats.

use std::io::{self, BufWriter, Write};

use crate::columns::ColumnWriter;
use crate::lines::{write_csv, write_csv_heading, write_json};
use crate::row::Row;

/// A format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// Comma-separated values with a header line (RFC 4180).
    Csv,
    /// A JSON object on a line for each record.
    JsonLines,
    /// Apache Parquet: columns, compressed with zstd.
    Parquet,
}

impl RecordFormat {
    /// All formats by their names in configurations and options.
    pub const NAMES: [(&'static str, Self); 3] =
        [("csv", Self::Csv), ("jsonl", Self::JsonLines), ("parquet", Self::Parquet)];

    /// Bytes that a writer takes at most: of Parquet, the rows of a row group.
    #[must_use]
    pub fn memory_bytes(self) -> u64 {
        match self {
            Self::Csv | Self::JsonLines => 64 << 10,
            Self::Parquet => 26_000_000,
        }
    }
}

/// Writes records in a format.
pub struct RecordWriter<W: Write + Send>(Inner<W>);

enum Inner<W: Write + Send> {
    Csv(Lines<W>),
    JsonLines(Lines<W>),
    Columns(Box<ColumnWriter<W>>),
}

impl<W: Write + Send> RecordWriter<W> {
    /// Begins a file. `has_origin` is whether rows have an [`Origin`](crate::Origin): all or none.
    ///
    /// # Errors
    /// Of the file.
    pub fn new(out: W, format: RecordFormat, has_origin: bool) -> io::Result<Self> {
        let lines = |out| Lines { out: BufWriter::new(out), written: 0, flushed: 0 };
        Ok(Self(match format {
            RecordFormat::Csv => {
                let mut lines = lines(out);
                write_csv_heading(&mut lines, has_origin)?;
                Inner::Csv(lines)
            }
            RecordFormat::JsonLines => Inner::JsonLines(lines(out)),
            RecordFormat::Parquet => Inner::Columns(Box::new(ColumnWriter::new(out, has_origin)?)),
        }))
    }

    /// Goes on with a file of lines that has rows in its first `len` bytes; nothing for a format
    /// whose files have an end.
    #[must_use]
    pub fn resume(out: W, format: RecordFormat, len: u64) -> Option<Self> {
        let lines = Lines { out: BufWriter::new(out), written: len, flushed: len };
        match format {
            RecordFormat::Csv => Some(Self(Inner::Csv(lines))),
            RecordFormat::JsonLines => Some(Self(Inner::JsonLines(lines))),
            RecordFormat::Parquet => None,
        }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// Of the file, which is incomplete from then on.
    pub fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        match &mut self.0 {
            Inner::Csv(lines) => write_csv(lines, row),
            Inner::JsonLines(lines) => write_json(lines, row),
            Inner::Columns(columns) => columns.write(row),
        }
    }

    /// Writes buffered lines. The rows of a row group of Parquet stay in memory until it is full.
    /// Returns whether all rows can be read from the file as it is now.
    ///
    /// # Errors
    /// Of the file.
    pub fn flush(&mut self) -> io::Result<bool> {
        match &mut self.0 {
            Inner::Csv(lines) | Inner::JsonLines(lines) => {
                lines.out.flush()?;
                lines.flushed = lines.written;
                Ok(true)
            }
            Inner::Columns(_) => Ok(false),
        }
    }

    /// The length of the file so far, with buffered lines, without rows of the present row group.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Inner::Csv(lines) | Inner::JsonLines(lines) => lines.written,
            Inner::Columns(columns) => columns.bytes_written(),
        }
    }

    /// Whether nothing is written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the rest, after which no rows may come.
    ///
    /// # Errors
    /// Of the file.
    pub fn end(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Inner::Columns(columns) => columns.end(),
            Inner::Csv(_) | Inner::JsonLines(_) => self.flush().map(drop),
        }
    }

    /// The file, complete after [`RecordWriter::end`], with the length up to which it has all rows
    /// before the last flush and no others: 0 if it cannot be read without its end. Nothing if a
    /// library has kept the file.
    #[must_use]
    pub fn into_file(self) -> Option<(W, u64)> {
        match self.0 {
            Inner::Csv(lines) | Inner::JsonLines(lines) => {
                Some((lines.out.into_parts().0, lines.flushed))
            }
            Inner::Columns(columns) => Some((columns.into_file()?, 0)),
        }
    }

    /// Writes the rest, and returns the file, which is complete.
    ///
    /// # Errors
    /// Of the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.end()?;
        let file = self.into_file().map(|(file, _)| file);
        file.ok_or_else(|| io::Error::other("the file is still in use"))
    }
}

/// Buffered lines, whose bytes are counted.
struct Lines<W: Write> {
    out: BufWriter<W>,
    written: u64,
    /// Of these, at the last flush.
    flushed: u64,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
