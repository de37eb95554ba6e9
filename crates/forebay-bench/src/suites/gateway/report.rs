//! Rows, bars and tables.

use super::consumers::{self, Consumer, Used};
use super::lane::{Device, Mode};
use super::load::Load;
use super::measure::{Delays, Throughput};
use crate::bar::Bar;
use crate::bar::Limit::{AtLeast, AtMost};
use crate::failure::Result;
use crate::record::{Results, Row};
use crate::stats::Sample;
use crate::table::{number, pivot, table};

/// What the paper's gateway carries from the network to the application, in Gbit/s.
const PAPER: f64 = 0.0196;

/// The set of the scanner alone.
const MEMORY: &str = "memory";

/// The end of the sets of programs that read the device.
const CONSUMERS: &str = "-consumers";

/// What a program has to be spared of what it uses for the withheld frames.
const SAVED: f64 = 0.8;

/// A lane with frames of a size.
pub struct Subject<'a> {
    pub load: &'a Load,
    /// None of the bridge.
    pub mode: Option<Mode>,
    pub device: Device,
}

pub fn median_rate(rounds: &[Throughput]) -> f64 {
    Sample::new(rounds.iter().map(|round| round.rate).collect()).median()
}

fn lost(trials: &[Throughput]) -> u64 {
    trials.iter().flat_map(|trial| &trial.losses).map(|(_, frames)| frames).sum()
}

/// A row of frames a second.
fn row(load: &Load, set: &str, engine: &str, nanos: Vec<f64>) -> Row {
    let row = Row::new(load.size.to_string(), set, engine, nanos);
    let rate = row.ns.map(|ns| 1e9 / ns);
    row.with("pps", rate)
        .with("gbps", rate.map(|rate| rate * load.traffic.mean * 8.0 / 1e9))
        .with("mean_bytes", load.traffic.mean)
}

impl Subject<'_> {
    pub fn row(&self, rounds: &[Throughput], steady: &Throughput, delays: &Delays) -> Result<Row> {
        let engine = self.mode.map_or_else(|| "bridge".to_owned(), Mode::engine);
        let nanos = rounds.iter().map(|round| 1e9 / round.rate).collect();
        let sent: u64 = rounds.iter().map(|round| round.sent).sum();
        let arrived: u64 = rounds.iter().map(|round| round.arrived).sum();
        let [frames, bytes] = self.load.passing(self.mode.unwrap_or(Mode::Forward))?.share;
        Ok(row(self.load, self.device.name(), &engine, nanos)
            .with("cpu_ns", Sample::new(rounds.iter().map(|round| round.cpu_ns).collect()).median())
            .with("loss", lost(rounds) as f64 / sent.max(1) as f64)
            .with("arrived", arrived as f64 / sent.max(1) as f64)
            .with("passed_packets", frames)
            .with("passed_bytes", bytes)
            .with("steady_pps", steady.rate)
            .with("steady_loss", lost(std::slice::from_ref(steady)))
            .with("delay_us", delays.median / 1e3)
            .with("delay_p999_us", delays.p999 / 1e3)
            .with("delay_frames", delays.frames))
    }
}

/// The row of the scanner alone.
pub fn scanning_row(load: &Load, nanos: Vec<f64>) -> Row {
    row(load, MEMORY, "scan", nanos)
}

/// The row of a program that reads the device.
pub fn consumer_row(size: usize, device: Device, consumer: Consumer, used: Option<Used>) -> Row {
    let set = format!("{device}{CONSUMERS}");
    let row = Row::new(size.to_string(), set, consumer.name(), Vec::new());
    let values = used.map(consumers::values).into_iter().flatten();
    values.fold(row, |row, (key, value)| row.with(key, value))
}

/// What a load consists of.
pub fn of_load(load: &Load) -> Result<String> {
    let [frames, bytes] = load.passing(Mode::Hold)?.share.map(|share| share * 100.0);
    Ok(format!(
        "{} bytes: {} frames a round, {:.0} bytes on average, {} connections; {frames:.1}% of the \
         frames and {bytes:.1}% of the bytes pass with `hold`",
        load.size,
        load.frames.len(),
        load.traffic.mean,
        load.connections,
    ))
}

