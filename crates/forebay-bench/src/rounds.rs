//! Rounds in which engines take turns.
//!
//! In each round every engine runs over the same packets in the same order, one that no
//! engine has run over before, and the order of the engines is drawn anew. A ratio is the
//! median over rounds, so that slow drift of the machine cancels out.
//!
//! Where a round is long it is cut into slices, and engines take turns slice by slice: the
//! turns of two engines are then milliseconds apart, even where memory is shared with other
//! machines and its speed is not steady. A round's time is the median of its slices'. The
//! state of the caches must be the same for every engine, so that the turns go through the
//! slices in a circle: each continues where the last one ended, and a slice comes up again
//! only after all others. Every engine runs over every slice once a round if the numbers of
//! slices and engines have no common factor.

use std::ops::Range;
use std::time::Instant;

use forebay_packet::random::Random;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::failure::{Failure, Result, ensure};
use crate::options::Options;
use crate::peers::stopwatch::Stopwatch;
use crate::record::{Results, Row};
use crate::stats::Sample;

/// The fewest slices of a round.
const FEWEST_SLICES: usize = 16;

/// Windows of the clock before anything is measured. Another follows each round.
const FIRST_WINDOWS: usize = 50;

/// A set is measured again if its clock was slower than the run's by more than this part.
const CLOCK_TOLERANCE: f64 = 0.05;

/// How often a set is measured again, but in a quick run.
const REPEATS: usize = 2;

/// A build that takes longer than these microseconds is timed once.
const LONG_BUILD: f64 = 2e5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A loop that gives no answers.
    Floor,
    /// A wrong answer takes a peer out of the set.
    Peer,
    /// A wrong answer ends the benchmark.
    Ours,
}

/// An engine made ready for a case.
pub struct Contender<E: ?Sized> {
    pub name: String,
    pub role: Role,
    /// None where it is not installed or does not take the case.
    pub engine: Option<Box<E>>,
    /// Values for its rows.
    pub more: Map<String, Value>,
    /// Why it takes no part.
    pub notes: Vec<String>,
}

impl<E: ?Sized> Contender<E> {
    pub fn new(name: &str, role: Role, engine: Result<Box<E>>) -> Self {
        let (engine, notes) = match engine {
            Ok(engine) => (Some(engine), Vec::new()),
            Err(Failure(why)) => (None, vec![format!("{name}: {why}")]),
        };
        Self { name: name.to_owned(), role, engine, more: Map::new(), notes }
    }

    /// Makes the engine, and values for its rows, `times` times. The median microseconds of
    /// that, in units of `unit`, are a value, too.
    pub fn timed(
        (name, role): (&str, Role),
        times: usize,
        (key, unit): (&str, f64),
        mut make: impl FnMut() -> Result<(Box<E>, Map<String, Value>)>,
    ) -> Self {
        let mut micros = Vec::with_capacity(times);
        loop {
            let started = Instant::now();
            let made = make();
            micros.push(started.elapsed().as_secs_f64() * 1e6);
            let (engine, more) = match made {
                Err(why) => return Self::new(name, role, Err(why)),
                Ok(made) => made,
            };
            if micros.len() >= times || micros[0] > LONG_BUILD {
                let made = Self { more, ..Self::new(name, role, Ok(engine)) };
                return made.with(key, Sample::new(micros).median() / unit);
            }
        }
    }

    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.more.insert(key.to_owned(), json!(value));
        self
    }

    /// Notes a peer's wrong answer. One of ours is an error.
    pub fn is_wrong(&mut self, complaint: &str) -> Result<()> {
        let complaint = format!("{}, {complaint}", self.name);
        ensure!(self.role != Role::Ours, "{complaint}");
        self.notes.push(complaint);
        Ok(())
    }
}

/// What all measurements of a run share.
#[derive(Debug)]
pub struct Timing {
    pub stopwatch: Stopwatch,
    /// The clock of the whole run.
    pub clock: Clock,
    /// Rounds so far: no two have the same order.
    rounds: u64,
    repeats: usize,
}

impl Timing {
    pub fn new(quick: bool) -> Self {
        let mut clock = Clock::default();
        clock.sample(FIRST_WINDOWS);
        let repeats = if quick { 0 } else { REPEATS };
        Self { stopwatch: Stopwatch::calibrate(), clock, rounds: 0, repeats }
    }

    /// The number of a new round.
    pub fn next_round(&mut self) -> u64 {
        self.rounds += 1;
        self.rounds
    }

