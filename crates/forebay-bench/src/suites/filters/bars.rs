//! The bars that the engine is held against, one by one, and whether it meets them.

use super::list::ListTime;
use super::results::{BACK_ENDS, C_FORMS, Outcome};
use super::sets::Set;
use crate::bar::{Bar, Limit};
use crate::stats::{Sample, geometric_mean};

use Limit::{AtLeast, AtMost};

/// Programs of so many instructions are short: a call by itself costs as much.
const SHORT: usize = 4;

/// A bar for all filters together: `total` of their values.
fn together(
    what: impl Into<String>,
    limit: Limit,
    of: &[&Outcome],
    total: fn(Vec<f64>) -> f64,
    value: impl Fn(&Outcome) -> Option<f64>,
) -> Option<Bar> {
    let values: Vec<f64> = of.iter().copied().filter_map(value).collect();
    let filters = Some(values.len()).filter(|&number| number > 0)?;
    Some(Bar { filters: Some(filters), ..Bar::of(what, limit, total(values)) })
}

/// A bar for each filter by itself.
fn each(
    what: impl Into<String>,
    limit: Limit,
    of: &[&Outcome],
    value: impl Fn(&Outcome) -> Option<f64>,
) -> Option<Bar> {
    let named = |one: &&Outcome| Some((value(one)?, one.case.short.clone()));
    let values: Vec<(f64, String)> = of.iter().filter_map(named).collect();
    Some(Bar { filters: Some(values.len()), ..Bar::each(what, limit, &values)? })
}

/// All bars for which something was measured.
pub fn all(engine: &str, outcomes: &[Outcome], list: Option<ListTime>) -> Vec<Bar> {
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let mut bars = Vec::new();
    speed(&mut bars, engine, &all);
    for set in Set::ALL {
        let what = format!("{set}: {engine}/best back end, each filter");
        bars.extend(each(what, AtMost(1.05), &all, |one| {
            one.ratio(set, engine, one.best(set, &BACK_ENDS)?)
        }));
    }
    single_packets(&mut bars, engine, &all);
    bars.extend(each("II of pe's loops over MII, cycles", AtMost(1.0), &all, |one| {
        one.excess_ii.map(f64::from)
    }));
    compilation(&mut bars, engine, &all, list);
    let fewest = outcomes.iter().flat_map(|one| &one.sets).flat_map(|on| on.times.iter().flatten());
    bars.extend(
        fewest
            .map(Vec::len)
            .min()
            .map(|pairs| Bar::of("pairs that a median is of", AtLeast(31.0), pairs as f64)),
    );
    bars
}

/// The bars for whole batches.
fn speed(bars: &mut Vec<Bar>, engine: &str, all: &[&Outcome]) {
    let paper: Vec<&Outcome> = all.iter().copied().filter(|one| one.case.paper).collect();
    let libpcap = |set| move |one: &Outcome| one.ratio(set, "libpcap", engine);
    let best_c = |set| move |one: &Outcome| one.best_ratio(set, &C_FORMS, engine);
    let mean = |values: Vec<f64>| geometric_mean(&values);
    let means = [
        (Set::Hot, 15.0, Some(2.4)),
        (Set::Cache, 13.0, Some(2.4)),
        (Set::Memory, 4.0, None),
        (Set::Capture, 5.0, Some(1.25)),
    ];
    for (set, bar, c_bar) in means {
        let what = format!("{set}: libpcap/{engine}, geometric mean, paper's");
        bars.extend(together(what, AtLeast(bar), &paper, mean, libpcap(set)));
        let what = format!("{set}: best C/{engine}, geometric mean, paper's");
        bars.extend(c_bar.and_then(|bar| together(what, AtLeast(bar), &paper, mean, best_c(set))));
    }
    for set in [Set::Hot, Set::Cache] {
        let what = format!("{set}: libpcap/{engine}, each of the paper's");
        bars.extend(each(what, AtLeast(6.5), &paper, libpcap(set)));
        let what = format!("{set}: best C/{engine}, each of the paper's");
        bars.extend(each(what, AtLeast(1.0), &paper, best_c(set)));
    }
    let set = Set::Memory;
    let what = format!("{set}: {engine}/touch, each filter");
    bars.extend(each(what, AtMost(1.25), all, |one| one.ratio(set, engine, "touch")));
    let what = format!("{set}: best C/{engine}, each filter");
    bars.extend(each(what, AtLeast(1.0), all, best_c(set)));
}

/// The bars for batches of one packet.
fn single_packets(bars: &mut Vec<Bar>, engine: &str, all: &[&Outcome]) {
    let set = Set::Batch(1);
    let (short, long): (Vec<&Outcome>, Vec<&Outcome>) =
        all.iter().copied().partition(|one| one.instructions <= SHORT);
    let what = format!("{set}: libpcap/{engine}, each of more than {SHORT} instructions");
    bars.extend(each(what, AtLeast(1.0), &long, |one| one.ratio(set, "libpcap", engine)));
    let what = format!("{set}: ns longer than libpcap, each of up to {SHORT} instructions");
    bars.extend(each(what, AtMost(5.0), &short, |one| one.difference(set, engine, "libpcap")));
}

