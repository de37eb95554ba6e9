//! The limits of sensors beyond which packets to them are shed.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_flow::shed::{Limit, LimitEstimate, OnOverload, Rates, SensorReport};
use forebay_pipeline::stages::Shedding;

use crate::config::Sensor;

/// The limit of one sensor, for all workers.
#[derive(Debug)]
struct Overload {
    rates: Rates,
    limit: Arc<Limit>,
    /// Of a sensor whose limit is known by its hellos only.
    estimate: LimitEstimate,
}

/// The limits of a group's sensors, by their names.
#[derive(Debug, Default)]
pub(crate) struct Overloads(HashMap<String, Overload>);

impl Overloads {
    pub(crate) fn of(sensors: &[Sensor]) -> Self {
        let mut overloads = Self::default();
        overloads.update(sensors);
        overloads
    }

    /// Follows a change of the sensors. A limit that stays as it is goes on.
    pub(crate) fn update(&mut self, sensors: &[Sensor]) {
        let mut old = std::mem::take(&mut self.0);
        for sensor in sensors.iter().filter(|sensor| sensor.on_overload != OnOverload::None) {
            let rates = Rates { pps: sensor.limit_pps, bps: sensor.limit_bps };
            let same = old.remove(&sensor.name).filter(|old| old.rates == rates);
            let overload = same.unwrap_or_else(|| {
                let is_unknown = rates == Rates::default();
                let first =
                    if is_unknown { Rates { pps: Some(u64::MAX), bps: None } } else { rates };
                let limit = Arc::new(Limit::new(first));
                Overload { rates, limit, estimate: LimitEstimate::default() }
            });
            self.0.insert(sensor.name.clone(), overload);
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

    pub(crate) fn limit(&self, name: &str) -> Option<&Limit> {
        self.0.get(name).map(|overload| &*overload.limit)
    }

    /// A sensor reports what it received and dropped.
    pub(crate) fn hello(&mut self, sensor: &Sensor, received: u64, dropped: u64, now: u64) {
        let Some(overload) = self.0.get_mut(&sensor.name) else { return };
        let report = SensorReport { at: now, received, dropped };
        if overload.rates == Rates::default()
            && let Some(pps) = overload.estimate.report(report)
        {
            overload.limit.set_pps(pps);
        }
    }
}
