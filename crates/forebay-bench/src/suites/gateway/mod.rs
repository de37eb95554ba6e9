//! The gateway live: each mode to each type of device, beside a plain bridge, forwarding alone and
//! scanning alone, with the same frames: TCP connections with real payloads, scanned for rules.

mod connections;
mod consumers;
mod lane;
mod load;
mod measure;
mod report;
mod scanning;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use crate::bar;
use crate::cores::Cores;
use crate::failure::{During, Failure, Result, ensure};
use crate::options::Options;
use crate::record::{Record, Results};
use crate::suites::forward::{network, watch_signals};
use crate::suites::scan::literals::rule_files;
use connections::Conversation;
use consumers::Consumer;
use lane::{Device, Lane, Mode, Rules, Setup};
use load::Load;
use measure::{Delays, REPEATS, Throughput, on_lane};
use report::Subject;
use scanning::Scanning;

/// Sizes of frames with payload, with the check sequence.
const SIZES: [usize; 3] = [1_500, 512, 64];

/// Rounds, and how long each lane is measured in one.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1_000);
const QUICK_ROUNDS: usize = 3;
const QUICK_ROUND: Duration = Duration::from_millis(300);

/// Frames a second for delays, and for how long.
const DELAY_RATE: f64 = 50_000.0;
const DELAY_TIME: Duration = Duration::from_secs(2);
const QUICK_DELAY_TIME: Duration = Duration::from_millis(500);

/// Rounds that are given to a program that reads the device.
const CONSUMED: u64 = 5;
const QUICK_CONSUMED: u64 = 1;

/// Devices that programs read.
const CONSUMED_FROM: [Device; 2] = [Device::Veth, Device::Tap];

/// A trial without loss at this part of the throughput.
const STEADY: f64 = 0.9;

/// The literal that is scanned for where there are no rules: `HTTP/1.1`.
const LITERAL: &str = "485454502f312e31\n";

struct Suite<'a> {
    options: &'a Options,
    program: PathBuf,
    folder: &'a Path,
    cores: Cores,
    stop: Arc<AtomicBool>,
    rules: Rules,
    lanes: Vec<Lane>,
    conversations: Vec<Conversation>,
    results: Results,
    notes: Vec<String>,
}

pub fn run(options: &Options) -> Result<Record> {
    let stop = watch_signals()?;
    network::enter()?;
    let folder = tempfile::tempdir_in(&options.folder).during("making a folder")?;
    let mut suite = Suite::open(options, folder.path(), stop)?;
    let sizes = if options.quick { &SIZES[..1] } else { &SIZES[..] };
    for &size in sizes {
        let is_wanted = |lane: &Lane| suite.includes(size, lane);
        if suite.lanes.iter().any(is_wanted) {
            suite.measure(size)?;
        }
    }
    if options.names("consumers") {
        suite.consumers()?;
    }
    suite.finish()
}

/// The files of rules of the larger data, or a file with a literal in place of them.
fn rules(data: &Path, folder: &Path) -> Result<Rules> {
    let cache = folder.join("cache");
    fs::create_dir(&cache).during(cache.display())?;
    let place = data.join("ids-rules");
    let mut files = if place.is_dir() { rule_files(&place)? } else { Vec::new() };
    if files.is_empty() {
        let file = folder.join("literals");
        fs::write(&file, LITERAL).during(file.display())?;
        files.push(file);
    }
    Ok(Rules { files, cache })
}

impl<'a> Suite<'a> {
    fn open(options: &'a Options, folder: &'a Path, stop: Arc<AtomicBool>) -> Result<Self> {
        let (cores, program) = (Cores::new()?, options.forebay()?);
        let rules = rules(&options.data, folder)?;
        let (conversations, are_captured) = connections::conversations(&options.data)?;
        let mut notes = Vec::new();
        if rules.are_literals() {
            let note = "there are no rules in FOREBAY_DATA: the literal `HTTP/1.1` is scanned for";
            notes.push(note.to_owned());
        }
        if !are_captured {
            let note = "there is no dev-mix.pcap in FOREBAY_DATA: payloads are generated";
            notes.push(note.to_owned());
        }
        let mut suite = Self {
            options,
            program,
            folder,
            cores,
            stop,
            rules,
            lanes: Vec::new(),
            conversations,
            results: Results::default(),
            notes,
        };
        suite.start()?;
        Ok(suite)
    }

    /// Starts all lanes.
    fn start(&mut self) -> Result<()> {
        let setup = Setup {
            program: &self.program,
            folder: self.folder,
            cores: &self.cores,
            rules: &self.rules,
        };
        let all = Device::ALL.into_iter().flat_map(|device| Mode::ALL.map(|mode| (device, mode)));
        let wanted = |(device, mode): &(Device, Mode)| {
            let engine = mode.engine();
            let is_included =
                SIZES.iter().any(|size| self.options.names(&format!("{size}/{device}/{engine}")));
            let is_consumed = self.options.names("consumers")
                && CONSUMED_FROM.contains(device)
                && [Mode::Annotate, Mode::Hold].contains(mode);
            self.options.has_engine(&engine) && (is_included || is_consumed) && device.has(*mode)
        };
        let mut lanes = Vec::new();
        if self.options.has_engine("bridge") {
            lanes.push(Lane::bridge(0, &setup)?);
        }
        for (number, (device, mode)) in (1..).zip(all.filter(wanted)) {
            eprintln!("starting {}, {device}", mode.engine());
            lanes.push(Lane::broker(number, device, mode, &setup)?);
        }
        ensure!(!lanes.is_empty(), "nothing is to be measured");
        self.lanes = lanes;
        Ok(())
    }

