//! The limit of a sensor that reports what it received and dropped.

/// Packets a second that a sensor takes, by its reports: additive increase, multiplicative
/// decrease, as TCP finds the rate of a path (RFC 5681, section 3.1).
///
/// There is no limit until the sensor drops packets. Then it is a little less than what the sensor
/// took, or than what it took at most of late if it had little to take: drops in a quiet second
/// do not limit it to what there was then, unless they go on. With each report without drops
/// the limit rises: soon, as far as the sensor took more before, and slowly from there.
///
/// Both counters of a report are of one time, and a report that repeats them is ignored: sensors
/// report more often than their programs write statistics. Drops of eight seconds beside the
/// packets of a fifth would make it seem that a sensor takes nothing. For the same reason the more
/// counts of what was taken by two reports in a row with drops: statistics are a little older than
/// they seem, so the last drops of an overload may be reported beside packets that came after it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitEstimate {
    last: Option<SensorReport>,
    pps: Option<f64>,
    /// The most packets a second that it took, halved every ten minutes.
    most: f64,
    /// Reports with drops in a row.
    drops: u32,
    /// Packets a second that it took by the last report, if that had drops.
    took: f64,
}

/// What a sensor has counted since it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorReport {
    /// When the sensor had counted so many, in nanoseconds of a monotonic clock.
    pub at: u64,
    /// Packets it received, dropped ones included.
    pub received: u64,
    /// Packets it dropped.
    pub dropped: u64,
}

impl LimitEstimate {
    /// The limit after a decrease, as a part of what the sensor took.
    const DECREASE: f64 = 0.9;
    /// The increase in a second without drops, as a factor, and that up to what it took before.
    const INCREASE: f64 = 1.01;
    const RECOVERY: f64 = 1.1;
    /// A sensor that is full drops more than one packet in so many.
    const TOLERATED: u64 = 1_000;
    /// Reports in a row from which on drops are for what the sensor takes now.
    const LASTING: u32 = 3;
    /// Seconds in which the most that was taken is halved.
    const HALF_LIFE: f64 = 600.0;
    /// The least limit.
    const LEAST: f64 = 1_000.0;

    /// Takes a report in; returns the limit in packets a second.
    pub fn report(&mut self, report: SensorReport) -> Option<u64> {
        let is_same =
            |last: SensorReport| (last.received, last.dropped) == (report.received, report.dropped);
        if self.last.is_some_and(is_same) {
            return self.pps.map(|pps| pps as u64);
        }
        let last = self.last.replace(report);
        if let Some(last) = last.filter(|last| last.at < report.at)
            && let Some(received) = report.received.checked_sub(last.received)
            && let Some(dropped) = report.dropped.checked_sub(last.dropped)
        {
            let seconds = (report.at - last.at) as f64 / 1e9;
            let took = received.saturating_sub(dropped) as f64 / seconds;
            self.most = (self.most * (-seconds / Self::HALF_LIFE).exp2()).max(took);
            if dropped > received / Self::TOLERATED {
                self.drops += 1;
                let is_quiet = (received as f64 / seconds) < self.most / 2.0;
                let took = std::mem::replace(&mut self.took, took).max(took);
                let full = if is_quiet && self.drops < Self::LASTING { self.most } else { took };
                let limit = (full * Self::DECREASE).max(Self::LEAST);
                if self.drops >= Self::LASTING {
                    self.most = took;
                }
                self.pps = Some(self.pps.map_or(limit, |pps| limit.min(pps)));
            } else if dropped == 0 {
                (self.drops, self.took) = (0, 0.0);
                let known = self.most * Self::DECREASE;
                self.pps = self.pps.map(|pps| {
                    let recovered = (pps * Self::RECOVERY.powf(seconds)).min(known);
                    recovered.max(pps * Self::INCREASE.powf(seconds))
                });
            }
        }
        self.pps.map(|pps| pps as u64)
    }
}
