//! The page as a whole: heading, verdict, key figures, sections, foot.

use std::fmt::{self, Write};

use forebay_io::date::{iso8601, readable};

use super::grid::Grid;
use super::html::{Escaped, script_json};
use super::model::SplitReport;
use super::{chart, sensors, tables};
use crate::show::human;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

const TICK: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
     <circle cx=\"12\" cy=\"12\" r=\"11\" \
     fill=\"currentColor\"/><path d=\"M7 12.5l3.5 3.5L17 9\" fill=\"none\" stroke=\"var(--card)\" \
     stroke-width=\"2.2\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/></svg>";
const CROSS: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
     <circle cx=\"12\" cy=\"12\" r=\"11\" \
     fill=\"currentColor\"/><path d=\"M8 8l8 8M16 8l-8 8\" fill=\"none\" stroke=\"var(--card)\" \
     stroke-width=\"2.2\" stroke-linecap=\"round\"/></svg>";
const MARK: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
     <circle cx=\"12\" cy=\"12\" r=\"11\" \
     fill=\"currentColor\"/><path d=\"M12 6.5v7M12 17v.4\" fill=\"none\" stroke=\"var(--card)\" \
     stroke-width=\"2.4\" stroke-linecap=\"round\"/></svg>";

/// The page for `report`.
pub(super) fn render(report: &SplitReport) -> Result<String, fmt::Error> {
    let mut out = String::with_capacity(64 * 1024);
    let title = if report.title.is_empty() { "Split" } else { &report.title };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0} · Forebay</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        Escaped(title)
    )?;
    heading(&mut out, report, title)?;
    verdict(&mut out, report)?;
    figures(&mut out, report)?;
    notes(&mut out, report)?;
    let grid = Grid::of(report);
    chart::section(&mut out, report, grid.as_ref())?;
    sensors::section(&mut out, report)?;
    sensors::imbalance(&mut out, report)?;
    tables::top_flows(&mut out, report)?;
    tables::ledger(&mut out, report)?;
    if !report.generator.is_empty() {
        writeln!(out, "<footer>Made by {}</footer>", Escaped(&report.generator))?;
    }
    out.push_str("</main>\n");
    if let Some(grid) = &grid {
        let json = script_json(grid).map_err(|_| fmt::Error)?;
        writeln!(out, "<script type=\"application/json\" id=\"series\">{json}</script>")?;
        writeln!(out, "<script>\n{SCRIPT}</script>")?;
    }
    out.push_str("</body>\n</html>\n");
    Ok(out)
}

fn heading(out: &mut String, report: &SplitReport, title: &str) -> fmt::Result {
    write!(
        out,
        "<header><p class=\"eyebrow\">Forebay split report</p><h1>{}</h1>",
        Escaped(title)
    )?;
    if let (Some(start), Some(end)) = (report.start_ns, report.end_ns) {
        write!(
            out,
            "<p class=\"soft\">Captured <time datetime=\"{}\">{}</time> to \
             <time datetime=\"{}\">{}</time></p>",
            iso8601(start),
            readable(start),
            iso8601(end),
            readable(end)
        )?;
    }
    out.push_str("<ul class=\"options\">");
    for input in &report.inputs {
        write!(out, "<li><b>input</b><code>{}</code></li>", Escaped(input))?;
    }
    for (name, value) in &report.options {
        write!(out, "<li><b>{}</b><code>{}</code></li>", Escaped(name), Escaped(value))?;
    }
    out.push_str("</ul></header>\n");
    Ok(())
}

