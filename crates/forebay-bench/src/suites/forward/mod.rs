//! Forwarding: each type of port, the kernel's bridge and nftables, between the same kind of
//! interfaces, with the same frames.

mod arrival;
pub mod broker;
pub mod forwarders;
mod loss_free;
mod measure;
pub mod network;
mod paper;
mod report;
pub mod sender;
pub mod traffic;
mod verify;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::bar;
use crate::cores::Cores;
use crate::failure::{During, Failure, Result, ensure};
use crate::options::Options;
use crate::record::{Record, Results, Row};
use arrival::{Sink, SinkKind};
use forwarders::{Forwarder, Kind};
use loss_free::Trials;
use measure::{Offered, Path, SendingCost};
use report::{STEADY, Set, Subject};
use traffic::{Addressed, Size, Traffic};

/// Rounds of capacity, and how long one takes of a forwarder.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(1);
const QUICK_ROUNDS: usize = 3;
const QUICK_ROUND: Duration = Duration::from_millis(250);

/// The rate that is set for [`STEADY`] is higher by this factor, as the generator keeps a rate
/// only roughly.
const MARGIN: f64 = 1.05;

/// How often a trial below [`STEADY`] is repeated, each time with a higher rate by that factor.
const REPEATS: usize = 3;

/// The search for the rate without loss begins at the capacity times this factor.
const HEADROOM: f64 = 1.1;

/// A forwarder, and all frames that were sent to it and arrived from it.
struct Participant {
    forwarder: Forwarder,
    sent: u64,
    arrived: u64,
}

struct Suite<'a> {
    options: &'a Options,
    cores: Cores,
    stop: Arc<AtomicBool>,
    nobody: Forwarder,
    participants: Vec<Participant>,
    results: Results,
    /// Rows of the generator, and empty ones of forwarders that are missing.
    last_rows: Vec<Row>,
    /// Forwarders that cannot take part.
    missing: Vec<String>,
    verified: u64,
    notes: Vec<String>,
}

pub fn run(options: &Options) -> Result<Record> {
    let stop = watch_signals()?;
    network::enter()?;
    let folder = tempfile::tempdir().during("making a folder")?;
    let mut suite = Suite::open(options, folder.path(), stop)?;
    let sizes: &[Size] = if options.quick { &Size::QUICK } else { &Size::ALL };
    for &size in sizes {
        if Set::ALL.into_iter().any(|set| suite.includes(size, set)) {
            suite.measure(size)?;
        }
    }
    suite.finish()
}

/// The first signal to end sets a flag, so that forwarders are ended; the second ends this
/// process at once.
pub fn watch_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .during("handling signals")?;
    }
    Ok(stop)
}

impl<'a> Suite<'a> {
    /// Makes all interfaces and starts all forwarders.
    fn open(options: &'a Options, folder: &std::path::Path, stop: Arc<AtomicBool>) -> Result<Self> {
        let cores = Cores::new()?;
        let program = options.forebay()?;
        let open = |kind, number| Forwarder::open(kind, number, &program, folder, &cores);
        let nobody = open(Kind::Nobody, 0)??;
        let wanted = &options.engines;
        let mut kinds = Kind::all(cores.workers.len());
        let names: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
        if let Some(unknown) = wanted.iter().find(|name| !names.contains(name)) {
            return Err(format!(
                "there is no engine '{unknown}' on this machine; expected one of {}",
                names.join(", ")
            )
            .into());
        }
        kinds.retain(|kind| wanted.is_empty() || wanted.contains(&kind.name()));
        let mut suite = Self {
            options,
            stop,
            nobody,
            participants: Vec::new(),
            results: Results::default(),
            last_rows: Vec::new(),
            missing: Vec::new(),
            verified: 0,
            notes: Vec::new(),
            cores: cores.clone(),
        };
        for (number, kind) in (1..).zip(kinds) {
            eprintln!("starting {}", kind.name());
            match open(kind, number)? {
                Ok(forwarder) => {
                    suite.participants.push(Participant { forwarder, sent: 0, arrived: 0 });
                }
                Err(Failure(note)) => {
                    suite.missing.push(kind.name());
                    suite.notes.push(note);
                }
            }
        }
        Ok(suite)
    }

    fn includes(&self, size: Size, set: Set) -> bool {
        self.options.names(&format!("{size}/{set}"))
    }

    fn trials(&self) -> Trials {
        if self.options.quick { loss_free::QUICK } else { loss_free::FULL }
    }

