//! Losses that an operator has to know of: of any kind, above a share of what came.
//!
//! Each second every counter of losses is compared with what it was a window ago, and the
//! difference with what its stage was given in that time. Where the share is above what is
//! allowed, an alarm is raised, at once, and it is over when the share of a whole window is
//! not. Losses that were asked for ([`INTENDED`]) raise none.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use forebay_io::RxCounters;

use crate::report::Report;

/// Nanoseconds between two looks.
const EVERY: u64 = 1_000_000_000;

/// Reasons of drops that a configuration or an operator asks for.
pub const INTENDED: [&str; 6] =
    ["no_match", "rejected", "duplicate", "shunted", "shunted_by_hand", "cutoff"];

/// A reason that does not tell of a loss by itself: see docs/live-broker.md.
const UNDELIVERED: &str = "undelivered";

/// What share of packets may be lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossRule {
    /// Lost packets of those that came, from 0 to 1.
    pub share: f64,
    /// The time over which both are counted.
    pub window: Duration,
}

impl Default for LossRule {
    fn default() -> Self {
        Self { share: 0.001, window: Duration::from_secs(10) }
    }
}

/// A counter of losses, by its stage (`before NAME` for what a device lost) and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The row of the ledger, or `before NAME`.
    pub stage: String,
    /// The reason.
    pub reason: &'static str,
}

/// Packets lost in a window, and packets that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Lost.
    pub lost: u64,
    /// Given to the stage, those lost among them.
    pub of: u64,
}

impl Loss {
    /// What part was lost.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.lost == 0 { 0.0 } else { self.lost as f64 / self.of.max(self.lost) as f64 }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.share();
        write!(f, "{} of {} packets ({percent:.3}%)", self.lost, self.of.max(self.lost))
    }
}

/// A counter and what it has counted.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The counter.
    pub counter: Counter,
    /// Its time and sums at the looks of the last window, and one before.
    history: VecDeque<(u64, Loss)>,
    /// Since when there has been an alarm, if there is one.
    pub raised: Option<u64>,
}

impl Watched {
    /// What was lost in the window.
    #[must_use]
    pub fn loss(&self) -> Loss {
        let ends = self.history.front().zip(self.history.back());
        ends.map_or(Loss::default(), |((_, first), (_, last))| Loss {
            lost: last.lost.saturating_sub(first.lost),
            of: last.of.saturating_sub(first.of),
        })
    }

    fn note(&mut self, now: u64, sum: Loss, window: u64) {
        self.history.push_back((now, sum));
        // One look from before the window, so that what is left spans all of it.
        while self.history.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= window) {
            self.history.pop_front();
        }
    }
}

/// What has changed about an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The share of this counter is above what is allowed.
    Raised(Counter, Loss),
    /// It is not any more.
    Over(Counter),
}

/// All counters of losses.
#[derive(Debug, Default)]
pub struct Alarms {
    watched: Vec<Watched>,
    next: u64,
}

impl Alarms {
    /// Whether it is time for [`Alarms::note`].
    pub fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + EVERY;
        }
        due
    }

    /// Takes note of what was counted by `now`, in nanoseconds.
    pub fn note(&mut self, now: u64, report: &Report, rule: LossRule) -> Vec<Change> {
        let window = u64::try_from(rule.window.as_nanos()).unwrap_or(u64::MAX);
        let mut changes = Vec::new();
        for (counter, sum) in losses(report) {
            let known = self.watched.iter().position(|one| one.counter == counter);
            let at = known.unwrap_or_else(|| {
                let history = VecDeque::from([(now, Loss::default())]);
                self.watched.push(Watched { counter, history, raised: None });
                self.watched.len() - 1
            });
            let Some(watched) = self.watched.get_mut(at) else { continue };
            watched.note(now, sum, window);
            let loss = watched.loss();
            let is_high = loss.share() > rule.share;
            if is_high && watched.raised.is_none() {
                watched.raised = Some(now);
                changes.push(Change::Raised(watched.counter.clone(), loss));
            } else if !is_high && watched.raised.take().is_some() {
                changes.push(Change::Over(watched.counter.clone()));
            }
        }
        changes
    }

    /// All counters that can raise an alarm.
    #[must_use]
    pub fn watched(&self) -> &[Watched] {
        &self.watched
    }
}