    fn includes(&self, size: usize, lane: &Lane) -> bool {
        self.options.names(&format!("{size}/{}/{}", lane.device, lane.engine()))
    }

    /// Measures all lanes with frames of a size.
    fn measure(&mut self, size: usize) -> Result<()> {
        eprintln!("{size} bytes");
        let mut load = Load::new(&self.conversations, size)?;
        for mode in [Mode::Hold, Mode::Prefix] {
            load.decide(mode, &self.program, &self.rules, self.folder)?;
        }
        self.notes.push(report::of_load(&load)?);
        let (rounds, time) =
            if self.options.quick { (QUICK_ROUNDS, QUICK_ROUND) } else { (ROUNDS, ROUND) };
        let mut lanes = std::mem::take(&mut self.lanes);
        let places: Vec<usize> =
            (0..lanes.len()).filter(|&place| self.includes(size, &lanes[place])).collect();
        let mut times = vec![Vec::new(); lanes.len()];
        lanes.iter_mut().for_each(|lane| lane.repeats = REPEATS);
        let mut scanning = Scanning::new(&self.rules, load.batches()?)?;
        let mut scanned = Vec::new();
        for round in 0..self.options.rounds.unwrap_or(rounds) {
            for &place in &places {
                let lane = &mut lanes[place];
                let trial = self.throughput(lane, &load, time)?;
                let (name, rate) = (lane.name(), trial.rate);
                eprintln!("{size} bytes, round {round}: {name}: {rate:.0} frames a second");
                times[place].push(trial);
            }
            // The first pass warms caches up.
            scanning.round()?;
            scanned.push(scanning.round()?);
        }
        for &place in &places {
            let lane = &mut lanes[place];
            let steady = self.steady(lane, &load, &times[place], time)?;
            let delays = self.delays(lane, &load)?;
            let subject = Subject { load: &load, mode: lane.mode, device: lane.device };
            self.results.0.push(subject.row(&times[place], &steady, &delays)?);
        }
        self.results.0.push(report::scanning_row(&load, scanned));
        self.lanes = lanes;
        Ok(())
    }

    fn throughput(&self, lane: &mut Lane, load: &Load, time: Duration) -> Result<Throughput> {
        on_lane(lane, load, (&self.cores, &self.stop, false), |trial| trial.throughput(time))
            .map(|outcome| outcome.0)
    }

    /// Offers a part of the median throughput.
    fn steady(
        &self,
        lane: &mut Lane,
        load: &Load,
        rounds: &[Throughput],
        time: Duration,
    ) -> Result<Throughput> {
        let rate = report::median_rate(rounds) * STEADY;
        on_lane(lane, load, (&self.cores, &self.stop, false), |trial| trial.offer(rate, 2 * time))
            .map(|outcome| outcome.0)
    }

    fn delays(&self, lane: &mut Lane, load: &Load) -> Result<Delays> {
        let time = if self.options.quick { QUICK_DELAY_TIME } else { DELAY_TIME };
        let trial = (&self.cores, &self.stop, true);
        let outcome = on_lane(lane, load, trial, |trial| trial.offer(DELAY_RATE, time))?;
        outcome.1.ok_or_else(|| "no delays were read".into())
    }

    /// Measures programs behind each kind of device of which there is a lane that passes all, and one
    /// that withholds.
    fn consumers(&mut self) -> Result<()> {
        let size = SIZES[0];
        let mut load = Load::new(&self.conversations, size)?;
        load.decide(Mode::Hold, &self.program, &self.rules, self.folder)?;
        let Some(withheld) = load.part(Mode::Hold, false)? else { return Ok(()) };
        consumers::write_rules(&self.rules.files, self.folder)?;
        let rounds = if self.options.quick { QUICK_CONSUMED } else { CONSUMED };
        let (cores, stop, folder) = (&self.cores, &*self.stop, self.folder);
        let measure =
            consumers::Measure { load: &load, withheld: &withheld, cores, stop, folder, rounds };
        let lane = |device, mode| {
            self.lanes.iter().find(|lane| lane.device == device && lane.mode == Some(mode))
        };
        for device in CONSUMED_FROM {
            let (Some(all), Some(hold)) = (lane(device, Mode::Annotate), lane(device, Mode::Hold))
            else {
                continue;
            };
            for consumer in Consumer::ALL {
                eprintln!("{consumer} behind {device}");
                let used = match measure.used(consumer, all, hold) {
                    Ok(used) => used,
                    Err(Failure(why)) => {
                        self.notes.push(format!("{consumer}: {why}"));
                        None
                    }
                };
                if used.is_none() {
                    self.notes.push(format!("{consumer} was not measured behind {device}"));
                }
                self.results.0.push(report::consumer_row(size, device, consumer, used));
            }
        }
        Ok(())
    }

    /// Ends all lanes, and makes the record.
    fn finish(mut self) -> Result<Record> {
        for lane in std::mem::take(&mut self.lanes) {
            let name = lane.name();
            let Some(account) = lane.close()? else { continue };
            ensure!(account.closes, "{name}: its account does not close: {account:?}");
            let lost: Vec<String> = account
                .losses
                .iter()
                .filter(|(place, _)| !place.ends_with(": withheld"))
                .map(|(place, frames)| format!("{frames} by {place}"))
                .collect();
            if !lost.is_empty() {
                let (all, lost) = (account.received, lost.join(", "));
                self.notes.push(format!("{name} lost, of {all} frames in all: {lost}"));
            }
        }
        self.notes.extend(report::way_back(&self.results));
        let bars = report::bars(&self.results);
        let shown = report::tables(&self.results) + &bar::text(&bars);
        let record = Record::new("gateway", self.notes, self.results.0, None);
        Ok(Record { shown, summary: json!({ "bars": bars }), ..record })
    }
}
