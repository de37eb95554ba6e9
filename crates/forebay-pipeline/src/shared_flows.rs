//! The records of a chain's flows, which several of its stages use, and where records go that
//! have ended.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_flow::{FlowRecord, FlowTable};

use crate::stage::Setting;

/// The records of the flows of one chain; none while no stage keeps any.
///
/// Only the thread that runs the chain locks it, once a batch. So it never waits.
#[derive(Clone, Debug, Default)]
pub struct SharedFlows(Arc<Mutex<Option<FlowTable>>>);

impl SharedFlows {
    /// The table, until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, Option<FlowTable>> {
        // It is in order between any two operations.
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
