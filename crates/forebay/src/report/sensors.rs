//! The load of each sensor, and how even it is.
//!
//! Up to sixteen sensors are a table with a bar in each cell and a mark at the fair share;
//! more are columns with the fair share as a line, and a collapsed table beneath.

use std::fmt::{self, Write};

use super::axis::ValueAxis;
use super::chart::crowd;
use super::colours::sensor_colour;
use super::draw::{HEIGHT, grid_lines, open_plot, open_svg};
use super::grid::MOST_CHARTS;
use super::html::{Escaped, css_percent};
use super::model::{SensorLoad, SplitReport, Spread};
use crate::show::human;

/// Units of a column chart's width for each sensor; the column takes all but two.
const COLUMN: usize = 10;

/// A measure of load: its name, and how a sensor's value is read and formatted.
struct Load {
    name: &'static str,
    value: fn(&SensorLoad) -> u64,
    show: fn(u64) -> String,
}

const LOADS: [Load; 3] = [
    Load { name: "Packets", value: |sensor| sensor.packets, show: human::count },
    Load { name: "Bytes", value: |sensor| sensor.bytes, show: human::bytes },
    Load { name: "Flows", value: |sensor| sensor.flows, show: human::count },
];

impl Load {
    fn values(&self, report: &SplitReport) -> Vec<u64> {
        report.sensors.iter().map(self.value).collect()
    }

    /// The fair value of each sensor: its share of the total.
    fn fair(&self, report: &SplitReport) -> Vec<f64> {
        let sum: f64 = self.values(report).iter().map(|value| *value as f64).sum();
        report.sensors.iter().map(|sensor| sum * share(sensor)).collect()
    }
}

/// The sensor's share, clamped to 0 to 1.
fn share(sensor: &SensorLoad) -> f64 {
    if sensor.share_target.is_nan() { 0.0 } else { sensor.share_target.clamp(0.0, 1.0) }
}

/// The section "Load per sensor".
pub(super) fn section(out: &mut String, report: &SplitReport) -> fmt::Result {
    let class = crowd(report.sensors.len());
    write!(out, "<section class=\"card tall{class}\" aria-labelledby=\"sensors\">")?;
    out.push_str("<h2 id=\"sensors\">Load per sensor</h2>");
    if report.sensors.is_empty() {
        out.push_str("<p class=\"soft\">There are no sensors.</p></section>\n");
        return Ok(());
    }
    out.push_str(
        "<p class=\"lead\"><span class=\"dash\"></span>fair share, by the sensors’ weights; \
         percentages are distances from it.</p>",
    );
    if report.sensors.len() > MOST_CHARTS {
        for load in &LOADS {
            columns(out, report, load)?;
        }
        write!(out, "<details><summary>All {} sensors</summary>", report.sensors.len())?;
        table(out, report)?;
        out.push_str("</details>");
    } else {
        table(out, report)?;
    }
    out.push_str("</section>\n");
    Ok(())
}

