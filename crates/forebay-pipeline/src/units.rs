//! Numbers with units, as people write them: `200ms`, `64MiB`, `1.5M`, `10mbit`.

use std::time::Duration;

/// Text that is no such number; the error names what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}: expected {expected}")]
pub struct NotANumber {
    text: String,
    what: &'static str,
    expected: &'static str,
}

/// Units of a kind of number: names, and what each is worth.
struct Kind {
    what: &'static str,
    expected: &'static str,
    units: &'static [(&'static str, f64)],
    /// The largest value, which fits what the number becomes.
    most: f64,
}

const DURATION: Kind = Kind {
    what: "duration",
    expected: "a number above 0 and a unit: us, ms, s, m or h, like 200ms",
    units: &[("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)],
    most: 365.0 * 24.0 * 3600e9,
};

const SIZE: Kind = Kind {
    what: "size",
    expected: "a number above 0 and a unit: B, KiB, MiB or GiB, like 64MiB",
    units: &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1048576.0), ("GiB", 1073741824.0)],
    most: 1_099_511_627_776.0,
};

const RATE: Kind = Kind {
    what: "rate",
    expected: "a number above 0, with k, M or G behind it for thousands, millions or billions, \
               like 500k",
    units: &[("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)],
    most: 1e15,
};

const BIT_RATE: Kind = Kind {
    what: "link rate",
    expected: "a number above 0 and a unit: bit, kbit, mbit or gbit, like 10mbit",
    units: &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)],
    most: 1e12,
};

impl Kind {
    fn read(&self, text: &str) -> Result<f64, NotANumber> {
        let wrong =
            || NotANumber { text: text.to_owned(), what: self.what, expected: self.expected };
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, unit) = text.split_at(text.len() - digits);
        let unit = unit.trim_start();
        let (_, worth) = self.units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let value = number * worth;
        if value >= 1.0 && value <= self.most { Ok(value) } else { Err(wrong()) }
    }
}

/// A length of time.
///
/// # Errors
/// What is wrong with the text.
pub fn duration(text: &str) -> Result<Duration, NotANumber> {
    DURATION.read(text).map(|nanos| Duration::from_nanos(nanos as u64))
}

/// A part of a whole, written in percent: `0.1%` is 0.001.
///
/// # Errors
/// What is wrong with the text.
pub fn percentage(text: &str) -> Result<f64, NotANumber> {
    const EXPECTED: &str = "a number from 0 to 100 and `%`, like 0.1%";
    let wrong = || NotANumber { text: text.to_owned(), what: "percentage", expected: EXPECTED };
    let number = text.strip_suffix('%').map(str::trim_end).ok_or_else(wrong)?;
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(wrong());
    }
    let percent: f64 = number.parse().map_err(|_| wrong())?;
    if (0.0..=100.0).contains(&percent) { Ok(percent / 100.0) } else { Err(wrong()) }
}

/// A number of bytes.
///
/// # Errors
/// What is wrong with the text.
pub fn size(text: &str) -> Result<usize, NotANumber> {
    SIZE.read(text).map(|bytes| bytes as usize)
}

/// A number of things a second.
///
/// # Errors
/// What is wrong with the text.
pub fn rate(text: &str) -> Result<u64, NotANumber> {
    RATE.read(text).map(|rate| rate as u64)
}

/// A number of bits a second; the unit may be in upper case.
///
/// # Errors
/// What is wrong with the text.
pub fn bit_rate(text: &str) -> Result<u64, NotANumber> {
    let wrong = |wrong| NotANumber { text: text.to_owned(), ..wrong };
    BIT_RATE.read(&text.to_ascii_lowercase()).map(|rate| rate as u64).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_read() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(rate("500k"), Ok(500_000));
        assert_eq!(rate("1.25M"), Ok(1_250_000));
        assert_eq!(rate("7"), Ok(7));
        assert_eq!((bit_rate("10mbit"), bit_rate("2.5 Gbit")), (Ok(10_000_000), Ok(2_500_000_000)));
        assert_eq!((bit_rate("9kbit"), bit_rate("1bit")), (Ok(9_000), Ok(1)));
    }

    #[test]
    fn percentages_are_parts_of_one() {
        assert_eq!(percentage("0.1%"), Ok(0.001));
        assert_eq!((percentage("100 %"), percentage("0%")), (Ok(1.0), Ok(0.0)));
        for wrong in ["", "%", "0.1", "-1%", "101%", "1e1%", "nan%", "1..2%"] {
            let error = percentage(wrong).unwrap_err().to_string();
            assert!(error.contains("like 0.1%"), "{wrong}: {error}");
        }
    }

    #[test]
    fn others_are_refused_with_what_was_expected() {
        for wrong in ["", "5", "ms", "-1s", "0s", "1e3s", "inf s", "1..5s", "1 ms s", "9999999h"] {
            let error = duration(wrong).unwrap_err().to_string();
            assert!(error.contains("expected a number above 0 and a unit"), "{wrong}: {error}");
        }
        for wrong in ["64MB", "MiB", "0.1B", "2048GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1m", "k", "0", "NaN", "0.5"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "10", "10M", "mbit", "0mbit", "-1mbit", "10mbps", "2000gbit", "0.1bit"] {
            let error = bit_rate(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{wrong}` is no link rate: expected")), "{error}");
        }
    }
}
