//! A file that appears under its name only when it is whole.
//!
//! It is written under a hidden name in the same directory, so that renaming
//! it needs no copy and replaces an existing file in one step. Until then the
//! name keeps what it had; if writing is given up, the hidden file goes.
//! Standard output, devices and pipes are written directly, and so is a file
//! that is wanted in place, to be read while it grows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An output being written. Dropped unfinished, it leaves nothing behind.
pub struct WholeFile {
    file: File,
    /// The hidden name; nothing when the output is written directly.
    temporary: Option<PathBuf>,
}

impl WholeFile {
    /// Starts an output that will be called `path`; `-` is standard output.
    ///
    /// # Errors
    /// The system's, when it cannot be created.
    pub fn create(path: &Path, in_place: bool) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self { file, temporary: None });
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self { file, temporary: None });
            }
            _ => {}
        }
        if in_place {
            return Ok(Self { file: File::create(path)?, temporary: None });
        }
        let directory = directory(&destination(path));
        loop {
            let temporary = directory.join(hidden_name());
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => return Ok(Self { file, temporary: Some(temporary) }),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The hidden name that the file has so far, if it has one.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        self.temporary.as_deref()
    }

    /// Ends the output and gives it its name, which must be in the directory
    /// that [`WholeFile::create`] was given.
    ///
    /// # Errors
    /// The system's, when it cannot be renamed.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, destination(path))?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nobody is left to tell.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Where `path` leads: a link's target is replaced, not the link.
fn destination(path: &Path) -> PathBuf {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
        }
        _ => path.to_owned(),
    }
}

fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A name that no other output of this process gets.
fn hidden_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".forebay-{}-{n}.part", std::process::id())
}