fn table(out: &mut String, report: &SplitReport) -> fmt::Result {
    let weights = report.sensors.iter().any(|sensor| sensor.weight != report.sensors[0].weight);
    out.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"sensors\">\
         <table class=\"loads\"><thead><tr><th scope=\"col\">Sensor</th>",
    );
    if weights {
        out.push_str("<th scope=\"col\" class=\"n\">Weight</th>");
    }
    for load in &LOADS {
        write!(out, "<th scope=\"col\">{}</th>", load.name)?;
    }
    out.push_str("</tr></thead><tbody>");
    let fair: Vec<Vec<f64>> = LOADS.iter().map(|load| load.fair(report)).collect();
    let top: Vec<f64> = LOADS
        .iter()
        .zip(&fair)
        .map(|(load, fair)| {
            let values = load.values(report).into_iter().map(|value| value as f64);
            values.chain(fair.iter().copied()).fold(0.0, f64::max)
        })
        .collect();
    for (at, sensor) in report.sensors.iter().enumerate() {
        let colour = sensor_colour(at, report.sensors.len());
        let chip = if colour.is_empty() { "" } else { "<span class=\"chip\"></span>" };
        write!(
            out,
            "<tr{colour}><th scope=\"row\"><span class=\"name\">{chip}{}</span>",
            Escaped(&sensor.name)
        )?;
        if !sensor.file.is_empty() {
            write!(out, "<span class=\"file\" title=\"{0}\">{0}</span>", Escaped(&sensor.file))?;
        }
        out.push_str("</th>");
        if weights {
            let weight = human::Scale::of(1.0).number(sensor.weight);
            write!(out, "<td class=\"n\">{weight}</td>")?;
        }
        for (number, load) in LOADS.iter().enumerate() {
            cell(out, load, (load.value)(sensor), fair[number][at], top[number])?;
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    Ok(())
}

fn cell(out: &mut String, load: &Load, value: u64, fair: f64, top: f64) -> fmt::Result {
    let off = human::deviation(value as f64, fair).unwrap_or_default();
    write!(
        out,
        "<td class=\"load\"><span>{}<span class=\"soft\">{off}</span></span>\
         <span class=\"bar\"><i style=\"width:{}\"></i><b style=\"left:{}\"></b></span></td>",
        (load.show)(value),
        css_percent(value as f64 / top),
        css_percent(fair / top)
    )
}

/// A column a sensor, with the fair share as a line across.
fn columns(out: &mut String, report: &SplitReport, load: &Load) -> fmt::Result {
    let values = load.values(report);
    let fair = load.fair(report);
    let top = values.iter().map(|value| *value as f64).chain(fair.iter().copied());
    let unit = if load.name == "Bytes" { "B" } else { "" };
    let axis = ValueAxis::new(top.fold(0.0, f64::max), unit, 3.0);
    let sensors = values.len();
    let height = |value: f64| (1_000.0 * (1.0 - value / axis.top)).round().clamp(0.0, 1_000.0);

    let mut bars = String::new();
    let mut line = String::new();
    for (at, (value, fair)) in values.iter().zip(&fair).enumerate() {
        let x = at * COLUMN;
        write!(bars, "M{} 1000V{}h{}V1000Z", x + 1, height(*value as f64), COLUMN - 2)?;
        let command = if at == 0 { "M0 " } else { "V" };
        write!(line, "{command}{}H{}", height(*fair), x + COLUMN)?;
    }
    let unit = match axis.unit.as_str() {
        "k" => ", thousands",
        "M" => ", millions",
        "G" => ", thousand millions",
        "" => "",
        other => &format!(", {other}"),
    };
    write!(out, "<h3>{}<span class=\"soft\">{unit}</span></h3>", load.name)?;
    let axis = ValueAxis { unit: String::new(), ..axis };
    open_plot(out, &axis, " style=\"--height:110px\"")?;
    let shown: Vec<String> = values.iter().map(u64::to_string).collect();
    write!(
        out,
        "<div class=\"area\" data-what=\"{}\" data-values=\"{}\">",
        load.name.to_lowercase(),
        shown.join(" ")
    )?;
    grid_lines(out, &axis)?;
    let label =
        format!("{} of each of {sensors} sensors; the table below has the numbers", load.name);
    open_svg(out, sensors * COLUMN, HEIGHT, &label)?;
    write!(
        out,
        "<path class=\"over\" d=\"{bars}\"/><path class=\"fair\" d=\"{line}\"/></svg></div>"
    )?;
    out.push_str("<div class=\"x\">");
    let every = sensors.div_ceil(8);
    for at in (0..sensors).step_by(every) {
        let left = css_percent((at as f64 + 0.5) / sensors as f64);
        let class = if (at / every) % 2 == 1 { " class=\"odd\"" } else { "" };
        write!(
            out,
            "<span{class} style=\"left:{left}\">{}</span>",
            Escaped(&report.sensors[at].name)
        )?;
    }
    out.push_str("</div></div>");
    Ok(())
}

/// The section "How even is it?".
pub(super) fn imbalance(out: &mut String, report: &SplitReport) -> fmt::Result {
    let spreads = [
        ("Packets", report.imbalance.packets),
        ("Bytes", report.imbalance.bytes),
        ("Flows", report.imbalance.flows),
    ];
    if report.sensors.len() < 2 || spreads.iter().all(|(_, spread)| spread.measured.is_none()) {
        return Ok(());
    }
    let known = |spread: &Spread| [spread.measured, spread.expected, spread.expected_p95];
    let largest = spreads.iter().flat_map(|(_, spread)| known(spread)).flatten();
    let reach = largest.filter(|value| value.is_finite()).fold(1.05, f64::max) - 1.0;
    let at = |value: f64| css_percent((value - 1.0) / (reach * 1.06));
    out.push_str(
        "<section class=\"card\" aria-labelledby=\"even\"><h2 id=\"even\">How even is it?</h2>\
         <p class=\"lead\">The busiest sensor against its fair share: 1.00× is perfect.</p>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"even\">\
         <table class=\"even\"><thead><tr>\
         <th scope=\"col\">Load</th><th scope=\"col\" class=\"n\">Busiest sensor</th>\
         <th scope=\"col\" class=\"spread\">From perfect to uneven</th>\
         <th scope=\"col\">Reading</th>\
         <th scope=\"col\" class=\"n\">At random</th>\
         <th scope=\"col\" class=\"n\">95th percentile</th>\
         <th scope=\"col\" class=\"n\">At least</th>\
         </tr></thead><tbody>",
    );
    for (name, spread) in &spreads {
        let shown = |value: Option<f64>| value.map_or(human::UNKNOWN.to_owned(), human::ratio);
        write!(
            out,
            "<tr><th scope=\"row\">{name}</th><td class=\"n\"><strong>{}</strong></td>\
             <td><span class=\"gauge\" aria-hidden=\"true\">",
            shown(spread.measured)
        )?;
        if let Some(p95) = spread.expected_p95 {
            write!(out, "<span class=\"chance\" style=\"left:0;width:{}\"></span>", at(p95))?;
        }
        if let Some(expected) = spread.expected {
            write!(out, "<span class=\"mean\" style=\"left:{}\"></span>", at(expected))?;
        }
        if let Some(measured) = spread.measured {
            write!(out, "<span class=\"dot\" style=\"left:{}\"></span>", at(measured))?;
        }
        write!(
            out,
            "</span></td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td></tr>",
            reading(spread),
            shown(spread.expected),
            shown(spread.expected_p95),
            shown(spread.bound)
        )?;
    }
    out.push_str("</tbody></table></div>");
    explanation(out, report)?;
    out.push_str("</section>\n");
    Ok(())
}

fn explanation(out: &mut String, report: &SplitReport) -> fmt::Result {
    out.push_str(
        "<p class=\"explain\">“At random” deals the same flows to the same sensors by chance, \
         over and over: it is what an ideal hash gives on this traffic, on average (the mark) and \
         in 95 of 100 cases (the band). A flow is never split: \
         “at least” is what the largest one alone makes of a sensor.</p>",
    );
    let sum: f64 = report.sensors.iter().map(|sensor| sensor.bytes as f64).sum();
    let largest = report.top_flows.iter().map(|flow| flow.bytes).max();
    if let Some(largest) = largest.filter(|_| sum > 0.0) {
        write!(
            out,
            "<p class=\"explain\">Here the largest flow alone carries {} of the bytes; \
             the mean sensor’s share is {}.</p>",
            human::percent(largest as f64 / sum),
            human::percent(1.0 / report.sensors.len() as f64)
        )?;
    }
    Ok(())
}

/// The comparison of the measured spread with chance, in words.
pub(super) fn reading(spread: &Spread) -> String {
    let Some(measured) = spread.measured.filter(|value| value.is_finite()) else {
        return "no load".to_owned();
    };
    match (spread.expected_p95, spread.expected) {
        (Some(_), Some(expected)) if measured - 1.0 < (expected - 1.0) / 2.0 => {
            "more even than chance".to_owned()
        }
        (Some(p95), _) if measured <= p95 => "as even as chance".to_owned(),
        (Some(_), _) => "less even than chance".to_owned(),
        (None, Some(expected)) => human::deviation(measured, expected)
            .map_or_else(String::new, |off| format!("{off} against random")),
        (None, None) => String::new(),
    }
}
