//! The paper's figure 8 as a drawing: throughput by size, the paper's points and ours.

use std::fs;
use std::path::Path;

use super::arrival::SinkKind;
use super::paper::{SIZES, figure_8};
use super::results::Results;
use super::traffic::Size;
use crate::svg::{Anchor, COLOURS, Drawing};
use crate::{BenchError, io_error};

const PAPER_COLOUR: &str = "#9a9a9a";
const GRID: &str = "#ddd";
const AXIS: &str = "#666";

/// Writes `forward-figure-8.svg` to `folder`, if capacity was measured.
pub fn write(folder: &Path, results: &Results) -> Result<(), BenchError> {
    let Some(text) = throughput(results) else { return Ok(()) };
    let doing = |path: &Path| io_error(format!("writing {}", path.display()));
    fs::create_dir_all(folder).map_err(doing(folder))?;
    let path = folder.join("forward-figure-8.svg");
    fs::write(&path, text).map_err(doing(&path))
}

/// Where the figure's plot is.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 410.0;

/// The sizes between which it runs, and those that are marked.
const SIZES_SHOWN: [f64; 2] = [64.0, 1518.0];
const MARKS: [f64; 6] = [64.0, 128.0, 256.0, 512.0, 1024.0, 1500.0];

/// A line of the figure: bytes of a frame, and gigabits a second.
type Line = Vec<(f64, f64)>;

/// Gigabits a second by size, into an XDP sink, both on logarithmic scales.
fn throughput(results: &Results) -> Option<String> {
    let engines: Vec<(&str, Line)> = results
        .engines()
        .into_iter()
        .map(|engine| (engine, line_of(results, engine)))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    if engines.is_empty() {
        return None;
    }
    let paper = figure_8().into_iter().take(3).map(|(name, values)| {
        let points = SIZES.iter().zip(values).map(|(&size, value)| (size as f64, value));
        (name, points.collect::<Line>())
    });
    let paper: Vec<(&str, Line)> = paper.collect();
    let values = engines.iter().chain(&paper).flat_map(|(_, line)| line.iter().map(|at| at.1));
    let (least, most) = values.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), value| {
        (least.min(value), most.max(value))
    });
    let (low, high) = (least.log10().floor(), most.log10().ceil());
    let x = |bytes: f64| {
        let [first, last] = SIZES_SHOWN.map(f64::ln);
        LEFT + (RIGHT - LEFT) * (bytes.ln() - first) / (last - first)
    };
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value.log10() - low) / (high - low).max(1.0);
    let place = |&(bytes, value): &(f64, f64)| (x(bytes), y(value));

    let mut drawing = Drawing::new(RIGHT + 170.0, BOTTOM + 50.0, "Throughput of forwarding");
    drawing.heading(LEFT, 26.0, "Gbit/s by bytes of a frame: the paper's (grey) and here");
    for power in low as i32..=high as i32 {
        let value = 10_f64.powi(power);
        drawing.line((LEFT, y(value)), (RIGHT, y(value)), GRID, 1.0);
        drawing.small_text(LEFT - 8.0, y(value) + 4.0, Anchor::End, AXIS, &value.to_string());
    }
    for bytes in MARKS {
        drawing.line((x(bytes), BOTTOM), (x(bytes), BOTTOM + 5.0), AXIS, 1.0);
        drawing.small_text(x(bytes), BOTTOM + 20.0, Anchor::Middle, AXIS, &bytes.to_string());
    }
    let entries = engines
        .iter()
        .enumerate()
        .map(|(i, (name, line))| (*name, line, COLOURS[i % COLOURS.len()], 2.0));
    let grey = paper.iter().map(|(name, line)| (*name, line, PAPER_COLOUR, 1.2));
    for (index, (name, line, colour, width)) in grey.chain(entries).enumerate() {
        let places: Vec<(f64, f64)> = line.iter().map(place).collect();
        places.windows(2).for_each(|pair| drawing.line(pair[0], pair[1], colour, width));
        let legend = 60.0 + 20.0 * index as f64;
        drawing.rectangle(RIGHT + 34.0, legend - 10.0, 12.0, 12.0, colour);
        if colour == PAPER_COLOUR {
            places.iter().for_each(|&at| drawing.cross(at, colour));
            drawing.text(RIGHT + 52.0, legend, Anchor::Start, &format!("paper, {name}"));
            if let Some(&(end, height)) = places.last() {
                let label = name.chars().next().unwrap_or_default().to_string();
                drawing.small_text(end + 8.0, height + 4.0, Anchor::Start, colour, &label);
            }
        } else {
            places.iter().for_each(|&at| drawing.circle(at, colour));
            drawing.text(RIGHT + 52.0, legend, Anchor::Start, name);
        }
    }
    Some(drawing.finish())
}

/// What a forwarder carried of each size.
fn line_of(results: &Results, engine: &str) -> Line {
    let point = |size: Size| {
        let Size::Bytes(bytes) = size else { return None };
        let one = results.of(engine, size, SinkKind::Xdp)?;
        Some((bytes as f64, one.gigabits(one.rate())))
    };
    let points = results.sizes().into_iter().filter_map(point);
    points.filter(|(_, gigabits)| !gigabits.is_nan()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::forwarders::Kind;
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn a_figure_is_drawn_of_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::default();
        write(folder.path(), &results).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for size in [Size::Bytes(64), Size::Bytes(1518), Size::Imix] {
            results.outcomes.push(outcome("bridge", size, SinkKind::Xdp, &[1e6]));
            results.outcomes.push(outcome("xdp", size, SinkKind::Xdp, &[]));
        }
        write(folder.path(), &results).unwrap();
        let text = fs::read_to_string(folder.path().join("forward-figure-8.svg")).unwrap();
        assert_eq!(text.matches("<circle").count(), 2, "{text}");
        let colours: HashSet<&str> = COLOURS.into_iter().collect();
        assert!(colours.len() >= Kind::all(1).len(), "one for each with one worker");
        assert!(text.contains(">paper, 2 threads</text>") && !text.contains("NaN"));
    }
}
