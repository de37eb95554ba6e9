//! Tables for the terminal: the paper's two with ours beneath, ClassBench's sets, and
//! the crossover of scans and tree.

use std::fmt::Write as _;

use super::bars::{ACL, acl_ratio};
use super::paper::{ALPHA, Line, SETS, SIZES, THEIRS};
use super::results::Outcome;
use super::sets::Set;
use super::updates::Updates;

/// A line of the tables; writing to a string cannot fail.
fn line(out: &mut String, text: impl AsRef<str>) {
    let _ = writeln!(out, "{}", text.as_ref().trim_end());
}

/// A number in seven columns.
fn number(value: Option<f64>) -> String {
    match value {
        None => format!("{:>7}", "–"),
        Some(value) if value.abs() < 0.1 => format!("{value:>7.3}"),
        Some(value) if value < 10.0 => format!("{value:>7.2}"),
        Some(value) if value < 1_000.0 => format!("{value:>7.1}"),
        Some(value) => format!("{value:>7.0}"),
    }
}

/// The paper's tables 2 and 3.
pub fn paper(lines: &[Line], alphas: &[f64]) -> String {
    let mut out = String::new();
    line(
        &mut out,
        "Tables 2 and 3. Cycles a packet on lists of 2, 9, 18, 35 and 71 rules; T_O and T_P",
    );
    let row =
        |name: &str, cycles: &[f64], t_o: Option<f64>, t_p: Option<f64>, ratio: Option<f64>| {
            let cycles: String = cycles.iter().map(|&cycles| number(Some(cycles))).collect();
            format!("{name:<21}{cycles} │{}{}{}", number(t_o), number(t_p), number(ratio))
        };
    let heading = |name: &str| {
        let sizes = SIZES.map(|size| format!("{size:>7}")).concat();
        format!("{name:<21}{sizes} │{:>7}{:>7}{:>7}", "T_O", "T_P", "×pe")
    };
    let times_pe = |t_p: f64, pe: Option<f64>| pe.map(|pe| t_p / pe);
    line(&mut out, heading("paper, Itanium 2"));
    line(&mut out, row("α", &ALPHA, None, None, None));
    for (name, cycles, [t_o, t_p]) in THEIRS {
        line(
            &mut out,
            row(name, &cycles, Some(t_o), Some(t_p), times_pe(t_p, Some(THEIRS[5].2[1]))),
        );
    }
    for set in SETS {
        let of_set = || lines.iter().filter(|line| line.set == set.to_string());
        let pe = of_set().find(|line| line.engine == "pe").map(|line| line.t_p);
        line(&mut out, heading(&format!("here, {} a call", set.batch())));
        line(&mut out, row("α", alphas, None, None, None));
        for one in of_set() {
            let ratio = times_pe(one.t_p, pe);
            line(&mut out, row(&one.engine, &one.cycles, Some(one.t_o), Some(one.t_p), ratio));
        }
    }
    line(&mut out, "");
    out
}

/// One line a list: nanoseconds a packet of DPDK's best and of ours, and what ours takes.
pub fn classbench(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    line(
        &mut out,
        "ClassBench: ns a packet of the fastest rte_acl and of tree; building and memory of tree",
    );
    line(
        &mut out,
        format!(
            "{:<16}{:>7}│{:<9}{:>7}{:>7}{:>7}│{:>7}{:>7}│{:>7}{:>7}│{:>8}{:>7}",
            "",
            "rules",
            "memory",
            "acl",
            "tree",
            "ratio",
            "cache",
            "tree",
            "trace",
            "tree",
            "build ms",
            "B/rule"
        ),
    );
    for one in outcomes {
        let best = |set| one.best(set, ACL).map(|(_, nanos)| nanos);
        let name = one.best(Set::Memory, ACL).map_or("", |(name, _)| name);
        let tree = |set| number(one.nanos(set, "tree"));
        let build = one.participant("tree").and_then(|tree| tree.build_ms);
        line(
            &mut out,
            format!(
                "{:<16}{:>7}│{:<9}{}{}{}│{}{}│{}{}│{:>8}{}",
                one.case,
                one.rules,
                name.trim_start_matches("rte_acl-"),
                number(best(Set::Memory)),
                tree(Set::Memory),
                number(acl_ratio(one)),
                number(best(Set::Cache)),
                tree(Set::Cache),
                number(best(Set::Trace)),
                tree(Set::Trace),
                number(build).trim_start(),
                number(one.bytes_per_rule("tree")),
            ),
        );
    }
    line(&mut out, "");
    out
}

