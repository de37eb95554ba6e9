//! The few numbers that the rows come down to, and the bars they are held against.

use std::fmt::Write as _;

use forebay_packet::BATCH;
use serde::Serialize;

use super::bars;
use super::fit::CostModel;
use super::list::ListTime;
use super::paper;
use super::results::{BACK_ENDS, C_FORMS, Outcome};
use super::sets::Set;
use crate::bar::Bar;
use crate::stats::{Sample, geometric_mean};

/// Ratios of one set over some filters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// The set.
    pub set: String,
    /// How many filters these are.
    pub filters: usize,
    /// Geometric mean.
    pub geometric_mean: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The filter that has the least.
    pub min_case: String,
    /// The greatest.
    pub max: f64,
    /// The filter that has the greatest.
    pub max_case: String,
}

impl Ratios {
    fn of<'a>(
        set: &str,
        outcomes: impl IntoIterator<Item = &'a Outcome>,
        ratio: impl Fn(&Outcome) -> Option<f64>,
    ) -> Option<Self> {
        let each: Vec<(f64, &str)> = outcomes
            .into_iter()
            .filter_map(|one| Some((ratio(one)?, one.case.short.as_str())))
            .collect();
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

/// How long compiling takes, from classic BPF to code that can be called.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompileTime {
    /// Median over all filters, in microseconds.
    pub median_us: f64,
    /// The slowest of the paper's filters, in microseconds.
    pub paper_max_us: Option<f64>,
}

/// The summary.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What the ratios are of.
    pub engine: &'static str,
    /// libpcap's time to ours, over the paper's filters.
    pub libpcap: Vec<Ratios>,
    /// The best C form's time to ours, over the paper's filters.
    pub best_c: Vec<Ratios>,
    /// The same two over the longer filters.
    pub libpcap_longer: Vec<Ratios>,
    /// See `libpcap_longer`.
    pub best_c_longer: Vec<Ratios>,
    /// What reading the counter takes, in nanoseconds, and is subtracted.
    pub reading_cost_ns: f64,
    /// What `libpcap` would be in `hot` without subtracting that from each batch.
    pub libpcap_unsubtracted: Option<Ratios>,
    /// The same of `best_c`.
    pub best_c_unsubtracted: Option<Ratios>,
    /// Our time to that of `touch`, from memory, over all filters.
    pub over_touch: Option<Ratios>,
    /// Our time to that of the best back end, over all filters.
    pub over_best_back_end: Vec<Ratios>,
    /// How long compiling takes.
    pub compile: Option<CompileTime>,
    /// What compiling the long list takes.
    pub list: Option<ListTime>,
    /// Times of the kernel of `pe` not scheduled, to those of the same modulo-scheduled.
    pub unscheduled: Vec<Ratios>,
    /// The same of the kernel list-scheduled.
    pub list_scheduled: Vec<Ratios>,
    /// For each of these, the filters whose kernel is faster modulo-scheduled, and those
    /// whose is slower, in at least nine rounds of ten.
    pub modulo_gains: Vec<[usize; 2]>,
    /// The cost model of `auto`, fitted to these rows.
    pub cost_model: Option<CostModel>,
    /// What is asked for.
    pub bars: Vec<Bar>,
}

