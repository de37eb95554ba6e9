//! The few numbers that the rows come down to, and the bars on them.

use std::fmt::Write as _;

use forebay_packet::BATCH;
use serde::Serialize;
use serde_json::{Value, json};

use super::engines::widest_pe;
use super::expressions::Case;
use super::list::ListTime;
use super::model::CostModel;
use super::paper;
use super::sets::Set;
use crate::bar::Limit::{AtLeast, AtMost};
use crate::bar::{self, Bar};
use crate::record::{Results, Row};
use crate::stats::{Sample, geometric_mean};
use crate::table::{number, table};

/// The C forms, of which the best is compared with ours.
const C_FORMS: [&str; 4] = ["gcc-c", "gcc-structured", "clang-c", "clang-structured"];

/// Our back ends, of which `auto` should be as fast as the best.
const BACK_ENDS: [&str; 6] = ["list", "pe-avx512", "pe-avx512bw", "pe-avx2", "pe-scalar", "ems"];

/// Programs of so many instructions are short: a call by itself costs as much.
const SHORT: usize = 4;

pub fn is_c_form(engine: &str) -> bool {
    C_FORMS.contains(&engine)
}

/// Ratios on one set over some filters.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Ratios {
    set: String,
    filters: usize,
    geometric_mean: f64,
    mean: f64,
    min: f64,
    min_case: String,
    max: f64,
    max_case: String,
}

impl Ratios {
    fn of(set: &str, cases: &[&Case], ratio: impl Fn(&Case) -> Option<f64>) -> Option<Self> {
        let each = cases.iter().filter_map(|case| Some((ratio(case)?, case.short.as_str())));
        let each: Vec<(f64, &str)> = each.collect();
        let least = each.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let greatest = each.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let values: Vec<f64> = each.iter().map(|(ratio, _)| *ratio).collect();
        Some(Self {
            set: set.to_owned(),
            filters: values.len(),
            geometric_mean: geometric_mean(&values),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: least.0,
            min_case: least.1.to_owned(),
            max: greatest.0,
            max_case: greatest.1.to_owned(),
        })
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The engine that the ratios are to.
    engine: &'static str,
    /// libpcap's time to ours, over the paper's filters.
    libpcap: Vec<Ratios>,
    /// The best C form's time to ours, over the paper's filters.
    best_c: Vec<Ratios>,
    /// The same two over the longer filters.
    libpcap_longer: Vec<Ratios>,
    best_c_longer: Vec<Ratios>,
    /// Nanoseconds that reading the counter takes, and that are subtracted.
    reading_cost_ns: f64,
    /// `libpcap` and `best_c` in `hot` without subtracting that from each batch.
    libpcap_unsubtracted: Option<Ratios>,
    best_c_unsubtracted: Option<Ratios>,
    /// Our time to that of `touch`, from memory, over all filters.
    over_touch: Option<Ratios>,
    /// Our time to that of the best back end, over all filters.
    over_best_back_end: Vec<Ratios>,
    /// Microseconds from classic BPF to the first verdict and to all code: the medians over all
    /// filters, and the slowest of the paper's.
    compile: Option<Value>,
    list: Option<ListTime>,
    /// Times of the kernel of `pe` not scheduled, and list-scheduled, to those of the same
    /// modulo-scheduled.
    unscheduled: Vec<Ratios>,
    list_scheduled: Vec<Ratios>,
    /// For each of `list_scheduled`, the filters whose kernel is faster modulo-scheduled, and
    /// those whose is slower, in at least nine rounds of ten.
    modulo_gains: Vec<[usize; 2]>,
    cost_model: Option<CostModel>,
    bars: Vec<Bar>,
}

/// The results that a summary is made of.
pub struct Measured<'a> {
    pub engine: &'static str,
    pub cases: &'a [Case],
    pub results: &'a Results,
    pub list: Option<ListTime>,
    /// Nanoseconds that reading the counter takes.
    pub reading_cost: f64,
    pub gigahertz: f64,
}

