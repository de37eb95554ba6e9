//! The time that passes: monotonic, whatever happens to the time of day.

use rustix::time::{ClockId, clock_gettime};

/// A clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What the system's monotonic clock said when it was made.
    start: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { start: system() }
    }
}

impl Clock {
    /// Nanoseconds since the clock was made.
    #[must_use]
    pub fn now(&self) -> u64 {
        system() - self.start
    }

    /// What the system's monotonic clock says, in nanoseconds, when this one says `time`.
    #[must_use]
    pub fn monotonic(&self, time: u64) -> u64 {
        self.start.saturating_add(time)
    }
}

/// The system's monotonic clock, which counts from its start: nanoseconds of 584 years fit.
fn system() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
