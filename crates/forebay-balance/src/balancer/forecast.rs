//! Forecasts a bucket's load for the time when a move takes effect.
//!
//! A move of a bucket moves the flows that begin after it. If flows are long, the bucket's
//! future load is its present load. If they are short, a loaded bucket is no likelier to be
//! loaded later than any other, and moving it moves an average bucket. A balancer that
//! confuses the two chases noise, or moves buckets that turn out empty. So the development
//! of loads is measured. Buckets are put into classes by their load, a class for each power
//! of two, and by the number of their live flows. After [`HORIZON`] readings the loads of
//! each class are compared with the earlier ones: the regression of later on earlier load,
//! without the assumption that it is linear. A class of few buckets is blended with the
//! line through all of them. Live flows are part of the class because moves are chosen by
//! them too: among buckets of one load, those whose flows have just ended are the cheapest
//! and will have the least load. The later load is that of the last reading alone: a mean
//! with earlier readings contains some of the earlier load, and would make every load seem
//! to persist.
//!
//! Before the first comparison the forecast for every bucket is the mean. That is right for
//! short flows; for long ones it delays balancing until then.

use super::load::{Dimension, Load};

/// Readings between an observation and its comparison.
pub const HORIZON: u32 = 4;

/// Classes: one for no load, then powers of two around the mean load.
const CLASSES: usize = 48;

/// The class that contains the mean load.
const MEAN_CLASS: i32 = 16;

/// Classes by live flows: none, one, and powers of two.
const FLOW_CLASSES: usize = 6;

/// The number of buckets at which a class has the same weight as the line.
const LEANING: f64 = 8.0;

/// The least forecast, relative to the mean.
const LEAST: f64 = 1e-6;

/// The weight that earlier comparisons keep at each new one.
const MEMORY: f64 = 0.5;

/// Sums over the buckets of a class: their number, their load relative to the mean, and
/// their later load.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    buckets: f64,
    before: f64,
    after: f64,
}

/// The regression in one dimension.
#[derive(Clone, Debug)]
struct Regression {
    classes: [[Class; FLOW_CLASSES]; CLASSES],
    /// Sums of squares and of products of deviations from the mean.
    squares: f64,
    products: f64,
}

impl Regression {
    fn new() -> Self {
        let classes = [[Class::default(); FLOW_CLASSES]; CLASSES];
        Self { classes, squares: 0.0, products: 0.0 }
    }

    fn forget(&mut self) {
        for class in self.classes.as_flattened_mut() {
            class.buckets *= MEMORY;
            class.before *= MEMORY;
            class.after *= MEMORY;
        }
        self.squares *= MEMORY;
        self.products *= MEMORY;
    }

    /// Records that a load of `before` became `after`, both relative to the mean.
    fn learn(&mut self, before: f64, flows: f64, after: f64) {
        let class = &mut self.classes[class_of(before)][flow_class_of(flows)];
        class.buckets += 1.0;
        class.before += before;
        class.after += after;
        self.squares += (before - 1.0) * (before - 1.0);
        self.products += (before - 1.0) * (after - 1.0);
    }

    /// The forecast of a load, relative to the mean.
    fn forecast(&self, now: f64, flows: f64) -> f64 {
        let slope = if self.squares > 0.0 { self.products / self.squares } else { 0.0 };
        let line = 1.0 + slope.clamp(0.0, 1.0) * (now - 1.0);
        let class = &self.classes[class_of(now)][flow_class_of(flows)];
        if class.buckets == 0.0 {
            return line;
        }
        let own = if class.before > 0.0 {
            now * class.after / class.before
        } else {
            class.after / class.buckets
        };
        let trust = class.buckets / (class.buckets + LEANING);
        trust * own + (1.0 - trust) * line
    }
}

fn class_of(share: f64) -> usize {
    if share <= 0.0 {
        return 0;
    }
    (share.log2().floor() as i32 + MEAN_CLASS).clamp(1, CLASSES as i32 - 1) as usize
}

fn flow_class_of(flows: f64) -> usize {
    if flows < 0.5 { 0 } else { (flows.log2().round() as usize + 1).min(FLOW_CLASSES - 1) }
}

/// Measures how loads develop, and forecasts them.
#[derive(Clone, Debug)]
pub struct Forecast {
    regressions: [Regression; 2],
    /// Earlier loads to compare with, relative to the mean, and live flows.
    reference: Vec<(Load, f64)>,
    age: u32,
}

impl Default for Forecast {
    fn default() -> Self {
        Self { regressions: [Regression::new(), Regression::new()], reference: Vec::new(), age: 0 }
    }
}

impl Forecast {
    /// Updates the regression with the loads and live flows of a reading, and the loads of
    /// that reading alone; to be called at each reading.
    pub fn learn(&mut self, loads: &[Load], flows: &[f64], latest: &[Load]) {
        self.age += 1;
        if self.reference.len() == loads.len() && self.age < HORIZON {
            return;
        }
        if self.reference.len() == latest.len() {
            let sum = total(latest);
            let latest = shares(latest);
            for (dimension, regression) in Dimension::ALL.into_iter().zip(&mut self.regressions) {
                // Without traffic there are no shares to compare.
                if sum[dimension] <= 0.0 {
                    continue;
                }
                regression.forget();
                for ((before, flows), after) in self.reference.iter().zip(&latest) {
                    regression.learn(before[dimension], *flows, after[dimension]);
                }
            }
        }
        self.reference = shares(loads).into_iter().zip(flows.iter().copied()).collect();
        self.age = 0;
    }

