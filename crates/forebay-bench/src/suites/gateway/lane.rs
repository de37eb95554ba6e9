//! Lanes: what takes frames from one interface and gives them to an application's device, with
//! interfaces of its own.
//!
//! ```text
//!   send ──veth── in → broker → out ──veth── arrive      or → tap
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_broker::control::{self, Request};
use serde_json::{Value, json};

use super::measure::REPEATS;
use crate::cores::Cores;
use crate::failure::{During, Failure, Result};
use crate::named::named;
use crate::suites::forward::broker::{Account, Broker};
use crate::suites::forward::forwarders::{Forwarder, Kind};
use crate::suites::forward::network::{self, ip};

named! {
    /// What becomes of frames.
    pub enum Mode {
        /// All are passed on; nothing is scanned.
        Forward = "forward",
        Annotate = "annotate",
        Hold = "hold",
        Prefix = "prefix",
        /// From the application to the wire, beside a gateway that annotates.
        Back = "back",
    }
}

named! {
    /// The device that the application reads, and the ports on both sides.
    pub enum Device {
        /// A veth pair, by packet sockets.
        Veth = "veth",
        /// A veth pair, by AF_XDP sockets.
        VethXdp = "veth-af_xdp",
        /// A veth pair, by an AF_XDP socket and redirected frames.
        VethFrames = "veth-frames",
        /// A TAP device.
        Tap = "tap",
    }
}

impl Device {
    /// The types of input and output, and how the output sends if not as usual.
    fn ports(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Veth => ("af_packet", "af_packet", ""),
            Self::VethXdp => ("af_xdp", "af_xdp", ""),
            Self::VethFrames => ("af_xdp", "af_xdp", "send = \"frames\"\n"),
            Self::Tap => ("af_packet", "tap", ""),
        }
    }

    /// Whether a mode is measured with it: one way back is enough for each kind.
    pub fn has(self, mode: Mode) -> bool {
        mode != Mode::Back || matches!(self, Self::Veth | Self::Tap)
    }
}

impl Mode {
    /// Whether flows wait.
    pub fn holds(self) -> bool {
        matches!(self, Self::Hold | Self::Prefix)
    }

    /// The name of the engine in rows.
    pub fn engine(self) -> String {
        match self {
            Self::Hold => "forebay".to_owned(),
            Self::Forward => "forward".to_owned(),
            mode => format!("forebay-{mode}"),
        }
    }
}

/// What is scanned for.
#[derive(Clone, Debug)]
pub struct Rules {
    pub files: Vec<PathBuf>,
    /// A folder for compiled sets.
    pub cache: PathBuf,
}

impl Rules {
    /// Whether they are literals, where the rules of the larger data are not there.
    pub fn are_literals(&self) -> bool {
        !self.files.iter().any(|file| file.extension().is_some_and(|end| end == "rules"))
    }

    /// The option of `forebay gateway -r` that names them.
    pub fn option(&self) -> &'static str {
        if self.are_literals() { "--literals" } else { "--rules" }
    }

    /// A configuration of a gateway without devices.
    pub fn offline(&self) -> String {
        self.section()
            + "[[input]]\nname = \"in\"\ntype = \"pcap\"\nfile = \"in.pcap\"\n\
               [[output]]\nname = \"out\"\ntype = \"pcap\"\nfile = \"out.pcap\"\n\
               [[group]]\nname = \"ids\"\ngateway = { mode = \"hold\" }\n\
               sensor = [{ name = \"ids\" }]\n"
    }

    fn section(&self) -> String {
        let key = match self.are_literals() {
            true => format!("literals = {}", json!(self.files[0])),
            false => format!("rules = {}", json!(self.files)),
        };
        format!(
            "[flow]\nidle_timeout = \"{}s\"\n[scan]\nmax_flows = {FLOWS}\n{key}\ncache = {}\n",
            IDLE.as_secs(),
            json!(self.cache)
        )
    }
}

/// What a ledger says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Frames that the worker took from its input, and that it sent.
    pub frames: u64,
    pub sent: u64,
    /// Frames that were withheld, and those that wait.
    pub withheld: u64,
    pub held: u64,
    /// Losses by row and name.
    pub losses: Vec<(String, u64)>,
}

impl Taken {
    /// Reads the answer of a broker.
    fn read(value: &Value) -> Option<Self> {
        let mut taken = Self::default();
        for row in value["ledger"].as_array()? {
            let stage = row["stage"].as_str()?;
            taken.frames += if stage.starts_with("rx ") { row["out"].as_u64()? } else { 0 };
            taken.sent += if stage.starts_with("tx ") { row["out"].as_u64()? } else { 0 };
            taken.held += row["held"].as_u64()?;
            for (name, frames) in row["drops"].as_object()? {
                match (name.as_str(), frames.as_u64()?) {
                    (_, 0) => {}
                    ("withheld", frames) => taken.withheld += frames,
                    (name, frames) => taken.losses.push((format!("{stage}: {name}"), frames)),
                }
            }
        }
        Some(taken)
    }

