//! Assigns buckets to sensors: weighted rendezvous hashing with exact shares.
//!
//! Every bucket ranks the sensors by a weighted score that depends only on the bucket and
//! the sensor (Thaler and Ravishankar 1998; the logarithmic weighting of Schindelhauer and
//! Schomaker 2005). First choices alone leave the shares as uneven as 65,536 random draws:
//! 0.7% of a quarter. So each sensor has an exact quota, and buckets are matched to sensors
//! by deferred acceptance (Gale and Shapley 1962): a bucket proposes to its best sensor
//! that has not refused it, and a full sensor keeps the buckets with the highest scores.
//! The result does not depend on the order of proposals. When a sensor is added or removed,
//! only its share moves, and the few buckets at the edge of a quota (under 1% of all,
//! tested).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_packet::{HashKey, siphash13};

/// Number of buckets: one for each value of 16 hash bits.
pub const BUCKETS: usize = 1 << 16;

/// The most sensors: few enough that each gets a fair share of the buckets.
pub const MAX_SENSORS: usize = 1024;

/// The key of the scores. It is constant: which sensor a bucket prefers is not secret,
/// which bucket a flow falls in is.
const SCORE_KEY: HashKey = HashKey([0x6275_636b_6574_2d3e, 0x7365_6e73_6f72_2121]);

/// The bucket of a flow with this hash: its upper 16 bits.
#[inline]
#[must_use]
pub fn bucket_of(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// A sensor as input of the assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Identifies the sensor across changes of the set of sensors.
    pub id: u64,
    /// Its share is its weight divided by the sum of weights.
    pub weight: u32,
}

/// Why buckets cannot be assigned to sensors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// No sensors.
    #[error("no sensors: at least one is needed")]
    NoSensors,
    /// More sensors than can get a fair share.
    #[error("{0} sensors: at most {MAX_SENSORS} are possible")]
    TooMany(usize),
    /// A sensor with weight 0.
    #[error("sensor {0} has weight 0: a weight is a whole number from 1")]
    ZeroWeight(usize),
    /// A weight so small relative to the others that the sensor gets no bucket.
    #[error(
        "sensor {0} would get none of the {BUCKETS} buckets: its weight is too small beside the others"
    )]
    NoShare(usize),
    /// Two sensors with one identifier.
    #[error("sensors {0} and {1} have the same identifier")]
    SameId(usize, usize),
}

/// The bucket table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    sensors: Vec<Sensor>,
    table: Vec<u16>,
}

impl Assignment {
    /// Assigns all buckets to `sensors`.
    ///
    /// Takes time in O(buckets × sensors).
    ///
    /// # Errors
    /// [`AssignmentError`]
    pub fn new(sensors: &[Sensor]) -> Result<Self, AssignmentError> {
        check(sensors)?;
        let quotas = quotas(sensors);
        if let Some(i) = quotas.iter().position(|&quota| quota == 0) {
            return Err(AssignmentError::NoShare(i));
        }
        let table = matching(sensors, &quotas);
        Ok(Self { sensors: sensors.to_vec(), table })
    }

    /// An assignment to `weights.len()` sensors, identified by their position.
    ///
    /// # Errors
    /// As [`Assignment::new`].
    pub fn of_weights(weights: &[u32]) -> Result<Self, AssignmentError> {
        let sensors: Vec<Sensor> =
            (0..).zip(weights).map(|(id, &weight)| Sensor { id, weight }).collect();
        Self::new(&sensors)
    }

    /// The sensors, in the order of their indices.
    #[must_use]
    pub fn sensors(&self) -> &[Sensor] {
        &self.sensors
    }

    /// Index of the sensor of `bucket`.
    #[inline]
    #[must_use]
    pub fn sensor_of_bucket(&self, bucket: u16) -> u16 {
        self.table[usize::from(bucket)]
    }

    /// Index of the sensor of a flow with this hash.
    #[inline]
    #[must_use]
    pub fn sensor_of(&self, hash: u64) -> u16 {
        self.sensor_of_bucket(bucket_of(hash))
    }

    /// Assigns `bucket` to the sensor with this index.
    pub(crate) fn set_sensor_of_bucket(&mut self, bucket: u16, sensor: u16) {
        self.table[usize::from(bucket)] = sensor;
    }

    /// Number of buckets of each sensor.
    #[must_use]
    pub fn bucket_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.sensors.len()];
        for &sensor in &self.table {
            counts[usize::from(sensor)] += 1;
        }
        counts
    }
}

