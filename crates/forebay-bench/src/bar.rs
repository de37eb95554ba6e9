//! Bars that engines are held against, and whether they are met.

use std::fmt;

use serde::Serialize;

/// The most columns of a line.
pub const COLUMNS: usize = 100;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// This or more.
    AtLeast(f64),
    /// This or less.
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

    /// The value that is nearer to missing the bar.
    fn worse(self, a: f64, b: f64) -> std::cmp::Ordering {
        match self {
            AtLeast(_) => a.total_cmp(&b),
            AtMost(_) => b.total_cmp(&a),
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

/// A bar, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Of what.
    pub what: String,
    /// What is asked for.
    pub limit: Limit,
    /// What was measured; for a bar that every filter has to meet, the worst.
    pub value: f64,
    /// Whether that is enough.
    pub met: bool,
    /// How many filters were measured, where it is about filters.
    pub filters: Option<usize>,
    /// The filter that the value is of.
    pub case: Option<String>,
    /// The filters that miss it.
    pub missed: Vec<String>,
}

impl Bar {
    /// A bar of one value.
    pub fn of(what: impl Into<String>, limit: Limit, value: f64) -> Self {
        let (what, met) = (what.into(), limit.is_met(value));
        Self { what, limit, value, met, filters: None, case: None, missed: Vec::new() }
    }

    /// A bar that each of several has to meet, given with their names: its value is the
    /// worst. None without any.
    pub fn each(what: impl Into<String>, limit: Limit, values: &[(f64, String)]) -> Option<Self> {
        let (worst, case) = values.iter().min_by(|a, b| limit.worse(a.0, b.0))?;
        let missed = values.iter().filter(|(value, _)| !limit.is_met(*value));
        Some(Self {
            case: Some(case.clone()),
            missed: missed.map(|(_, name)| name.clone()).collect(),
            ..Self::of(what, limit, *worst)
        })
    }

    /// The bar as lines of at most 100 columns.
    pub fn text(&self) -> String {
        let met = if self.met { "met   " } else { "MISSED" };
        let mut line = format!("{met} {}: {:.2}", self.what, self.value);
        let mut words = vec![format!("({})", self.limit)];
        if let (Some(case), true) = (&self.case, self.missed.len() < 2) {
            words.push(format!("`{case}`"));
        }
        words.extend(self.filters.map(|filters| match filters {
            1 => "1 filter".to_owned(),
            _ => format!("{filters} filters"),
        }));
        if self.missed.len() > 1 {
            words.push(format!("missed by {}:", self.missed.len()));
            words.extend(self.missed.iter().map(|case| format!("`{case}`")));
        }
        let mut out = String::new();
        for word in words {
            if line.chars().count() + 1 + word.chars().count() > COLUMNS {
                out.push_str(&line);
                out.push('\n');
                line = " ".repeat(met.len());
            }
            line.push(' ');
            line.push_str(&word);
        }
        out + &line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_meets_no_bar() {
        assert!(!AtLeast(1.0).is_met(f64::NAN) && !AtMost(1.0).is_met(f64::NAN));
        assert!(AtLeast(1.0).is_met(1.0) && AtMost(1.0).is_met(1.0));
    }
}
