//! The time that passes: monotonic, whatever happens to the time of day.

use std::time::Instant;

/// A clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Default for Clock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock {
    /// Nanoseconds since the clock was made.
    #[must_use]
    pub fn now(&self) -> u64 {
        // 584 years of nanoseconds fit.
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
