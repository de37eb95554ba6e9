//! Capture clocks: ticks as a file stores them, and their meaning.
//!
//! Ticks are kept as the source had them, so that a capture written again has
//! the same time stamps to the last digit, whatever its resolution.

/// Ticks a second of a capture clock (pcapng's `if_tsresol`,
/// draft-ietf-opsawg-pcapng section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// 10^n ticks a second: 6 is microseconds, 9 nanoseconds.
    Decimal(u8),
    /// 2^n ticks a second.
    Binary(u8),
}

/// How an interface counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    /// Ticks a second.
    pub resolution: Resolution,
    /// Seconds to add to every time stamp (pcapng's `if_tsoffset`).
    pub offset_seconds: i64,
}

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Nanoseconds of a tick, by the resolution's decimal digits.
const NANOS_OF_TICK: [u64; 10] =
    [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

impl Clock {
    /// Microseconds since the epoch.
    pub const MICROS: Self = Self { resolution: Resolution::Decimal(6), offset_seconds: 0 };
    /// Nanoseconds since the epoch.
    pub const NANOS: Self = Self { resolution: Resolution::Decimal(9), offset_seconds: 0 };

    /// Nanoseconds since the Unix epoch, rounded down and saturated to 64 bits.
    #[inline]
    #[must_use]
    pub fn nanos(&self, ticks: u64) -> i64 {
        if let (Resolution::Decimal(digits), 0) = (self.resolution, self.offset_seconds)
            && let Some(&nanos) = NANOS_OF_TICK.get(usize::from(digits))
        {
            return ticks.saturating_mul(nanos).min(i64::MAX as u64) as i64;
        }
        self.any_nanos(ticks)
    }

    fn any_nanos(&self, ticks: u64) -> i64 {
        let ticks = i128::from(ticks);
        let nanos = match self.resolution {
            Resolution::Decimal(n) if n <= 9 => ticks * 10_i128.pow(9 - u32::from(n)),
            // 10^28 and finer: 2^64 ticks are less than a nanosecond.
            Resolution::Decimal(n) if n > 37 => 0,
            Resolution::Decimal(n) => ticks / 10_i128.pow(u32::from(n) - 9),
            Resolution::Binary(n) if n > 96 => 0,
            Resolution::Binary(n) => (ticks * NANOS_PER_SECOND) >> n,
        };
        let nanos = nanos + i128::from(self.offset_seconds) * NANOS_PER_SECOND;
        nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::MICROS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanos_of_each_kind_of_clock() {
        assert_eq!(Clock::MICROS.nanos(1_000_001), 1_000_001_000);
        assert_eq!(Clock::NANOS.nanos(5), 5);
        let pico = Clock { resolution: Resolution::Decimal(12), offset_seconds: -1 };
        assert_eq!(pico.nanos(1_999), -999_999_999);
        let binary = Clock { resolution: Resolution::Binary(20), offset_seconds: 0 };
        assert_eq!(binary.nanos(1 << 20), 1_000_000_000);
        assert_eq!(binary.nanos(3 << 19), 1_500_000_000);
    }

    #[test]
    fn a_clock_without_an_offset_is_as_any() {
        for digits in 0..=12 {
            let clock = Clock { resolution: Resolution::Decimal(digits), offset_seconds: 0 };
            for ticks in [0, 1, 1_719_792_000_123_456, i64::MAX as u64, 1 << 63, u64::MAX] {
                assert_eq!(clock.nanos(ticks), clock.any_nanos(ticks), "{digits}: {ticks}");
            }
        }
    }

    #[test]
    fn no_value_overflows() {
        for bits in 0..=127_u8 {
            for resolution in [Resolution::Decimal(bits), Resolution::Binary(bits)] {
                for offset_seconds in [i64::MIN, 0, i64::MAX] {
                    let _ = Clock { resolution, offset_seconds }.nanos(u64::MAX);
                }
            }
        }
        let seconds = Clock { resolution: Resolution::Decimal(0), offset_seconds: 0 };
        assert_eq!(seconds.nanos(u64::MAX), i64::MAX);
    }
}
