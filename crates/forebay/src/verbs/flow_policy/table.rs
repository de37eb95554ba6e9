//! The table of what flows get of a link.

use std::io::{self, Write};

use forebay_flow::policy::Policy;

use super::result::{PolicyResult, Row};
use crate::show::{Cell, Colour, Column, Layout, human, terminal_columns, text};

/// Terminal width from which packets and states of flows are shown.
const WIDE: usize = 120;

/// Writes the flows, and the summary below them. On a narrow terminal the columns of packets are
/// omitted.
pub(super) fn write(out: &mut dyn Write, result: &PolicyResult<'_>) -> io::Result<()> {
    let (width, colour) = (terminal_columns(io::stdout()), Colour::stdout());
    let is_wide = width.is_none_or(|columns| columns >= WIDE);
    let mut columns = vec![Column::left("proto"), Column::left("a"), Column::left("b")];
    columns.extend(["offered", "sent", "lost", "share"].map(Column::right));
    if is_wide {
        let reading = match result.options.policy {
            Policy::Red(_) => "threshold",
            Policy::Csfq(_) => "last rate",
            Policy::Drr(_) => "quantum",
        };
        let packets = ["packets", "delivered", "marked", "dropped", reading];
        columns.extend(packets.map(Column::right));
    }
    let cells = |row: Row| cells(row, result, is_wide);
    let mut layout = Layout::new(columns);
    for row in result.rows() {
        layout.measure(&cells(row));
    }
    layout.fit(width);
    let mut lines = String::new();
    layout.render_heading(&mut lines, colour);
    for row in result.rows() {
        layout.render_row(&mut lines, &cells(row), colour);
        out.write_all(lines.as_bytes())?;
        lines.clear();
    }
    lines.push('\n');
    for sentence in result.summary() {
        let sentence = text::visible(&sentence).into_owned();
        for line in text::wrap(&sentence, width.unwrap_or(usize::MAX)) {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    out.write_all(lines.as_bytes())
}

fn cells(row: Row, result: &PolicyResult<'_>, is_wide: bool) -> Vec<Cell> {
    let share = row.share;
    let lost = share.dropped.bytes as f64 / share.offered.bytes.max(1) as f64;
    let mut cells: Vec<Cell> = vec![
        row.proto.into(),
        row.a.into(),
        row.b.into(),
        human::bytes(share.offered.bytes).into(),
        human::bytes(share.sent().bytes).into(),
        human::percent(lost).into(),
        human::percent(row.part).into(),
    ];
    if is_wide {
        let counts = [share.offered, share.delivered, share.marked, share.dropped];
        cells.extend(counts.map(|count| Cell::from(human::count(count.packets))));
        cells.push(match result.options.policy {
            Policy::Csfq(_) => human::bit_rate(row.reading as f64).into(),
            Policy::Red(_) | Policy::Drr(_) => human::bytes(row.reading).into(),
        });
    }
    cells
}
