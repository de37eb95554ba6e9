//! The few numbers that the rows come down to, with the bars they are held against.

use std::fmt::Write as _;

use serde::Serialize;

use super::expressions::LISTED_HOSTS;
use super::list::ListTime;
use super::results::{BACK_ENDS, C_FORMS, Outcome};
use super::sets::Set;
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
    /// Our time to that of `touch`, from memory, over all filters.
    pub over_touch: Option<Ratios>,
    /// Our time to that of the best back end, over all filters.
    pub over_best_back_end: Vec<Ratios>,
    /// libpcap's time to ours for single packets, over filters of more than four
    /// instructions.
    pub single_packets: Option<Ratios>,
    /// Nanoseconds that a single packet takes us longer than libpcap, at most, over the
    /// filters of up to four instructions.
    pub single_packets_extra_ns: Option<f64>,
    /// How long compiling takes.
    pub compile: Option<CompileTime>,
    /// What compiling the long list takes.
    pub list: Option<ListTime>,
    /// Times of the kernel of `pe` not scheduled, to those of the same modulo-scheduled.
    pub unscheduled: Vec<Ratios>,
    /// The same of the kernel list-scheduled.
    pub list_scheduled: Vec<Ratios>,
}

/// Programs of so many instructions are short: a call by itself costs as much.
const SHORT: usize = 4;

impl Summary {
    /// Sums up what `engine` did.
    pub fn of(engine: &'static str, outcomes: &[Outcome], list: Option<ListTime>) -> Self {
        let (paper, longer): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.iter().partition(|one| one.case.paper);
        let (short, long): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.iter().partition(|one| one.instructions <= SHORT);
        let on_sets = |of: &[&Outcome], ratio: &dyn Fn(&Outcome, Set) -> Option<f64>| {
            let of_set =
                |set: Set| Ratios::of(&set.to_string(), of.iter().copied(), |one| ratio(one, set));
            Set::ALL.into_iter().filter_map(of_set).collect()
        };
        let libpcap = |one: &Outcome, set| one.ratio(set, "libpcap", engine);
        let best_c = |one: &Outcome, set| one.best_ratio(set, &C_FORMS, engine);
        let all: Vec<&Outcome> = outcomes.iter().collect();
        let single = Set::Batch(1);
        let extra = short
            .iter()
            .filter_map(|one| Some(one.nanos(single, engine)? - one.nanos(single, "libpcap")?));
        let compiled: Vec<f64> = outcomes.iter().filter_map(|one| one.compile_us(engine)).collect();
        let paper_max = paper.iter().filter_map(|one| one.compile_us(engine));
        let compile = (!compiled.is_empty()).then(|| CompileTime {
            median_us: Sample::new(compiled.clone()).median(),
            paper_max_us: paper_max.max_by(f64::total_cmp),
        });
        Self {
            engine,
            libpcap: on_sets(&paper, &libpcap),
            best_c: on_sets(&paper, &best_c),
            libpcap_longer: on_sets(&longer, &libpcap),
            best_c_longer: on_sets(&longer, &best_c),
            over_touch: Ratios::of("memory", all.iter().copied(), |one| {
                one.ratio(Set::Memory, engine, "touch")
            }),
            over_best_back_end: on_sets(&all, &|one, set| {
                let best = one.best(set, &BACK_ENDS)?;
                one.ratio(set, engine, best)
            }),
            single_packets: Ratios::of(&single.to_string(), long, |one| libpcap(one, single)),
            single_packets_extra_ns: extra.max_by(f64::total_cmp),
            compile,
            list,
            unscheduled: on_sets(&all, &|one, set| one.scheduling_ratio(set, "pe-unscheduled")),
            list_scheduled: on_sets(&all, &|one, set| {
                one.scheduling_ratio(set, "pe-list-scheduled")
            }),
        }
    }

