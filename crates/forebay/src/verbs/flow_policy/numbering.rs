//! Numbers of flows.

use std::hash::{BuildHasher as _, RandomState};

use forebay_packet::flow::AddressKind;
use forebay_packet::{FlowKey, HashKey};
use hashbrown::HashTable;

/// Numbers flows in the order of their first packets.
#[derive(Debug)]
pub(super) struct Numbering {
    /// Numbers by the hashes of their flows.
    numbers: HashTable<u32>,
    /// Of these numbers alone, so that no traffic can be made to collide in them.
    hash_key: HashKey,
    flows: Vec<FlowKey>,
    /// Whether the first packet of each flow came from its high end.
    reversed: Vec<bool>,
    limit: usize,
}

impl Numbering {
    /// Without flows. All flows beyond the first `limit` have the same number.
    pub(super) fn new(limit: usize) -> Self {
        let random = RandomState::new();
        let hash_key = HashKey([random.hash_one(0), random.hash_one(1)]);
        let (numbers, flows, reversed) = Default::default();
        Self { numbers, hash_key, flows, reversed, limit }
    }

    /// The number of a packet's flow. All packets without addresses are one flow.
    pub(super) fn number(&mut self, key: &FlowKey, reversed: bool) -> u32 {
        let is_opaque = key.kind == AddressKind::Opaque;
        let key = if is_opaque { FlowKey { low: 0, ..*key } } else { *key };
        let Self { numbers, hash_key, flows, .. } = self;
        let hash = key.hash(hash_key);
        if let Some(&number) = numbers.find(hash, |&number| flows[number as usize] == key) {
            return number;
        }
        let number = flows.len() as u32;
        if flows.len() < self.limit {
            numbers.insert_unique(hash, number, |&number| flows[number as usize].hash(hash_key));
            flows.push(key);
            self.reversed.push(reversed);
        }
        number
    }

    /// The flow of a number, and whether its first packet came from the high end; none for the
    /// number that all flows beyond the limit have.
    pub(super) fn flow(&self, number: usize) -> Option<(&FlowKey, bool)> {
        Some((self.flows.get(number)?, *self.reversed.get(number)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_numbers_up_to_the_limit_and_then_share_one() {
        let mut numbering = Numbering::new(3);
        let key = |low| FlowKey { low, kind: AddressKind::Ipv4, ..FlowKey::default() };
        let numbers = [7, 9, 7, 1, 2, 3, 9].map(|low| numbering.number(&key(low), low == 9));
        assert_eq!(numbers, [0, 1, 0, 2, 3, 3, 1]);
        assert_eq!(numbering.flow(1), Some((&key(9), true)));
        assert_eq!(numbering.flow(3), None);
        let mut numbering = Numbering::new(3);
        let opaque = |low| FlowKey { low, ..FlowKey::default() };
        assert_eq!([5, 6].map(|low| numbering.number(&opaque(low), false)), [0, 0]);
    }
}
