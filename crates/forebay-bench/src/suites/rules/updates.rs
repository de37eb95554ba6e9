//! Changes to a list while a reader matches packets against it.
//!
//! The reader runs on one processor, whoever changes the list and whatever rebuilds it
//! on another. There are two lists, the same at first, of which one is never changed.
//! Windows alternate: in one the reader matches against that, in the other against the
//! one that is being changed, and what it loses is the median over such pairs. So all
//! that earlier changes have left in a list counts as a loss, too. A change is one rule
//! inserted, deleted or moved, anywhere in the list, at even distances in time. It takes
//! as long as the call: when that returns, every later look at the list sees the change.
//! In the end the list's answers are held against the oracle's.
//!
//! A machine that is itself a guest stands still now and then, and so does whatever is
//! timed on it. What that comes to is measured beside: in the other windows, at the same
//! times, nothing is done for [`SPIN`], which takes as long as it takes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_jit::cpu;
use forebay_packet::BATCH;
use forebay_rules::engine::NO_RULE;
use forebay_rules::packed::Key4;
use forebay_rules::tree::{Live, LiveError, RuleId};
use forebay_rules::{Rule, RuleList};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Map, json};

use super::engines::first_match;
use crate::record::Row;
use crate::stats::{Sample, rounded};
use crate::{BenchError, io_error};
use forebay_packet::random::Random;

/// Changes a second.
pub const RATES: [u32; 2] = [100, 1_000];

/// How long a window is: ten changes at the lower rate.
const WINDOW: Duration = Duration::from_millis(100);

/// How long the reader runs before a window, so that its list is in the cache.
const SETTLING: Duration = Duration::from_millis(10);

/// How long nothing is done in place of a change: about what one takes.
const SPIN: Duration = Duration::from_micros(30);

/// Batches between two looks at whether the reader is to end.
const STRIDE: usize = 64;

/// Headers that the oracle is asked about in the end.
const ASKED: usize = 500;

/// What was measured at one rate.
#[derive(Clone, Debug)]
pub struct Updates {
    /// Changes a second.
    pub rate: u32,
    /// Microseconds of each change.
    pub micros: Vec<f64>,
    /// Microseconds that each [`SPIN`] took.
    pub spins: Vec<f64>,
    /// The part of its speed that the reader lost, of each pair of windows.
    pub losses: Vec<f64>,
    /// Nanoseconds a packet of the reader in windows with changes.
    pub nanos: Vec<f64>,
    /// How often the list was built anew meanwhile.
    pub merges: u64,
}

/// What the threads share.
struct Shared<'a> {
    /// The list that is changed.
    live: &'a Live,
    /// The list that is not.
    calm: &'a Live,
    /// Whether the reader is to use the one that is changed.
    busy: AtomicBool,
    keys: &'a [Key4],
    /// Packets that the reader has matched.
    matched: AtomicU64,
    ended: AtomicBool,
}

/// Measures `pairs` pairs of windows at each rate; nothing where there is one processor
/// only.
pub fn measure(
    list: &RuleList,
    keys: &[Key4],
    pairs: usize,
) -> Result<Option<Vec<Updates>>, BenchError> {
    let before = sched_getaffinity(None).map_err(|error| failed(error.into()))?;
    let mut processors = (0..CpuSet::MAX_CPU).filter(|&processor| before.is_set(processor));
    let (Some(readers), Some(writers)) = (processors.next(), processors.next()) else {
        return Ok(None);
    };
    // The thread that merges is started with the list and stays where it was started.
    pin(writers)?;
    let outcome = on_two(list, keys, pairs, readers);
    sched_setaffinity(None, &before).map_err(|error| failed(error.into()))?;
    outcome.map(Some)
}

fn failed(error: io::Error) -> BenchError {
    io_error("choosing a processor")(error)
}

/// Has this thread run on one processor.
fn pin(processor: usize) -> Result<(), BenchError> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).map_err(|error| failed(error.into()))
}

