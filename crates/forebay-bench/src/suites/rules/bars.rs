//! The bars that our engines are held against.

use super::paper::{Line, Lists, slope_ratio};
use super::results::Outcome;
use super::sets::Set;
use super::updates::{RATES, Updates};
use crate::bar::Bar;
use crate::bar::Limit::{AtLeast, AtMost};
use crate::stats::Sample;

/// How the names of DPDK's algorithms start.
pub const ACL: &str = "rte_acl";

/// How the names of the naive C start.
pub const NAIVE: &str = "naive-";

/// Our classifier of long lists.
const TREE: &str = "tree";

/// Most nanoseconds a packet, and milliseconds to build, of lists up to a size.
const SIZES: [(usize, &str, f64, Option<f64>); 3] = [
    (1_000, "1k", 25.0, None),
    (10_000, "10k", 40.0, Some(1e3)),
    (100_000, "100k", 70.0, Some(1e4)),
];

/// The bars of the paper's comparison.
pub fn linear(lists: &Lists<'_>, lines: &[Line]) -> Vec<Bar> {
    let cache = Set::Cache.to_string();
    let line = |engine: &str| lines.iter().find(|line| line.engine == engine && line.set == cache);
    let slope = |engine: &str, limit: f64| {
        let what = format!("{engine}: T_P, cycles a packet and rule");
        line(engine).map(|line| Bar::of(what, AtMost(limit), line.t_p))
    };
    let overhead = || {
        let what = "pe-1: T_O, cycles a packet";
        line("pe-1").map(|line| Bar::of(what, AtMost(30.0), line.t_o))
    };
    let ratio = || {
        let ratio = slope_ratio(lists, NAIVE, "pe")?;
        Some(Bar::of("T_P of the fastest naive C to that of pe", AtLeast(10.0), ratio))
    };
    let bars =
        [slope("pe", 0.16), ratio(), slope("pe-generic", 0.5), slope("pe-1", 1.0), overhead()];
    bars.into_iter().flatten().collect()
}

/// The bars of ClassBench's sets.
pub fn large(outcomes: &[Outcome]) -> Vec<Bar> {
    let values = |value: &dyn Fn(&Outcome) -> Option<f64>, takes: &dyn Fn(&Outcome) -> bool| {
        let of = outcomes.iter().filter(|one| takes(one));
        of.filter_map(|one| Some((value(one)?, one.case.clone()))).collect::<Vec<_>>()
    };
    let mut bars = Vec::new();
    let of_size = |size: &str| {
        let end = format!("_{size}");
        move |one: &Outcome| one.case.split('-').next().is_some_and(|name| name.ends_with(&end))
    };
    for (_, size, ..) in &SIZES[..2] {
        let what = format!("memory, {size}: best rte_acl/{TREE}, each");
        bars.extend(Bar::each(what, AtLeast(5.0), &values(&acl_ratio, &of_size(size))));
    }
    for (_, size, nanos, build) in SIZES {
        let time = |one: &Outcome| one.nanos(Set::Memory, TREE);
        let what = format!("memory, {size}: {TREE}, ns a packet, each");
        bars.extend(Bar::each(what, AtMost(nanos), &values(&time, &of_size(size))));
        let built = |one: &Outcome| one.participant(TREE)?.build_ms;
        let what = format!("{size}: {TREE}, ms to build, each");
        bars.extend(
            build.and_then(|ms| Bar::each(what, AtMost(ms), &values(&built, &of_size(size)))),
        );
    }
    let bytes = |one: &Outcome| one.bytes_per_rule(TREE);
    let small = |one: &Outcome| one.case.starts_with("acl") || one.case.starts_with("ipc");
    let what = format!("{TREE}: bytes a rule, each of acl and ipc");
    bars.extend(Bar::each(what, AtMost(100.0), &values(&bytes, &small)));
    bars
}

