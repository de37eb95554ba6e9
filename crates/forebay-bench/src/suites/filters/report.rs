//! Tables for the terminal, and the paper's two figures, with ours beside the paper's values.

use std::path::Path;

use super::engines::{JUDGE, OURS};
use super::expressions::Case;
use super::paper;
use super::summary::is_c_form;
use crate::failure::Result;
use crate::record::Results;
use crate::stats::{geometric_mean, least_squares};
use crate::svg::{self, COLOURS, ChartBar, Mark, Plot, Series};
use crate::table::{pivot, table};

/// Our engines in the order of the paper's columns, with their names in tables.
const COLUMNS: [(&str, &str); 9] = [
    (JUDGE, "pcap"),
    ("gcc-c", "gcc"),
    ("gcc-structured", "gccˢ"),
    ("clang-c", "cla"),
    ("clang-structured", "claˢ"),
    ("list", "list"),
    ("pe-avx512", "pe"),
    ("ems", "ems"),
    (OURS, "auto"),
];

/// The sets of the tables of all filters.
const SETS: [&str; 5] = ["hot", "cache", "memory", "frames", "capture"];

/// All tables. `shares` are the percentages of packets that the paper's filters match.
pub fn tables(cases: &[Case], results: &Results, shares: &[f64], gigahertz: f64) -> String {
    let papers: Vec<&Case> = cases.iter().filter(|case| case.paper).collect();
    let mut out = String::new();
    if papers.len() == paper::MATCHED.len() {
        out += &paper_tables(&papers, results, shares, gigahertz);
    }
    let names: Vec<&str> = cases.iter().map(|case| case.short.as_str()).collect();
    let title = format!("Nanoseconds a packet: libpcap, the best C form, {OURS}");
    for sets in SETS.chunks(2) {
        let columns = sets.iter().flat_map(|set| [format!("{set}: pcap"), "C".into(), OURS.into()]);
        let columns: Vec<String> = columns.collect();
        out += &pivot(&title, "", (&names, &columns), |row, column| {
            let (case, set) = (cases[row].expression.as_str(), sets[column / 3]);
            match column % 3 {
                0 => results.nanos(case, set, JUDGE),
                1 => results.best(case, set, is_c_form)?.ns,
                _ => results.nanos(case, set, OURS),
            }
        });
    }
    out
}

fn paper_tables(papers: &[&Case], results: &Results, shares: &[f64], gigahertz: f64) -> String {
    let title = "Table 1. The filters: the paper's depth, conditions, instructions and matches;\n\
                 our instructions of classic BPF and matches";
    let headings = ["No filter", "depth", "#ifs", "#insts", "match", "│ cBPF", "match"];
    let lines = papers.iter().enumerate().map(|(index, case)| {
        let [depth, ifs, instructions] = paper::SIZE[index].map(|number| number.to_string());
        let (theirs, ours) = (paper::MATCHED[index], shares[index]);
        let name = format!("{:>2} {}", index + 1, case.short);
        let ours = [case.instructions.to_string(), format!("{ours:.1}%")];
        let theirs = [name, depth, ifs, instructions, format!("{theirs}%")];
        theirs.into_iter().chain(ours).collect()
    });
    let mut out = table(title, 1, &headings, lines.collect());
    let filters: Vec<String> = (1..=papers.len()).map(|number| number.to_string()).collect();
    let with_mean: Vec<&str> = filters.iter().map(String::as_str).chain(["ave"]).collect();
    let ours = COLUMNS.map(|(_, name)| name);
    let case = |row: usize| papers[row].expression.as_str();
    let title = "Table 2. Cycles a packet (ˢ: structured C): paper, Itanium 2";
    let value = |row: usize, column: usize| Some(paper::CYCLES[row][column]);
    out += &pivot(title, "No", (&filters, &paper::COLUMNS), value);
    out += &pivot("Table 2: ours, hot", "No", (&filters, &ours), |row, column| {
        Some(results.nanos(case(row), "hot", COLUMNS[column].0)? * gigahertz)
    });
    let title = "Table 3. Times the interpreter's speed: paper, Itanium 2";
    out += &pivot(title, "No", (&with_mean, &paper::COLUMNS), |row, column| {
        let is_filter = row < papers.len();
        Some(if is_filter { paper::ratio(row, column) } else { paper::MEAN_RATIO[column] })
    });
    let title = "Table 3: ours, hot, medians of pairs";
    out += &pivot(title, "No", (&with_mean, &ours), |row, column| {
        let engine = COLUMNS[column].0;
        match row < papers.len() {
            true => results.ratio(case(row), "hot", JUDGE, engine),
            false => mean_ratio(papers, results, engine),
        }
    });
    out
}

