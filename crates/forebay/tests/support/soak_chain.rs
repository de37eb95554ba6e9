//! A generator, a broker and two sensors of a soak, on links of their own, and the account of
//! every frame at every device between them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_io::device::Link;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::broker::{Started, ask, broker, number};
use super::command::command;
use super::namespace::veth;

/// Sensors, each behind an output.
const SENSORS: usize = 2;

/// How long frames may be on their way when nothing more is sent.
const PATIENCE: Duration = Duration::from_secs(60);

/// Frames at each place that counts them, in their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Sent, as the generator says.
    made: u64,
    /// Received by the broker's device, as the kernel says, and given to no socket there.
    arrived: u64,
    undelivered: u64,
    /// Come to the broker, lost there by name, and sent, as its ledger says.
    taken: u64,
    lost: u64,
    out: u64,
    /// Sent by the outputs' devices, and received by the sensors'.
    left: u64,
    reached: u64,
    /// Taken by the sink, or lost in its sockets, as it says.
    heard: u64,
}

impl Counts {
    fn since(self, before: Self) -> Self {
        Self {
            made: self.made - before.made,
            arrived: self.arrived - before.arrived,
            undelivered: self.undelivered - before.undelivered,
            taken: self.taken - before.taken,
            lost: self.lost - before.lost,
            out: self.out - before.out,
            left: self.left - before.left,
            reached: self.reached - before.reached,
            heard: self.heard - before.heard,
        }
    }

    /// The hops on which frames are missing, or too many: place, before it and after it.
    pub fn unexplained(&self) -> Vec<(&'static str, u64, u64)> {
        let hops = [
            ("generator to input device", self.made, self.arrived),
            ("input device to broker", self.arrived, self.taken + self.undelivered),
            ("through the broker", self.taken, self.lost + self.out),
            ("broker to output devices", self.out, self.left),
            ("output devices to sensors' devices", self.left, self.reached),
            ("sensors' devices to sink", self.reached, self.heard),
        ];
        hops.into_iter().filter(|(_, before, after)| before != after).collect()
    }

    /// For the record.
    pub fn as_json(&self) -> Value {
        json!({
            "sent": self.made,
            "taken": self.taken,
            "lost_by_name": self.lost,
            "undelivered": self.undelivered,
            "out": self.out,
            "heard": self.heard,
        })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_json())
    }
}

/// One of the chains.
pub struct Chain {
    /// The type of its ports.
    pub kind: &'static str,
    number: usize,
    folder: TempDir,
    recording: Option<PathBuf>,
    broker: Option<Started>,
    sink: Option<Started>,
    load: Option<Started>,
    made: u64,
    heard: u64,
}

impl Chain {
    /// Makes the links and starts the broker. A recording goes to `recording`, if named.
    pub fn start(kind: &'static str, number: usize, recording: Option<PathBuf>) -> Self {
        veth(&format!("g{number}"), &format!("b{number}"));
        for i in 0..SENSORS {
            veth(&format!("x{number}{i}"), &format!("y{number}{i}"));
        }
        let folder = tempfile::tempdir().unwrap();
        let (broker, sink, load) = (None, None, None);
        let (made, heard) = (0, 0);
        let mut chain = Self { kind, number, folder, recording, broker, sink, load, made, heard };
        chain.configure(0);
        chain.broker = Some(broker_of(&chain));
        chain
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("run.toml")
    }

    /// Writes one of several configurations, which differ in filters and sensors. All of them
    /// let every frame pass.
    pub fn configure(&self, variant: usize) {
        let Self { kind, number, .. } = self;
        let filter = ["ip", "ip or arp", "udp or not udp"][variant % 3];
        let mut text = format!(
            "filter = \"{filter}\"\n[broker]\ncontrol = \"{}\"\n[flow]\nidle_timeout = \"500ms\"\n\
             [balance]\ninterval = \"500ms\"\n\
             [[input]]\nname = \"tap\"\ntype = \"{kind}\"\ninterface = \"b{number}\"\n",
            self.socket().display()
        );
        for i in 0..SENSORS {
            text += &format!(
                "[[output]]\nname = \"o{i}\"\ntype = \"{kind}\"\ninterface = \"y{number}{i}\"\n"
            );
        }
        if let Some(file) = &self.recording {
            let file = file.display();
            text += &format!("[[output]]\nname = \"disk\"\ntype = \"pcap\"\nfile = \"{file}\"\n");
        }
        text += "[[group]]\nname = \"ids\"\n";
        // The second comes and goes.
        let sensors = if variant % 4 == 3 { 1 } else { SENSORS };
        for i in 0..sensors {
            text += &format!("[[group.sensor]]\nname = \"s{i}\"\noutput = \"o{i}\"\n");
        }
        if self.recording.is_some() {
            text += "[[group]]\nname = \"record\"\n[[group.sensor]]\nname = \"disk\"\n\
                     output = \"disk\"\n";
        }
        std::fs::write(self.config(), text).unwrap();
    }

    /// What the broker answers.
    pub fn ask(&self, words: &[&str]) -> Option<Value> {
        ask(&self.socket(), words)
    }

