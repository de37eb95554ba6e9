//! The length of a queue over time, in a bounded number of steps.

/// The most steps.
const MOST_STEPS: u64 = 512;

/// The length of a step at the beginning, in nanoseconds.
const FIRST_STEP: u64 = 1_024;

/// The length of a queue over time: its mean and its largest value in equal steps of time, at most
/// 512. When time passes beyond the last step, steps are merged in pairs.
#[derive(Clone, Debug)]
pub struct QueueSeries {
    start: Option<u64>,
    now: u64,
    /// The length since `now`.
    bytes: u64,
    /// The length of a step in nanoseconds.
    step: u64,
    /// Of each step, length times time in byte nanoseconds, and the largest length.
    steps: Vec<(f64, u64)>,
}

impl Default for QueueSeries {
    fn default() -> Self {
        Self { start: None, now: 0, bytes: 0, step: FIRST_STEP, steps: Vec::new() }
    }
}

impl QueueSeries {
    /// The queue has `bytes` bytes from `now` on. Times never decrease.
    pub(super) fn record(&mut self, now: u64, bytes: u64) {
        let start = *self.start.get_or_insert_with(|| {
            self.now = now;
            now
        });
        while (now - start) / self.step >= MOST_STEPS {
            self.step *= 2;
            let merged = self.steps.chunks(2).map(|pair| {
                let area = pair.iter().map(|step| step.0).sum();
                (area, pair.iter().map(|step| step.1).max().unwrap_or(0))
            });
            self.steps = merged.collect();
        }
        while self.now < now {
            let steps = (self.now - start) / self.step + 1;
            let end = start.saturating_add(steps.saturating_mul(self.step)).min(now);
            let (length, time) = (self.bytes, end - self.now);
            let step = self.step_at(self.now - start);
            step.0 += length as f64 * time as f64;
            step.1 = step.1.max(length);
            self.now = end;
        }
        self.bytes = bytes;
        let step = self.step_at(now - start);
        step.1 = step.1.max(bytes);
    }

    fn step_at(&mut self, after: u64) -> &mut (f64, u64) {
        let at = (after / self.step) as usize;
        if self.steps.len() <= at {
            self.steps.resize(at + 1, (0.0, 0));
        }
        &mut self.steps[at]
    }

    /// The length of a step in nanoseconds; the last may be shorter.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Time from the first packet to the last in nanoseconds.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.start.map_or(0, |start| self.now - start)
    }

    /// The mean length in each step, in bytes.
    #[must_use]
    pub fn means(&self) -> Vec<f64> {
        let mean = |(at, step): (u64, &(f64, u64))| {
            let time = (self.span() - at * self.step).min(self.step);
            if time == 0 { step.1 as f64 } else { step.0 / time as f64 }
        };
        (0..).zip(&self.steps).map(mean).collect()
    }

    /// The largest length in each step, in bytes.
    #[must_use]
    pub fn peaks(&self) -> Vec<u64> {
        self.steps.iter().map(|step| step.1).collect()
    }

    /// The mean length over all time, in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.steps.iter().map(|step| step.0).sum::<f64>() / self.span().max(1) as f64
    }

    /// The largest length, in bytes.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.steps.iter().map(|step| step.1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_time_however_long_it_is() {
        let mut series = QueueSeries::default();
        let start = 1 << 40;
        // 300 bytes in a quarter of the time, else 100.
        for i in 0..40_000_u64 {
            series.record(start + i * 4_000, 300);
            series.record(start + i * 4_000 + 1_000, 100);
        }
        series.record(start + 160_000_000, 0);
        assert_eq!((series.span(), series.peak()), (160_000_000, 300));
        assert!((series.mean() - 150.0).abs() < 1e-6, "{}", series.mean());
        let means = series.means();
        assert!(means.len() <= 513 && means.len() > 250, "{}", means.len());
        assert_eq!(means.len(), series.peaks().len());
        let steady = &means[..means.len() - 1];
        assert!(steady.iter().all(|mean| (mean - 150.0).abs() < 5.0), "{means:?}");
    }

    #[test]
    fn times_may_be_anything() {
        let mut series = QueueSeries::default();
        assert_eq!((series.mean(), series.peak(), series.means().len()), (0.0, 0, 0));
        series.record(7, 5);
        assert_eq!((series.span(), series.means()), (0, vec![5.0]));
        series.record(7, 6);
        series.record(u64::MAX, 1);
        assert_eq!((series.span(), series.peak()), (u64::MAX - 7, 6));
        assert!(series.peaks().len() <= 512);
        assert!((series.mean() - 6.0).abs() < 1e-9);
    }
}
