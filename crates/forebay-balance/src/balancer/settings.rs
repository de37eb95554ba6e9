//! The parameters of the balancer.

use crate::assign::BUCKETS;

/// Parameters of the balancer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalanceSettings {
    /// How far a sensor may be over or below its target before buckets move, as a fraction
    /// of the target.
    pub hysteresis: f64,
    /// Intervals before a bucket that was moved may be moved again.
    pub cool_down: u32,
    /// How fast the load of a sensor that came back may grow, as a fraction of its target
    /// an interval.
    pub ramp: f64,
    /// The most moves started in an interval.
    pub moves_per_interval: usize,
    /// Whether a sensor that is over its limit, and not relieved by moves, is relieved by
    /// tearing flows.
    pub emergency: bool,
    /// Intervals over its limit before a sensor is relieved that way.
    pub patience: u32,
}

impl Default for BalanceSettings {
    fn default() -> Self {
        Self {
            hysteresis: 0.05,
            cool_down: 10,
            ramp: 0.1,
            moves_per_interval: BUCKETS / 4,
            emergency: false,
            patience: 5,
        }
    }
}