impl Summary {
    /// Sums up what `engine` did, at `gigahertz`. Reading the counter takes
    /// `reading_cost` nanoseconds.
    pub fn of(
        engine: &'static str,
        outcomes: &[Outcome],
        list: Option<ListTime>,
        reading_cost: f64,
        gigahertz: f64,
    ) -> Self {
        let (paper, longer): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.iter().partition(|one| one.case.paper);
        let on_sets = |of: &[&Outcome], ratio: &dyn Fn(&Outcome, Set) -> Option<f64>| {
            let of_set =
                |set: Set| Ratios::of(&set.to_string(), of.iter().copied(), |one| ratio(one, set));
            Set::ALL.into_iter().filter_map(of_set).collect()
        };
        let libpcap = |one: &Outcome, set| one.ratio(set, "libpcap", engine);
        let best_c = |one: &Outcome, set| one.best_ratio(set, &C_FORMS, engine);
        let all: Vec<&Outcome> = outcomes.iter().collect();
        let compiled: Vec<f64> = outcomes.iter().filter_map(|one| one.compile_us(engine)).collect();
        let paper_max = paper.iter().filter_map(|one| one.compile_us(engine));
        let compile = (!compiled.is_empty()).then(|| CompileTime {
            median_us: Sample::new(compiled.clone()).median(),
            paper_max_us: paper_max.max_by(f64::total_cmp),
        });
        let slowed = paper.iter().map(|one| one.slowed(Set::Hot, reading_cost / BATCH as f64));
        let slowed: Vec<Outcome> = slowed.collect();
        Self {
            engine,
            libpcap: on_sets(&paper, &libpcap),
            best_c: on_sets(&paper, &best_c),
            libpcap_longer: on_sets(&longer, &libpcap),
            best_c_longer: on_sets(&longer, &best_c),
            reading_cost_ns: reading_cost,
            libpcap_unsubtracted: Ratios::of("hot", &slowed, |one| libpcap(one, Set::Hot)),
            best_c_unsubtracted: Ratios::of("hot", &slowed, |one| best_c(one, Set::Hot)),
            over_touch: Ratios::of("memory", all.iter().copied(), |one| {
                one.ratio(Set::Memory, engine, "touch")
            }),
            over_best_back_end: on_sets(&all, &|one, set| {
                let best = one.best(set, &BACK_ENDS)?;
                one.ratio(set, engine, best)
            }),
            compile,
            list,
            unscheduled: on_sets(&all, &|one, set| one.scheduling_ratio(set, "pe-unscheduled")),
            list_scheduled: on_sets(&all, &|one, set| {
                one.scheduling_ratio(set, "pe-list-scheduled")
            }),
            modulo_gains: modulo_gains(&all),
            cost_model: CostModel::fit(outcomes, gigahertz),
            bars: bars::all(engine, outcomes, list),
        }
    }

