//! The paper's two figures with ours beside them, as SVG.

use std::fs;
use std::path::Path;

use super::paper;
use super::results::Outcome;
use super::sets::Set;
use super::tables::{COLUMNS, mean_ratio};
use crate::stats::least_squares;
use crate::svg::{Anchor, Axis, COLOURS, Drawing};
use crate::{BenchError, io_error};

const PAPER_COLOUR: &str = "#9a9a9a";
const OUR_COLOUR: &str = COLOURS[0];
const PE_COLOUR: &str = COLOURS[0];
const EMS_COLOUR: &str = COLOURS[1];
const GRID: &str = "#ddd";
const AXIS: &str = "#666";

/// Writes `figure-1.svg` and `figure-2.svg` to `folder`.
pub fn write(folder: &Path, outcomes: &[Outcome], gigahertz: f64) -> Result<(), BenchError> {
    let doing = |path: &Path| io_error(format!("writing {}", path.display()));
    fs::create_dir_all(folder).map_err(doing(folder))?;
    let figures =
        [("figure-1.svg", figure_1(outcomes)), ("figure-2.svg", figure_2(outcomes, gigahertz))];
    for (name, text) in figures {
        let path = folder.join(name);
        fs::write(&path, text).map_err(doing(&path))?;
    }
    Ok(())
}

/// Means of the acceleration over the paper's filters: a pair of bars for each way to
/// run a filter, the paper's and ours.
fn figure_1(outcomes: &[Outcome]) -> String {
    const WIDTH: f64 = 820.0;
    const GROUP: f64 = 84.0;
    const BAR: f64 = 30.0;
    const LEFT: f64 = 50.0;
    let papers: Vec<&Outcome> = outcomes.iter().filter(|one| one.case.paper).collect();
    let ours = COLUMNS.map(|(engine, _)| mean_ratio(&papers, engine));
    let largest = ours.iter().flatten().chain(&paper::MEAN_RATIO).copied().fold(0.0, f64::max);
    let mut drawing = Drawing::new(WIDTH, 420.0, "Average acceleration ratios");
    drawing.heading(LEFT, 26.0, "Times the interpreter's speed: mean over the paper's 13 filters");
    legend(&mut drawing, LEFT, 48.0, PAPER_COLOUR, "paper (Itanium 2; gcc 2.96, icc 9.1)");
    legend(&mut drawing, LEFT + 270.0, 48.0, OUR_COLOUR, "here, set hot");
    let axis = Axis::new(356.0, 72.0, largest);
    for mark in axis.marks() {
        let y = axis.at(mark);
        drawing.line((LEFT, y), (WIDTH - 14.0, y), if mark == 0.0 { AXIS } else { GRID }, 1.0);
        drawing.small_text(LEFT - 6.0, y + 4.0, Anchor::End, AXIS, &label(mark));
    }
    for (index, (engine, _)) in COLUMNS.iter().enumerate() {
        let middle = LEFT + GROUP * (index as f64 + 0.5);
        let bars = [
            (middle - BAR, Some(paper::MEAN_RATIO[index]), PAPER_COLOUR),
            (middle, ours[index], OUR_COLOUR),
        ];
        for (x, value, colour) in bars {
            let Some(value) = value else { continue };
            let y = axis.at(value);
            drawing.rectangle(x + 1.0, y, BAR - 2.0, axis.zero - y, colour);
            let label = format!("{value:.1}");
            drawing.small_text(x + BAR / 2.0, y - 5.0, Anchor::Middle, "#222", &label);
        }
        let theirs = paper::COLUMNS[index];
        drawing.small_text(middle, 374.0, Anchor::Middle, AXIS, theirs);
        drawing.small_text(middle, 390.0, Anchor::Middle, OUR_COLOUR, engine);
    }
    drawing.finish()
}

fn legend(drawing: &mut Drawing, x: f64, y: f64, colour: &str, text: &str) {
    drawing.rectangle(x, y - 10.0, 12.0, 12.0, colour);
    drawing.text(x + 18.0, y, Anchor::Start, text);
}

/// A filter's size and the cycles that `pe` and `ems` take for it.
struct Point {
    size: f64,
    cycles: [Option<f64>; 2],
}

/// Longer filters are left out of figure 2. They are lists, of which we make sets, and
/// what looking one up takes does not grow with the list.
const MOST_INSTRUCTIONS: usize = 64;