/// Checks that buckets can be assigned to `sensors`.
pub(crate) fn check(sensors: &[Sensor]) -> Result<(), AssignmentError> {
    if sensors.is_empty() {
        return Err(AssignmentError::NoSensors);
    }
    if sensors.len() > MAX_SENSORS {
        return Err(AssignmentError::TooMany(sensors.len()));
    }
    if let Some(i) = sensors.iter().position(|sensor| sensor.weight == 0) {
        return Err(AssignmentError::ZeroWeight(i));
    }
    let mut order: Vec<usize> = (0..sensors.len()).collect();
    order.sort_by_key(|&i| (sensors[i].id, i));
    match order.windows(2).find(|pair| sensors[pair[0]].id == sensors[pair[1]].id) {
        Some(pair) => Err(AssignmentError::SameId(pair[0], pair[1])),
        None => Ok(()),
    }
}

/// Quotas in proportion to the weights, by the method of largest remainders: they sum to
/// the number of buckets.
fn quotas(sensors: &[Sensor]) -> Vec<usize> {
    let total: u64 = sensors.iter().map(|sensor| u64::from(sensor.weight)).sum();
    let exact = |sensor: &Sensor| u64::from(sensor.weight) * BUCKETS as u64;
    let mut quotas: Vec<usize> = sensors.iter().map(|s| (exact(s) / total) as usize).collect();
    let mut order: Vec<usize> = (0..sensors.len()).collect();
    order.sort_by_key(|&i| (Reverse(exact(&sensors[i]) % total), sensors[i].id));
    let left = BUCKETS - quotas.iter().sum::<usize>();
    for &i in &order[..left] {
        quotas[i] += 1;
    }
    quotas
}

/// The score of a bucket and a sensor. Ordered by value, then by the sensor's identifier;
/// never equal for two sensors.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Score {
    value: f64,
    id: u64,
}

