//! Peers that are commands: run, timed from start to end, their memory watched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{BenchError, io_error};

/// A command line.
#[derive(Clone, Debug)]
pub struct CommandLine {
    program: PathBuf,
    arguments: Vec<String>,
}

impl CommandLine {
    /// `program` with `arguments`.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { program: program.into(), arguments }
    }

    fn spawn(&self) -> Result<Child, BenchError> {
        Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io_error(format!("starting {}", self.program.display())))
    }

    /// Runs it. Returns the time it took and what it wrote to standard output.
    pub fn time(&self) -> Result<(Duration, String), BenchError> {
        let started = Instant::now();
        let child = self.spawn()?;
        let answer = self.answer_of(child)?;
        Ok((started.elapsed(), answer))
    }

    /// Runs it for at most `limit`. Returns what it wrote to standard output, which must
    /// be little; nothing if it was ended before it was done.
    pub fn answer_within(&self, limit: Duration) -> Result<Option<String>, BenchError> {
        let mut child = self.spawn()?;
        let started = Instant::now();
        while child.try_wait().map_err(io_error("waiting"))?.is_none() {
            if started.elapsed() > limit {
                child.kill().map_err(io_error("ending a process"))?;
                child.wait().map_err(io_error("waiting"))?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.answer_of(child).map(Some)
    }

    /// What a process that ends well wrote to standard output.
    fn answer_of(&self, child: Child) -> Result<String, BenchError> {
        let output = child.wait_with_output().map_err(io_error("waiting"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(BenchError::Command {
            command: format!("{} {}", self.program.display(), self.arguments.join(" ")),
            message: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it, not timed, and returns the most memory it had resident, in bytes.
    pub fn peak_memory(&self) -> Result<u64, BenchError> {
        let mut child = self.spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait().map_err(io_error("waiting"))?.is_none() {
            peak = peak.max(high_water(Path::new(&status)).unwrap_or(0));
            thread::sleep(Duration::from_millis(2));
        }
        Ok(peak)
    }
}

/// The most memory that this process has had resident, in bytes.
pub fn own_high_water() -> Option<u64> {
    high_water(Path::new("/proc/self/status"))
}

/// Has [`own_high_water`] start again from what is resident now.
pub fn restart_high_water() -> std::io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// The kernel's own high-water mark, so that looking now and then is enough.
fn high_water(status: &Path) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Where a command is, if it is installed.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/bin")])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
