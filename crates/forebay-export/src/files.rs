//! Files of records that follow one another: the next begins when one is large or old enough.
//!
//! While a file grows it is `NAME.partial`. It gets its name when it is complete. After a failed
//! write a file of lines goes on behind the records that it had at its last flush. A Parquet file is
//! removed, and the next record begins another.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_io::{Numbered, Placement, WholeFile};

use crate::row::Row;
use crate::writer::{RecordFormat, RecordWriter};

/// Which files are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The name; with `max_len` or `max_age` others are derived from it.
    pub path: PathBuf,
    /// Their format, with the origin of records.
    pub format: RecordFormat,
    /// The length in bytes after which the next file begins.
    pub max_len: Option<u64>,
    /// The age after which the next file begins.
    pub max_age: Option<Duration>,
    /// The files that are kept.
    pub keep: Option<u64>,
}

/// Files of a broker's records.
pub struct RecordFiles {
    options: FileOptions,
    numbered: Option<Numbered>,
    open: Option<OpenFile>,
    begun: u64,
    /// Records in finished files.
    finished: u64,
}

struct OpenFile {
    writer: RecordWriter<WholeFile>,
    path: PathBuf,
    since: Instant,
    records: u64,
    /// Of these, those that can be read from the file as it is.
    flushed: u64,
}

impl RecordFiles {
    /// Files whose first is opened by [`RecordFiles::open`], or by the first record.
    #[must_use]
    pub fn new(options: FileOptions) -> Self {
        let is_rotated = options.max_len.is_some() || options.max_age.is_some();
        let numbered = is_rotated.then(|| Numbered::new(options.path.clone(), options.keep));
        Self { options, numbered, open: None, begun: 0, finished: 0 }
    }

    /// Opens a file, if none is open.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn open(&mut self) -> io::Result<()> {
        if self.open.is_some() {
            return Ok(());
        }
        let path = match &mut self.numbered {
            Some(numbered) => {
                numbered.list();
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                numbered.name(now.map_or(0, |since| since.as_secs()))
            }
            None => self.options.path.clone(),
        };
        let file = WholeFile::create(&path, Placement::GrowingBeneath)?;
        let mut writer = RecordWriter::new(file, self.options.format, true)?;
        if let Err(error) = writer.flush() {
            // Nothing is in the file.
            let discarded = writer.into_file().map(|(file, _)| file.discard());
            return Err(discarded.and_then(Result::err).unwrap_or(error));
        }
        self.begun += 1;
        self.numbered.iter_mut().for_each(|numbered| numbered.begun(path.clone()));
        self.open = Some(OpenFile { writer, path, since: Instant::now(), records: 0, flushed: 0 });
        Ok(())
    }

    /// Writes a record with its origin.
    ///
    /// # Errors
    /// If a file cannot be written, created or named. Records that are lost by it are no longer
    /// among [`RecordFiles::held`].
    pub fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.open()?;
        let Some(file) = &mut self.open else { return Ok(()) };
        file.records += 1;
        if let Err(error) = file.writer.write(row) {
            self.abandon();
            return Err(error);
        }
        let is_full = self.options.max_len.is_some_and(|most| file.writer.len() >= most);
        if is_full { self.finish() } else { Ok(()) }
    }

    /// Writes buffered records, and ends a file that is old enough and has records.
    ///
    /// # Errors
    /// As [`RecordFiles::write`].
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.open else { return Ok(()) };
        let is_old = self.options.max_age.is_some_and(|most| file.since.elapsed() >= most);
        if is_old && file.records > 0 {
            return self.finish();
        }
        match file.writer.flush() {
            Ok(true) => file.flushed = file.records,
            Ok(false) => {}
            Err(error) => {
                self.abandon();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Completes the present file under its name.
    ///
    /// # Errors
    /// As [`RecordFiles::write`].
    pub fn finish(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.open else { return Ok(()) };
        let ended = file.writer.end();
        if ended.is_err() {
            self.abandon();
        }
        let Some(OpenFile { writer, path, records, .. }) = self.open.take() else { return ended };
        if let Some((file, _)) = writer.into_file() {
            file.finish(&path)?;
            self.finished += records;
        }
        ended
    }

    /// Removes the present file, if no record was written to it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn discard_empty(&mut self) -> io::Result<()> {
        let Some(file) = self.open.take_if(|file| file.records == 0) else { return Ok(()) };
        file.writer.into_file().map_or(Ok(()), |(file, _)| file.discard())
    }

    /// Takes back what a failed write has left of records. A file of lines goes on behind its last
    /// whole one; of one that cannot be truncated, `NAME.partial` remains.
    fn abandon(&mut self) {
        let Some(OpenFile { writer, path, since, flushed, .. }) = self.open.take() else { return };
        let Some((mut file, len)) = writer.into_file() else { return };
        if len == 0 {
            // The failure that led here is reported; this one changes nothing about it.
            let _ = file.discard();
        } else if file.cut(len).is_err() {
            self.finished += flushed;
        } else {
            let writer = RecordWriter::resume(file, self.options.format, len);
            self.open =
                writer.map(|writer| OpenFile { writer, path, since, records: flushed, flushed });
        }
    }

    /// Records in files, which are not lost if the process is killed.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.finished + self.open.as_ref().map_or(0, |file| file.flushed)
    }

    /// Records that are buffered, or in a file that cannot be read before it is complete.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.open.as_ref().map_or(0, |file| file.records - file.flushed)
    }

    /// Files started so far, and how many were removed for newer ones.
    #[must_use]
    pub fn files(&self) -> (u64, u64) {
        (self.begun, self.numbered.as_ref().map_or(0, Numbered::removed))
    }

    /// The present file.
    #[must_use]
    pub fn current(&self) -> Option<&Path> {
        self.open.as_ref().map(|file| file.path.as_path())
    }
}
