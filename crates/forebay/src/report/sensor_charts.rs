//! The load of each sensor over time: small charts, or a heat map of many.

use std::fmt::{self, Write};

use super::colours::sensor_colour;
use super::draw::{HEIGHT, area_path, floor, heights, line_path, open_svg, time_axis};
use super::grid::{Grid, Measure, largest, total};
use super::html::{Escaped, css_percent};
use super::model::SplitReport;
use crate::show::human;

/// Steps of a small chart: the most that are distinguishable at its size.
const MOST_SMALL_STEPS: usize = 100;
/// Shades of the heat map, `--h0` to `--h7`.
const SHADES: usize = 8;

/// Shared properties of all small charts of a measure.
struct Common<'a> {
    grid: &'a Grid,
    measure: Measure,
    /// Steps of the page's data in one of `grid`.
    merged: usize,
    /// The load of all sensors together.
    sums: Vec<f64>,
    /// The value at the upper end.
    top: f64,
}

/// A small chart for each sensor, all on one scale, with the fair share as a line.
pub(super) fn small_charts(
    out: &mut String,
    report: &SplitReport,
    fine: &Grid,
    measure: Measure,
) -> fmt::Result {
    let sensors = report.sensors.len();
    let grid = &fine.coarser(MOST_SMALL_STEPS);
    let rates: Vec<Vec<f64>> = (0..sensors).map(|at| grid.rates(measure, at)).collect();
    let top = rates.iter().map(|row| largest(row)).fold(f64::MIN_POSITIVE, f64::max);
    let common = Common { grid, measure, merged: grid.step / fine.step, sums: total(&rates), top };
    let across = match sensors {
        2 => 2,
        3 | 5 | 6 | 9 => 3,
        _ => 4,
    };
    write!(
        out,
        "<h3>Each sensor</h3><p class=\"lead\">One scale for all, 0 to {}. \
         <span class=\"dash\"></span>fair share of the load at that time</p>\
         <div class=\"many\" style=\"--across:{across}\">",
        human::si(largest(&rates.concat()), measure.unit())
    )?;
    let mut shares = Vec::new();
    for (at, row) in rates.iter().enumerate() {
        small_chart(out, report, at, row, &common)?;
        fair_line(out, report.sensors[at].share_target, &common, &mut shares)?;
        out.push_str("</svg></div></figure>");
    }
    out.push_str("</div>");
    Ok(())
}

/// Opens the chart of one sensor and draws its load.
fn small_chart(
    out: &mut String,
    report: &SplitReport,
    at: usize,
    rates: &[f64],
    common: &Common<'_>,
) -> fmt::Result {
    let Common { grid, measure, merged, top, .. } = common;
    let sensor = &report.sensors[at];
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let mean = human::si(mean, measure.unit());
    let peak = human::si(largest(rates), measure.unit());
    let name = Escaped(&sensor.name);
    write!(
        out,
        "<figure><figcaption><b title=\"{name}\">{name}</b><span>mean {mean}</span></figcaption>\
         <div class=\"area\" data-kind=\"{}\" data-sensor=\"{at}\" data-merged=\"{merged}\">",
        measure.name()
    )?;
    let label = format!("Load of {}: mean {mean}, peak {peak}", sensor.name);
    open_svg(out, grid.length, HEIGHT, &label)?;
    let path = area_path(grid, &floor(grid), &heights(rates, *top));
    let colour = sensor_colour(at, report.sensors.len());
    write!(out, "<path class=\"skyline\"{colour} d=\"{path}\"/>")
}

