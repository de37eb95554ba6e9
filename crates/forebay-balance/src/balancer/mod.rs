//! Decides which buckets move to which sensors.
//!
//! Each interval the balancer compares the expected load of every sensor with its target
//! ([`mod@targets`]). The expected load is the forecast of all buckets that are, or will
//! be, assigned to the sensor ([`forecast`]), and of flows that stay there after their
//! bucket has moved. Sensors too far over their target give away buckets until they reach
//! it, the cheapest first: those with the fewest live flows for the load.
//!
//! Stability:
//! * nothing moves until a sensor is over or below its target by the hysteresis; then no
//!   sensor goes below its own target by giving, or above it by more than half the
//!   hysteresis by receiving;
//! * a move counts at its new sensor from the moment it is decided, so that it is not
//!   decided twice while loads follow;
//! * a bucket that was moved cools down before it may move again;
//! * a bucket too large for any sensor is reported and stays where it is.
//!
//! The balancer decides; [`crate::moves::Mover`] executes. It uses no clock: an interval is
//! a call of [`Balancer::decide`].

pub mod forecast;
pub mod load;
mod planner;
pub mod targets;

use std::collections::{HashMap, VecDeque};

use forecast::{Forecast, total};
use load::{Dimension, Load};
use planner::Planner;
use targets::{SensorShare, Standing, targets};

use crate::assign::BUCKETS;
use crate::table::Entry;

/// Intervals for which displaced load must persist to count as lasting.
const LASTING: usize = 5;

/// Intervals for which a bucket must be too large for every sensor before it is reported.
const OVERSIZE_AFTER: u32 = 3;

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

/// Input of the balancer for an interval.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The sensors, by index.
    pub sensors: &'a [SensorShare],
    /// Loads by bucket, smoothed over a few intervals.
    pub loads: &'a [Load],
    /// Loads by bucket, of the last interval alone.
    pub latest: &'a [Load],
    /// Table entries by bucket.
    pub entries: &'a [Entry],
    /// By sensor: load that it has although its bucket is elsewhere, minus the load of its
    /// buckets that is elsewhere.
    pub displaced: &'a [Load],
    /// Estimated live flows, by bucket.
    pub flows: &'a [f64],
    /// Whether a move of a bucket may start.
    pub is_movable: &'a dyn Fn(u16) -> bool,
    /// The most moves that may start.
    pub moves: usize,
    /// The most flows that may be recorded.
    pub keys: f64,
}

/// A move to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// The bucket.
    pub bucket: u16,
    /// Index of the new sensor.
    pub to: u16,
    /// Immediate, tearing its flows.
    pub emergency: bool,
}

/// The loads of a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Outlook {
    /// The target.
    pub target: Load,
    /// The measured load.
    pub measured: Load,
    /// The load once all moves have taken effect.
    pub expected: Load,
    /// The part of the expected load from flows that stay there, do not end, and cannot be
    /// moved. Negative if flows of its buckets stay elsewhere.
    pub lasting: Load,
}

/// A bucket too large for any sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Oversize {
    /// The bucket.
    pub bucket: u16,
    /// Its load.
    pub load: Load,
    /// The dimension in which it is too large.
    pub dimension: Dimension,
    /// The greatest target of a sensor in that dimension.
    pub most: f64,
}

/// The decisions of an interval.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// Moves to start, most urgent first.
    pub moves: Vec<PlannedMove>,
    /// The loads of the sensors, by index.
    pub outlook: Vec<Outlook>,
    /// Buckets too large for any sensor.
    pub oversize: Vec<Oversize>,
}

/// Decides which buckets move where.
#[derive(Debug)]
pub struct Balancer {
    settings: BalanceSettings,
    interval: u32,
    forecast: Forecast,
    /// The last forecast, by bucket.
    later: Vec<Load>,
    /// By bucket: the interval from which on it may move again.
    cool_from: Vec<u32>,
    /// The last displaced loads by sensor, newest last.
    displaced: Vec<VecDeque<Load>>,
    /// Sensors whose load is ramped up.
    warming: Vec<bool>,
    standing: Vec<Standing>,
    /// By sensor: intervals over its limit.
    over_limit: Vec<u32>,
    /// By bucket: intervals in which it was too large.
    oversize: HashMap<u16, u32>,
}

