//! What is known of each flow: packets and bytes either way, first and last time.

use std::hash::{BuildHasher as _, RandomState};

use forebay_packet::flow::AddressKind;
use forebay_packet::{Batch, FlowKey, HashKey};
use hashbrown::HashTable;

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
    /// The output of the first packet each way, likewise; nothing where none went that
    /// way, or nothing was balanced. The two differ only where flows are split by one end.
    pub outputs: [Option<u16>; 2],
}

impl FlowRecord {
    /// The output of the first packet.
    #[must_use]
    pub fn output(&self) -> Option<u16> {
        self.outputs[0]
    }

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

/// The flows seen, in the order of their first packets. Packets in which no address
/// was found are one record, its `low` 0: what they have in common is just that.
#[derive(Debug)]
pub struct FlowTable {
    /// Indexes of the records, by the hashes of their keys.
    index: HashTable<u32>,
    /// Of this table alone, so that no traffic can be made to collide in it.
    hash_key: HashKey,
    records: Vec<FlowRecord>,
    /// Those of the batch that is counted.
    hashes: Vec<u64>,
    limit: usize,
    unrecorded: u64,
}

impl Default for FlowTable {
    fn default() -> Self {
        Self::with_limit(usize::MAX)
    }
}

impl FlowTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty table that records at most the first `flows` flows; of all others it
    /// counts only the packets, together.
    #[must_use]
    pub fn with_limit(flows: usize) -> Self {
        // Records are numbered by u32.
        let limit = flows.min(u32::MAX as usize);
        let random = RandomState::new();
        let hash_key = HashKey([random.hash_one(0), random.hash_one(1)]);
        let (index, records, hashes) = Default::default();
        Self { index, hash_key, records, hashes, limit, unrecorded: 0 }
    }

    /// Counts the live packets of a classified batch.
    pub fn count(&mut self, batch: &Batch) {
        // Hashes first: they do not wait for one another, nor for records from memory.
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        hashes.extend(keys(batch).map(|(_, key, _)| key.hash(&self.hash_key)));
        for ((i, key, reversed), &hash) in keys(batch).zip(&hashes) {
            let (nanos, records) = (batch.nanos(i), &mut self.records);
            let at = match self.index.find(hash, |&at| records[at as usize].key == key) {
                Some(&at) => at as usize,
                None if records.len() >= self.limit => {
                    self.unrecorded += 1;
                    continue;
                }
                None => {
                    let hash_of = |&at: &u32| records[at as usize].key.hash(&self.hash_key);
                    self.index.insert_unique(hash, records.len() as u32, hash_of);
                    records.push(FlowRecord {
                        key,
                        a_is_high: reversed,
                        packets: [0; 2],
                        bytes: [0; 2],
                        first: nanos,
                        last: nanos,
                        outputs: [None; 2],
                    });
                    records.len() - 1
                }
            };
            let record = &mut records[at];
            let direction = usize::from(reversed != record.a_is_high);
            if record.packets[direction] == 0 {
                record.outputs[direction] = batch.output.get(i).copied();
            }
            record.packets[direction] += 1;
            record.bytes[direction] += u64::from(batch.wire_len(i));
            record.first = record.first.min(nanos);
            record.last = record.last.max(nanos);
        }
        self.hashes = hashes;
    }

    /// Gives back the memory by which flows are found: all packets are counted. What is still
    /// counted begins flows anew.
    pub fn finish(&mut self) {
        self.index = HashTable::new();
    }

    /// Packets of flows beyond the limit.
    #[must_use]
    pub fn unrecorded_packets(&self) -> u64 {
        self.unrecorded
    }

    /// The flows.
    #[must_use]
    pub fn records(&self) -> &[FlowRecord] {
        &self.records
    }
}

/// The live packets of a classified batch with their flows, and whether each goes from the
/// high end.
fn keys(batch: &Batch) -> impl Iterator<Item = (usize, FlowKey, bool)> {
    batch.live().iter().filter_map(|i| {
        let (&key, &reversed) = (batch.key.get(i)?, batch.reversed.get(i)?);
        let is_opaque = key.kind == AddressKind::Opaque;
        Some((i, if is_opaque { FlowKey { low: 0, ..key } } else { key }, reversed))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_packet::{Interface, PacketMeta, Region};

    use super::*;

    fn batch(keys: &[FlowKey]) -> Batch {
        let region = Arc::new(Region::new(64).unwrap());
        let mut batch = Batch::new(region, Arc::new(vec![Interface::default()]));
        for _ in keys {
            let meta = PacketMeta { offset: 0, cap_len: 10, wire_len: 60, ticks: 7, interface: 0 };
            batch.push(meta).unwrap();
        }
        batch.key.extend_from_slice(keys);
        batch.reversed.resize(keys.len(), false);
        batch
    }

    fn udp(low: u128) -> FlowKey {
        FlowKey { low, high: 9, protocol: 17, kind: AddressKind::Ipv4, ..FlowKey::default() }
    }

    #[test]
    fn packets_without_addresses_are_one_record() {
        let opaque = |low| FlowKey { low, ..FlowKey::default() };
        let mut flows = FlowTable::new();
        flows.count(&batch(&[opaque(1), udp(1), opaque(2), udp(2), opaque(3)]));
        let counted: Vec<_> =
            flows.records().iter().map(|record| (record.key, record.total_packets())).collect();
        assert_eq!(counted, [(opaque(0), 3), (udp(1), 1), (udp(2), 1)]);
    }

    #[test]
    fn each_direction_has_an_output() {
        let mut packets = batch(&[udp(1), udp(1), udp(1), udp(2)]);
        packets.reversed.copy_from_slice(&[true, true, false, false]);
        packets.output.extend_from_slice(&[3, 3, 5, 4]);
        let mut flows = FlowTable::new();
        flows.count(&packets);
        let outputs: Vec<_> = flows.records().iter().map(|record| record.outputs).collect();
        assert_eq!(outputs, [[Some(3), Some(5)], [Some(4), None]]);
        assert_eq!(flows.records()[0].output(), Some(3));
        let mut unbalanced = FlowTable::new();
        unbalanced.count(&batch(&[udp(1)]));
        assert_eq!(unbalanced.records()[0].output(), None);
    }

    #[test]
    fn beyond_the_limit_only_packets_are_counted() {
        let mut flows = FlowTable::with_limit(2);
        flows.count(&batch(&[udp(1), udp(2), udp(3), udp(1), udp(4), udp(3)]));
        let packets: Vec<_> = flows.records().iter().map(FlowRecord::total_packets).collect();
        assert_eq!((packets, flows.unrecorded_packets()), (vec![2, 1], 3));
        let mut all = FlowTable::new();
        all.count(&batch(&[udp(1), udp(2), udp(3)]));
        assert_eq!((all.records().len(), all.unrecorded_packets()), (3, 0));
    }
}
