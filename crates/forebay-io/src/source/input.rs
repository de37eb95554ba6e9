//! Opens an input, and decompresses it if necessary.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Advice, fadvise};

use super::plain_file::{FromStart, PlainFile};
use crate::compression::Compression;
use crate::error::Error;

/// An opened input, not yet read.
pub(crate) struct Source {
    pub(super) name: String,
    pub(super) input: Input,
    pub(super) compression: Option<Compression>,
    pub(super) position: Arc<AtomicU64>,
    pub(super) total_len: Option<u64>,
    /// The largest window of zstd, in bytes.
    pub(super) window: u64,
}

/// An input, by access.
pub(super) enum Input {
    /// Random access.
    Plain(PlainFile),
    /// Sequential access.
    Stream {
        input: Box<dyn Read + Send>,
        /// Return the data of each read at once: the writer at the other end may pause.
        eager: bool,
        /// How a pending read is ended; `None` if no thread is to read.
        ending: Option<Ending>,
    },
}

/// Ends a pending read when the reader is dropped: by closing this pipe; without one the
/// read ends soon by itself, as reads of regular files do.
pub(super) struct Ending(pub(super) Option<PipeWriter>);

impl Source {
    /// Opens a file, or standard input for `-`.
    ///
    /// A wait for a pipe or terminal ends soon after one of `flags` is set. Windows of zstd
    /// have at most `window` bytes.
    pub(crate) fn open(
        path: &Path,
        flags: Vec<Arc<AtomicBool>>,
        window: u64,
    ) -> Result<Self, Error> {
        let stdin = path.as_os_str() == "-";
        let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
        let failed = |source| Error::Open { file: name.clone(), source };
        let file = if stdin {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        Self::of_file(file.map_err(failed)?, name, flags, window)
    }

    /// Reads an open file; a regular one from its present position, without changing it.
    pub(crate) fn of_file(
        mut file: File,
        name: String,
        flags: Vec<Arc<AtomicBool>>,
        window: u64,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Open { file: name.clone(), source };
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if metadata.is_file() {
            // A hint; without it reading is merely slower.
            let _ = fadvise(&file, 0, None, Advice::Sequential);
            let start = file.stream_position().map_err(failed)?;
            let file = PlainFile::new(file, start, metadata.len());
            let mut head = [0; 4];
            let (len, _) = file.read_block(&mut head, start);
            let left = metadata.len().saturating_sub(start);
            if Compression::of(&head[..len]).is_some() {
                let input = Box::new(FromStart { file, offset: start });
                return Self::sniff(input, name, Some(left), false, Some(Ending(None)), window);
            }
            return Ok(Self {
                name,
                input: Input::Plain(file),
                compression: None,
                position: Arc::default(),
                total_len: Some(left),
                window,
            });
        }
        let (stopped, stop_end) = io::pipe().map_err(failed)?;
        let input = Box::new(Interruptible { file, stopped, flags });
        Self::sniff(input, name, None, true, Some(Ending(Some(stop_end))), window)
    }

    /// Uses the caller's reader. It is not read by a thread, as a wait of it could not be
    /// ended.
    pub(crate) fn from_read(
        input: Box<dyn Read + Send>,
        name: String,
        window: u64,
    ) -> Result<Self, Error> {
        Self::sniff(input, name, None, true, None, window)
    }

    fn sniff(
        input: Box<dyn Read + Send>,
        name: String,
        total_len: Option<u64>,
        eager: bool,
        ending: Option<Ending>,
        window: u64,
    ) -> Result<Self, Error> {
        let position = Arc::new(AtomicU64::new(0));
        let mut input = Counted { input, position: Arc::clone(&position) };
        let mut head = Vec::with_capacity(4);
        input.by_ref().take(4).read_to_end(&mut head).map_err(|source| Error::Read {
            file: name.clone(),
            offset: 0,
            source,
        })?;
        let compression = Compression::of(&head);
        let whole = io::Cursor::new(head).chain(input);
        let input: Box<dyn Read + Send> = match compression {
            None => Box::new(whole),
            Some(compression) => compression
                .decoder(whole, window)
                .map_err(|source| Error::Open { file: name.clone(), source })?,
        };
        let input = Input::Stream { input, eager: eager && compression.is_none(), ending };
        Ok(Self { name, input, compression, position, total_len, window })
    }
}

/// Counts the bytes read.
struct Counted {
    input: Box<dyn Read + Send>,
    position: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buf)?;
        self.position.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A pipe or terminal whose pending read can be ended by another thread, by closing the far
/// end of `stopped`.
struct Interruptible {
    file: File,
    stopped: PipeReader,
    /// Also end it, polled periodically: a signal handler can only set a flag.
    flags: Vec<Arc<AtomicBool>>,
}

/// Interval of polling the flags.
const FLAG_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

impl Read for Interruptible {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready =
                [PollFd::new(&self.file, PollFlags::IN), PollFd::new(&self.stopped, PollFlags::IN)];
            match poll(&mut ready, Some(&FLAG_INTERVAL)) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let flagged = self.flags.iter().any(|flag| flag.load(Ordering::Relaxed));
            if flagged || !ready[1].revents().is_empty() {
                return Err(io::Error::other("reading was stopped"));
            }
            if !ready[0].revents().is_empty() {
                return self.file.read(buf);
            }
        }
    }
}
