//! Records in a file, so that memory does not grow with those that end.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

use forebay_flow::{EndReason, FlowRecord};
use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;

/// Words of a record in the file.
const WORDS: usize = 14;

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
    let FlowRecord { key, packets, bytes, first, last, seen, .. } = *record;
    let FlowRecord { outputs, tcp_flags, a_is_high, ended, .. } = *record;
    let kind = KINDS.iter().position(|kind| *kind == key.kind).unwrap_or(0);
    let reason = ended.and_then(|ended| REASONS.iter().position(|one| *one == ended));
    let reason = reason.unwrap_or(REASONS.len());
    let flags = u8::from(key.has_ports) | u8::from(a_is_high) << 1;
    let [low, high] = [key.port_low, key.port_high].map(u16::to_le_bytes);
    // Sensors have smaller numbers.
    let [ab, ba] = outputs.map(|output| output.unwrap_or(u16::MAX).to_le_bytes());
    let [ab_flags, ba_flags] = tcp_flags;
    let ports = [low[0], low[1], high[0], high[1], key.protocol, kind as u8, flags, reason as u8];
    [
        key.low as u64,
        (key.low >> 64) as u64,
        key.high as u64,
        (key.high >> 64) as u64,
        key.scope,
        u64::from_le_bytes(ports),
        u64::from_le_bytes([ab[0], ab[1], ba[0], ba[1], ab_flags, ba_flags, 0, 0]),
        packets[0],
        packets[1],
        bytes[0],
        bytes[1],
        first.cast_unsigned(),
        last.cast_unsigned(),
        seen.cast_unsigned(),
    ]
}

fn from_words(words: [u64; WORDS]) -> FlowRecord {
    let [low, low_end, high, high_end, scope, ports, outputs, rest @ ..] = words;
    let [low_port, low_port_end, high_port, high_port_end, protocol, kind, flags, reason] =
        ports.to_le_bytes();
    let [ab, ab_end, ba, ba_end, ab_flags, ba_flags, _, _] = outputs.to_le_bytes();
    let [ab_packets, ba_packets, ab_bytes, ba_bytes, first, last, seen] = rest;
    let output = |number: u16| (number != u16::MAX).then_some(number);
    FlowRecord {
        key: FlowKey {
            low: u128::from(low) | u128::from(low_end) << 64,
            high: u128::from(high) | u128::from(high_end) << 64,
            scope,
            port_low: u16::from_le_bytes([low_port, low_port_end]),
            port_high: u16::from_le_bytes([high_port, high_port_end]),
            protocol,
            kind: KINDS.get(usize::from(kind)).copied().unwrap_or_default(),
            has_ports: flags & 1 != 0,
        },
        packets: [ab_packets, ba_packets],
        bytes: [ab_bytes, ba_bytes],
        first: first.cast_signed(),
        last: last.cast_signed(),
        seen: seen.cast_signed(),
        outputs: [[ab, ab_end], [ba, ba_end]].map(|number| output(u16::from_le_bytes(number))),
        tcp_flags: [ab_flags, ba_flags],
        a_is_high: flags & 2 != 0,
        ended: REASONS.get(usize::from(reason)).copied(),
        ..FlowRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_stored() {
        let full = FlowRecord {
            key: FlowKey {
                low: u128::MAX / 3,
                high: u128::MAX / 5,
                scope: u64::MAX / 7,
                port_low: 0x1234,
                port_high: 0xfedc,
                protocol: 6,
                kind: AddressKind::Ipv6,
                has_ports: true,
            },
            packets: [1, u64::MAX],
            bytes: [u64::MAX - 1, 2],
            first: i64::MIN,
            last: i64::MAX,
            seen: 7,
            outputs: [Some(3), None],
            tcp_flags: [0x12, 0xff],
            a_is_high: true,
            ended: Some(EndReason::Closed),
            ..FlowRecord::default()
        };
        let mut records = vec![full];
        for kind in KINDS {
            records.push(FlowRecord { key: FlowKey { kind, ..full.key }, ended: None, ..full });
        }
        for reason in REASONS {
            let key = FlowKey { has_ports: false, ..full.key };
            let outputs = [None, Some(7)];
            let ended = Some(reason);
            records.push(FlowRecord { key, outputs, ended, a_is_high: false, ..full });
        }
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
