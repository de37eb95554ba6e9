//! Changes to a list while a reader matches packets against it.
//!
//! The reader runs on one processor, the thread that changes the list and the one that
//! rebuilds it on another. Windows take turns: in the first the reader matches against the
//! original list, in the second against a list with the current rules, built anew, in the third
//! against the list that is being changed. A change is one rule inserted, deleted or moved,
//! anywhere in the list, at even distances in time. That makes the list itself slower: in the
//! original order general rules come last, so that few packets are compared with them. So the
//! reader's loss by changes, the median over turns, is that against the list built anew: all that
//! earlier changes have left in a list counts. The loss against the original list is noted beside
//! it. The time of a change is that of the call: when that returns, every later look-up sees the
//! change. In the end the list's answers are compared with the oracle's.
//!
//! A virtual machine is stopped now and then by its host, in whatever is timed. To measure
//! that, an idle loop runs for [`SPIN`] in the other windows, at the same times.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_packet::BATCH;
use forebay_packet::random::Random;
use forebay_rules::engine::NO_RULE;
use forebay_rules::live::{Live, RuleId};
use forebay_rules::packed::Key4;
use forebay_rules::{Rule, RuleList};

use super::engines::{TREE, first_match, level};
use crate::cores::Cores;
use crate::failure::{Result, ensure};
use crate::record::Row;
use crate::stats::Sample;

/// Changes a second.
pub const RATES: [u32; 2] = [100, 1_000];

/// The set of a row of this rate.
pub fn set(rate: u32) -> String {
    format!("updates-{rate}")
}

/// How long a window is: ten changes at the lower rate.
const WINDOW: Duration = Duration::from_millis(100);

/// How long the reader runs before a window, so that its list is in the cache.
const SETTLING: Duration = Duration::from_millis(10);

/// How long the idle loop runs in place of a change: about the time of a change.
const SPIN: Duration = Duration::from_micros(30);

/// Batches between two checks which list the reader is to match against, and whether to end.
const STRIDE: usize = 64;

/// Headers that are compared with the oracle in the end.
const CHECKED: usize = 500;

/// A list is built anew for comparison when one of so many rules was changed since.
const OUTDATED: usize = 100;

struct Shared<'a> {
    /// The list that the reader uses.
    list: Mutex<Arc<Live>>,
    keys: &'a [Key4],
    /// Packets that the reader has matched.
    matched: AtomicU64,
    ended: AtomicBool,
}

/// Measures `turns` turns of windows at each rate. Returns a row for each; none where there is
/// only one processor.
pub fn measure(
    case: &str,
    list: &RuleList,
    keys: &[Key4],
    turns: usize,
) -> Result<Option<Vec<Row>>> {
    let cores = Cores::new()?;
    let (reader, writer) = (cores.generator, cores.workers[0]);
    if reader == writer {
        return Ok(None);
    }
    // The thread that rebuilds stays where it is started.
    Cores::pin(&[writer])?;
    let make = || Live::new(list, level(), 1).map(Arc::new);
    let (first, live) = (make()?, make()?);
    let shared = Shared {
        list: Mutex::new(Arc::clone(&first)),
        keys,
        matched: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    };
    let mut changes = Changes::new(&live, list);
    let measured = std::thread::scope(|scope| {
        let reader = scope.spawn(|| Cores::pin(&[reader]).map(|()| shared.read()));
        let at_rate = |rate| shared.at_rate(case, rate, turns, (&first, &mut changes));
        let measured: Result<Vec<Row>> = RATES.into_iter().map(at_rate).collect();
        shared.ended.store(true, Ordering::Relaxed);
        reader.join().unwrap_or_else(|_| Err("the reader panicked".into()))?;
        measured
    })?;
    cores.release()?;
    check(&live, keys)?;
    Ok(Some(measured))
}