/// Gbit/s of a mode to the fastest of some devices.
fn best(results: &Results, devices: &[Device], mode: Mode) -> Option<(f64, Device)> {
    let of = |device: &Device| {
        let row = results.row("1500", device.name(), &mode.engine())?;
        Some((row.number("gbps")?, *device))
    };
    devices.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// From the application to the wire, beside the paper's: notes.
pub fn way_back(results: &Results) -> Vec<String> {
    let rows = results.0.iter().filter(|row| row.engine == Mode::Back.engine());
    let note = |row: &Row| {
        format!(
            "{} bytes from the application to the wire, {}: {} Gbit/s (the paper's: 0.432 by DMA, \
             0.000272 by PIO)",
            row.case,
            row.set,
            number(row.number("gbps"))
        )
    };
    rows.map(note).collect()
}

/// The bars of what was measured.
pub fn bars(results: &Results) -> Vec<Bar> {
    let has_avx512 = forebay_jit::cpu::detect() >= forebay_jit::Isa::Avx512Bw;
    let veth = [Device::Veth, Device::VethXdp, Device::VethFrames];
    let sides = [("veth", &veth[..], [2.14, 4.0]), ("TAP", &[Device::Tap], [1.5, 2.14])];
    let mut bars = Vec::new();
    for (name, devices, limits) in sides {
        let Some((gbps, device)) = best(results, devices, Mode::Hold) else { continue };
        let limit = limits[usize::from(has_avx512)];
        let what =
            format!("hold to {name} ({device}), 1,500 bytes, Gbit/s (aim 8; the paper's {PAPER})");
        bars.push(Bar::at_least(what, limit, gbps));
        let alone = |set: &str, engine: &str| results.row("1500", set, engine)?.number("gbps");
        let forward = alone(device.name(), &Mode::Forward.engine());
        if let (Some(forward), Some(scan)) = (forward, alone(MEMORY, "scan")) {
            let allowed = 1.0 / (1.0 / forward + 1.0 / scan);
            let what = format!(
                "hold to {name} to what forwarding ({forward:.1}) and scanning ({scan:.1}) allow one \
                 after the other"
            );
            bars.push(Bar::at_least(what, 0.7, gbps / allowed));
        }
    }
    let steady = results.0.iter().filter_map(|row| {
        let lost = row.number("steady_loss")?;
        Some((lost, format!("{}/{}/{}", row.case, row.set, row.engine)))
    });
    let what = "frames lost at 0.9 of the throughput";
    bars.extend(Bar::each(what, AtMost(0.0), steady));
    let saved = results.0.iter().filter_map(|row| {
        let saved = row.number("saved")?;
        Some((saved, format!("{}, {}", row.engine, row.set.trim_end_matches(CONSUMERS))))
    });
    let what = "what a consumer saves, to what it uses for the withheld flows alone";
    bars.extend(Bar::each(what, AtLeast(SAVED), saved));
    bars
}

pub fn tables(results: &Results) -> String {
    let sizes = results.names(|row| &row.case);
    let mut lanes: Vec<(&str, &str)> = Vec::new();
    let (consumers, rows): (Vec<&Row>, Vec<&Row>) =
        results.0.iter().partition(|row| row.set.ends_with(CONSUMERS));
    for row in rows {
        let lane = (row.set.as_str(), row.engine.as_str());
        if !lanes.contains(&lane) {
            lanes.push(lane);
        }
    }
    let names: Vec<String> = lanes.iter().map(|(set, engine)| format!("{set} {engine}")).collect();
    let by_size = |title: &str, value: &dyn Fn(&Row) -> Option<f64>| {
        pivot(title, "bytes with FCS", (&names, &sizes), |lane, size| {
            value(results.row(sizes[size], lanes[lane].0, lanes[lane].1)?)
        })
    };
    let scaled = |key: &'static str, factor: f64| move |row: &Row| Some(row.number(key)? * factor);
    let spread = |row: &Row| {
        let [low, high] = row.spread?;
        (row.n > 1).then(|| (high - low) / row.ns.unwrap_or(f64::NAN) * 100.0)
    };
    [
        by_size("Taken in, Gbit/s of frames", &scaled("gbps", 1.0)),
        by_size("Taken in, million packets a second", &scaled("pps", 1e-6)),
        by_size("The broker's time for a packet, ns", &scaled("cpu_ns", 1.0)),
        by_size("10% to 90% of the rounds, per cent of the median", &spread),
        by_size("Per cent of the bytes that reach the application", &scaled("passed_bytes", 100.0)),
        by_size("Per cent of the packets that do", &scaled("passed_packets", 100.0)),
        by_size("Delay at 50,000 packets a second, median, µs", &scaled("delay_us", 1.0)),
        by_size("Delay, 99.9% of the packets, µs", &scaled("delay_p999_us", 1.0)),
        consumer_table(&consumers),
    ]
    .concat()
}

fn consumer_table(rows: &[&Row]) -> String {
    let headings =
        ["program", "device", "all flows", "those passed", "the withheld alone", "saved"];
    let cells = |row: &&Row| {
        let values = ["cpu_s_all", "cpu_s_passed", "cpu_s_withheld", "saved"];
        let values = values.map(|key| number(row.number(key)));
        let device = row.set.trim_end_matches(CONSUMERS).to_owned();
        [row.engine.clone(), device].into_iter().chain(values).collect()
    };
    let title = "Programs that read the device: seconds of processors for the same frames";
    table(title, 2, &headings, rows.iter().map(cells).collect())
}