    /// Measures trials, and again as long as the clock of one was slow. Returns the
    /// measurement with the fewest slow trials.
    pub fn steady(
        &mut self,
        mut measure: impl FnMut(&mut Self) -> Result<Vec<Trial>>,
    ) -> Result<Vec<Trial>> {
        let mut best: Option<(usize, Vec<Trial>)> = None;
        for _ in 0..=self.repeats {
            let trials = measure(self)?;
            trials.iter().for_each(|trial| self.clock.absorb(&trial.clock));
            let slow = trials.iter().filter(|trial| trial.is_slow(&self.clock)).count();
            if best.as_ref().is_none_or(|(fewest, _)| slow < *fewest) {
                best = Some((slow, trials));
            }
            if slow == 0 {
                break;
            }
        }
        Ok(best.map_or_else(Vec::new, |(_, trials)| trials))
    }

    fn notes(&self) -> Vec<String> {
        let times = format!(
            "times are of the time stamp counter, less the {:.1} ns that reading it takes; clock: \
             {:.2} GHz, the fastest of {} windows",
            self.stopwatch.cost(),
            self.clock.gigahertz(),
            self.clock.windows(),
        );
        [times].into_iter().chain(crate::record::cache_note()).collect()
    }
}

/// The state of a suite under way.
pub struct Run<'a> {
    pub options: &'a Options,
    pub timing: Timing,
    pub results: Results,
    pub notes: Vec<String>,
    trials: Vec<Trial>,
}

impl<'a> Run<'a> {
    pub fn new(options: &'a Options) -> Self {
        let (timing, results) = (Timing::new(options.quick), Results::default());
        Self { options, timing, results, notes: Vec::new(), trials: Vec::new() }
    }

    /// Adds the rows of a trial, to each of which `complete` adds values.
    pub fn add<E: ?Sized>(
        &mut self,
        trial: Trial,
        contenders: &[Contender<E>],
        complete: impl Fn(Row) -> Row,
    ) {
        self.results.0.extend(trial.rows(contenders).into_iter().map(complete));
        self.trials.push(trial);
    }

    /// Notes how rows were measured, and which while the clock was slow.
    pub fn note_conditions(&mut self, rounds: impl Into<Option<String>>) {
        let slow = self.trials.iter().filter(|trial| trial.is_slow(&self.timing.clock));
        self.notes.extend(slow.map(|trial| {
            format!(
                "the clock was slower than the run's fastest by more than 5% (`gigahertz` in the \
                 rows): `{}` on {}",
                trial.case, trial.set
            )
        }));
        self.notes.extend(rounds.into());
        self.notes.extend(self.timing.notes());
    }
}

/// A case on one set, under way.
#[derive(Clone, Debug)]
pub struct Trial {
    pub case: String,
    pub set: String,
    /// Nanoseconds a packet of each contender, round by round; none for one without a part.
    pub times: Vec<Option<Vec<f64>>>,
    clock: Clock,
}

impl Trial {
    /// Of `contenders`, those take part that have an engine and that `wanted` accepts.
    pub fn new<E: ?Sized>(
        case: &str,
        set: impl ToString,
        contenders: &[Contender<E>],
        wanted: impl Fn(&Contender<E>) -> bool,
    ) -> Self {
        let times = |one: &Contender<E>| (one.engine.is_some() && wanted(one)).then(Vec::new);
        let times = contenders.iter().map(times).collect();
        Self { case: case.to_owned(), set: set.to_string(), times, clock: Clock::default() }
    }

    /// Runs every contender once over `packets` packets, which are cut into slices if
    /// `sliced`. `turn` returns nanoseconds a packet, or what is wrong with the answers.
    pub fn round<E: ?Sized>(
        &mut self,
        number: u64,
        contenders: &mut [Contender<E>],
        (packets, sliced): (usize, bool),
        mut turn: impl FnMut(&mut E, Role, Range<usize>) -> Result<f64>,
    ) -> Result<()> {
        let present = (0..contenders.len()).filter(|&index| self.times[index].is_some());
        let present: Vec<usize> = present.collect();
        let order = Random::new(!number).draw(present.len(), present.len());
        let slices = if sliced { slices(present.len()) } else { 1 };
        let mut nanos = vec![Vec::with_capacity(slices); contenders.len()];
        for (place, slice) in turns(present.len(), slices) {
            let index = present[order[place] as usize];
            let contender = &mut contenders[index];
            let (Some(engine), Some(_)) = (&mut contender.engine, &self.times[index]) else {
                continue;
            };
            let range = slice * packets / slices..(slice + 1) * packets / slices;
            match turn(engine, contender.role, range) {
                Ok(passed) => nanos[index].push(passed),
                Err(Failure(complaint)) => {
                    contender.is_wrong(&format!("{}: {complaint}", self.set))?;
                    self.times[index] = None;
                }
            }
        }
        for (times, nanos) in self.times.iter_mut().zip(nanos) {
            let Some(times) = times else { continue };
            times.push(Sample::new(nanos).median());
        }
        self.clock.sample(1);
        Ok(())
    }

