//! The largest flows and the ledger.

use std::fmt::{self, Write};

use forebay_io::date::iso8601;

use super::colours::sensor_colour;
use super::html::{Escaped, css_percent};
use super::model::{LedgerRow, SplitReport, TopFlow};
use crate::show::human;

/// The most flows listed; the flows verb lists all.
const MOST_FLOWS: usize = 100;

/// The section "Largest flows".
pub(super) fn top_flows(out: &mut String, report: &SplitReport) -> fmt::Result {
    if report.top_flows.is_empty() {
        return Ok(());
    }
    let shown = report.top_flows.len().min(MOST_FLOWS);
    write!(
        out,
        "<section class=\"card tall\" aria-labelledby=\"flows\"><h2 id=\"flows\">Largest flows</h2>\
         <p class=\"lead\">The {shown} largest of {}; times count from the earliest packet.</p>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"flows\"><table>\
         <thead><tr>\
         <th scope=\"col\">Protocol</th><th scope=\"col\">Flow and Community ID</th>\
         <th scope=\"col\" class=\"n\">Packets</th><th scope=\"col\" class=\"n\">Bytes</th>\
         <th scope=\"col\">Of all bytes</th><th scope=\"col\">Sensor</th>\
         <th scope=\"col\" class=\"n\">First seen</th><th scope=\"col\" class=\"n\">Lasted</th>\
         </tr></thead><tbody>",
        human::count(report.totals.flows.max(report.top_flows.len() as u64))
    )?;
    let sum: f64 = report.sensors.iter().map(|sensor| sensor.bytes as f64).sum();
    let largest = report.top_flows.iter().map(|flow| flow.bytes).max().unwrap_or(0) as f64;
    for flow in report.top_flows.iter().take(MOST_FLOWS) {
        flow_row(out, report, flow, (sum, largest))?;
    }
    out.push_str("</tbody></table></div></section>\n");
    Ok(())
}

fn flow_row(
    out: &mut String,
    report: &SplitReport,
    flow: &TopFlow,
    (sum, largest): (f64, f64),
) -> fmt::Result {
    let since = |from: i64, to: i64| {
        let gone = to.checked_sub(from).and_then(|gone| u64::try_from(gone).ok());
        gone.map_or(human::UNKNOWN.to_owned(), human::duration)
    };
    let first =
        report.start_ns.map_or(human::UNKNOWN.to_owned(), |start| since(start, flow.first_ns));
    write!(
        out,
        "<tr><td>{}</td><th scope=\"row\" class=\"flow mono\">{}<span class=\"soft\">↔</span>{}\
         <small>{}</small></th>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"share\">{}<span class=\"bar\"><i style=\"width:{}\"></i></span></td>",
        Escaped(&flow.protocol),
        Escaped(&flow.a),
        Escaped(&flow.b),
        Escaped(flow.community_id.as_deref().unwrap_or("")),
        human::count(flow.packets),
        human::bytes(flow.bytes),
        human::percent(flow.bytes as f64 / sum),
        css_percent(flow.bytes as f64 / largest)
    )?;
    match report.sensors.get(flow.sensor) {
        Some(sensor) => {
            let colour = sensor_colour(flow.sensor, report.sensors.len());
            let chip = if colour.is_empty() {
                String::new()
            } else {
                format!("<span class=\"chip\"{colour}></span>")
            };
            write!(out, "<td class=\"flow\">{chip}{}</td>", Escaped(&sensor.name))?;
        }
        None => write!(out, "<td>{}</td>", human::UNKNOWN)?,
    }
    write!(
        out,
        "<td class=\"n\"><time datetime=\"{}\">{first}</time></td><td class=\"n\">{}</td></tr>",
        iso8601(flow.first_ns),
        since(flow.first_ns, flow.last_ns)
    )
}

/// The section "Ledger".
pub(super) fn ledger(out: &mut String, report: &SplitReport) -> fmt::Result {
    if report.ledger.is_empty() {
        return Ok(());
    }
    let injected = report.ledger.iter().any(|row| row.injected > 0);
    let copies = report.ledger.iter().any(|row| row.copies > 0);
    let held = report.ledger.iter().any(|row| row.held > 0);
    out.push_str(
        "<section class=\"card tall\" aria-labelledby=\"ledger\"><h2 id=\"ledger\">Ledger</h2>\
         <p class=\"lead\">Every stage accounts for every packet: \
         in + copies + injected = out + dropped + held.</p>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"ledger\"><table>\
         <thead><tr>\
         <th scope=\"col\">Stage</th><th scope=\"col\" class=\"n\">In</th>",
    );
    let optional = [(copies, "Copies"), (injected, "Injected")];
    for (_, name) in optional.iter().filter(|(used, _)| *used) {
        write!(out, "<th scope=\"col\" class=\"n\">{name}</th>")?;
    }
    out.push_str(
        "<th scope=\"col\" class=\"n\">Out</th><th scope=\"col\" class=\"n\">Dropped</th>",
    );
    out.push_str("<th scope=\"col\">By reason</th>");
    if held {
        out.push_str("<th scope=\"col\" class=\"n\">Held</th>");
    }
    out.push_str("<th scope=\"col\">Account</th></tr></thead><tbody>");
    for row in &report.ledger {
        ledger_row(out, row, copies, injected, held)?;
    }
    out.push_str("</tbody></table></div></section>\n");
    Ok(())
}

fn ledger_row(
    out: &mut String,
    row: &LedgerRow,
    copies: bool,
    injected: bool,
    held: bool,
) -> fmt::Result {
    let number =
        |out: &mut String, value: u64| write!(out, "<td class=\"n\">{}</td>", human::count(value));
    write!(out, "<tr><th scope=\"row\">{}</th>", Escaped(&row.stage))?;
    number(out, row.in_)?;
    if copies {
        number(out, row.copies)?;
    }
    if injected {
        number(out, row.injected)?;
    }
    number(out, row.out)?;
    write!(out, "<td class=\"n\">{}</td><td>", human::grouped(row.dropped()))?;
    let reasons: Vec<&(String, u64)> = row.drops.iter().filter(|(_, count)| *count > 0).collect();
    if !reasons.is_empty() {
        out.push_str("<ul class=\"drops\">");
        for (name, count) in reasons {
            write!(out, "<li>{}<span>{}</span></li>", Escaped(name), human::count(*count))?;
        }
        out.push_str("</ul>");
    }
    out.push_str("</td>");
    if held {
        number(out, row.held)?;
    }
    if row.holds() {
        out.push_str("<td class=\"state good\">✓ closes</td></tr>");
    } else {
        out.push_str("<td class=\"state bad\">✗ does not close</td></tr>");
    }
    Ok(())
}
