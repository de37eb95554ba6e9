//! Readable numbers.
//!
//! Units are decimal (1 GB is 10^9 bytes, as for link rates), with three significant
//! digits. Counts of packets are exact and grouped, because the ledger's sums are meant to
//! be checked by eye. NaN is printed as a dash.

/// Printed for an unknown value.
pub const UNKNOWN: &str = "–";

/// Decimal prefixes and their factors, small to large.
const PREFIXES: [(f64, &str); 7] =
    [(1e0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")];

/// `value` in full with a comma every three digits: `1,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
    grouped(u128::from(value))
}

/// As [`count`], for sums that may exceed 64 bits.
#[must_use]
pub fn grouped(value: u128) -> String {
    group(&value.to_string())
}

/// Puts a comma before every third digit from the right.
fn group(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A decimal prefix chosen once for several numbers, as on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    factor: f64,
    /// The prefix of the unit: `""`, `"k"`, `"M"` …
    pub prefix: &'static str,
}

impl Scale {
    /// The scale in which `largest` has one to three digits before the point.
    #[must_use]
    pub fn of(largest: f64) -> Self {
        let at = PREFIXES.iter().rposition(|(factor, _)| largest.abs() >= *factor).unwrap_or(0);
        let (factor, prefix) = PREFIXES[at];
        Self { factor, prefix }
    }

    /// `value` in this scale to three significant digits, without the prefix and without
    /// trailing zeros.
    #[must_use]
    pub fn number(&self, value: f64) -> String {
        let scaled = value / self.factor;
        if !scaled.is_finite() {
            return UNKNOWN.to_owned();
        }
        if scaled == 0.0 {
            return "0".to_owned();
        }
        let decimals = (2.0 - scaled.abs().log10().floor()).clamp(0.0, 12.0);
        let shown = format!("{scaled:.*}", decimals as usize);
        if shown.contains('.') {
            return shown.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        shown
    }
}

/// `value` with a decimal prefix and `unit`, to three significant digits:
/// `81.6 Mbit/s`. Below 1 it is shown with three decimals.
#[must_use]
pub fn si(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let mut scale = Scale::of(value);
    // 999.6 k rounds to 1000 k, which belongs to the next prefix.
    if (value / scale.factor).abs() >= 999.5 {
        scale = Scale::of(value * 1.001);
    }
    let scaled = value / scale.factor;
    let number = if scale.prefix.is_empty() && scaled.fract() == 0.0 {
        format!("{scaled:.0}")
    } else {
        three_digits(scaled)
    };
    format!("{number} {}{unit}", scale.prefix)
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 999.5 => group(&format!("{value:.0}")),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// An amount of data: `612 B`, `1.23 kB`, `4.56 GB`.
#[must_use]
pub fn bytes(value: u64) -> String {
    si(value as f64, "B")
}

/// A link load from bits a second: `81.6 Mbit/s`.
#[must_use]
pub fn bit_rate(bits_per_second: f64) -> String {
    si(bits_per_second, "bit/s")
}

/// A packet rate from packets a second: `1.49 Mpps`.
#[must_use]
pub fn packet_rate(packets_per_second: f64) -> String {
    si(packets_per_second, "pps")
}

/// `amount` in `nanos` nanoseconds as an amount a second; `None` if no time passed.
#[must_use]
pub fn per_second(amount: u64, nanos: u64) -> Option<f64> {
    (nanos > 0).then(|| amount as f64 * 1e9 / nanos as f64)
}

/// A length of time in nanoseconds: `850 ns`, `12.3 µs`, `1.50 s`, `2 min 05 s`,
/// `3 h 07 min`, `4 d 02 h`.
#[must_use]
pub fn duration(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    let whole = nanos / 1_000_000_000;
    match nanos {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanos} ns"),
        1_000..999_500 => format!("{} µs", three_digits(nanos as f64 / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(nanos as f64 / 1e6)),
        999_500_000..60_000_000_000 => format!("{} s", three_digits(seconds)),
        _ if whole < 3_600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ if whole < 86_400 => format!("{} h {:02} min", whole / 3_600, whole / 60 % 60),
        _ => format!("{} d {:02} h", count(whole / 86_400), whole / 3_600 % 24),
    }
}

/// A ratio, two decimals and a multiplication sign: `1.04×`.
#[must_use]
pub fn ratio(value: f64) -> String {
    match value {
        v if !v.is_finite() => UNKNOWN.to_owned(),
        v if v.abs() >= 999.5 => format!("{}×", si(v, "").trim_end()),
        v => format!("{v:.2}×"),
    }
}

/// A fraction of 1 as a percentage: `12.5%`.
#[must_use]
pub fn percent(fraction: f64) -> String {
    if fraction.is_finite() { format!("{:.1}%", fraction * 100.0) } else { UNKNOWN.to_owned() }
}

/// The difference of `value` from `reference`, as a signed percentage: `+2.1%`; `None`
/// without a reference.
#[must_use]
pub fn deviation(value: f64, reference: f64) -> Option<String> {
    let off = (value - reference) / reference * 100.0;
    if !off.is_finite() || reference <= 0.0 {
        return None;
    }
    Some(match off {
        o if o.abs() < 0.05 => "±0.0%".to_owned(),
        o if o >= 999.5 => format!("{}×", three_digits(value / reference)),
        o if o > 0.0 => format!("+{o:.1}%"),
        // U+2212, which is as wide as the plus sign.
        o => format!("−{:.1}%", -o),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn bytes_use_decimal_units_and_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(12_345), "12.3 kB");
        assert_eq!(bytes(999_499), "999 kB");
        assert_eq!(bytes(999_500), "1.00 MB");
        assert_eq!(bytes(4_560_000_000), "4.56 GB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }

    #[test]
    fn rates_are_finite_or_a_dash() {
        assert_eq!(bit_rate(81_600_000.0), "81.6 Mbit/s");
        assert_eq!(packet_rate(1_488_095.0), "1.49 Mpps");
        assert_eq!(packet_rate(0.25), "0.250 pps");
        assert_eq!(bit_rate(f64::NAN), UNKNOWN);
        assert_eq!(bit_rate(f64::INFINITY), UNKNOWN);
        assert_eq!(si(1e25, "B"), "10,000,000 EB");
        assert_eq!(per_second(10, 0), None);
        assert_eq!(per_second(10, 500_000_000), Some(20.0));
    }

    #[test]
    fn durations_change_unit_where_they_should() {
        let cases = [
            (0, "0 s"),
            (850, "850 ns"),
            (12_340, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (1_500_000_000, "1.50 s"),
            (59_990_000_000, "60.0 s"),
            (125_000_000_000, "2 min 05 s"),
            (11_220_000_000_000, "3 h 07 min"),
            (353_000_000_000_000, "4 d 02 h"),
            (u64::MAX, "213,503 d 23 h"),
        ];
        for (nanos, shown) in cases {
            assert_eq!(duration(nanos), shown, "{nanos} ns");
        }
    }

    #[test]
    fn ratios_and_deviations() {
        assert_eq!(ratio(1.038), "1.04×");
        assert_eq!(ratio(f64::NAN), UNKNOWN);
        assert_eq!(ratio(1e30), "1,000,000,000,000 E×");
        assert_eq!(percent(0.25), "25.0%");
        assert_eq!(deviation(102.1, 100.0).as_deref(), Some("+2.1%"));
        assert_eq!(deviation(97.5, 100.0).as_deref(), Some("−2.5%"));
        assert_eq!(deviation(100.01, 100.0).as_deref(), Some("±0.0%"));
        assert_eq!(deviation(5_000.0, 100.0).as_deref(), Some("50.0×"));
        assert_eq!(deviation(1.0, 0.0), None);
        assert_eq!(deviation(f64::NAN, 1.0), None);
    }

    #[test]
    fn an_axis_shares_one_scale() {
        let scale = Scale::of(150e6);
        assert_eq!(scale.prefix, "M");
        assert_eq!(scale.number(50e6), "50");
        assert_eq!(scale.number(2.5e6), "2.5");
        assert_eq!(scale.number(200e6), "200");
        assert_eq!(Scale::of(0.002).number(0.0005), "0.0005");
        assert_eq!(scale.number(f64::INFINITY), UNKNOWN);
        assert_eq!(Scale::of(0.0).prefix, "");
    }
}