    /// Measures all forwarders with frames of one size.
    fn measure(&mut self, size: Size) -> Result<()> {
        eprintln!("{size} bytes");
        let to_sensors = Arc::new(Traffic::new(size, Addressed::ToSensors)?);
        let to_one = Arc::new(Traffic::new(size, Addressed::ToOne)?);
        let traffic_of = |kind: Kind| match kind.addressed() {
            Addressed::ToSensors => Arc::clone(&to_sensors),
            Addressed::ToOne => Arc::clone(&to_one),
        };
        let cost = self.sending_cost(size, &to_one)?;
        for place in 0..self.participants.len() {
            let traffic = traffic_of(self.participants[place].forwarder.kind);
            self.verify(place, &traffic)?;
        }
        for sink in SinkKind::ALL {
            let mut turns = Vec::new();
            for place in 0..self.participants.len() {
                let Participant { forwarder, .. } = &self.participants[place];
                let traffic = traffic_of(forwarder.kind);
                let counter = Sink::open(sink, &forwarder.arrives)?;
                let name = forwarder.kind.name();
                let user_space = forwarder.kind.is_user_space();
                let mean = to_one.mean;
                let subject = Subject { size, mean, sink, engine: name, user_space };
                turns.push(Turn { place, traffic, sink: counter, subject, rows: Vec::new() });
            }
            if self.includes(size, Set::Capacity) {
                self.capacity(&mut turns, cost)?;
            }
            if sink == SinkKind::Xdp {
                self.at_rates(size, &mut turns)?;
            }
            self.results.0.extend(turns.into_iter().flat_map(|turn| turn.rows));
        }
        let missing = self.missing.iter();
        let empty = |engine| Row::new(size.to_string(), Set::Capacity, engine, Vec::new());
        self.last_rows.extend(missing.map(empty));
        Ok(())
    }

    fn sending_cost(&mut self, size: Size, traffic: &Arc<Traffic>) -> Result<SendingCost> {
        let sink = Sink::open(SinkKind::Stack, &self.nobody.sends)?;
        let mut path = Path::open(&mut self.nobody, traffic, &sink, &self.cores, &self.stop)?;
        let cost = path.sending_cost(if self.options.quick { QUICK_ROUND } else { ROUND })?;
        path.close()?;
        self.last_rows.push(report::sending_row(size, cost));
        Ok(cost)
    }

    /// Checks every frame of a forwarder for a while.
    fn verify(&mut self, place: usize, traffic: &Arc<Traffic>) -> Result<()> {
        let one = &mut self.participants[place];
        one.forwarder.begin()?;
        let frames = verify::check(&mut one.forwarder, traffic, &self.cores, &self.stop)?;
        one.forwarder.end()?;
        one.sent += frames;
        one.arrived += frames;
        self.verified += frames;
        Ok(())
    }

    /// Rounds, in each of which every forwarder has its turn.
    fn capacity(&mut self, turns: &mut [Turn], cost: SendingCost) -> Result<()> {
        let (usual, duration) =
            if self.options.quick { (QUICK_ROUNDS, QUICK_ROUND) } else { (ROUNDS, ROUND) };
        let mut rounds = vec![Vec::new(); turns.len()];
        for _ in 0..self.options.rounds.unwrap_or(usual) {
            for (turn, rounds) in turns.iter().zip(&mut rounds) {
                rounds.push(self.on_path(turn, |path| path.capacity(duration, cost))?);
            }
        }
        for (turn, rounds) in turns.iter_mut().zip(rounds) {
            turn.rows.push(turn.subject.capacity(&rounds, &self.cores));
        }
        Ok(())
    }

    /// The highest rates without loss, and losses at given rates.
    fn at_rates(&mut self, size: Size, turns: &mut [Turn]) -> Result<()> {
        let trials = self.trials();
        for turn in turns {
            let kind = self.participants[turn.place].forwarder.kind;
            let mut rows = Vec::new();
            if self.includes(size, Set::LossFree) {
                let most = self.most(turn)?;
                let found = self.on_path(turn, |path| loss_free::search(path, most, trials))?;
                rows.push(turn.subject.loss_free(&found, &self.cores));
            }
            if self.includes(size, Set::Steady) && size == Size::Bytes(64) && kind.is_user_space() {
                let one = |_| self.on_path(turn, |path| steady(path, trials.last));
                let offered: Vec<Offered> = (0..trials.count).map(one).collect::<Result<_, _>>()?;
                rows.push(turn.subject.trials(Set::Steady, &offered, &self.cores));
            }
            if self.includes(size, Set::PaperRate) && size == Size::Bytes(paper::SIZES[1]) {
                let rate = Some(paper::paper_rate());
                let offered = self.on_path(turn, |path| path.offer(rate, trials.search))?;
                rows.push(turn.subject.trials(Set::PaperRate, &[offered], &self.cores));
            }
            turn.rows.extend(rows);
        }
        Ok(())
    }

