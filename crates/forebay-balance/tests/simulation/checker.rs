//! What torn means, and nothing else: packets of one key, within the idle timeout, on two
//! sensors.

use std::collections::{HashMap, HashSet};

/// Sees every packet.
pub struct Checker {
    idle_timeout: u64,
    last: HashMap<u64, (u64, u16)>,
    buried: Vec<Buried>,
    /// Packets that came to another sensor than the packet before.
    pub torn: u64,
    /// Packets that had no sensor.
    pub nowhere: u64,
}

/// A sensor that died.
struct Buried {
    sensor: u16,
    until: u64,
    /// Its flows that have not gone on yet.
    flows: HashSet<u64>,
    went_on: u64,
}

impl Checker {
    pub fn new(idle_timeout: u64) -> Self {
        Self { idle_timeout, last: HashMap::new(), buried: Vec::new(), torn: 0, nowhere: 0 }
    }

    /// A packet of `key` came to `sensor`.
    pub fn see(&mut self, key: u64, time: u64, sensor: u16) {
        for buried in &mut self.buried {
            if time <= buried.until && buried.flows.remove(&key) {
                buried.went_on += 1;
            }
        }
        if sensor == forebay_balance::NO_SENSOR {
            self.nowhere += 1;
            return;
        }
        let before = self.last.insert(key, (time, sensor));
        if let Some((earlier, other)) = before
            && other != sensor
            && time.abs_diff(earlier) <= self.idle_timeout
        {
            self.torn += 1;
        }
    }

    /// A sensor dies: its flows are broken and may go elsewhere. How many of them had a packet
    /// within half the idle timeout, and within all of it.
    pub fn evict_sensor(&mut self, sensor: u16, now: u64) -> (u64, u64) {
        let (mut half, mut whole) = (0, 0);
        let mut flows = HashSet::new();
        self.last.retain(|&key, last| {
            if last.1 == sensor {
                if now - last.0 <= self.idle_timeout {
                    flows.insert(key);
                }
                half += u64::from(now - last.0 <= self.idle_timeout / 2);
                whole += u64::from(now - last.0 <= self.idle_timeout);
            }
            last.1 != sensor
        });
        self.buried.push(Buried { sensor, until: now + self.idle_timeout, flows, went_on: 0 });
        (half, whole)
    }

    /// How many flows of a sensor went on within an idle timeout of its oldest death that was
    /// not asked for yet.
    pub fn went_on(&mut self, sensor: u16) -> u64 {
        let of_it = self.buried.iter().position(|buried| buried.sensor == sensor).unwrap();
        self.buried.remove(of_it).went_on
    }
}