impl Balancer {
    /// A balancer without load history.
    #[must_use]
    pub fn new(settings: BalanceSettings) -> Self {
        let forecast = Forecast::default();
        Self {
            settings,
            interval: 0,
            later: forecast.forecast(&vec![Load::NONE; BUCKETS], &vec![0.0; BUCKETS]),
            forecast,
            cool_from: vec![0; BUCKETS],
            displaced: Vec::new(),
            warming: Vec::new(),
            standing: Vec::new(),
            over_limit: Vec::new(),
            oversize: HashMap::new(),
        }
    }

    /// Changes the parameters; keeps the load history.
    pub fn configure(&mut self, settings: BalanceSettings) {
        self.settings = settings;
    }

    /// Decides the moves of an interval.
    pub fn decide(&mut self, view: &View<'_>) -> Plan {
        self.interval = self.interval.saturating_add(1);
        self.forecast.learn(view.loads, view.flows, view.latest);
        self.later = self.forecast.forecast(view.loads, view.flows);
        let (expected, measured) = self.sensor_loads(view);
        let targets = targets(view.sensors, total(&self.later));
        self.note_standing(view.sensors, &expected, &targets);
        let oversize = self.find_oversize(view, &targets);
        let mut outlook: Vec<Outlook> = targets
            .iter()
            .enumerate()
            .map(|(i, &target)| Outlook {
                target,
                measured: measured[i],
                expected: expected[i],
                lasting: self.lasting(i),
            })
            .collect();
        let mut planner = Planner::new(self, view, &targets, expected);
        planner.plan();
        let (mut moves, expected) = planner.finish();
        for (outlook, expected) in outlook.iter_mut().zip(expected) {
            outlook.expected = expected;
        }
        for planned in &moves {
            self.cool_from[usize::from(planned.bucket)] =
                self.interval.saturating_add(self.settings.cool_down);
        }
        if self.settings.emergency {
            moves.extend(self.relieve(view, &targets, measured));
        }
        Plan { moves, outlook, oversize }
    }

    /// New sensors for `buckets` that have none, in proportion to the room of the other
    /// sensors; empty if no sensor is up.
    #[must_use]
    pub fn spread(&self, sensors: &[SensorShare], entries: &[Entry], buckets: &[u16]) -> Vec<u16> {
        let mut expected = vec![Load::NONE; sensors.len()];
        for (entry, &load) in entries.iter().zip(&self.later) {
            if let Some(sum) = expected.get_mut(usize::from(entry.destination())) {
                *sum += load;
            }
        }
        let targets = targets(sensors, total(&self.later));
        let up: Vec<usize> =
            (0..sensors.len()).filter(|&i| sensors[i].standing == Standing::Up).collect();
        let whole = total(&self.later);
        let mut order: Vec<usize> = (0..buckets.len()).collect();
        let size = |&i: &usize| self.later[usize::from(buckets[i])].share_of(whole);
        order.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let mut places = Vec::new();
        for i in order {
            let load = self.later[usize::from(buckets[i])];
            let fullness = |s: usize| (expected[s] + load).share_of(targets[s]);
            let best = up.iter().copied().min_by(|&a, &b| fullness(a).total_cmp(&fullness(b)));
            let Some(best) = best else { return Vec::new() };
            expected[best] += load;
            places.push((i, best as u16));
        }
        places.sort_unstable_by_key(|place| place.0);
        places.into_iter().map(|place| place.1).collect()
    }