/// The bars for compiling.
fn compilation(bars: &mut Vec<Bar>, engine: &str, all: &[&Outcome], list: Option<ListTime>) {
    let paper: Vec<&Outcome> = all.iter().copied().filter(|one| one.case.paper).collect();
    let compile_us = |one: &Outcome| one.compile_us(engine);
    let median = |values| Sample::new(values).median();
    bars.extend(together("compiling, median, µs", AtMost(200.0), all, median, compile_us));
    bars.extend(each("compiling, each of the paper's, µs", AtMost(1e3), &paper, compile_us));
    if let Some(ListTime { seconds, max_rss_mib }) = list {
        let megabytes = max_rss_mib * f64::from(1 << 20) / 1e6;
        bars.push(Bar::of("compiling the long list of hosts, s", AtMost(1.0), seconds));
        bars.push(Bar::of("compiling the long list of hosts, MB", AtMost(200.0), megabytes));
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;
    use crate::bar::COLUMNS;

    fn find<'a>(bars: &'a [Bar], what: &str) -> &'a Bar {
        bars.iter().find(|bar| bar.what == what).unwrap_or_else(|| panic!("{what}: {bars:?}"))
    }

    /// One fast filter of the paper, one slow, and one that is not the paper's, all on
    /// this set.
    fn three(set: Set) -> Vec<Outcome> {
        let engines = |ours: f64| {
            [("touch", 1.0), ("libpcap", 30.0), ("gcc-c", 3.0), ("list", 2.0), ("auto", ours)]
        };
        let mut outcomes: Vec<Outcome> = [(true, "fast", 1.0), (true, "slow", 5.0)]
            .into_iter()
            .chain([(false, "longer", 4.0)])
            .map(|(paper, name, ours)| {
                let times = engines(ours).map(|(engine, time)| (engine, vec![time; 31]));
                let timed: Vec<_> = times.iter().map(|(name, all)| (*name, &all[..])).collect();
                let mut one = outcome(paper, &timed);
                one.case.short = name.to_owned();
                one.sets[0].set = set;
                one
            })
            .collect();
        outcomes[0].instructions = 3;
        outcomes
    }

    #[test]
    fn bars_for_each_filter_name_those_that_miss() {
        let bars = all("auto", &three(Set::Memory), None);
        let touch = find(&bars, "memory: auto/touch, each filter");
        assert_eq!((touch.met, touch.value, touch.filters), (false, 5.0, Some(3)));
        assert_eq!(touch.missed, ["slow", "longer"]);
        assert_eq!(find(&bars, "memory: best C/auto, each filter").missed, ["slow", "longer"]);
        let mean = find(&bars, "memory: libpcap/auto, geometric mean, paper's");
        assert!(mean.met && (mean.value - 180_f64.sqrt()).abs() < 1e-9, "{mean:?}");
        let best = find(&bars, "memory: auto/best back end, each filter");
        assert_eq!((best.value, best.case.as_deref()), (2.5, Some("slow")));
        assert!(find(&bars, "pairs that a median is of").met);
    }

    #[test]
    fn each_set_has_its_bars() {
        for (set, means, each) in
            [(Set::Hot, 2, 3), (Set::Cache, 2, 3), (Set::Memory, 1, 3), (Set::Capture, 2, 1)]
        {
            let bars = all("auto", &three(set), None);
            let of_set = bars.iter().filter(|bar| bar.what.starts_with(&format!("{set}: ")));
            let (of_means, of_each): (Vec<_>, Vec<_>) =
                of_set.partition(|bar| bar.what.contains("geometric mean"));
            assert_eq!((of_means.len(), of_each.len()), (means, each), "{set}");
        }
    }

    #[test]
    fn single_packets_are_judged_by_the_length_of_the_program() {
        let bars = all("auto", &three(Set::Batch(1)), None);
        let long = find(&bars, "batch-1: libpcap/auto, each of more than 4 instructions");
        assert_eq!((long.value, long.filters), (6.0, Some(2)));
        let short = find(&bars, "batch-1: ns longer than libpcap, each of up to 4 instructions");
        assert_eq!((short.value, short.filters), (-29.0, Some(1)));
    }

    #[test]
    fn compiling_has_bars_and_memory_is_in_megabytes() {
        let list = ListTime { seconds: 0.5, max_rss_mib: 195.0 };
        let bars = all("auto", &three(Set::Hot), Some(list));
        assert!(find(&bars, "compiling, median, µs").met);
        assert!(find(&bars, "compiling the long list of hosts, s").met);
        let memory = find(&bars, "compiling the long list of hosts, MB");
        assert!(!memory.met && memory.value > 204.0, "{memory:?}");
        assert!(find(&bars, "II of pe's loops over MII, cycles").met);
    }

    #[test]
    fn bars_are_lines_that_fit() {
        let mut outcomes = three(Set::Cache);
        outcomes.iter_mut().for_each(|one| one.case.short = "a filter of some length".repeat(2));
        let text: String = all("auto", &outcomes, None).iter().map(Bar::text).collect();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("MISSED cache: best C/auto, each of the paper's: 0.60 (at least 1)"));
        assert!(text.contains("met    compiling, median, µs: 100.00 (at most 200) 3 filters\n"));
    }
}
