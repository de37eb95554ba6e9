//! Bars, tables and figures: the paper's lines, ClassBench's sets, changes to lists, and the
//! crossover of scans and tree.

use std::path::Path;

use serde_json::Value;

use super::engines::{ACL, AUTO, NAIVE, TREE};
use super::measure::Set;
use super::paper::{ALPHA, Line, SETS, SIZES, THEIRS, slope_ratio};
use super::updates::{self, RATES};
use crate::bar::Bar;
use crate::bar::Limit::{AtLeast, AtMost};
use crate::failure::Result;
use crate::record::Results;
use crate::svg::{self, COLOURS, ChartBar, Mark, Plot, Series};
use crate::table::{number, pivot, table};

/// Most nanoseconds a packet, and milliseconds to build, of lists by size.
const LIMITS: [(&str, f64, Option<f64>); 3] =
    [("1k", 25.0, None), ("10k", 40.0, Some(1e3)), ("100k", 70.0, Some(1e4))];

/// What was measured.
pub struct Report<'a> {
    pub results: &'a Results,
    /// The lines of the paper's comparison, and α of each list.
    pub lines: &'a [Line],
    pub alphas: &'a [f64],
    /// ClassBench's sets that were measured, and lists cut from one of them, by their rules.
    pub classbench: &'a [String],
    pub cuts: &'a [(String, usize)],
}