/// Execution times against the size of the filter, with lines of least squares: at the
/// left the paper's, at the right ours.
fn figure_2(outcomes: &[Outcome], gigahertz: f64) -> String {
    let theirs: Vec<Point> = paper::SIZE
        .iter()
        .zip(&paper::CYCLES)
        .map(|(size, cycles)| Point {
            size: f64::from(size[2]),
            cycles: [Some(cycles[6]), Some(cycles[7])],
        })
        .collect();
    let ours: Vec<Point> = outcomes
        .iter()
        .filter(|one| one.instructions <= MOST_INSTRUCTIONS)
        .map(|one| Point {
            size: one.instructions as f64,
            cycles: ["pe-avx512", "ems"]
                .map(|engine| one.nanos(Set::Hot, engine).map(|nanos| nanos * gigahertz)),
        })
        .collect();
    let mut drawing = Drawing::new(900.0, 430.0, "Execution time against the size of the filter");
    panel(&mut drawing, 56.0, "Paper: cycles a packet, Itanium 2", "machine instructions", &theirs);
    panel(&mut drawing, 506.0, "Here, set hot: cycles a packet", "classic BPF instructions", &ours);
    drawing.finish()
}

/// A round number as people write it.
fn label(mark: f64) -> String {
    let text = format!("{mark:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn panel(drawing: &mut Drawing, left: f64, heading: &str, sizes: &str, points: &[Point]) {
    const WIDTH: f64 = 370.0;
    let greatest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let x = Axis::new(left, left + WIDTH, greatest(&mut points.iter().map(|point| point.size)));
    let cycles = &mut points.iter().flat_map(|point| point.cycles).flatten();
    let y = Axis::new(370.0, 96.0, greatest(cycles));
    drawing.heading(left, 26.0, heading);
    for mark in y.marks() {
        let colour = if mark == 0.0 { AXIS } else { GRID };
        drawing.line((left, y.at(mark)), (left + WIDTH, y.at(mark)), colour, 1.0);
        drawing.small_text(left - 6.0, y.at(mark) + 4.0, Anchor::End, AXIS, &label(mark));
    }
    for mark in x.marks() {
        drawing.line((x.at(mark), y.zero), (x.at(mark), y.zero + 4.0), AXIS, 1.0);
        drawing.small_text(x.at(mark), y.zero + 18.0, Anchor::Middle, AXIS, &label(mark));
    }
    drawing.small_text(left + WIDTH / 2.0, y.zero + 38.0, Anchor::Middle, AXIS, sizes);
    for (engine, name, colour) in [(0, "pe", PE_COLOUR), (1, "ems", EMS_COLOUR)] {
        let measured: Vec<(f64, f64)> =
            points.iter().filter_map(|point| Some((point.size, point.cycles[engine]?))).collect();
        let mark = |drawing: &mut Drawing, at: (f64, f64)| match engine {
            0 => drawing.circle(at, colour),
            _ => drawing.cross(at, colour),
        };
        let legend_y = 50.0 + 20.0 * engine as f64;
        mark(drawing, (left + 6.0, legend_y - 4.0));
        for &(size, cycles) in &measured {
            mark(drawing, (x.at(size), y.at(cycles)));
        }
        let equation = match least_squares(&measured) {
            Some((slope, start)) => {
                let end = (start + slope * x.top).clamp(0.0, y.top);
                let stop = if slope == 0.0 { x.top } else { (end - start) / slope };
                let from = (x.at(0.0), y.at(start.clamp(0.0, y.top)));
                drawing.line(from, (x.at(stop), y.at(end)), colour, 1.2);
                format!("{name} = {slope:.2} × instructions + {start:.2}")
            }
            None => format!("{name}: not measured"),
        };
        drawing.text(left + 18.0, legend_y, Anchor::Start, &equation);
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn the_lines_of_the_paper_are_those_of_its_tables() {
        for (column, line) in [6, 7].into_iter().zip(paper::LINES) {
            let points: Vec<(f64, f64)> = paper::SIZE
                .iter()
                .zip(&paper::CYCLES)
                .map(|(size, cycles)| (f64::from(size[2]), cycles[column]))
                .collect();
            let (slope, start) = least_squares(&points).unwrap();
            assert!(
                (slope - line.0).abs() < 0.01 && (start - line.1).abs() < 0.1,
                "{slope} {start}"
            );
        }
    }

    #[test]
    fn figures_are_drawn_of_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let timed =
            outcome(true, &[("libpcap", &[30.0; 3]), ("auto", &[1.5; 3]), ("ems", &[4.0; 3])]);
        for outcomes in [vec![], vec![timed]] {
            write(folder.path(), &outcomes, 3.0).unwrap();
            let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
            let (bars, lines) = (read("figure-1.svg"), read("figure-2.svg"));
            assert_eq!(bars.contains(">20.0</text>"), !outcomes.is_empty());
            assert!(lines.contains("pe = 0.22 × instructions + 2.9"), "{lines}");
            assert!(lines.contains("pe: not measured"), "{lines}");
            assert!(!(bars + &lines).contains("NaN"));
        }
    }
}
