//! What is known of each flow: packets and bytes either way, first and last time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use forebay_packet::{Batch, FlowKey};

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The flow.
    pub key: FlowKey,
    /// The first packet came from the key's high end, which is therefore `a`.
    pub a_is_high: bool,
    /// Packets from the end that sent the first packet, and to it.
    pub packets: [u64; 2],
    /// Bytes on the wire from the end that sent the first packet, and to it.
    pub bytes: [u64; 2],
    /// Earliest time stamp, nanoseconds since the epoch.
    pub first: i64,
    /// Latest time stamp, nanoseconds since the epoch.
    pub last: i64,
    /// The output of the first packet; 0 where nothing was balanced.
    pub output: u16,
}

impl FlowRecord {
    /// Packets both ways.
    #[must_use]
    pub fn total_packets(&self) -> u64 {
        self.packets[0] + self.packets[1]
    }

    /// Bytes on the wire both ways.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes[0] + self.bytes[1]
    }
}

/// All flows seen, in the order of their first packets.
#[derive(Debug, Default)]
pub struct FlowTable {
    index: HashMap<FlowKey, u32>,
    records: Vec<FlowRecord>,
}

impl FlowTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the live packets of a classified batch.
    pub fn count(&mut self, batch: &Batch) {
        for i in batch.live().iter() {
            let (Some(&key), Some(&reversed)) = (batch.key.get(i), batch.reversed.get(i)) else {
                continue;
            };
            let nanos = batch.nanos(i);
            let at = match self.index.entry(key) {
                Entry::Occupied(slot) => *slot.get() as usize,
                Entry::Vacant(slot) => {
                    slot.insert(self.records.len() as u32);
                    self.records.push(FlowRecord {
                        key,
                        a_is_high: reversed,
                        packets: [0; 2],
                        bytes: [0; 2],
                        first: nanos,
                        last: nanos,
                        output: batch.output.get(i).copied().unwrap_or(0),
                    });
                    self.records.len() - 1
                }
            };
            let record = &mut self.records[at];
            let direction = usize::from(reversed != record.a_is_high);
            record.packets[direction] += 1;
            record.bytes[direction] += u64::from(batch.wire_len(i));
            record.first = record.first.min(nanos);
            record.last = record.last.max(nanos);
        }
    }

    /// The flows.
    #[must_use]
    pub fn records(&self) -> &[FlowRecord] {
        &self.records
    }
}
