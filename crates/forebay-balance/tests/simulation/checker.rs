//! What torn means, and nothing else: packets of one key, within the idle timeout, on two
//! sensors.

use std::collections::HashMap;

/// Sees every packet.
pub struct Checker {
    idle_timeout: u64,
    last: HashMap<u64, (u64, u16)>,
    /// Packets that came to another sensor than the packet before.
    pub torn: u64,
    /// Packets that had no sensor.
    pub nowhere: u64,
}

impl Checker {
    pub fn new(idle_timeout: u64) -> Self {
        Self { idle_timeout, last: HashMap::new(), torn: 0, nowhere: 0 }
    }

    /// A packet of `key` came to `sensor`.
    pub fn see(&mut self, key: u64, time: u64, sensor: u16) {
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
    pub fn bury(&mut self, sensor: u16, now: u64) -> (u64, u64) {
        let (mut half, mut whole) = (0, 0);
        self.last.retain(|_, last| {
            if last.1 == sensor {
                half += u64::from(now - last.0 <= self.idle_timeout / 2);
                whole += u64::from(now - last.0 <= self.idle_timeout);
            }
            last.1 != sensor
        });
        (half, whole)
    }
}
