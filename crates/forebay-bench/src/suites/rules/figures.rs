//! The comparison and the crossover as figures, in SVG.

use std::fs;
use std::path::Path;

use super::paper::{Line, THEIRS};
use super::results::Outcome;
use super::sets::Set;
use crate::svg::{Anchor, Axis, COLOURS, Drawing};
use crate::{BenchError, io_error};

const PAPER_COLOUR: &str = "#9a9a9a";
const GRID: &str = "#ddd";
const AXIS: &str = "#666";

/// Writes `rules-figure-1.svg` and `rules-figure-2.svg` to `folder`: what was measured of
/// them.
pub fn write(folder: &Path, lines: &[Line], cuts: &[Outcome]) -> Result<(), BenchError> {
    let doing = |path: &Path| io_error(format!("writing {}", path.display()));
    fs::create_dir_all(folder).map_err(doing(folder))?;
    let figures = [
        ("rules-figure-1.svg", (!lines.is_empty()).then(|| slopes(lines))),
        ("rules-figure-2.svg", (!cuts.is_empty()).then(|| crossover(cuts))),
    ];
    for (name, text) in figures {
        let path = folder.join(name);
        text.map_or(Ok(()), |text| fs::write(&path, text)).map_err(doing(&path))?;
    }
    Ok(())
}

/// T_P of each way to scan, as bars on a scale of powers of ten: the paper's and ours.
fn slopes(lines: &[Line]) -> String {
    const LEFT: f64 = 180.0;
    const WIDTH: f64 = 560.0;
    const BAR: f64 = 22.0;
    let theirs = THEIRS.map(|(name, _, [_, t_p])| (name, t_p, PAPER_COLOUR));
    let ours = lines.iter().filter(|line| line.set == Set::Cache.to_string() && line.t_p > 0.0);
    let ours = ours.map(|line| (line.engine.as_str(), line.t_p, COLOURS[0]));
    let bars: Vec<(&str, f64, &str)> = theirs.into_iter().chain(ours).collect();
    let least = bars.iter().map(|bar| bar.1).fold(f64::INFINITY, f64::min).log10().floor();
    let most = bars.iter().map(|bar| bar.1).fold(0.0, f64::max).log10().ceil();
    let height = 70.0 + BAR * bars.len() as f64;
    let mut drawing = Drawing::new(LEFT + WIDTH + 70.0, height + 40.0, "Cycles a packet and rule");
    drawing.heading(
        LEFT,
        26.0,
        "T_P, cycles a packet and rule: the paper's (grey, Itanium 2) and here",
    );
    let at = |value: f64| LEFT + WIDTH * (value.log10() - least) / (most - least);
    for power in least as i32..=most as i32 {
        let x = at(10_f64.powi(power));
        drawing.line((x, 44.0), (x, height), GRID, 1.0);
        let label = format!("{}", 10_f64.powi(power));
        drawing.small_text(x, height + 16.0, Anchor::Middle, AXIS, &label);
    }
    for (index, (name, t_p, colour)) in bars.into_iter().enumerate() {
        let y = 52.0 + BAR * index as f64;
        drawing.rectangle(LEFT, y, at(t_p) - LEFT, BAR - 6.0, colour);
        drawing.small_text(LEFT - 8.0, y + 12.0, Anchor::End, AXIS, name);
        drawing.small_text(at(t_p) + 6.0, y + 12.0, Anchor::Start, "#222", &format!("{t_p:.2}"));
    }
    drawing.finish()
}

/// Nanoseconds a packet against the number of rules, which doubles from mark to mark.
fn crossover(cuts: &[Outcome]) -> String {
    const LEFT: f64 = 60.0;
    const STEP: f64 = 44.0;
    /// What takes longer leaves the figure.
    const MOST: f64 = 60.0;
    let powers = |one: &Outcome| (one.rules as f64).log2();
    let last = cuts.iter().map(powers).fold(0.0, f64::max);
    let x = |one: &Outcome| LEFT + STEP * powers(one);
    let right = LEFT + STEP * last;
    let mut drawing = Drawing::new(right + 150.0, 440.0, "Scans and tree");
    drawing.heading(LEFT, 26.0, "ns a packet by number of rules (set cache)");
    let y = Axis::new(380.0, 50.0, MOST);
    for mark in y.marks() {
        let colour = if mark == 0.0 { AXIS } else { GRID };
        drawing.line((LEFT, y.at(mark)), (right, y.at(mark)), colour, 1.0);
        drawing.small_text(LEFT - 8.0, y.at(mark) + 4.0, Anchor::End, AXIS, &mark.to_string());
    }
    for one in cuts {
        drawing.small_text(x(one), 398.0, Anchor::Middle, AXIS, &one.rules.to_string());
    }
    let engines = cuts.first().map_or(&[][..], |one| &one.participants);
    for (index, engine) in engines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<(f64, f64)> = cuts
            .iter()
            .filter_map(|one| Some((x(one), one.nanos(Set::Cache, engine.name)?)))
            .filter(|(_, nanos)| *nanos <= MOST)
            .map(|(x, nanos)| (x, y.at(nanos)))
            .collect();
        for pair in points.windows(2) {
            drawing.line(pair[0], pair[1], colour, 2.0);
        }
        for &at in &points {
            drawing.circle(at, colour);
        }
        let legend = 60.0 + 20.0 * index as f64;
        drawing.rectangle(right + 24.0, legend - 10.0, 12.0, 12.0, colour);
        drawing.text(right + 42.0, legend, Anchor::Start, engine.name);
    }
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn figures_are_drawn_of_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[], &[]).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let line = Line {
            set: "cache".to_owned(),
            engine: "pe".to_owned(),
            cycles: vec![1.0; 5],
            t_o: 4.0,
            t_p: 0.03,
            t_p_spread: [0.03; 2],
        };
        let mut cuts =
            [1, 2, 4].map(|rules| outcome("cut", rules, &[("pe", &[9.0]), ("ems", &[])]));
        cuts.iter_mut().for_each(|one| one.sets[0].set = Set::Cache);
        write(folder.path(), &[line], &cuts).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let (slopes, crossover) = (read("rules-figure-1.svg"), read("rules-figure-2.svg"));
        assert!(slopes.contains(">0.03</text>") && slopes.contains(">15.80</text>"), "{slopes}");
        assert_eq!(crossover.matches("<circle").count(), 3);
        assert!(!(slopes + &crossover).contains("NaN"));
    }
}