impl Shared<'_> {
    /// Matches headers until `ended` is set.
    fn read(&self) {
        let mut rules = [0; BATCH];
        let mut batches = self.keys.chunks_exact(BATCH).cycle();
        while !self.ended.load(Ordering::Relaxed) {
            let list = Arc::clone(&self.list.lock().unwrap_or_else(PoisonError::into_inner));
            for keys in batches.by_ref().take(STRIDE) {
                list.read().classify4(keys, &mut rules);
                self.matched.fetch_add(BATCH as u64, Ordering::Relaxed);
            }
        }
    }

    fn at_rate(
        &self,
        case: &str,
        rate: u32,
        turns: usize,
        (first, changes): (&Arc<Live>, &mut Changes<'_>),
    ) -> Result<Row> {
        let merges = changes.live.merges();
        let (mut losses, mut to_first, mut nanos) = (Vec::new(), Vec::new(), Vec::new());
        let (mut micros, mut spins) = (Vec::new(), Vec::new());
        let mut anew = (changes.build_anew()?, 0);
        for _ in 0..turns {
            if (micros.len() - anew.1) * OUTDATED >= changes.held.len() {
                anew = (changes.build_anew()?, micros.len());
            }
            let mut calm = |list| {
                self.window(list, rate, || {
                    spins.push(spin());
                    Ok(())
                })
            };
            let (of_first, of_anew) = (calm(first)?, calm(&anew.0)?);
            let live = Arc::clone(changes.live);
            let busy = self.window(&live, rate, || {
                micros.push(changes.make()?);
                Ok(())
            })?;
            losses.push(1.0 - busy / of_anew);
            to_first.push(1.0 - busy / of_first);
            nanos.push(1e9 / busy);
        }
        let merges = changes.live.merges() - merges;
        let updates = micros.len();
        let [micros, spins, losses, to_first] = [micros, spins, losses, to_first].map(Sample::new);
        Ok(Row::new(case, set(rate), TREE, nanos)
            .with("update_p50_us", micros.median())
            .with("update_p99_us", micros.quantile(0.99))
            .with("spin_p50_us", spins.median())
            .with("spin_p99_us", spins.quantile(0.99))
            .with("updates", updates)
            .with("reader_loss", losses.median())
            .with("reader_loss_spread", losses.spread())
            .with("reader_loss_to_first", to_first.median())
            .with("merges", merges))
    }

    /// Packets a second of the reader with a list while `work` is done at a rate.
    fn window(
        &self,
        list: &Arc<Live>,
        rate: u32,
        mut work: impl FnMut() -> Result<()>,
    ) -> Result<f64> {
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(list);
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

/// Runs an idle loop for [`SPIN`]. Returns the microseconds that it took.
fn spin() -> f64 {
    let started = Instant::now();
    while started.elapsed() < SPIN {
        std::hint::spin_loop();
    }
    started.elapsed().as_secs_f64() * 1e6
}

/// Draws changes and makes them.
struct Changes<'a> {
    live: &'a Arc<Live>,
    /// The rules in the list, in no order.
    held: Vec<(RuleId, Arc<Rule>)>,
    /// A deleted rule, which is inserted again.
    taken: Option<Arc<Rule>>,
    random: Random,
}

impl<'a> Changes<'a> {
    fn new(live: &'a Arc<Live>, list: &RuleList) -> Self {
        let random = Random::new(list.rules.len() as u64);
        Self { live, held: live.rules(), taken: None, random }
    }

    /// A list with the rules that there are now.
    fn build_anew(&self) -> Result<Arc<Live>> {
        let rules = self.live.rules().iter().map(|(_, rule)| Rule::clone(rule)).collect();
        Ok(Arc::new(Live::new(&RuleList { rules, ..RuleList::default() }, level(), 1)?))
    }

    /// Makes a change: a rule is moved or deleted, or the last deleted one inserted elsewhere.
    /// Returns microseconds.
    fn make(&mut self) -> Result<f64> {
        let position = self.random.index(self.held.len());
        let drawn = self.random.index(self.held.len());
        if let Some(rule) = self.taken.take() {
            let (to_insert, started) = (Rule::clone(&rule), Instant::now());
            let id = self.live.insert(position, to_insert)?;
            let micros = started.elapsed().as_secs_f64() * 1e6;
            self.held.push((id, rule));
            return Ok(micros);
        }
        let started = Instant::now();
        if self.random.index(2) == 0 {
            self.live.relocate(self.held[drawn].0, position)?;
            return Ok(started.elapsed().as_secs_f64() * 1e6);
        }
        self.live.delete(self.held[drawn].0)?;
        let micros = started.elapsed().as_secs_f64() * 1e6;
        self.taken = Some(self.held.swap_remove(drawn).1);
        Ok(micros)
    }
}

/// Compares the list's answers with the oracle's.
fn check(live: &Live, keys: &[Key4]) -> Result<()> {
    let held = live.rules();
    let rules = held.iter().map(|(_, rule)| Rule::clone(rule)).collect();
    let list = RuleList { rules, ..RuleList::default() };
    let keys = &keys[..keys.len().min(CHECKED)];
    let mut answers = vec![0; keys.len()];
    live.read().classify4(keys, &mut answers);
    for (key, answer) in keys.iter().zip(answers) {
        let right = match first_match(&list, key) {
            NO_RULE => NO_RULE,
            index => held[index as usize].0.number,
        };
        ensure!(answer == right, "updates: {key:?}: rule {answer} instead of {right}");
    }
    Ok(())
}
