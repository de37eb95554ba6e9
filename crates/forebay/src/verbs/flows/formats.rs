//! Flows as a table, and as one JSON document.

use std::io::{self, Write};

use forebay_export::{Row, as_json};
use forebay_io::date::readable;
use forebay_pipeline::{Ledger, Remarks};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::json;

use super::listing::Records;
use crate::naming;
use crate::show::{Cell, Colour, Column, Layout, human, terminal_columns};

/// Terminal width from which the table shows first times and Community IDs.
const WIDE: usize = 120;

/// The output of `--json`.
pub struct Document<'a> {
    pub records: &'a Records<'a>,
    pub ledger: &'a Ledger,
    pub remarks: &'a Remarks,
    pub error: Option<String>,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // In alphabetical order, as all JSON of the command.
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("closes", &self.ledger.closes())?;
        map.serialize_entry("error", &self.error)?;
        map.serialize_entry("flows", self.records)?;
        map.serialize_entry("ledger", &json!(self.ledger))?;
        map.serialize_entry("undecoded", &naming::undecoded_json(self.remarks))?;
        map.end()
    }
}

impl Serialize for Records<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(None)?;
        let mut failed = Ok(());
        let read = self.for_each(&mut |row| {
            failed = all.serialize_element(&as_json(row));
            // The reason is in `failed`.
            if failed.is_ok() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
        });
        failed?;
        read.map_err(S::Error::custom)?;
        all.end()
    }
}

/// The table of flows. On a narrow terminal the two columns that would be too narrow are
/// omitted.
pub fn write_table(out: &mut dyn Write, records: &Records<'_>) -> io::Result<()> {
    let (width, colour) = (terminal_columns(io::stdout()), Colour::stdout());
    let is_wide = width.is_none_or(|columns| columns >= WIDE);
    let mut columns = vec![
        Column::left("proto"),
        Column::left("a"),
        Column::left("b"),
        Column::right("packets →"),
        Column::right("←"),
        Column::right("bytes →"),
        Column::right("←"),
        Column::right("lasted"),
    ];
    if is_wide {
        columns.extend([Column::left("first"), Column::left("community id")]);
    }
    let mut layout = Layout::new(columns);
    records.for_each(&mut |row| {
        layout.measure(&cells(row, is_wide));
        Ok(())
    })?;
    layout.fit(width);
    let mut lines = String::new();
    layout.render_heading(&mut lines, colour);
    records.for_each(&mut |row| {
        layout.render_row(&mut lines, &cells(row, is_wide), colour);
        out.write_all(lines.as_bytes())?;
        lines.clear();
        Ok(())
    })?;
    // Without flows, only the heading.
    out.write_all(lines.as_bytes())
}

fn cells(row: &Row<'_>, is_wide: bool) -> Vec<Cell> {
    let (record, [ab, ba]) = (row.record, row.record.directions());
    let mut cells: Vec<Cell> = vec![
        row.proto.clone().into(),
        row.ends[0].to_string().into(),
        row.ends[1].to_string().into(),
        human::count(ab.packets).into(),
        human::count(ba.packets).into(),
        human::count(ab.bytes).into(),
        human::count(ba.bytes).into(),
        human::duration(record.last().abs_diff(record.first())).into(),
    ];
    if is_wide {
        let community_id = row.community_id.clone().unwrap_or_default();
        cells.extend([readable(record.first()).into(), community_id.into()]);
    }
    cells
}