    /// Starts to hear what the sensors get, and to send.
    pub fn begin(&mut self, rate: u64, seconds: u64, size: u64) {
        let mut words = vec!["sink".to_owned(), "--json".to_owned()];
        for i in 0..SENSORS {
            words.extend(["-i".to_owned(), format!("x{}{i}", self.number)]);
        }
        self.sink = Some(Started::listening(command(words)));
        let words = format!(
            "gen --json -i g{} --rate {rate} --duration {seconds}s --flows 200 --life 300ms \
             --size {size}",
            self.number
        );
        self.load = Some(Started::start(command(words.split_whitespace())));
    }

    /// Waits until all that was sent has arrived or is lost, and stops to hear.
    pub fn end(&mut self) {
        let sent = self.load.take().unwrap().ended();
        self.made += number(&sent, "packets");
        let until = Instant::now() + PATIENCE;
        let (mut last, mut same) = (None, 0);
        // Nothing moves any more when several looks in a row show the same.
        while same < 5 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(200));
            let now = self.moving();
            same = if now.is_some() && now == last { same + 1 } else { 0 };
            last = now;
        }
        let sink = self.sink.take().unwrap();
        sink.signal(libc::SIGTERM);
        let heard = sink.ended();
        self.heard +=
            number(&heard, "received") + number(&heard, "foreign") + number(&heard, "lost_here");
    }

    /// What changes as long as frames are on their way.
    fn moving(&self) -> Option<Vec<u64>> {
        let mut all = Vec::new();
        for row in self.ask(&["ledger"])?["ledger"].as_array()? {
            all.extend([number(row, "in"), number(row, "out"), number(row, "held")]);
        }
        let device = |name: String| Link::named(&name).unwrap().stats.rx_packets;
        all.push(device(format!("b{}", self.number)));
        all.extend((0..SENSORS).map(|i| device(format!("x{}{i}", self.number))));
        Some(all)
    }

    /// What was counted since the chain was started.
    pub fn counts(&self) -> Counts {
        let Self { number: n, .. } = self;
        let device = |name: String| Link::named(&name).unwrap().stats;
        let sensors =
            |side: &'static str| (0..SENSORS).map(move |i| device(format!("{side}{n}{i}")));
        let ledger = self.ask(&["ledger"]).unwrap();
        let status = self.ask(&["status"]).unwrap();
        let before = &status["inputs"][0]["before"];
        let (mut taken, mut lost, mut out) = (0, 0, 0);
        for row in ledger["ledger"].as_array().unwrap() {
            let stage = row["stage"].as_str().unwrap();
            taken += if stage.starts_with("rx ") { number(row, "in") } else { 0 };
            // The recorder's copies are an account of their own.
            if stage != "tx disk" && stage != "group record" {
                let drops = row["drops"].as_object().unwrap().values();
                lost += drops.filter_map(Value::as_u64).sum::<u64>();
            }
            if stage.starts_with("tx o") {
                out += number(row, "out");
            }
        }
        Counts {
            made: self.made,
            arrived: device(format!("b{n}")).rx_packets,
            undelivered: before["undelivered"].as_u64().unwrap_or(0),
            taken,
            lost,
            out,
            left: sensors("y").map(|stats| stats.tx_packets).sum(),
            reached: sensors("x").map(|stats| stats.rx_packets).sum(),
            heard: self.heard,
        }
    }

    /// What was counted since `before`, which becomes what is counted now.
    pub fn counts_since(&self, before: &mut Counts) -> Counts {
        let now = self.counts();
        now.since(std::mem::replace(before, now))
    }

    /// What the devices dropped, for those who look for a loss.
    pub fn device_drops(&self) -> String {
        let n = self.number;
        let mut devices = vec![format!("g{n}"), format!("b{n}")];
        devices.extend((0..SENSORS).flat_map(|i| [format!("x{n}{i}"), format!("y{n}{i}")]));
        let drops = devices.iter().map(|device| {
            let stats = Link::named(device).unwrap().stats;
            format!("{device} rx {} tx {}", stats.rx_dropped, stats.tx_dropped)
        });
        drops.collect::<Vec<_>>().join(", ")
    }

    /// Kilobytes of memory that the broker has in use.
    pub fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.broker.as_ref().unwrap().id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Ends the broker; gives what it said, and how many packets the recording holds.
    pub fn finish(mut self) -> (Value, Option<u64>) {
        let mut broker = self.broker.take().unwrap();
        broker.signal(libc::SIGTERM);
        let (status, stdout) = broker.output();
        let said: Value = serde_json::from_slice(&stdout)
            .unwrap_or_else(|error| panic!("{error}: {status:?} {}", broker.said()));
        // A recorder whose disk is full is an error in the end.
        let is_fine = status == Some(0) || self.recording.is_some();
        assert!(is_fine, "{}: {status:?}: {}", self.kind, broker.said());
        let recorded = self.recording.as_deref().map(packets_in);
        (said, recorded)
    }
}

fn broker_of(chain: &Chain) -> Started {
    broker(&chain.config(), &chain.socket())
}

/// Packets that a reader of the recording gets, whatever is behind them.
fn packets_in(file: &Path) -> u64 {
    let words = ["filter", "--count", "-r", file.to_str().unwrap(), "ip or not ip"];
    let output = command(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let digits: String = said.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}
