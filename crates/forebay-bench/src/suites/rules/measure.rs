//! Rounds over headers in each set.
//!
//! Before each timed run the engine runs, untimed, over other headers for a while
//! ([`WARM_UP`]), so that its code and its data are in the caches as far as they fit: a list
//! is in use for hours, and only headers come and go. Then, in `cache` and `trace`, it reads
//! the headers that it is timed on, without matching them.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use forebay_packet::BATCH;
use forebay_packet::random::Random;
use forebay_rules::packed::Key4;

use super::engines::Contenders;
use crate::failure::{Failure, Result};
use crate::named::named;
use crate::peers::matcher::Matcher;
use crate::peers::stopwatch::Stopwatch;
use crate::rounds::{Contender, Timing, Trial};

/// How long an engine runs over other headers before it is timed.
const WARM_UP: Duration = Duration::from_millis(1);

named! {
    /// The headers of a row, and how many a call.
    pub enum Set {
        /// Headers that fit into the second level of the cache, and the same with many a call.
        Cache = "cache",
        CacheWide = "cache-4096",
        /// A million, and the same with many a call.
        Memory = "memory",
        MemoryWide = "memory-4096",
        /// ClassBench's trace.
        Trace = "trace",
    }
}

impl Set {
    /// Packets a call.
    pub fn batch(self) -> usize {
        match self {
            Self::CacheWide | Self::MemoryWide => 4_096,
            Self::Cache | Self::Memory | Self::Trace => BATCH,
        }
    }

    /// Whether a round is cut into slices.
    pub fn is_sliced(self) -> bool {
        matches!(self, Self::Memory | Self::MemoryWide)
    }
}

/// Headers, and the first rule that each matches.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    pub keys: Vec<Key4>,
    pub expected: Vec<u32>,
}

/// A list with its engines, and the sets to measure it on.
pub struct UnderWay {
    pub contenders: Contenders,
    /// Headers to warm up with.
    pub others: Vec<Key4>,
    pub sets: Vec<OnSet>,
}

/// A set to measure a list on.
pub struct OnSet {
    set: Set,
    headers: Headers,
    /// The trial before its first round.
    trial: Trial,
}

impl OnSet {
    /// Of `contenders`, those that `wanted` accepts take part.
    pub fn new(
        case: &str,
        (set, headers): (Set, Headers),
        contenders: &Contenders,
        wanted: impl Fn(&Contender<dyn Matcher>) -> bool,
    ) -> Self {
        Self { set, headers, trial: Trial::new(case, set, contenders, wanted) }
    }

    /// Headers, and the part of them that a rule matches.
    pub fn matched(&self) -> (usize, f64) {
        let Headers { keys, expected } = &self.headers;
        let matched = expected.iter().filter(|&&rule| rule != u32::MAX).count();
        (keys.len(), matched as f64 / keys.len() as f64)
    }

    /// Measures every contender once.
    fn round(
        &self,
        timing: &mut Timing,
        trial: &mut Trial,
        contenders: &mut Contenders,
        others: &[Key4],
    ) -> Result<()> {
        let number = timing.next_round();
        let Headers { keys, expected } = &self.headers;
        let order = Random::new(number).draw(keys.len(), keys.len());
        let ordered = order.iter().map(|&i| keys[i as usize]);
        // Those to warm up with are behind those to time.
        let keys: Vec<Key4> = ordered.chain(others.iter().copied()).collect();
        let expected: Vec<u32> = order.iter().map(|&i| expected[i as usize]).collect();
        for (contender, times) in contenders.iter_mut().zip(&mut trial.times) {
            let Some(matcher) = contender.engine.as_mut().filter(|_| times.is_some()) else {
                continue;
            };
            if let Err(Failure(why)) = matcher.load(&keys) {
                contender.notes.push(format!("{}: {why}", contender.name));
                *times = None;
            }
        }
        let (stopwatch, set) = (timing.stopwatch, self.set);
        let packets = (expected.len(), set.is_sliced());
        trial.round(number, contenders, packets, |matcher, _, range| {
            turn(&stopwatch, set, matcher, &keys, &expected, range)
        })
    }
}

/// Measures all contenders of all lists in each round, on each of their sets.
pub fn measure(timing: &mut Timing, lists: &mut [UnderWay], rounds: usize) -> Result<Vec<Trial>> {
    timing.steady(|timing| {
        let sets = lists.iter().flat_map(|list| &list.sets);
        let mut trials: Vec<Trial> = sets.map(|on| on.trial.clone()).collect();
        for _ in 0..rounds {
            let mut trials = trials.iter_mut();
            for UnderWay { contenders, others, sets } in &mut *lists {
                for (on, trial) in sets.iter().zip(&mut trials) {
                    on.round(timing, trial, contenders, others)?;
                }
            }
        }
        Ok(trials)
    })
}

/// Runs over the headers of `range`. Returns nanoseconds a packet, or what is wrong.
fn turn(
    stopwatch: &Stopwatch,
    set: Set,
    matcher: &mut dyn Matcher,
    keys: &[Key4],
    expected: &[u32],
    range: Range<usize>,
) -> Result<f64> {
    warm_up(matcher, keys, expected.len());
    let (keys, expected) = (&keys[range.clone()], &expected[range.clone()]);
    if !set.is_sliced() {
        let fields = |key: &Key4| u64::from(key.source) + u64::from(key.flags);
        black_box(keys.iter().map(fields).sum::<u64>());
        black_box(matcher.touch(range.start, range.len()));
    }
    let batch = matcher.batch().unwrap_or(set.batch());
    let mut rules = vec![0; keys.len()];
    let ticks = stopwatch.ticks(|| {
        let mut first = range.start;
        for (keys, rules) in keys.chunks(batch).zip(rules.chunks_mut(batch)) {
            matcher.run(keys, first, rules);
            first += keys.len();
        }
    });
    matcher.answers(&mut rules);
    if rules == expected {
        return Ok(stopwatch.nanos(ticks) / keys.len() as f64);
    }
    let both = keys.iter().zip(rules.iter().zip(expected));
    let wrong: Vec<_> = both.filter(|(_, (rule, right))| rule != right).collect();
    let first = wrong.first().map_or_else(String::new, |(key, (rule, right))| {
        format!(", the first for {key:?}: {rule} instead of {right}")
    });
    Err(format!("{} of {} answers are wrong{first}", wrong.len(), rules.len()).into())
}

/// Runs for a while over the headers behind the first `first`.
fn warm_up(matcher: &mut dyn Matcher, keys: &[Key4], first: usize) {
    let mut rules = [0; BATCH];
    let started = Instant::now();
    let mut at = first;
    while first < keys.len() && started.elapsed() < WARM_UP {
        let end = keys.len().min(at + BATCH);
        matcher.run(&keys[at..end], at, &mut rules[..end - at]);
        at = if end == keys.len() { first } else { end };
    }
}
