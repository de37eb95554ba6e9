//! `forebay run` as a process of its own, with a configuration made for it.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::traffic::SENSORS;
use crate::cores::Cores;
use crate::peers::process::{CommandLine, find};
use crate::{BenchError, io_error};

/// How long it may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is said on standard error when packets are forwarded.
const READY: &str = "running";

/// Behind the type of an output that is to send by redirected frames.
const FRAMES: &str = "-frames";

/// A port of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port<'a> {
    /// Its type, and `-frames` behind it where it is to send by redirected frames.
    pub kind: &'static str,
    /// Its interface.
    pub interface: &'a str,
}

/// A running broker, which is killed when this is dropped.
pub struct Broker {
    child: Child,
    /// What it says, line by line.
    said: mpsc::Receiver<String>,
    /// What it has said.
    heard: Vec<String>,
}

/// The account that a broker gives at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Frames that reached its input, those it lost there included.
    pub received: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// Losses by stage and name.
    pub losses: Vec<(String, u64)>,
    /// Whether all rows closed.
    pub closes: bool,
}

/// A configuration: one input, and an output to a switch with four sensors behind it.
pub fn configuration(input: Port<'_>, output: Port<'_>, workers: usize) -> String {
    let mut text = format!("[broker]\nworkers = {workers}\n");
    for (side, name, port) in [("input", "link", input), ("output", "switch", output)] {
        let Port { kind, interface } = port;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[{side}]]\nname = \"{name}\"\ntype = \"{}\"\ninterface = \"{interface}\"\n",
            kind.trim_end_matches(FRAMES)
        );
        if kind.ends_with(FRAMES) {
            text.push_str("send = \"frames\"\n");
        }
    }
    text.push_str("[[group]]\nname = \"sensors\"\noutput = \"switch\"\n");
    for (number, mac) in SENSORS.iter().enumerate() {
        let _ = write!(text, "[[group.sensor]]\nname = \"s{number}\"\nmac = \"{mac}\"\n");
    }
    text
}

/// Whether `program` takes a configuration, which is written to `file`.
pub fn accepts(program: &Path, configuration: &str, file: &Path) -> Result<bool, BenchError> {
    fs::write(file, configuration).map_err(io_error(format!("writing {}", file.display())))?;
    let file = file.display().to_string();
    // Programs before `--check=file` check nothing but the file anyway.
    let check = |check| CommandLine::new(program, &["run", check, "-c", &file]).output().is_ok();
    Ok(check("--check=file") || check("--check"))
}

impl Broker {
    /// Starts `program` on some processors and waits until it forwards. Its configuration
    /// is written to `file`.
    pub fn start(
        program: &Path,
        configuration: &str,
        file: &Path,
        cores: &Cores,
        on: &[usize],
    ) -> Result<Self, BenchError> {
        fs::write(file, configuration).map_err(io_error(format!("writing {}", file.display())))?;
        // Ends it even if this process is killed.
        let mut command = match find("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["run", "--json", "-c"]).arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Cores::pin(on)?;
        let started = command.spawn();
        cores.release()?;
        let mut child = started.map_err(io_error(format!("starting {}", program.display())))?;
        let stderr = child.stderr.take();
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let lines = stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines());
            // Ends with the broker, or when nobody listens any more.
            lines.map_while(Result::ok).all(|line| say.send(line).is_ok())
        });
        let mut broker = Self { child, said, heard: Vec::new() };
        broker.wait_until_ready()?;
        Ok(broker)
    }

    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let until = Instant::now() + PATIENCE;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.said.recv_timeout(left) {
                Ok(line) if line == READY => return Ok(()),
                Ok(line) => self.heard.push(line),
                Err(_) => break,
            }
        }
        Err(self.complaint("does not start"))
    }

    fn complaint(&mut self, what: &str) -> BenchError {
        self.heard.extend(self.said.try_iter());
        let message = format!("{what}: {}", self.heard.join("; "));
        BenchError::Command { command: "forebay run".to_owned(), message }
    }

    /// That it is still there.
    pub fn check(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait().map_err(io_error("looking after forebay"))? {
            None => Ok(()),
            Some(status) => Err(self.complaint(&format!("ended by itself, {status}"))),
        }
    }

    /// Has it end, and gives its account.
    pub fn stop(mut self) -> Result<Account, BenchError> {
        self.check()?;
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM)
            .map_err(|error| io_error("ending forebay")(error.into()))?;
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().map_err(io_error("waiting for forebay"))?.is_none() {
            if Instant::now() >= until {
                return Err(self.complaint("does not end"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let mut text = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            stdout.read_to_string(&mut text).map_err(io_error("reading from forebay"))?;
        }
        Account::read(&text).ok_or_else(|| self.complaint("gives no account"))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // One that has ended already is no loss.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Account {
    /// The account in the JSON that `forebay run` ends with.
    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut account = Self { closes: value["closes"].as_bool()?, ..Self::default() };
        for row in value["ledger"].as_array()? {
            let stage = row["stage"].as_str()?;
            let (input, output) = (row["in"].as_u64()?, row["out"].as_u64()?);
            if stage.starts_with("rx ") {
                account.received += input;
            }
            if stage.starts_with("tx ") {
                account.sent += output;
            }
            for (name, packets) in row["drops"].as_object()? {
                let packets = packets.as_u64()?;
                // A group's row repeats what its stages lost.
                if packets > 0 {
                    account.losses.push((format!("{stage}: {name}"), packets));
                }
            }
        }
        Some(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read() {
        let text = r#"{"closes": true, "errors": [], "ledger": [
            {"stage": "rx link", "in": 9, "out": 7, "drops": {"ring_full": 2}},
            {"stage": "balance", "in": 7, "out": 7, "drops": {"no_sensor": 0}},
            {"stage": "tx switch", "in": 7, "out": 7, "drops": {}}]}"#;
        let account = Account::read(text).unwrap();
        let losses = vec![("rx link: ring_full".to_owned(), 2)];
        assert_eq!(account, Account { received: 9, sent: 7, losses, closes: true });
        assert_eq!(Account::read("{}"), None);
        assert_eq!(Account::read("no JSON"), None);
    }

    #[test]
    fn a_configuration_names_its_ports() {
        let port = |kind, interface| Port { kind, interface };
        let text = configuration(port("af_xdp", "in3"), port("tap", "tap3"), 2);
        assert!(text.contains("workers = 2\n") && text.contains("interface = \"in3\"\n"));
        assert!(text.contains("type = \"tap\"\ninterface = \"tap3\"\n"));
        assert_eq!(text.matches("[[group.sensor]]").count(), 4);
        assert!(!text.contains("send"));
        let text = configuration(port("af_xdp", "in3"), port("af_xdp-frames", "out3"), 1);
        assert!(text.contains("type = \"af_xdp\"\ninterface = \"out3\"\nsend = \"frames\"\n"));
    }
}