fn score(bucket: usize, sensor: &Sensor) -> Score {
    let hash = siphash13(&SCORE_KEY, &[bucket as u64, sensor.id]);
    // 52 random bits plus a half: strictly between 0 and 1.
    let uniform = ((hash >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    Score { value: -f64::from(sensor.weight) / uniform.ln(), id: sensor.id }
}

/// A bucket held by a sensor. The one with the lowest score compares greatest, so that it
/// is on top of a heap.
struct Held {
    score: Score,
    bucket: usize,
}

impl Held {
    fn rank(&self) -> (Reverse<u64>, usize) {
        // Positive floating-point numbers order like their bit patterns.
        (Reverse(self.score.value.to_bits()), self.bucket)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Deferred acceptance: buckets propose, sensors keep the best up to their quota.
fn matching(sensors: &[Sensor], quotas: &[usize]) -> Vec<u16> {
    let mut held: Vec<BinaryHeap<Held>> =
        quotas.iter().map(|&quota| BinaryHeap::with_capacity(quota + 1)).collect();
    let mut choices: Vec<Choices> = (0..BUCKETS).map(|_| Choices::default()).collect();
    let mut asking: Vec<usize> = (0..BUCKETS).collect();
    while let Some(bucket) = asking.pop() {
        // Quotas sum to the number of buckets, so some sensor has not refused yet.
        let Some((i, score)) = choices[bucket].next(bucket, sensors) else { continue };
        held[i].push(Held { score, bucket });
        if held[i].len() > quotas[i]
            && let Some(weakest) = held[i].pop()
        {
            asking.push(weakest.bucket);
        }
    }
    let mut table = vec![0; BUCKETS];
    for (i, buckets) in (0_u16..).zip(&held) {
        for one in buckets {
            table[one.bucket] = i;
        }
    }
    table
}

/// A bucket's choices, best first, computed a few at a time.
#[derive(Default)]
struct Choices {
    /// The next ones, worst first.
    next: Vec<(u16, Score)>,
    last: Option<Score>,
}

impl Choices {
    /// Choices computed at once; most buckets need no more.
    const AT_ONCE: usize = 6;

    /// The best sensor not returned yet.
    fn next(&mut self, bucket: usize, sensors: &[Sensor]) -> Option<(usize, Score)> {
        if self.next.is_empty() {
            for (i, sensor) in (0_u16..).zip(sensors) {
                self.offer(i, score(bucket, sensor));
            }
        }
        let (i, score) = self.next.pop()?;
        self.last = Some(score);
        Some((usize::from(i), score))
    }

    /// Keeps a sensor if it is among the best below the last one returned.
    fn offer(&mut self, i: u16, score: Score) {
        let given_out = self.last.is_some_and(|last| score >= last);
        let is_full = self.next.len() == Self::AT_ONCE;
        if given_out || (is_full && self.next.first().is_some_and(|worst| score < worst.1)) {
            return;
        }
        if is_full {
            self.next.remove(0);
        }
        let at = self.next.partition_point(|known| known.1 < score);
        self.next.insert(at, (i, score));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(ids: &[u64]) -> Assignment {
        let sensors: Vec<Sensor> = ids.iter().map(|&id| Sensor { id, weight: 1 }).collect();
        Assignment::new(&sensors).unwrap()
    }

    /// Buckets whose sensor, by identifier, is not the same in both.
    fn moved(before: &Assignment, after: &Assignment) -> usize {
        let id = |table: &Assignment, bucket: u16| {
            table.sensors()[usize::from(table.sensor_of_bucket(bucket))].id
        };
        (0..=u16::MAX).filter(|&bucket| id(before, bucket) != id(after, bucket)).count()
    }

    #[test]
    fn shares_are_exact() {
        assert_eq!(equal(&[0, 1, 2, 3]).bucket_counts(), [BUCKETS / 4; 4]);
        let thirds = equal(&[7, 8, 9]).bucket_counts();
        assert!(thirds.iter().all(|&n| n == BUCKETS / 3 || n == BUCKETS / 3 + 1));
        let weighted = Assignment::of_weights(&[1, 1, 2]).unwrap().bucket_counts();
        assert_eq!(weighted, [BUCKETS / 4, BUCKETS / 4, BUCKETS / 2]);
    }

    #[test]
    fn adding_or_removing_a_sensor_moves_its_share_and_at_most_one_percent_more() {
        for n in [2_u64, 3, 4, 5, 8, 16, 33] {
            let ids: Vec<u64> = (0..n).collect();
            let before = equal(&ids);
            let share = BUCKETS / n as usize;
            for gone in [0, n / 2, n - 1] {
                let rest: Vec<u64> = ids.iter().copied().filter(|&id| id != gone).collect();
                let after = equal(&rest);
                let count = moved(&before, &after);
                assert!(count >= share && count <= share + BUCKETS / 100, "{n} - 1: {count}");
                assert_eq!(count, moved(&after, &before));
            }
        }
    }

    #[test]
    fn a_change_of_weight_moves_little_more_than_it_must() {
        let before = Assignment::of_weights(&[1, 1, 1, 1]).unwrap();
        let after = Assignment::of_weights(&[1, 1, 1, 2]).unwrap();
        let grown = after.bucket_counts()[3] - before.bucket_counts()[3];
        assert!(moved(&before, &after) <= grown + BUCKETS / 100);
    }

    #[test]
    fn sensors_are_known_by_identifier_not_by_place() {
        let one = equal(&[1, 2, 3]);
        let other = equal(&[3, 1, 2]);
        assert_eq!(moved(&one, &other), 0);
    }

    #[test]
    fn contradictory_sensors_are_refused() {
        assert_eq!(Assignment::of_weights(&[]), Err(AssignmentError::NoSensors));
        assert_eq!(Assignment::of_weights(&[1, 0]), Err(AssignmentError::ZeroWeight(1)));
        let too_many = Assignment::of_weights(&vec![1; MAX_SENSORS + 1]);
        assert_eq!(too_many, Err(AssignmentError::TooMany(MAX_SENSORS + 1)));
        let twice = [Sensor { id: 4, weight: 1 }, Sensor { id: 4, weight: 2 }];
        assert_eq!(Assignment::new(&twice), Err(AssignmentError::SameId(0, 1)));
    }

    #[test]
    fn extreme_weights_leave_no_bucket_and_no_sensor_out() {
        let counts =
            Assignment::of_weights(&[u32::MAX, 1 << 17, u32::MAX]).unwrap().bucket_counts();
        assert_eq!(counts.iter().sum::<usize>(), BUCKETS);
        assert_eq!(counts[1], 1);
        let too_small = Assignment::of_weights(&[u32::MAX, 1, u32::MAX]);
        assert_eq!(too_small, Err(AssignmentError::NoShare(1)));
    }

    #[test]
    fn choices_come_best_first_and_each_sensor_once() {
        let sensors: Vec<Sensor> =
            (0..50).map(|id| Sensor { id, weight: 1 + id as u32 % 3 }).collect();
        for bucket in [0, 1, 65_535] {
            let mut choices = Choices::default();
            let given: Vec<(usize, Score)> =
                std::iter::from_fn(|| choices.next(bucket, &sensors)).collect();
            let mut expected: Vec<(usize, Score)> =
                sensors.iter().map(|sensor| score(bucket, sensor)).enumerate().collect();
            expected.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap());
            assert_eq!(given, expected);
        }
    }
}
