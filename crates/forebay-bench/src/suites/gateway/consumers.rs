//! Programs that read the application's device: the time that they use for all frames, for those that
//! `hold` lets through, and for those that it withholds alone, at the same rate.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::lane::Lane;
use super::load::Load;
use crate::cores::Cores;
use crate::failure::{During, Result};
use crate::named::named;
use crate::peers::process::find;
use crate::suites::forward::network::ip;
use crate::suites::forward::sender::Sender;

/// Frames of all flows that are offered in a second.
const RATE: f64 = 8_000.0;

/// A start-up is over when so long no time was used, and is waited for no longer than that.
const QUIET: Duration = Duration::from_millis(1_200);
const PATIENCE: Duration = Duration::from_secs(60);

/// Ticks of a process's times in a second (proc_stat(5)).
const TICKS: f64 = 100.0;

named! {
    pub enum Consumer {
        Suricata = "suricata",
        NdpiReader = "ndpiReader",
        Tshark = "tshark",
    }
}

impl Consumer {
    fn command(self, interface: &str, folder: &Path) -> Option<Command> {
        let mut command = Command::new(find(self.name())?);
        match self {
            Self::Suricata => command
                .arg(format!("--af-packet={interface}"))
                .args(["-k", "none", "--runmode", "single", "-l"])
                .arg(folder)
                .arg("-S")
                .arg(folder.join("consumer.rules")),
            Self::NdpiReader => command.args(["-i", interface, "-s", "3600", "-q"]),
            Self::Tshark => command.args(["-n", "-l", "-i", interface]),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(command)
    }
}

/// A running program, which is ended when this is dropped.
struct Running(Child);

impl Running {
    /// Starts it on a processor, and waits until it has started up; none where it is not installed.
    fn start(
        consumer: Consumer,
        interface: &str,
        folder: &Path,
        cores: &Cores,
    ) -> Result<Option<Self>> {
        let Some(mut command) = consumer.command(interface, folder) else { return Ok(None) };
        Cores::pin(&cores.workers[..1])?;
        let child = command.spawn();
        cores.release()?;
        let mut running = Self(child.during(format_args!("starting {consumer}"))?);
        let (mut used, mut at, started) = (0.0, Instant::now(), Instant::now());
        while at.elapsed() < QUIET && started.elapsed() < PATIENCE {
            sleep(Duration::from_millis(50));
            if let Some(status) = running.0.try_wait().during("waiting")? {
                return Err(format!("{consumer} ended by itself, {status}").into());
            }
            let now = running.seconds();
            if now > used + 1.0 / TICKS {
                (used, at) = (now, Instant::now());
            }
        }
        Ok(Some(running))
    }

    /// The process and all that descend from it.
    fn processes(&self) -> Vec<(u32, f64)> {
        let all: Vec<(u32, u32, f64)> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.parse().ok()?;
                let text = fs::read_to_string(entry.path().join("stat")).ok()?;
                let (parent, ticks) = parent_and_ticks(&text)?;
                Some((number, parent, ticks as f64 / TICKS))
            })
            .collect();
        let parents: HashMap<u32, u32> =
            all.iter().map(|(number, parent, _)| (*number, *parent)).collect();
        let descends = |mut number: u32| loop {
            if number == self.0.id() {
                return true;
            }
            match parents.get(&number) {
                Some(&parent) if parent != number => number = parent,
                _ => return false,
            }
        };
        let ours = all.into_iter().filter(|&(number, ..)| descends(number));
        ours.map(|(number, _, seconds)| (number, seconds)).collect()
    }

    /// Seconds of processors that they have used.
    fn seconds(&self) -> f64 {
        self.processes().iter().map(|(_, seconds)| seconds).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let processes = self.processes();
        for signal in [Signal::INT, Signal::KILL] {
            for (number, _) in &processes {
                // One that has ended already cannot be ended.
                let _ = Pid::from_raw(number.cast_signed()).map(|pid| kill_process(pid, signal));
            }
            sleep(Duration::from_millis(300));
        }
        let _ = self.0.wait();
    }
}

