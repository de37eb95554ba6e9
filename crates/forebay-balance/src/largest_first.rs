//! Assignment by load, for input that is read twice: first to count, then to assign.
//!
//! A unit is all traffic with one hash: a flow, an address pair, or an address, including
//! fragments, quoted errors and followed data flows. Units are assigned largest first (LPT:
//! Graham 1969; by weight as Gonzalez, Ibarra and Sahni 1977), each to the sensor whose
//! load divided by its weight is then the least. The result depends only on the hashes,
//! their loads and the weights.
//!
//! At most [`MOST_UNITS`] units are counted separately. If there are more, those up to the
//! median load are added to their hash buckets, and each such bucket is assigned as one
//! unit. A unit that occurs again after it was added to its bucket is counted anew. Its
//! load may then be in two places, but it has one sensor, since
//! [`UnitAssignment::sensor_of`] depends only on the hash.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use crate::assign::{Assignment, BUCKETS, bucket_of};

/// Units that are counted separately; they take some 10 MB.
pub const MOST_UNITS: usize = 400_000;

/// The load of each unit.
#[derive(Clone, Debug)]
pub struct UnitLoads {
    units: HashMap<u64, u64>,
    most: usize,
    /// Load of the units that were added to their buckets; empty if there are none.
    buckets: Vec<u64>,
}

/// Statistics of an assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitSummary {
    /// Units that were assigned separately.
    pub units: u64,
    /// Load of the largest of them: a lower bound for its sensor's load.
    pub largest: u64,
    /// Load that was assigned by hash bucket.
    pub in_buckets: u64,
}

/// The sensor of each unit.
#[derive(Clone, Debug)]
pub struct UnitAssignment {
    /// The sensor by hash; empty if all units are assigned by bucket.
    units: HashMap<u64, u64>,
    buckets: Assignment,
}

impl Default for UnitLoads {
    fn default() -> Self {
        Self::with_limit(MOST_UNITS)
    }
}

impl UnitLoads {
    /// Counts at most `most` units separately, and at least one.
    #[must_use]
    pub fn with_limit(units: usize) -> Self {
        Self { units: HashMap::new(), most: units.max(1), buckets: Vec::new() }
    }

    /// Adds to the load of the unit with that hash.
    pub fn add(&mut self, hash: u64, load: u64) {
        if let Some(sum) = self.units.get_mut(&hash) {
            *sum += load;
            return;
        }
        if self.units.len() >= self.most {
            self.move_small_units();
        }
        self.units.insert(hash, load);
    }

    /// Adds the units up to the median load to their buckets.
    fn move_small_units(&mut self) {
        let mut loads: Vec<u64> = self.units.values().copied().collect();
        let middle = loads.len() / 2;
        let median = *loads.select_nth_unstable(middle).1;
        self.buckets.resize(BUCKETS, 0);
        let buckets = &mut self.buckets;
        self.units.retain(|&hash, load| {
            if *load <= median {
                buckets[usize::from(bucket_of(hash))] += *load;
            }
            *load > median
        });
    }

    /// Assigns all units to the sensors of `assignment`, which also assigns hashes that
    /// were not counted.
    #[must_use]
    pub fn assign(self, assignment: &Assignment) -> (UnitAssignment, UnitSummary) {
        let Self { mut units, buckets, .. } = self;
        let summary = UnitSummary {
            units: units.len() as u64,
            largest: units.values().copied().max().unwrap_or(0),
            in_buckets: buckets.iter().sum(),
        };
        let loaded = (0_u64..).zip(buckets).filter(|&(_, load)| load > 0);
        let mut order: Vec<(Reverse<u64>, bool, u64)> =
            units.iter().map(|(&hash, &load)| (Reverse(load), false, hash)).collect();
        order.extend(loaded.map(|(bucket, load)| (Reverse(load), true, bucket)));
        order.sort_unstable();
        let mut sensors = LeastLoaded::new(assignment);
        let mut table = assignment.clone();
        for (Reverse(load), is_bucket, at) in order {
            let sensor = sensors.take(load);
            if is_bucket {
                table.set_sensor_of_bucket(at as u16, sensor);
            } else {
                units.insert(at, u64::from(sensor));
            }
        }
        (UnitAssignment { units, buckets: table }, summary)
    }
}

impl UnitAssignment {
    /// Index of the sensor of a hash.
    #[inline]
    #[must_use]
    pub fn sensor_of(&self, hash: u64) -> u16 {
        match self.units.get(&hash) {
            Some(&sensor) => sensor as u16,
            None => self.buckets.sensor_of(hash),
        }
    }
}

impl From<Assignment> for UnitAssignment {
    fn from(buckets: Assignment) -> Self {
        Self { units: HashMap::new(), buckets }
    }
}

/// By weight: a heap of the sensors with that weight, the one with the least load on top.
struct LeastLoaded(BTreeMap<u32, BinaryHeap<Reverse<(u64, u16)>>>);

impl LeastLoaded {
    fn new(assignment: &Assignment) -> Self {
        let mut by_weight: BTreeMap<u32, BinaryHeap<_>> = BTreeMap::new();
        for (i, sensor) in (0_u16..).zip(assignment.sensors()) {
            by_weight.entry(sensor.weight).or_default().push(Reverse((0, i)));
        }
        Self(by_weight)
    }

