//! Rounds: in each, every engine matches the same headers in the same order, one that no
//! engine has seen before.
//!
//! The order of the engines is drawn anew, too. Before each timed run the engine runs,
//! untimed, over other headers for a while ([`WARM_UP`]), so that its code and what it
//! matches by are in the caches as far as they fit: a list is matched against for hours,
//! and only headers come and go. Then, in `cache` and `trace`, it reads the headers it is
//! about to be timed on, without matching them.
//!
//! A round of a million headers goes in slices, and engines take turns slice by slice
//! ([`turns`]), so that their pairs lie within milliseconds where the speed of the
//! machine is not steady. A round's time is the median of its slices'.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use forebay_packet::BATCH;
use forebay_rules::packed::Key4;

use super::engines::{Contender, Matcher, Role};
use super::sets::Set;
use crate::BenchError;
use crate::clock::Clock;
use crate::peers::stopwatch::Stopwatch;
use crate::stats::Sample;
use crate::suites::filters::turns::{Turn, slices, turns};
use forebay_packet::random::Random;

/// How long an engine runs over other headers before it is timed.
const WARM_UP: Duration = Duration::from_millis(1);

/// A clock that is this much slower than the fastest in the run is another clock.
const CLOCK_TOLERANCE: f64 = 0.05;

/// Windows of the clock before anything is measured.
const FIRST_WINDOWS: usize = 50;

/// Windows of the clock in each round.
const WINDOWS: usize = 2;

/// What all lists are measured with.
#[derive(Debug)]
pub struct Bench {
    stopwatch: Stopwatch,
    /// The clock of the whole run.
    pub clock: Clock,
    /// Rounds so far: no two have the same order.
    rounds: u64,
    /// How often a set is measured anew because the clock was slow.
    repeats: usize,
}

/// A list with those that take part, and the sets to measure it on.
pub struct UnderWay {
    /// Those that take part.
    pub contenders: Vec<Contender>,
    /// A trial a set.
    pub trials: Vec<Trial>,
}

/// Headers to match, and what is right.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// The headers.
    pub keys: Vec<Key4>,
    /// The first rule that each matches.
    pub expected: Vec<u32>,
}

/// A list under way on one set.
#[derive(Clone, Debug)]
pub struct Trial {
    set: Set,
    headers: Headers,
    /// Headers to warm up with.
    others: Vec<Key4>,
    times: Vec<Option<Vec<f64>>>,
    clock: Clock,
}

/// What was measured of a list on one set.
#[derive(Clone, Debug)]
pub struct OnSet {
    /// The set.
    pub set: Set,
    /// Headers.
    pub headers: usize,
    /// The part of the headers that a rule matches.
    pub matched: f64,
    /// Nanoseconds a packet in each round, of each contender; nothing for one that had
    /// no part.
    pub times: Vec<Option<Vec<f64>>>,
    /// The clock meanwhile.
    pub clock: Clock,
}

impl OnSet {
    /// Whether the clock was slower than the run's by so much that it counts.
    pub fn clock_is_slow(&self, run: &Clock) -> bool {
        self.clock.is_slower(run, CLOCK_TOLERANCE)
    }

    /// The one of `contenders`, which were measured, with this role and the least median.
    pub fn fastest(&self, contenders: &[Contender], role: Role) -> Option<&'static str> {
        let both = contenders.iter().zip(&self.times).filter(|(one, _)| one.role == role);
        let timed =
            both.filter_map(|(one, times)| Some((one.name, Sample::new(times.clone()?).median())));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
    }
}

/// A round's headers.
struct Round {
    /// In the round's order, with those to warm up with behind them.
    keys: Vec<Key4>,
    expected: Vec<u32>,
}

impl Bench {
    /// Calibrates the clocks. Sets are measured anew up to `repeats` times where the
    /// clock was slow.
    pub fn new(repeats: usize) -> Self {
        let stopwatch = Stopwatch::calibrate();
        let mut clock = Clock::default();
        clock.sample(FIRST_WINDOWS);
        Self { stopwatch, clock, rounds: 0, repeats }
    }

    /// Times short runs.
    pub fn stopwatch(&self) -> &Stopwatch {
        &self.stopwatch
    }

    /// Measures all contenders of all lists in each round, on each of their sets; again,
    /// if the clock was slow meanwhile.
    pub fn measure(
        &mut self,
        lists: &mut [UnderWay],
        rounds: usize,
    ) -> Result<Vec<Vec<OnSet>>, BenchError> {
        let mut best: Option<(usize, Vec<Vec<OnSet>>)> = None;
        for _ in 0..=self.repeats {
            let mut trials: Vec<Vec<Trial>> =
                lists.iter().map(|list| list.trials.clone()).collect();
            for _ in 0..rounds {
                for (list, trials) in lists.iter_mut().zip(&mut trials) {
                    for trial in trials {
                        trial.round(self, &mut list.contenders)?;
                    }
                }
            }
            let finished = trials.into_iter().map(|trials| {
                trials.into_iter().map(|trial| trial.finish(&mut self.clock)).collect()
            });
            let measured: Vec<Vec<OnSet>> = finished.collect();
            let sets = measured.iter().flatten();
            let slow = sets.filter(|on| on.clock_is_slow(&self.clock)).count();
            if best.as_ref().is_none_or(|(before, _)| slow < *before) {
                best = Some((slow, measured));
            }
            if slow == 0 {
                break;
            }
        }
        Ok(best.map(|(_, measured)| measured).unwrap_or_default())
    }
}