/// The losses of a report, and what their stages were given.
fn losses(report: &Report) -> Vec<(Counter, Loss)> {
    let mut all = Vec::new();
    for row in &report.ledger.rows {
        for drop in row.drops.iter().filter(|drop| !INTENDED.contains(&drop.name)) {
            let counter = Counter { stage: row.stage.to_string(), reason: drop.name };
            let of = row.input + row.injected + row.copies;
            all.push((counter, Loss { lost: drop.packets, of }));
        }
    }
    for (name, RxCounters { packets, losses, before, .. }) in &report.inputs {
        let here: u64 = losses.iter().chain(before).map(|(_, packets)| packets).sum();
        for &(reason, lost) in before.iter().filter(|(reason, _)| *reason != UNDELIVERED) {
            let counter = Counter { stage: format!("before {name}"), reason };
            all.push((counter, Loss { lost, of: packets + here }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use forebay_pipeline::{DropCount, Ledger, LedgerRow};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn report(input: u64, refused: u64, no_match: u64, missed: u64) -> Report {
        let drops = [("refused", refused), ("no_match", no_match)];
        let drops = drops.map(|(name, packets)| DropCount { name, packets }).into();
        let row = LedgerRow { stage: "tx o".into(), input, drops, ..LedgerRow::default() };
        let before = vec![("device_missed", missed), ("undelivered", input)];
        let counters = RxCounters { packets: input, before, ..RxCounters::default() };
        Report {
            ledger: Ledger { rows: vec![row] },
            inputs: vec![("i".to_owned(), counters)],
            ..Report::default()
        }
    }

    fn counter(stage: &str, reason: &'static str) -> Counter {
        Counter { stage: stage.to_owned(), reason }
    }

    #[test]
    fn a_share_above_the_bound_is_told_once_and_its_end_after_a_window() {
        let (mut alarms, rule) = (Alarms::default(), LossRule::default());
        // One of a thousand, which is allowed; all that the filter drops is, too.
        assert_eq!(alarms.note(0, &report(1_000, 1, 900, 0), rule), []);
        let raised = Change::Raised(counter("tx o", "refused"), Loss { lost: 9, of: 2_000 });
        assert_eq!(alarms.note(SECOND, &report(2_000, 9, 900, 0), rule), [raised]);
        assert_eq!(alarms.watched()[0].raised, Some(SECOND));
        for second in 2..11 {
            let came = 2_000 + 100 * second;
            assert_eq!(alarms.note(second * SECOND, &report(came, 9, 0, 0), rule), []);
        }
        let over = Change::Over(counter("tx o", "refused"));
        assert_eq!(alarms.note(11 * SECOND, &report(3_100, 9, 0, 0), rule), [over]);
        assert_eq!(alarms.watched()[0].raised, None);
    }

    #[test]
    fn what_is_lost_before_an_input_counts_against_what_came() {
        let (mut alarms, rule) =
            (Alarms::default(), LossRule { share: 0.5, ..LossRule::default() });
        assert_eq!(alarms.note(0, &report(0, 0, 0, 0), rule), []);
        // A loss that cannot be told from packets in flight raises none.
        let changes = alarms.note(SECOND, &report(100, 0, 0, 400), rule);
        let expected = counter("before i", "device_missed");
        assert!(
            matches!(&changes[..], [Change::Raised(which, loss)]
                if *which == expected && loss.lost == 400),
            "{changes:?}"
        );
    }

    #[test]
    fn shares_are_of_all_that_came_and_never_more() {
        assert_eq!(Loss { lost: 5, of: 0 }.share(), 1.0);
        assert_eq!(Loss::default().share(), 0.0);
        assert_eq!(Loss { lost: 1, of: 400 }.to_string(), "1 of 400 packets (0.250%)");
    }

    #[test]
    fn looks_are_a_second_apart() {
        let mut alarms = Alarms::default();
        let due: Vec<u64> = (0..40).filter(|i| alarms.is_due(i * SECOND / 10)).collect();
        assert_eq!(due, [0, 10, 20, 30]);
    }

    #[test]
    fn a_loss_is_told_within_two_seconds_of_its_begin() {
        let rule = LossRule::default();
        // An output that refuses all for two seconds, which begin anywhere between two looks.
        for (rate, begin) in [10, 4_000, 10_000_000]
            .into_iter()
            .flat_map(|rate| (0..50).map(move |part| (rate, 7 * SECOND + part * SECOND / 50)))
        {
            let mut alarms = Alarms::default();
            let came = |for_time: u64| rate * for_time / SECOND;
            let told = (0..1_500).map(|look| look * SECOND / 50).find(|&now| {
                let refused = came(now.saturating_sub(begin).min(2 * SECOND));
                alarms.is_due(now)
                    && !alarms.note(now, &report(came(now), refused, 0, 0), rule).is_empty()
            });
            let after = told.expect("it is told") - begin;
            assert!((1..=2 * SECOND).contains(&after), "{after} ns, {rate} a second");
        }
    }
}
