//! The loops of `pe` as the compiler describes them, and the cost model of `auto`, fitted to
//! what was measured.
//!
//! The model ([`forebay_codegen::cost`]) has two lines: predicated loops take their
//! initiation intervals and a constant, `list` code a constant and a time for each test.
//! Both are fitted to the means of `hot` and `cache`: the first by the median of what is
//! left over, the second by the line with the least sum of relative errors, taken as
//! factors.

use forebay_codegen::code::{Backend, Options};
use forebay_codegen::compile::compile;
use forebay_codegen::cost::{FIT, Fit};
use forebay_filter::ir::Function;
use forebay_jit::cpu;
use serde::Serialize;

use super::expressions::Case;
use crate::record::Results;
use crate::stats::{Sample, rounded};

/// The loops of a filter, at the instruction-set level of this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loops {
    /// Cycles that an iteration starts later than the bound (MII) allows, at most.
    pub excess_ii: u32,
    /// Initiation intervals in cycles a packet, over all loops.
    pub intervals: f64,
}

impl Loops {
    /// The loops of a filter; none for a filter that `pe` does not take.
    pub fn of(function: &Function) -> Option<Self> {
        let options = Options { explain: true, ..Options::new(Backend::Pe, cpu::detect()) };
        let code = compile(function, &options).ok()?;
        (code.backend == Backend::Pe).then(|| Self::read(&code.schedule))?
    }

    /// Reads the text of `--emit schedule`. A loop that is not pipelined counts with the
    /// cycles of an iteration.
    fn read(schedule: &str) -> Option<Self> {
        let (mut bound, mut greatest, mut packets, mut intervals) = (None, None, 1, 0.0);
        for line in schedule.lines() {
            bound = number_after(line, ", MII ").or(bound);
            let of_loop = number_after(line, " ops, ").filter(|_| line.starts_with("loop "));
            packets = of_loop.unwrap_or(packets);
            let reached = number_after(line, "  II ");
            if let Some(cycles) = reached.or_else(|| number_after(line, "an iteration takes ")) {
                intervals += f64::from(cycles) / f64::from(packets);
                greatest = greatest.max(Some(cycles.saturating_sub(bound.take()?)));
            }
        }
        Some(Self { excess_ii: greatest?, intervals })
    }
}

fn number_after(line: &str, mark: &str) -> Option<u32> {
    let (_, rest) = line.split_once(mark)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

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
        let rest = |case: &Case| Some(cycles(case, "pe-avx512")? - case.loops?.intervals);
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
    use forebay_filter::compile_function;
    use forebay_packet::LinkType;

    use super::*;

    #[test]
    fn loops_are_read_from_the_text_of_the_schedules() {
        let text = "loop a: 9 ops, 4 packets an iteration\n  \
                    ResMII 12 (issue), RecMII 1, MII 12\n  II 12, 1 stage, kernel of 1\n\n\
                    loop b: 3 ops, 1 packet an iteration\n  ResMII 2 (load), RecMII 3, MII 3\n  \
                    not pipelined: an iteration takes 5 cycles, loads taken as 5\n";
        assert_eq!(Loops::read(text), Some(Loops { excess_ii: 2, intervals: 8.0 }));
        assert_eq!(Loops::read("list: one packet after another"), None);
        let function = compile_function("ip and tcp", LinkType::ETHERNET).unwrap();
        assert!(Loops::of(&function).is_some_and(|loops| loops.intervals > 0.1));
    }

    #[test]
    fn points_on_a_line_give_the_line() {
        let points: Vec<(f64, f64)> = [2.0, 5.0, 9.0, 40.0].map(|x| (x, 1.5 + 0.25 * x)).to_vec();
        let (rest, slope) = line(&points);
        assert!((rest - 1.5).abs() < 1e-6 && (slope - 0.25).abs() < 1e-6, "{rest} {slope}");
    }
}
