//! Dates of the proleptic Gregorian calendar from days, for file names and messages, and time
//! stamps as text: nanoseconds since the Unix epoch to ISO 8601 in UTC. Time stamps of captures
//! do not count leap seconds (POSIX.1-2017, section 4.16), so neither does this.
//!
//! The calendar repeats every 400 years, or 146,097 days. Counting years from March puts
//! the leap day last, so that day of year and month follow from each other by one linear
//! rule. The method is described in "Euclidean affine functions and their application to
//! calendar algorithms" (Software: Practice and Experience 53(4), 2023). It takes twenty
//! lines, and a test checks every day within the range of an `i64` of nanoseconds, so no
//! dependency is used.

const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH_OF_YEAR_0: i64 = 719_468;

/// A day of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Astronomical year: 0 is 1 BC.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
}

/// The date `days` days after 1970-01-01, correct for all days in the range of nanoseconds
/// in an `i64` (years 1677 to 2262) and far beyond.
#[must_use]
pub fn date(days: i64) -> Date {
    let days = days.saturating_add(EPOCH_FROM_MARCH_OF_YEAR_0);
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    // A quarter day late in each year, as if every fourth were a leap year,
    // after the days that centuries lack have been put back.
    let quarters = 4 * day_of_era + 3;
    let century = quarters / DAYS_PER_ERA;
    let quarters_of_century = (quarters % DAYS_PER_ERA) | 3;
    let year_of_century = quarters_of_century / 1461;
    let day_of_year = quarters_of_century % 1461 / 4;
    // From March, months have 31, 30, 31, 30, 31 days in turn: 153 in five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let january_or_february = month_from_march >= 10;
    let month = if january_or_february { month_from_march - 9 } else { month_from_march + 3 };
    let year = 400 * era + 100 * century + year_of_century + i64::from(january_or_february);
    Date { year, month: month as u8, day: day as u8 }
}

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
    fn every_day_follows_the_one_before() {
        let days_in = |year: i64, month: u8| match month {
            2 if (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        // 1600-01-01 to past 2400: whole eras around all that an i64 reaches.
        let mut expected = Date { year: 1600, month: 1, day: 1 };
        for day in -135_140..=160_000 {
            assert_eq!(date(day), expected, "day {day}");
            expected.day += 1;
            if expected.day > days_in(expected.year, expected.month) {
                expected = Date { day: 1, month: expected.month + 1, ..expected };
            }
            if expected.month == 13 {
                expected = Date { year: expected.year + 1, month: 1, day: 1 };
            }
        }
        assert!(expected.year > 2400);
    }

    #[test]
    fn years_before_zero_and_absurd_days_do_not_panic() {
        assert_eq!(date(-719_528), Date { year: 0, month: 1, day: 1 });
        assert_eq!(date(-719_529), Date { year: -1, month: 12, day: 31 });
        for days in [i64::MIN, i64::MAX] {
            assert!((1..=12).contains(&date(days).month));
        }
    }

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
