//! The limit of a sensor that reports what it received and dropped.

/// Packets a second that a sensor takes, by its reports: additive increase, multiplicative
/// decrease, as TCP finds the rate of a path (RFC 5681, section 3.1).
///
/// There is no limit until the sensor drops packets. Then it is a little less than what the
/// sensor took; with each report without drops it rises.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitEstimate {
    last: Option<SensorReport>,
    pps: Option<f64>,
    /// The limit at the last decrease.
    base: f64,
}

/// What a sensor has counted since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorReport {
    /// When, in nanoseconds of a monotonic clock.
    pub at: u64,
    /// Packets it received, dropped ones included.
    pub received: u64,
    /// Packets it dropped.
    pub dropped: u64,
}

impl LimitEstimate {
    /// The limit after a decrease, as a part of what the sensor took.
    const DECREASE: f64 = 0.9;
    /// The increase in a second without drops, as a part of the limit at the last decrease.
    const INCREASE: f64 = 0.01;
    /// The least limit.
    const LEAST: f64 = 1_000.0;

    /// Takes a report in; returns the limit in packets a second.
    pub fn report(&mut self, report: SensorReport) -> Option<u64> {
        let last = self.last.replace(report);
        if let Some(last) = last.filter(|last| last.at < report.at)
            && let Some(received) = report.received.checked_sub(last.received)
            && let Some(dropped) = report.dropped.checked_sub(last.dropped)
        {
            let seconds = (report.at - last.at) as f64 / 1e9;
            if dropped > 0 {
                let took = received.saturating_sub(dropped) as f64 / seconds;
                let most = self.pps.unwrap_or(f64::INFINITY);
                self.base = (took.min(most) * Self::DECREASE).max(Self::LEAST);
                self.pps = Some(self.base);
            } else if let Some(pps) = &mut self.pps {
                *pps += self.base * Self::INCREASE * seconds;
            }
        }
        self.pps.map(|pps| pps as u64)
    }
}