impl Trial {
    /// Gets ready; of `contenders`, those that `takes_part` picks do.
    pub fn new(
        set: Set,
        headers: Headers,
        others: Vec<Key4>,
        contenders: &[Contender],
        takes_part: impl Fn(&Contender) -> bool,
    ) -> Self {
        let times = contenders
            .iter()
            .map(|one| (one.matcher.is_some() && takes_part(one)).then(Vec::new))
            .collect();
        Self { set, headers, others, times, clock: Clock::default() }
    }

    /// Measures every contender once.
    fn round(&mut self, bench: &mut Bench, contenders: &mut [Contender]) -> Result<(), BenchError> {
        bench.rounds += 1;
        let round = self.next_round(bench.rounds);
        for (contender, times) in contenders.iter_mut().zip(&mut self.times) {
            let Some(matcher) = contender.matcher.as_mut().filter(|_| times.is_some()) else {
                continue;
            };
            if let Err(why) = matcher.load(&round.keys) {
                contender.notes.push(format!("{}: {why}", contender.name));
                *times = None;
            }
        }
        let present: Vec<usize> =
            (0..contenders.len()).filter(|&index| self.times[index].is_some()).collect();
        let order = Random::new(!bench.rounds).draw(present.len(), present.len());
        let slices = if self.set.is_sliced() { slices(present.len()) } else { 1 };
        let mut nanos = vec![Vec::with_capacity(slices); contenders.len()];
        for Turn { place, slice } in turns(present.len(), slices) {
            let index = present[order[place] as usize];
            if self.times[index].is_none() {
                continue;
            }
            let count = round.expected.len();
            let range = slice * count / slices..(slice + 1) * count / slices;
            let contender = &mut contenders[index];
            match bench.turn(self.set, contender, &round, range) {
                Ok(passed) => nanos[index].push(passed),
                Err(complaint) => {
                    contender.is_wrong(&format!("{}: {complaint}", self.set))?;
                    self.times[index] = None;
                }
            }
        }
        for (times, nanos) in self.times.iter_mut().zip(nanos) {
            let Some(times) = times else { continue };
            times.push(Sample::new(nanos).median());
        }
        self.clock.sample(WINDOWS);
        Ok(())
    }

    /// The headers in a new order.
    fn next_round(&self, number: u64) -> Round {
        let Headers { keys, expected } = &self.headers;
        let order = Random::new(number).draw(keys.len(), keys.len());
        let in_order = order.iter().map(|&i| keys[i as usize]);
        Round {
            keys: in_order.chain(self.others.iter().copied()).collect(),
            expected: order.iter().map(|&i| expected[i as usize]).collect(),
        }
    }

    /// What was measured. `run` is the clock of the whole run.
    fn finish(self, run: &mut Clock) -> OnSet {
        run.absorb(&self.clock);
        let headers = self.headers.keys.len();
        let matched = self.headers.expected.iter().filter(|&&rule| rule != u32::MAX).count();
        let matched = matched as f64 / headers as f64;
        OnSet { set: self.set, headers, matched, times: self.times, clock: self.clock }
    }
}

impl Bench {
    /// Runs over the headers of `range`. Returns nanoseconds a packet, or what is wrong.
    fn turn(
        &self,
        set: Set,
        contender: &mut Contender,
        round: &Round,
        range: Range<usize>,
    ) -> Result<f64, String> {
        let batch = contender.batch(set);
        let Some(matcher) = &mut contender.matcher else { return Err("is not there".into()) };
        let matcher = matcher.as_mut();
        warm_up(matcher, &round.keys, round.expected.len());
        let keys = &round.keys[range.clone()];
        if !set.is_sliced() {
            let fields = |key: &Key4| u64::from(key.source) + u64::from(key.flags);
            black_box(keys.iter().map(fields).sum::<u64>());
            black_box(matcher.touch(range.start, range.len()));
        }
        let mut rules = vec![0; keys.len()];
        let ticks = self.stopwatch.ticks(|| {
            let mut first = range.start;
            for (keys, rules) in keys.chunks(batch).zip(rules.chunks_mut(batch)) {
                matcher.run(keys, first, rules);
                first += keys.len();
            }
        });
        matcher.answers(&mut rules);
        let expected = &round.expected[range];
        if rules != expected {
            return Err(complaint(keys, &rules, expected));
        }
        Ok(self.stopwatch.nanos(ticks) / keys.len() as f64)
    }
}

/// Says how many answers are wrong, and one of them.
fn complaint(keys: &[Key4], rules: &[u32], expected: &[u32]) -> String {
    let both = keys.iter().zip(rules.iter().zip(expected));
    let wrong: Vec<_> = both.filter(|(_, (rule, right))| rule != right).collect();
    let first = wrong.first().map_or_else(String::new, |(key, (rule, right))| {
        format!(", the first for {key:?}: {rule} instead of {right}")
    });
    format!("{} of {} answers are wrong{first}", wrong.len(), rules.len())
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
