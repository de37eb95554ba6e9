//! The buffer between a [`Writer`](super::Writer) and its file.
//!
//! The buffer has complete records, and each write has complete records, so a growing file
//! ends with a complete record between any two writes. If a write fails, the complete
//! records in the file are counted, and the file is truncated after them: [`Sink::written`]
//! is the content of the file. A file that cannot be truncated is torn, and each later
//! write first retries that.

use std::io::{self, Read, Write};
use std::path::Path;

use super::content::Content;
use super::whole::whole_records;
use crate::format::Format;
use crate::whole_file::WholeFile;

/// Records are written directly from their memory if they take at least this fraction of
/// the buffer length, and at least [`LEAST_DIRECT`] bytes: fewer are faster copied than
/// written by a separate call.
const DIRECT: usize = 8;
const LEAST_DIRECT: usize = 8 << 10;

/// A file, and the data not yet written to it.
pub(super) struct Sink {
    file: WholeFile,
    format: Format,
    buffer: Vec<u8>,
    /// Bytes collected before they are written.
    gathered: usize,
    /// Bytes in the file, all of complete records.
    flushed: u64,
    written: Content,
    pending: Content,
    /// A write has failed, and the file could not be truncated to complete records.
    is_torn: bool,
}

impl Sink {
    /// A sink for records of `format` that collects `gathered` bytes before they are
    /// written.
    pub(super) fn new(file: WholeFile, format: Format, gathered: usize) -> Self {
        Self {
            file,
            format,
            buffer: Vec::with_capacity(room(gathered)),
            gathered,
            flushed: 0,
            written: Content::default(),
            pending: Content::default(),
            is_torn: false,
        }
    }

    /// Bytes written so far, including buffered ones.
    pub(super) fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// The content of the file.
    pub(super) fn written(&self) -> Content {
        self.written
    }

    /// The content of the buffer.
    pub(super) fn pending(&self) -> Content {
        self.pending
    }

    /// Whether the file may end within a record.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The buffer, to append a record to; to be followed by [`Sink::added`].
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Counts a record appended to the buffer, and writes the buffer if it is full.
    pub(super) fn added(&mut self, content: Content) -> io::Result<()> {
        self.pending += content;
        if self.buffer.len() < self.gathered { Ok(()) } else { self.flush() }
    }

    /// Whether written data is passed on at once.
    pub(super) fn is_stream(&self) -> bool {
        self.file.is_stream()
    }

    /// Appends complete records, which may be long together.
    pub(super) fn put(&mut self, records: &[u8], content: Content) -> io::Result<()> {
        if records.len() < (self.gathered / DIRECT).max(LEAST_DIRECT).min(self.gathered / 2) {
            if self.buffer.len() + records.len() > room(self.gathered) {
                self.flush()?;
            }
            self.buffer.extend_from_slice(records);
            return self.added(content);
        }
        self.flush()?;
        self.write_out(records, content)
    }

    /// Writes all buffered data.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return self.mend();
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let content = std::mem::take(&mut self.pending);
        let outcome = self.write_out(&buffer, content);
        buffer.clear();
        // Free the memory of an unusually large packet.
        buffer.shrink_to(room(self.gathered));
        self.buffer = buffer;
        outcome
    }

    /// Writes complete records to the file.
    fn write_out(&mut self, records: &[u8], content: Content) -> io::Result<()> {
        self.mend()?;
        let mut done = 0;
        while done < records.len() {
            match self.file.write(&records[done..]) {
                Ok(0) => return Err(self.cut(records, done, io::ErrorKind::WriteZero.into())),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.cut(records, done, error)),
            }
        }
        self.flushed += records.len() as u64;
        self.written += content;
        Ok(())
    }

    /// Counts the complete records in the file after `done` bytes of `records` were
    /// written, and truncates the file after them.
    fn cut(&mut self, records: &[u8], done: usize, error: io::Error) -> io::Error {
        let (len, content) = whole_records(self.format, &records[..done], self.flushed == 0);
        self.flushed += len as u64;
        self.written += content;
        self.is_torn = true;
        // The first failure is the cause to report.
        let _ = self.mend();
        error
    }

    /// Truncates a torn file to its complete records.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        if !self.is_torn {
            return Ok(());
        }
        if self.file.is_stream() {
            return Err(io::Error::other("an earlier write failed"));
        }
        self.file.cut(self.flushed)?;
        self.is_torn = false;
        Ok(())
    }

    /// All data so far, if none of it was written yet.
    pub(super) fn unwritten(&self) -> Option<&[u8]> {
        (self.flushed == 0).then_some(&self.buffer)
    }

    /// Discards all unwritten data; what follows is of `format`.
    pub(super) fn begin_anew(&mut self, format: Format) {
        self.buffer.clear();
        self.pending = Content::default();
        self.format = format;
    }

    /// The data written so far, if it can be read and the file has no name yet.
    pub(super) fn read_back(&self) -> Option<io::Result<Box<dyn Read + Send>>> {
        self.file.read_back()
    }

    /// Writes all buffered data, and allocates the space needed in the folder of `path`.
    pub(super) fn prepare(&mut self, path: &Path) -> io::Result<()> {
        self.flush()?;
        self.file.prepare(path)
    }

    /// Writes all buffered data and gives the file its name.
    pub(super) fn finish(mut self, path: &Path) -> io::Result<Content> {
        self.flush()?;
        self.file.finish(path)?;
        Ok(self.written)
    }
}

/// Capacity of the buffer in bytes: room for a packet beyond the collected bytes, so that
/// it seldom grows.
fn room(gathered: usize) -> usize {
    gathered + 2 * (gathered / DIRECT)
}

#[cfg(test)]
mod tests {
    use crate::whole_file::Placement;

    use super::*;

    #[test]
    fn a_small_buffer_gathers_runs_of_a_few_packets_and_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        let file = WholeFile::create(&path, Placement::Hidden).unwrap();
        let mut sink = Sink::new(file, Format::Pcap, 16 << 10);
        let capacity = sink.buffer.capacity();
        // Twice 7,000 bytes fit, and a third time would not.
        for (len, flushed) in [(7_000, 0), (7_000, 0), (7_000, 14_000), (9_000, 30_000)] {
            sink.put(&vec![0; len], Content::packet(len as u32 - 16)).unwrap();
            assert_eq!((sink.flushed, sink.buffer.capacity()), (flushed, capacity));
        }
        assert_eq!(sink.written().tally.packets, 4);
    }
}