fn on_two(
    list: &RuleList,
    keys: &[Key4],
    pairs: usize,
    readers: usize,
) -> Result<Vec<Updates>, BenchError> {
    let wrong = |what: String| BenchError::WrongAnswer(what);
    let make = || Live::new(list, cpu::detect(), 1).map_err(|error| wrong(error.to_string()));
    let (live, calm) = (make()?, make()?);
    let shared = Shared {
        live: &live,
        calm: &calm,
        busy: AtomicBool::new(false),
        keys,
        matched: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    };
    let mut changes = Changes::new(&live, list);
    let measured = std::thread::scope(|scope| {
        let reader = scope.spawn(|| pin(readers).map(|()| shared.read()));
        let measured: Result<Vec<Updates>, BenchError> =
            RATES.into_iter().map(|rate| shared.at_rate(rate, pairs, &mut changes)).collect();
        shared.ended.store(true, Ordering::Relaxed);
        reader.join().unwrap_or_else(|_| Err(wrong("the reader panicked".to_owned())))?;
        measured
    })?;
    check(&live, keys)?;
    Ok(measured)
}

impl Shared<'_> {
    /// Matches headers until told to end.
    fn read(&self) {
        let mut rules = [0; BATCH];
        for (index, keys) in self.keys.chunks_exact(BATCH).cycle().enumerate() {
            let busy = self.busy.load(Ordering::Relaxed);
            let live = if busy { self.live } else { self.calm };
            live.read().classify4(keys, &mut rules);
            self.matched.fetch_add(BATCH as u64, Ordering::Relaxed);
            if index % STRIDE == 0 && self.ended.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn at_rate(
        &self,
        rate: u32,
        pairs: usize,
        changes: &mut Changes<'_>,
    ) -> Result<Updates, BenchError> {
        let merges = self.live.merges();
        let (mut losses, mut nanos) = (Vec::new(), Vec::new());
        let (mut micros, mut spins) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            let calm = self.window(false, rate, || {
                spins.push(spin());
                Ok(())
            })?;
            let busy = self.window(true, rate, || {
                micros.push(changes.make()?);
                Ok(())
            })?;
            losses.push(1.0 - busy / calm);
            nanos.push(1e9 / busy);
        }
        let merges = self.live.merges() - merges;
        Ok(Updates { rate, micros, spins, losses, nanos, merges })
    }

    /// Packets a second of the reader while `work` is done so often a second.
    fn window(
        &self,
        busy: bool,
        rate: u32,
        mut work: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<f64, BenchError> {
        self.busy.store(busy, Ordering::Relaxed);
        std::thread::sleep(SETTLING);
        let (started, before) = (Instant::now(), self.matched.load(Ordering::Relaxed));
        let interval = Duration::from_secs(1) / rate;
        for due in (0..).map(|number| interval * number).take_while(|due| *due < WINDOW) {
            std::thread::sleep(due.saturating_sub(started.elapsed()));
            work()?;
        }
        std::thread::sleep(WINDOW.saturating_sub(started.elapsed()));
        let matched = self.matched.load(Ordering::Relaxed) - before;
        Ok(matched as f64 / started.elapsed().as_secs_f64())
    }
}

/// Does nothing for [`SPIN`]. Returns the microseconds that it took.
fn spin() -> f64 {
    let started = Instant::now();
    while started.elapsed() < SPIN {
        std::hint::spin_loop();
    }
    started.elapsed().as_secs_f64() * 1e6
}

/// Draws changes and makes them.
struct Changes<'a> {
    live: &'a Live,
    /// What is in the list, in no order.
    held: Vec<(RuleId, Arc<Rule>)>,
    /// What has been taken out and is to be put in again.
    taken: Option<Arc<Rule>>,
    random: Random,
}

