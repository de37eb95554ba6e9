//! The paper's comparison of ways to scan a list, with its own numbers: Yamashita and
//! Tsuru, "Implementation and Evaluation of Fast Packet Filters", IPSJ Transactions on
//! Advanced Computing Systems 1(1), 2008 (Itanium 2 at 900 MHz, gcc 2.96, icc 9.1).
//!
//! A packet that matches the k-th of N rules takes T_O + k·T_P, one that matches none
//! T_O + N·T_P (section 5.1). Over the packets of a set that is T_O + α·T_P, with α the
//! mean of those k and N. Five lists give five points, and the line of least squares
//! through them the overhead T_O and the time T_P of a rule.

use serde::Serialize;

use super::measure::Set;
use crate::record::Results;
use crate::stats::{Sample, least_squares};

/// The rules of its five lists.
pub const SIZES: [usize; 5] = [2, 9, 18, 35, 71];

/// The sets that the lists are measured on.
pub const SETS: [Set; 2] = [Set::Cache, Set::CacheWide];

/// The mean number of rules that its packets are compared with.
pub const ALPHA: [f64; 5] = [2.00, 8.99, 17.68, 34.36, 69.73];

/// Its ways to scan, with cycles a packet on each list (table 2), T_O and T_P (table 3).
pub const THEIRS: [Scan; 7] = [
    ("naive C, gcc", [418.2, 564.0, 743.1, 995.2, 1508.0], [425.7, 15.8]),
    ("naive C, icc", [393.3, 532.7, 721.8, 973.4, 1540.6], [388.8, 16.7]),
    ("aligned C, gcc", [94.8, 239.9, 418.7, 669.6, 1179.4], [102.5, 15.7]),
    ("aligned C, icc", [60.0, 199.3, 389.2, 639.9, 1187.9], [59.3, 16.4]),
    ("not pipelined", [52.8, 130.0, 208.8, 350.4, 597.2], [57.5, 7.9]),
    ("pe", [57.8, 89.1, 123.9, 191.0, 325.8], [53.0, 3.9]),
    ("ems", [71.1, 117.8, 177.4, 288.5, 440.4], [74.4, 5.4]),
];

/// A way to scan: its name, cycles, and T_O and T_P.
type Scan = (&'static str, [f64; 5], [f64; 2]);

/// The mean number of rules that packets are compared with that match these rules first.
pub fn alpha(first_matches: &[u32], rules: usize) -> f64 {
    let tried = |&rule: &u32| rules.min((rule as usize).saturating_add(1)) as f64;
    first_matches.iter().map(tried).sum::<f64>() / first_matches.len() as f64
}

/// The line of an engine over the five lists.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub set: String,
    pub engine: String,
    /// Cycles a packet on each list: medians.
    pub cycles: Vec<f64>,
    /// Overhead in cycles a packet.
    pub t_o: f64,
    /// Cycles a packet and rule.
    pub t_p: f64,
    /// 10th and 90th percentile of `t_p` over the rounds.
    pub t_p_spread: [f64; 2],
}

impl Line {
    pub fn of_paper(&(name, cycles, [t_o, t_p]): &Scan) -> Self {
        let (set, engine) = ("paper".to_owned(), name.to_owned());
        Self { set, engine, cycles: cycles.to_vec(), t_o, t_p, t_p_spread: [t_p; 2] }
    }
}

/// The name of a list in the rows.
pub fn case(rules: usize) -> String {
    format!("paper-{rules}")
}

/// The lines of all engines that were measured on all lists, set by set. `alphas` has the α
/// of each list.
pub fn lines(results: &Results, alphas: &[f64], gigahertz: f64) -> Vec<Line> {
    let engines = results.names(|row| &row.engine);
    let of_set = |set: Set| {
        let set = set.to_string();
        let engines = engines.iter();
        engines.filter_map(|engine| line(results, alphas, &set, engine, gigahertz)).collect()
    };
    SETS.into_iter().flat_map(|set| -> Vec<Line> { of_set(set) }).collect()
}

