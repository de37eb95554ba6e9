//! Runs the command as a process and looks at what it said.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;

/// What a run of the command left behind.
#[derive(Debug)]
pub struct Ran {
    /// The arguments, for messages.
    pub arguments: String,
    /// The exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

/// The command, its environment free of what changes its output. `FOREBAY_COMMAND` names another
/// build of it.
pub fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Command {
    let usual = || env!("CARGO_BIN_EXE_forebay").into();
    let mut command = Command::new(std::env::var_os("FOREBAY_COMMAND").unwrap_or_else(usual));
    command.args(arguments).env_remove("FOREBAY_ISA").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs the command.
///
/// # Panics
/// When it panics, or is ended by a signal: it must do neither, whatever its input.
pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Ran {
    let mut command = command(arguments);
    let output = command.output().unwrap();
    ran(&command, output)
}

/// As [`run`], with bytes on standard input.
pub fn run_with_input<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
    arguments: I,
    input: &[u8],
) -> Ran {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // It may end before it has read everything.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    ran(&command, output)
}

/// Looks at the outcome of a command that was started otherwise.
pub fn ran(command: &Command, output: Output) -> Ran {
    let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
    let arguments = arguments.join(" ");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let status = output.status;
    assert!(!stderr.contains("panicked"), "{arguments}: {stderr}");
    let status = status.code().unwrap_or_else(|| panic!("{arguments}: {status}: {stderr}"));
    assert!((0..=2).contains(&status), "{arguments}: exit status {status}: {stderr}");
    Ran { arguments, status, stdout: output.stdout, stderr }
}

impl Ran {
    /// Demands an exit status.
    #[track_caller]
    pub fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.arguments, self.stderr);
        self
    }

    /// Demands one message on standard error that holds all of `parts`.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        let errors = self.stderr.lines().filter(|line| line.starts_with("error:")).count();
        assert_eq!(errors, 1, "{}: {}", self.arguments, self.stderr);
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "{}: no {part:?} in: {}",
                self.arguments,
                self.stderr
            );
        }
        self
    }

    /// Standard output as text.
    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    /// Standard output as JSON whose ledger closes.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value: Value = serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.arguments, self.stderr));
        assert_ledger_closes(&self.arguments, &value["ledger"]);
        value
    }
}

/// Recomputes the equation of every row of a ledger, and from row to row.
#[track_caller]
pub fn assert_ledger_closes(of: &str, ledger: &Value) {
    let rows = ledger.as_array().unwrap_or_else(|| panic!("{of}: no ledger"));
    assert!(rows.len() >= 2, "{of}: {ledger}");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{of}: {ledger}"));
    for row in rows {
        let drops: u64 = row["drops"].as_object().unwrap().values().map(number).sum();
        let came = number(&row["in"]) + number(&row["copies"]) + number(&row["injected"]);
        assert_eq!(came, number(&row["out"]) + drops + number(&row["held"]), "{of}: {row}");
    }
    for pair in rows.windows(2) {
        assert_eq!(pair[0]["out"], pair[1]["in"], "{of}: {ledger}");
    }
}

/// The sensors' captures in a folder, by sensor. No other file may be there.
#[track_caller]
pub fn sensor_files(folder: &Path) -> Vec<PathBuf> {
    let mut numbered: Vec<(usize, PathBuf)> = files(folder)
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".pcap").or_else(|| name.strip_suffix(".pcapng"));
            let number = stem.and_then(|stem| stem.strip_prefix("sensor-")?.parse().ok());
            (number.unwrap_or_else(|| panic!("{}", path.display())), path)
        })
        .collect();
    numbered.sort();
    assert!(numbered.iter().map(|(number, _)| *number).eq(0..numbered.len()), "{numbered:?}");
    numbered.into_iter().map(|(_, path)| path).collect()
}

/// Everything in a folder, in order; nothing where there is no folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