impl<'a> Changes<'a> {
    fn new(live: &'a Live, list: &RuleList) -> Self {
        let random = Random::new(list.rules.len() as u64);
        Self { live, held: live.rules(), taken: None, random }
    }

    /// Makes a change: in turns a rule is moved, taken out, or put in again elsewhere.
    /// Returns microseconds.
    fn make(&mut self) -> Result<f64, BenchError> {
        let wrong = |error: LiveError| BenchError::WrongAnswer(format!("an update: {error}"));
        let position = self.random.index(self.held.len());
        let drawn = self.random.index(self.held.len());
        if let Some(rule) = self.taken.take() {
            let (to_insert, started) = (Rule::clone(&rule), Instant::now());
            let id = self.live.insert(position, to_insert).map_err(wrong)?;
            let micros = started.elapsed().as_secs_f64() * 1e6;
            self.held.push((id, rule));
            return Ok(micros);
        }
        let started = Instant::now();
        if self.random.index(2) == 0 {
            self.live.relocate(self.held[drawn].0, position).map_err(wrong)?;
            return Ok(started.elapsed().as_secs_f64() * 1e6);
        }
        self.live.delete(self.held[drawn].0).map_err(wrong)?;
        let micros = started.elapsed().as_secs_f64() * 1e6;
        self.taken = Some(self.held.swap_remove(drawn).1);
        Ok(micros)
    }
}

/// Holds the list's answers against the oracle's.
fn check(live: &Live, keys: &[Key4]) -> Result<(), BenchError> {
    let held = live.rules();
    let rules = held.iter().map(|(_, rule)| Rule::clone(rule)).collect();
    let list = RuleList { rules, ..RuleList::default() };
    let keys = &keys[..keys.len().min(ASKED)];
    let mut answers = vec![0; keys.len()];
    live.read().classify4(keys, &mut answers);
    for (key, answer) in keys.iter().zip(answers) {
        let right = match first_match(&list, key) {
            NO_RULE => NO_RULE,
            index => held[index as usize].0.number,
        };
        if answer != right {
            let complaint = format!("updates: {key:?}: rule {answer} instead of {right}");
            return Err(BenchError::WrongAnswer(complaint));
        }
    }
    Ok(())
}

impl Updates {
    /// Microseconds that this part of the changes took less than.
    pub fn quantile(&self, fraction: f64) -> f64 {
        Sample::new(self.micros.clone()).quantile(fraction)
    }

    /// Microseconds that this part of the times in which nothing was done took less than.
    pub fn spin_quantile(&self, fraction: f64) -> f64 {
        Sample::new(self.spins.clone()).quantile(fraction)
    }

    /// The part of its speed that the reader lost.
    pub fn loss(&self) -> f64 {
        Sample::new(self.losses.clone()).median()
    }

    /// The measurement as a row.
    pub fn row(&self, case: &str, gigahertz: f64) -> Row {
        let nanos = Sample::new(self.nanos.clone());
        let losses = Sample::new(self.losses.clone());
        let mut more = Map::new();
        let mut add = |key: &str, value| more.insert(key.to_owned(), value);
        add("update_p50_us", json!(rounded(self.quantile(0.5))));
        add("update_p99_us", json!(rounded(self.quantile(0.99))));
        add("spin_p50_us", json!(rounded(self.spin_quantile(0.5))));
        add("spin_p99_us", json!(rounded(self.spin_quantile(0.99))));
        add("updates", json!(self.micros.len()));
        add("reader_loss", json!(rounded(losses.median())));
        add("reader_loss_spread", json!(losses.spread().map(rounded)));
        add("merges", json!(self.merges));
        Row {
            case: case.to_owned(),
            set: format!("updates-{}", self.rate),
            engine: "tree".to_owned(),
            ns: Some(rounded(nanos.median())),
            cycles: Some(rounded(nanos.median() * gigahertz)),
            n: self.losses.len(),
            spread: Some(nanos.spread().map(rounded)),
            more,
        }
    }
}
