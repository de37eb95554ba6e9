//! Two bytes of a stage's own for each flow, beside those in its record.

use forebay_flow::FlowRecord;
use forebay_packet::{Batch, FlowKey};

use crate::shared_flows::ENDED;

/// The most states. Flows whose records have numbers that are equal modulo this share one.
const STATES: usize = 1 << 22;

/// What a stage's states take at most, in bytes.
pub(super) const MOST_BYTES: u64 = (STATES * size_of::<Cell>()) as u64;

/// A state, of which flow, and by which policy.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    tag: u16,
    owner: u16,
    state: u16,
}

/// States of flows by the numbers of their records.
#[derive(Debug)]
pub(super) struct FlowStates(Vec<Cell>);

impl Default for FlowStates {
    fn default() -> Self {
        // Pages of zeros, none of which is touched before a flow needs it.
        Self(vec![Cell::default(); STATES])
    }
}

impl FlowStates {
    /// The state that `owner` keeps of the flow of packet `i`, of which `record` is the record; 0 if
    /// it has kept none since the flow began. None if another owner that `lives` keeps the flow's
    /// state, or if the record has ended by the batch.
    ///
    /// That it is this flow's state, and not one of a flow that had the number before, is known by
    /// 16 bits of the key: of 65,536 flows whose first packet no owner decided on, one goes on with
    /// the state of another.
    pub(super) fn of(
        &mut self,
        batch: &Batch,
        i: usize,
        record: &FlowRecord,
        owner: u16,
        lives: impl Fn(u16) -> bool,
    ) -> Option<&mut u16> {
        let number = batch.record[i];
        if number & ENDED != 0 {
            return None;
        }
        let cell = &mut self.0[number as usize % STATES];
        let tag = tag(&record.key);
        let is_of_flow = cell.tag == tag && !begins(batch, i, record);
        if !is_of_flow || (cell.owner != owner && !lives(cell.owner)) {
            *cell = Cell { tag, owner, state: 0 };
        }
        (cell.owner == owner).then_some(&mut cell.state)
    }
}

/// Whether packet `i` is the first of its flow.
pub(super) fn begins(batch: &Batch, i: usize, record: &FlowRecord) -> bool {
    let is_first = batch.first.contains(i) && batch.reversed[i] == record.a_is_high();
    is_first && !batch.resumed.contains(i)
}

/// 16 bits of a key.
fn tag(key: &FlowKey) -> u16 {
    let fold = |wide: u128| wide as u64 ^ (wide >> 64) as u64;
    let ports = u64::from(key.port_low) << 16 | u64::from(key.port_high);
    let ends = fold(key.low).rotate_left(24) ^ fold(key.high) ^ key.scope ^ ports << 24;
    // The golden ratio times 2^64, odd: Fibonacci hashing.
    (ends.wrapping_add(key.protocol.into()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}

#[cfg(test)]
mod tests {
    use forebay_gen::{Config, Generator};

    use super::*;

    /// A batch whose packets are all of record 7, in the direction of its first packet.
    fn batch() -> Batch {
        let config = Config { packets: 1000, flows: 10, ..Config::default() };
        let mut batch = Generator::new(config).unwrap().next_batch().unwrap().unwrap();
        batch.record = vec![7; batch.len()];
        batch.reversed = vec![false; batch.len()];
        batch
    }

    fn record(port_low: u16) -> FlowRecord {
        FlowRecord::new(FlowKey { port_low, ..FlowKey::default() }, false, 0)
    }

    #[test]
    fn a_flow_does_not_go_on_with_the_state_of_another() {
        let (mut states, mut batch) = (FlowStates::default(), batch());
        *states.of(&batch, 0, &record(1), 1, |_| true).unwrap() = 5;
        assert_eq!(states.of(&batch, 1, &record(1), 1, |_| true), Some(&mut 5));
        // Its number is another flow's, whose first packet was not decided on.
        assert_eq!(states.of(&batch, 0, &record(2), 1, |_| true), Some(&mut 0));
        *states.of(&batch, 0, &record(2), 1, |_| true).unwrap() = 6;
        // A connection with the same ends begins.
        batch.first.insert(0);
        assert_eq!(states.of(&batch, 0, &record(2), 1, |_| true), Some(&mut 0));
        *states.of(&batch, 1, &record(2), 1, |_| true).unwrap() = 7;
        // A record goes on with the flow.
        batch.resumed.insert(0);
        assert_eq!(states.of(&batch, 0, &record(2), 1, |_| true), Some(&mut 7));
    }

    #[test]
    fn a_state_has_one_owner_until_it_is_gone() {
        let (mut states, batch) = (FlowStates::default(), batch());
        *states.of(&batch, 0, &record(1), 1, |_| true).unwrap() = 5;
        assert_eq!(states.of(&batch, 1, &record(1), 2, |owner| owner < 3), None);
        assert_eq!(states.of(&batch, 1, &record(1), 1, |owner| owner < 3), Some(&mut 5));
        assert_eq!(states.of(&batch, 1, &record(1), 2, |owner| owner > 1), Some(&mut 0));
    }
}