    /// The expected and the measured load of each sensor.
    fn sensor_loads(&mut self, view: &View<'_>) -> (Vec<Load>, Vec<Load>) {
        let sensors = view.sensors.len();
        self.displaced.resize(sensors, VecDeque::with_capacity(LASTING));
        let mut expected = vec![Load::NONE; sensors];
        let mut measured = vec![Load::NONE; sensors];
        for ((entry, &now), &later) in view.entries.iter().zip(view.loads).zip(&self.later) {
            if let Some(sum) = expected.get_mut(usize::from(entry.destination())) {
                *sum += later;
            }
            if let Some(sum) = measured.get_mut(usize::from(entry.default_sensor())) {
                *sum += now;
            }
        }
        for (i, &displaced) in view.displaced.iter().take(sensors).enumerate() {
            measured[i] += displaced;
            let past = &mut self.displaced[i];
            if past.len() == LASTING {
                past.pop_front();
            }
            past.push_back(displaced);
            expected[i] += self.lasting(i);
        }
        (expected, measured)
    }

    /// The part of a sensor's displaced load that has persisted, and is expected to stay:
    /// flows that merely overlapped the move of their bucket have ended by then.
    fn lasting(&self, sensor: usize) -> Load {
        let Some(past) = self.displaced.get(sensor).filter(|past| past.len() == LASTING) else {
            return Load::NONE;
        };
        Load::from_fn(|d| {
            let least = past.iter().map(|load| load[d]).fold(f64::INFINITY, f64::min);
            let most = past.iter().map(|load| load[d]).fold(f64::NEG_INFINITY, f64::max);
            if least > 0.0 { least } else { most.min(0.0) }
        })
    }

    /// Updates which sensors came back, and which of these have reached their load.
    fn note_standing(&mut self, sensors: &[SensorShare], expected: &[Load], targets: &[Load]) {
        self.warming.resize(sensors.len(), false);
        self.over_limit.resize(sensors.len(), 0);
        let known = self.standing.len();
        for (i, sensor) in sensors.iter().enumerate() {
            let is_up = sensor.standing == Standing::Up;
            let was_up = if i < known { self.standing[i] == Standing::Up } else { known == 0 };
            let load = expected[i].share_of(targets[i]);
            self.warming[i] = is_up && load < 0.9 && (self.warming[i] || !was_up);
        }
        self.standing = sensors.iter().map(|sensor| sensor.standing).collect();
    }

    /// Buckets that have exceeded every sensor's target for a while.
    fn find_oversize(&mut self, view: &View<'_>, targets: &[Load]) -> Vec<Oversize> {
        let most = Load::from_fn(|d| targets.iter().map(|target| target[d]).fold(0.0, f64::max));
        let mut found = Vec::new();
        let mut seen = HashMap::new();
        for (bucket, &load) in (0..=u16::MAX).zip(view.loads) {
            let Some(dimension) = Dimension::ALL.into_iter().find(|&d| load[d] > most[d]) else {
                continue;
            };
            let times = self.oversize.get(&bucket).map_or(1, |times| times.saturating_add(1));
            seen.insert(bucket, times);
            if times >= OVERSIZE_AFTER {
                found.push(Oversize { bucket, load, dimension, most: most[dimension] });
            }
        }
        self.oversize = seen;
        found
    }

    /// Moves that tear flows, off sensors that have been over their limit for too long.
    fn relieve(
        &mut self,
        view: &View<'_>,
        targets: &[Load],
        mut measured: Vec<Load>,
    ) -> Vec<PlannedMove> {
        let mut moves = Vec::new();
        for sensor in 0..view.sensors.len() {
            let is_over = measured[sensor].share_of(view.sensors[sensor].limit()) > 1.0;
            self.over_limit[sensor] = if is_over { self.over_limit[sensor] + 1 } else { 0 };
            if self.over_limit[sensor] < self.settings.patience {
                continue;
            }
            self.over_limit[sensor] = 0;
            planner::tear(view, targets, &mut measured, sensor, &mut moves);
        }
        moves
    }
}

#[cfg(test)]
mod tests;
