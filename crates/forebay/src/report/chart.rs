//! Charts of load over time, for all sensors together and for each.
//!
//! The form depends on the number of sensors:
//!
//! - up to 8: the whole load as stacked bands, each with its own colour (a palette that is
//!   distinguishable with the common kinds of colour blindness, with thin gaps), then a
//!   small chart for each sensor;
//! - up to 16: the whole load as one area, then a small chart for each sensor;
//! - beyond: the whole load, then a heat map with a row for each sensor, in which an
//!   unusual sensor is a visible line.
//!
//! Small charts share one scale and show the fair share as a line, so that areas are
//! compared with a reference and not with each other.

use std::fmt::{self, Write};

use super::axis::ValueAxis;
use super::colours::{MOST_COLOURS, sensor_colour};
use super::draw::{HEIGHT, area_path, floor, grid_lines, heights, open_plot, open_svg, time_axis};
use super::grid::{Grid, MOST_CHARTS, Measure, largest, total};
use super::html::Escaped;
use super::model::SplitReport;
use super::sensor_charts::{heat_map, small_charts};
use crate::show::human;

/// The class of a section whose charts need room for sensors' names.
pub(super) fn crowd(sensors: usize) -> &'static str {
    if sensors > MOST_CHARTS { " crowd" } else { "" }
}

/// The section "Load over time".
pub(super) fn section(out: &mut String, report: &SplitReport, grid: Option<&Grid>) -> fmt::Result {
    write!(
        out,
        "<section class=\"card tall{}\" aria-labelledby=\"load\">",
        crowd(report.sensors.len())
    )?;
    let Some(grid) = grid else {
        out.push_str(
            "<h2 id=\"load\">Load over time</h2><p class=\"soft\">The packets span no time, \
             so there is no load over time to show.</p></section>\n",
        );
        return Ok(());
    };
    out.push_str(
        "<input class=\"switch\" type=\"radio\" name=\"by\" id=\"by-bits\" checked>\
         <input class=\"switch\" type=\"radio\" name=\"by\" id=\"by-packets\">\
         <div class=\"head\"><h2 id=\"load\">Load over time</h2><div class=\"choice\">\
         <label for=\"by-bits\">Bits</label><label for=\"by-packets\">Packets</label></div></div>",
    );
    let step = grid.step.min(grid.length) as f64 * grid.seconds * 1e9;
    write!(
        out,
        "<p class=\"lead\">Traffic given to the sensors, averaged over steps of {}, from the \
         earliest packet on.</p>",
        human::duration(step as u64)
    )?;
    for measure in [Measure::Bits, Measure::Packets] {
        panel(out, report, grid, measure)?;
    }
    out.push_str("</section>\n");
    Ok(())
}

fn panel(out: &mut String, report: &SplitReport, grid: &Grid, measure: Measure) -> fmt::Result {
    let sensors = report.sensors.len();
    let rates: Vec<Vec<f64>> = (0..sensors).map(|sensor| grid.rates(measure, sensor)).collect();
    write!(out, "<div class=\"panel {}\">", measure.name())?;
    whole_load(out, report, grid, measure, &rates)?;
    match sensors {
        0 | 1 => {}
        2..=MOST_CHARTS => small_charts(out, report, grid, measure)?,
        _ => heat_map(out, report, grid, measure, &rates)?,
    }
    out.push_str("</div>");
    Ok(())
}

/// The load of all sensors together, in bands if there are enough colours.
fn whole_load(
    out: &mut String,
    report: &SplitReport,
    grid: &Grid,
    measure: Measure,
    rates: &[Vec<f64>],
) -> fmt::Result {
    let sensors = report.sensors.len();
    let sums = total(rates);
    let peak = largest(&sums);
    let mean = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
    let axis = ValueAxis::new(peak, measure.unit(), 4.0);
    let stacked = sensors > 1 && sensors <= MOST_COLOURS;
    if stacked {
        out.push_str("<ul class=\"legend\">");
        for (at, sensor) in report.sensors.iter().enumerate() {
            let colour = sensor_colour(at, sensors);
            let name = Escaped(&sensor.name);
            write!(out, "<li><span class=\"chip\"{colour}></span>{name}</li>")?;
        }
        out.push_str("</ul>");
    }
    open_plot(out, &axis, "")?;
    let label = format!(
        "Load of all sensors together: mean {}, peak {}",
        human::si(mean, measure.unit()),
        human::si(peak, measure.unit())
    );
    write!(out, "<div class=\"area\" data-kind=\"{}\">", measure.name())?;
    grid_lines(out, &axis)?;
    open_svg(out, grid.length, HEIGHT, &label)?;
    if stacked {
        let mut sums = vec![0.0; grid.steps()];
        let mut lower = floor(grid);
        for (at, row) in rates.iter().enumerate() {
            sums.iter_mut().zip(row).for_each(|(sum, rate)| *sum += rate);
            let upper = heights(&sums, axis.top);
            let path = area_path(grid, &lower, &upper);
            write!(
                out,
                "<path class=\"skyline band\"{} d=\"{path}\"/>",
                sensor_colour(at, sensors)
            )?;
            lower = upper;
        }
    } else {
        let path = area_path(grid, &floor(grid), &heights(&sums, axis.top));
        write!(out, "<path class=\"skyline\" d=\"{path}\"/>")?;
    }
    out.push_str("</svg></div>");
    time_axis(out, grid)?;
    out.push_str("</div>");
    Ok(())
}
