//! The cost model of `auto`, fitted to what was measured.
//!
//! The model ([`forebay_codegen::cost`]) has two lines: predicated loops take their
//! initiation intervals and a constant, `list` code a constant and a time for each test.
//! Both are fitted to the means of `hot` and `cache`: the first by the median of what is
//! left over, the second by the line with the least sum of relative errors, taken as
//! factors.

use forebay_codegen::cost::{FIT, Fit};
use serde::Serialize;

use super::engines::widest_pe;
use super::expressions::Case;
use crate::record::Results;
use crate::stats::{Sample, rounded};

/// The model fitted to a record, and the one in use.
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

/// Steps that the second line is tried in, and how many of them: constants up to 6 cycles,
/// 1.5 for a test.
const STEP: f64 = 0.05;
const RESTS: usize = 120;
const TESTS: usize = 30;

impl CostModel {
    /// Fits the model; none if both back ends were measured on too few filters for a line.
    pub fn fit(cases: &[Case], results: &Results, gigahertz: f64) -> Option<Self> {
        let cycles = |case: &Case, engine| {
            let on = |set| Some(results.nanos(&case.expression, set, engine)? * gigahertz);
            Some(f64::midpoint(on("hot")?, on("cache")?))
        };
        let rest = |case: &Case| Some(cycles(case, widest_pe())? - case.loops?.intervals);
        let rests: Vec<f64> = cases.iter().filter_map(rest).collect();
        let point = |case: &Case| Some((case.tests as f64, cycles(case, "list")?));
        let list: Vec<(f64, f64)> = cases.iter().filter_map(point).collect();
        if rests.len() < 3 || list.len() < 3 {
            return None;
        }
        let (list_rest, list_a_test) = line(&list);
        let Fit { pe_rest, list_rest: of_list, list_a_test: a_test } = FIT;
        let in_use = [pe_rest, of_list, a_test];
        Some(Self { pe_rest: Sample::new(rests).median(), list_rest, list_a_test, in_use })
    }

    /// The model in two lines.
    pub fn text(&self) -> String {
        let Self { pe_rest, list_rest, list_a_test, in_use: [rest, of_list, a_test] } = self;
        format!(
            "cost model, cycles a packet: pe II + {pe_rest:.2}, list {list_rest:.2} + \
             {list_a_test:.2} a test;\n    in use: {rest:.2}, {of_list:.2} and {a_test:.2}\n"
        )
    }
}

/// Constant and slope of the line nearest to the points.
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
    use super::*;

    #[test]
    fn points_on_a_line_give_the_line() {
        let points: Vec<(f64, f64)> = [2.0, 5.0, 9.0, 40.0].map(|x| (x, 1.5 + 0.25 * x)).to_vec();
        let (rest, slope) = line(&points);
        assert!((rest - 1.5).abs() < 1e-6 && (slope - 0.25).abs() < 1e-6, "{rest} {slope}");
    }
}