    /// The summary as lines of at most 100 columns, beside the bars.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.libpcap.is_empty() || !self.libpcap_longer.is_empty() {
            let engine = self.engine;
            let _ = writeln!(
                out,
                "Ratios over filters      libpcap/{engine}                  │ best C/{engine}\n\
                 set       filters    geo.mean   bar   mean  least │ geo.mean   bar  least"
            );
        }
        set_lines(&mut out, "paper's", &self.libpcap, &self.best_c);
        set_lines(&mut out, "longer", &self.libpcap_longer, &self.best_c_longer);
        let Self { engine, .. } = self;
        let mut line = |text: String| {
            let _ = writeln!(out, "{text}");
        };
        for (which, ratios, bar) in [("libpcap", &self.libpcap, 6.5), ("best C", &self.best_c, 1.0)]
        {
            let least = ratios.iter().filter(|one| matches!(one.set.as_str(), "hot" | "cache"));
            if let Some(least) = least.min_by(|a, b| a.min.total_cmp(&b.min)) {
                line(format!(
                    "hot and cache: {which}/{engine} at least {:.2} (`{}`) for the paper's \
                     filters; the bar is {bar}",
                    least.min, least.min_case
                ));
            }
        }
        if let Some(touch) = &self.over_touch {
            line(format!(
                "memory: {engine}/touch {:.2}, at most {:.2} (`{}`); the bar is 1.25",
                touch.geometric_mean, touch.max, touch.max_case
            ));
        }
        for best in &self.over_best_back_end {
            line(format!(
                "{}: {engine}/best back end {:.2}, at most {:.2} (`{}`); the bar is 1.05",
                best.set, best.geometric_mean, best.max, best.max_case
            ));
        }
        if let Some(single) = &self.single_packets {
            line(format!(
                "batch-1: libpcap/{engine} {:.1}, at least {:.2} (`{}`) for more than {SHORT} \
                 instructions; the bar is 1",
                single.geometric_mean, single.min, single.min_case
            ));
        }
        if let Some(extra) = self.single_packets_extra_ns {
            line(format!(
                "batch-1: {engine} takes at most {extra:.1} ns more than libpcap for up to \
                 {SHORT} instructions; the bar is 5"
            ));
        }
        if let Some(CompileTime { median_us, paper_max_us }) = self.compile {
            let slowest = paper_max_us.unwrap_or(f64::NAN);
            line(format!(
                "compiling: {median_us:.0} µs, at most {slowest:.0} µs for the paper's filters; \
                 the bars are 200 and 1000"
            ));
        }
        if let Some(ListTime { seconds, max_rss_mib }) = self.list {
            line(format!(
                "compiling a list of {} hosts: {seconds:.3} s, {max_rss_mib:.0} MiB; the bars are \
                 1 s and 200 MB",
                LISTED_HOSTS[1]
            ));
        }
        for (unscheduled, list) in self.unscheduled.iter().zip(&self.list_scheduled) {
            line(format!(
                "{}: pe unscheduled/modulo {:.2}, list-scheduled/modulo {:.2}, least {:.2} (`{}`)",
                list.set, unscheduled.geometric_mean, list.geometric_mean, list.min, list.min_case
            ));
        }
        out
    }
}

/// The two ratios on each set, in a line.
fn set_lines(out: &mut String, which: &str, libpcap: &[Ratios], best_c: &[Ratios]) {
    for ratios in libpcap {
        let bars = bars(&ratios.set).filter(|_| which == "paper's");
        let [libpcap_bar, c_bar] =
            bars.map_or([String::new(), String::new()], |bars| bars.map(|bar| bar.to_string()));
        let c = best_c.iter().find(|c| c.set == ratios.set).map_or_else(String::new, |c| {
            format!("{:>8.2} {c_bar:>5} {:>6.2}", c.geometric_mean, c.min)
        });
        let Ratios { set, filters, geometric_mean, mean, min, .. } = ratios;
        let line = format!(
            "{set:<9} {filters:>2} {which:<7} {geometric_mean:>8.1} {libpcap_bar:>5} {mean:>6.1} \
             {min:>6.1} │ {c}"
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// What the geometric means over the paper's filters are held against: libpcap's
/// ratio and the best C form's.
fn bars(set: &str) -> Option<[f64; 2]> {
    match set {
        "hot" => Some([15.0, 2.4]),
        "cache" => Some([13.0, 2.4]),
        "memory" => Some([4.0, 1.0]),
        "capture" => Some([5.0, 1.25]),
        _ => None,
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
        let summary = Summary::of("auto", &outcomes, None);
        let [hot] = &summary.libpcap[..] else { panic!("one set") };
        assert!((hot.geometric_mean - 12.0).abs() < 1e-9);
        assert_eq!((hot.mean, hot.min, hot.max, hot.filters), (13.0, 8.0, 18.0, 2));
        assert!((summary.best_c[0].geometric_mean - 3.0).abs() < 1e-9);
        assert_eq!(summary.libpcap_longer[0].mean, 5.0);
        assert!((summary.over_best_back_end[0].max - 10.0 / 9.0).abs() < 1e-9);
        assert_eq!(summary.over_touch, None);
        assert_eq!(summary.compile.as_ref().map(|compile| compile.median_us), Some(100.0));
        let text = summary.text();
        let line = "hot        2 paper's     12.0    15   13.0    8.0 │     3.00   2.4   3.00";
        assert!(text.contains(line), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn without_measurements_there_is_no_summary() {
        let summary = Summary::of("auto", &[outcome(true, &[("libpcap", &[1.0])])], None);
        assert!(summary.libpcap.is_empty() && summary.compile.is_none());
        assert_eq!(summary.text(), "");
    }
}
