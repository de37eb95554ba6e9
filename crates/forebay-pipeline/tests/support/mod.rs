//! Batches of hand-made packets.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::{Arc, Mutex};

use forebay_flow::{FlowRecord, FlowTable};
use forebay_jit::{Backend, FilterSet, Options};
use forebay_packet::{Arena, Batch, Clock, DecodeOptions, Decoder, HashKey, Interface};
use forebay_pipeline::stages::Classify;
use forebay_pipeline::{Chain, RecordSink, Settings, StageError};

pub const SECOND: u64 = 1_000_000_000;

/// An Ethernet frame with an IPv4 datagram: protocol, flags and offset field, and
/// what follows the header.
pub fn ipv4(from: u8, to: u8, protocol: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    frame.extend(ipv4_header(from, to, protocol, id, fragment, payload.len()));
    frame.extend(payload);
    frame
}

pub fn ipv4_header(from: u8, to: u8, protocol: u8, id: u16, fragment: u16, len: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + len as u16).to_be_bytes());
    header.extend(id.to_be_bytes());
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    header
}

pub const MORE: u16 = 0x2000;

pub fn udp(from: u16, to: u16) -> Vec<u8> {
    [from.to_be_bytes(), to.to_be_bytes(), [0, 8], [0, 0]].concat()
}

/// A whole UDP datagram.
pub fn whole(from: u8, to: u8, ports: (u16, u16)) -> Vec<u8> {
    ipv4(from, to, 17, 0, 0, &udp(ports.0, ports.1))
}

/// The first fragment of a UDP datagram.
pub fn first(from: u8, to: u8, id: u16, ports: (u16, u16)) -> Vec<u8> {
    ipv4(from, to, 17, id, MORE, &udp(ports.0, ports.1))
}

/// A later fragment of it, in the middle.
pub fn later(from: u8, to: u8, id: u16) -> Vec<u8> {
    ipv4(from, to, 17, id, MORE | 1, &[9; 24])
}

/// The last fragment of it.
pub fn last(from: u8, to: u8, id: u16) -> Vec<u8> {
    ipv4(from, to, 17, id, 1, &[9; 24])
}

/// Packets with times in nanoseconds, as batches of at most `size`.
pub fn batches(packets: &[(u64, Vec<u8>)], size: usize) -> Vec<Batch> {
    let interfaces = Arc::new(vec![Interface { clock: Clock::NANOS, ..Interface::default() }]);
    packets
        .chunks(size)
        .map(|chunk| {
            let mut arena = Arena::new(chunk.len(), 2048).unwrap();
            for (time, packet) in chunk {
                assert!(arena.push(packet, packet.len() as u32, *time, 0));
            }
            arena.into_batches(&interfaces).remove(0)
        })
        .collect()
}

pub fn classify() -> Classify {
    Classify::new(Decoder::new(DecodeOptions::default()), HashKey::OFFLINE)
}

/// Sends batches through a chain and drains it; what comes out, in order.
pub fn through(chain: &mut Chain, batches: Vec<Batch>) -> Vec<Batch> {
    let mut out = Vec::new();
    let mut keep = |batch| {
        out.push(batch);
        Ok::<(), StageError>(())
    };
    for batch in batches {
        chain.push(batch, &mut keep).unwrap();
    }
    chain.drain(&mut keep).unwrap();
    out
}

/// New settings for a chain that holds nothing.
pub fn reload(chain: &mut Chain, settings: &Settings) {
    let held = |_| panic!("a chain without packets gave some up");
    chain.reload::<StageError>(settings, &mut { held }).unwrap();
}

/// Live packets of batches: time and bytes.
pub fn packets(batches: &[Batch]) -> Vec<(u64, Vec<u8>)> {
    let of = |batch: &Batch| -> Vec<(u64, Vec<u8>)> {
        batch.live().iter().map(|i| (batch.ticks(i), batch.packet(i).to_vec())).collect()
    };
    batches.iter().flat_map(of).collect()
}

/// Hashes of live packets, in order.
pub fn hashes(batches: &[Batch]) -> Vec<u64> {
    let of = |batch: &Batch| -> Vec<u64> { batch.live().iter().map(|i| batch.hash[i]).collect() };
    batches.iter().flat_map(of).collect()
}

/// The same bytes on every run: packets of a few flows, fragments among them.
pub fn traffic(n: usize) -> Vec<(u64, Vec<u8>)> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    (0..n as u64)
        .map(|i| {
            let (from, to) = (next(5) as u8, next(5) as u8);
            let id = next(40) as u16;
            let ports = (next(4) as u16, next(4) as u16);
            let packet = match next(10) {
                0 => first(from, to, id, ports),
                1 | 2 => later(from, to, id),
                _ => whole(from, to, ports),
            };
            (i * 1_000_000, packet)
        })
        .collect()
}

/// A filter as it is used by default.
pub fn filter_set(expression: &str) -> FilterSet {
    FilterSet::new(expression, Options::new(Backend::Auto, None).unwrap())
}

/// Keeps all records.
#[derive(Debug, Default)]
pub struct Kept(pub Mutex<Vec<FlowRecord>>);

impl RecordSink for Kept {
    fn offer(&self, ended: &mut Vec<FlowRecord>) {
        assert!(!ended.is_empty());
        self.0.lock().unwrap().append(ended);
    }

    fn retire(&self, table: FlowTable) {
        self.0.lock().unwrap().extend(table.records());
    }
}
