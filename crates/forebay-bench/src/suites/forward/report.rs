//! Rows, bars, tables, and the paper's figure 8 with ours in it.

use std::path::Path;

use super::arrival::SinkKind;
use super::loss_free::LossFree;
use super::measure::{Capacity, Offered, SendingCost};
use super::paper::{KPPS, LOSS, SENT, SIZES, THEIRS, figure_8};
use super::traffic::Size;
use crate::bar::Bar;
use crate::bar::Limit::AtLeast;
use crate::cores::Cores;
use crate::failure::Result;
use crate::named::named;
use crate::record::{Results, Row};
use crate::stats::Sample;
use crate::svg::{self, COLOURS, Mark, Plot, Series};
use crate::table::{pivot, table};

/// Frames a second at which ports in user space must lose nothing.
pub const STEADY: f64 = 400_000.0;

named! {
    /// A part of the suite.
    pub enum Set {
        Capacity = "capacity",
        /// The highest rate without loss.
        LossFree = "ndr",
        /// Losses at [`STEADY`] frames a second.
        Steady = "steady",
        /// Losses at the rate of the paper's traffic.
        PaperRate = "paper-rate",
    }
}

/// A forwarder with frames of a size into a sink: what its rows have in common.
pub struct Subject {
    pub size: Size,
    /// Bytes of a frame on average.
    pub mean: f64,
    pub sink: SinkKind,
    /// The name of the forwarder.
    pub engine: String,
    pub user_space: bool,
}

impl Subject {
    /// A row of frames a second.
    fn row(&self, set: Set, rates: &[f64], cores: &Cores) -> Row {
        let engine = format!("{}{}", self.engine, self.sink.suffix());
        let nanos = rates.iter().map(|rate| 1e9 / rate).collect();
        let row = Row::new(self.size.to_string(), set, engine, nanos);
        let rate = row.ns.map(|ns| 1e9 / ns);
        let workers = if self.user_space { cores.workers.as_slice() } else { &[] };
        row.with("pps", rate)
            .with("gbps", rate.map(|rate| rate * self.mean * 8.0 / 1e9))
            .with("sink", self.sink.to_string())
            .with("generator_core", cores.generator)
            .with("worker_cores", workers)
    }

    pub fn capacity(&self, rounds: &[Capacity], cores: &Cores) -> Row {
        let median =
            |of: fn(&Capacity) -> f64| Sample::new(rounds.iter().map(of).collect()).median();
        let rates: Vec<f64> = rounds.iter().map(|one| one.rate).collect();
        self.row(Set::Capacity, &rates, cores)
            .with("loss", median(|one| one.loss))
            .with("cpu_ns", median(|one| one.cpu_ns))
            .with("receiving_cores", rounds.last().map(|one| &one.receivers))
    }

    /// A row of trials at a rate.
    pub fn trials(&self, set: Set, trials: &[Offered], cores: &Cores) -> Row {
        let rates: Vec<f64> = trials.iter().map(|offered| offered.rate).collect();
        let sum = |of: fn(&Offered) -> u64| trials.iter().map(of).sum::<u64>() as f64;
        let loss = sum(|offered| offered.lost) / sum(|offered| offered.sent);
        let without = |least| {
            let is_without = |one: &&Offered| one.lost == 0 && one.rate >= least;
            trials.iter().filter(is_without).count()
        };
        let row = self.row(set, &rates, cores).with("trials_without_loss", without(0.0));
        let row = row.with("loss", Some(loss).filter(|_| !trials.is_empty()));
        match set {
            // A trial at which the generator did not reach the rate shows nothing.
            Set::Steady => row.with("steady_trials_without_loss", without(STEADY)),
            _ => row,
        }
    }

    pub fn loss_free(&self, found: &LossFree, cores: &Cores) -> Row {
        self.trials(Set::LossFree, &found.trials, cores).with("pps_without_loss", found.rate)
    }
}

/// The row of what sending frames of a size costs.
pub fn sending_row(size: Size, cost: SendingCost) -> Row {
    let row = Row::new(size.to_string(), Set::Capacity, "generator", vec![cost.a_frame]);
    Row { spread: None, ..row }.with("pause_ns", cost.a_pause)
}

