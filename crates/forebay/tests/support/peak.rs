//! The most memory that a run of the command held, as the kernel counted it (`ru_maxrss` of
//! getrusage(2)), in an address space that is limited.
//!
//! The kernel counts what a process held before execve(2), too: what the test held when it
//! made the process. Tests that measure run one after another, by [`alone`].

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::io::{self, PipeReader, Read as _, Write as _};
use std::mem::zeroed;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::command::command;

/// What a run came to.
#[derive(Debug)]
pub struct Measured {
    /// The arguments, for messages.
    pub arguments: String,
    /// Peak of resident memory, in KiB.
    pub kib: u64,
    /// The exit status.
    pub status: i32,
    /// Standard error.
    pub stderr: String,
}

impl Measured {
    /// Demands an exit status.
    #[track_caller]
    pub fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.arguments, self.stderr);
        self
    }

    /// Demands a peak of at most so many bytes.
    #[track_caller]
    pub fn within(self, bytes: u64) -> Self {
        println!("{}: {} KiB of {}", self.arguments, self.kib, bytes >> 10);
        assert!(self.kib << 10 <= bytes, "{}: {} KiB", self.arguments, self.kib);
        self
    }
}

/// Waits for other tests of the process. To be held as long as this one measures.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // One that has failed has ended, too.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the command with nothing on standard input. Standard output goes nowhere.
pub fn of(arguments: &[&str]) -> Measured {
    of_threads(arguments, processors())
}

/// The same with room in the address space for so many threads.
pub fn of_threads(arguments: &[&str], threads: usize) -> Measured {
    measured(command(arguments), arguments, threads, |_| Ok(()))
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Runs the command and writes to its standard input, as long as that is read.
pub fn of_piped(
    arguments: &[&str],
    write: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
) -> Measured {
    let mut command = command(arguments);
    command.stdin(Stdio::piped());
    measured(command, arguments, processors(), write)
}

#[allow(clippy::zombie_processes, reason = "`wait` waits for it, by its number")]
fn measured(
    mut command: Command,
    arguments: &[&str],
    threads: usize,
    write: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
) -> Measured {
    let (mut told, stderr) = io::pipe().unwrap();
    command.stdout(Stdio::null()).stderr(stderr);
    // A stack and a heap of its own for each worker, most of which is never touched.
    let most = (512 << 20) + threads as u64 * (160 << 20);
    // SAFETY: only a system call is made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            setrlimit(Resource::As, limit).map_err(io::Error::from)
        });
    }
    let mut child = command.spawn().unwrap();
    // With it goes our end of the pipe for errors.
    drop(command);
    let stdin = child.stdin.take();
    let (usage, status, stderr) = thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // It may end before it has read everything.
                let _ = write(&mut stdin).and_then(|()| stdin.flush());
            }
        });
        let stderr = scope.spawn(move || all(&mut told));
        let (usage, status) = wait(child.id());
        (usage, status, stderr.join().unwrap())
    });
    let arguments = arguments.join(" ");
    assert!(libc::WIFEXITED(status), "{arguments}: ended by status {status:#x}: {stderr}");
    assert!(!stderr.contains("panicked"), "{arguments}: {stderr}");
    let kib = u64::try_from(usage.ru_maxrss).unwrap();
    Measured { arguments, kib, status: libc::WEXITSTATUS(status), stderr }
}

fn all(pipe: &mut PipeReader) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end of a child of ours that nobody else waits for.
fn wait(child: u32) -> (libc::rusage, i32) {
    let mut status = 0;
    // SAFETY: `rusage` is numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { zeroed() };
    let child = libc::pid_t::try_from(child).unwrap();
    // SAFETY: both places are there for the call, which writes nowhere else.
    let waited = unsafe { libc::wait4(child, &raw mut status, 0, &raw mut usage) };
    assert_eq!(waited, child, "{}", io::Error::last_os_error());
    (usage, status)
}
