//! How many cycles the processor makes in a nanosecond, right now.
//!
//! Virtual machines have no cycle counters to speak of, and the time stamp counter
//! does not follow the clock. But a chain in which each step squares the last result
//! and adds a constant takes four cycles a step, three for the multiplication and one
//! for the addition, on x86-64 processors of the last fifteen years (Fog, "Instruction
//! tables"), and no compiler shortens it. Windows of a millisecond are taken between
//! the measured runs; the fastest is the one nothing interrupted.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

const WINDOW: Duration = Duration::from_millis(1);

/// Steps between two readings of the time.
const CHAIN: u64 = 10_000;

/// Latency of a step in cycles.
const CYCLES_A_STEP: u64 = 4;

/// What a run returns, and the nanoseconds of this thread that it takes: other programs on the
/// processor do not count.
pub fn nanos_of<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let started = now();
    let result = run();
    (result, now() - started)
}

/// Cycles a nanosecond, from the fastest window so far.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    windows: Vec<f64>,
}

impl Clock {
    pub fn sample(&mut self, windows: usize) {
        for _ in 0..windows {
            let started = Instant::now();
            let mut cycles = 0_u64;
            let mut value = black_box(3_u64);
            while started.elapsed() < WINDOW {
                for _ in 0..CHAIN {
                    value = value.wrapping_mul(value).wrapping_add(0x9e37_79b9);
                }
                cycles += CHAIN * CYCLES_A_STEP;
            }
            black_box(value);
            self.windows.push(cycles as f64 / started.elapsed().as_nanos() as f64);
        }
    }

    pub fn absorb(&mut self, other: &Self) {
        self.windows.extend_from_slice(&other.windows);
    }

    /// How many windows there were.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Cycles a nanosecond (GHz).
    pub fn gigahertz(&self) -> f64 {
        self.windows.iter().copied().fold(f64::NAN, f64::max)
    }

    /// Whether this one is slower than another by more than a fraction of it.
    pub fn is_slower(&self, other: &Self, fraction: f64) -> bool {
        self.gigahertz() < other.gigahertz() * (1.0 - fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_that_of_a_processor() {
        let mut clock = Clock::default();
        clock.sample(20);
        assert!((0.3..8.0).contains(&clock.gigahertz()), "{}", clock.gigahertz());
    }
}