    /// Adds `load` to the sensor whose load divided by its weight is then the least, the
    /// first of several.
    fn take(&mut self, load: u64) -> u16 {
        let ranked = self.0.iter_mut().filter_map(|(&weight, heap)| {
            let Reverse((before, i)) = *heap.peek()?;
            Some((u128::from(before) + u128::from(load), u128::from(weight), i, heap))
        });
        let best = ranked.min_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.2.cmp(&b.2)));
        let Some((.., i, heap)) = best else { return 0 };
        if let Some(mut top) = heap.peek_mut() {
            top.0.0 = top.0.0.saturating_add(load);
        }
        i
    }
}

#[cfg(test)]
mod tests {
    use forebay_packet::{HashKey, siphash13};
    use proptest::prelude::*;

    use super::*;

    fn hash(unit: u64) -> u64 {
        siphash13(&HashKey([1, 2]), &[unit])
    }

    fn counted(loads: &[u64], most: usize) -> UnitLoads {
        let mut counted = UnitLoads::with_limit(most);
        for (unit, &load) in (0..).zip(loads) {
            counted.add(hash(unit), load);
        }
        counted
    }

    /// The load of each sensor.
    fn outcome(loads: &[u64], weights: &[u32], most: usize) -> (Vec<u64>, UnitSummary) {
        let assignment = Assignment::of_weights(weights).unwrap();
        let (units, summary) = counted(loads, most).assign(&assignment);
        let mut sums = vec![0; weights.len()];
        for (unit, &load) in (0..).zip(loads) {
            sums[usize::from(units.sensor_of(hash(unit)))] += load;
        }
        (sums, summary)
    }

    #[test]
    fn the_largest_go_first_to_the_least_loaded() {
        // By hand: 9, 8, 7 to 0, 1, 2; 6 to 2 (13), 5 to 1 (13), 4 to 0 (13).
        let (sums, summary) = outcome(&[4, 5, 6, 7, 8, 9], &[1, 1, 1], 100);
        assert_eq!(sums, [13, 13, 13]);
        assert_eq!(summary, UnitSummary { units: 6, largest: 9, in_buckets: 0 });
        // 60 to the sensor of weight 3 (20 a weight), 20 to that of weight 1 (20), and so on.
        assert_eq!(outcome(&[60, 20, 15, 5], &[1, 3], 100).0, [25, 75]);
    }

    #[test]
    fn what_was_not_counted_goes_by_its_hash() {
        let assignment = Assignment::of_weights(&[1, 2, 3]).unwrap();
        let (units, _) = counted(&[7; 50], 100).assign(&assignment);
        for unit in 1_000..2_000 {
            assert_eq!(units.sensor_of(hash(unit)), assignment.sensor_of(hash(unit)));
        }
    }

    #[test]
    fn beyond_the_limit_large_units_are_still_by_themselves() {
        // 60,000 small units and 8 large ones, of which 1,000 can be counted.
        let loads: Vec<u64> =
            (0..60_008).map(|i| if i % 7_500 == 0 { 20_000 } else { 1 }).collect();
        let (sums, summary) = outcome(&loads, &[1; 4], 1_000);
        assert!(summary.units <= 1_000 && summary.largest == 20_000, "{summary:?}");
        assert!(summary.in_buckets > 58_000, "{summary:?}");
        assert_eq!(sums.iter().sum::<u64>(), loads.iter().sum());
        let mean = sums.iter().sum::<u64>() / 4;
        assert!(sums.iter().all(|sum| sum.abs_diff(mean) <= 10), "{sums:?}");
    }

    proptest! {
        /// Graham's bound for LPT, and what any assignment needs.
        #[test]
        fn no_sensor_has_more_than_the_bound(
            loads in proptest::collection::vec(1_u64..10_000, 1..400),
            sensors in 1_usize..9,
        ) {
            let (sums, summary) = outcome(&loads, &vec![1; sensors], 1_000);
            let total: u64 = loads.iter().sum();
            prop_assert_eq!(sums.iter().sum::<u64>(), total);
            let busiest = sums.iter().copied().max().unwrap_or(0);
            let n = sensors as u64;
            prop_assert!(busiest >= summary.largest.max(total.div_ceil(n)));
            // The last unit came to the least loaded sensor.
            prop_assert!(n * (busiest - summary.largest) <= total);
        }

        #[test]
        fn the_order_of_counting_changes_nothing(
            loads in proptest::collection::vec(1_u64..100, 1..200),
            weights in proptest::collection::vec(1_u32..5, 1..6),
        ) {
            let assignment = Assignment::of_weights(&weights).unwrap();
            let (units, _) = counted(&loads, 1_000).assign(&assignment);
            let mut reversed = UnitLoads::default();
            for (unit, &load) in loads.iter().enumerate().rev() {
                (0..load).for_each(|_| reversed.add(hash(unit as u64), 1));
            }
            let (again, _) = reversed.assign(&assignment);
            for unit in 0..loads.len() as u64 {
                prop_assert_eq!(units.sensor_of(hash(unit)), again.sensor_of(hash(unit)));
            }
        }
    }
}
