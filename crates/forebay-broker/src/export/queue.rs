//! The queue of a worker's records that have ended, which the writing thread takes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use forebay_flow::{FlowRecord, FlowTable};
use forebay_pipeline::RecordSink;

use super::lock;

/// Records that end in a worker's chain of a group.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) group: String,
    pub(super) worker: usize,
    pub(super) records: usize,
    pub(super) content: Mutex<Content>,
    /// The sensor behind each output.
    pub(super) sensors: Mutex<Arc<Vec<Option<String>>>>,
}

#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) records: Vec<FlowRecord>,
    pub(super) table: Option<FlowTable>,
    /// Until the records of a table are written.
    pub(super) has_table: bool,
    pub(super) lost: u64,
}

impl Queue {
    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        lock(&self.content)
    }
}

impl RecordSink for Queue {
    fn offer(&self, ended: &mut Vec<FlowRecord>) {
        let mut content = self.content();
        let fit = ended.len().min(self.records - content.records.len());
        content.lost += (ended.len() - fit) as u64;
        content.records.extend(ended.drain(..fit));
    }

    fn retire(&self, table: FlowTable) {
        let mut content = self.content();
        if !content.has_table {
            content.has_table = true;
            content.table = Some(table);
        } else {
            content.lost += table.open() as u64;
            drop(content);
            // Packets do not wait until the system has taken so much memory back. Without a thread
            // they do.
            drop(thread::Builder::new().spawn(move || drop(table)));
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_flow::{OnFull, RecordOptions};

    use super::*;

    #[test]
    fn a_queue_counts_what_it_has_no_room_for() {
        let queue = Queue {
            group: "ids".to_owned(),
            worker: 0,
            records: 64,
            content: Mutex::default(),
            sensors: Mutex::default(),
        };
        for _ in 0..3 {
            queue.offer(&mut vec![FlowRecord::default(); 30]);
        }
        let content = queue.content();
        assert_eq!((content.records.len(), content.lost), (64, 26));
        drop(content);
        let retire = || queue.retire(FlowTable::new(RecordOptions::new(8, OnFull::Evict)));
        let waits = || queue.content().table.take().is_some();
        retire();
        assert!(waits());
        // While it is written, no other takes memory.
        retire();
        assert!(!waits());
        queue.content().has_table = false;
        retire();
        assert!(waits());
    }
}
