//! The device as a program: a scanner for other processes, over shared memory.
//!
//! Each client has a thread. Clients are trusted no more than a client trusts a device: what they
//! wrote is copied once, checked, and then used.

pub(super) mod session;

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::protocol::{Answer, Hello, REGIONS, SetIdentity, VERSION, Welcome};
use super::socket::{Socket, accept, listen_at, wait};
use crate::scanner::Scanner;
use session::Served;

/// How often a thread that waits checks whether it must end.
const CHECK: Duration = Duration::from_millis(100);

/// Time from the connection of a client to its hello.
const HELLO_TIME: Duration = Duration::from_secs(1);

/// What a device accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Clients at a time.
    pub clients: usize,
    /// Bytes of shared memory of a client.
    pub client_bytes: u64,
    /// Time for which a thread polls for the next batch before it waits.
    pub spin: Duration,
}

impl Default for DeviceLimits {
    fn default() -> Self {
        Self { clients: 16, client_bytes: 64 << 20, spin: Duration::ZERO }
    }
}

/// Why a device does not run.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The socket cannot be made.
    #[error("{path}: cannot listen: {source}")]
    Listen {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file is there, or another program listens.
    #[error("{0}: expected a path that is free; a file is there, or another program listens")]
    InUse(PathBuf),
    /// The system fails while the device runs.
    #[error("{path}: {source}")]
    Run {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// What a device has done so far.
#[derive(Debug, Default)]
pub(crate) struct Work {
    clients: AtomicU64,
    batches: AtomicU64,
    bytes: AtomicU64,
}

/// A device that scans for clients.
pub struct Device {
    path: PathBuf,
    listener: OwnedFd,
    scanner: Arc<Scanner>,
    set: SetIdentity,
    limits: DeviceLimits,
    work: Work,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("path", &self.path)
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}

impl Device {
    /// Listens at a path. The socket that a killed device left there is replaced.
    ///
    /// # Errors
    /// The socket cannot be made, or another device listens there.
    pub fn listen(
        path: &Path,
        scanner: Arc<Scanner>,
        set: SetIdentity,
        limits: DeviceLimits,
    ) -> Result<Self, DeviceError> {
        let failed = |source| DeviceError::Listen { path: path.to_owned(), source };
        let listener = match listen_at(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let is_socket =
                    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
                let is_left = is_socket
                    && Socket::connect(path)
                        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
                if !is_left {
                    return Err(DeviceError::InUse(path.to_owned()));
                }
                fs::remove_file(path).and_then(|()| listen_at(path))
            }
            result => result,
        };
        let listener = listener.map_err(failed)?;
        Ok(Self { path: path.to_owned(), listener, scanner, set, limits, work: Work::default() })
    }

    /// Serves clients until `stop` is set.
    ///
    /// If files, memory or threads are short, further clients wait.
    ///
    /// # Errors
    /// The system refuses to accept connections for another reason.
    pub fn run(&self, stop: &AtomicBool) -> Result<(), DeviceError> {
        let failed = |source| DeviceError::Run { path: self.path.clone(), source };
        let (active, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let stopped = || stop.load(Ordering::Relaxed) || has_failed.load(Ordering::Relaxed);
        thread::scope(|scope| {
            while !stopped() {
                match self.admit(scope, &active, &stopped) {
                    Err(error) if is_shortage(&error) => thread::sleep(CHECK),
                    Err(error) => {
                        // The scope waits for the threads of the clients.
                        has_failed.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                    Ok(()) => {}
                }
            }
            Ok(())
        })
        .map_err(failed)
    }

    /// Waits for a client for some time, and serves it in a thread.
    fn admit<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        active: &'scope AtomicU64,
        stopped: &'scope (impl Fn() -> bool + Sync),
    ) -> io::Result<()> {
        wait(self.listener.as_fd(), CHECK)?;
        let Some(socket) = accept(self.listener.as_fd())? else { return Ok(()) };
        let has_room = (active.load(Ordering::Relaxed) as usize) < self.limits.clients;
        if !has_room {
            // The client tries again later.
            let _ = socket.send(&self.welcome(0, Answer::Busy).encode(), &[]);
            return Ok(());
        }
        active.fetch_add(1, Ordering::Relaxed);
        let thread =
            thread::Builder::new().name("client".to_owned()).spawn_scoped(scope, move || {
                // A client that is gone has no use for the reason.
                let _ = self.serve(&socket, stopped);
                active.fetch_sub(1, Ordering::Relaxed);
            });
        if thread.is_err() {
            active.fetch_sub(1, Ordering::Relaxed);
        }
        thread.map(drop)
    }

    /// Clients that were served, batches and bytes that were scanned.
    #[must_use]
    pub fn work(&self) -> [u64; 3] {
        let Work { clients, batches, bytes } = &self.work;
        [clients, batches, bytes].map(|count| count.load(Ordering::Relaxed))
    }

    fn welcome(&self, generation: u32, answer: Answer) -> Welcome {
        Welcome { version: VERSION, generation, answer: Some(answer), set: self.set }
    }

    /// Serves a client until it is gone, breaks the protocol, or the device is stopped.
    fn serve(&self, socket: &Socket, stopped: &dyn Fn() -> bool) -> io::Result<()> {
        let Some((hello, files)) = self.hello(socket, stopped)? else { return Ok(()) };
        let generation = hello.generation;
        let served = self.check(&hello, &files);
        let answer = served.as_ref().err().copied().unwrap_or(Answer::Accepted);
        socket.send(&self.welcome(generation, answer).encode(), &[])?;
        let Ok(mut served) = served else { return Ok(()) };
        drop(files);
        self.work.clients.fetch_add(1, Ordering::Relaxed);
        let mut idle_since = None;
        while !stopped() {
            if served.step(&self.work)? {
                if served.client_sleeps() {
                    socket.wake()?;
                }
                idle_since = None;
                continue;
            }
            if !self.limits.spin.is_zero()
                && idle_since.get_or_insert_with(Instant::now).elapsed() < self.limits.spin
            {
                std::hint::spin_loop();
                continue;
            }
            if !served.set_asleep(true) {
                socket.wait(CHECK)?;
            }
            served.set_asleep(false);
            socket.take_wake_ups()?;
        }
        Ok(())
    }

    /// The first message of a client; none if it does not come in time.
    fn hello(
        &self,
        socket: &Socket,
        stopped: &dyn Fn() -> bool,
    ) -> io::Result<Option<(Hello, Vec<OwnedFd>)>> {
        let connected = Instant::now();
        while connected.elapsed() < HELLO_TIME && !stopped() {
            socket.wait(CHECK)?;
            if let Some(received) = socket.receive()? {
                let hello = Hello::decode(&received.bytes[..received.len]);
                return Ok(hello.map(|hello| (hello, received.files)));
            }
        }
        Ok(None)
    }

    /// Maps the memory of a client.
    fn check(&self, hello: &Hello, files: &[OwnedFd]) -> Result<Served, Answer> {
        if hello.version != VERSION {
            return Err(Answer::Version);
        }
        if hello.set != self.set {
            return Err(Answer::Set);
        }
        let is_valid = hello.layout.is_valid() && hello.layout.bytes() <= self.limits.client_bytes;
        let files: &[OwnedFd; REGIONS] = files.try_into().map_err(|_| Answer::Layout)?;
        if !is_valid {
            return Err(Answer::Layout);
        }
        Served::map(hello, files, Arc::clone(&self.scanner)).map_err(|_| Answer::Layout)
    }
}

/// Whether something is short that may be there again later.
fn is_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|error| short.contains(&error))
}

impl Drop for Device {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = fs::remove_file(&self.path);
    }
}