    /// The forecast loads. They have the same sum as the present loads. Each is slightly
    /// above zero, so that buckets count even without traffic.
    #[must_use]
    pub fn forecast(&self, loads: &[Load], flows: &[f64]) -> Vec<Load> {
        let one = |(share, flows): (Load, &f64)| {
            let [packets, bits] = &self.regressions;
            Load {
                packets: packets.forecast(share.packets, *flows).max(LEAST),
                bits: bits.forecast(share.bits, *flows).max(LEAST),
            }
        };
        let mut later: Vec<Load> = shares(loads).into_iter().zip(flows).map(one).collect();
        let (now, sum) = (total(loads), total(&later));
        let factor = Load::from_fn(|d| now[d].max(1.0) / sum[d]);
        for load in &mut later {
            *load = Load::from_fn(|d| load[d] * factor[d]);
        }
        later
    }
}

/// The sum of loads.
pub(super) fn total(loads: &[Load]) -> Load {
    loads.iter().fold(Load::NONE, |sum, &load| sum + load)
}

fn shares(loads: &[Load]) -> Vec<Load> {
    let sum = total(loads);
    let per_mean = Load::from_fn(|d| if sum[d] > 0.0 { loads.len() as f64 / sum[d] } else { 0.0 });
    loads.iter().map(|load| Load::from_fn(|d| load[d] * per_mean[d])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assign::BUCKETS;
    use forebay_packet::{HashKey, siphash13};

    /// A hash as a number from 0 to below 1.
    fn uniform(seed: u64, i: usize) -> f64 {
        (siphash13(&HashKey([seed, 1]), &[i as u64]) >> 12) as f64 / (1_u64 << 52) as f64
    }

    fn load(packets: f64) -> Load {
        Load { packets, bits: packets * 4000.0 }
    }

    /// Heavy-tailed loads of one bucket in ten.
    fn sparse(seed: u64) -> Vec<Load> {
        let one = |i| if uniform(seed, i) < 0.1 { 1.0 / (0.01 + uniform(!seed, i)) } else { 0.0 };
        (0..BUCKETS).map(|i| load(one(i))).collect()
    }

    fn flows(loads: &[Load]) -> Vec<f64> {
        loads.iter().map(|load| if load.packets > 0.0 { 1.0 } else { 0.0 }).collect()
    }

    fn learned(rounds: u64, loads: impl Fn(u64) -> Vec<Load>) -> Forecast {
        let mut forecast = Forecast::default();
        for round in 0..rounds * u64::from(HORIZON) + 1 {
            let loads = loads(round);
            forecast.learn(&loads, &flows(&loads), &loads);
        }
        forecast
    }

    #[test]
    fn lasting_loads_are_forecast_as_they_are() {
        let loads = sparse(3);
        let later = learned(2, |_| sparse(3)).forecast(&loads, &flows(&loads));
        for (now, later) in loads.iter().zip(&later) {
            assert!(
                (now.packets - later.packets).abs() <= 0.02 * now.packets.max(0.1),
                "{now:?} {later:?}"
            );
        }
    }

    #[test]
    fn passing_loads_are_forecast_the_mean() {
        let now = sparse(1000);
        let later = learned(4, sparse).forecast(&now, &flows(&now));
        let mean = total(&now).packets / BUCKETS as f64;
        let idle: Vec<f64> = now
            .iter()
            .zip(&later)
            .filter(|(n, _)| n.packets == 0.0)
            .map(|(_, l)| l.packets)
            .collect();
        let idle_mean = idle.iter().sum::<f64>() / idle.len() as f64;
        assert!((0.9..1.1).contains(&(idle_mean / mean)), "{}", idle_mean / mean);
        let heaviest = now.iter().zip(&later).max_by(|a, b| a.0.packets.total_cmp(&b.0.packets));
        let (heaviest, its_later) = heaviest.unwrap();
        assert!(its_later.packets < 0.1 * heaviest.packets, "{heaviest:?} {its_later:?}");
    }

    #[test]
    fn a_mixture_of_both_is_told_apart_by_load() {
        // A hundred buckets with persistent loads far above the others, which are
        // transient.
        let loads = |round| {
            let mut loads = sparse(round);
            for bucket in &mut loads[..100] {
                *bucket = load(1_000.0);
            }
            loads
        };
        let now = loads(77);
        let later = learned(4, loads).forecast(&now, &flows(&now));
        assert!((900.0..1_100.0).contains(&later[5].packets), "{:?}", later[5]);
        let mean = total(&now[100..]).packets / (BUCKETS - 100) as f64;
        let sum = total(&later[100..]).packets / (BUCKETS - 100) as f64;
        assert!((0.9..1.1).contains(&(sum / mean)));
        let idle = (100..BUCKETS).find(|&i| now[i].packets == 0.0).unwrap();
        assert!(
            (0.6..1.4).contains(&(later[idle].packets / mean)),
            "{}",
            later[idle].packets / mean
        );
    }

    #[test]
    fn without_traffic_buckets_still_count_and_all_alike() {
        let later = Forecast::default().forecast(&vec![Load::NONE; BUCKETS], &vec![0.0; BUCKETS]);
        assert!(later[0].packets > 0.0 && later.iter().all(|load| *load == later[0]));
    }
}
