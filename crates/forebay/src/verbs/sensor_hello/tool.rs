//! The sensor's program: hellos are sent only while it runs.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::cli::SensorHelloArgs;
use crate::failure::Failure;

/// The program of a sensor.
pub enum Tool {
    /// Not known; supervised elsewhere.
    Unknown,
    /// An existing process.
    Process {
        /// Its number.
        id: i32,
        /// Readable when it has ended.
        descriptor: OwnedFd,
    },
    /// A program started here.
    Child {
        /// The program's name.
        name: String,
        /// The process.
        child: Child,
        /// Readable when it has ended.
        descriptor: OwnedFd,
    },
}

impl Tool {
    /// The program of the command line, started if it is a command.
    pub fn of(args: &SensorHelloArgs) -> Result<Self, Failure> {
        if let Some((name, words)) = args.command.split_first() {
            let name = name.to_string_lossy().into_owned();
            let failed = |source| Failure::File { doing: "run", file: name.clone(), source };
            let child = Command::new(&args.command[0]).args(words).spawn().map_err(failed)?;
            let descriptor =
                watch(Pid::from_child(&child)).map_err(|error| failed(error.into()))?;
            return Ok(Self::Child { name, child, descriptor });
        }
        let Some(id) = args.pid else { return Ok(Self::Unknown) };
        let pid = (id > 0).then(|| Pid::from_raw(id)).flatten();
        let pid =
            pid.ok_or_else(|| Failure::Usage(format!("{id} is no process: expected 1 up")))?;
        let descriptor = watch(pid)
            .map_err(|error| Failure::Live(format!("cannot watch process {id}: {error}")))?;
        Ok(Self::Process { id, descriptor })
    }

    /// Readable when the program has ended.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Unknown => None,
            Self::Process { descriptor, .. } | Self::Child { descriptor, .. } => {
                Some(descriptor.as_fd())
            }
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(descriptor) = self.descriptor() else { return false };
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut polled, Some(&now)), Ok(1..))
    }

    /// The result of the program: a failure, unless it was started here and exited
    /// successfully.
    pub fn outcome(self) -> Result<(), Failure> {
        match self {
            Self::Unknown => Ok(()),
            Self::Process { id, .. } => Err(Failure::Live(format!("process {id} has ended"))),
            Self::Child { name, mut child, .. } => match child.wait() {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(Failure::Live(format!("{name} has ended: {status}"))),
                Err(source) => Err(Failure::File { doing: "wait for", file: name, source }),
            },
        }
    }

    /// Terminates a program that was started here, after a signal.
    pub fn end(self) -> Result<(), Failure> {
        let Self::Child { name, mut child, .. } = self else { return Ok(()) };
        // It may have received the signal too, and be gone.
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        child.wait().map(drop).map_err(|source| Failure::File {
            doing: "wait for",
            file: name,
            source,
        })
    }
}

fn watch(pid: Pid) -> rustix::io::Result<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty())
}
