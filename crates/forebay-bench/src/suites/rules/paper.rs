//! The paper's comparison of ways to scan a list, with its own numbers: Yamashita and
//! Tsuru, "Implementation and Evaluation of Fast Packet Filters", IPSJ Transactions on
//! Advanced Computing Systems 1(1), 2008 (Itanium 2 at 900 MHz, gcc 2.96, icc 9.1).
//!
//! A packet that matches the k-th of N rules takes T_O + k·T_P, one that matches none
//! T_O + N·T_P (section 5.1). Over the packets of a set that is T_O + α·T_P, with α the
//! mean of those k and N. Five lists give five points, and the line of least squares
//! through them the overhead T_O and the time T_P of a rule.

use serde::Serialize;

use super::results::Outcome;
use super::sets::Set;
use crate::stats::{Sample, least_squares, rounded};

/// The rules of its five lists.
pub const SIZES: [usize; 5] = [2, 9, 18, 35, 71];

/// What the lists are measured on.
pub const SETS: [Set; 2] = [Set::Cache, Set::CacheWide];

/// Rules that its packets are held against on average.
pub const ALPHA: [f64; 5] = [2.00, 8.99, 17.68, 34.36, 69.73];

/// Its ways to scan, with cycles a packet on each list (table 2), T_O and T_P (table 3).
pub const THEIRS: [(&str, [f64; 5], [f64; 2]); 7] = [
    ("naive C, gcc", [418.2, 564.0, 743.1, 995.2, 1508.0], [425.7, 15.8]),
    ("naive C, icc", [393.3, 532.7, 721.8, 973.4, 1540.6], [388.8, 16.7]),
    ("aligned C, gcc", [94.8, 239.9, 418.7, 669.6, 1179.4], [102.5, 15.7]),
    ("aligned C, icc", [60.0, 199.3, 389.2, 639.9, 1187.9], [59.3, 16.4]),
    ("not pipelined", [52.8, 130.0, 208.8, 350.4, 597.2], [57.5, 7.9]),
    ("pe", [57.8, 89.1, 123.9, 191.0, 325.8], [53.0, 3.9]),
    ("ems", [71.1, 117.8, 177.4, 288.5, 440.4], [74.4, 5.4]),
];

/// The mean number of rules that packets are held against, of which these match first.
pub fn alpha(first_matches: &[u32], rules: usize) -> f64 {
    let tried = |&rule: &u32| rules.min((rule as usize).saturating_add(1)) as f64;
    first_matches.iter().map(tried).sum::<f64>() / first_matches.len() as f64
}

/// The line of an engine over the five lists.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The set.
    pub set: String,
    /// The engine.
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

/// The lists with the α of each.
pub type Lists<'a> = [(&'a Outcome, f64)];

/// The lines of all engines that were measured on all lists, set by set.
pub fn lines(lists: &Lists<'_>, gigahertz: f64) -> Vec<Line> {
    let Some((first, _)) = lists.first() else { return Vec::new() };
    let names = || first.participants.iter().map(|one| one.name);
    let of_set = |set| names().filter_map(move |engine| line(lists, set, engine, gigahertz));
    SETS.into_iter().flat_map(of_set).collect()
}

fn line(lists: &Lists<'_>, set: Set, engine: &str, gigahertz: f64) -> Option<Line> {
    let times = |one: &Outcome| Some(one.times(set, engine)?.to_vec());
    let times: Option<Vec<(f64, Vec<f64>)>> =
        lists.iter().map(|(one, alpha)| Some((*alpha, times(one)?))).collect();
    let times = times?;
    let median = |times: &[f64]| Sample::new(times.to_vec()).median() * gigahertz;
    let points: Vec<(f64, f64)> =
        times.iter().map(|(alpha, times)| (*alpha, median(times))).collect();
    let (t_p, t_o) = least_squares(&points)?;
    let slopes = slopes(&times).into_iter().map(|slope| slope * gigahertz).collect();
    Some(Line {
        set: set.to_string(),
        engine: engine.to_owned(),
        cycles: points.iter().map(|(_, cycles)| rounded(*cycles)).collect(),
        t_o: rounded(t_o),
        t_p: rounded(t_p),
        t_p_spread: Sample::new(slopes).spread().map(rounded),
    })
}

/// The slope of each round, in nanoseconds a rule.
fn slopes(times: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let rounds = times.iter().map(|(_, times)| times.len()).min().unwrap_or(0);
    let points = |round: usize| -> Vec<(f64, f64)> {
        times.iter().map(|(alpha, times)| (*alpha, times[round])).collect()
    };
    (0..rounds).filter_map(|round| Some(least_squares(&points(round))?.0)).collect()
}

/// How many times the T_P of `fast` the least one of the engines is whose names start
/// with `start`: the median over the rounds.
pub fn slope_ratio(lists: &Lists<'_>, start: &str, fast: &str) -> Option<f64> {
    let of = |engine: &str| -> Option<Vec<f64>> {
        let times: Option<Vec<(f64, Vec<f64>)>> = lists
            .iter()
            .map(|(one, alpha)| Some((*alpha, one.times(Set::Cache, engine)?.to_vec())))
            .collect();
        Some(slopes(&times?))
    };
    let fast = of(fast)?;
    let (first, _) = lists.first()?;
    let names = first.participants.iter().map(|one| one.name);
    let ratio = |slow: Vec<f64>| {
        Sample::new(slow.iter().zip(&fast).map(|(slow, fast)| slow / fast).collect()).median()
    };
    let ratios =
        names.filter(|name| name.starts_with(start)).filter_map(|name| Some(ratio(of(name)?)));
    ratios.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

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
        let on_list = |alpha: f64| {
            let (slow, fast) = ([10.0 + 2.0 * alpha; 3], [1.0 + 0.1 * alpha; 3]);
            let mut one = outcome("paper", 2, &[("naive-gcc", &slow), ("pe", &fast), ("ems", &[])]);
            one.sets[0].set = Set::Cache;
            one
        };
        let outcomes = ALPHA.map(on_list);
        let lists: Vec<(&Outcome, f64)> = outcomes.iter().zip(ALPHA).collect();
        let lines = lines(&lists, 3.0);
        assert_eq!(lines.len(), 2);
        assert!((lines[0].t_p - 6.0).abs() < 1e-3 && (lines[0].t_o - 30.0).abs() < 1e-2);
        assert!((slope_ratio(&lists, "naive", "pe").unwrap() - 20.0).abs() < 1e-6);
        assert_eq!(slope_ratio(&lists, "naive", "ems"), None);
    }
}
