//! The records that are listed: those that end while the capture is read, and those that are
//! open at its end. Memory does not grow with the former: they are written at once, or stored
//! in a temporary file, or only the largest are kept.

use std::cmp::Reverse;
use std::env::temp_dir;
use std::io;

use forebay_export::Row;
use forebay_flow::{EndReason, FlowRecord, FlowTable};

use super::output::Output;
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
    /// Where records are written, unless they are printed in another form.
    output: Option<Output>,
    seed: u16,
}

enum Ended {
    Written,
    /// In a file, if there are any.
    Stored(Option<StoredRecords>),
    Largest(Largest),
}

/// The largest records.
struct Largest {
    top: usize,
    /// The largest by bytes, and some more.
    records: Vec<FlowRecord>,
    /// Bytes that a record must exceed to be one of the largest.
    least: Option<u64>,
}

impl Listing {
    /// No records yet.
    pub fn new(format: FlowFormat, args: &FlowsArgs) -> Result<Self, Failure> {
        let is_stored = args.write.is_none() && format.is_shown_whole();
        let output = if is_stored { None } else { Some(Output::new(format, args)?) };
        let ended = match args.top {
            Some(top) => Ended::Largest(Largest { top, records: Vec::new(), least: None }),
            None if is_stored => Ended::Stored(None),
            None => Ended::Written,
        };
        Ok(Self { ended, evicted: 0, output, seed: args.seed })
    }

    /// Takes a record that has ended.
    pub fn add(&mut self, record: &FlowRecord) -> Result<(), Failure> {
        self.evicted += u64::from(record.ended == Some(EndReason::Evicted));
        match &mut self.ended {
            Ended::Written => {
                let Some(output) = &mut self.output else { return Ok(()) };
                let written = output.write(&Row::new(record, self.seed, None));
                written.map_err(|error| output.failure(error))
            }
            Ended::Stored(Some(stored)) => stored.add(record).map_err(not_stored),
            Ended::Stored(none) => StoredRecords::new()
                .and_then(|stored| none.insert(stored).add(record))
                .map_err(not_stored),
            Ended::Largest(largest) => {
                largest.add(record);
                Ok(())
            }
        }
    }

    /// Passes buffered lines on, for a reader that waits for them.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.output.as_mut().map_or(Ok(()), Output::flush)
    }

    /// Records that were evicted.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// With the records that are open at the end.
    pub fn with_open(mut self, open: &FlowTable) -> Result<Records<'_>, Failure> {
        match &mut self.ended {
            Ended::Stored(Some(stored)) => stored.flush().map_err(not_stored)?,
            Ended::Largest(largest) => {
                open.records().for_each(|record| largest.add(record));
                largest.shrink();
            }
            Ended::Written | Ended::Stored(None) => {}
        }
        Ok(Records { listing: self, open })
    }
}

/// All records that were not written yet: in the order in which they end, and those that are
/// open at the end by their first packets; or the largest first.
pub struct Records<'a> {
    listing: Listing,
    open: &'a FlowTable,
}

impl Records<'_> {
    /// Calls `each` for all of them.
    pub fn for_each(&self, each: &mut dyn FnMut(&Row<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut each = |record: &FlowRecord| each(&Row::new(record, self.listing.seed, None));
        match &self.listing.ended {
            Ended::Largest(largest) => return largest.records.iter().try_for_each(each),
            Ended::Stored(Some(stored)) => stored.for_each(&mut each)?,
            Ended::Written | Ended::Stored(None) => {}
        }
        self.open.records().try_for_each(each)
    }

    /// Writes them. Unless the output `stands`, it is removed. Returns the number of its records.
    pub fn write(mut self, stands: bool) -> Result<u64, Failure> {
        let Some(mut output) = self.listing.output.take() else { return Ok(0) };
        if stands || output.is_stream() {
            let written = self.for_each(&mut |row| output.write(row));
            written.map_err(|error| output.failure(error))?;
        }
        output.finish(stands)
    }
}

impl Largest {
    #[inline]
    fn add(&mut self, record: &FlowRecord) {
        if self.least.is_some_and(|least| record.total_bytes() <= least) {
            return;
        }
        self.records.push(*record);
        if self.records.len() > self.top.saturating_mul(2).saturating_add(SPARE) {
            self.shrink();
        }
    }

    /// Keeps the largest, largest first; of equal ones the first.
    fn shrink(&mut self) {
        self.records.sort_by_key(|record| Reverse(record.total_bytes()));
        if self.records.len() >= self.top {
            self.records.truncate(self.top);
            // None is larger than the smallest of no records.
            self.least = Some(self.records.last().map_or(u64::MAX, FlowRecord::total_bytes));
        }
    }
}

fn not_stored(source: io::Error) -> Failure {
    file_failure("store records in a temporary file in", &temp_dir(), source)
}

#[cfg(test)]
mod tests {
    use forebay_flow::DirectionCounts;
    use forebay_packet::FlowKey;

    use super::*;

    #[test]
    fn the_largest_are_as_after_sorting_all() {
        let record = |number: u64| {
            let bytes = number.wrapping_mul(0x9e37_79b9) >> 7 & 0xff;
            let counts = DirectionCounts { packets: 1, bytes, first: 0, last: 0 };
            let key = FlowKey { low: number.into(), ..FlowKey::default() };
            FlowRecord::new(key, false, 0).with_directions([counts, DirectionCounts::default()])
        };
        let all: Vec<_> = (0..10_000).map(record).collect();
        for (count, top) in [(10_000, 3), (10_000, 0), (10_000, 1500), (5, 7), (7, 7), (0, 2)] {
            let mut largest = Largest { top, records: Vec::new(), least: None };
            all[..count].iter().for_each(|record| largest.add(record));
            largest.shrink();
            let mut expected = all[..count].to_vec();
            expected.sort_by_key(|record| Reverse(record.total_bytes()));
            expected.truncate(top);
            assert_eq!(largest.records, expected, "{top} of {count}");
        }
    }
}
