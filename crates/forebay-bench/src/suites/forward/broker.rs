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
use crate::failure::{During, Failure, Result};
use crate::peers::process::{CommandLine, find};

/// The time to start, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The line on standard error when packets are forwarded.
const READY: &str = "running";

/// The end of an output's type that sends by redirected frames.
const FRAMES: &str = "-frames";

/// A running broker, which is killed when this is dropped.
pub struct Broker {
    child: Child,
    /// Lines of its standard error, and those that were received.
    errors: mpsc::Receiver<String>,
    received: Vec<String>,
}

/// The account that a broker gives at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Frames that reached its input, with those it lost there.
    pub received: u64,
    pub sent: u64,
    /// Losses by stage and name.
    pub losses: Vec<(String, u64)>,
    /// Whether all rows closed.
    pub closes: bool,
}

/// A configuration: one input, and an output to a switch with four sensors behind it. A port is
/// a type, which may end with [`FRAMES`], and an interface.
pub fn configuration(input: (&str, &str), output: (&str, &str), workers: usize) -> String {
    let mut text = format!("[broker]\nworkers = {workers}\n");
    for (side, name, (kind, interface)) in [("input", "link", input), ("output", "switch", output)]
    {
        let kind_of_port = kind.trim_end_matches(FRAMES);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[{side}]]\nname = \"{name}\"\ntype = \"{kind_of_port}\"\ninterface = \"{interface}\"\n"
        );
        if kind != kind_of_port {
            text.push_str("send = \"frames\"\n");
        }
    }
    text.push_str("[[group]]\nname = \"sensors\"\noutput = \"switch\"\n");
    for (number, mac) in SENSORS.iter().enumerate() {
        let _ = write!(text, "[[group.sensor]]\nname = \"s{number}\"\nmac = \"{mac}\"\n");
    }
    text
}

fn write_to(file: &Path, configuration: &str) -> Result<()> {
    fs::write(file, configuration).during(format_args!("writing {}", file.display()))
}

/// Whether `program` accepts a configuration, which is written to `file`.
pub fn accepts(program: &Path, configuration: &str, file: &Path) -> Result<bool> {
    write_to(file, configuration)?;
    let file = file.display().to_string();
    // Programs before `--check=file` check nothing but the file anyway.
    let check = |check| CommandLine::new(program, &["run", check, "-c", &file]).output().is_ok();
    Ok(check("--check=file") || check("--check"))
}

impl Broker {
    /// Starts `program` on some processors, waits until it forwards, and pauses it. Its
    /// configuration is written to `file`.
    pub fn start(
        program: &Path,
        configuration: &str,
        file: &Path,
        cores: &Cores,
        on: &[usize],
    ) -> Result<Self> {
        write_to(file, configuration)?;
        // `setpriv` has the kernel kill the broker if this process is killed.
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
        let mut child = started.during(format_args!("starting {}", program.display()))?;
        let stderr = child.stderr.take();
        let (sender, errors) = mpsc::channel();
        thread::spawn(move || {
            let lines = stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines());
            // Ends with the broker, or when the receiver is dropped.
            lines.map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        let mut broker = Self { child, errors, received: Vec::new() };
        let until = Instant::now() + PATIENCE;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match broker.errors.recv_timeout(left) {
                Ok(line) if line == READY => return broker.pause().map(|()| broker),
                Ok(line) => broker.received.push(line),
                Err(_) => break,
            }
        }
        Err(broker.failure("does not start"))
    }

    fn failure(&mut self, what: &str) -> Failure {
        self.received.extend(self.errors.try_iter());
        format!("forebay run failed: {what}: {}", self.received.join("; ")).into()
    }

    /// Fails if the broker has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait().during("waiting for forebay")? {
            None => Ok(()),
            Some(status) => Err(self.failure(&format!("ended by itself, {status}"))),
        }
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Keeps it from running until [`Broker::resume`]: one that waits for frames looks after its ports
    /// and sensors all the same, and 17 of them took about a quarter of the measured worker's
    /// processor.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP, "pausing forebay")
    }

    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT, "resuming forebay")
    }

    fn signal(&self, signal: Signal, action: &str) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).during(action)
    }

    /// Ends the broker, also one that pauses. Returns its account.
    pub fn stop(mut self) -> Result<Account> {
        self.check()?;
        self.resume()?;
        self.signal(Signal::TERM, "ending forebay")?;
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().during("waiting for forebay")?.is_none() {
            if Instant::now() >= until {
                return Err(self.failure("does not end"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let mut text = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            stdout.read_to_string(&mut text).during("reading from forebay")?;
        }
        Account::read(&text).ok_or_else(|| self.failure("gives no account"))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // These fail only for a broker that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Account {
    /// Reads the JSON that `forebay run` ends with.
    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut account = Self { closes: value["closes"].as_bool()?, ..Self::default() };
        for row in value["ledger"].as_array()? {
            let stage = row["stage"].as_str()?;
            let (input, output) = (row["in"].as_u64()?, row["out"].as_u64()?);
            account.received += if stage.starts_with("rx ") { input } else { 0 };
            account.sent += if stage.starts_with("tx ") { output } else { 0 };
            for (name, packets) in row["drops"].as_object()? {
                let packets = packets.as_u64()?;
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
        assert_eq!((Account::read("{}"), Account::read("no JSON")), (None, None));
    }

    #[test]
    fn a_configuration_names_its_ports() {
        let text = configuration(("af_xdp", "in3"), ("tap", "tap3"), 2);
        assert!(text.contains("workers = 2\n") && text.contains("interface = \"in3\"\n"));
        assert!(text.contains("type = \"tap\"\ninterface = \"tap3\"\n"));
        assert_eq!(text.matches("[[group.sensor]]").count(), 4);
        assert!(!text.contains("send"));
        let text = configuration(("af_xdp", "in3"), ("af_xdp-frames", "out3"), 1);
        assert!(text.contains("type = \"af_xdp\"\ninterface = \"out3\"\nsend = \"frames\"\n"));
    }
}