    /// What was lost since `before`.
    pub fn losses_since(&self, before: &Self) -> Vec<(String, u64)> {
        let since = self.losses.iter().map(|(name, frames)| {
            let known = before.losses.iter().find(|(other, _)| other == name);
            (name.clone(), frames - known.map_or(0, |known| known.1))
        });
        since.filter(|(_, frames)| *frames > 0).collect()
    }
}

enum Running {
    Bridge(Forwarder),
    Broker { broker: Broker, control: PathBuf },
}

/// A forwarder between the generator and the application's device.
pub struct Lane {
    /// None of the bridge.
    pub mode: Option<Mode>,
    pub device: Device,
    /// The interface that the generator sends by, and the one where frames arrive.
    pub sender: u32,
    pub arrives: String,
    /// Trials that may still be repeated because frames were lost.
    pub repeats: usize,
    /// The end of the last trial.
    pub ended: Instant,
    running: Running,
}

/// What lanes have in common.
pub struct Setup<'a> {
    pub program: &'a Path,
    pub folder: &'a Path,
    pub cores: &'a Cores,
    pub rules: &'a Rules,
}

impl Lane {
    pub fn bridge(number: usize, setup: &Setup<'_>) -> Result<Self> {
        let kind = Kind::Bridge;
        let forwarder = Forwarder::open(kind, number, setup.program, setup.folder, setup.cores)??;
        let (sender, arrives) = (forwarder.sender, forwarder.arrives.clone());
        let running = Running::Bridge(forwarder);
        Ok(Self::new(None, Device::Veth, (sender, arrives), running))
    }

    pub fn broker(number: usize, device: Device, mode: Mode, setup: &Setup<'_>) -> Result<Self> {
        let [sends, input, output, arrives] =
            ["send", "in", "out", "arrive"].map(|name| format!("{name}{number}"));
        network::pair(&sends, &input)?;
        let is_tap = device == Device::Tap;
        let arrives = if is_tap { format!("tap{number}") } else { arrives };
        if !is_tap {
            network::pair(&output, &arrives)?;
            network::receive_by_napi(&output)?;
        }
        let sender = network::link(&sends)?.index;
        let control = setup.folder.join(format!("control-{number}"));
        let to = if is_tap { &arrives } else { &output };
        let text = configuration(device, mode, [&input, to], &control, setup.rules);
        let file = setup.folder.join(format!("gateway-{number}.toml"));
        let on = &setup.cores.workers[..1];
        let broker = Broker::start(setup.program, &text, &file, setup.cores, on)?;
        if is_tap {
            ip(&format!("link set {arrives} up\n"))?;
        }
        network::receive_by_napi(&sends)?;
        let running = Running::Broker { broker, control };
        if mode == Mode::Back {
            if !is_tap {
                network::receive_by_napi(&arrives)?;
            }
            let sender = network::link(&arrives)?.index;
            return Ok(Self::new(Some(mode), device, (sender, sends), running));
        }
        Ok(Self::new(Some(mode), device, (sender, arrives), running))
    }

    fn new(
        mode: Option<Mode>,
        device: Device,
        (sender, arrives): (u32, String),
        running: Running,
    ) -> Self {
        Self { mode, device, sender, arrives, repeats: REPEATS, ended: Instant::now(), running }
    }

    pub fn engine(&self) -> String {
        self.mode.map_or_else(|| "bridge".to_owned(), Mode::engine)
    }

    pub fn name(&self) -> String {
        format!("{}, {}", self.device, self.engine())
    }

