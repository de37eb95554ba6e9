//! The records that are listed: those that end while the capture is read, and those that are
//! open at its end. Memory does not grow with the former: they are printed at once, or stored
//! in a temporary file, or only the largest are kept.

use std::cmp::Reverse;
use std::env::temp_dir;
use std::io::{self, BufWriter, Stdout, Write as _};

use forebay_flow::{EndReason, FlowRecord, FlowTable};

use super::formats::{Row, write_heading, write_line};
use super::stored::StoredRecords;
use crate::cli::{FlowFormat, FlowsArgs};
use crate::failure::Failure;
use crate::input::file_failure;

/// Records beyond the largest that are kept before the smaller ones go.
const SPARE: usize = 1024;

/// Records that ended so far.
pub struct Listing {
    ended: Ended,
    evicted: u64,
    format: FlowFormat,
    seed: u16,
}

enum Ended {
    Printed(BufWriter<Stdout>),
    /// In a file, if there are any.
    Stored(Option<StoredRecords>),
    /// The largest so many by bytes, and some more.
    Largest(usize, Vec<FlowRecord>),
}

impl Listing {
    /// No records yet.
    pub fn new(format: FlowFormat, args: &FlowsArgs) -> Result<Self, Failure> {
        let ended = match (args.top, format) {
            (Some(top), _) => Ended::Largest(top, Vec::new()),
            (None, FlowFormat::Table | FlowFormat::Json) => Ended::Stored(None),
            (None, FlowFormat::Csv | FlowFormat::Jsonl) => Ended::Printed(stdout(format)?),
        };
        Ok(Self { ended, evicted: 0, format, seed: args.seed })
    }

    /// Takes a record that has ended.
    pub fn add(&mut self, record: &FlowRecord) -> Result<(), Failure> {
        self.evicted += u64::from(record.ended == Some(EndReason::Evicted));
        match &mut self.ended {
            Ended::Printed(out) => {
                write_line(out, self.format, &Row::new(record, self.seed)).map_err(Failure::Stdout)
            }
            Ended::Stored(Some(stored)) => stored.add(record).map_err(not_stored),
            Ended::Stored(none) => StoredRecords::new()
                .and_then(|stored| none.insert(stored).add(record))
                .map_err(not_stored),
            Ended::Largest(top, records) => {
                add_large(records, *top, record);
                Ok(())
            }
        }
    }

    /// Records that were evicted.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// With the records that are open at the end.
    pub fn with_open(mut self, open: &FlowTable) -> Result<Records<'_>, Failure> {
        match &mut self.ended {
            Ended::Stored(Some(stored)) => stored.flush().map_err(not_stored)?,
            Ended::Largest(top, records) => {
                open.records().for_each(|record| add_large(records, *top, record));
                keep_largest(records, *top);
            }
            Ended::Printed(_) | Ended::Stored(None) => {}
        }
        Ok(Records { listing: self, open })
    }
}

/// All records that were not printed yet: in the order in which they end, and those that are
/// open at the end by their first packets; or the largest first.
pub struct Records<'a> {
    listing: Listing,
    open: &'a FlowTable,
}

impl Records<'_> {
    /// Calls `each` for all of them.
    pub fn for_each(&self, each: &mut dyn FnMut(&Row<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut each = |record: &FlowRecord| each(&Row::new(record, self.listing.seed));
        match &self.listing.ended {
            Ended::Largest(_, records) => return records.iter().try_for_each(each),
            Ended::Stored(Some(stored)) => stored.for_each(&mut each)?,
            Ended::Printed(_) | Ended::Stored(None) => {}
        }
        self.open.records().try_for_each(each)
    }

    /// Prints them line by line.
    pub fn print(mut self) -> Result<(), Failure> {
        let format = self.listing.format;
        let nothing = Ended::Stored(None);
        let mut out = match std::mem::replace(&mut self.listing.ended, nothing) {
            Ended::Printed(out) => out,
            others => {
                self.listing.ended = others;
                stdout(format)?
            }
        };
        let printed = self.for_each(&mut |row| write_line(&mut out, format, row));
        printed.and_then(|()| out.flush()).map_err(Failure::Stdout)
    }
}

/// Standard output, after the heading.
fn stdout(format: FlowFormat) -> Result<BufWriter<Stdout>, Failure> {
    let mut out = BufWriter::new(io::stdout());
    write_heading(&mut out, format).map_err(Failure::Stdout)?;
    Ok(out)
}

fn add_large(records: &mut Vec<FlowRecord>, top: usize, record: &FlowRecord) {
    records.push(*record);
    if records.len() > top.saturating_mul(2).saturating_add(SPARE) {
        keep_largest(records, top);
    }
}

/// Keeps the largest, largest first; of equal ones the first.
fn keep_largest(records: &mut Vec<FlowRecord>, top: usize) {
    records.sort_by_key(|record| Reverse(record.total_bytes()));
    records.truncate(top);
}

fn not_stored(source: io::Error) -> Failure {
    file_failure("store records in a temporary file in", &temp_dir(), source)
}
