//! `forebay flows`: the flows of a capture.

use std::cmp::Reverse;
use std::io::{self, Write};

use forebay_io::ReadOptions;
use forebay_packet::{Affinity, Decoder, HashKey, community_id};
use forebay_pipeline::stages::{Classify, Fragments, Window};
use forebay_pipeline::{Chain, FlowRecord, FlowTable, Ledger};
use serde_json::{Value, json};

use crate::cli::{Cli, FlowFormat, FlowsArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{Input, decode_options, print, print_json, processors};
use crate::naming;
use crate::show::time::{iso8601, readable};
use crate::show::{Colour, Column, Table, human, terminal_columns};

/// Columns of a terminal from which on the table shows first times and Community IDs.
const WIDE: usize = 120;

/// A flow as it is shown.
struct Row {
    community_id: Option<String>,
    proto: String,
    a: String,
    b: String,
    record: FlowRecord,
}

pub fn run(cli: &Cli, args: &FlowsArgs) -> Result<(), Failure> {
    let mut input = Input::open(&args.read, &ReadOptions::default(), cli.quiet)?;
    input.watch_signals()?;
    let decoder = Decoder::new(decode_options(&args.flow, Affinity::FiveTuple));
    let chain = || Chain::new().with(Classify::new(decoder, HashKey::OFFLINE));
    let workers = input.workers((0..processors()).map(|_| chain()).collect());
    let serial = Chain::new().with(Fragments::new(Window::OFFLINE));
    let mut flows = FlowTable::new();
    let run = forebay_pipeline::run(workers, serial, |batch| {
        flows.count(batch);
        Ok::<(), Failure>(())
    });
    drop(input);
    let rows = rows(&flows, args);
    let failure = run.error.map(Failure::from);
    let shown = match (cli.json, args.format) {
        (true, _) | (_, FlowFormat::Json) => {
            print_json(&as_json(&rows, &run.ledger, failure.as_ref()))
        }
        (_, FlowFormat::Csv) => print(|out| write_csv(out, &rows)),
        (_, FlowFormat::Table) => {
            let width = terminal_columns(io::stdout());
            let text = table(&rows, width).render(width, Colour::stdout());
            print(|out| out.write_all(text.as_bytes()))
        }
    };
    conclude(&run.ledger, cli, failure, shown)
}

/// The flows in the order of their first packets, or the largest first where only
/// some are asked for.
fn rows(flows: &FlowTable, args: &FlowsArgs) -> Vec<Row> {
    let mut records: Vec<&FlowRecord> = flows.records().iter().collect();
    if let Some(top) = args.top {
        records.sort_by_key(|record| Reverse(record.total_bytes()));
        records.truncate(top);
    }
    let row = |record: &FlowRecord| {
        let (a, b) = naming::ends(&record.key, record.a_is_high);
        Row {
            community_id: community_id(&record.key, args.seed),
            proto: naming::protocol(&record.key),
            a,
            b,
            record: record.clone(),
        }
    };
    records.into_iter().map(row).collect()
}

fn as_json(rows: &[Row], ledger: &Ledger, failure: Option<&Failure>) -> Value {
    let flows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "community_id": row.community_id,
                "proto": row.proto,
                "a": row.a,
                "b": row.b,
                "packets_ab": row.record.packets[0],
                "packets_ba": row.record.packets[1],
                "bytes_ab": row.record.bytes[0],
                "bytes_ba": row.record.bytes[1],
                "first": iso8601(row.record.first),
                "last": iso8601(row.record.last),
            })
        })
        .collect();
    json!({"flows": flows, "ledger": ledger, "error": failure.map(ToString::to_string)})
}

fn write_csv(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    writeln!(out, "community_id,proto,a,b,packets_ab,packets_ba,bytes_ab,bytes_ba,first,last")?;
    for row in rows {
        let FlowRecord { packets, bytes, first, last, .. } = &row.record;
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{}",
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
        )?;
    }
    Ok(())
}

/// The flows for people. Where the terminal is narrow, the two columns that could only
/// be shown as stumps are left out.
fn table(rows: &[Row], width: Option<usize>) -> Table {
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
    let mut table = Table::new(columns);
    for row in rows {
        let FlowRecord { packets, bytes, first, last, .. } = &row.record;
        let mut cells = vec![
            row.proto.clone(),
            row.a.clone(),
            row.b.clone(),
            human::count(packets[0]),
            human::count(packets[1]),
            human::count(bytes[0]),
            human::count(bytes[1]),
            human::duration(last.abs_diff(*first)),
        ];
        if is_wide {
            cells.extend([readable(*first), row.community_id.clone().unwrap_or_default()]);
        }
        table.row(cells);
    }
    table
}
