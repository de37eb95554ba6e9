//! Chooses the moves of one interval.

use super::forecast::total;
use super::interval::{PlannedMove, View};
use super::load::Load;
use super::settings::BalanceSettings;
use super::targets::Standing;
use crate::table::Phase;

/// Consecutive buckets that fit nowhere before the search stops.
const TRIES: usize = 64;

/// What the moves of an interval are chosen from.
pub(super) struct Situation<'a> {
    pub settings: &'a BalanceSettings,
    pub view: &'a View<'a>,
    pub targets: &'a [Load],
    /// The forecast, by bucket.
    pub later: &'a [Load],
    /// Sensors whose load is ramped up.
    pub warming: &'a [bool],
    /// Whether a bucket may be moved off a sensor that is up.
    pub may_move: &'a dyn Fn(u16) -> bool,
}

/// The loads after the moves chosen so far.
pub(super) struct Planner<'a> {
    situation: Situation<'a>,
    expected: Vec<Load>,
    /// The load that each sensor may still gain in this interval.
    allowance: Vec<Load>,
    keys: f64,
    most: usize,
    moves: Vec<PlannedMove>,
}

impl<'a> Planner<'a> {
    pub fn new(situation: Situation<'a>, expected: Vec<Load>) -> Self {
        let Situation { settings, view, targets, warming, .. } = situation;
        let unlimited = Load { packets: f64::INFINITY, bits: f64::INFINITY };
        let allowance = |(&target, &warming): (&Load, &bool)| {
            if warming { target * settings.ramp } else { unlimited }
        };
        Self {
            expected,
            allowance: targets.iter().zip(warming).map(allowance).collect(),
            keys: view.keys,
            most: view.moves.min(settings.moves_per_interval),
            moves: Vec::new(),
            situation,
        }
    }

    /// The moves chosen, and the load of each sensor after them.
    pub fn finish(self) -> (Vec<PlannedMove>, Vec<Load>) {
        (self.moves, self.expected)
    }

    /// Chooses moves: off draining sensors, then off those too far over their target, the
    /// farthest first. If a sensor is too far below its target, all sensors over theirs
    /// give.
    pub fn plan(&mut self) {
        let hysteresis = self.situation.settings.hysteresis;
        let sensors = self.situation.view.sensors;
        let having = |standing| -> Vec<usize> {
            (0..sensors.len()).filter(|&i| sensors[i].standing == standing).collect()
        };
        let (draining, up) = (having(Standing::Draining), having(Standing::Up));
        let any_below = up.iter().any(|&i| self.fullness(i) < 1.0 - hysteresis);
        let trigger = 1.0 + if any_below { hysteresis / 5.0 } else { hysteresis };
        let mut over: Vec<usize> = up.into_iter().filter(|&i| self.fullness(i) > trigger).collect();
        over.sort_by(|&a, &b| self.fullness(b).total_cmp(&self.fullness(a)));
        if draining.is_empty() && over.is_empty() {
            return;
        }
        let mut buckets: Vec<Vec<u16>> = vec![Vec::new(); self.situation.view.sensors.len()];
        for (bucket, entry) in (0..=u16::MAX).zip(self.situation.view.entries) {
            if let Some(list) = buckets.get_mut(usize::from(entry.destination())) {
                list.push(bucket);
            }
        }
        for sensor in draining {
            self.drain(sensor, &buckets[sensor]);
        }
        for sensor in over {
            self.shed(sensor, &buckets[sensor]);
        }
    }

    fn fullness(&self, sensor: usize) -> f64 {
        self.expected[sensor].share_of(self.situation.targets[sensor])
    }

    fn later(&self, bucket: u16) -> Load {
        self.situation.later[usize::from(bucket)]
    }

    /// The movable buckets of a list, with their live flows, cheapest first.
    fn cheapest_first(&self, buckets: &[u16], whole: Load, urgent: bool) -> Vec<(u16, f64)> {
        let may_move = |&bucket: &u16| urgent || (self.situation.may_move)(bucket);
        let mut order: Vec<(f64, f64, u16, f64)> = buckets
            .iter()
            .copied()
            .filter(may_move)
            .map(|bucket| {
                let flows = self.situation.view.flows[usize::from(bucket)];
                let size = self.later(bucket).share_of(whole);
                (flows / size, -size, bucket, flows)
            })
            .collect();
        // Ties are broken in an order unrelated to bucket numbers, since adjacent buckets
        // may have been assigned together.
        let shuffled = |bucket: u16| bucket.wrapping_mul(0x9e37).rotate_left(7);
        order.sort_unstable_by(|a, b| {
            let by_cost = a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
            by_cost.then_with(|| shuffled(a.2).cmp(&shuffled(b.2)))
        });
        order.into_iter().map(|(_, _, bucket, flows)| (bucket, flows)).collect()
    }