impl Measured<'_> {
    fn libpcap(&self, case: &Case, set: &str) -> Option<f64> {
        self.results.ratio(&case.expression, set, "libpcap", self.engine)
    }

    fn best_c(&self, case: &Case, set: &str) -> Option<f64> {
        self.results.best_ratio(&case.expression, set, is_c_form, self.engine)
    }

    fn over_best(&self, case: &Case, set: &str) -> Option<f64> {
        let best = self.results.best(&case.expression, set, |name| BACK_ENDS.contains(&name))?;
        self.results.ratio(&case.expression, set, self.engine, &best.engine)
    }

    fn over_touch(&self, case: &Case, set: &str) -> Option<f64> {
        self.results.ratio(&case.expression, set, self.engine, "touch")
    }

    fn compile_us(&self, case: &Case, key: &str) -> Option<f64> {
        let mut rows = self.results.0.iter();
        let row = rows.find(|row| row.engine == self.engine && row.case == case.expression);
        row?.number(key)
    }

    /// Times of a kernel of `pe`, scheduled as `engine` is, to those of the same
    /// modulo-scheduled, where the filter has such a kernel.
    fn scheduling(&self, case: &Case, set: &str, engine: &str) -> Option<Sample> {
        let row = self.results.row(&case.expression, set, engine)?;
        let is_kernel = row.more.get("backend").is_some_and(|backend| backend == "pe");
        let ratios = || self.results.ratios(&case.expression, set, engine, widest_pe());
        is_kernel.then(ratios).flatten()
    }

    fn on_sets(&self, cases: &[&Case], ratio: impl Fn(&Case, &str) -> Option<f64>) -> Vec<Ratios> {
        let sets = Set::ALL.map(|set| set.to_string());
        sets.iter().filter_map(|set| Ratios::of(set, cases, |case| ratio(case, set))).collect()
    }

    pub fn summary(&self) -> Summary {
        let all: Vec<&Case> = self.cases.iter().collect();
        let (paper, longer): (Vec<&Case>, Vec<&Case>) = all.iter().partition(|case| case.paper);
        let compile_times = |cases: &[&Case], key| -> Vec<f64> {
            cases.iter().filter_map(|case| self.compile_us(case, key)).collect()
        };
        let compiled = compile_times(&all, "compile_us");
        let first = compile_times(&all, "first_verdict_us");
        let a_batch = self.reading_cost / BATCH as f64;
        let slower = |row: &Row| {
            let times = row.times.iter().map(|time| time + a_batch).collect();
            Row::new(&row.case, &row.set, &row.engine, times)
        };
        let hot = self.results.0.iter().filter(|row| row.set == "hot");
        let unsubtracted = &Results(hot.map(slower).collect());
        let unsubtracted = Measured { results: unsubtracted, ..*self };
        let schedules = |engine: &'static str| {
            self.on_sets(&all, |case, set| Some(self.scheduling(case, set, engine)?.median()))
        };
        let list_scheduled = schedules("pe-list-scheduled");
        let gains = |ratios: &Ratios| {
            let of = |case: &&Case| self.scheduling(case, &ratios.set, "pe-list-scheduled");
            let spreads = || all.iter().filter_map(of).map(|ratios| ratios.spread());
            let faster = spreads().filter(|[low, _]| *low > 1.0).count();
            [faster, spreads().filter(|[_, high]| *high < 1.0).count()]
        };
        Summary {
            engine: self.engine,
            libpcap: self.on_sets(&paper, |case, set| self.libpcap(case, set)),
            best_c: self.on_sets(&paper, |case, set| self.best_c(case, set)),
            libpcap_longer: self.on_sets(&longer, |case, set| self.libpcap(case, set)),
            best_c_longer: self.on_sets(&longer, |case, set| self.best_c(case, set)),
            reading_cost_ns: self.reading_cost,
            libpcap_unsubtracted: Ratios::of("hot", &paper, |case| {
                unsubtracted.libpcap(case, "hot")
            }),
            best_c_unsubtracted: Ratios::of("hot", &paper, |case| unsubtracted.best_c(case, "hot")),
            over_touch: Ratios::of("memory", &all, |case| self.over_touch(case, "memory")),
            over_best_back_end: self.on_sets(&all, |case, set| self.over_best(case, set)),
            compile: (!compiled.is_empty()).then(|| {
                let slowest =
                    compile_times(&paper, "compile_us").into_iter().max_by(f64::total_cmp);
                json!({
                    "first_verdict_median_us": Sample::new(first).median(),
                    "median_us": Sample::new(compiled).median(),
                    "paper_max_us": slowest,
                })
            }),
            list: self.list,
            unscheduled: schedules("pe-unscheduled"),
            modulo_gains: list_scheduled.iter().map(gains).collect(),
            list_scheduled,
            cost_model: CostModel::fit(self.cases, self.results, self.gigahertz),
            bars: self.bars(&all, &paper),
        }
    }

    /// All bars for which something was measured.
    fn bars(&self, all: &[&Case], paper: &[&Case]) -> Vec<Bar> {
        let engine = self.engine;
        let mean = |what: String, bar, value: &dyn Fn(&Case) -> Option<f64>| {
            let values = paper.iter().filter_map(|case| value(case));
            Bar::together(what, AtLeast(bar), values, geometric_mean)
        };
        let each = |what: String, limit, cases: &[&Case], value: &dyn Fn(&Case) -> Option<f64>| {
            let values = cases.iter().filter_map(|case| Some((value(case)?, case.short.clone())));
            Bar::each(what, limit, values)
        };
        let mut bars = Vec::new();
        let means = [
            ("hot", 15.0, Some(2.4)),
            ("cache", 13.0, Some(2.4)),
            ("memory", 4.0, None),
            ("capture", 5.0, Some(1.25)),
        ];
        for (set, bar, c_bar) in means {
            let what = format!("{set}: libpcap/{engine}, geometric mean, paper's");
            bars.push(mean(what, bar, &|case| self.libpcap(case, set)));
            let what = format!("{set}: best C/{engine}, geometric mean, paper's");
            bars.push(c_bar.and_then(|bar| mean(what, bar, &|case| self.best_c(case, set))));
        }
        for set in ["hot", "cache"] {
            let what = format!("{set}: libpcap/{engine}, each of the paper's");
            bars.push(each(what, AtLeast(6.5), paper, &|case| self.libpcap(case, set)));
            let what = format!("{set}: best C/{engine}, each of the paper's");
            bars.push(each(what, AtLeast(1.0), paper, &|case| self.best_c(case, set)));
        }
        for set in ["memory", "frames"] {
            let what = format!("{set}: {engine}/touch, each filter");
            bars.push(each(what, AtMost(1.25), all, &|case| self.over_touch(case, set)));
            let what = format!("{set}: best C/{engine}, each filter");
            bars.push(each(what, AtLeast(1.0), all, &|case| self.best_c(case, set)));
        }
        for set in Set::ALL.map(|set| set.to_string()) {
            let what = format!("{set}: {engine}/best back end, each filter");
            bars.push(each(what, AtMost(1.05), all, &|case| self.over_best(case, &set)));
        }
        let (short, long): (Vec<&Case>, Vec<&Case>) =
            all.iter().partition(|case| case.instructions <= SHORT);
        let what = format!("batch-1: libpcap/{engine}, each of more than {SHORT} instructions");
        bars.push(each(what, AtLeast(1.0), &long, &|case| self.libpcap(case, "batch-1")));
        let what = format!("batch-1: ns longer than libpcap, each of up to {SHORT} instructions");
        let longer =
            |case: &Case| self.results.difference(&case.expression, "batch-1", engine, "libpcap");
        bars.push(each(what, AtMost(5.0), &short, &longer));
        let excess = |case: &Case| case.loops.map(|loops| f64::from(loops.excess_ii));
        bars.push(each("II of pe's loops over MII, cycles".into(), AtMost(1.0), all, &excess));
        let compile_us = |case: &Case| self.compile_us(case, "compile_us");
        let median: fn(&[f64]) -> f64 = |values| Sample::new(values.to_vec()).median();
        for (what, key, most) in [
            ("first verdict, median, µs", "first_verdict_us", 60.0),
            ("compiling, median, µs", "compile_us", 250.0),
        ] {
            let times = all.iter().filter_map(|case| self.compile_us(case, key));
            bars.push(Bar::together(what, AtMost(most), times, median));
        }
        bars.push(each(
            "compiling, each of the paper's, µs".into(),
            AtMost(1e3),
            paper,
            &compile_us,
        ));
        if let Some(ListTime { seconds, max_rss_mib }) = self.list {
            let megabytes = max_rss_mib * f64::from(1 << 20) / 1e6;
            bars.push(Some(Bar::at_most("compiling the long list of hosts, s", 1.0, seconds)));
            bars.push(Some(Bar::at_most("compiling the long list of hosts, MB", 200.0, megabytes)));
        }
        bars.push(self.results.rounds_bar());
        bars.into_iter().flatten().collect()
    }
}

