//! Times of a microsecond and less, by the processor's time stamp counter.
//!
//! A batch of 256 packets takes some hundred nanoseconds, about as long as reading the
//! system's clock a few times. The counter is read between fences, so that
//! no instruction of the timed part is counted before or after it (Paoloni, "How to
//! Benchmark Code Execution Times on Intel IA-32 and IA-64", 2010). What two readings
//! with nothing between them cost is measured and subtracted.
//!
//! The counter ticks at a rate of its own, measured against the system's clock. On
//! other processors than x86-64 the system's clock is read.
#![allow(unsafe_code, reason = "reads the time stamp counter")]

use std::time::{Duration, Instant};

/// How long the counter's rate is measured.
const CALIBRATION: Duration = Duration::from_millis(100);

/// Readings of nothing, of which the median counts.
const EMPTY_READINGS: usize = 10_001;

#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    nanos_per_tick: f64,
    /// Ticks between two readings with nothing between them.
    cost: u64,
}

impl Stopwatch {
    /// Measures the counter's rate and what reading it costs.
    pub fn calibrate() -> Self {
        let mut readings: Vec<u64> = (0..EMPTY_READINGS)
            .map(|_| {
                let started = now();
                now().wrapping_sub(started)
            })
            .collect();
        let cost = *readings.select_nth_unstable(EMPTY_READINGS / 2).1;
        let (clock, first) = (Instant::now(), now());
        while clock.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (elapsed, ticks) = (clock.elapsed(), now().wrapping_sub(first));
        Self { nanos_per_tick: elapsed.as_nanos() as f64 / ticks as f64, cost }
    }

    /// The ticks that `run` takes, without those of the readings.
    pub fn ticks(&self, run: impl FnOnce()) -> u64 {
        let started = now();
        run();
        now().wrapping_sub(started).saturating_sub(self.cost)
    }

    /// Ticks in nanoseconds.
    pub fn nanos(&self, ticks: u64) -> f64 {
        ticks as f64 * self.nanos_per_tick
    }

    /// What is subtracted for the readings, in nanoseconds.
    pub fn cost(&self) -> f64 {
        self.nanos(self.cost)
    }
}

/// The counter, after all that came before and before all that follows.
#[cfg(target_arch = "x86_64")]
fn now() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has both instructions.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> u64 {
    use std::sync::OnceLock;
    static ZERO: OnceLock<Instant> = OnceLock::new();
    ZERO.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_takes_as_long_as_the_system_says() {
        let stopwatch = Stopwatch::calibrate();
        let pause = Duration::from_millis(20);
        let mut by_system = Duration::ZERO;
        let ticks = stopwatch.ticks(|| {
            let started = Instant::now();
            while started.elapsed() < pause {
                std::hint::spin_loop();
            }
            by_system = started.elapsed();
        });
        let ratio = stopwatch.nanos(ticks) / by_system.as_nanos() as f64;
        assert!((0.9..1.2).contains(&ratio), "{ratio}");
        assert!(stopwatch.cost() < 1_000.0, "{}", stopwatch.cost());
    }
}
