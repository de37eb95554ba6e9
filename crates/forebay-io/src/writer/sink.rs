//! The buffer between a [`Writer`](super::Writer) and its file.

use std::io::{self, Write};
use std::path::Path;

use crate::whole_file::WholeFile;

/// Bytes gathered before they are written.
const CAPACITY: usize = 256 << 10;

/// What is at least this long is written from where it lies.
const DIRECT: usize = 32 << 10;

/// A file, and what is not yet written to it.
pub(super) struct Sink {
    file: WholeFile,
    buffer: Vec<u8>,
    flushed: u64,
}

impl Sink {
    pub(super) fn new(file: WholeFile) -> Self {
        // Room for a packet more than is gathered, so that it never grows.
        Self { file, buffer: Vec::with_capacity(CAPACITY + 2 * DIRECT), flushed: 0 }
    }

    /// Bytes written so far, buffered ones included.
    pub(super) fn len(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Appends what may be long.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < DIRECT {
            self.buffer.extend_from_slice(bytes);
            return self.make_room();
        }
        self.flush()?;
        self.file.write_all(bytes)?;
        self.flushed += bytes.len() as u64;
        Ok(())
    }

    /// The buffer, to append something short to; [`Sink::make_room`] after it.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer out once enough is gathered.
    pub(super) fn make_room(&mut self) -> io::Result<()> {
        if self.buffer.len() < CAPACITY { Ok(()) } else { self.flush() }
    }

    /// Writes out all that was put.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_all(&self.buffer)?;
            self.flushed += self.buffer.len() as u64;
            self.buffer.clear();
            // One huge packet must not hold its memory for good.
            self.buffer.shrink_to(CAPACITY + 2 * DIRECT);
        }
        Ok(())
    }

    /// Everything put so far, if none of it was written out yet.
    pub(super) fn unwritten(&self) -> Option<&[u8]> {
        (self.flushed == 0).then_some(&self.buffer)
    }

    /// Takes everything back that was put and not written out.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
    }

    /// The hidden name of the file, if it has one.
    pub(super) fn temporary(&self) -> Option<&Path> {
        self.file.temporary()
    }

    /// Writes everything out and gives the file its name.
    pub(super) fn finish(mut self, path: &Path) -> io::Result<()> {
        self.flush()?;
        self.file.finish(path)
    }
}