    fn drain(&mut self, sensor: usize, buckets: &[u16]) {
        let whole = total(self.situation.later);
        for (bucket, flows) in self.cheapest_first(buckets, whole, true) {
            if !self.has_room(flows) {
                continue;
            }
            let Some((to, _)) = self.emptiest(sensor, self.later(bucket)) else { return };
            self.choose(bucket, flows, sensor, to);
        }
    }

    fn shed(&mut self, sensor: usize, buckets: &[u16]) {
        let hysteresis = self.situation.settings.hysteresis;
        let target = self.situation.targets[sensor];
        let candidates = self.cheapest_first(buckets, target, false);
        let dimension = self.expected[sensor].critical(target);
        let (before, mut misses) = (self.moves.len(), 0);
        for &(bucket, flows) in &candidates {
            let excess = self.expected[sensor][dimension] - target[dimension];
            if excess <= 0.0 || misses >= TRIES {
                break;
            }
            let load = self.later(bucket);
            if load[dimension] > excess + hysteresis / 2.0 * target[dimension]
                || !self.has_room(flows)
            {
                continue;
            }
            match self.emptiest(sensor, load) {
                Some((to, fullness)) if fullness <= 1.0 + hysteresis / 2.0 => {
                    self.choose(bucket, flows, sensor, to);
                    misses = 0;
                }
                _ => misses += 1,
            }
        }
        if self.moves.len() == before {
            self.shed_one(sensor, &candidates);
        }
    }

    /// If all buckets are too large to move without overshooting: takes the one bucket
    /// whose move minimises the greater load of both sensors, if that is an improvement.
    fn shed_one(&mut self, sensor: usize, candidates: &[(u16, f64)]) {
        let mut best = self.fullness(sensor) - self.situation.settings.hysteresis;
        let mut choice = None;
        for &(bucket, flows) in candidates {
            let load = self.later(bucket);
            let left = (self.expected[sensor] - load).share_of(self.situation.targets[sensor]);
            let Some((to, fullness)) = self.emptiest(sensor, load) else { return };
            if left.max(fullness) < best && self.has_room(flows) {
                best = left.max(fullness);
                choice = Some((bucket, flows, to));
            }
        }
        if let Some((bucket, flows, to)) = choice {
            self.choose(bucket, flows, sensor, to);
        }
    }

    fn has_room(&self, flows: f64) -> bool {
        self.moves.len() < self.most && flows <= self.keys
    }

    /// The sensor with the lowest relative load after adding `load`, and that relative
    /// load.
    fn emptiest(&self, except: usize, load: Load) -> Option<(usize, f64)> {
        let may_take = |&i: &usize| {
            i != except
                && self.situation.view.sensors[i].standing == Standing::Up
                && load.packets <= self.allowance[i].packets
                && load.bits <= self.allowance[i].bits
        };
        (0..self.situation.view.sensors.len())
            .filter(may_take)
            .map(|i| (i, (self.expected[i] + load).share_of(self.situation.targets[i])))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn choose(&mut self, bucket: u16, flows: f64, from: usize, to: usize) {
        let load = self.later(bucket);
        self.expected[from] -= load;
        self.expected[to] += load;
        self.allowance[to] -= load;
        self.keys -= flows;
        self.moves.push(PlannedMove { bucket, to: to as u16, emergency: false });
    }
}

/// Chooses moves that tear flows until `sensor` is at its target: those that tear the
/// fewest flows for the load.
pub(super) fn tear(
    view: &View<'_>,
    targets: &[Load],
    measured: &mut [Load],
    sensor: usize,
    moves: &mut Vec<PlannedMove>,
) {
    let is_there = |bucket: u16| {
        let entry = view.entries[usize::from(bucket)];
        let stays = matches!(entry.phase(), Phase::Turning | Phase::Moving)
            && usize::from(entry.from()) == sensor;
        stays || usize::from(entry.default_sensor()) == sensor
    };
    let load = |bucket: u16| view.loads[usize::from(bucket)];
    let flows = |bucket: u16| view.flows[usize::from(bucket)];
    let mut order: Vec<(f64, u16)> = (0..=u16::MAX)
        .filter(|&bucket| is_there(bucket) && load(bucket) != Load::NONE)
        .map(|bucket| (flows(bucket) / load(bucket).share_of(targets[sensor]), bucket))
        .collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    for (_, bucket) in order {
        if measured[sensor].share_of(targets[sensor]) <= 1.0 {
            return;
        }
        let load = load(bucket);
        let fits = |&i: &usize| {
            i != sensor
                && view.sensors[i].standing == Standing::Up
                && (measured[i] + load).share_of(targets[i]) <= 1.0
        };
        let fullness = |i: usize| (measured[i] + load).share_of(targets[i]);
        let to = (0..view.sensors.len())
            .filter(fits)
            .min_by(|&a, &b| fullness(a).total_cmp(&fullness(b)));
        if let Some(to) = to {
            measured[sensor] -= load;
            measured[to] += load;
            moves.push(PlannedMove { bucket, to: to as u16, emergency: true });
        }
    }
}
