//! Commands: peers, compilers and this program itself, run to their end.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::failure::{During, Result};

/// Time between two looks at whether a command has ended.
const POLL: Duration = Duration::from_millis(2);

/// A command line, and standard input.
#[derive(Clone, Debug)]
pub struct CommandLine {
    program: PathBuf,
    arguments: Vec<String>,
    input: String,
}

impl CommandLine {
    pub fn new<A: AsRef<str>>(program: impl Into<PathBuf>, arguments: &[A]) -> Self {
        let arguments = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        Self { program: program.into(), arguments, input: String::new() }
    }

    pub fn input(self, input: impl Into<String>) -> Self {
        Self { input: input.into(), ..self }
    }

    fn spawn(&self) -> Result<Child> {
        let stdin = if self.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .during(format_args!("starting {}", self.program.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            let written = stdin.write_all(self.input.as_bytes());
            written.during(format_args!("writing to {}", self.program.display()))?;
        }
        Ok(child)
    }

    /// Runs the command. Returns what it wrote to standard output.
    pub fn output(&self) -> Result<String> {
        self.output_of(self.spawn()?)
    }

    /// Runs the command. Returns the time that took, and its output.
    pub fn time(&self) -> Result<(Duration, String)> {
        let started = Instant::now();
        let output = self.output()?;
        Ok((started.elapsed(), output))
    }

    /// Runs the command, with an output that a pipe can hold. Returns none if it was killed
    /// after `limit`.
    pub fn output_within(&self, limit: Duration) -> Result<Option<String>> {
        let (mut child, started) = (self.spawn()?, Instant::now());
        if wait(&mut child, |_| started.elapsed() <= limit)? {
            return self.output_of(child).map(Some);
        }
        child.kill().during("ending a process")?;
        child.wait().during("waiting")?;
        Ok(None)
    }

    fn output_of(&self, child: Child) -> Result<String> {
        let output = child.wait_with_output().during("waiting")?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let (program, message) = (self.program.display(), String::from_utf8_lossy(&output.stderr));
        Err(format!("{program} {} failed: {message}", self.arguments.join(" ")).into())
    }

    /// Runs the command, not timed. Returns the most bytes it had resident.
    pub fn peak_memory(&self) -> Result<u64> {
        let mut peak = 0;
        wait(&mut self.spawn()?, |child| {
            let status = format!("/proc/{}/status", child.id());
            peak = peak.max(high_water(Path::new(&status)).unwrap_or(0));
            true
        })?;
        Ok(peak)
    }
}

/// Waits until a command has ended, or `goes_on` is false. Returns whether it has ended.
fn wait(child: &mut Child, mut goes_on: impl FnMut(&Child) -> bool) -> Result<bool> {
    while child.try_wait().during("waiting")?.is_none() {
        if !goes_on(child) {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(true)
}

/// Measures a part of a suite in a process of its own, so that its memory is its own: runs
/// this program with `arguments` and reads the JSON that it prints. Returns none after `limit`.
pub fn probe<T: DeserializeOwned>(arguments: &[&str], limit: Duration) -> Result<Option<T>> {
    let program = std::env::current_exe().during("finding this program")?;
    let output = CommandLine::new(program, arguments).output_within(limit)?;
    let read = |text: String| serde_json::from_str(&text).during(&text);
    output.map(read).transpose()
}

/// The most memory that this process has had resident, in bytes.
pub fn own_high_water() -> Option<u64> {
    high_water(Path::new("/proc/self/status"))
}

/// Has [`own_high_water`] start again from what is resident now.
pub fn restart_high_water() -> std::io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// The kernel's own high-water mark, so that reading it now and then is enough.
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
