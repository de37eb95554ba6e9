//! The paper's figure 8 as a drawing: throughput by size, the paper's points and ours.

use std::fs;
use std::path::Path;

use super::arrival::SinkKind;
use super::paper::{SIZES, figure_8};
use super::results::Results;
use super::traffic::Size;
use crate::svg::{Anchor, Axis, Drawing};
use crate::{BenchError, io_error};

/// Colours that the common kinds of colour blindness keep apart (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222"];
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

/// Gigabits a second by size, into an XDP sink.
fn throughput(results: &Results) -> Option<String> {
    const LEFT: f64 = 60.0;
    const RIGHT: f64 = 620.0;
    const BOTTOM: f64 = 400.0;
    const LONGEST: f64 = 1518.0;
    let points = |engine: &str| -> Vec<(f64, f64)> {
        let bytes = |size: &Size| if let Size::Bytes(bytes) = size { Some(*bytes) } else { None };
        let at = |size: &Size| {
            let one = results.of(engine, *size, SinkKind::Xdp)?;
            Some((bytes(size)? as f64, one.gigabits(one.rate())))
        };
        let sizes = results.sizes();
        sizes.iter().filter_map(at).filter(|(_, gigabits)| !gigabits.is_nan()).collect()
    };
    let engines: Vec<(&str, Vec<(f64, f64)>)> = results
        .engines()
        .into_iter()
        .map(|engine| (engine, points(engine)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let all = engines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
    let most = all.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let mut drawing = Drawing::new(RIGHT + 170.0, BOTTOM + 50.0, "Throughput of forwarding");
    drawing.heading(LEFT, 26.0, "Gbit/s by bytes of a frame: the paper's (grey) and here");
    let y = Axis::new(BOTTOM, 50.0, most.max(10.0));
    let x = |bytes: f64| LEFT + (RIGHT - LEFT) * bytes / LONGEST;
    for mark in y.marks() {
        let colour = if mark == 0.0 { AXIS } else { GRID };
        drawing.line((LEFT, y.at(mark)), (RIGHT, y.at(mark)), colour, 1.0);
        drawing.small_text(LEFT - 8.0, y.at(mark) + 4.0, Anchor::End, AXIS, &mark.to_string());
    }
    for bytes in [64.0, 256.0, 512.0, 1024.0, 1500.0] {
        drawing.small_text(x(bytes), BOTTOM + 18.0, Anchor::Middle, AXIS, &bytes.to_string());
    }
    for (name, ends) in figure_8().into_iter().take(3) {
        let ends: Vec<(f64, f64)> =
            SIZES.iter().zip(ends).map(|(&size, value)| (x(size as f64), y.at(value))).collect();
        drawing.line(ends[0], ends[1], PAPER_COLOUR, 1.2);
        ends.iter().for_each(|&end| drawing.cross(end, PAPER_COLOUR));
        let (end, height) = ends[1];
        drawing.small_text(end + 26.0, height + 4.0, Anchor::Start, PAPER_COLOUR, name);
    }
    for (index, (engine, points)) in engines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let places: Vec<(f64, f64)> =
            points.iter().map(|&(bytes, value)| (x(bytes), y.at(value))).collect();
        places.windows(2).for_each(|pair| drawing.line(pair[0], pair[1], colour, 2.0));
        places.iter().for_each(|&place| drawing.circle(place, colour));
        let legend = 60.0 + 20.0 * index as f64;
        drawing.rectangle(RIGHT + 64.0, legend - 10.0, 12.0, 12.0, colour);
        drawing.text(RIGHT + 82.0, legend, Anchor::Start, engine);
    }
    Some(drawing.finish())
}

#[cfg(test)]
mod tests {
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
        assert!(text.contains(">2 threads</text>") && !text.contains("NaN"));
    }
}
