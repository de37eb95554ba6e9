//! A device counter relative to its first reading.
//!
//! The kernel shows 64 bits, but many drivers copy 32-bit device counters, and some restart
//! at zero when the device is reset. If a value decreases, it is either a wrap or a reset:
//! after a wrap it is, modulo the width, less than half the width ahead of the previous
//! value; otherwise the device was reset, and its whole value has been counted since.

use super::link::LinkStats;

/// A counter that may wrap or restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counter {
    last: u64,
    grown: u64,
}

impl Counter {
    /// A counter whose present value is `now`; counts from here.
    pub fn from(now: u64) -> Self {
        Self { last: now, grown: 0 }
    }

    /// Updates the counter to the value `now`. To be called at least once in half a width.
    pub fn note(&mut self, now: u64) {
        self.grown = self.grown.saturating_add(growth(self.last, now));
        self.last = now;
    }

    /// The increase since the first reading.
    pub fn grown(&self) -> u64 {
        self.grown
    }
}

/// Frames lost by a device before they reach a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RxLosses {
    errors: Counter,
    missed: Counter,
    dropped: Counter,
}

impl RxLosses {
    /// Counters of a device with the present values `now`; count from here.
    pub fn from(now: &LinkStats) -> Self {
        let [errors, missed, dropped] =
            [now.rx_errors, now.rx_missed, now.rx_dropped].map(Counter::from);
        Self { errors, missed, dropped }
    }

    /// Updates the counters to `now`. To be called as [`Counter::note`].
    pub fn note(&mut self, now: &LinkStats) {
        self.errors.note(now.rx_errors);
        self.missed.note(now.rx_missed);
        self.dropped.note(now.rx_dropped);
    }

    /// Damaged frames, and frames without a buffer in the device.
    pub fn of_device(&self) -> Vec<(&'static str, u64)> {
        vec![("device_errors", self.errors.grown()), ("device_missed", self.missed.grown())]
    }

    /// These, and frames dropped by driver or kernel.
    pub fn of_device_and_kernel(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.of_device();
        all.push(("device_dropped", self.dropped.grown()));
        all
    }
}

fn growth(before: u64, now: u64) -> u64 {
    if now >= before {
        return now - before;
    }
    let narrow = u32::try_from(before).is_ok();
    let ahead = match narrow {
        true => u64::from((now as u32).wrapping_sub(before as u32)),
        false => now.wrapping_sub(before),
    };
    let half = if narrow { 1 << 31 } else { 1 << 63 };
    if ahead < half { ahead } else { now }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: u64 = 1 << 32;

    #[test]
    fn what_is_counted_goes_on_where_the_number_wraps_or_begins_anew() {
        for (readings, expected) in [
            (&[7, 7, 9, 1_000][..], 993),
            // At the end of 32 bits, and of 64.
            (&[WIDE - 3, 4, 6], 9),
            (&[WIDE - 1, 0], 1),
            (&[u64::MAX - 1, 1], 3),
            // Beyond 32 bits it did not wrap at them.
            (&[WIDE - 3, WIDE + 4], 7),
            (&[WIDE + 5, 3], 3),
            // A device that was reset.
            (&[500, 0, 20, 25], 25),
            (&[1 << 40, 8], 8),
        ] {
            let mut counter = Counter::from(readings[0]);
            readings[1..].iter().for_each(|&now| counter.note(now));
            assert_eq!(counter.grown(), expected, "{readings:?}");
        }
    }

    #[test]
    fn ten_wraps_of_32_bits_are_counted() {
        let mut counter = Counter::from(0);
        let step = WIDE / 3;
        (1..=30).for_each(|i| counter.note(i * step % WIDE));
        assert_eq!(counter.grown(), 30 * step);
    }
}