    /// Whether the kernel forwards, on the generator's processor.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.running, Running::Bridge(_))
    }

    /// Begins a turn: brokers pause between theirs.
    pub fn begin(&self) -> Result<()> {
        match &self.running {
            Running::Bridge(forwarder) => forwarder.begin(),
            Running::Broker { broker, .. } => broker.resume(),
        }
    }

    pub fn end(&self) -> Result<()> {
        match &self.running {
            Running::Bridge(forwarder) => forwarder.end(),
            Running::Broker { broker, .. } => broker.pause(),
        }
    }

    /// What a broker has taken in so far; nothing of the bridge.
    pub fn taken(&mut self) -> Result<Taken> {
        let Running::Broker { broker, control } = &mut self.running else {
            return Ok(Taken::default());
        };
        let answer = control::ask(control, &Request::Ledger);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                broker.check()?;
                return Err(error.into());
            }
        };
        Taken::read(&answer).ok_or_else(|| Failure(format!("no ledger: {answer}")))
    }

    /// Nanoseconds of processors that a broker has used; 0 of the bridge.
    pub fn cpu_nanos(&self) -> u64 {
        match &self.running {
            Running::Bridge(_) => 0,
            Running::Broker { broker, .. } => cpu_nanos(broker.process()),
        }
    }

    /// What a broker's stages remark.
    pub fn remarks(&self) -> Result<Value> {
        let Running::Broker { control, .. } = &self.running else { return Ok(Value::Null) };
        let status = control::ask(control, &Request::Status).during("asking a broker")?;
        Ok(status["remarks"].clone())
    }

    /// Ends it. Returns a broker's account.
    pub fn close(self) -> Result<Option<Account>> {
        match self.running {
            Running::Bridge(forwarder) => forwarder.close(),
            Running::Broker { broker, .. } => broker.stop().map(Some),
        }
    }
}

/// Nanoseconds of processors that the threads of a process have used
/// (Documentation/scheduler/sched-stats.rst).
fn cpu_nanos(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let used = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    used.sum()
}

fn configuration(
    device: Device,
    mode: Mode,
    [input, output]: [&str; 2],
    control: &Path,
    rules: &Rules,
) -> String {
    let (receives, sends, more) = device.ports();
    let (scan, gateway) = match mode {
        Mode::Forward => (String::new(), String::new()),
        Mode::Back => (rules.section(), "gateway = {}\n".to_owned()),
        mode => (rules.section(), format!("gateway = {{ mode = \"{mode}\" }}\n")),
    };
    let back = match mode {
        Mode::Back => format!(
            "[[input]]\nname = \"back\"\ntype = \"{sends}\"\ninterface = \"{output}\"\n\
             to = \"wire\"\n{}\
             [[output]]\nname = \"wire\"\ntype = \"af_packet\"\ninterface = \"{input}\"\n",
            if sends == "tap" { String::new() } else { format!("ring = \"{RING}\"\n") },
        ),
        _ => String::new(),
    };
    format!(
        "[broker]\nworkers = 1\ncontrol = {}\n{scan}\
         [[input]]\nname = \"wire\"\ntype = \"{receives}\"\ninterface = \"{input}\"\n\
         ring = \"{RING}\"\n{back}\
         [[output]]\nname = \"ids\"\ntype = \"{sends}\"\ninterface = \"{output}\"\n{more}\
         [[group]]\nname = \"ids\"\noutput = \"ids\"\n{gateway}\
         sensor = [{{ name = \"ids\" }}]\n",
        json!(control),
    )
}

/// More connections than come within [`IDLE`].
const FLOWS: usize = 1_000_000;

/// The `idle_timeout`: then a lane has forgotten the flows of a trial, and what waited of those of which
/// frames were lost has gone on. In a trial no addresses come again within it.
pub const IDLE: Duration = Duration::from_secs(3);

/// Room for the frames that are under way, of any size.
const RING: &str = "32MiB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_read() {
        let value = json!({"ledger": [
            {"stage": "rx wire", "in": 9, "out": 7, "drops": {"ring_full": 2}, "held": 0},
            {"stage": "group ids", "in": 7, "out": 2, "held": 1,
             "drops": {"withheld": 4, "no_memory": 0}},
            {"stage": "tx ids", "in": 2, "out": 2, "drops": {}, "held": 0}]});
        let taken = Taken::read(&value).unwrap();
        let losses = vec![("rx wire: ring_full".to_owned(), 2)];
        assert_eq!(taken, Taken { frames: 7, sent: 2, withheld: 4, held: 1, losses });
        assert!(taken.losses_since(&taken).is_empty());
        assert_eq!(taken.losses_since(&Taken::default()), taken.losses);
        assert_eq!(Taken::read(&json!({})), None);
    }

    #[test]
    fn configurations_name_what_is_measured() {
        let rules = Rules { files: vec!["/r/a.rules".into()], cache: "/c".into() };
        let of =
            |device, mode| configuration(device, mode, ["in1", "out1"], Path::new("/s"), &rules);
        let text = of(Device::VethFrames, Mode::Hold);
        assert!(text.contains("send = \"frames\"") && text.contains("mode = \"hold\""), "{text}");
        assert!(text.contains("rules = [\"/r/a.rules\"]"), "{text}");
        assert!(!of(Device::Tap, Mode::Forward).contains("scan"));
        assert!(of(Device::Tap, Mode::Back).contains("interface = \"out1\"\nto = \"wire\"\n"));
        let literals = Rules { files: vec!["/r/words".into()], cache: "/c".into() };
        assert!(literals.section().contains("literals = \"/r/words\""));
    }
}