/// The most work that a packet can make for `tree`, as known when it was built.
pub fn bounds(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let bound = |one: &Outcome| one.participant("tree")?.more.get("bound")?.as_object().cloned();
    let bounded: Vec<_> =
        outcomes.iter().filter_map(|one| Some((&one.case, bound(one)?))).collect();
    let Some((_, first)) = bounded.first() else { return out };
    line(&mut out, "The most work that a packet can make for tree");
    let names: String = first.keys().map(|name| format!("{name:>10}")).collect();
    line(&mut out, format!("{:<16}{names}", ""));
    for (case, bound) in &bounded {
        let numbers: String =
            bound.values().map(|number| format!("{:>10}", number.to_string())).collect();
        line(&mut out, format!("{case:<16}{numbers}"));
    }
    line(&mut out, "");
    out
}

/// What changing the lists takes, and what it takes from a reader.
pub fn updates(all: &[(String, Vec<Updates>)]) -> String {
    let mut out = String::new();
    if all.is_empty() {
        return out;
    }
    line(
        &mut out,
        "Single-rule updates beside a reader: µs until visible; doing nothing for 30 µs took; \
         part of its speed the reader loses",
    );
    line(
        &mut out,
        format!(
            "{:<17}{:>7}{:>7}{:>7}{:>9}{:>8}{:>9}{:>8}",
            "", "rate/s", "p50", "p99", "idle p50", "p99", "loss", "merges"
        ),
    );
    for (case, updates) in all {
        for one in updates {
            let [p50, p99] = [0.5, 0.99].map(|part| number(Some(one.quantile(part))));
            let [idle, late] = [0.5, 0.99].map(|part| number(Some(one.spin_quantile(part))));
            let (loss, merges, rate) = (100.0 * one.loss(), one.merges, one.rate);
            line(
                &mut out,
                format!("{case:<17}{rate:>7}{p50}{p99}{idle:>9}{late:>8}{loss:>8.1}%{merges:>8}"),
            );
        }
    }
    line(&mut out, "");
    out
}

/// Nanoseconds of each engine against the size of lists cut from one set.
pub fn crossover(name: &str, outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let Some(first) = outcomes.first() else { return out };
    line(&mut out, format!("Lists cut from {name}: ns a packet by number of rules (set cache)"));
    let names: String = first.participants.iter().map(|one| format!("{:>12}", one.name)).collect();
    line(&mut out, format!("{:>6}{names}", "rules"));
    for one in outcomes {
        let times = one.participants.iter().map(|engine| {
            format!("{:>12}", number(one.nanos(Set::Cache, engine.name)).trim_start())
        });
        line(&mut out, format!("{:>6}{}", one.rules, times.collect::<String>()));
    }
    line(&mut out, "");
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::results::outcome;
    use super::*;

    #[test]
    fn tables_fit_a_hundred_columns_and_show_what_is_missing() {
        let of = |engine: &str, t_p: f64| Line {
            set: Set::Cache.to_string(),
            engine: engine.to_owned(),
            cycles: vec![1234.5; 5],
            t_o: 17.0,
            t_p,
            t_p_spread: [t_p; 2],
        };
        let text = paper(&[of("naive-aligned-clang", 1.95), of("pe", 0.13)], &ALPHA);
        assert!(text.contains("   15.0\n") && text.contains("pe "), "{text}");
        let mut lists = [outcome(
            "ipc1_100k-5tuple",
            100_000,
            &[("tree", &[29.5; 3]), ("rte_acl-avx512x32", &[444.0; 3]), ("rte_acl-sse", &[])],
        )];
        let bound = json!({ "nodes": 7, "trees": 2 });
        lists[0].participants[0].more.insert("bound".into(), bound);
        assert!(bounds(&lists).contains("         7         2\n"));
        let large = classbench(&lists);
        assert!(large.contains("avx512x32") && large.contains("15.1"), "{large}");
        let cut = crossover("acl1_10k", &lists) + &bounds(&lists);
        for line in text.lines().chain(large.lines()).chain(cut.lines()) {
            assert!(line.chars().count() <= 100, "{line}");
        }
        assert_eq!(crossover("acl1_10k", &[]) + &updates(&[]), "");
    }
}