/// The bars of changes: of lists of 10,000 rules.
pub fn updates(all: &[(String, Vec<Updates>)]) -> Vec<Bar> {
    let long = all.iter().filter(|(case, _)| case.ends_with("_10k"));
    let of_rate = |rate: u32, value: &dyn Fn(&Updates) -> f64| {
        let at = |updates: &[Updates]| updates.iter().find(|one| one.rate == rate).map(value);
        let values = long.clone().filter_map(|(case, updates)| Some((at(updates)?, case.clone())));
        values.collect::<Vec<_>>()
    };
    let mut bars = Vec::new();
    for (rate, loss) in RATES.into_iter().zip([0.05, 0.15]) {
        let p99 = of_rate(rate, &|one| one.quantile(0.99));
        let what = format!("10k, {rate} updates/s: µs until visible, p99, each");
        bars.extend(Bar::each(what, AtMost(50.0), &p99));
        let what = format!("10k, {rate} updates/s: part of its speed a reader loses, each");
        bars.extend(Bar::each(what, AtMost(loss), &of_rate(rate, &Updates::loss)));
    }
    bars
}

/// The fastest of DPDK's algorithms to `tree`, in calls of 256 packets or of 4,096,
/// whichever is less.
pub fn acl_ratio(one: &Outcome) -> Option<f64> {
    let ratio = |set| {
        let (peer, _) = one.best(set, ACL)?;
        Some(one.ratios(set, peer, TREE)?.median())
    };
    let both = [Set::Memory, Set::MemoryWide].into_iter().filter_map(ratio);
    both.min_by(f64::total_cmp)
}

/// The fewest rounds of any engine on any set.
pub fn pairs<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<Bar> {
    let sets = outcomes.flat_map(|one| &one.sets);
    let rounds = sets.flat_map(|on| on.times.iter().flatten()).map(|times| times.len() as f64);
    let rounds = Sample::new(rounds.collect()).quantile(0.0);
    (!rounds.is_nan()).then(|| Bar::of("pairs that a median is of", AtLeast(31.0), rounds))
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn every_list_is_held_against_the_bars_of_its_size() {
        let of = |case: &str, tree: f64| {
            outcome(case, 1_000, &[("tree", &[tree; 31]), ("rte_acl-sse", &[40.0; 31])])
        };
        let outcomes = [
            of("acl1_1k", 4.0),
            of("fw1_1k-5tuple", 10.0),
            of("ipc1_10k", 41.0),
            of("acl1_100k", 60.0),
        ];
        let bars = large(&outcomes);
        let find = |what: &str| bars.iter().find(|bar| bar.what == what).unwrap();
        let ratio = find("memory, 1k: best rte_acl/tree, each");
        assert_eq!(
            (ratio.value, ratio.missed.as_slice()),
            (4.0, &["fw1_1k-5tuple".to_owned()][..])
        );
        assert!(!find("memory, 10k: tree, ns a packet, each").met);
        assert!(find("memory, 100k: tree, ns a packet, each").met);
        assert!(find("100k: tree, ms to build, each").met);
        assert_eq!(find("tree: bytes a rule, each of acl and ipc").value, 50.0);
        assert_eq!(pairs(outcomes.iter()).unwrap().value, 31.0);
        assert_eq!(pairs([].iter()), None);
    }

    #[test]
    fn updates_of_long_lists_have_bars() {
        let at = |rate, loss| Updates {
            rate,
            micros: vec![10.0, 20.0, 30.0],
            spins: vec![30.0],
            losses: vec![loss; 31],
            nanos: vec![5.0; 31],
            merges: 1,
        };
        let all = [
            ("acl1_10k".to_owned(), vec![at(100, 0.01), at(1_000, 0.2)]),
            ("acl1_1k".to_owned(), vec![at(100, 0.5)]),
        ];
        let bars = updates(&all);
        assert_eq!(bars.iter().map(|bar| bar.met).collect::<Vec<_>>(), [true, true, true, false]);
    }
}
