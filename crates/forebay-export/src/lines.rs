//! Rows as lines: CSV and JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use forebay_flow::FlowRecord;
use forebay_io::date::iso8601;
use serde_json::{Value, json};

use crate::naming;
use crate::row::{Origin, Row};

/// The names of the columns of CSV, and those that a broker's records have besides.
const HEADING: &str = "community_id,proto,a,b,packets_ab,packets_ba,bytes_ab,bytes_ba,first,last,\
                       tcp_flags_ab,tcp_flags_ba,ended";
const HEADING_OF_ORIGIN: &str = ",group,sensor,cut,shed";

/// The last columns: the times in each direction, and of a broker's records the verdict.
const HEADING_OF_TIMES: &str = ",first_ab,last_ab,first_ba,last_ba";
const HEADING_OF_SCAN: &str = ",scan";

/// Writes the line before all others.
pub(crate) fn write_csv_heading(out: &mut dyn Write, has_origin: bool) -> io::Result<()> {
    let of_origin = if has_origin { HEADING_OF_ORIGIN } else { "" };
    let of_scan = if has_origin { HEADING_OF_SCAN } else { "" };
    writeln!(out, "{HEADING}{of_origin}{HEADING_OF_TIMES}{of_scan}")
}

/// Writes a row as a line of CSV (RFC 4180).
pub(crate) fn write_csv(out: &mut dyn Write, row: &Row<'_>) -> io::Result<()> {
    let (record, [ab, ba]) = (row.record, row.record.directions());
    let [flags_ab, flags_ba] = row.tcp_flags();
    let [a, b] = &row.ends;
    write!(
        out,
        "{},{},{a},{b},{},{},{},{},{},{},{flags_ab},{flags_ba},{}",
        row.community_id.as_deref().unwrap_or(""),
        row.proto,
        ab.packets,
        ba.packets,
        ab.bytes,
        ba.bytes,
        iso8601(record.first()),
        iso8601(record.last()),
        row.ended().unwrap_or(""),
    )?;
    if let Some(Origin { group, sensor }) = row.origin {
        let FlowRecord { cut, shed, .. } = record;
        write!(out, ",{},{},{cut},{shed}", quoted(group), quoted(sensor.unwrap_or("")))?;
    }
    for counts in [ab, ba] {
        match counts.times() {
            Some([first, last]) => write!(out, ",{},{}", iso8601(first), iso8601(last))?,
            None => write!(out, ",,")?,
        }
    }
    if row.origin.is_some() {
        write!(out, ",{}", row.scan().unwrap_or(""))?;
    }
    writeln!(out)
}

/// A field of CSV: in quotes where it would be taken for several.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}

/// Writes a row as a line of JSON.
pub(crate) fn write_json(out: &mut dyn Write, row: &Row<'_>) -> io::Result<()> {
    writeln!(out, "{}", as_json(row))
}

/// A row as a JSON object.
#[must_use]
pub fn as_json(row: &Row<'_>) -> Value {
    let [flags_ab, flags_ba] = row.tcp_flags();
    let [a, b] = row.ends.each_ref().map(ToString::to_string);
    let [ab, ba] = row.record.directions();
    let [[first_ab, last_ab], [first_ba, last_ba]] = [ab, ba]
        .map(|counts| counts.times().map_or([None; 2], |times| times.map(Some)))
        .map(|times| times.map(|time| time.map(iso8601)));
    let mut flow = json!({
        "community_id": row.community_id,
        "proto": row.proto,
        "protocol": row.proto,
        "a": a,
        "b": b,
        "packets_ab": ab.packets,
        "packets_ba": ba.packets,
        "bytes_ab": ab.bytes,
        "bytes_ba": ba.bytes,
        "first": iso8601(row.record.first()),
        "last": iso8601(row.record.last()),
        "first_ab": first_ab,
        "last_ab": last_ab,
        "first_ba": first_ba,
        "last_ba": last_ba,
        "tcp_flags_ab": flags_ab,
        "tcp_flags_ba": flags_ba,
        "ended": row.ended(),
    });
    if let Some(Origin { group, sensor }) = row.origin {
        flow["group"] = group.into();
        flow["sensor"] = sensor.into();
        flow["cut"] = row.record.cut.into();
        flow["shed"] = row.record.shed.into();
        flow["scan"] = row.scan().into();
    }
    let ends = naming::ends_json(["a", "b"], &row.record.key, row.record.a_is_high());
    naming::with_fields(flow, ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_in_quotes() {
        let fields = ["ids-1", "a,b", "say \"x\"", "two\nlines"].map(quoted);
        assert_eq!(fields, ["ids-1", "\"a,b\"", "\"say \"\"x\"\"\"", "\"two\nlines\""]);
    }
}
