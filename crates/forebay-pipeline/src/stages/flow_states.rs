//! Two bytes of a stage's own for each flow, beside those in its record.

use forebay_flow::FlowRecord;
use forebay_packet::Batch;

/// The most states. Flows whose records have numbers that are equal modulo this share one.
const STATES: usize = 1 << 22;

/// What a stage's states take at most, in bytes.
pub(super) const MOST_BYTES: u64 = (STATES * size_of::<u16>()) as u64;

/// States of flows by the numbers of their records.
#[derive(Debug, Default)]
pub(super) struct FlowStates(Vec<u16>);

impl FlowStates {
    /// The state of the flow of packet `i`, of which `record` is the record. It is 0 if the record
    /// begins with the packet.
    pub(super) fn of(&mut self, batch: &Batch, i: usize, record: &FlowRecord) -> &mut u16 {
        let at = batch.record[i] as usize % STATES;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let state = &mut self.0[at];
        if begins(batch, i, record) {
            *state = 0;
        }
        state
    }
}

/// Whether packet `i` is of the first batch with packets of its record, and has the direction of
/// the first.
pub(super) fn begins(batch: &Batch, i: usize, record: &FlowRecord) -> bool {
    batch.first.contains(i) && batch.reversed[i] == record.a_is_high
}
