//! Whether a switch sends a sensor what is for others.
//!
//! A switch that has forgotten where a sensor is sends the sensor's frames to everyone, and
//! each sensor then sees flows that are not its own. The sensors notice: their hellos
//! count frames that were for other stations. A count that rises is a flood, and one that
//! has not risen for a while is its end.

/// Nanoseconds without a frame for others after which a flood is over.
const CALM: u64 = 10_000_000_000;

/// What is known of frames for others that reach one sensor.
#[derive(Clone, Debug, Default)]
pub struct Flooding {
    /// The sensor's own count when it was last heard.
    counted: Option<u64>,
    frames: u64,
    /// When a hello last reported more, while a flood lasts.
    rose_at: Option<u64>,
}

/// A flood begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The sensor has begun to get what is for others.
    Began,
    /// It gets it no more.
    Ended,
}

impl Flooding {
    /// A hello at the time `now` reports how many frames for others the sensor has got since
    /// it was started. What came before the first hello is not counted.
    pub fn note(&mut self, now: u64, strays: u64) -> Option<Turn> {
        let new = match self.counted.replace(strays) {
            None => 0,
            // A sensor that was started again counts from zero.
            Some(before) => strays.checked_sub(before).unwrap_or(strays),
        };
        // A hello may have any number.
        self.frames = self.frames.wrapping_add(new);
        if new > 0 {
            return self.rose_at.replace(now).is_none().then_some(Turn::Began);
        }
        self.rose_at.take_if(|at| now.saturating_sub(*at) > CALM).map(|_| Turn::Ended)
    }

    /// Frames for others that have reached the sensor.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether such frames have come lately.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.rose_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_when_it_begins_and_when_it_ends() {
        let mut flooding = Flooding::default();
        assert_eq!(flooding.note(1, 700), None, "from before");
        assert_eq!(flooding.note(2, 705), Some(Turn::Began));
        assert_eq!(flooding.note(3, 706), None);
        assert!(flooding.is_on());
        assert_eq!(flooding.note(3 + CALM, 706), None);
        assert_eq!(flooding.note(4 + CALM, 706), Some(Turn::Ended));
        assert_eq!(flooding.note(5 + CALM, 706), None);
        assert_eq!(flooding.note(6 + CALM, 2), Some(Turn::Began), "started again");
        assert_eq!(flooding.frames(), 8);
    }

    #[test]
    fn any_number_may_be_said() {
        let mut flooding = Flooding::default();
        for strays in [0, u64::MAX, 1, u64::MAX, 0] {
            flooding.note(1, strays);
        }
        assert!(flooding.is_on());
    }
}