/// The fair share of a sensor over time. Sensors of one weight share one line, drawn once
/// and referenced: `shares` has the lines drawn so far.
fn fair_line(
    out: &mut String,
    share: f64,
    common: &Common<'_>,
    shares: &mut Vec<u64>,
) -> fmt::Result {
    let Common { grid, measure, sums, top, .. } = common;
    let name = measure.name();
    if let Some(id) = shares.iter().position(|drawn| *drawn == share.to_bits()) {
        return write!(out, "<use href=\"#fair-{name}-{id}\"/>");
    }
    let fair: Vec<f64> = sums.iter().map(|sum| sum * share.max(0.0)).collect();
    let path = line_path(grid, &heights(&fair, *top));
    write!(out, "<path class=\"fair\" id=\"fair-{name}-{}\" d=\"{path}\"/>", shares.len())?;
    shares.push(share.to_bits());
    Ok(())
}

/// A row a sensor, a column a step of time, shaded by load.
pub(super) fn heat_map(
    out: &mut String,
    report: &SplitReport,
    grid: &Grid,
    measure: Measure,
    rates: &[Vec<f64>],
) -> fmt::Result {
    let sensors = report.sensors.len();
    let top = upper_end(rates);
    let (row_height, label_every) = match sensors {
        0..=32 => (18, 1),
        33..=64 => (12, 2),
        65..=128 => (8, 4),
        _ => (4, 8),
    };
    let unit = measure.unit();
    out.push_str("<h3>Each sensor</h3><div class=\"ramp\"><span aria-hidden=\"true\">");
    for shade in 0..SHADES {
        write!(out, "<i style=\"background:var(--h{shade})\"></i>")?;
    }
    write!(out, "</span>above 0 to {} and more</div>", human::si(top, unit))?;
    let height = (sensors * row_height).min(2_048);
    write!(out, "<div class=\"plot heat\" style=\"--height:{height}px\"><div class=\"y\">")?;
    for (at, sensor) in report.sensors.iter().enumerate().step_by(label_every) {
        let bottom = css_percent(1.0 - (at as f64 + 0.5) / sensors as f64);
        write!(out, "<span style=\"bottom:{bottom}\">{}</span>", Escaped(&sensor.name))?;
    }
    write!(out, "</div><div class=\"area\" data-kind=\"{}\" data-rows=\"\">", measure.name())?;
    let label = format!("Load of {sensors} sensors over time, a row a sensor");
    open_svg(out, grid.length, sensors, &label)?;
    for (shade, path) in heat_paths(grid, rates, top).iter().enumerate() {
        if !path.is_empty() {
            write!(out, "<path style=\"stroke:var(--h{shade})\" d=\"{path}\"/>")?;
        }
    }
    out.push_str("</svg></div>");
    time_axis(out, grid)?;
    out.push_str("</div>");
    Ok(())
}

/// A load that all but one in two hundred of the loaded cells stay below, so that one burst
/// does not compress the scale.
fn upper_end(rates: &[Vec<f64>]) -> f64 {
    let mut loaded: Vec<f64> = rates.iter().flatten().copied().filter(|rate| *rate > 0.0).collect();
    loaded.sort_by(f64::total_cmp);
    let at = (loaded.len() * 199 / 200).min(loaded.len().saturating_sub(1));
    loaded.get(at).copied().unwrap_or(0.0)
}

/// By shade: a path of horizontal strokes; adjacent cells of one shade are one stroke.
fn heat_paths(grid: &Grid, rates: &[Vec<f64>], top: f64) -> [String; SHADES] {
    let mut paths: [String; SHADES] = std::array::from_fn(|_| String::new());
    for (sensor, row) in rates.iter().enumerate() {
        let shades: Vec<Option<usize>> = row
            .iter()
            .map(|rate| {
                let level = (rate / top * SHADES as f64) as usize;
                (*rate > 0.0 && top > 0.0).then_some(level.min(SHADES - 1))
            })
            .collect();
        let mut start = 0;
        for run in shades.chunk_by(|a, b| a == b) {
            let (from, to) = (start * grid.step, grid.edge(start + run.len() - 1));
            start += run.len();
            if let Some(shade) = run[0] {
                // Writing to a String cannot fail.
                let _ = write!(paths[shade], "M{from} {sensor}.5h{}", to - from);
            }
        }
    }
    paths
}