impl Report<'_> {
    pub fn bars(&self) -> Vec<Bar> {
        let mut bars = self.paper_bars();
        for (size, nanos, build) in LIMITS {
            if nanos < 70.0 {
                let what = format!("memory, {size}: best rte_acl/{AUTO}, each");
                let ratios = self.each(size, |case| self.acl_ratio(case));
                bars.push(Bar::each(what, AtLeast(5.0), ratios));
            }
            let what = format!("memory, {size}: {AUTO}, ns a packet, each");
            let times = self.each(size, |case| self.results.nanos(case, "memory", AUTO));
            bars.push(Bar::each(what, AtMost(nanos), times));
            let what = format!("{size}: {TREE}, ms to build, each");
            let times = self.each(size, |case| self.of_tree(case, "build_ms"));
            bars.push(build.and_then(|ms| Bar::each(what, AtMost(ms), times)));
        }
        let what = format!("{TREE}: bytes a rule, each of acl and ipc");
        let small = self.classbench.iter().filter(|case| !case.starts_with("fw"));
        let bytes = |case: &String| Some((self.of_tree(case, "bytes_per_rule")?, case.clone()));
        bars.push(Bar::each(what, AtMost(100.0), small.filter_map(bytes)));
        for (rate, loss) in RATES.into_iter().zip([0.05, 0.15]) {
            let of_rate = |key: &'static str| {
                let row = move |case: &str| self.results.row(case, &updates::set(rate), TREE);
                self.each("10k", move |case| row(case)?.number(key))
            };
            let what = format!("10k, {rate} updates/s: µs until visible, p99, each");
            bars.push(Bar::each(what, AtMost(50.0), of_rate("update_p99_us")));
            let what = format!(
                "10k, {rate} updates/s: part of its speed a reader loses against the list built anew, each"
            );
            bars.push(Bar::each(what, AtMost(loss), of_rate("reader_loss")));
        }
        let counted = self.results.0.iter().filter(|row| {
            row.case != "parse" && !row.case.contains("-cut-") && !row.set.starts_with("updates")
        });
        bars.push(Results(counted.cloned().collect()).rounds_bar());
        bars.into_iter().flatten().collect()
    }

    fn paper_bars(&self) -> Vec<Option<Bar>> {
        let line = |engine: &str| {
            self.lines.iter().find(|line| line.engine == engine && line.set == "cache")
        };
        let slope = |engine: &str, limit: f64| {
            let what = format!("{engine}: T_P, cycles a packet and rule");
            Some(Bar::at_most(what, limit, line(engine)?.t_p))
        };
        let ratio = slope_ratio(self.results, self.alphas, NAIVE, "pe");
        let what = "T_P of the fastest naive C to that of pe";
        vec![
            slope("pe", 0.16),
            ratio.map(|ratio| Bar::at_least(what, 10.0, ratio)),
            slope("pe-generic", 0.5),
            slope("pe-1", 1.0),
            line("pe-1").map(|line| Bar::at_most("pe-1: T_O, cycles a packet", 30.0, line.t_o)),
        ]
    }

    /// A value of each of ClassBench's sets of one size.
    fn each(&self, size: &str, value: impl Fn(&str) -> Option<f64>) -> Vec<(f64, String)> {
        let end = format!("_{size}");
        let is_of_size =
            |case: &&String| case.split('-').next().is_some_and(|name| name.ends_with(&end));
        let of_size = self.classbench.iter().filter(is_of_size);
        of_size.filter_map(|case| Some((value(case)?, case.clone()))).collect()
    }

    /// The fastest of DPDK's algorithms to `auto`, in calls of 256 packets or of 4,096,
    /// whichever is less.
    fn acl_ratio(&self, case: &str) -> Option<f64> {
        let ratio = |set: Set| {
            let set = set.to_string();
            let peer = self.results.best(case, &set, |name| name.starts_with(ACL))?;
            self.results.ratio(case, &set, &peer.engine, AUTO)
        };
        let both = [Set::Memory, Set::MemoryWide].into_iter().filter_map(ratio);
        both.min_by(f64::total_cmp)
    }

    fn of_tree(&self, case: &str, key: &str) -> Option<f64> {
        self.results.row(case, "memory", TREE)?.number(key)
    }

    pub fn tables(&self) -> String {
        let mut out = String::new();
        if !self.lines.is_empty() {
            out += &self.paper_tables();
        }
        out += &self.classbench_table();
        out += &self.bounds_table();
        out += &self.updates_table();
        let engines = self.results.0.iter().filter(|row| row.case.contains("-cut-"));
        let engines = Results(engines.cloned().collect());
        let engines = engines.names(|row| &row.engine);
        let sizes: Vec<usize> = self.cuts.iter().map(|(_, rules)| *rules).collect();
        let title = "Lists cut from one set: ns a packet by number of rules (set cache)";
        out += &pivot(title, "rules", (&sizes, &engines), |cut, engine| {
            self.results.nanos(&self.cuts[cut].0, "cache", engines[engine])
        });
        out
    }

    /// The paper's tables 2 and 3, and ours.
    fn paper_tables(&self) -> String {
        let theirs: Vec<Line> = THEIRS.iter().map(Line::of_paper).collect();
        let mut out = "Tables 2 and 3. Cycles a packet on lists of 2, 9, 18, 35 and 71 rules; T_O \
                       and T_P\n"
            .to_owned();
        out += &lines_table("paper, Itanium 2", &ALPHA, &theirs.iter().collect::<Vec<_>>());
        for set in SETS {
            let lines = self.lines.iter().filter(|line| line.set == set.name());
            let name = format!("here, {} a call", set.batch());
            out += &lines_table(&name, self.alphas, &lines.collect::<Vec<_>>());
        }
        out
    }

    /// One line a list: nanoseconds a packet of DPDK's best and of ours, and building ours.
    fn classbench_table(&self) -> String {
        let title = "ClassBench: ns a packet of the fastest rte_acl and of auto; building and \
                     memory of tree";
        let headings = [
            "", "memory", "rules", "acl", "auto", "ratio", "cache", "auto", "trace", "auto",
            "build ms", "B/rule",
        ];
        let line = |case: &String| {
            let best = |set| self.results.best(case, set, |name| name.starts_with(ACL));
            let acl = |set| number(best(set).and_then(|row| row.ns));
            let auto = |set| number(self.results.nanos(case, set, AUTO));
            let name = best("memory").map_or("", |row| row.engine.trim_start_matches("rte_acl-"));
            vec![
                case.clone(),
                name.to_owned(),
                self.of_tree(case, "rules").map_or_else(String::new, |rules| rules.to_string()),
                acl("memory"),
                auto("memory"),
                number(self.acl_ratio(case)),
                acl("cache"),
                auto("cache"),
                acl("trace"),
                auto("trace"),
                number(self.of_tree(case, "build_ms")),
                number(self.of_tree(case, "bytes_per_rule")),
            ]
        };
        table(title, 2, &headings, self.classbench.iter().map(line).collect())
    }

    /// The most work of any packet, as known when the tree was built.
    fn bounds_table(&self) -> String {
        let bound = |case: &String| {
            self.results.row(case, "memory", TREE)?.more.get("bound").and_then(Value::as_object)
        };
        let bounds: Vec<_> = self.classbench.iter().filter_map(bound).collect();
        let Some(first) = bounds.first() else { return String::new() };
        let names: Vec<&String> = first.keys().collect();
        let title = "The most work that a packet can make for tree";
        pivot(title, "", (self.classbench, &names), |case, name| {
            bound(&self.classbench[case])?.get(names[name])?.as_f64()
        })
    }

    fn updates_table(&self) -> String {
        const COLUMNS: [(&str, &str); 7] = [
            ("p50", "update_p50_us"),
            ("p99", "update_p99_us"),
            ("idle p50", "spin_p50_us"),
            ("p99", "spin_p99_us"),
            ("loss %", "reader_loss"),
            ("to first %", "reader_loss_to_first"),
            ("merges", "merges"),
        ];
        let rows = self.results.0.iter().filter(|row| row.set.starts_with("updates-"));
        let rows: Vec<_> = rows.collect();
        let names: Vec<String> =
            rows.iter().map(|row| format!("{}, {}", row.case, row.set)).collect();
        let title = "Single-rule updates a second beside a reader: µs until visible; an idle loop of \
                     30 µs;\nthe part of its speed that the reader loses against the list built anew, and against the first one";
        pivot(title, "", (&names, &COLUMNS.map(|column| column.0)), |row, column| {
            let factor = if COLUMNS[column].1.starts_with("reader") { 100.0 } else { 1.0 };
            Some(rows[row].number(COLUMNS[column].1)? * factor)
        })
    }

    /// Writes `rules-figure-1.svg` and `rules-figure-2.svg` to `folder`, if there is anything
    /// to draw.
    pub fn figures(&self, folder: &Path) -> Result<()> {
        if !self.lines.is_empty() {
            svg::write(folder, "rules-figure-1.svg", &self.slopes())?;
        }
        if !self.cuts.is_empty() {
            svg::write(folder, "rules-figure-2.svg", &self.crossover())?;
        }
        Ok(())
    }

    /// T_P of each way to scan, the paper's and ours.
    fn slopes(&self) -> String {
        let bar = |name: &str, value, colour| ChartBar { name: name.to_owned(), value, colour };
        let theirs = THEIRS.iter().map(|(name, _, [_, t_p])| bar(name, *t_p, svg::PAPER));
        let ours = self.lines.iter().filter(|line| line.set == "cache" && line.t_p > 0.0);
        let ours = ours.map(|line| bar(&line.engine, line.t_p, COLOURS[0]));
        let bars: Vec<ChartBar<'_>> = theirs.chain(ours).collect();
        let heading = "T_P, cycles a packet and rule: the paper's (grey, Itanium 2) and here";
        svg::chart("Cycles a packet and rule", heading, true, &bars)
    }

    /// Nanoseconds a packet against the number of rules.
    fn crossover(&self) -> String {
        let engines = self.results.names(|row| &row.engine);
        let series = engines.iter().enumerate().map(|(index, engine)| {
            let nanos = |case: &str| self.results.nanos(case, "cache", engine);
            let points =
                self.cuts.iter().filter_map(|(case, rules)| Some((*rules as f64, nanos(case)?)));
            let (name, colour) = ((*engine).to_owned(), COLOURS[index % COLOURS.len()]);
            Series { name, colour, mark: Mark::Circle, width: 2.0, points: points.collect() }
        });
        let plot = Plot {
            heading: "ns a packet by number of rules (set cache)",
            x_label: "rules",
            x_marks: self.cuts.iter().map(|(_, rules)| *rules as f64).collect(),
            y_most: Some(60.0),
            series: series.filter(|series| !series.points.is_empty()).collect(),
            ..Plot::default()
        };
        svg::plots("Scans and tree", &[plot])
    }
}

