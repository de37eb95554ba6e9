//! The sensors of a group, and what is known of each.

use crate::assign::Sensor;
use crate::balancer::Outlook;
use crate::balancer::targets::{SensorShare, Standing};
use crate::health::{Health, HelloRule, Transition};
use crate::moves::Held;

/// How a sensor is configured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SensorSettings {
    /// What tells it from the others, also when others come and go.
    pub id: u64,
    /// Its share is its weight over the sum of all that are up.
    pub weight: u32,
    /// The most packets a second that it can take.
    pub max_packets: Option<f64>,
    /// The most bits a second that it can take.
    pub max_bits: Option<f64>,
    /// What hellos are expected of it; none, where it is up until told otherwise.
    pub hello: Option<HelloRule>,
}

impl SensorSettings {
    /// A sensor without limits that sends no hellos.
    #[must_use]
    pub fn new(id: u64, weight: u32) -> Self {
        Self { id, weight, max_packets: None, max_bits: None, hello: None }
    }

    /// The sensor as far as assignment goes.
    #[must_use]
    pub fn share(&self) -> Sensor {
        Sensor { id: self.id, weight: self.weight }
    }
}

/// A sensor as it is now.
#[derive(Clone, Debug)]
pub struct SensorStatus {
    /// How it is configured.
    pub settings: SensorSettings,
    /// Whether it takes part.
    pub standing: Standing,
    /// What is known of its health, which it may be about to follow.
    pub health: Health,
    /// What it has to do with.
    pub held: Held,
    /// What is in store for it, as of the last interval.
    pub outlook: Outlook,
}

/// The holder of an index.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub settings: SensorSettings,
    /// Whether there is such a sensor still.
    pub is_configured: bool,
    /// Whether whoever sends to indices knows this one.
    pub is_known: bool,
    pub health: Health,
    /// What the table goes by, which follows its health.
    pub standing: Standing,
    /// Whether it was told that it has drained.
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
