//! Follows the lines appended to a log file, across rotation and truncation.
//!
//! Reading continues where it ended. A file that is shorter than that was truncated, and is
//! read from its start; a file that was replaced is first read to its end. If much was
//! appended at once, only the last part is read, up to a limit, and a line longer than
//! [`LINE`] is skipped. Only regular files are read: others may have no end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::OFlags;

/// Bytes read at a time, and the part of a longer file's end that is read.
const READ: u64 = 4 << 20;

/// The longest line.
const LINE: usize = 1 << 20;

/// Bytes at a file's start that contain its header.
const HEAD: u64 = 64 << 10;

/// Reads the lines appended to a file.
pub struct Follower {
    path: PathBuf,
    open: Option<Open>,
    /// Whether the initial content is skipped.
    skips: bool,
    is_first: bool,
}

struct Open {
    file: File,
    identity: (u64, u64),
    at: u64,
    /// An incomplete line.
    rest: Vec<u8>,
    /// Whether the rest of the line is skipped.
    in_long_line: bool,
    /// Whether the file began after following started: it did not exist, or was replaced or
    /// truncated.
    is_later: bool,
}

/// Receives a line, and whether its file began after following started.
type Take<'a> = dyn FnMut(&[u8], bool) + 'a;

impl Follower {
    /// Starts with the last existing lines.
    pub fn from_last(path: PathBuf) -> Self {
        Self { path, open: None, skips: false, is_first: true }
    }

    /// Starts with future lines, after existing header lines, which begin with `#`.
    pub fn from_end(path: PathBuf) -> Self {
        Self { skips: true, ..Self::from_last(path) }
    }

    /// Calls `take` for each complete line appended since the last call.
    pub fn lines(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        let there = self.open_if_there();
        if let Some(open) = &mut self.open {
            open.read(take)?;
        }
        let is_other =
            |new: &Open| self.open.as_ref().is_none_or(|old| old.identity != new.identity);
        match there {
            Ok(new) if is_other(&new) => {
                let skips = self.skips && self.is_first;
                let is_later = !std::mem::replace(&mut self.is_first, false);
                let open = self.open.insert(Open { is_later, ..new });
                if skips {
                    open.skip(take)?;
                }
                open.read(take)
            }
            Ok(_) => Ok(()),
            // A file that is being rotated may be missing for a moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_first => Ok(()),
            Err(error) => {
                // If the file appears later, all of it is new.
                self.is_first &= error.kind() != io::ErrorKind::NotFound;
                Err(error)
            }
        }
    }

    fn open_if_there(&self) -> io::Result<Open> {
        // Otherwise opening a pipe would block.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let identity = (about.dev(), about.ino());
        Ok(Open { file, identity, at: 0, rest: Vec::new(), in_long_line: false, is_later: false })
    }
}

impl Open {
    /// Moves to the end; reads the header.
    fn skip(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        let mut head = Vec::new();
        (&self.file).take(HEAD).read_to_end(&mut head)?;
        head.split(|byte| *byte == b'\n')
            .take_while(|line| line.starts_with(b"#"))
            .for_each(|line| take(line, false));
        self.at = self.file.metadata()?.len();
        // An incomplete line began before.
        self.in_long_line = self.at > 0 && !self.ends_line()?;
        Ok(())
    }

    /// Whether the byte before the position ends a line.
    fn ends_line(&mut self) -> io::Result<bool> {
        let mut byte = [0];
        self.file.seek(SeekFrom::Start(self.at - 1))?;
        self.file.read_exact(&mut byte)?;
        Ok(byte == *b"\n")
    }

    fn read(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        if len < self.at {
            (self.at, self.in_long_line, self.is_later) = (0, false, true);
            self.rest.clear();
        }
        if len - self.at > READ {
            self.at = len - READ;
            self.rest.clear();
            self.in_long_line = true;
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut added = Vec::new();
        self.at += (&self.file).take(READ).read_to_end(&mut added)? as u64;
        let mut parts = added.split(|byte| *byte == b'\n');
        let begun = parts.next_back().unwrap_or_default();
        for part in parts {
            self.add(part);
            if !self.in_long_line {
                take(&self.rest, self.is_later);
            }
            self.rest.clear();
            self.in_long_line = false;
        }
        self.add(begun);
        Ok(())
    }

    fn add(&mut self, part: &[u8]) {
        self.in_long_line |= self.rest.len() + part.len() > LINE;
        if self.in_long_line {
            self.rest = Vec::new();
        } else {
            self.rest.extend_from_slice(part);
        }
    }
}
