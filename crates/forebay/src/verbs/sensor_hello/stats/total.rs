//! Sums up counters that restart with the program that has them.

use std::time::{Duration, Instant};

/// Seconds by which a program that was started with this process may appear older: ages are
/// in whole seconds.
const SLACK: u64 = 2;

/// The statistics of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Packets dropped since its start.
    pub(super) dropped: u64,
    /// Seconds since its start, if reported.
    pub(super) uptime: Option<u64>,
}

/// Packets that a program dropped since this process began, from counters that restart with
/// the program.
#[derive(Debug)]
pub(super) struct Total {
    began: Instant,
    pub(super) sum: u64,
    pub(super) last: Option<Reading>,
}

impl Total {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), sum: 0, last: None }
    }

    /// Updates with the statistics `now`. If the program is older than this process, or
    /// does not report its age, the first reading is the baseline; otherwise all of it
    /// counts.
    pub(super) fn is_at(&mut self, now: Reading) {
        self.is_at_after(now, self.began.elapsed());
    }

    /// As [`Total::is_at`], at `age` after this process began.
    pub(super) fn is_at_after(&mut self, now: Reading, age: Duration) {
        let is_same = |last: &Reading| {
            let uptimes = now.uptime.zip(last.uptime);
            now.dropped >= last.dropped && uptimes.is_none_or(|(now, last)| now >= last)
        };
        let is_older = match now.uptime {
            Some(uptime) => uptime > age.as_secs() + SLACK,
            None => self.last.is_none(),
        };
        let before = match self.last.filter(is_same) {
            Some(last) => last.dropped,
            None if is_older => now.dropped,
            None => 0,
        };
        self.sum = self.sum.saturating_add(now.dropped - before);
        self.last = Some(now);
    }
}
