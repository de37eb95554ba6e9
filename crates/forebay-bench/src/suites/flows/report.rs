//! Bars and tables of the table of flows.

use forebay_flow::Level;

use super::engines::{BULK, EXACT_BATCH, at_level};
use super::traffic::Input;
use super::{SIZES, adversary};
use crate::bar::Bar;
use crate::bar::Limit::{AtLeast, AtMost};
use crate::record::Results;
use crate::table::{number, pivot, table};

/// Most nanoseconds a look-up of a batch with AVX-512, by flows.
const LIMITS: [(u32, f64); 3] = [(20_000, 4.0), (1_000_000, 12.0), (8_000_000, 18.0)];

/// The case of look-ups among so many flows.
pub fn lookup(flows: u32) -> String {
    format!("lookup-{flows}")
}

/// The case of mixed traffic of so many flows.
pub fn mixed(flows: u32) -> String {
    format!("mixed-{flows}")
}

pub fn bars(results: &Results) -> Vec<Bar> {
    let uniform = Input::Uniform.name();
    let each = |value: &dyn Fn(u32) -> Option<f64>, case: fn(u32) -> String| -> Vec<_> {
        LIMITS.iter().filter_map(|&(flows, _)| Some((value(flows)?, case(flows)))).collect()
    };
    let nanos = |case: &str, engine: &str| results.nanos(case, uniform, engine);
    let ratio = |flows| results.ratio(&lookup(flows), uniform, BULK, EXACT_BATCH);
    let what = format!("{BULK}/{EXACT_BATCH}, each");
    let mut bars = vec![Bar::each(what, AtLeast(3.0), each(&ratio, lookup))];
    bars.extend(LIMITS.iter().map(|&(flows, most)| {
        let what = format!("{}: {EXACT_BATCH}, ns", lookup(flows));
        Some(Bar::at_most(what, most, nanos(&lookup(flows), EXACT_BATCH)?))
    }));
    let avx2 = at_level(Level::Avx2);
    let narrower = |flows| results.ratio(&lookup(flows), uniform, &avx2, EXACT_BATCH);
    let what = format!("{avx2}/{EXACT_BATCH}, each");
    bars.push(Bar::each(what, AtMost(1.3), each(&narrower, lookup)));
    let bytes = |flows| results.row(&lookup(flows), uniform, EXACT_BATCH)?.number("bytes_per_flow");
    let what = format!("{EXACT_BATCH}: bytes a flow, each");
    bars.push(Bar::each(what, AtMost(24.0), each(&bytes, lookup)));
    let slower =
        |flows| Some(nanos(&mixed(flows), EXACT_BATCH)? / nanos(&lookup(flows), EXACT_BATCH)?);
    let what = format!("{EXACT_BATCH}: mixed traffic to look-ups, each");
    bars.push(Bar::each(what, AtMost(1.5), each(&slower, mixed)));
    let what = format!("{}: chosen flows to ordinary ones", adversary::CASE);
    bars.push(adversary::ratio(results).map(|ratio| Bar::at_most(what, 1.1, ratio)));
    bars.push(results.rounds_bar());
    bars.into_iter().flatten().collect()
}

pub fn tables(results: &Results) -> String {
    let engines = results.names(|row| &row.engine);
    let mut out = String::new();
    for (name, is_mixed, input) in [
        ("Look-ups, uniform", false, Input::Uniform),
        ("Look-ups, Zipf", false, Input::Zipf),
        ("Mixed traffic", true, Input::Uniform),
    ] {
        let case = if is_mixed { mixed } else { lookup };
        let title = format!("{name}: nanoseconds a packet, by engine and flows");
        out += &pivot(&title, "", (&engines, &SIZES), |engine, size| {
            results.nanos(&case(SIZES[size]), input.name(), engines[engine])
        });
    }
    out += &pivot("Bytes a flow", "", (&engines, &SIZES), |engine, size| {
        let row = results.row(&lookup(SIZES[size]), Input::Uniform.name(), engines[engine])?;
        row.number("bytes_per_flow")
    });
    let singles = results.0.iter().filter(|row| row.number("worst_us").is_some());
    let lines = singles.map(|row| {
        let values = ["single_p50_ns", "single_p9999_us", "worst_us"];
        let names = [row.case.clone(), row.engine.clone()];
        names.into_iter().chain(values.map(|key| number(row.number(key)))).collect()
    });
    let headings = ["one packet at a time", "engine", "p50 ns", "p99.99 µs", "worst µs"];
    out + &table("", 2, &headings, lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Row;

    #[test]
    fn bars_compare_with_bulk_look_ups_and_reports_fit_a_hundred_columns() {
        let mut results = Results::default();
        for flows in SIZES {
            for (engine, nanos) in [(BULK, 30.0), (EXACT_BATCH, 8.0), ("exact-batch-avx2", 9.0)] {
                let row = Row::new(lookup(flows), Input::Uniform, engine, vec![nanos; 31]);
                results.0.push(row.with("bytes_per_flow", 20.0));
            }
            let row = Row::new(mixed(flows), Input::Uniform, EXACT_BATCH, vec![10.0; 31]);
            results.0.push(row.with("worst_us", 3.0));
        }
        let bars = bars(&results);
        let met: Vec<bool> = bars.iter().map(|bar| bar.met).collect();
        assert_eq!(met, [true, false, true, true, true, true, true, true], "{bars:?}");
        assert_eq!((bars[0].value, bars[5].value), (3.75, 20.0));
        let text = tables(&results);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
