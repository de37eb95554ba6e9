//! Writes results one after another to standard output, and counts those accepted by the
//! system.
//!
//! [`std::io::BufWriter`] does not report how much of its buffer was written when a write
//! fails. A full disk accepts part of a write, and its reader gets that part.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

/// Bytes collected before they are written.
const CAPACITY: usize = 1 << 16;

/// Results to be written to `W`.
pub struct Results<W> {
    out: W,
    buffer: Vec<u8>,
    /// The end of each result in the buffer.
    ends: Vec<usize>,
    taken: u64,
    /// The error of a failed write: nothing may follow a partly written result.
    failed: Option<io::ErrorKind>,
}

impl Results<File> {
    /// Results for standard output, bypassing the buffer of [`io::Stdout`].
    ///
    /// # Errors
    /// If the process may open no more files.
    pub fn to_stdout() -> io::Result<Self> {
        Ok(Self::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }
}

impl<W: Write> Results<W> {
    /// Results for `out`. Nothing is written yet.
    #[must_use]
    pub fn new(out: W) -> Self {
        Self { out, buffer: Vec::new(), ends: Vec::new(), taken: 0, failed: None }
    }

    /// Results accepted by the output in full.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds a result, which `write` appends to a buffer.
    ///
    /// # Errors
    /// Of the output, and of `write`.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        write(&mut self.buffer)?;
        self.ends.push(self.buffer.len());
        if self.buffer.len() < CAPACITY { Ok(()) } else { self.flush() }
    }

    /// Adds text that belongs to no result, and writes everything.
    ///
    /// # Errors
    /// Of the output.
    pub fn end_with(&mut self, text: &str) -> io::Result<()> {
        self.buffer.extend_from_slice(text.as_bytes());
        self.flush()
    }

    /// Writes all added results. After a failure nothing more is written.
    ///
    /// # Errors
    /// Of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(kind) = self.failed {
            return Err(kind.into());
        }
        let mut done = 0;
        let outcome = loop {
            if done == self.buffer.len() {
                break Ok(());
            }
            match self.out.write(&self.buffer[done..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.taken += self.ends.partition_point(|&end| end <= done) as u64;
        self.failed = outcome.as_ref().err().map(io::Error::kind);
        self.buffer.clear();
        self.ends.clear();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output with room for this many bytes, which takes up to 1,000 at once.
    struct Room(usize);

    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(self.0).min(1_000);
            self.0 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn results_of_which_a_part_is_written_are_not_taken() {
        // Lines of 10 bytes: more than a buffer, and room for any part.
        for (room, expected) in [(0, 0), (9, 0), (10, 1), (65_539, 6_553), (99_999, 9_999)] {
            let mut results = Results::new(Room(room));
            let line = |buffer: &mut Vec<u8>| writeln!(buffer, "123456789");
            let pushed = (0..10_000).try_for_each(|_| results.push(line));
            let outcome = pushed.and_then(|()| results.flush());
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::StorageFull, "{room}");
            assert_eq!(results.taken(), expected, "{room}");
            // Room that appears later must not receive half a line.
            results.out = Room(1 << 20);
            assert!(results.push(line).and_then(|()| results.end_with("end\n")).is_err());
            assert_eq!((results.taken(), results.out.0), (expected, 1 << 20), "{room}");
        }
    }
}
