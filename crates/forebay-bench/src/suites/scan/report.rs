//! Bars and tables of the suite.

use super::engines::{AUTOMATIC, BYTES, CACHED_MS, COMPILE_MS, DFA, NFA, OURS, Set, VECTORSCAN};
use super::traffic::Kind;
use super::{CANDIDATES_A_MEGABYTE, GBPS, HITS_A_MEGABYTE};
use crate::bar::Bar;
use crate::record::{Results, Row};
use crate::table::{number, pivot, table};

const MEBIBYTE: f64 = (1 << 20) as f64;

/// Gbit/s of string matching in the paper, by a deterministic automaton, with SIMD, and in
/// hardware: H. Yamaki et al., "Achievement of offload processing for application gateways".
const PAPER: [(&str, f64); 3] = [("DFA", 1.35), ("SIMD", 5.11), ("hardware", 22.1)];

/// Of a set on dev-mix: the least ratio to Vectorscan, and the least Gbit/s.
struct Goal {
    literals: usize,
    engine: &'static str,
    ratio: f64,
    gbps: Option<f64>,
}

const fn goal(literals: usize, engine: &'static str, ratio: f64, gbps: Option<f64>) -> Goal {
    Goal { literals, engine, ratio, gbps }
}

const GOALS: [Goal; 8] = [
    goal(100, OURS[0].0, 0.7, None),
    goal(100, OURS[1].0, 0.7, None),
    goal(1_000, OURS[0].0, 1.2, None),
    goal(1_000, OURS[1].0, 1.2, None),
    goal(10_000, OURS[0].0, 5.0, Some(6.0)),
    goal(10_000, OURS[1].0, 3.0, Some(4.0)),
    goal(12_000, OURS[0].0, 5.0, Some(6.0)),
    goal(12_000, OURS[1].0, 3.0, Some(4.0)),
];

fn case(kind: Kind, literals: usize) -> String {
    format!("{kind}-{literals}")
}

pub fn bars(results: &Results) -> Vec<Bar> {
    let block = Set::Block.name();
    let mut bars = Vec::new();
    for Goal { literals, engine, ratio, gbps } in GOALS {
        let case = case(Kind::DevMix, literals);
        let reached = results.ratio(&case, block, VECTORSCAN, engine);
        let what = format!("{case}: {VECTORSCAN}/{engine}");
        bars.extend(reached.map(|reached| Bar::at_least(what, ratio, reached)));
        let row = results.row(&case, block, engine);
        let speed = gbps.zip(row.and_then(|row| row.number(GBPS)));
        let what = format!("{case}: {engine}, Gbit/s");
        bars.extend(speed.map(|(least, speed)| Bar::at_least(what, least, speed)));
    }
    let nanos =
        |kind, literals, set: Set, engine| results.nanos(&case(kind, literals), set.name(), engine);
    for (engine, _) in &OURS[..2] {
        let mut push = |what: &str, at_most, pair: Option<(f64, f64)>| {
            let what = format!("{engine}: {what}");
            bars.extend(pair.map(|(one, other)| Bar::at_most(what, at_most, one / other)));
        };
        let dev_mix = |literals, set| nanos(Kind::DevMix, literals, set, engine);
        let usual = dev_mix(12_000, Set::Block);
        push("time of 100,000 literals to 12,000", 2.0, dev_mix(100_000, Set::Block).zip(usual));
        push("time of streams to blocks", 1.3, dev_mix(12_000, Set::Stream).zip(usual));
        let gbps = |kind| results.row(&case(kind, 12_000), block, engine)?.number(GBPS);
        push("speed of dev-mix to the worst", 4.0, gbps(Kind::DevMix).zip(gbps(Kind::Worst)));
        for (literals, most) in [(12_000, 100.0), (100_000, 1_000.0)] {
            let row = results.row(&case(Kind::DevMix, literals), block, engine);
            let millis = row.and_then(|row| row.number(COMPILE_MS));
            push(&format!("ms to compile {literals} literals"), most, millis.zip(Some(1.0)));
        }
    }
    bars.extend(results.rounds_bar());
    bars
}

