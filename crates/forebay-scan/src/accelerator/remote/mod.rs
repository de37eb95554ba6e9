//! The accelerator in another process or machine part: a [`Device`](super::Device) over shared
//! memory.
//!
//! The client connects, and connects again after a session has ended, within polls: neither waits.
//! Each session has memory of its own, so a device that is late in an ended session writes to
//! memory that is not used any more.

mod client;
mod session;
mod simulated;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::probe::Probes;
use super::protocol::{Answer, Hello, Layout, SetIdentity, VERSION, Welcome};
use super::socket::Socket;
use super::{Accelerator, BatchLimits, Cause, Completion, LimitError, Refused, Ticket};
use crate::literal::LiteralSet;
use client::Client;
use session::Session;
pub use simulated::Simulated;

/// How a client uses a device.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The socket of the device.
    pub socket: PathBuf,
    /// The batches.
    pub limits: BatchLimits,
    /// Nanoseconds without an answer, after a batch was late, until the session ends; also the time
    /// limit of the handshake.
    pub patience: u64,
    /// Nanoseconds from the end of a session, or a failed attempt, to the next attempt.
    pub retry: u64,
}

impl RemoteOptions {
    /// The defaults, for a device at a path: 100 ms of patience, attempts every 200 ms.
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        let limits = BatchLimits::default();
        Self { socket, limits, patience: 100_000_000, retry: 200_000_000 }
    }
}

/// Why a device is not used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A limit of batches is out of range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// All batches together need too much memory.
    #[error("batches in flight need {0} bytes of shared memory; at most 1 GiB is possible")]
    Memory(u64),
    /// There is no connection.
    #[error("{path}: cannot connect to the device: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The device's first message is not valid, or it ended the connection.
    #[error("{path}: expected an answer of a device of version {VERSION}")]
    NoDevice {
        /// The socket.
        path: PathBuf,
    },
    /// The device refuses the client.
    #[error("{path}: the device refuses this client: {answer:?}")]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Its answer.
        answer: Answer,
    },
    /// The device has other literals.
    #[error("{path}: the device has {found} literals, and not the {expected} of this client")]
    OtherSet {
        /// The socket.
        path: PathBuf,
        /// The client's literals.
        expected: u32,
        /// The device's.
        found: u32,
    },
    /// A session has ended.
    #[error("{path}: the session with the device has ended: {cause}")]
    Ended {
        /// The socket.
        path: PathBuf,
        /// Why.
        cause: Cause,
    },
}

#[derive(Debug)]
enum Link {
    /// No device; the time of the next attempt.
    Down(u64),
    /// The hello is sent; the time limit of the answer.
    Greeting { socket: Socket, session: Box<Session>, generation: u32, until: u64 },
    /// A session.
    Up(Socket),
}

/// An [`Accelerator`] that is a device of another process.
#[derive(Debug)]
pub struct Remote {
    options: RemoteOptions,
    set: SetIdentity,
    layout: Layout,
    client: Client,
    link: Link,
    generation: u32,
    trouble: Option<RemoteError>,
    /// Whether the last submission could not wake the device.
    is_gone: bool,
}

impl Remote {
    /// A client of the device that has `set`. It connects at the next poll.
    ///
    /// # Errors
    /// A limit is out of range.
    pub fn new(options: RemoteOptions, set: &LiteralSet) -> Result<Self, RemoteError> {
        options.limits.check()?;
        let probes = Probes::new(set);
        let layout = Layout::new(&options.limits, probes.longest());
        if !layout.is_valid() {
            return Err(RemoteError::Memory(layout.bytes()));
        }
        Ok(Self {
            client: Client::new(options.limits, options.patience, probes),
            options,
            set: SetIdentity::of(set),
            layout,
            link: Link::Down(0),
            generation: 0,
            trouble: None,
            is_gone: false,
        })
    }

    /// Whether a device accepts batches.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// Why the last session ended or the last attempt failed; none if there is nothing new.
    pub fn take_trouble(&mut self) -> Option<RemoteError> {
        self.trouble.take()
    }

    /// The number of attempts to start a session so far.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Ends the session and starts another one: what is in flight may match.
    pub fn reset(&mut self, now: u64) {
        self.end(now, Cause::Reset);
    }

    fn end(&mut self, now: u64, cause: Cause) {
        self.client.end(cause);
        let path = self.options.socket.clone();
        self.fail(now, RemoteError::Ended { path, cause });
    }

