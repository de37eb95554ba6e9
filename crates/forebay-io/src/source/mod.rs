//! The bytes of a capture: from a file, a pipe or standard input, decompressed if
//! necessary.
//!
//! Compression is detected from the first bytes, never from the name: gzip (RFC 1952
//! section 2.3.1) and zstd (RFC 8878 sections 3.1.1 and 3.1.2, including skippable frames),
//! both with any number of members or frames.

mod read_ahead;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, PipeReader, PipeWriter, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Advice, fadvise};

pub(crate) use read_ahead::{Filled, Piece, ReadAhead, RegionPool};

use crate::error::Error;

/// Compressed bytes read at a time.
const COMPRESSED_PIECE: usize = 256 << 10;

/// The compression of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// The compression indicated by the first four bytes of an input.
    fn of(head: &[u8]) -> Option<Self> {
        match *head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// An opened input, not yet read.
pub(crate) struct Source {
    pub(crate) name: String,
    input: Input,
    compression: Option<Compression>,
    position: Arc<AtomicU64>,
    total_len: Option<u64>,
    /// The largest window of zstd, in bytes.
    window: u64,
}

/// An input, by access.
enum Input {
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
struct Ending(Option<PipeWriter>);

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
            let file = PlainFile { file: Arc::new(file), start, opened_len: metadata.len() };
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
        let buffered = |whole| BufReader::with_capacity(COMPRESSED_PIECE, whole);
        let input: Box<dyn Read + Send> = match compression {
            None => Box::new(whole),
            Some(Compression::Gzip) => {
                Box::new(flate2::bufread::MultiGzDecoder::new(buffered(whole)))
            }
            Some(Compression::Zstd) => Box::new(
                zstd_decoder(buffered(whole), window)
                    .map_err(|source| Error::Open { file: name.clone(), source })?,
            ),
        };
        let input = Input::Stream { input, eager: eager && compression.is_none(), ending };
        Ok(Self { name, input, compression, position, total_len, window })
    }
}

/// Decompresses zstd with windows of at most `window` bytes, rounded down to a power of two.
fn zstd_decoder<R: io::BufRead>(
    input: R,
    window: u64,
) -> io::Result<zstd::stream::read::Decoder<'static, R>> {
    /// The range of libzstd (ZSTD_WINDOWLOG_ABSOLUTEMIN, ZSTD_WINDOWLOG_MAX_64 of zstd.h).
    const LOGS: std::ops::RangeInclusive<u32> = 10..=31;
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    let log = window.checked_ilog2().unwrap_or(0);
    decoder.window_log_max(log.clamp(*LOGS.start(), *LOGS.end()))?;
    Ok(decoder)
}

/// Whether decompressing failed because a frame needs a larger window.
fn is_large_window(error: &io::Error) -> bool {
    /// ZSTD_error_frameParameter_windowTooLarge of zstd_errors.h, which is stable.
    const TOO_LARGE: usize = 16;
    let name = zstd::zstd_safe::get_error_name(TOO_LARGE.wrapping_neg());
    error.get_ref().is_some_and(|inner| inner.to_string() == name)
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

/// A regular file, read at any offset, by several threads if necessary. Reports a file that
/// ends before its known length.
#[derive(Clone)]
pub(crate) struct PlainFile {
    file: Arc<File>,
    /// Start of the capture: standard input may have been read before.
    start: u64,
    opened_len: u64,
}

impl PlainFile {
    /// Offset of the capture in the file.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Fills `block` with the bytes at `offset`. Returns their number and, if the file ends
    /// before the block does, how it ends.
    pub(crate) fn read_block(&self, block: &mut [u8], offset: u64) -> (usize, Option<Filled>) {
        let mut len = 0;
        while len < block.len() {
            match self.file.read_at(&mut block[len..], offset + len as u64) {
                Ok(0) => return (len, Some(self.end_at(offset + len as u64))),
                Ok(n) => len += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (len, Some(Filled::Failed(error))),
            }
        }
        (len, None)
    }

    fn end_at(&self, offset: u64) -> Filled {
        let Some(lost) = self.opened_len.checked_sub(offset).filter(|&lost| lost > 0) else {
            return Filled::End;
        };
        Filled::Failed(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "the file had {} bytes when it was opened and lost {lost} since",
                self.opened_len
            ),
        ))
    }
}

/// A regular file read sequentially.
struct FromStart {
    file: PlainFile,
    offset: u64,
}

impl Read for FromStart {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (len, last) = self.file.read_block(buf, self.offset);
        self.offset += len as u64;
        match last {
            Some(Filled::Failed(error)) if len == 0 => Err(error),
            _ => Ok(len),
        }
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
