//! The limits of sensors and of classes beyond which packets are shed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use forebay_flow::shed::{Limit, LimitEstimate, OnOverload, Rates, SensorReport};
use forebay_pipeline::stages::{ClassConfig, Shedding};

use crate::config::Sensor;

/// What may have a limit: a sensor or a class.
pub(crate) struct Limited<'a> {
    name: &'a str,
    rates: Rates,
    policy: OnOverload,
}

impl<'a> From<&'a Sensor> for Limited<'a> {
    fn from(sensor: &'a Sensor) -> Self {
        let rates = Rates { pps: sensor.limit_pps, bps: sensor.limit_bps };
        Self { name: &sensor.name, rates, policy: sensor.on_overload }
    }
}

impl<'a> From<&'a ClassConfig> for Limited<'a> {
    fn from(class: &'a ClassConfig) -> Self {
        Self { name: &class.name, rates: class.rates, policy: class.on_overload }
    }
}

/// The limit of one sensor or class, for all workers.
#[derive(Debug)]
struct Overload {
    rates: Rates,
    limit: Arc<Limit>,
    /// Of a sensor whose limit is known by its hellos only.
    estimate: LimitEstimate,
}

/// The limits of a group's sensors, or of its classes, by their names.
#[derive(Debug, Default)]
pub(crate) struct Overloads(HashMap<String, Overload>);

impl Overloads {
    pub(crate) fn of<'a, T: Into<Limited<'a>>>(all: impl IntoIterator<Item = T>) -> Self {
        let mut overloads = Self::default();
        overloads.update(all);
        overloads
    }

    /// Follows a change of the sensors, or classes. A limit that stays as it is goes on, one
    /// that changes keeps its counts. Of those with the same name, the first counts.
    pub(crate) fn update<'a, T: Into<Limited<'a>>>(&mut self, all: impl IntoIterator<Item = T>) {
        let mut old = std::mem::take(&mut self.0);
        let mut names = HashSet::new();
        let first = all.into_iter().map(T::into).filter(|one| names.insert(one.name));
        for Limited { name, rates, policy } in first {
            if policy == OnOverload::None {
                continue;
            }
            let is_unknown = rates == Rates::default();
            let first = if is_unknown { Rates { pps: Some(u64::MAX), bps: None } } else { rates };
            let overload = match old.remove(name) {
                Some(same) if same.rates == rates => same,
                other => {
                    let limit = match other {
                        Some(old) => old.limit.replacement(first),
                        None => Limit::new(first),
                    };
                    let estimate = LimitEstimate::default();
                    Overload { rates, limit: Arc::new(limit), estimate }
                }
            };
            self.0.insert(name.to_owned(), overload);
        }
    }

    /// The policy and the limit of each sensor.
    pub(crate) fn shedding(&self, sensors: &[Sensor]) -> Shedding {
        let shed = |sensor: &Sensor| {
            let overload = self.0.get(&sensor.name)?;
            Some((sensor.on_overload, Arc::clone(&overload.limit)))
        };
        Shedding(sensors.iter().map(shed).collect())
    }

    pub(crate) fn limit(&self, name: &str) -> Option<&Arc<Limit>> {
        self.0.get(name).map(|overload| &overload.limit)
    }

    /// A sensor reports what it received and dropped.
    pub(crate) fn hello(&mut self, sensor: &Sensor, report: SensorReport) {
        let Some(overload) = self.0.get_mut(&sensor.name) else { return };
        if overload.rates == Rates::default()
            && let Some(pps) = overload.estimate.report(report)
        {
            overload.limit.set_pps(pps);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_packet::Rewrite;

    use super::*;

    #[test]
    fn a_place_that_was_left_decides_nothing_for_a_sensor_with_its_name() {
        let sensor = |limit_pps| Sensor {
            name: "ids".to_owned(),
            output: 0,
            rewrite: Rewrite::default(),
            weight: 1,
            limit_pps: Some(limit_pps),
            limit_bps: None,
            on_overload: OnOverload::Fair,
            hello: false,
        };
        let (present, left) = (sensor(2_000), sensor(1_000));
        let mut overloads = Overloads::of([&present]);
        let limit = Arc::clone(&overloads.0["ids"].limit);
        for _ in 0..2 {
            overloads.update([&present, &left]);
            assert!(Arc::ptr_eq(&limit, &overloads.0["ids"].limit));
        }
        let none = Sensor { on_overload: OnOverload::None, ..present };
        overloads.update([&none, &left]);
        assert!(overloads.limit("ids").is_none());
    }
}