/// Whether a row is of a port in user space.
fn is_user_space(row: &Row) -> bool {
    row.more
        .get("worker_cores")
        .and_then(|cores| cores.as_array())
        .is_some_and(|all| !all.is_empty())
}

/// The port in user space with the greatest capacity, of those that send by the same kind of
/// interface as the kernel: no TAP device.
fn best_in_user_space<'a>(results: &'a Results, size: &str, sink: SinkKind) -> Option<&'a Row> {
    results.best(size, "capacity", |engine| {
        let row = results.row(size, "capacity", engine);
        let is_of_sink = (engine.ends_with("-skb")) == (sink == SinkKind::Stack);
        is_of_sink && !engine.starts_with("tap") && row.is_some_and(is_user_space)
    })
}

/// The bars of which both sides were measured.
pub fn bars(results: &Results) -> Vec<Bar> {
    let sink_name = |sink| match sink {
        SinkKind::Xdp => "an XDP sink",
        SinkKind::Stack => "an ordinary sink",
    };
    let splitter = [
        ("bridge", SinkKind::Xdp, 2.5, 4.0),
        ("nft-bridge", SinkKind::Xdp, 3.0, 5.0),
        ("bridge", SinkKind::Stack, 1.6, 2.0),
    ];
    let mut bars = Vec::new();
    for (peer, sink, least, aim) in splitter {
        let [ours, theirs] = ["xdp", peer].map(|name| format!("{name}{}", sink.suffix()));
        let what = format!("xdp to {peer}, 64 bytes, into {} (aim {aim})", sink_name(sink));
        let ratio = results.ratio("64", "capacity", &theirs, &ours);
        bars.extend(ratio.map(|ratio| Bar::at_least(what, least, ratio)));
    }
    for (size, least, aim) in [("64", 0.8, 1.5), ("1500", 0.5, 1.0)] {
        for sink in SinkKind::ALL {
            let Some(best) = best_in_user_space(results, size, sink) else { continue };
            let name = best.engine.trim_end_matches("-skb");
            let what = format!(
                "best in user space, {name}, to bridge, {size} bytes, into {} (aim {aim})",
                sink_name(sink)
            );
            let bridge = format!("bridge{}", sink.suffix());
            let ratio = results.ratio(size, "capacity", &bridge, &best.engine);
            bars.extend(ratio.map(|ratio| Bar::at_least(what, least, ratio)));
        }
    }
    let steady = results.0.iter().filter_map(|row| {
        let without = row.number("steady_trials_without_loss")?;
        Some((without / row.n as f64, row.engine.clone()))
    });
    let what = "trials without loss at 0.4 Mpps, user space";
    bars.extend(Bar::each(what, AtLeast(1.0), steady));
    bars
}

/// Capacity in packets and bits, its cost, its spread; rates without loss, and losses; and the
/// paper's tables.
pub fn tables(results: &Results) -> String {
    let sizes = results.names(|row| &row.case);
    let engines = results.names(|row| &row.engine);
    // First into XDP sinks, then into the host's stack.
    let (stack, xdp): (Vec<&str>, Vec<&str>) =
        engines.iter().partition(|engine| engine.ends_with("-skb"));
    let engines: Vec<&str> =
        xdp.into_iter().chain(stack).filter(|name| *name != "generator").collect();
    let by_size = |title: &str, set: Set, value: &dyn Fn(&Row) -> Option<f64>| {
        pivot(title, "bytes with FCS", (&engines, &sizes), |engine, size| {
            value(results.row(sizes[size], &set.to_string(), engines[engine])?)
        })
    };
    let scaled = |key: &'static str, factor: f64| move |row: &Row| Some(row.number(key)? * factor);
    let spread = |row: &Row| {
        let rates = Sample::new(row.times.iter().map(|nanos| 1e9 / nanos).collect());
        let [low, high] = rates.spread();
        (row.n > 1).then(|| (high - low) / rates.median() * 100.0)
    };
    let free_gbps = |row: &Row| {
        Some(row.number("gbps")? / row.number("pps")? * row.number("pps_without_loss")?)
    };
    let capacity = "Capacity, million packets a second (-skb: into the host's stack, else XDP)";
    let cost = "Nanoseconds of all processors a packet, without sending it";
    let steady = "Offered 0.4 million packets a second: per cent lost";
    let spread_title = "10% to 90% of the rounds, per cent of the median";
    let free = "Without loss, million packets a second";
    [
        by_size(capacity, Set::Capacity, &scaled("pps", 1e-6)),
        by_size(spread_title, Set::Capacity, &spread),
        by_size("Capacity, Gbit/s of frames", Set::Capacity, &scaled("gbps", 1.0)),
        by_size(cost, Set::Capacity, &scaled("cpu_ns", 1.0)),
        by_size(free, Set::LossFree, &scaled("pps_without_loss", 1e-6)),
        by_size("Without loss, Gbit/s of frames", Set::LossFree, &free_gbps),
        by_size(steady, Set::Steady, &scaled("loss", 100.0)),
        paper_table(
            results,
            "Table 1. The most packets at 128 bytes, thousands a second",
            (SIZES[0], Set::Capacity, "pps", 1e-3),
            &KPPS,
        ),
        paper_table(
            results,
            &format!("Table 2. Per cent lost of {SENT} Gbit/s in 1,500 bytes"),
            (SIZES[1], Set::PaperRate, "loss", 100.0),
            &LOSS,
        ),
    ]
    .concat()
}