fn line(
    results: &Results,
    alphas: &[f64],
    set: &str,
    engine: &str,
    gigahertz: f64,
) -> Option<Line> {
    let cycles = |rules| Some(results.nanos(&case(rules), set, engine)? * gigahertz);
    let cycles: Vec<f64> = SIZES.into_iter().map(cycles).collect::<Option<_>>()?;
    let points: Vec<(f64, f64)> = alphas.iter().copied().zip(cycles.iter().copied()).collect();
    let (t_p, t_o) = least_squares(&points)?;
    let slopes = slopes(results, alphas, set, engine)?;
    let slopes = slopes.into_iter().map(|slope| slope * gigahertz).collect();
    let t_p_spread = Sample::new(slopes).spread();
    Some(Line { set: set.to_owned(), engine: engine.to_owned(), cycles, t_o, t_p, t_p_spread })
}

/// The slope of each round, in nanoseconds a rule.
fn slopes(results: &Results, alphas: &[f64], set: &str, engine: &str) -> Option<Vec<f64>> {
    let times = |rules| Some(&results.row(&case(rules), set, engine)?.times);
    let times: Vec<&Vec<f64>> = SIZES.into_iter().map(times).collect::<Option<_>>()?;
    let rounds = times.iter().map(|times| times.len()).min().unwrap_or(0);
    let slope = |round: usize| {
        let points = alphas.iter().zip(&times).map(|(&alpha, times)| (alpha, times[round]));
        Some(least_squares(&points.collect::<Vec<_>>())?.0)
    };
    Some((0..rounds).filter_map(slope).collect()).filter(|slopes: &Vec<f64>| !slopes.is_empty())
}

/// The least T_P of the engines whose names start with `start`, divided by that of `fast`:
/// the median over the rounds.
pub fn slope_ratio(results: &Results, alphas: &[f64], start: &str, fast: &str) -> Option<f64> {
    let of = |engine: &str| slopes(results, alphas, &Set::Cache.to_string(), engine);
    let fast = of(fast)?;
    let ratio = |slow: Vec<f64>| {
        Sample::new(slow.iter().zip(&fast).map(|(slow, fast)| slow / fast).collect()).median()
    };
    let engines = results.names(|row| &row.engine);
    let ratios = engines.iter().filter(|name| name.starts_with(start));
    ratios.filter_map(|name| Some(ratio(of(name)?))).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    #[test]
    fn the_lines_of_the_paper_are_those_of_its_table() {
        for (name, cycles, [t_o, t_p]) in THEIRS {
            let points: Vec<(f64, f64)> = ALPHA.into_iter().zip(cycles).collect();
            let (slope, start) = least_squares(&points).unwrap();
            assert!(
                (slope - t_p).abs() < 0.15 && (start - t_o).abs() < 2.0,
                "{name}: {start} {slope}"
            );
        }
    }

    #[test]
    fn alpha_counts_the_rules_tried() {
        assert_eq!(alpha(&[0, 3, u32::MAX, u32::MAX], 10), 6.25);
    }

    #[test]
    fn lines_are_found_again() {
        let row = |(rules, alpha): (usize, f64)| {
            let row = |engine, time| Row::new(case(rules), Set::Cache, engine, vec![time; 3]);
            [row("naive-gcc", 10.0 + 2.0 * alpha), row("pe", 1.0 + 0.1 * alpha)]
        };
        let mut results = Results(SIZES.into_iter().zip(ALPHA).flat_map(row).collect());
        results.0.push(Row::new(case(2), Set::Cache, "ems", vec![1.0]));
        let lines = lines(&results, &ALPHA, 3.0);
        assert_eq!(lines.len(), 2);
        assert!((lines[0].t_p - 6.0).abs() < 1e-3 && (lines[0].t_o - 30.0).abs() < 1e-2);
        assert!((slope_ratio(&results, &ALPHA, "naive", "pe").unwrap() - 20.0).abs() < 1e-6);
        assert_eq!(slope_ratio(&results, &ALPHA, "naive", "ems"), None);
    }
}