impl Summary {
    pub fn text(&self) -> String {
        let engine = self.engine;
        let mut lines = Vec::new();
        for (which, libpcap, best_c) in [
            ("paper's", &self.libpcap, &self.best_c),
            ("longer", &self.libpcap_longer, &self.best_c_longer),
        ] {
            for ratios in libpcap {
                let c = best_c.iter().find(|c| c.set == ratios.set);
                let mut line = vec![ratios.set.clone(), format!("{} {which}", ratios.filters)];
                line.extend(
                    [ratios.geometric_mean, ratios.mean, ratios.min].map(|n| number(Some(n))),
                );
                line.extend([c.map(|c| c.geometric_mean), c.map(|c| c.min)].map(number));
                lines.push(line);
            }
        }
        let titles = format!("Ratios over filters: libpcap/{engine} │ best C/{engine}");
        let headings = ["set", "filters", "geo.mean", "mean", "least", "│ geo.mean", "least"];
        let mut out = table(&titles, 2, &headings, lines);
        // Writing to a string cannot fail.
        if let Some(libpcap) = &self.libpcap_unsubtracted {
            let c = self.best_c_unsubtracted.as_ref().map_or(f64::NAN, |c| c.geometric_mean);
            let hot = self.libpcap.iter().find(|ratios| ratios.set == "hot");
            let _ = writeln!(
                out,
                "hot, geometric means without subtracting the {:.1} ns a batch of reading the \
                 counter:\n    libpcap/{engine} {:.2}, best C/{engine} {c:.2}\n\
                 hot, arithmetic mean: libpcap/{engine} {:.1}; interpreter/hybrid in the paper's \
                 table 3: {}",
                self.reading_cost_ns,
                libpcap.geometric_mean,
                hot.map_or(f64::NAN, |hot| hot.mean),
                paper::MEAN_RATIO[paper::MEAN_RATIO.len() - 1],
            );
        }
        let scheduled = self.unscheduled.iter().zip(&self.list_scheduled).zip(&self.modulo_gains);
        for ((unscheduled, list), [faster, slower]) in scheduled {
            let _ = writeln!(
                out,
                "{}: pe unscheduled/modulo {:.2}, list-scheduled/modulo {:.2}; of {} filters {faster} \
                 gain, {slower} lose",
                list.set, unscheduled.geometric_mean, list.geometric_mean, list.filters
            );
        }
        out.extend(self.cost_model.iter().map(CostModel::text));
        out + &bar::text(&self.bars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::results;

    /// Filters with the times of libpcap, a C form, and `auto`, each but the last of the
    /// paper's.
    fn summary(set: &str, times: &[[f64; 3]], list: Option<ListTime>) -> Summary {
        let mut cases = super::super::expressions::all();
        cases.truncate(times.len());
        let (mut all, names) = (Results::default(), ["libpcap", "gcc-c", "auto"]);
        for (case, times) in cases.iter_mut().zip(times) {
            (case.instructions, case.short) = (6, case.expression.clone());
            for (name, time) in names.into_iter().zip(times) {
                let row = Row::new(&case.expression, set, name, vec![*time; 31]);
                all.0.push(row.with("compile_us", 100.0));
            }
        }
        cases.last_mut().unwrap().paper = false;
        let (cases, results) = (&cases[..], &all);
        let (reading_cost, gigahertz) = (256.0, 3.0);
        Measured { engine: "auto", cases, results, list, reading_cost, gigahertz }.summary()
    }

    fn find<'a>(summary: &'a Summary, what: &str) -> &'a Bar {
        summary.bars.iter().find(|bar| bar.what == what).unwrap_or_else(|| panic!("{what}"))
    }

