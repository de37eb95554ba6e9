//! The time that passes: monotonic, whatever happens to the time of day.

use rustix::time::{ClockId, clock_gettime};

/// A clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The system's monotonic time when it was made.
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

    /// The system's monotonic time, in nanoseconds, at `time` of this clock.
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
