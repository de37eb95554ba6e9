//! Flows as a table, JSON and CSV.

use std::io::{self, Write};

use forebay_flow::FlowRecord;
use forebay_packet::community_id;
use forebay_pipeline::{Ledger, Remarks};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

use super::listing::Records;
use crate::cli::FlowFormat;
use crate::naming;
use crate::show::time::{iso8601, readable};
use crate::show::{Cell, Colour, Column, Layout, human, terminal_columns};

/// Terminal width from which the table shows first times and Community IDs.
const WIDE: usize = 120;

/// TCP's control bits by the letters of other tools, the lowest first.
const TCP_FLAGS: [char; 8] = ['F', 'S', 'R', 'P', 'A', 'U', 'E', 'C'];

/// A flow as printed. Rows are generated one by one while they are written: a row as text
/// takes several times the memory of its record.
pub struct Row<'a> {
    community_id: Option<String>,
    proto: String,
    a: String,
    b: String,
    record: &'a FlowRecord,
}

impl<'a> Row<'a> {
    /// A record with names; `seed` is that of the Community ID.
    pub fn new(record: &'a FlowRecord, seed: u16) -> Self {
        let (a, b) = naming::ends(&record.key, record.a_is_high);
        Self {
            community_id: community_id(&record.key, seed),
            proto: naming::protocol(&record.key),
            a,
            b,
            record,
        }
    }

    /// TCP's control bits that were set in packets from `a`, and to it.
    fn tcp_flags(&self) -> [String; 2] {
        self.record.tcp_flags.map(|flags| {
            let is_set = |(bit, letter): (usize, &char)| (flags >> bit & 1 != 0).then_some(*letter);
            TCP_FLAGS.iter().enumerate().filter_map(is_set).collect()
        })
    }

    fn ended(&self) -> Option<&'static str> {
        self.record.ended.map(|reason| reason.name())
    }
}

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

fn as_json(row: &Row<'_>) -> Value {
    let [flags_ab, flags_ba] = row.tcp_flags();
    let flow = json!({
        "community_id": row.community_id,
        "proto": row.proto,
        "protocol": row.proto,
        "a": row.a,
        "b": row.b,
        "packets_ab": row.record.packets[0],
        "packets_ba": row.record.packets[1],
        "bytes_ab": row.record.bytes[0],
        "bytes_ba": row.record.bytes[1],
        "first": iso8601(row.record.first),
        "last": iso8601(row.record.last),
        "tcp_flags_ab": flags_ab,
        "tcp_flags_ba": flags_ba,
        "ended": row.ended(),
    });
    let ends = naming::ends_json(["a", "b"], &row.record.key, row.record.a_is_high);
    naming::with_fields(flow, ends)
}

/// The line before all others, in a format of lines.
pub fn write_heading(out: &mut dyn Write, format: FlowFormat) -> io::Result<()> {
    if format == FlowFormat::Csv {
        writeln!(
            out,
            "community_id,proto,a,b,packets_ab,packets_ba,bytes_ab,bytes_ba,first,last,\
             tcp_flags_ab,tcp_flags_ba,ended"
        )?;
    }
    Ok(())
}

/// A flow's line: CSV or JSON.
pub fn write_line(out: &mut dyn Write, format: FlowFormat, row: &Row<'_>) -> io::Result<()> {
    if format != FlowFormat::Csv {
        return writeln!(out, "{}", as_json(row));
    }
    let FlowRecord { packets, bytes, first, last, .. } = row.record;
    let [flags_ab, flags_ba] = row.tcp_flags();
    writeln!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{flags_ab},{flags_ba},{}",
        row.community_id.as_deref().unwrap_or(""),
        row.proto,
        row.a,
        row.b,
        packets[0],
        packets[1],
        bytes[0],
        bytes[1],
        iso8601(*first),
        iso8601(*last),
        row.ended().unwrap_or(""),
    )
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
    let FlowRecord { packets, bytes, first, last, .. } = row.record;
    let mut cells: Vec<Cell> = vec![
        row.proto.clone().into(),
        row.a.clone().into(),
        row.b.clone().into(),
        human::count(packets[0]).into(),
        human::count(packets[1]).into(),
        human::count(bytes[0]).into(),
        human::count(bytes[1]).into(),
        human::duration(last.abs_diff(*first)).into(),
    ];
    if is_wide {
        cells
            .extend([readable(*first).into(), row.community_id.clone().unwrap_or_default().into()]);
    }
    cells
}