    fn is_slow(&self, run: &Clock) -> bool {
        self.clock.is_slower(run, CLOCK_TOLERANCE)
    }

    /// A row for each contender.
    fn rows<E: ?Sized>(&self, contenders: &[Contender<E>]) -> Vec<Row> {
        let row = |(one, times): (&Contender<E>, &Option<Vec<f64>>)| {
            let times = times.clone().unwrap_or_default();
            let mut row = Row::new(&self.case, &self.set, &one.name, times);
            row.more.clone_from(&one.more);
            match self.clock.windows() {
                0 => row,
                _ => row.with("gigahertz", self.clock.gigahertz()),
            }
        };
        contenders.iter().zip(&self.times).map(row).collect()
    }
}

/// How many slices a round of so many engines has.
fn slices(engines: usize) -> usize {
    let engines = engines.max(1);
    let fits = |&slices: &usize| greatest_common_divisor(slices, engines) == 1;
    (FEWEST_SLICES..).find(fits).unwrap_or(FEWEST_SLICES)
}

/// The turns of a round, as places of engines and slices.
fn turns(engines: usize, slices: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..engines * slices).map(move |turn| (turn % engines, turn % slices))
}

/// Euclid's algorithm.
fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::suites::filters::sets::{IN_MEMORY, LINE};

    /// The largest second-level cache of a core that the benchmark is made for.
    const SECOND_LEVEL: usize = 2 << 20;

    #[test]
    fn each_engine_runs_over_each_slice_once() {
        for engines in 1..=64 {
            let slices = slices(engines);
            assert!((FEWEST_SLICES..FEWEST_SLICES + 8).contains(&slices), "{engines}: {slices}");
            let different: HashSet<_> = turns(engines, slices).collect();
            assert_eq!(different.len(), engines * slices);
        }
        assert_eq!(turns(3, 1).map(|turn| turn.0).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn no_engine_finds_a_slice_in_the_second_level_of_the_cache() {
        for engines in 2..=32 {
            let slices = slices(engines);
            // Before each round all packets are read once, in the round's own order.
            let round = || (0..slices).chain(turns(engines, slices).map(|turn| turn.1));
            let order: Vec<usize> = round().chain(round()).collect();
            let mut distances = HashSet::new();
            for (turn, slice) in order.iter().enumerate() {
                if turn % (order.len() / 2) >= slices {
                    let since = order[..turn].iter().rev().take_while(|other| *other != slice);
                    let between: HashSet<&usize> = since.collect();
                    distances.insert(between.len() * (IN_MEMORY / slices * LINE));
                }
            }
            assert_eq!(distances.len(), 1, "{engines}: the same for all");
            assert!(distances.iter().all(|&bytes| bytes > 2 * SECOND_LEVEL), "{engines}");
        }
    }

    #[test]
    fn a_wrong_answer_takes_a_peer_out_and_is_an_error_of_ours() {
        let engine = |name, role| Contender::new(name, role, Ok(Box::new(1.0)));
        let mut all = [
            engine("right", Role::Ours),
            engine("wrong", Role::Peer),
            Contender::new("absent", Role::Peer, Err("is not installed".into())),
        ];
        let mut trial = Trial::new("tcp", "hot", &all, |_| true);
        let first_is_right = |answer: &mut f64, role, range: Range<usize>| match role {
            Role::Ours => Ok(*answer * range.len() as f64),
            _ => Err("0 instead of 1".into()),
        };
        for number in 0..3 {
            trial.round(number, &mut all, (32, false), first_is_right).unwrap();
        }
        let rows = trial.rows(&all);
        assert_eq!((rows[0].ns, rows[0].n, rows[1].ns, rows[2].n), (Some(32.0), 3, None, 0));
        assert_eq!(all[1].notes, ["wrong, hot: 0 instead of 1"]);
        assert_eq!(all[2].notes, ["absent: is not installed"]);
        let mut ours = [engine("wrong", Role::Ours)];
        let mut trial = Trial::new("tcp", "hot", &ours, |_| true);
        let wrong = |_: &mut f64, _, _| Err("".into());
        assert!(trial.round(0, &mut ours, (32, false), wrong).is_err());
    }
}