/// Cycles of each way to scan on each list, with its line.
fn lines_table(name: &str, alphas: &[f64], lines: &[&Line]) -> String {
    let pe = lines.iter().find(|line| line.engine == "pe").map(|line| line.t_p);
    let alphas = alphas.iter().map(|&alpha| number(Some(alpha)));
    let mut rows: Vec<Vec<String>> = vec![["α".to_owned()].into_iter().chain(alphas).collect()];
    rows.extend(lines.iter().map(|line| {
        let last = [Some(line.t_o), Some(line.t_p), pe.map(|pe| line.t_p / pe)];
        let values = line.cycles.iter().copied().map(Some).chain(last);
        [line.engine.clone()].into_iter().chain(values.map(number)).collect()
    }));
    let sizes = SIZES.map(|size| size.to_string());
    let mut headings = vec![name];
    headings.extend(sizes.iter().map(String::as_str).chain(["│ T_O", "T_P", "×pe"]));
    table("", 1, &headings, rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Row;

    #[test]
    fn every_list_has_the_bars_of_its_size_and_reports_fit_a_hundred_columns() {
        let row = |case: &str, engine: &str, time| {
            Row::new(case, Set::Memory, engine, vec![time; 31])
                .with("build_ms", 12.0)
                .with("bytes_per_rule", 50.0)
                .with("rules", 1_000)
                .with("bound", json!({ "nodes": 7, "trees": 2 }))
        };
        let update = |case: &str, rate, loss| {
            let row = Row::new(case, updates::set(rate), TREE, vec![5.0; 31]);
            row.with("update_p99_us", 30.0).with("reader_loss", loss)
        };
        let sets =
            [("acl1_1k", 4.0), ("fw1_1k-5tuple", 10.0), ("ipc1_10k", 41.0), ("acl1_100k", 60.0)];
        let mut results = Results::default();
        for (case, time) in sets {
            let ours = [TREE, AUTO].map(|engine| row(case, engine, time));
            results.0.extend(ours);
            results.0.push(row(case, "rte_acl-sse", 40.0));
        }
        results.0.push(update("ipc1_10k", 100, 0.01));
        results.0.push(update("ipc1_10k", 1_000, 0.2));
        results.0.push(Row::new("acl1_10k-cut-4", "cache", "pe", vec![9.0; 3]));
        let of = |engine: &str, t_p: f64| Line {
            set: Set::Cache.to_string(),
            engine: engine.to_owned(),
            cycles: vec![1234.5; 5],
            t_o: 17.0,
            t_p,
            t_p_spread: [t_p; 2],
        };
        let report = Report {
            results: &results,
            lines: &[of("naive-aligned-clang", 1.95), of("pe", 0.13)],
            alphas: &ALPHA,
            classbench: &sets.map(|(case, _)| case.to_owned()),
            cuts: &[("acl1_10k-cut-4".to_owned(), 4), ("acl1_10k-cut-8".to_owned(), 8)],
        };
        let bars = report.bars();
        let find = |what: &str| bars.iter().find(|bar| bar.what == what).unwrap();
        let ratio = find("memory, 1k: best rte_acl/auto, each");
        assert_eq!((ratio.value, &ratio.missed[..]), (4.0, &["fw1_1k-5tuple".to_owned()][..]));
        assert!(!find("memory, 10k: auto, ns a packet, each").met);
        assert!(find("memory, 100k: auto, ns a packet, each").met);
        assert!(find("100k: tree, ms to build, each").met);
        assert_eq!(find("tree: bytes a rule, each of acl and ipc").value, 50.0);
        assert!(find("10k, 100 updates/s: part of its speed a reader loses against the list built anew, each").met);
        assert!(!find("10k, 1000 updates/s: part of its speed a reader loses against the list built anew, each").met);
        assert_eq!(find("pairs that a median is of").value, 31.0);
        let text = report.tables();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("15.0") && text.contains("sse") && text.contains("×pe"), "{text}");
        let (slopes, crossover) = (report.slopes(), report.crossover());
        assert!(slopes.contains(">0.13</text>") && slopes.contains(">15.80</text>"), "{slopes}");
        assert_eq!(crossover.matches("<circle").count(), 1, "{crossover}");
    }
}
