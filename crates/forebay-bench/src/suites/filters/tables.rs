//! Tables for the terminal: the paper's three with ours beside them, and one of all
//! filters.

use std::fmt::Write as _;

use super::engines::OURS;
use super::paper;
use super::results::{C_FORMS, Outcome};
use super::sets::Set;
use crate::stats::geometric_mean;

/// Our engines in the order of the paper's columns, and what the tables call them.
pub const COLUMNS: [(&str, &str); 9] = [
    ("libpcap", "pcap"),
    ("gcc-c", "gcc"),
    ("gcc-structured", "gccˢ"),
    ("clang-c", "cla"),
    ("clang-structured", "claˢ"),
    ("list", "list"),
    ("pe-avx512", "pe"),
    ("ems", "ems"),
    ("auto", "auto"),
];

/// All tables.
pub fn text(outcomes: &[Outcome], shares: &[f64], gigahertz: f64) -> String {
    let mut out = String::new();
    let papers: Vec<&Outcome> = outcomes.iter().filter(|one| one.case.paper).collect();
    if papers.len() == paper::MATCHED.len() {
        table_1(&mut out, &papers, shares);
        table_2(&mut out, &papers, gigahertz);
        table_3(&mut out, &papers);
    }
    all_filters(&mut out, outcomes);
    out
}

/// A line of the tables; writing to a string cannot fail.
fn line(out: &mut String, text: impl AsRef<str>) {
    let _ = writeln!(out, "{}", text.as_ref().trim_end());
}

/// A number in four columns.
fn number(value: Option<f64>) -> String {
    match value {
        None => format!("{:>4}", "–"),
        Some(value) if value < 99.95 => format!("{value:>4.1}"),
        Some(value) => format!("{value:>4.0}"),
    }
}

fn table_1(out: &mut String, papers: &[&Outcome], shares: &[f64]) {
    line(out, "Table 1. The filters: the paper's depth, conditions, instructions and matches;");
    line(out, "our instructions of classic BPF and matches");
    line(out, "No  filter                          depth  #ifs  #insts  match │ cBPF   match");
    for (index, one) in papers.iter().enumerate() {
        let [depth, ifs, instructions] = paper::SIZE[index];
        line(
            out,
            format!(
                "{:>2}  {:<30}  {depth:>5}  {ifs:>4}  {instructions:>6}  {:>5} │ {:>4}  {:>5.1}%",
                index + 1,
                one.case.short,
                format!("{}%", paper::MATCHED[index]),
                one.instructions,
                shares[index],
            ),
        );
    }
    line(out, "");
}

/// The headings of tables 2 and 3.
fn headings(out: &mut String) {
    let theirs = paper::COLUMNS.map(|name| format!("{name:>5}")).concat();
    let ours = COLUMNS.map(|(_, name)| format!("{name:>5}")).concat();
    line(out, format!("    {:<45} │ ours, hot", " paper, Itanium 2"));
    line(out, format!("No  {theirs} │{ours}"));
}

fn table_2(out: &mut String, papers: &[&Outcome], gigahertz: f64) {
    line(out, "Table 2. Cycles a packet (ˢ: structured C)");
    headings(out);
    for (index, one) in papers.iter().enumerate() {
        let theirs = paper::CYCLES[index].map(|cycles| format!(" {}", number(Some(cycles))));
        let ours = COLUMNS.map(|(engine, _)| {
            format!(" {}", number(one.nanos(Set::Hot, engine).map(|nanos| nanos * gigahertz)))
        });
        line(out, format!("{:>2}  {} │{}", index + 1, theirs.concat(), ours.concat()));
    }
    line(out, "");
}

fn table_3(out: &mut String, papers: &[&Outcome]) {
    line(out, "Table 3. Times the interpreter's speed (ours: medians of pairs, in ns)");
    headings(out);
    for (index, one) in papers.iter().enumerate() {
        let theirs = paper::RATIO[index].map(|ratio| format!(" {}", number(Some(ratio))));
        let ours = COLUMNS
            .map(|(engine, _)| format!(" {}", number(one.ratio(Set::Hot, "libpcap", engine))));
        line(out, format!("{:>2}  {} │{}", index + 1, theirs.concat(), ours.concat()));
    }
    let theirs = paper::MEAN_RATIO.map(|ratio| format!(" {}", number(Some(ratio))));
    let ours = COLUMNS.map(|(engine, _)| format!(" {}", number(mean_ratio(papers, engine))));
    line(out, format!("ave {} │{}", theirs.concat(), ours.concat()));
    line(out, "");
}

