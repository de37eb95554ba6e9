//! `forebay flows`: the flows of a capture.

use std::cmp::Reverse;
use std::io::{self, Write};

use forebay_packet::{Affinity, Decoder, HashKey, community_id};
use forebay_pipeline::stages::{Classify, Fragments, Window};
use forebay_pipeline::{Chain, FlowRecord, FlowTable, Ledger, Remarks};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::cli::{Cli, FlowFormat, FlowsArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{Input, decode_options, print, print_json, processors, read_options};
use crate::naming;
use crate::show::time::{iso8601, readable};
use crate::show::{Cell, Colour, Column, Layout, human, terminal_columns};

/// Terminal width from which the table shows first times and Community IDs.
const WIDE: usize = 120;

/// A flow as printed.
struct Row<'a> {
    community_id: Option<String>,
    proto: String,
    a: String,
    b: String,
    record: &'a FlowRecord,
}

/// The listed flows. Rows are generated one by one while they are written: a row as text
/// takes several times the memory of its record.
struct Listing<'a> {
    records: &'a [FlowRecord],
    /// Indices into `records`, if only the largest flows are listed.
    chosen: Option<Vec<u32>>,
    seed: u16,
}

pub fn run(cli: &Cli, args: &FlowsArgs) -> Result<(), Failure> {
    let options = read_options(&args.limits, processors());
    let mut input = Input::open(&args.read, &options, cli.quiet)?;
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
    flows.finish();
    let listing = Listing::new(&flows, args);
    let failure = run.error.map(Failure::from);
    let shown = match (cli.json, args.format) {
        (true, _) | (_, FlowFormat::Json) => print_json(&Document {
            listing: &listing,
            ledger: &run.ledger,
            remarks: &run.remarks,
            error: failure.as_ref().map(ToString::to_string),
        }),
        (_, FlowFormat::Csv) => print(|out| write_csv(out, &listing)),
        (_, FlowFormat::Table) => print(|out| write_table(out, &listing)),
    };
    if let Some(note) = naming::undecoded(&run.remarks).filter(|_| !cli.quiet && !cli.json) {
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{note}");
    }
    conclude(&run.ledger, cli, failure, shown)
}

impl<'a> Listing<'a> {
    /// The flows in the order of their first packets, or the largest first if only some are
    /// requested.
    fn new(flows: &'a FlowTable, args: &FlowsArgs) -> Self {
        let records = flows.records();
        let chosen = args.top.map(|top| {
            // A table has 32-bit flow numbers.
            let mut places: Vec<u32> = (0..records.len() as u32).collect();
            let size = |place: &u32| Reverse(records[*place as usize].total_bytes());
            places.sort_unstable_by_key(|place| (size(place), *place));
            places.truncate(top);
            places.shrink_to_fit();
            places
        });
        Self { records, chosen, seed: args.seed }
    }

    fn records(&self) -> Box<dyn Iterator<Item = &'a FlowRecord> + '_> {
        match &self.chosen {
            Some(places) => Box::new(places.iter().map(|&place| &self.records[place as usize])),
            None => Box::new(self.records.iter()),
        }
    }

    fn rows(&self) -> impl Iterator<Item = Row<'a>> {
        self.records().map(|record| {
            let (a, b) = naming::ends(&record.key, record.a_is_high);
            Row {
                community_id: community_id(&record.key, self.seed),
                proto: naming::protocol(&record.key),
                a,
                b,
                record,
            }
        })
    }
}

/// The output of `--json`.
struct Document<'a> {
    listing: &'a Listing<'a>,
    ledger: &'a Ledger,
    remarks: &'a Remarks,
    error: Option<String>,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // In alphabetical order, as all JSON of the command.
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("closes", &self.ledger.closes())?;
        map.serialize_entry("error", &self.error)?;
        map.serialize_entry("flows", self.listing)?;
        map.serialize_entry("ledger", &json!(self.ledger))?;
        map.serialize_entry("undecoded", &naming::undecoded_json(self.remarks))?;
        map.end()
    }
}

impl Serialize for Listing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows().map(|row| as_json(&row)))
    }
}

fn as_json(row: &Row<'_>) -> Value {
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
    });
    let ends = naming::ends_json(["a", "b"], &row.record.key, row.record.a_is_high);
    naming::with_fields(flow, ends)
}

fn write_csv(out: &mut dyn Write, listing: &Listing<'_>) -> io::Result<()> {
    writeln!(out, "community_id,proto,a,b,packets_ab,packets_ba,bytes_ab,bytes_ba,first,last")?;
    for row in listing.rows() {
        let FlowRecord { packets, bytes, first, last, .. } = row.record;
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

/// The table of flows. On a narrow terminal the two columns that would be too narrow are
/// omitted.
fn write_table(out: &mut dyn Write, listing: &Listing<'_>) -> io::Result<()> {
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
    for row in listing.rows() {
        layout.measure(&cells(row, is_wide));
    }
    layout.fit(width);
    let mut lines = String::new();
    layout.render_heading(&mut lines, colour);
    for row in listing.rows() {
        layout.render_row(&mut lines, &cells(row, is_wide), colour);
        out.write_all(lines.as_bytes())?;
        lines.clear();
    }
    // Without flows, only the heading.
    out.write_all(lines.as_bytes())
}

fn cells(row: Row<'_>, is_wide: bool) -> Vec<Cell> {
    let FlowRecord { packets, bytes, first, last, .. } = row.record;
    let mut cells: Vec<Cell> = vec![
        row.proto.into(),
        row.a.into(),
        row.b.into(),
        human::count(packets[0]).into(),
        human::count(packets[1]).into(),
        human::count(bytes[0]).into(),
        human::count(bytes[1]).into(),
        human::duration(last.abs_diff(*first)).into(),
    ];
    if is_wide {
        cells.extend([readable(*first).into(), row.community_id.unwrap_or_default().into()]);
    }
    cells
}
