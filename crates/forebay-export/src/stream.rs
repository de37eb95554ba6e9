//! Records to a program that reads them as they come: over a FIFO, a Unix socket, or standard
//! output.
//!
//! A record is written when the kernel has accepted all its bytes. While the reader takes nothing,
//! a write waits, so records wait where they come from. Without a reader, records that are given
//! are lost, and the next attempt begins anew. A CSV stream begins with its heading for each reader.
//! FIFOs and sockets are opened without waiting (fifo(7), unix(7)).

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::lines::{write_csv, write_csv_heading, write_json};
use crate::row::Row;

/// Bytes that are collected before they are written.
const GATHERED: usize = 64 << 10;

/// Bytes that a pipe takes at once when it can be written to (PIPE_BUF, pipe(7)).
const PIPE_BUF: usize = 4096;

/// Time between two calls of [`Waiting`].
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Called ten times a second while the reader takes nothing. Returns whether to give up.
pub type Waiting = Box<dyn FnMut() -> bool + Send>;

/// A format that can be read while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// A JSON object on a line for each record.
    JsonLines,
}

/// Where a stream of records goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamTarget {
    /// A FIFO that another program has made.
    Fifo(PathBuf),
    /// A Unix socket (stream) at which another program listens.
    Socket(PathBuf),
    /// Standard output.
    Stdout,
}

/// A stream of a broker's records.
pub struct RecordStream {
    target: StreamTarget,
    format: LineFormat,
    waiting: Waiting,
    stream: Option<OwnedFd>,
    /// Lines, and how many of their bytes are written.
    buffer: Vec<u8>,
    sent: usize,
    /// Where each record that is not written ends in the buffer.
    ends: VecDeque<usize>,
    written: u64,
    connections: u64,
}

impl RecordStream {
    /// Bytes that are collected at most, with room to grow.
    pub const MEMORY_BYTES: u64 = 4 * GATHERED as u64;

    /// A stream of lines that is opened by [`RecordStream::open`], or by the first record.
    #[must_use]
    pub fn new(target: StreamTarget, format: LineFormat, waiting: Waiting) -> Self {
        Self {
            target,
            format,
            waiting,
            stream: None,
            buffer: Vec::new(),
            sent: 0,
            ends: VecDeque::new(),
            written: 0,
            connections: 0,
        }
    }

    /// Whether an error says that nobody reads the stream.
    #[must_use]
    pub fn is_without_reader(error: &io::Error) -> bool {
        matches!(
            error.kind(),
            ErrorKind::NotFound
                | ErrorKind::NotConnected
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::BrokenPipe
        )
    }

    /// Opens the stream, if it is not open.
    ///
    /// # Errors
    /// The system's; [`RecordStream::is_without_reader`] for those that a reader ends.
    pub fn open(&mut self) -> io::Result<()> {
        if self.stream.is_some() {
            return Ok(());
        }
        self.stream = Some(match &self.target {
            StreamTarget::Fifo(path) => open_fifo(path)?,
            StreamTarget::Socket(path) => connect(path)?,
            StreamTarget::Stdout => io::stdout().as_fd().try_clone_to_owned()?,
        });
        self.connections += 1;
        if self.format == LineFormat::Csv {
            write_csv_heading(&mut self.buffer, true)?;
        }
        Ok(())
    }

    /// Writes a record with its origin, or collects it.
    ///
    /// # Errors
    /// As [`RecordStream::open`], and `TimedOut` if waiting was given up. Records that are lost by
    /// it are no longer among [`RecordStream::held`].
    pub fn write(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.open()?;
        match self.format {
            LineFormat::Csv => write_csv(&mut self.buffer, row)?,
            LineFormat::JsonLines => write_json(&mut self.buffer, row)?,
        }
        self.ends.push_back(self.buffer.len());
        if self.buffer.len() < GATHERED { Ok(()) } else { self.pass_on() }
    }

    /// Writes what is collected. Without that, notices that the reader has gone.
    ///
    /// # Errors
    /// As [`RecordStream::write`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.open()?;
        self.pass_on()
    }

    /// Writes collected bytes, and closes the stream if that fails.
    fn pass_on(&mut self) -> io::Result<()> {
        let passed = self.pass_bytes_on();
        while self.ends.front().is_some_and(|&end| end <= self.sent) {
            self.ends.pop_front();
            self.written += 1;
        }
        if passed.is_err() {
            self.stream = None;
            self.ends.clear();
        }
        self.buffer.clear();
        self.sent = 0;
        passed
    }

    fn pass_bytes_on(&mut self) -> io::Result<()> {
        let Self { target, waiting, stream: Some(stream), buffer, sent, .. } = self else {
            return Ok(());
        };
        let stream = stream.as_fd();
        if buffer.is_empty() && has_hung_up(stream)? {
            return Err(ErrorKind::BrokenPipe.into());
        }
        while *sent < buffer.len() {
            let mut polled = [PollFd::from_borrowed_fd(stream, PollFlags::OUT)];
            match poll(&mut polled, Some(&PATIENCE)) {
                Ok(0) if waiting() => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "the reader takes nothing"));
                }
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let rest = &buffer[*sent..];
            let taken = match target {
                StreamTarget::Socket(_) => rustix::net::send(stream, rest, SendFlags::NOSIGNAL),
                StreamTarget::Fifo(_) => rustix::io::write(stream, rest),
                // Its descriptor is shared, so it waits unless there is room.
                StreamTarget::Stdout => {
                    rustix::io::write(stream, &rest[..rest.len().min(PIPE_BUF)])
                }
            };
            match taken {
                Ok(taken) => *sent += taken,
                // A pipe may have less room than a whole record takes.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Records that the kernel has accepted.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Records that are collected.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.ends.len() as u64
    }

    /// How many times the stream was opened.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections
    }

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }
}

/// Whether the reader has closed its end.
fn has_hung_up(stream: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(stream, PollFlags::empty())];
    match poll(&mut polled, Some(&Timespec::default())) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

/// Opens a FIFO that has a reader.
fn open_fifo(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fifo = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NXIO) => {
            return Err(io::Error::new(ErrorKind::NotConnected, "no program reads it"));
        }
        opened => opened?,
    };
    if FileType::from_raw_mode(rustix::fs::fstat(&fifo)?.st_mode) != FileType::Fifo {
        let what = "it is no FIFO: expected one that mkfifo(1) has made";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(fifo)
}

/// Connects to a Unix socket.
fn connect(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(socket),
        Err(Errno::AGAIN) => {
            let what = "its listener accepts no connection";
            Err(io::Error::new(ErrorKind::NotConnected, what))
        }
        Err(error) => Err(error.into()),
    }
}
