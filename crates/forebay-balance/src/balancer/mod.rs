//! Which buckets move where.
//!
//! Each interval the balancer compares what every sensor will carry with what it
//! should ([`mod@targets`]). What it will carry is the forecast of all buckets that are, or
//! on their way to be, its own ([`forecast`]), and what flows that have outlasted their
//! bucket's move keep there. Sensors too far over give away buckets until they are at
//! their target, the cheapest first: those with the fewest live flows for the load.
//!
//! What keeps it calm:
//! * nothing moves until a sensor is over or below its target by the hysteresis; then nobody
//!   gives more than takes it to its target, or gets more than half the hysteresis above
//!   its own;
//! * a move counts at its target from the moment it is decided, so that nothing is decided
//!   twice while loads catch up;
//! * a bucket that was moved cools down before it may move again;
//! * a bucket that would be too much for any sensor is named and left where it is.
//!
//! The balancer decides; [`crate::moves::Mover`] carries out. It knows no clock: an
//! interval is a call of [`Balancer::decide`].

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

/// Intervals that displaced load must have been there to count as lasting.
const LASTING: usize = 5;

/// Intervals that a bucket must be too big for every sensor before it is named.
const OVERSIZE_AFTER: u32 = 3;

/// How the balancer goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalanceSettings {
    /// Part of its target by which a sensor may be over or below before buckets move.
    pub hysteresis: f64,
    /// Intervals before a bucket that was moved may be moved again.
    pub cool_down: u32,
    /// Part of its target by which the load of a sensor that came back may grow in an
    /// interval.
    pub ramp: f64,
    /// The most moves begun in an interval.
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

/// What the balancer is told at each interval.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The sensors, by index.
    pub sensors: &'a [SensorShare],
    /// Loads by bucket, smoothed over a few intervals.
    pub loads: &'a [Load],
    /// Loads by bucket, of the last interval alone.
    pub latest: &'a [Load],
    /// What the table says, by bucket.
    pub entries: &'a [Entry],
    /// By sensor: load that it has though its bucket is elsewhere, less the load of its
    /// buckets that is elsewhere.
    pub displaced: &'a [Load],
    /// About how many live flows there are, by bucket.
    pub flows: &'a [f64],
    /// Whether a move of a bucket may begin.
    pub is_movable: &'a dyn Fn(u16) -> bool,
    /// Moves that may begin.
    pub moves: usize,
    /// Flows that may be recorded.
    pub keys: f64,
}

/// A move to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// The bucket.
    pub bucket: u16,
    /// Index of its new sensor.
    pub to: u16,
    /// At once, and tearing its flows.
    pub emergency: bool,
}

/// What is in store for a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Outlook {
    /// What it should carry.
    pub target: Load,
    /// What it carries.
    pub measured: Load,
    /// What it will carry once all moves have taken effect.
    pub expected: Load,
    /// The part of it that flows keep there which do not end, and that no move can take
    /// away. Negative where its buckets' flows stay elsewhere.
    pub lasting: Load,
}

/// A bucket too big for any sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Oversize {
    /// The bucket.
    pub bucket: u16,
    /// Its load.
    pub load: Load,
    /// In which dimension it is too big.
    pub dimension: Dimension,
    /// The most that any sensor should carry in that dimension.
    pub most: f64,
}

/// What the balancer decided.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// Moves to begin, most urgent first.
    pub moves: Vec<PlannedMove>,
    /// The sensors' outlook, by index.
    pub outlook: Vec<Outlook>,
    /// Buckets that are too big for any sensor.
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
    /// The interval from which on a bucket may move again.
    cool_from: Vec<u32>,
    /// The last displaced loads by sensor, newest last.
    displaced: Vec<VecDeque<Load>>,
    /// Sensors that are to take load slowly.
    warming: Vec<bool>,
    standing: Vec<Standing>,
    /// Intervals that a sensor was over its limit.
    over_limit: Vec<u32>,
    /// Intervals that a bucket was too big.
    oversize: HashMap<u16, u32>,
}

impl Balancer {
    /// A balancer that knows nothing of the loads yet.
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

    /// Changes how the balancer goes about it; what it knows it keeps.
    pub fn configure(&mut self, settings: BalanceSettings) {
        self.settings = settings;
    }

    /// An interval has passed.
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

    /// New sensors for `buckets`, which have lost theirs, in proportion to the room that
    /// the others have; nothing, where no sensor is up.
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

    /// What each sensor will carry, and what it carries.
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

    /// The part of a sensor's displaced load that has been there for long, and so is taken to
    /// stay: flows that were merely there when their bucket moved end meanwhile.
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

    /// Notes which sensors came back, and which of these have their load.
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

    /// Buckets that have been more than any sensor should carry for a while.
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
