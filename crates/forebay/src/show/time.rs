//! Time stamps as text: nanoseconds since the Unix epoch to ISO 8601 in UTC.
//!
//! Time stamps of captures do not count leap seconds (POSIX.1-2017, section
//! 4.16), so neither does this.

use forebay_io::date::{Date, date};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// `nanos` since the Unix epoch as `2024-02-29T23:59:59.000000001Z`.
#[must_use]
pub fn iso8601(nanos: i64) -> String {
    let fraction = nanos.rem_euclid(NANOS_PER_SECOND);
    format!("{}.{fraction:09}Z", date_and_time(nanos, 'T'))
}

/// `nanos` since the Unix epoch to the second, for reading: `2024-02-29 23:59:59 UTC`.
#[must_use]
pub fn readable(nanos: i64) -> String {
    format!("{} UTC", date_and_time(nanos, ' '))
}

fn date_and_time(nanos: i64, separator: char) -> String {
    let seconds = nanos.div_euclid(NANOS_PER_SECOND);
    let Date { year, month, day } = date(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(iso8601(1_709_251_199_000_000_001), "2024-02-29T23:59:59.000000001Z");
        assert_eq!(iso8601(951_782_400_000_000_000), "2000-02-29T00:00:00.000000000Z");
        assert_eq!(iso8601(i64::MIN), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(iso8601(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(readable(1_425_470_400_999_999_999), "2015-03-04 12:00:00 UTC");
    }
}
