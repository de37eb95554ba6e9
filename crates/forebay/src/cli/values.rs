//! Parsers of values.

use std::time::Duration;

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    forebay_pipeline::units::duration(text).map_err(|error| error.to_string())
}

/// An interval between repetitions; a number without a unit is seconds.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let is_plain = text.parse::<f64>().is_ok();
    let interval = parse_duration(&if is_plain { format!("{text}s") } else { text.to_owned() })?;
    if (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&interval) {
        return Ok(interval);
    }
    Err("expected 10ms to 1h".to_owned())
}

/// A name that fits into a hello.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let most = forebay_broker::hello::MAX_NAME;
    if text.len() <= most { Ok(text.to_owned()) } else { Err(format!("expected {most} bytes")) }
}

pub(super) fn parse_hash_key(text: &str) -> Result<forebay_packet::HashKey, String> {
    let expected = "expected 32 hexadecimal digits";
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(expected.to_owned());
    }
    let half = |part: &str| u64::from_str_radix(part, 16).map_err(|_| expected.to_owned());
    Ok(forebay_packet::HashKey([half(&text[..16])?, half(&text[16..])?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_in_seconds_unless_it_says_otherwise() {
        for (text, millis) in [("200ms", 200), ("0.5", 500), ("2", 2_000), ("1m", 60_000)] {
            assert_eq!(parse_interval(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "0", "9ms", "2h", "-1", "NaN", "inf", "1e999", "soon"] {
            assert!(parse_interval(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hash_key_has_32_digits() {
        let key = parse_hash_key("000000000000000100000000000000ff");
        assert_eq!(key, Ok(forebay_packet::HashKey([1, 255])));
        for bad in ["", "1", "+00000000000000100000000000000ff", "gggggggggggggggggggggggggggggggg"]
        {
            assert!(parse_hash_key(bad).is_err());
        }
    }
}