/// The parent of a process, and its ticks in user mode and in the kernel: of /proc/PID/stat.
fn parent_and_ticks(stat: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some((fields.get(1)?.parse().ok()?, ticks(11)? + ticks(12)?))
}

/// Seconds that a program used, for frames of which a part was withheld.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// For all frames, by a lane that passes them.
    pub all: f64,
    /// For those that a lane with `hold` passes.
    pub passed: f64,
    /// For the withheld ones alone.
    pub withheld: f64,
}

impl Used {
    /// What was saved, in terms of what the withheld frames take.
    pub fn saved(self) -> f64 {
        (self.all - self.passed) / self.withheld
    }
}

/// What a measurement needs.
pub struct Measure<'a> {
    pub load: &'a Load,
    /// The withheld frames alone.
    pub withheld: &'a Load,
    pub cores: &'a Cores,
    pub stop: &'a AtomicBool,
    pub folder: &'a Path,
    pub rounds: u64,
}

impl Measure<'_> {
    /// Measures a program behind a lane that passes all, and one with `hold`; none where it is not
    /// installed.
    pub fn used(&self, consumer: Consumer, all: &Lane, hold: &Lane) -> Result<Option<Used>> {
        let share = self.withheld.frames.len() as f64 / self.load.frames.len() as f64;
        let used = |lane, load, rate| self.seconds(consumer, lane, load, rate);
        let Some(of_all) = used(all, self.load, RATE)? else { return Ok(None) };
        let (passed, withheld) =
            (used(hold, self.load, RATE)?, used(all, self.withheld, RATE * share)?);
        Ok(passed.zip(withheld).map(|(passed, withheld)| Used { all: of_all, passed, withheld }))
    }

    fn seconds(
        &self,
        consumer: Consumer,
        lane: &Lane,
        load: &Load,
        rate: f64,
    ) -> Result<Option<f64>> {
        ip(&format!("link set {} promisc on\n", lane.arrives))?;
        // What waits of the frames before goes on while the program starts.
        lane.begin()?;
        let used = self.feed(consumer, lane, load, rate);
        lane.end()?;
        used
    }

    /// Starts the program and offers it all rounds.
    fn feed(&self, consumer: Consumer, lane: &Lane, load: &Load, rate: f64) -> Result<Option<f64>> {
        let running = Running::start(consumer, &lane.arrives, self.folder, self.cores)?;
        let Some(running) = running else { return Ok(None) };
        let before = running.seconds();
        let sender = Sender::start(&load.traffic, lane.sender, self.cores.generator)?;
        let frames = self.rounds * load.frames.len() as u64;
        let end = sender.sent().frames + frames;
        sender.pace(Some(rate));
        sender.allow(end);
        let started = Instant::now();
        while sender.sent().frames < end {
            if self.stop.load(Ordering::Relaxed) || started.elapsed() > 4 * PATIENCE {
                return Err("interrupted".into());
            }
            sleep(Duration::from_millis(20));
        }
        sender.stop()?;
        // What waits is dropped a second after its end.
        sleep(QUIET);
        Ok(Some(running.seconds() - before))
    }
}

/// Writes the rules of a consumer that has some.
pub fn write_rules(files: &[std::path::PathBuf], folder: &Path) -> Result<()> {
    let mut all = Vec::new();
    for file in files {
        all.extend(fs::read(file).during(file.display())?);
        all.push(b'\n');
    }
    let file = folder.join("consumer.rules");
    fs::write(&file, all).during(file.display())
}

/// What is kept of a measurement in a row.
pub fn values(used: Used) -> [(&'static str, serde_json::Value); 4] {
    [
        ("cpu_s_all", json!(used.all)),
        ("cpu_s_passed", json!(used.passed)),
        ("cpu_s_withheld", json!(used.withheld)),
        ("saved", json!(used.saved())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process_are_read() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 10 20 0 0 150 25 9 9 20 0 1 0 1 1 1";
        assert_eq!(parent_and_ticks(stat), Some((3, 175)));
        let used = Used { all: 5.0, passed: 3.0, withheld: 2.0 };
        assert!((used.saved() - 1.0).abs() < 1e-9);
    }
}