/// The ledger's equation, for the reader to check.
fn verdict(out: &mut String, report: &SplitReport) -> fmt::Result {
    if let Some(error) = &report.error {
        banner(out, "warn", MARK, "The run ended before the end of its input", error)?;
    }
    let totals = &report.totals;
    let sum = |value: fn(&super::LedgerRow) -> u128| report.ledger.iter().map(value).sum::<u128>();
    let copies = sum(|row| u128::from(row.copies));
    let injected = sum(|row| u128::from(row.injected));
    let dropped = sum(super::LedgerRow::dropped);
    let held = sum(|row| u128::from(row.held));
    let came = u128::from(totals.packets_in) + copies + injected;
    let accounted = u128::from(totals.packets_out) + dropped + held;

    let mut equation = format!("{} in", human::count(totals.packets_in));
    for (count, name) in [(copies, "copies"), (injected, "injected")] {
        if count > 0 {
            write!(equation, " + {} {name}", human::grouped(count))?;
        }
    }
    let sign = if came == accounted { "=" } else { "≠" };
    write!(equation, " {sign} {} out", human::count(totals.packets_out))?;
    for (count, name) in [(dropped, "dropped"), (held, "held")] {
        if count > 0 {
            write!(equation, " + {} {name}", human::grouped(count))?;
        }
    }
    let open: Vec<&str> =
        report.ledger.iter().filter(|row| !row.holds()).map(|row| row.stage.as_str()).collect();
    if came == accounted && open.is_empty() {
        if totals.packets_in == 0 && report.error.is_none() {
            return banner(out, "warn", MARK, "There were no packets in the input", &equation);
        }
        return banner(out, "good", TICK, "Every packet accounted for", &equation);
    }
    if came != accounted {
        let (name, off) = if came > accounted {
            ("missing", came - accounted)
        } else {
            ("too many", accounted - came)
        };
        write!(equation, ": {} {name}", human::grouped(off))?;
    }
    if !open.is_empty() {
        write!(equation, "; stages whose account is open: {}", open.join(", "))?;
    }
    banner(out, "bad", CROSS, "The account does not close", &equation)
}

fn banner(out: &mut String, class: &str, icon: &str, head: &str, text: &str) -> fmt::Result {
    writeln!(
        out,
        "<div class=\"banner {class}\" role=\"status\">{icon}<div><strong>{head}</strong>\
         <span class=\"sum\">{}</span></div></div>",
        Escaped(text)
    )
}

fn figures(out: &mut String, report: &SplitReport) -> fmt::Result {
    let totals = &report.totals;
    let each = |amount: u64, of: u64| (of > 0).then(|| amount as f64 / of as f64);
    let shown = |value: Option<f64>, unit: &str| {
        value.map_or_else(String::new, |value| human::si((value * 10.0).round() / 10.0, unit))
    };
    let duration = report.duration_ns();
    let bits = human::per_second(totals.bytes_in, duration).map(|bytes| bytes * 8.0);
    let packets = human::per_second(totals.packets_in, duration);
    let busiest = &report.imbalance.packets;
    let note = |text: String, suffix: &str| {
        if text.is_empty() { text } else { format!("{} {suffix}", text.trim_end()) }
    };
    let figures = [
        (
            "Packets",
            short_count(totals.packets_in),
            format!("{} to sensors", human::count(totals.packets_out)),
        ),
        (
            "Data",
            human::bytes(totals.bytes_in),
            note(shown(each(totals.bytes_in, totals.packets_in), "B"), "a packet"),
        ),
        (
            "Flows",
            short_count(totals.flows),
            note(shown(each(totals.packets_out, totals.flows), ""), "packets a flow"),
        ),
        ("Duration", human::duration(duration), format!("over {}", sensor_count(report))),
        (
            "Mean load",
            bits.map_or(human::UNKNOWN.to_owned(), human::bit_rate),
            packets.map_or_else(String::new, human::packet_rate),
        ),
        (
            "Busiest sensor",
            busiest.measured.map_or(human::UNKNOWN.to_owned(), human::ratio),
            busiest.expected.map_or_else(
                || "of its fair share of packets".to_owned(),
                |expected| {
                    format!("of its fair share of packets; {} at random", human::ratio(expected))
                },
            ),
        ),
    ];
    out.push_str("<dl class=\"figures\">");
    for (name, value, sub) in figures {
        let long = if value.len() > 13 { " long" } else { "" };
        write!(
            out,
            "<div><dt>{name}</dt><dd class=\"value{long}\">{value}</dd>\
             <dd class=\"sub\">{sub}</dd></div>"
        )?;
    }
    out.push_str("</dl>\n");
    Ok(())
}

/// A count in full if it fits a tile.
fn short_count(value: u64) -> String {
    const MOST_DIGITS: u64 = 999_999_999_999;
    if value > MOST_DIGITS { human::si(value as f64, "") } else { human::count(value) }
}

fn sensor_count(report: &SplitReport) -> String {
    match report.sensors.len() {
        1 => "1 sensor".to_owned(),
        sensors => format!("{sensors} sensors"),
    }
}

fn notes(out: &mut String, report: &SplitReport) -> fmt::Result {
    if report.notes.is_empty() {
        return Ok(());
    }
    out.push_str(
        "<section class=\"card notes\" aria-labelledby=\"notes\">\
         <h2 id=\"notes\">Worth knowing</h2><ul>",
    );
    for note in &report.notes {
        write!(out, "<li>{}</li>", Escaped(note))?;
    }
    out.push_str("</ul></section>\n");
    Ok(())
}
