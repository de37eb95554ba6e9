//! Where the bytes of a capture come from: a file, a pipe or standard input,
//! decompressed if need be.
//!
//! Compression is told from the first bytes, never from the name: gzip
//! (RFC 1952 section 2.3.1) and zstd (RFC 8878 sections 3.1.1 and 3.1.2,
//! skippable frames included), both with any number of members or frames.

mod read_ahead;

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, PipeReader, PipeWriter, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Advice, fadvise};

pub(crate) use read_ahead::ReadAhead;

use crate::error::Error;

/// Compressed bytes read at a time.
const COMPRESSED_PIECE: usize = 256 << 10;

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// An opened input, not yet read ahead.
pub(crate) struct Source {
    pub(crate) name: String,
    input: Box<dyn Read + Send>,
    compression: Option<Compression>,
    /// Give out what each read brings: the writer at the other end may pause.
    eager: bool,
    position: Arc<AtomicU64>,
    total_len: Option<u64>,
    ending: Ending,
}

/// How a read in progress ends when the reader is dropped.
enum Ending {
    /// By itself, soon: regular files.
    Soon,
    /// By closing this pipe.
    Stop(PipeWriter),
    /// Nobody knows: the caller's own reader is left to its fate.
    Unknown,
}

impl Source {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let stdin = path.as_os_str() == "-";
        let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
        let failed = |source| Error::Open { file: name.clone(), source };
        let file = if stdin {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        let mut file = file.map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if metadata.is_file() {
            // A hint; where it is not heeded, reading is merely slower.
            let _ = fadvise(&file, 0, None, Advice::Sequential);
            let at = file.stream_position().map_err(failed)?;
            let left = metadata.len().saturating_sub(at);
            let input = Box::new(RegularFile { file, opened_len: metadata.len(), left });
            return Self::sniff(input, name, Some(left), false, Ending::Soon);
        }
        let (stopped, stop) = io::pipe().map_err(failed)?;
        let input = Box::new(Interruptible { file, stopped });
        Self::sniff(input, name, None, true, Ending::Stop(stop))
    }

    /// Takes the caller's own reader.
    pub(crate) fn from_read(input: Box<dyn Read + Send>, name: String) -> Result<Self, Error> {
        Self::sniff(input, name, None, true, Ending::Unknown)
    }

    fn sniff(
        input: Box<dyn Read + Send>,
        name: String,
        total_len: Option<u64>,
        eager: bool,
        ending: Ending,
    ) -> Result<Self, Error> {
        let position = Arc::new(AtomicU64::new(0));
        let mut input = Counted { input, position: Arc::clone(&position) };
        let mut head = Vec::with_capacity(4);
        input.by_ref().take(4).read_to_end(&mut head).map_err(|source| Error::Read {
            file: name.clone(),
            offset: 0,
            source,
        })?;
        let compression = match *head {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Compression::Zstd),
            _ => None,
        };
        let whole = io::Cursor::new(head).chain(input);
        let buffered = |whole| BufReader::with_capacity(COMPRESSED_PIECE, whole);
        let input: Box<dyn Read + Send> = match compression {
            None => Box::new(whole),
            Some(Compression::Gzip) => {
                Box::new(flate2::bufread::MultiGzDecoder::new(buffered(whole)))
            }
            Some(Compression::Zstd) => Box::new(
                zstd::stream::read::Decoder::with_buffer(buffered(whole))
                    .map_err(|source| Error::Open { file: name.clone(), source })?,
            ),
        };
        let eager = eager && compression.is_none();
        Ok(Self { name, input, compression, eager, position, total_len, ending })
    }
}

/// Counts what is read.
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

/// A file that says so when it ends before it should.
struct RegularFile {
    file: File,
    opened_len: u64,
    /// Bytes still expected.
    left: u64,
}

impl Read for RegularFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buf)?;
        self.left = self.left.saturating_sub(n as u64);
        if n == 0 && self.left > 0 && !buf.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "the file had {} bytes when it was opened and lost {} since",
                    self.opened_len, self.left
                ),
            ));
        }
        Ok(n)
    }
}

/// A pipe or terminal whose pending read another thread can end, by closing
/// the far end of `stopped`.
struct Interruptible {
    file: File,
    stopped: PipeReader,
}

impl Read for Interruptible {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready =
                [PollFd::new(&self.file, PollFlags::IN), PollFd::new(&self.stopped, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            if !ready[1].revents().is_empty() {
                return Err(io::Error::other("reading was stopped"));
            }
            if !ready[0].revents().is_empty() {
                return self.file.read(buf);
            }
        }
    }
}