/// The arithmetic mean of libpcap's times to `engine`'s in `hot`, if all were measured.
fn mean_ratio(papers: &[&Case], results: &Results, engine: &str) -> Option<f64> {
    let ratio = |case: &&Case| results.ratio(&case.expression, "hot", JUDGE, engine);
    let ratios: Option<Vec<f64>> = papers.iter().map(ratio).collect();
    let ratios = ratios.filter(|ratios| !ratios.is_empty())?;
    Some(ratios.iter().sum::<f64>() / ratios.len() as f64)
}

/// For each variant of each back end, the speed in that of the back end's usual choices, as a
/// geometric mean over the filters.
pub fn swept(results: &Results) -> String {
    let engines = results.names(|row| &row.engine);
    let is_variant =
        |name: &&&str| name.split_once('-').is_some_and(|(usual, _)| engines.contains(&usual));
    let variants: Vec<&&str> = engines.iter().filter(is_variant).collect();
    let cases = results.names(|row| &row.case);
    let title = "Speed of each variant in that of the back end's usual choices";
    pivot(title, "", (&variants, &SETS), |row, column| {
        let (variant, set) = (variants[row], SETS[column]);
        let (usual, _) = variant.split_once('-')?;
        let ratios = cases.iter().filter_map(|case| results.ratio(case, set, usual, variant));
        Some(geometric_mean(&ratios.collect::<Vec<_>>())).filter(|mean| !mean.is_nan())
    })
}

/// Longer filters are left out of figure 2. They are lists, which are compiled to sets, and
/// the time of a look-up in a set does not grow with the list.
const MOST_INSTRUCTIONS: usize = 64;

/// Writes `figure-1.svg` and `figure-2.svg` to `folder`.
pub fn figures(folder: &Path, cases: &[Case], results: &Results, gigahertz: f64) -> Result<()> {
    svg::write(folder, "figure-1.svg", &figure_1(cases, results))?;
    svg::write(folder, "figure-2.svg", &figure_2(cases, results, gigahertz))
}

/// Means of the acceleration over the paper's filters: a pair of bars for each way to run a
/// filter, the paper's and ours.
fn figure_1(cases: &[Case], results: &Results) -> String {
    let papers: Vec<&Case> = cases.iter().filter(|case| case.paper).collect();
    let pair = |(index, (engine, _)): (usize, &(&str, &str))| {
        let name = format!("paper, {}", paper::COLUMNS[index]);
        let theirs = ChartBar { name, value: paper::MEAN_RATIO[index], colour: svg::PAPER };
        let ours = mean_ratio(&papers, results, engine);
        let ours = ours.map(|value| ChartBar { name: (*engine).into(), value, colour: COLOURS[0] });
        [Some(theirs), ours]
    };
    let bars: Vec<ChartBar<'_>> = COLUMNS.iter().enumerate().flat_map(pair).flatten().collect();
    let heading =
        "Times the interpreter's speed, mean over 13 filters: paper's (grey, Itanium 2), here";
    svg::chart("Average acceleration ratios", heading, false, &bars)
}

