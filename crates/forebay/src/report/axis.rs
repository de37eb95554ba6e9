//! Axes with round numbers.

use crate::show::human::Scale;

/// A mark on an axis.
#[derive(Debug, PartialEq)]
pub(super) struct Tick {
    /// Its position, from 0 to 1.
    pub(super) at: f64,
    /// Its text.
    pub(super) label: String,
}

/// A vertical axis from zero.
#[derive(Debug)]
pub(super) struct ValueAxis {
    /// The value at the upper end; above 0.
    pub(super) top: f64,
    /// Prefix and unit of all labels.
    pub(super) unit: String,
    /// From zero upwards.
    pub(super) ticks: Vec<Tick>,
}

impl ValueAxis {
    /// An axis with room for `largest`, marked about `marks` times.
    pub(super) fn new(largest: f64, unit: &str, marks: f64) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let top = largest * 1.04;
        let step = round_step(top / marks);
        let scale = Scale::of(step * (top / step).floor());
        let count = (top / step).floor() as u32;
        let ticks = (0..=count)
            .map(|at| f64::from(at) * step)
            .map(|value| Tick { at: value / top, label: scale.number(value) })
            .collect();
        Self { top, unit: format!("{}{unit}", scale.prefix), ticks }
    }
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

/// Marks on an axis of `span` seconds that starts at zero: at most eight.
pub(super) fn time_ticks(span: f64) -> Vec<Tick> {
    const MOST: f64 = 7.0;
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 3_600.0;
    const DAY: f64 = 86_400.0;
    const CLOCK_STEPS: [f64; 11] = [
        MINUTE,
        2.0 * MINUTE,
        5.0 * MINUTE,
        10.0 * MINUTE,
        15.0 * MINUTE,
        30.0 * MINUTE,
        HOUR,
        2.0 * HOUR,
        3.0 * HOUR,
        6.0 * HOUR,
        12.0 * HOUR,
    ];
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let decimal = decimal_step(span / MOST);
    let step = if decimal < MINUTE {
        decimal
    } else {
        let clock = CLOCK_STEPS.into_iter().find(|step| span / step <= MOST);
        clock.unwrap_or_else(|| DAY * decimal_step(span / DAY / MOST))
    };
    let (unit, name) = match step {
        s if s >= DAY => (DAY, "d"),
        s if s >= HOUR => (HOUR, "h"),
        s if s >= MINUTE => (MINUTE, "min"),
        _ if span >= 1.0 => (1.0, "s"),
        _ if span >= 1e-3 => (1e-3, "ms"),
        _ if span >= 1e-6 => (1e-6, "µs"),
        _ => (1e-9, "ns"),
    };
    let scale = Scale::of(1.0);
    (0..=(span / step + 1e-9).floor() as u32)
        .map(|at| f64::from(at) * step)
        .map(|value| Tick {
            at: value / span,
            label: format!("{} {name}", scale.number(value / unit)),
        })
        .collect()
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn decimal_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn values_get_round_marks_in_one_unit() {
        let axis = ValueAxis::new(87e6, "bit/s", 4.0);
        assert_eq!(axis.unit, "Mbit/s");
        assert_eq!(labels(&axis.ticks), ["0", "25", "50", "75"]);
        let axis = ValueAxis::new(0.003, "pps", 4.0);
        assert_eq!(labels(&axis.ticks), ["0", "0.001", "0.002", "0.003"]);
    }

    #[test]
    fn odd_values_still_give_an_axis() {
        for largest in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            let axis = ValueAxis::new(largest, "pps", 4.0);
            assert!(axis.top > 0.0 && axis.top.is_finite(), "{largest}");
            assert!(axis.ticks.len() >= 2 && axis.ticks.len() <= 9, "{largest}: {axis:?}");
            assert!(axis.ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)), "{largest}");
        }
    }

    #[test]
    fn time_is_marked_in_the_unit_people_use() {
        assert_eq!(
            labels(&time_ticks(60.0)),
            ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]
        );
        assert_eq!(labels(&time_ticks(0.0045)), ["0 ms", "1 ms", "2 ms", "3 ms", "4 ms"]);
        assert_eq!(labels(&time_ticks(400.0))[..3], ["0 min", "1 min", "2 min"]);
        assert_eq!(labels(&time_ticks(7_300.0))[..3], ["0 min", "30 min", "60 min"]);
        assert_eq!(labels(&time_ticks(86_400.0 * 3.0))[..2], ["0 h", "12 h"]);
        assert_eq!(labels(&time_ticks(86_400.0 * 30.0))[..2], ["0 d", "5 d"]);
    }

    #[test]
    fn every_span_an_i64_of_nanoseconds_allows_has_few_marks() {
        let mut span = 1e-9;
        while span < 2e10 {
            let ticks = time_ticks(span);
            assert!((2..=8).contains(&ticks.len()), "{span}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (0.0..=1.0 + 1e-6).contains(&tick.at)), "{span}");
            span *= 1.37;
        }
        assert!(time_ticks(0.0).is_empty() && time_ticks(f64::NAN).is_empty());
    }
}