    /// The summary as lines of at most 100 columns.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let Self { engine, .. } = self;
        if !self.libpcap.is_empty() || !self.libpcap_longer.is_empty() {
            let _ = writeln!(
                out,
                "Ratios over filters       libpcap/{engine}                │ best C/{engine}\n\
                 set       filters    geo.mean    mean   least │ geo.mean   least"
            );
        }
        set_lines(&mut out, "paper's", &self.libpcap, &self.best_c);
        set_lines(&mut out, "longer", &self.libpcap_longer, &self.best_c_longer);
        if let Some(libpcap) = &self.libpcap_unsubtracted {
            let c = self.best_c_unsubtracted.as_ref();
            let _ = writeln!(
                out,
                "hot, geometric means without subtracting the {:.1} ns a batch of reading the \
                 counter:\n    libpcap/{engine} {:.2}, best C/{engine} {:.2}",
                self.reading_cost_ns,
                libpcap.geometric_mean,
                c.map_or(f64::NAN, |c| c.geometric_mean)
            );
            let paper = paper::MEAN_RATIO[paper::MEAN_RATIO.len() - 1];
            let hot = self.libpcap.iter().find(|ratios| ratios.set == "hot");
            let mean = hot.map_or(f64::NAN, |hot| hot.mean);
            let _ = writeln!(
                out,
                "hot, arithmetic mean: libpcap/{engine} {mean:.1}; interpreter/hybrid in the \
                 paper's table 3: {paper}"
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
        self.bars.iter().for_each(|bar| out.push_str(&bar.text()));
        out
    }
}

/// On each set that has list-scheduled kernels, the filters whose kernel is faster
/// modulo-scheduled in nine rounds of ten, and those whose is slower.
fn modulo_gains(outcomes: &[&Outcome]) -> Vec<[usize; 2]> {
    let spreads = |set| {
        let of_set = outcomes.iter().filter_map(move |one| {
            one.scheduling_ratio(set, "pe-list-scheduled")?;
            Some(one.ratios(set, "pe-list-scheduled", "pe-avx512")?.spread())
        });
        Some(of_set.collect::<Vec<_>>()).filter(|spreads| !spreads.is_empty())
    };
    let count = |spreads: Vec<[f64; 2]>| {
        let faster = spreads.iter().filter(|[low, _]| *low > 1.0).count();
        [faster, spreads.iter().filter(|[_, high]| *high < 1.0).count()]
    };
    Set::ALL.into_iter().filter_map(spreads).map(count).collect()
}

/// The two ratios on each set, in a line.
fn set_lines(out: &mut String, which: &str, libpcap: &[Ratios], best_c: &[Ratios]) {
    for ratios in libpcap {
        let c = best_c.iter().find(|c| c.set == ratios.set);
        let c = c.map_or_else(String::new, |c| format!("{:>8.2} {:>7.2}", c.geometric_mean, c.min));
        let Ratios { set, filters, geometric_mean, mean, min, .. } = ratios;
        let line = format!(
            "{set:<9} {filters:>2} {which:<7} {geometric_mean:>8.1} {mean:>7.1} {min:>7.1} │ {c}"
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn ratios_are_summed_up_over_the_filters_of_the_paper() {
        let outcomes = [
            outcome(true, &[("libpcap", &[8.0; 3]), ("gcc-c", &[3.0; 3]), ("auto", &[1.0; 3])]),
            outcome(true, &[("libpcap", &[36.0; 3]), ("clang-c", &[6.0; 3]), ("auto", &[2.0; 3])]),
            outcome(false, &[("libpcap", &[50.0; 3]), ("list", &[9.0; 3]), ("auto", &[10.0; 3])]),
        ];
        let summary = Summary::of("auto", &outcomes, None, 256.0, 3.0);
        let [hot] = &summary.libpcap[..] else { panic!("one set") };
        assert!((hot.geometric_mean - 12.0).abs() < 1e-9);
        assert_eq!((hot.mean, hot.min, hot.max, hot.filters), (13.0, 8.0, 18.0, 2));
        assert!((summary.best_c[0].geometric_mean - 3.0).abs() < 1e-9);
        assert_eq!(summary.libpcap_longer[0].mean, 5.0);
        assert!((summary.over_best_back_end[0].max - 10.0 / 9.0).abs() < 1e-9);
        assert_eq!(summary.over_touch, None);
        assert_eq!(summary.compile.as_ref().map(|compile| compile.median_us), Some(100.0));
        let text = summary.text();
        let line = "hot        2 paper's     12.0    13.0     8.0 │     3.00    3.00";
        assert!(text.contains(line), "{text}");
        // Of (8 + 1) / (1 + 1) and (36 + 1) / (2 + 1).
        let unsubtracted = summary.libpcap_unsubtracted.as_ref().map(|ratios| ratios.mean);
        assert!(
            (unsubtracted.unwrap() - (4.5 + 37.0 / 3.0) / 2.0).abs() < 1e-9,
            "{unsubtracted:?}"
        );
        assert!(text.contains("libpcap/auto 7.45, best C/auto 2.16"), "{text}");
        assert!(
            text.contains("MISSED hot: libpcap/auto, geometric mean, paper's: 12.00"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn what_modulo_scheduling_gives_is_counted_where_it_is_not_noise() {
        let scheduled = |list: &[f64]| {
            let mut one = outcome(true, &[("pe-list-scheduled", list), ("pe-avx512", &[2.0; 3])]);
            one.backends = vec![Some("pe"); 2];
            one
        };
        let outcomes = [scheduled(&[3.0; 3]), scheduled(&[1.0; 3]), scheduled(&[1.0, 2.0, 3.0])];
        let summary = Summary::of("auto", &outcomes, None, 25.0, 3.0);
        assert_eq!(summary.modulo_gains, [[1, 1]]);
    }

    #[test]
    fn without_measurements_there_is_no_summary() {
        let summary = Summary::of("auto", &[], None, 25.0, 3.0);
        assert!(summary.libpcap.is_empty() && summary.compile.is_none());
        assert_eq!(summary.text(), "");
    }
}