pub fn tables(results: &Results) -> String {
    let engines = results.names(|row| &row.engine);
    let cases = results.names(|row| &row.case);
    let mut out = String::new();
    for kind in Kind::ALL {
        let prefix = format!("{kind}-");
        let literals: Vec<&str> =
            cases.iter().filter_map(|case| case.strip_prefix(&prefix)).collect();
        let both = (engines.as_slice(), literals.as_slice());
        let value = |engine: usize, column: usize, set: Set, key: &str| {
            let case = format!("{prefix}{}", literals[column]);
            results.row(&case, set.name(), engines[engine])?.number(key)
        };
        for set in Set::ALL {
            let title = format!("{kind}, {set}: Gbit/s on one core, by engine and literals");
            out += &pivot(&title, "", both, |row, column| value(row, column, set, GBPS));
        }
        if kind != Kind::DevMix {
            continue;
        }
        let of = |row, column, key| value(row, column, Set::Block, key);
        let title = "Milliseconds to compile, by engine and literals";
        out += &pivot(title, "", both, |row, column| of(row, column, COMPILE_MS));
        let title = "The same with a cache on disk";
        out += &pivot(title, "", both, |row, column| of(row, column, CACHED_MS));
        let title = "MiB of the compiled set, by engine and literals";
        out += &pivot(title, "", both, |row, column| Some(of(row, column, BYTES)? / MEBIBYTE));
    }
    out + &rates(results, &cases) + &paper(results)
}

/// What the sets have in a megabyte.
fn rates(results: &Results, cases: &[&str]) -> String {
    let row_of = |case: &&str| results.0.iter().find(|row| row.case == **case);
    let line = |row: &Row| {
        let keys = [HITS_A_MEGABYTE, CANDIDATES_A_MEGABYTE];
        let values = keys.map(|key| number(row.number(key)));
        [row.case.clone()].into_iter().chain(values).collect()
    };
    let lines = cases.iter().filter_map(row_of).map(line).collect();
    table("What the sets have in a megabyte of payload", 1, &["", "hits", "candidates"], lines)
}

/// The paper's figures, and those of the largest set of at most 12,000 literals beside them.
fn paper(results: &Results) -> String {
    let dev_mix = case(Kind::DevMix, 12_000);
    let gbps = |engine: &str| results.row(&dev_mix, Set::Block.name(), engine)?.number(GBPS);
    let best = |engines: &[&str]| engines.iter().filter_map(|one| gbps(one)).reduce(f64::max);
    let lines = PAPER.into_iter().map(|(what, theirs)| {
        let ours = match what {
            "DFA" => best(&[DFA, NFA, AUTOMATIC]),
            "SIMD" => best(&OURS.map(|(name, _)| name)),
            _ => None,
        };
        vec![what.to_owned(), number(Some(theirs)), number(ours)]
    });
    let headings = ["string matching, Gbit/s", "the paper", dev_mix.as_str()];
    table("", 1, &headings, lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_compare_with_vectorscan_and_reports_fit_a_hundred_columns() {
        let mut results = Results::default();
        let engines = [(VECTORSCAN, 900.0, 1.4), (OURS[0].0, 150.0, 8.0), (OURS[1].0, 400.0, 3.0)];
        for literals in [100, 1_000, 10_000, 12_000, 100_000] {
            for set in Set::ALL {
                for (engine, nanos, gbps) in engines {
                    let case = case(Kind::DevMix, literals);
                    let row = Row::new(case, set, engine, vec![nanos; 31]);
                    results.0.push(row.with(GBPS, gbps).with(COMPILE_MS, 150.0));
                }
            }
        }
        let bars = bars(&results);
        let missed: Vec<&str> =
            bars.iter().filter(|bar| !bar.met).map(|bar| bar.what.as_str()).collect();
        let expected = [
            "dev-mix-10000: vectorscan/simd-avx2",
            "dev-mix-10000: simd-avx2, Gbit/s",
            "dev-mix-12000: vectorscan/simd-avx2",
            "dev-mix-12000: simd-avx2, Gbit/s",
            "simd-avx512: ms to compile 12000 literals",
            "simd-avx2: ms to compile 12000 literals",
        ];
        assert_eq!(missed, expected);
        let text = tables(&results);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
