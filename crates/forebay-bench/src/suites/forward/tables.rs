//! Tables for the terminal: capacity, cost and loss-free rate by size, and the paper's two
//! tables with ours beneath.

use std::fmt::Write as _;

use super::arrival::SinkKind;
use super::paper::{KPPS, LOSS, SENT, SIZES, THEIRS};
use super::results::{Outcome, Results, loss_of};
use super::traffic::Size;
use crate::stats::Sample;

/// A line of the tables; writing to a string cannot fail.
fn line(out: &mut String, text: impl AsRef<str>) {
    let _ = writeln!(out, "{}", text.as_ref().trim_end());
}

/// A number in eight columns.
fn number(value: Option<f64>) -> String {
    match value.filter(|value| !value.is_nan()) {
        None => format!("{:>8}", "–"),
        Some(value) if value < 10.0 => format!("{value:>8.3}"),
        Some(value) if value < 100.0 => format!("{value:>8.2}"),
        Some(value) => format!("{value:>8.0}"),
    }
}

/// A table with a column a size and a line a forwarder and sink, of those that have
/// something in it.
fn by_size(
    results: &Results,
    heading: &str,
    sinks: &[SinkKind],
    value: impl Fn(&Outcome) -> Option<f64>,
) -> String {
    let sizes = results.sizes();
    let mut lines = String::new();
    for &sink in sinks {
        for engine in results.engines() {
            let values: Vec<Option<f64>> = sizes
                .iter()
                .map(|&size| results.of(engine, size, sink).and_then(&value))
                .map(|value| value.filter(|value| !value.is_nan()))
                .collect();
            if values.iter().any(Option::is_some) {
                let cells: String = values.into_iter().map(number).collect();
                line(&mut lines, format!("{:<20}{cells}", format!("{engine}{}", sink.suffix())));
            }
        }
    }
    if lines.is_empty() {
        return lines;
    }
    let mut out = String::new();
    line(&mut out, heading);
    let names: String = sizes.iter().map(|size| format!("{:>8}", size.to_string())).collect();
    line(&mut out, format!("{:<20}{names}", "bytes with FCS"));
    out + &lines + "\n"
}

/// Capacity in packets and bits, its cost, its spread; and the rate without loss.
pub fn all(results: &Results) -> String {
    let both = &SinkKind::ALL;
    let spread = |one: &Outcome| {
        let [low, high] = Sample::new(one.rates()).spread();
        (one.capacity.len() > 1).then_some((high - low) / one.rate() * 100.0)
    };
    let loss_free = |one: &Outcome| one.loss_free.as_ref()?.rate.map(|rate| rate / 1e6);
    [
        by_size(
            results,
            "Capacity, million packets a second (-skb: into the host's stack, else XDP)",
            both,
            |one| Some(one.rate() / 1e6),
        ),
        by_size(results, "10% to 90% of the rounds, per cent of the median", both, spread),
        by_size(results, "Capacity, Gbit/s of frames", both, |one| Some(one.gigabits(one.rate()))),
        by_size(
            results,
            "Nanoseconds of all processors a packet, without sending it",
            both,
            |one| Some(one.cpu_ns()),
        ),
        by_size(results, "Without loss, million packets a second", both, loss_free),
        by_size(results, "Without loss, Gbit/s of frames", both, |one| {
            Some(one.gigabits(one.loss_free.as_ref()?.rate?))
        }),
        by_size(results, "Offered 0.4 million packets a second: per cent lost", both, |one| {
            Some(loss_of(&one.steady)? * 100.0)
        }),
    ]
    .concat()
}

/// The paper's tables, with ours beneath.
pub fn paper(results: &Results) -> String {
    let mut out = String::new();
    let cells = |values: &[(String, Option<f64>)]| -> String {
        values
            .iter()
            .map(|(name, value)| format!("{name} {}; ", number(*value).trim_start()))
            .collect()
    };
    let write = |out: &mut String, who: &str, values: &[(String, Option<f64>)]| {
        let text = cells(values);
        for (i, part) in wrapped(text.trim_end_matches("; "), 88).into_iter().enumerate() {
            line(out, format!("{:<8}{part}", if i == 0 { who } else { "" }));
        }
    };
    let theirs = |values: [f64; 6]| -> Vec<(String, Option<f64>)> {
        THEIRS.iter().zip(values).map(|(name, value)| ((*name).to_owned(), Some(value))).collect()
    };
    let ours =
        |size: usize, value: &dyn Fn(&Outcome) -> Option<f64>| -> Vec<(String, Option<f64>)> {
            let of =
                |engine: &str| results.of(engine, Size::Bytes(size), SinkKind::Xdp).and_then(value);
            let named = results.engines().into_iter().map(|engine| (engine.to_owned(), of(engine)));
            named.filter(|(_, value)| value.is_some_and(|value| !value.is_nan())).collect()
        };
    let rates = ours(SIZES[0], &|one| Some(one.rate() / 1e3));
    if !rates.is_empty() {
        line(&mut out, "Table 1. The most packets at 128 bytes, thousands a second");
        write(&mut out, "paper", &theirs(KPPS));
        write(&mut out, "here", &rates);
    }
    let losses = ours(SIZES[1], &|one| Some(loss_of(&one.paper_rate)? * 100.0));
    if !losses.is_empty() {
        line(&mut out, format!("Table 2. Per cent lost of {SENT} Gbit/s in 1,500 bytes"));
        write(&mut out, "paper", &theirs(LOSS));
        write(&mut out, "here", &losses);
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Text in lines of at most so many columns, parted where a semicolon is.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split_inclusive("; ") {
        let last = lines.len() - 1;
        if lines[last].chars().count() + part.trim_end().chars().count() > columns {
            lines.push(String::new());
        }
        let last = lines.len() - 1;
        lines[last].push_str(part);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::measure::Offered;
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn tables_fit_a_hundred_columns_and_show_what_is_missing() {
        let mut results = Results::default();
        for size in Size::ALL {
            for sink in SinkKind::ALL {
                for engine in ["bridge", "nft-bridge", "nft-netdev", "af_packet-1", "af_xdp-1"] {
                    let mut one = outcome(engine, size, sink, &[1.25e6, 1.3e6, 1.2e6]);
                    one.paper_rate = vec![Offered { rate: 8e5, sent: 1000, lost: 125 }];
                    results.outcomes.push(one);
                }
            }
        }
        let mut one = outcome("xdp", Size::Imix, SinkKind::Xdp, &[]);
        one.steady = vec![Offered { rate: 4e5, sent: 1000, lost: 1 }];
        results.outcomes.push(one);
        let text = all(&results) + &paper(&results);
        assert!(text.contains("bridge-skb             1.250"), "{text}");
        assert!(text.contains("paper   bridge 975; 1 thread 615; 2 threads 1412"), "{text}");
        assert!(text.contains("af_xdp-1 12.50"), "{text}");
        assert!(text.contains("–") && !text.contains("NaN"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        assert_eq!(all(&Results::default()) + &paper(&Results::default()), "");
    }
}
