//! The cost model of `auto`, fitted to what was measured.
//!
//! The model ([`forebay_codegen::cost`]) has two lines: predicated loops take their
//! initiation intervals and a constant, `list` code a constant and a time for each
//! test. Here both are fitted to the rows of `hot` and `cache`, of which the model has
//! the mean: the first by the median of what is left over, the second by the line with
//! the least sum of relative errors, taken as factors. The compiler's own numbers are
//! beside the fit in each record.

use forebay_codegen::cost::{FIT, Fit};
use serde::Serialize;

use super::results::Outcome;
use super::sets::Set;
use crate::stats::{Sample, rounded};

/// A filter as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Initiation intervals of the loops of `pe` in cycles a packet; nothing for a
    /// filter that `pe` does not take.
    pub intervals: Option<f64>,
    /// Tests of the filter.
    pub tests: usize,
}

/// The fit to a record, and the one in use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CostModel {
    /// Cycles a packet of predicated loops beyond their intervals.
    pub pe_rest: f64,
    /// Cycles a packet of `list` code without tests.
    pub list_rest: f64,
    /// Cycles a packet for each test.
    pub list_a_test: f64,
    /// The same three as the compiler has them.
    pub in_use: [f64; 3],
}

/// Steps that the second line is tried in, and how many of them: constants up to 6
/// cycles, 1.5 for a test.
const STEP: f64 = 0.05;
const RESTS: usize = 120;
const TESTS: usize = 30;

impl CostModel {
    /// Fits the model to the filters that both back ends were measured on; nothing if
    /// there are too few of them for a line.
    pub fn fit(outcomes: &[Outcome], gigahertz: f64) -> Option<Self> {
        let cycles = |one: &Outcome, engine: &str| {
            let of_set = |set| Some(one.nanos(set, engine)? * gigahertz);
            Some((of_set(Set::Hot)? + of_set(Set::Cache)?) / 2.0)
        };
        let rests = outcomes
            .iter()
            .filter_map(|one| Some(cycles(one, "pe-avx512")? - one.shape.intervals?));
        let rests: Vec<f64> = rests.collect();
        let list: Vec<(f64, f64)> = outcomes
            .iter()
            .filter_map(|one| Some((one.shape.tests as f64, cycles(one, "list")?)))
            .collect();
        if rests.len() < 3 || list.len() < 3 {
            return None;
        }
        let (list_rest, list_a_test) = line(&list);
        let Fit { pe_rest: rest, list_rest: of_list, list_a_test: a_test } = FIT;
        Some(Self {
            pe_rest: rounded(Sample::new(rests).median()),
            list_rest,
            list_a_test,
            in_use: [rest, of_list, a_test],
        })
    }

    /// The model in a line.
    pub fn text(&self) -> String {
        let Self { pe_rest, list_rest, list_a_test, in_use: [rest, of_list, a_test] } = self;
        format!(
            "cost model, cycles a packet: pe II + {pe_rest:.2}, list {list_rest:.2} + \
             {list_a_test:.2} a test;\n    in use: {rest:.2}, {of_list:.2} and {a_test:.2}\n"
        )
    }
}

/// The constant and the slope of the line nearest to the points.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let error = |rest: f64, slope: f64| {
        points.iter().map(|(x, y)| ((rest + slope * x) / y).ln().abs()).sum::<f64>()
    };
    let tried = (1..=RESTS).flat_map(|rest| (1..=TESTS).map(move |slope| (rest, slope)));
    let lines = tried.map(|(rest, slope)| (rest as f64 * STEP, slope as f64 * STEP));
    let best = lines.min_by(|a, b| error(a.0, a.1).total_cmp(&error(b.0, b.1)));
    best.map_or((0.0, 0.0), |(rest, slope)| (rounded(rest), rounded(slope)))
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn points_on_a_line_give_the_line() {
        let points: Vec<(f64, f64)> = [2.0, 5.0, 9.0, 40.0].map(|x| (x, 1.5 + 0.25 * x)).to_vec();
        let (rest, slope) = line(&points);
        assert!((rest - 1.5).abs() < 1e-6 && (slope - 0.25).abs() < 1e-6, "{rest} {slope}");
    }

    #[test]
    fn too_few_filters_give_no_model() {
        let one = outcome(true, &[("list", &[2.0; 3]), ("pe-avx512", &[1.0; 3])]);
        assert_eq!(CostModel::fit(&[one.clone(), one], 3.0), None);
    }
}