/// The arithmetic mean of libpcap's times to `engine`'s in `hot`, if all were measured.
pub fn mean_ratio(outcomes: &[&Outcome], engine: &str) -> Option<f64> {
    let ratios: Option<Vec<f64>> =
        outcomes.iter().map(|one| one.ratio(Set::Hot, "libpcap", engine)).collect();
    let ratios = ratios.filter(|ratios| !ratios.is_empty())?;
    Some(ratios.iter().sum::<f64>() / ratios.len() as f64)
}

/// One line a filter: libpcap's, the best C's and our nanoseconds on the four sets.
fn all_filters(out: &mut String, outcomes: &[Outcome]) {
    const SETS: [Set; 4] = [Set::Hot, Set::Cache, Set::Memory, Set::Capture];
    line(out, format!("Nanoseconds a packet: libpcap, the best C form, {OURS}"));
    let names = SETS.map(|set| format!(" │ {:<14}", set.to_string())).concat();
    line(out, format!("{:<29}{names}", ""));
    for one in outcomes {
        let mut cells = String::new();
        for set in SETS {
            let c = one.best(set, &C_FORMS).and_then(|name| one.nanos(set, name));
            let times = [one.nanos(set, "libpcap"), c, one.nanos(set, OURS)];
            let [libpcap, c, ours] = times.map(number);
            let _ = write!(cells, " │ {libpcap} {c} {ours}");
        }
        line(out, format!("{:<29}{cells}", one.case.short));
    }
    line(out, "");
}

/// What other choices than the usual ones give: for each variant of each back end, the
/// usual one's time to its own, as a geometric mean over the filters.
pub fn swept(outcomes: &[Outcome]) -> String {
    const SETS: [Set; 4] = [Set::Hot, Set::Cache, Set::Memory, Set::Capture];
    let mut out = String::new();
    line(&mut out, "Speed of each variant in that of the back end's usual choices");
    let headings = SETS.map(|set| format!("{:>9}", set.to_string())).concat();
    line(&mut out, format!("{:<24}{headings}", ""));
    let variants = outcomes.first().map_or(&[][..], |one| &one.names);
    for variant in variants {
        let Some((usual, _)) = variant.split_once('-') else { continue };
        let mut cells = String::new();
        for set in SETS {
            let ratios = outcomes.iter().filter_map(|one| one.ratio(set, usual, variant));
            let mean = geometric_mean(&ratios.collect::<Vec<_>>());
            let _ = if mean.is_nan() {
                write!(cells, "{:>9}", "–")
            } else {
                write!(cells, "{mean:>9.3}")
            };
        }
        if variants.iter().any(|name| name == usual) {
            line(&mut out, format!("{variant:<24}{cells}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::expressions::PAPER;
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn tables_fit_a_hundred_columns() {
        let mut outcomes: Vec<Outcome> = PAPER
            .into_iter()
            .map(|expression| {
                let mut one = outcome(
                    true,
                    &[("libpcap", &[999.0; 3]), ("auto", &[5.0; 3]), ("ems", &[12.5; 3])],
                );
                one.case.short = expression.to_owned();
                one
            })
            .collect();
        let text_of = |outcomes: &[Outcome]| text(outcomes, &paper::MATCHED, 3.0);
        let whole = text_of(&outcomes);
        for line in whole.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        assert!(whole.contains("Table 3") && whole.contains("ave   1.0  5.7"), "{whole}");
        assert!(whole.contains("2997    –    –    –    –    –    – 37.5 15.0"), "{whole}");
        outcomes.pop();
        let part = text_of(&outcomes);
        assert!(!part.contains("Table 1") && part.contains("Nanoseconds"), "{part}");
    }

    #[test]
    fn a_sweep_compares_with_the_usual_choices() {
        let timed = [("gcc-c", &[9.0; 3]), ("pe", &[4.0; 3]), ("pe-latency-7", &[2.0; 3])];
        let timed = timed.map(|(name, times)| (name, &times[..]));
        let text = swept(&[outcome(true, &timed)]);
        assert!(text.contains("pe-latency-7                2.000        –"), "{text}");
        assert!(!text.contains("gcc-c"), "{text}");
        assert_eq!(swept(&[]).lines().count(), 2);
    }
}
