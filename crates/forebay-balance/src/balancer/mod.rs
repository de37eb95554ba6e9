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
mod interval;
pub mod load;
mod planner;
mod settings;
pub mod targets;

use std::collections::{HashMap, VecDeque};

use forecast::{Forecast, total};
use load::{Dimension, Load};
use planner::{Planner, Situation};
use targets::{SensorShare, Standing, targets};

use crate::assign::BUCKETS;
use crate::table::Entry;

pub use interval::{Decisions, Outlook, Oversize, PlannedMove, View};
pub use settings::BalanceSettings;

/// Intervals for which displaced load must persist to count as lasting.
const LASTING: usize = 5;

/// Intervals for which a bucket must be too large for every sensor before it is reported.
const OVERSIZE_AFTER: u32 = 3;

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
    pub fn decide(&mut self, view: &View<'_>) -> Decisions {
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
        let may_move = |bucket: u16| {
            self.cool_from[usize::from(bucket)] <= self.interval
                && !self.oversize.contains_key(&bucket)
                && (view.is_movable)(bucket)
        };
        let situation = Situation {
            settings: &self.settings,
            view,
            targets: &targets,
            later: &self.later,
            warming: &self.warming,
            may_move: &may_move,
        };
        let mut planner = Planner::new(situation, expected);
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
        Decisions { moves, outlook, oversize }
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