/// Execution times against the size of the filter, with lines of least squares: at the left
/// the paper's, at the right ours.
fn figure_2(cases: &[Case], results: &Results, gigahertz: f64) -> String {
    let theirs = |column: usize| {
        let cycles = paper::CYCLES.iter().map(move |cycles| cycles[column]);
        paper::SIZE.iter().map(|size| f64::from(size[2])).zip(cycles).collect()
    };
    let ours = |engine: &str| {
        let short = cases.iter().filter(|case| case.instructions <= MOST_INSTRUCTIONS);
        let point = |case: &Case| {
            let nanos = results.nanos(&case.expression, "hot", engine)?;
            Some((case.instructions as f64, nanos * gigahertz))
        };
        short.filter_map(point).collect()
    };
    let plot = |heading, x_label, pe: Vec<(f64, f64)>, ems: Vec<(f64, f64)>| {
        let series = [("pe", COLOURS[0], Mark::Circle, pe), ("ems", COLOURS[1], Mark::Cross, ems)];
        let series = series.into_iter().flat_map(|(name, colour, mark, points)| {
            let fit = fitted(name, colour, &points);
            let series = Series { name: name.to_owned(), colour, mark, width: 0.0, points };
            [Some(series), Some(fit)]
        });
        Plot { heading, x_label, series: series.flatten().collect(), ..Plot::default() }
    };
    let paper = "Paper: cycles a packet, Itanium 2";
    let here = "Here, set hot: cycles a packet";
    svg::plots(
        "Execution time against the size of the filter",
        &[
            plot(paper, "machine instructions", theirs(6), theirs(7)),
            plot(here, "classic BPF instructions", ours("pe-avx512"), ours("ems")),
        ],
    )
}

/// The line of least squares, as far as it is above 0.
fn fitted<'a>(name: &str, colour: &'a str, points: &[(f64, f64)]) -> Series<'a> {
    let largest = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let (name, points) = match least_squares(points) {
        Some((slope, start)) => {
            let first = if start < 0.0 && slope > 0.0 { -start / slope } else { 0.0 };
            let ends = [first, largest].map(|size| (size, (start + slope * size).max(0.0)));
            (format!("{name} = {slope:.2} × instructions + {start:.2}"), ends.to_vec())
        }
        None => (format!("{name}: not measured"), Vec::new()),
    };
    Series { name, colour, mark: Mark::None, width: 1.2, points }
}

#[cfg(test)]
mod tests {
    use super::super::expressions;
    use super::*;
    use crate::record::Row;

    fn measured(engines: &[(&str, f64)]) -> (Vec<Case>, Results) {
        let cases = expressions::all();
        let rows = cases.iter().flat_map(|case| {
            let row = |(engine, time): &(&str, f64)| {
                Row::new(&case.expression, "hot", *engine, vec![*time; 3])
            };
            engines.iter().map(row)
        });
        let results = Results(rows.collect());
        (cases, results)
    }

    #[test]
    fn tables_fit_a_hundred_columns() {
        let (mut cases, results) = measured(&[("libpcap", 999.0), ("auto", 5.0), ("ems", 12.5)]);
        let whole = tables(&cases, &results, &paper::MATCHED, 3.0);
        assert!(whole.lines().all(|line| line.chars().count() <= 100), "{whole}");
        assert!(whole.contains("Table 3") && whole.contains("199.8"), "{whole}");
        cases.remove(0);
        let part = tables(&cases, &results, &paper::MATCHED, 3.0);
        assert!(!part.contains("Table 1") && part.contains("Nanoseconds"), "{part}");
    }

    #[test]
    fn a_sweep_compares_with_the_usual_choices() {
        let (_, results) = measured(&[("gcc-c", 9.0), ("pe", 4.0), ("pe-latency-7", 2.0)]);
        let text = swept(&results);
        let line = text.lines().find(|line| line.starts_with("pe-latency-7")).unwrap();
        assert!(line.contains("2.00") && line.contains('–') && !text.contains("gcc-c"), "{text}");
    }

    #[test]
    fn figures_show_the_lines_of_the_paper_and_what_was_measured() {
        let (cases, results) = measured(&[("libpcap", 30.0), ("auto", 1.5), ("ems", 4.0)]);
        let (bars, lines) = (figure_1(&cases, &results), figure_2(&cases, &results, 3.0));
        assert!(bars.contains(">20.00</text>"), "{bars}");
        // The paper: 0.22 and 2.93, 0.14 and 6.01.
        assert!(lines.contains("pe = 0.22 × instructions + 2.9"), "{lines}");
        assert!(lines.contains("ems = 0.14 × instructions + 6.0"), "{lines}");
        assert!(lines.contains("pe: not measured") && !(bars + &lines).contains("NaN"));
        assert!(!figure_1(&[], &Results::default()).contains("NaN"));
    }
}