    #[test]
    fn ratios_are_summed_up_over_the_filters_of_the_paper() {
        let list = Some(ListTime { seconds: 0.5, max_rss_mib: 195.0 });
        let times = [[8.0, 3.0, 1.0], [36.0, 6.0, 2.0], [50.0, 1.0, 10.0]];
        let summary = summary("hot", &times, list);
        let [hot] = &summary.libpcap[..] else { panic!("one set") };
        assert!((hot.geometric_mean - 12.0).abs() < 1e-9);
        assert_eq!((hot.mean, hot.min, hot.max, hot.filters), (13.0, 8.0, 18.0, 2));
        assert!((summary.best_c[0].geometric_mean - 3.0).abs() < 1e-9);
        assert_eq!(summary.libpcap_longer[0].mean, 5.0);
        assert_eq!(summary.over_touch, None);
        // Of (8 + 1) / (1 + 1) and (36 + 1) / (2 + 1).
        let unsubtracted = summary.libpcap_unsubtracted.as_ref().unwrap();
        assert!((unsubtracted.mean - (4.5 + 37.0 / 3.0) / 2.0).abs() < 1e-9);
        assert!(!find(&summary, "hot: libpcap/auto, geometric mean, paper's").met);
        assert!(find(&summary, "compiling, median, µs").met);
        assert!(find(&summary, "compiling the long list of hosts, s").met);
        assert!(!find(&summary, "compiling the long list of hosts, MB").met, "195 MiB");
        assert!(find(&summary, "pairs that a median is of").met);
        let text = summary.text();
        assert!(text.contains("libpcap/auto 7.45, best C/auto 2.16"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn each_set_has_its_bars() {
        for (set, bars) in [("hot", 4), ("cache", 4), ("memory", 2), ("capture", 2), ("batch-1", 1)]
        {
            let summary = summary(set, &[[30.0, 3.0, 1.0], [30.0, 3.0, 5.0]], None);
            let start = format!("{set}: ");
            let of_set = summary.bars.iter().filter(|bar| bar.what.starts_with(&start));
            assert_eq!(of_set.count(), bars, "{set}");
        }
        let summary = summary("memory", &[[30.0, 3.0, 1.0], [30.0, 3.0, 5.0]], None);
        assert_eq!(find(&summary, "memory: best C/auto, each filter").missed, ["ip and tcp"]);
    }

    #[test]
    fn modulo_scheduling_counts_where_it_is_not_noise() {
        let cases = &super::super::expressions::all()[..3];
        let times: [&[f64]; 3] = [&[3.0; 3], &[1.0; 3], &[1.0, 2.0, 3.0]];
        let mut all = Results::default();
        for (case, times) in cases.iter().zip(times) {
            let case = case.expression.as_str();
            let rows = [("pe-list-scheduled", times), ("pe-avx512", &[2.0; 3])];
            let rows = rows.map(|(engine, times)| (case, "hot", engine, times));
            all.0.extend(results(&rows).0.into_iter().map(|row| row.with("backend", "pe")));
        }
        let (results, list) = (&all, None);
        let (reading_cost, gigahertz) = (25.0, 3.0);
        let measured = Measured { engine: "auto", cases, results, list, reading_cost, gigahertz };
        assert_eq!(measured.summary().modulo_gains, [[1, 1]]);
    }
}
