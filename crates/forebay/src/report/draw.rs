//! Drawing: stepped areas and lines as SVG paths, axes as HTML.
//!
//! Drawings are stretched to the width of the page: x is in buckets, y in
//! thousandths of the height, both integers, which keeps paths short. Labels are
//! HTML positioned in percent, so they keep their size on a narrow screen.

use std::fmt::{self, Write};

use super::axis::{Tick, ValueAxis, time_ticks};
use super::grid::Grid;
use super::html::{Escaped, css_percent};

/// Height of a drawing in its own units.
pub(super) const HEIGHT: usize = 1_000;

/// The baseline of a chart, for [`area_path`].
pub(super) fn floor(grid: &Grid) -> Vec<usize> {
    vec![HEIGHT; grid.steps()]
}

/// `values` as heights from the top of a drawing whose upper end is `top`.
pub(super) fn heights(values: &[f64], top: f64) -> Vec<usize> {
    let full = HEIGHT as f64;
    let height = |value: &f64| (full * (1.0 - value / top)).round().clamp(0.0, full) as usize;
    values.iter().map(height).collect()
}

/// A stepped line along `tops`.
pub(super) fn line_path(grid: &Grid, tops: &[usize]) -> String {
    let mut path = String::new();
    let mut step = 0;
    for run in tops.chunk_by(|a, b| a == b) {
        step += run.len();
        let command = if path.is_empty() { "M0 " } else { "V" };
        // Writing to a String cannot fail.
        let _ = write!(path, "{command}{}H{}", run[0], grid.edge(step - 1));
    }
    path
}

/// The area between two stepped lines.
pub(super) fn area_path(grid: &Grid, lower: &[usize], upper: &[usize]) -> String {
    let mut path = line_path(grid, upper);
    let mut step = lower.len();
    for run in lower.chunk_by(|a, b| a == b).rev() {
        step -= run.len();
        // Writing to a String cannot fail.
        let _ = write!(path, "V{}H{}", run[0], step * grid.step);
    }
    path.push('Z');
    path
}

/// Opens a plot and draws its vertical axis.
pub(super) fn open_plot(out: &mut String, axis: &ValueAxis, style: &str) -> fmt::Result {
    write!(
        out,
        "<div class=\"plot\"{style}><div class=\"unit\">{}</div><div class=\"y\">",
        axis.unit
    )?;
    for Tick { at, label } in &axis.ticks {
        write!(out, "<span style=\"bottom:{}\">{label}</span>", css_percent(*at))?;
    }
    out.push_str("</div>");
    Ok(())
}

/// Lines across at the marks of `axis`, but for the one at zero.
pub(super) fn grid_lines(out: &mut String, axis: &ValueAxis) -> fmt::Result {
    for tick in axis.ticks.iter().skip(1) {
        write!(out, "<i style=\"bottom:{}\"></i>", css_percent(tick.at))?;
    }
    Ok(())
}

/// Opens a drawing that is stretched over its box.
pub(super) fn open_svg(out: &mut String, width: usize, height: usize, label: &str) -> fmt::Result {
    write!(
        out,
        "<svg viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{}\">",
        Escaped(label)
    )
}

/// The horizontal axis of time.
pub(super) fn time_axis(out: &mut String, grid: &Grid) -> fmt::Result {
    out.push_str("<div class=\"x\">");
    for (number, Tick { at, label }) in time_ticks(grid.span()).iter().enumerate() {
        let class = match number {
            0 => " class=\"start\"",
            _ if *at > 0.97 => " class=\"end\"",
            _ if number % 2 == 1 => " class=\"odd\"",
            _ => "",
        };
        write!(out, "<span{class} style=\"left:{}\">{label}</span>", css_percent(*at))?;
    }
    out.push_str("</div>");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{SensorLoad, SplitReport, TimeSeries};

    fn grid(buckets: usize) -> Grid {
        let report = SplitReport {
            start_ns: Some(0),
            end_ns: Some(1_000),
            sensors: vec![SensorLoad::default()],
            series: TimeSeries { width_ns: 10, packets: vec![vec![1; buckets]], bytes: Vec::new() },
            ..SplitReport::default()
        };
        Grid::of(&report).expect("there is load")
    }

    #[test]
    fn an_area_runs_along_the_top_and_back_along_the_bottom() {
        let grid = grid(4);
        let upper = heights(&[1.0, 1.0, 2.0, 0.0], 2.0);
        assert_eq!(upper, [500, 500, 0, 1_000]);
        assert_eq!(line_path(&grid, &upper), "M0 500H2V0H3V1000H4");
        assert_eq!(area_path(&grid, &floor(&grid), &upper), "M0 500H2V0H3V1000H4V1000H0Z");
        let lower = [600, 900, 900, 1_000];
        assert_eq!(area_path(&grid, &lower, &upper), "M0 500H2V0H3V1000H4V1000H3V900H1V600H0Z");
    }

    #[test]
    fn a_shorter_last_step_ends_where_the_time_ends() {
        let grid = grid(301);
        assert_eq!((grid.step, grid.steps()), (2, 151));
        let path = line_path(&grid, &heights(&vec![1.0; 151], 2.0));
        assert_eq!(path, "M0 500H301");
    }

    #[test]
    fn heights_stay_in_the_drawing() {
        let odd = [f64::INFINITY, -1.0, f64::NAN, 1e300];
        assert!(heights(&odd, 1.0).iter().all(|height| *height <= HEIGHT));
    }
}