/// The paper's values of a table, and ours into an XDP sink.
fn paper_table(
    results: &Results,
    title: &str,
    (size, set, key, factor): (usize, Set, &str, f64),
    theirs: &[f64],
) -> String {
    let (size, set) = (size.to_string(), set.to_string());
    let rows = results.0.iter().filter(|row| row.case == size && row.set == set);
    let rows = rows.filter(|row| !row.engine.ends_with("-skb"));
    let ours: Vec<(String, f64)> =
        rows.filter_map(|row| Some((row.engine.clone(), row.number(key)? * factor))).collect();
    if ours.is_empty() {
        return String::new();
    }
    let theirs = THEIRS.iter().zip(theirs).map(|(name, &value)| (format!("paper: {name}"), value));
    let line = |(name, value)| vec![name, crate::table::number(Some(value))];
    table(title, 1, &["", "value"], theirs.chain(ours).map(line).collect())
}

/// Writes `forward-figure-8.svg` to `folder`, if capacity was measured: gigabits a second by
/// size, into an XDP sink, on logarithmic scales, the paper's and ours.
pub fn figure(folder: &Path, results: &Results) -> Result<()> {
    match throughput(results) {
        Some(text) => svg::write(folder, "forward-figure-8.svg", &text),
        None => Ok(()),
    }
}

