//! Bars: limits that measured values have to meet.

use std::fmt;

use forebay::show::text::wrap;
use serde::{Deserialize, Serialize};

/// Columns that a line has at most.
const COLUMNS: usize = 100;

/// The limit of a value, which itself is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

use Limit::{AtLeast, AtMost};

impl Limit {
    /// NaN meets no bar.
    fn is_met(self, value: f64) -> bool {
        match self {
            AtLeast(bar) => value >= bar,
            AtMost(bar) => value <= bar,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AtLeast(bar) => write!(f, "at least {bar}"),
            AtMost(bar) => write!(f, "at most {bar}"),
        }
    }
}

/// A bar with the value that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    pub what: String,
    pub limit: Limit,
    /// For a bar that each of several cases has to meet, the worst.
    pub value: f64,
    pub met: bool,
    /// The number of cases that the value is taken over.
    #[serde(alias = "filters")]
    pub cases: Option<usize>,
    /// The case that has the value.
    pub case: Option<String>,
    /// The cases that miss the bar.
    pub missed: Vec<String>,
}

impl Bar {
    fn new(what: impl Into<String>, limit: Limit, value: f64) -> Self {
        let (what, met) = (what.into(), limit.is_met(value));
        Self { what, limit, value, met, cases: None, case: None, missed: Vec::new() }
    }

    pub fn at_least(what: impl Into<String>, limit: f64, value: f64) -> Self {
        Self::new(what, AtLeast(limit), value)
    }

    pub fn at_most(what: impl Into<String>, limit: f64, value: f64) -> Self {
        Self::new(what, AtMost(limit), value)
    }

    /// A bar that each of several cases has to meet; none without cases.
    pub fn each(
        what: impl Into<String>,
        limit: Limit,
        values: impl IntoIterator<Item = (f64, String)>,
    ) -> Option<Self> {
        let values: Vec<(f64, String)> = values.into_iter().collect();
        let towards_limit = |value: f64| if matches!(limit, AtLeast(_)) { value } else { -value };
        let order = |a: f64, b: f64| towards_limit(a).total_cmp(&towards_limit(b));
        let (worst, case) = values.iter().min_by(|a, b| order(a.0, b.0))?;
        let missed = values.iter().filter(|(value, _)| !limit.is_met(*value));
        Some(Self {
            cases: Some(values.len()),
            case: Some(case.clone()),
            missed: missed.map(|(_, name)| name.clone()).collect(),
            ..Self::new(what, limit, *worst)
        })
    }

    /// A bar on a mean, or another sum, of all values; none without values.
    pub fn together(
        what: impl Into<String>,
        limit: Limit,
        values: impl IntoIterator<Item = f64>,
        sum: fn(&[f64]) -> f64,
    ) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let bar = || Self { cases: Some(values.len()), ..Self::new(what, limit, sum(&values)) };
        (!values.is_empty()).then(bar)
    }

    /// The bar as lines that fit a terminal.
    pub fn text(&self) -> String {
        let met = if self.met { "met   " } else { "MISSED" };
        let mut words = vec![format!("{}: {:.2} ({})", self.what, self.value, self.limit)];
        if let (Some(case), true) = (&self.case, self.missed.len() < 2) {
            words.push(format!("`{case}`"));
        }
        words.extend(self.cases.map(|cases| match cases {
            1 => "1 case".to_owned(),
            _ => format!("{cases} cases"),
        }));
        if self.missed.len() > 1 {
            words.push(format!("missed by {}:", self.missed.len()));
            words.extend(self.missed.iter().map(|case| format!("`{case}`")));
        }
        let words = words.join(" ");
        let lines = wrap(&words, COLUMNS - met.len() - 1);
        format!("{met} {}\n", lines.join("\n       "))
    }
}

/// All bars, as [`Bar::text`].
pub fn text(bars: &[Bar]) -> String {
    bars.iter().map(Bar::text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_worst_value_and_names_the_cases_that_miss_it() {
        let values = || [(5.0, "slow".to_owned()), (1.0, "fast".to_owned())];
        let bar = Bar::each("memory: auto/touch", AtMost(1.25), values()).unwrap();
        assert_eq!((bar.value, bar.met, bar.case.as_deref()), (5.0, false, Some("slow")));
        assert_eq!(bar.missed, ["slow"]);
        let bar = Bar::each("ratio", AtLeast(6.0), values()).unwrap();
        assert_eq!((bar.value, bar.missed.len()), (1.0, 2));
        assert_eq!(
            bar.text(),
            "MISSED ratio: 1.00 (at least 6) 2 cases missed by 2: `slow` `fast`\n"
        );
        let long = Bar { missed: vec!["a filter of some length".repeat(2); 4], ..bar };
        assert!(long.text().lines().all(|line| line.chars().count() <= COLUMNS), "{}", long.text());
        assert_eq!(Bar::each("nothing", AtLeast(1.0), []), None);
    }

    #[test]
    fn nan_meets_no_bar() {
        assert!(!AtLeast(1.0).is_met(f64::NAN) && !AtMost(1.0).is_met(f64::NAN));
        assert!(AtLeast(1.0).is_met(1.0) && AtMost(1.0).is_met(1.0));
    }
}