    fn fail(&mut self, now: u64, error: RemoteError) {
        self.link = Link::Down(now.saturating_add(self.options.retry));
        self.trouble = Some(error);
        self.is_gone = false;
    }

    /// Sends a hello.
    fn greet(&mut self, now: u64) -> io::Result<Link> {
        let socket = Socket::connect(&self.options.socket)?;
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let seed = RandomState::new().hash_one(generation);
        let (session, files) =
            Session::create(&self.options.limits, self.layout, generation, self.set, seed)?;
        let hello = Hello { version: VERSION, generation, layout: self.layout, set: self.set };
        socket.send(&hello.encode(), &files.each_ref().map(|file| file.as_fd()))?;
        let until = now.saturating_add(self.options.patience);
        Ok(Link::Greeting { socket, session: Box::new(session), generation, until })
    }

    /// Reads the answer to a hello; none if there is none yet.
    fn answer(&self, socket: &Socket, generation: u32) -> Result<Option<()>, RemoteError> {
        let path = || self.options.socket.clone();
        let received = socket.receive().map_err(|_| RemoteError::NoDevice { path: path() })?;
        let Some(received) = received else { return Ok(None) };
        let welcome = Welcome::decode(&received.bytes[..received.len]);
        let welcome = welcome.ok_or_else(|| RemoteError::NoDevice { path: path() })?;
        match welcome.answer {
            Some(Answer::Accepted)
                if welcome.version == VERSION
                    && welcome.generation == generation
                    && welcome.set == self.set =>
            {
                Ok(Some(()))
            }
            Some(Answer::Set) => Err(RemoteError::OtherSet {
                path: path(),
                expected: self.set.literals,
                found: welcome.set.literals,
            }),
            Some(Answer::Accepted) | None => Err(RemoteError::NoDevice { path: path() }),
            Some(answer) => Err(RemoteError::Refused { path: path(), answer }),
        }
    }

    /// Moves the connection on, without waiting.
    fn step(&mut self, now: u64) {
        match std::mem::replace(&mut self.link, Link::Down(u64::MAX)) {
            Link::Down(at) if at <= now => match self.greet(now) {
                Ok(link) => self.link = link,
                Err(source) => {
                    let path = self.options.socket.clone();
                    self.fail(now, RemoteError::Connect { path, source });
                }
            },
            Link::Greeting { socket, session, generation, until } => {
                match self.answer(&socket, generation) {
                    Ok(Some(())) => {
                        self.client.start(*session);
                        self.link = Link::Up(socket);
                    }
                    Ok(None) if now < until => {
                        self.link = Link::Greeting { socket, session, generation, until };
                    }
                    Ok(None) => {
                        let path = self.options.socket.clone();
                        self.fail(now, RemoteError::NoDevice { path });
                    }
                    Err(error) => self.fail(now, error),
                }
            }
            Link::Up(socket) => {
                let is_gone = self.is_gone || socket.take_wake_ups().is_err();
                self.link = Link::Up(socket);
                if is_gone {
                    self.end(now, Cause::Reset);
                }
            }
            link => self.link = link,
        }
    }
}

impl Accelerator for Remote {
    fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused> {
        self.client.push(parts)
    }

    fn submit(&mut self, now: u64) -> Option<Ticket> {
        let (ticket, must_wake) = self.client.submit(now)?;
        if must_wake && let Link::Up(socket) = &self.link {
            self.is_gone |= socket.wake().is_err();
        }
        Some(ticket)
    }

    fn poll(&mut self, now: u64, completed: &mut Vec<Completion>) {
        let before = completed.len();
        let trouble = self.client.poll(now, completed);
        if let Some(cause) = trouble {
            self.end(now, cause);
        } else if completed.len() == before {
            // What was completed before the device went is taken before that is noticed.
            self.step(now);
            if !self.is_connected() {
                self.client.poll(now, completed);
            }
        }
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        match &self.link {
            Link::Down(_) if !self.client.is_ready() => thread::sleep(limit),
            Link::Down(_) => {}
            Link::Greeting { socket, .. } => socket.wait(limit)?,
            Link::Up(socket) => {
                if self.client.is_ready() {
                    return Ok(());
                }
                let Some(session) = self.client.session() else { return Ok(()) };
                let waited = if session.set_asleep(true) { Ok(()) } else { socket.wait(limit) };
                session.set_asleep(false);
                waited?;
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.client.in_flight()
    }
}
