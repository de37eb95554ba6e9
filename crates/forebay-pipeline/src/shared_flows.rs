//! The records of a chain's flows, which several of its stages use, and where records go that
//! have ended.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_flow::{FlowRecord, FlowTable};
use forebay_packet::Batch;
use forebay_packet::flow::AddressKind;

use crate::stage::Setting;

/// Set in the column `record` where the record has ended by the batch: the other bits are its
/// place among these.
pub(crate) const ENDED: u32 = 1 << 31;

/// The records of the flows of one chain.
#[derive(Debug, Default)]
pub struct ChainRecords {
    /// The open ones; none while no stage keeps any.
    pub table: Option<FlowTable>,
    /// Those that have ended by the batch under way, or since. Later stages still note in them what
    /// becomes of their packets.
    pub(crate) ended: Vec<FlowRecord>,
}

impl ChainRecords {
    /// The number, for the column `record`, of a record that has ended now.
    pub(crate) fn end(ended: &mut Vec<FlowRecord>, record: FlowRecord) -> u32 {
        ended.push(record);
        ENDED | (ended.len() - 1) as u32
    }

    /// The record of packet `i` of the batch under way, if it has one.
    pub(crate) fn of(&mut self, batch: &Batch, i: usize) -> Option<&mut FlowRecord> {
        let number = *batch.record.get(i)?;
        let record = match number & ENDED {
            0 => self.table.as_mut()?.record_mut(number)?,
            _ => self.ended.get_mut((number & !ENDED) as usize)?,
        };
        debug_assert!(record.key.kind == AddressKind::Opaque || record.key.is(&batch.key[i]));
        Some(record)
    }
}

/// The records of the flows of one chain, for its stages.
///
/// Only the thread that runs the chain locks it, once a batch. So it never waits.
#[derive(Clone, Debug, Default)]
pub struct SharedFlows(Arc<Mutex<ChainRecords>>);

impl SharedFlows {
    /// The records, until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, ChainRecords> {
        // They are in order between any two operations.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the records of flows that have ended.
pub trait RecordSink: fmt::Debug + Send + Sync {
    /// Takes records, at least one, at most once a batch. It does not wait: it counts what it has
    /// no room for. What it leaves in the list is dropped.
    fn offer(&self, ended: &mut Vec<FlowRecord>);

    /// Takes a table to which no packets come any more, with its open records.
    fn retire(&self, table: FlowTable);
}

/// The setting of a group: where its records go, if anywhere.
#[derive(Clone, Debug, Default)]
pub struct RecordExport(pub Option<Arc<dyn RecordSink>>);

impl Setting for RecordExport {}
