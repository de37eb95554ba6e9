//! The sensors of a group and their state.

use crate::assign::Sensor;
use crate::balancer::Outlook;
use crate::balancer::targets::{SensorShare, Standing};
use crate::health::{Health, HelloRule, Transition};
use crate::moves::Held;

/// The configuration of a sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SensorSettings {
    /// Identifies the sensor across changes of the set of sensors.
    pub id: u64,
    /// Its share is its weight divided by the sum of weights of all sensors that are up.
    pub weight: u32,
    /// The most packets a second.
    pub max_packets: Option<f64>,
    /// The most bits a second.
    pub max_bits: Option<f64>,
    /// The hellos expected of it; `None` if it is up until commanded otherwise.
    pub hello: Option<HelloRule>,
}

impl SensorSettings {
    /// A sensor without limits and hellos.
    #[must_use]
    pub fn new(id: u64, weight: u32) -> Self {
        Self { id, weight, max_packets: None, max_bits: None, hello: None }
    }

    /// The sensor as input of the assignment.
    #[must_use]
    pub fn share(&self) -> Sensor {
        Sensor { id: self.id, weight: self.weight }
    }
}

/// The state of a sensor.
#[derive(Clone, Debug)]
pub struct SensorStatus {
    /// Its configuration.
    pub settings: SensorSettings,
    /// Whether it receives traffic.
    pub standing: Standing,
    /// Its health, which `standing` may still have to follow.
    pub health: Health,
    /// The buckets and keys it has.
    pub held: Held,
    /// Its loads, as of the last interval.
    pub outlook: Outlook,
}

/// The user of an index.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub settings: SensorSettings,
    /// Whether it is still configured.
    pub is_configured: bool,
    /// Whether senders were told of this index.
    pub is_known: bool,
    pub health: Health,
    /// The standing in the table, which follows its health.
    pub standing: Standing,
    /// Whether its draining was reported as complete.
    pub is_drained: bool,
}

impl Member {
    pub fn new(settings: &SensorSettings, now: u64) -> Self {
        Self {
            settings: *settings,
            is_configured: true,
            is_known: true,
            health: Health::new(settings.hello, now),
            standing: Standing::Up,
            is_drained: false,
        }
    }

    pub fn configure(&mut self, settings: &SensorSettings, now: u64) -> Option<Transition> {
        self.settings = *settings;
        self.health.expect(settings.hello, now)
    }

    pub fn balanced_as(&self) -> SensorShare {
        SensorShare {
            weight: self.settings.weight,
            max_packets: self.settings.max_packets,
            max_bits: self.settings.max_bits,
            standing: self.standing,
        }
    }

    pub fn status(&self, held: Held, outlook: Outlook) -> SensorStatus {
        SensorStatus {
            settings: self.settings,
            standing: self.standing,
            health: self.health.clone(),
            held,
            outlook,
        }
    }
}