    /// A rate beyond the forwarder's rate without loss.
    fn most(&mut self, turn: &Turn) -> Result<f64> {
        if let Some(ns) = turn.rows.first().and_then(|row| row.ns) {
            return Ok(1e9 / ns * HEADROOM);
        }
        let cost = SendingCost::default();
        let capacity = self.on_path(turn, |path| path.capacity(ROUND, cost))?;
        Ok(capacity.rate * HEADROOM)
    }

    /// Runs a trial of a forwarder.
    fn on_path<T>(
        &mut self,
        turn: &Turn,
        act: impl FnOnce(&mut Path<'_>) -> Result<T>,
    ) -> Result<T> {
        let one = &mut self.participants[turn.place];
        one.forwarder.begin()?;
        let mut path =
            Path::open(&mut one.forwarder, &turn.traffic, &turn.sink, &self.cores, &self.stop)?;
        let outcome = act(&mut path)?;
        let (sent, arrived) = path.close()?;
        one.forwarder.end()?;
        one.sent += sent;
        one.arrived += arrived;
        Ok(outcome)
    }

    /// Ends all forwarders, compares their accounts with our counts, and makes the record.
    fn finish(mut self) -> Result<Record> {
        for one in std::mem::take(&mut self.participants) {
            let name = one.forwarder.kind.name();
            let Some(account) = one.forwarder.close()? else { continue };
            let lost: u64 = account.losses.iter().map(|(_, frames)| frames).sum();
            let ours = (one.sent, one.arrived);
            ensure!(
                account.closes && (account.received, account.sent) == ours,
                "{name}: {ours:?} frames were sent and arrived, but its account is {account:?}"
            );
            if lost > 0 {
                let named: Vec<String> = account
                    .losses
                    .iter()
                    .map(|(place, frames)| format!("{frames} by {place}"))
                    .collect();
                let sent = one.sent;
                self.notes
                    .push(format!("{name} lost, of {sent} frames in all: {}", named.join(", ")));
            }
        }
        self.note_conditions();
        self.results.add_ratios("ratio_to_bridge", |_, row| {
            let suffix = if row.engine.ends_with("-skb") { "-skb" } else { "" };
            (row.set == Set::Capacity.to_string()).then(|| format!("bridge{suffix}"))
        });
        let bars = report::bars(&self.results);
        if let Some(folder) = &self.options.plots {
            report::figure(folder, &self.results)?;
        }
        let shown = report::tables(&self.results) + &bar::text(&bars);
        let rows = self.results.0.into_iter().chain(self.last_rows).collect();
        let record = Record::new("forward", self.notes, rows, None);
        Ok(Record { shown, summary: json!({ "bars": bars }), ..record })
    }

    fn note_conditions(&mut self) {
        let Cores { generator, workers, .. } = &self.cores;
        self.notes.push(format!(
            "core {generator}: the generator, and all that the kernel does for a frame sent by it \
             (NAPI of the input; for bridge, nftables and xdp all the way into the sink); cores \
             {workers:?}: workers of af_packet, af_xdp and tap, and the sink behind them"
        ));
        self.notes.push(format!(
            "{} frames were checked one by one before anything was timed: all arrived once, in \
             their flow's order, at one sensor a flow",
            self.verified
        ));
        self.notes.push(
            "CPU time is that of /proc/stat (user, system, interrupts) over all cores, less what \
             the generator takes for its frames and its pauses, measured beside"
                .to_owned(),
        );
        if self.options.quick {
            self.notes.push("quick: two sizes, short rounds and trials".to_owned());
        }
    }
}

/// Sends at [`STEADY`] frames a second. A trial in which the generator did not reach that and
/// nothing was lost shows nothing, and is repeated.
fn steady(path: &mut Path<'_>, duration: Duration) -> Result<Offered> {
    let mut rate = STEADY * MARGIN;
    let mut offered = path.offer(Some(rate), duration)?;
    for _ in 0..REPEATS {
        if offered.lost > 0 || offered.rate >= STEADY {
            break;
        }
        rate *= MARGIN;
        offered = path.offer(Some(rate), duration)?;
    }
    Ok(offered)
}

/// What a forwarder's turn takes, and its rows.
struct Turn {
    place: usize,
    traffic: Arc<Traffic>,
    sink: Sink,
    subject: Subject,
    rows: Vec<Row>,
}
