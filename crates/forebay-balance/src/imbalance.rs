//! How uneven a split is, compared with a random split.
//!
//! A few large flows make any split by flows uneven. Only what exceeds the imbalance of a
//! random assignment of the same flows is due to the hash, so reports show both.

use forebay_packet::{HashKey, siphash13};

use crate::assign::Assignment;

/// The heaviest load divided by its fair share: 1 is perfect. Loads are divided by weights.
/// `None` if there is no load.
#[must_use]
pub fn max_over_mean(loads: &[u64], weights: &[u32]) -> Option<f64> {
    let total: u64 = loads.iter().sum();
    let weight: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    let per_weight = total as f64 / weight;
    if total == 0 || weight == 0.0 {
        return None;
    }
    let over =
        loads.iter().zip(weights).map(|(&load, &w)| load as f64 / (per_weight * f64::from(w)));
    over.reduce(f64::max)
}

/// [`max_over_mean`] of `trials` random assignments of flows, in ascending order, for each
/// measure of their loads: each flow is assigned to a random bucket of `assignment`.
#[must_use]
pub fn random_imbalance<const N: usize>(
    flows: &[[u64; N]],
    assignment: &Assignment,
    trials: u64,
) -> [Vec<f64>; N] {
    let weights: Vec<u32> = assignment.sensors().iter().map(|sensor| sensor.weight).collect();
    let mut outcomes = [const { Vec::new() }; N];
    for trial in 0..trials {
        let key = HashKey([trial, !trial]);
        let mut loads = [(); N].map(|()| vec![0; weights.len()]);
        for (i, flow) in (0_u64..).zip(flows) {
            let sensor = usize::from(assignment.sensor_of(siphash13(&key, &[i])));
            loads.iter_mut().zip(flow).for_each(|(loads, load)| loads[sensor] += load);
        }
        for (outcomes, loads) in outcomes.iter_mut().zip(&loads) {
            outcomes.extend(max_over_mean(loads, &weights));
        }
    }
    outcomes.iter_mut().for_each(|outcomes| outcomes.sort_by(f64::total_cmp));
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_over_mean_of_plain_and_weighted_loads() {
        assert_eq!(max_over_mean(&[10, 10], &[1, 1]), Some(1.0));
        assert_eq!(max_over_mean(&[30, 10], &[1, 1]), Some(1.5));
        assert_eq!(max_over_mean(&[10, 10, 20], &[1, 1, 2]), Some(1.0));
        assert_eq!(max_over_mean(&[0, 0], &[1, 1]), None);
    }

    #[test]
    fn one_elephant_is_expected_to_be_uneven() {
        let assignment = Assignment::of_weights(&[1; 4]).unwrap();
        let [even, twice] = random_imbalance(&[[1, 2]; 10_000], &assignment, 31);
        assert_eq!(even, twice);
        assert!(even[30] < 1.1, "{even:?}");
        let [elephant] = random_imbalance(&[[1_000_000]], &assignment, 31);
        assert_eq!((elephant[0], elephant[30]), (4.0, 4.0));
    }
}
