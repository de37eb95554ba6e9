//! Records in a file, so that memory does not grow with those that end.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

use forebay_flow::{DirectionCounts, EndReason, FlowRecord};
use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;

/// Words of a record in the file.
const WORDS: usize = 15;

const KINDS: [AddressKind; 5] =
    [AddressKind::Opaque, AddressKind::Ipv4, AddressKind::Ipv6, AddressKind::Mac, AddressKind::Arp];
const REASONS: [EndReason; 4] =
    [EndReason::Idle, EndReason::Active, EndReason::Closed, EndReason::Evicted];

/// Records that have ended, in a temporary file without a name.
pub struct StoredRecords {
    file: BufWriter<File>,
    records: u64,
}

impl StoredRecords {
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile()?), records: 0 })
    }

    pub fn add(&mut self, record: &FlowRecord) -> io::Result<()> {
        self.records += 1;
        self.file.write_all(to_words(record).map(u64::to_le_bytes).as_flattened())
    }

    /// Writes what is not in the file yet.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Calls `each` for all records in their order, which are flushed.
    pub fn for_each(&self, each: &mut dyn FnMut(&FlowRecord) -> io::Result<()>) -> io::Result<()> {
        let mut file = self.file.get_ref();
        file.rewind()?;
        let mut reader = BufReader::new(file);
        let mut bytes = [[0; size_of::<u64>()]; WORDS];
        for _ in 0..self.records {
            reader.read_exact(bytes.as_flattened_mut())?;
            each(&from_words(bytes.map(u64::from_le_bytes)))?;
        }
        Ok(())
    }
}

fn to_words(record: &FlowRecord) -> [u64; WORDS] {
    let FlowRecord { key, tcp_flags, ended, .. } = *record;
    let kind = KINDS.iter().position(|kind| *kind == key.kind).unwrap_or(0);
    let reason = ended.and_then(|ended| REASONS.iter().position(|one| *one == ended));
    let reason = reason.unwrap_or(REASONS.len());
    let flags = u8::from(key.has_ports) | u8::from(record.a_is_high()) << 1;
    let [low, high] = [key.port_low, key.port_high].map(u16::to_le_bytes);
    // Sensors have smaller numbers.
    let [ab, ba] = record.outputs().map(|output| output.unwrap_or(u16::MAX).to_le_bytes());
    let [ab_flags, ba_flags] = tcp_flags;
    let [ab_counts, ba_counts] = record.directions().map(|counts| {
        let DirectionCounts { packets, bytes, first, last } = counts;
        [packets, bytes, first.cast_unsigned(), last.cast_unsigned()]
    });
    let ports = [low[0], low[1], high[0], high[1], key.protocol, kind as u8, flags, reason as u8];
    [
        key.low as u64,
        (key.low >> 64) as u64,
        key.high as u64,
        (key.high >> 64) as u64,
        key.scope,
        u64::from_le_bytes(ports),
        u64::from_le_bytes([ab[0], ab[1], ba[0], ba[1], ab_flags, ba_flags, 0, 0]),
        ab_counts[0],
        ab_counts[1],
        ab_counts[2],
        ab_counts[3],
        ba_counts[0],
        ba_counts[1],
        ba_counts[2],
        ba_counts[3],
    ]
}

fn from_words(words: [u64; WORDS]) -> FlowRecord {
    let [low, low_end, high, high_end, scope, ports, outputs, rest @ ..] = words;
    let [low_port, low_port_end, high_port, high_port_end, protocol, kind, flags, reason] =
        ports.to_le_bytes();
    let [ab, ab_end, ba, ba_end, ab_flags, ba_flags, _, _] = outputs.to_le_bytes();
    let counts = |[packets, bytes, first, last]: [u64; 4]| DirectionCounts {
        packets,
        bytes,
        first: first.cast_signed(),
        last: last.cast_signed(),
    };
    let [ab_counts @ .., _, _, _, _] = rest;
    let [_, _, _, _, ba_counts @ ..] = rest;
    let key = FlowKey {
        low: u128::from(low) | u128::from(low_end) << 64,
        high: u128::from(high) | u128::from(high_end) << 64,
        scope,
        port_low: u16::from_le_bytes([low_port, low_port_end]),
        port_high: u16::from_le_bytes([high_port, high_port_end]),
        protocol,
        kind: KINDS.get(usize::from(kind)).copied().unwrap_or_default(),
        has_ports: flags & 1 != 0,
    };
    let mut record = FlowRecord::new(key, flags & 2 != 0, 0);
    record.tcp_flags = [ab_flags, ba_flags];
    record.ended = REASONS.get(usize::from(reason)).copied();
    for (direction, output) in [[ab, ab_end], [ba, ba_end]].into_iter().enumerate() {
        record.set_output(direction, Some(u16::from_le_bytes(output)));
    }
    record.with_directions([counts(ab_counts), counts(ba_counts)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_stored() {
        let key = FlowKey {
            low: u128::MAX / 3,
            high: u128::MAX / 5,
            scope: u64::MAX / 7,
            port_low: 0x1234,
            port_high: 0xfedc,
            protocol: 6,
            kind: AddressKind::Ipv6,
            has_ports: true,
        };
        let ab = DirectionCounts { packets: 1, bytes: (1 << 52) - 1, first: i64::MIN, last: 3 };
        let ba = DirectionCounts { packets: (1 << 44) - 1, bytes: 2, first: -5, last: i64::MAX };
        let none = DirectionCounts { packets: 0, bytes: 0, ..ab };
        let record = |key, ended, output, directions| {
            let mut record = FlowRecord::new(key, output == 0, 7).with_directions(directions);
            record.set_output(output, Some(3));
            (record.tcp_flags, record.ended) = ([0x12, 0xff], ended);
            record
        };
        let mut records: Vec<FlowRecord> =
            KINDS.map(|kind| record(FlowKey { kind, ..key }, None, 0, [ab, ba])).to_vec();
        let key = FlowKey { has_ports: false, ..key };
        records.extend(REASONS.map(|reason| record(key, Some(reason), 1, [ab, none])));
        let mut stored = StoredRecords::new().unwrap();
        records.iter().for_each(|record| stored.add(record).unwrap());
        stored.flush().unwrap();
        for _ in 0..2 {
            let mut again = Vec::new();
            stored
                .for_each(&mut |record| {
                    again.push(*record);
                    Ok(())
                })
                .unwrap();
            assert_eq!(again, records);
        }
    }
}
