//! Open records by number.

use super::chunks::Chunks;
use super::record::FlowRecord;

/// No number.
const NONE: u32 = u32::MAX;

/// Open records, by numbers that are used again.
#[derive(Debug)]
pub(super) struct Slab {
    records: Chunks<FlowRecord>,
    /// The free record that is used next. Each free one has no packets, and the number of the
    /// next.
    free: u32,
    open: usize,
}

impl Slab {
    pub(super) fn new(huge_pages: bool) -> Self {
        Self { records: Chunks::new(huge_pages), free: NONE, open: 0 }
    }

    /// Open records.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Numbers that are or were in use.
    pub(super) fn numbers(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &FlowRecord {
        &self.records[number as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut FlowRecord {
        &mut self.records[number as usize]
    }

    /// The record of a number, if it is open.
    #[inline]
    pub(super) fn open_one(&self, number: u32) -> Option<&FlowRecord> {
        let record = self.records.get(number as usize)?;
        (!record.is_empty(0)).then_some(record)
    }

    /// Stores a record, which gets its first packet before another operation.
    pub(super) fn insert(&mut self, record: FlowRecord) -> u32 {
        self.open += 1;
        if self.free != NONE {
            let number = self.free;
            let free = self.get_mut(number);
            let next = free.next_free();
            *free = record;
            self.free = next;
            return number;
        }
        let number = self.numbers() as u32;
        self.records.push(record);
        number
    }

    /// Takes an open record out.
    pub(super) fn remove(&mut self, number: u32) -> FlowRecord {
        let next = self.free;
        let record = self.get_mut(number);
        let removed = *record;
        record.free(next);
        self.free = number;
        self.open -= 1;
        removed
    }

    /// Open records by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter().filter(|record| !record.is_empty(0))
    }
}
