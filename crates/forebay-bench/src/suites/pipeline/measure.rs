//! Rounds: in each, packets go through every prefix of the stages, in a new order of the
//! prefixes. The time of a stage is the difference of its prefix to the one before it, in the
//! same round.
//!
//! All memory but that of the packets is as in a broker that has run for a while: the table
//! and its counters are those of earlier runs, and packets go round so often in a run that
//! the start of a worker does not count. Not so with scanning: each run begins with no flow,
//! and the memory of streams is touched first in it.

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_broker::mailbox::WorkerMailbox;
use forebay_broker::report::Report;
use forebay_broker::worker::Worker;
use forebay_io::mem::{Replay, Sink};
use forebay_packet::Batch;
use forebay_packet::random::Random;

use super::oracle::{Expected, Witness};
use super::scanning::Matcher;
use super::stages::{Setup, Stage};
use crate::clock::{Clock, nanos_of};
use crate::failure::{During, Failure, Result, ensure};
use crate::stats::Sample;

/// Packets of a sink's ring: as many as a batch, so that the ring stays in the cache, as the
/// part of a device's ring that is being filled does.
const SINK_SLOTS: usize = 256;

/// Windows of the clock in each round.
const WINDOWS: usize = 2;

/// How long the idle loop of a round runs.
const IDLE: Duration = Duration::from_millis(2);

/// A longer step of the idle loop, which reads the time more often than each microsecond, is
/// a pause of the machine.
const PAUSE: Duration = Duration::from_micros(5);

/// A case under way.
pub struct Trial<'a> {
    pub setup: &'a Setup,
    /// The stages of the case, in order.
    pub stages: &'a [Stage],
    pub batches: &'a [Batch],
    pub expected: &'a Expected,
    /// Passes of the packets in a run.
    pub passes: u64,
    /// The matcher that payloads are scanned with.
    pub matcher: Option<Matcher<'a>>,
}

/// Times of a case.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Nanoseconds a packet of each prefix, round by round.
    pub prefixes: Vec<Vec<f64>>,
    /// Nanoseconds a packet of reading one byte of each in their order, and of nothing else, as
    /// a measure of the memory of this machine.
    pub touch: Vec<f64>,
    /// Nanoseconds a scanned packet of the matcher alone.
    pub matcher: Vec<f64>,
    /// The part of the time that pauses of the machine took from an idle loop.
    pub stolen: Vec<f64>,
    /// Passes of the packets through all stages up to the counters.
    pub counted: u64,
}

impl Times {
    /// Nanoseconds a packet of each stage: the medians of the differences of its prefix to the
    /// one before.
    pub fn steps(&self) -> Vec<f64> {
        let mut before = vec![0.0; self.prefixes.first().map_or(0, Vec::len)];
        let step = |prefix: &Vec<f64>| {
            let differences = prefix.iter().zip(&before).map(|(a, b)| a - b).collect();
            before.clone_from(prefix);
            Sample::new(differences).median()
        };
        self.prefixes.iter().map(step).collect()
    }
}

impl Trial<'_> {
    /// Sends the packets through once, with a witness.
    pub fn check(&self) -> Result<()> {
        let (tx, wrong) = Witness::new(sink()?, self.expected.clone());
        let rx = Replay::new(self.batches.to_vec(), 1);
        let worker = self.setup.worker(Stage::Tx, rx, tx);
        self.checked(Stage::Tx, &work(worker)?, 1)?;
        let others = wrong.load(Ordering::Relaxed);
        ensure!(others == 0, "{others} packets that were sent are not those expected");
        Ok(())
    }

    /// Measures every prefix, so many rounds.
    pub fn measure(&self, rounds: usize, clock: &mut Clock) -> Result<Times> {
        let count = self.stages.len();
        let mut times = Times { prefixes: vec![Vec::new(); count], ..Times::default() };
        // The first round warms caches up.
        for round in 0..=rounds {
            for place in Random::new(round as u64).draw(count, count) {
                let place = place as usize;
                let nanos = self.run(self.stages[place])?;
                if round > 0 {
                    times.prefixes[place].push(nanos);
                }
                times.counted += if self.stages[place] >= Stage::Balance { self.passes } else { 0 };
            }
            if round > 0 {
                times.touch.push(self.touch());
                times.matcher.extend(self.matcher.as_ref().map(|one| one.nanos(self.passes)));
            }
            clock.sample(WINDOWS);
            times.stolen.push(stolen());
        }
        Ok(times)
    }

    /// Nanoseconds a packet of reading the byte that the stages read first.
    fn touch(&self) -> f64 {
        const ETHERTYPE: usize = 12;
        let ((), nanos) = nanos_of(|| {
            for _ in 0..self.passes {
                let heads = self.batches.iter().flat_map(|batch| batch.frames().from(0));
                black_box(heads.map(|head| u64::from(head[ETHERTYPE])).sum::<u64>());
            }
        });
        nanos / (self.expected.packets * self.passes) as f64
    }

    /// Nanoseconds a packet of a run up to stage `last`.
    fn run(&self, last: Stage) -> Result<f64> {
        let rx = Replay::new(self.batches.to_vec(), self.passes);
        let worker = self.setup.worker(last, rx, sink()?);
        let (report, nanos) = nanos_of(|| work(worker));
        self.checked(last, &report?, self.passes)?;
        Ok(nanos / (self.expected.packets * self.passes) as f64)
    }

    /// Compares a report with what is expected of so many passes.
    fn checked(&self, last: Stage, report: &Report, passes: u64) -> Result<()> {
        let ledger = &report.ledger;
        let dropped = |name: &str| {
            let drops = ledger.rows.iter().flat_map(|row| &row.drops);
            drops.filter(|drop| drop.name == name).map(|drop| drop.packets).sum::<u64>()
        };
        let Expected { packets, misses, rejected, .. } = self.expected;
        let closes = ledger.closes() && report.failed.is_empty();
        let claims = [
            (Stage::Rx, ledger.input() == packets * passes, "packets that came in"),
            (
                Stage::Filter,
                dropped("no_match") == misses * passes,
                "packets that the filter drops",
            ),
            (Stage::Rules, dropped("rejected") == rejected * passes, "packets that rules drop"),
            (Stage::Tx, closes, "a ledger that does not close"),
            (
                Stage::Tx,
                ledger.output() == self.expected.output() * passes,
                "packets that came out",
            ),
        ];
        for (stage, holds, what) in claims {
            ensure!(last < stage || holds, "up to {}: {what}: {report:?}", last.name());
        }
        Ok(())
    }
}

fn work(worker: Worker) -> Result<Report> {
    let mailbox = WorkerMailbox::new().during("making a worker's mailbox")?;
    let (report, outcome) = worker.run(&mailbox);
    outcome.map(|()| report).map_err(Failure::from)
}

fn sink() -> Result<Sink> {
    Sink::new(SINK_SLOTS).during("getting memory for a sink")
}

/// The part of the time that an idle loop loses.
fn stolen() -> f64 {
    let started = Instant::now();
    let (mut before, mut lost) = (started, Duration::ZERO);
    loop {
        let now = Instant::now();
        let passed = now - before;
        if passed > PAUSE {
            lost += passed;
        }
        if now - started > IDLE {
            return lost.as_secs_f64() / (now - started).as_secs_f64();
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_stage_is_the_difference_of_its_prefix() {
        let prefixes = vec![vec![1.0, 2.0, 1.0], vec![4.0, 6.0, 5.0], vec![9.0, 10.0, 10.0]];
        assert_eq!(Times { prefixes, ..Times::default() }.steps(), [1.0, 4.0, 5.0]);
    }
}