fn throughput(results: &Results) -> Option<String> {
    let engines = results.names(|row| &row.engine);
    let sizes = results.names(|row| &row.case);
    let points = |engine: &str| {
        let point = |size: &&str| {
            let gigabits = results.row(size, "capacity", engine)?.number("gbps")?;
            Some((size.parse().ok()?, gigabits))
        };
        sizes.iter().filter_map(point).collect::<Vec<(f64, f64)>>()
    };
    let ours = engines.iter().filter(|engine| !engine.ends_with("-skb"));
    let ours: Vec<_> = ours
        .map(|engine| (engine, points(engine)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    if ours.is_empty() {
        return None;
    }
    let paper = figure_8().into_iter().take(3).map(|(name, values)| {
        let points = SIZES.iter().zip(values).map(|(&size, value)| (size as f64, value));
        let (name, points) = (format!("paper, {name}"), points.collect());
        Series { name, colour: svg::PAPER, mark: Mark::Cross, width: 1.2, points }
    });
    let ours = ours.into_iter().zip(0..).map(|((engine, points), index)| {
        let (name, colour) = ((*engine).to_owned(), COLOURS[index % COLOURS.len()]);
        Series { name, colour, mark: Mark::Circle, width: 2.0, points }
    });
    let plot = Plot {
        heading: "Gbit/s by bytes of a frame: the paper's (grey) and here",
        x_label: "bytes",
        x_marks: vec![64.0, 128.0, 256.0, 512.0, 1024.0, 1500.0],
        y_is_logarithmic: true,
        series: paper.chain(ours).collect(),
        ..Plot::default()
    };
    Some(svg::plots("Throughput of forwarding", &[plot]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::forwarders::Kind;
    use super::*;

    fn cores() -> Cores {
        Cores::new().unwrap()
    }

    fn subject(engine: &str, size: Size, sink: SinkKind) -> Subject {
        let mean = if let Size::Bytes(bytes) = size { bytes as f64 } else { 354.0 };
        Subject {
            size,
            mean,
            sink,
            engine: engine.to_owned(),
            user_space: engine.starts_with("af_"),
        }
    }

    fn capacity(engine: &str, size: Size, sink: SinkKind, rates: &[f64]) -> Row {
        let round =
            |&rate: &f64| Capacity { rate, loss: 0.0, cpu_ns: 1e9 / rate, receivers: vec![0] };
        let rounds: Vec<Capacity> = rates.iter().map(round).collect();
        subject(engine, size, sink).capacity(&rounds, &cores())
    }

    #[test]
    fn bars_are_of_what_was_measured() {
        let mut results = Results::default();
        assert!(bars(&results).is_empty());
        let (small, xdp) = (Size::Bytes(64), SinkKind::Xdp);
        for (engine, rate) in [("bridge", 1e6), ("af_packet-1", 0.7e6), ("af_xdp-1", 0.9e6)] {
            results.0.push(capacity(engine, small, xdp, &[rate, rate, rate]));
        }
        results.0.push(capacity("xdp", small, xdp, &[2e6, 3e6, 4e6]));
        let at = |rate, lost| Offered { rate, sent: 4_000_000, lost };
        let trials = [at(4e5, 0), at(4e5, 1), at(4.1e5, 0), at(3.9e5, 0)];
        let steady = subject("af_packet-1", small, xdp).trials(Set::Steady, &trials, &cores());
        assert_eq!(steady.number("trials_without_loss"), Some(3.0));
        results.0.push(steady);
        let bars = bars(&results);
        let met: Vec<(f64, bool)> =
            bars.iter().map(|bar| ((bar.value * 1e3).round(), bar.met)).collect();
        assert_eq!(met, [(3000.0, true), (900.0, true), (500.0, false)]);
        assert!(bars[1].what.contains("af_xdp-1"));
    }

    #[test]
    fn tables_fit_a_hundred_columns_and_show_what_is_missing() {
        let mut results = Results::default();
        for size in Size::ALL {
            for sink in SinkKind::ALL {
                for engine in ["bridge", "nft-bridge", "nft-netdev", "af_packet-1", "af_xdp-1"] {
                    results.0.push(capacity(engine, size, sink, &[1.25e6, 1.3e6, 1.2e6]));
                    let trials = [Offered { rate: 8e5, sent: 1000, lost: 125 }];
                    let of = subject(engine, size, sink);
                    results.0.push(of.trials(Set::PaperRate, &trials, &cores()));
                }
            }
        }
        let trials = [Offered { rate: 4e5, sent: 1000, lost: 1 }];
        let lossy = subject("xdp", Size::Imix, SinkKind::Xdp);
        results.0.push(lossy.trials(Set::Steady, &trials, &cores()));
        results.0.push(lossy.loss_free(&LossFree { rate: None, trials: Vec::new() }, &cores()));
        let text = tables(&results);
        let bridge = text.lines().find(|line| line.starts_with("bridge-skb")).unwrap();
        assert!(bridge.contains("1.25"), "{text}");
        assert!(text.contains("paper: 2 threads") && text.contains("1412"), "{text}");
        assert!(text.contains("12.5") && text.contains('–') && !text.contains("NaN"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(tables(&Results::default()), "");
    }

    #[test]
    fn a_figure_is_drawn_of_what_there_is() {
        let mut results = Results::default();
        assert_eq!(throughput(&results), None);
        for size in [Size::Bytes(64), Size::Bytes(1500), Size::Imix] {
            results.0.push(capacity("bridge", size, SinkKind::Xdp, &[1e6]));
            results.0.push(capacity("xdp", size, SinkKind::Xdp, &[]));
        }
        let text = throughput(&results).unwrap();
        assert_eq!(text.matches("<circle").count(), 2, "{text}");
        assert!(text.contains(">paper, 2 threads</text>") && !text.contains("NaN"));
        let colours: HashSet<&str> = COLOURS.into_iter().collect();
        assert!(colours.len() >= Kind::all(1).len(), "one for each with one worker");
    }
}
