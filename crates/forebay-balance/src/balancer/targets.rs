//! Target loads of the sensors.
//!
//! Targets are in proportion to weights. A sensor whose limit is below its target gets its
//! limit, minus some headroom, and the others share the rest by weight, again within their
//! limits (water filling). If the limits together are below the load, every sensor exceeds
//! its limit by the same factor. A target is the same fraction of packets and of bits,
//! since moving a bucket moves both: the limit that is reached first counts.

use super::load::{Dimension, Load};

/// The fraction of a limit that is planned with, since loads vary around their mean.
pub const HEADROOM: f64 = 0.97;

/// Whether a sensor receives traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Standing {
    /// It takes new flows.
    #[default]
    Up,
    /// It keeps the flows it has and gets no new ones.
    Draining,
    /// It gets no traffic.
    Down,
}

/// A sensor as input of balancing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SensorShare {
    /// Its share is its weight divided by the sum of weights of all sensors that are up.
    pub weight: u32,
    /// The most packets a second.
    pub max_packets: Option<f64>,
    /// The most bits a second.
    pub max_bits: Option<f64>,
    /// Whether it receives traffic.
    pub standing: Standing,
}

impl SensorShare {
    /// A sensor that is up, without limits.
    #[must_use]
    pub fn of_weight(weight: u32) -> Self {
        Self { weight, max_packets: None, max_bits: None, standing: Standing::Up }
    }

    /// Its limit; infinite if it has none.
    #[must_use]
    pub fn limit(&self) -> Load {
        Load {
            packets: self.max_packets.unwrap_or(f64::INFINITY),
            bits: self.max_bits.unwrap_or(f64::INFINITY),
        }
    }
}

/// The target of each sensor for a load of `total`: 0 unless it is up.
#[must_use]
pub fn targets(sensors: &[SensorShare], total: Load) -> Vec<Load> {
    shares(sensors, total).into_iter().map(|share| total * share).collect()
}

fn shares(sensors: &[SensorShare], total: Load) -> Vec<f64> {
    let cap = |sensor: &SensorShare| {
        let parts = Dimension::ALL.map(|d| sensor.limit()[d] * HEADROOM / total[d]);
        // A fraction of a zero load is NaN.
        parts.into_iter().filter(|part| !part.is_nan()).fold(f64::INFINITY, f64::min)
    };
    let mut shares = vec![0.0; sensors.len()];
    let mut open: Vec<usize> =
        (0..sensors.len()).filter(|&i| sensors[i].standing == Standing::Up).collect();
    let mut left = 1.0;
    while !open.is_empty() {
        let weight: f64 = open.iter().map(|&i| f64::from(sensors[i].weight)).sum();
        let share = |i: usize| left * f64::from(sensors[i].weight) / weight;
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&i| cap(&sensors[i]) < share(i));
        if full.is_empty() {
            for &i in &open {
                shares[i] = share(i);
            }
            return shares;
        }
        for &i in &full {
            shares[i] = cap(&sensors[i]);
        }
        left -= full.iter().map(|&i| shares[i]).sum::<f64>();
        open = rest;
    }
    // Every sensor is at its limit: distribute the excess in the same proportion.
    let limits: f64 = shares.iter().sum();
    if limits > 0.0 {
        for share in &mut shares {
            *share /= limits;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets(sensors: &[SensorShare], total: f64) -> Vec<f64> {
        let load = Load { packets: total, bits: 0.0 };
        targets(sensors, load).iter().map(|target| target.packets).collect()
    }

    fn limited(weight: u32, limit: f64) -> SensorShare {
        SensorShare { max_packets: Some(limit / HEADROOM), ..SensorShare::of_weight(weight) }
    }

    #[test]
    fn shares_are_by_weight_within_limits() {
        let open = SensorShare::of_weight;
        assert_eq!(packets(&[open(1), open(1), open(2)], 100.0), [25.0, 25.0, 50.0]);
        assert_eq!(packets(&[open(1), limited(1, 50.0)], 0.0), [0.0, 0.0]);
        let close = |a: Vec<f64>, b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(packets(&[limited(1, 10.0), open(1), open(2)], 100.0), &[10.0, 30.0, 60.0]));
        // The second reaches its limit only after the first has given its share away.
        assert!(close(
            packets(&[limited(1, 10.0), limited(1, 28.0), open(2)], 100.0),
            &[10.0, 28.0, 62.0]
        ));
        assert!(close(packets(&[limited(1, 10.0), limited(1, 30.0)], 80.0), &[20.0, 60.0]));
    }

    #[test]
    fn the_limit_that_is_reached_first_counts_for_both() {
        let mut sensors = [SensorShare::of_weight(1); 2];
        sensors[0].max_packets = Some(40.0 / HEADROOM);
        sensors[0].max_bits = Some(2_000.0 / HEADROOM);
        let targets = targets(&sensors, Load { packets: 100.0, bits: 10_000.0 });
        assert!((targets[0].packets - 20.0).abs() < 1e-9, "{targets:?}");
        assert!((targets[1].bits - 8_000.0).abs() < 1e-9, "{targets:?}");
    }

    #[test]
    fn only_sensors_that_are_up_have_a_share() {
        let down = SensorShare { standing: Standing::Down, ..SensorShare::of_weight(5) };
        let draining = SensorShare { standing: Standing::Draining, ..SensorShare::of_weight(5) };
        assert_eq!(packets(&[down, SensorShare::of_weight(1), draining], 9.0), [0.0, 9.0, 0.0]);
        assert_eq!(packets(&[down, draining], 9.0), [0.0, 0.0]);
        assert!(packets(&[], 9.0).is_empty());
    }

    proptest! {
        #[test]
        fn the_load_is_shared_out_and_limits_are_kept_where_they_can_be(
            sensors in prop::collection::vec((1_u32..9, prop::option::of(1.0_f64..100.0)), 1..8),
            total in 0.0_f64..500.0,
        ) {
            let sensors: Vec<SensorShare> = sensors
                .iter()
                .map(|&(weight, limit)| SensorShare { max_packets: limit, ..SensorShare::of_weight(weight) })
                .collect();
            let shares = packets(&sensors, total);
            prop_assert!((shares.iter().sum::<f64>() - total).abs() < 1e-6 * total.max(1.0));
            let caps: f64 = sensors.iter().map(|sensor| sensor.limit().packets * HEADROOM).sum();
            if caps >= total {
                for (sensor, share) in sensors.iter().zip(&shares) {
                    prop_assert!(*share <= sensor.limit().packets * HEADROOM + 1e-6);
                }
            }
        }
    }
}
