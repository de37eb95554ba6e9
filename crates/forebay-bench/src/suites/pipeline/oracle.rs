//! The expected output, by the slow and simple form of every stage, and a sink that checks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::Result;
use forebay_balance::{Assignment, BUCKETS, bucket_of};
use forebay_filter::Program;
use forebay_io::{Error, Tx, TxCounters, mem::Sink};
use forebay_packet::{Batch, Decoder, HashKey, LiveMask, MacAddress, Region, Rewrite, Rewrites};
use forebay_rules::{Action, Key, RuleList};

#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Where it lies in its region.
    offset: u32,
    len: u32,
    sensor: u16,
}

/// The reference implementations of the stages.
pub struct Oracle<'a> {
    pub filter: &'a Program,
    pub rules: Option<&'a RuleList>,
    pub decoder: Decoder,
    pub hash_key: HashKey,
    pub assignment: &'a Assignment,
}

/// The expected output of one pass of the packets.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Packets that go in.
    pub packets: u64,
    /// Those that the filter drops.
    pub misses: u64,
    /// Those that rules drop.
    pub rejected: u64,
    /// Packets that come out, of each bucket.
    pub buckets: Vec<u64>,
    /// Bytes of those, on the wire.
    pub bytes: Vec<u64>,
    /// Packets that come out, in order.
    sent: Arc<Vec<Sent>>,
    region: Arc<Region>,
}

impl Expected {
    pub fn output(&self) -> u64 {
        self.sent.len() as u64
    }

    /// The packets that come out, as they came in.
    pub fn sent(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.region.bytes();
        self.sent.iter().map(|sent| &bytes[sent.offset as usize..][..sent.len as usize])
    }
}

impl Oracle<'_> {
    pub fn judge(&self, batches: &[Batch]) -> Option<Expected> {
        let region = Arc::clone(batches.first()?.region());
        let (mut misses, mut rejected) = (0, 0);
        let (mut buckets, mut bytes) = (vec![0; BUCKETS], vec![0; BUCKETS]);
        let mut sent = Vec::new();
        for batch in batches {
            for i in 0..batch.len() {
                let (packet, link) = (batch.packet(i), batch.interface(i).link);
                if self.filter.run(packet, batch.wire_len(i)) == 0 {
                    misses += 1;
                    continue;
                }
                let key = Key::of_packet(link, packet);
                let action = self.rules.zip(key).map(|(list, key)| list.decide(&key).action);
                if action == Some(Action::Reject) {
                    rejected += 1;
                    continue;
                }
                let hash = self.decoder.decode(link, packet).affinity.hash(&self.hash_key);
                let bucket = bucket_of(hash);
                buckets[usize::from(bucket)] += 1;
                bytes[usize::from(bucket)] += u64::from(batch.wire_len(i));
                let sensor = self.assignment.sensor_of_bucket(bucket);
                sent.push(Sent { offset: batch.offset(i), len: batch.cap_len(i), sensor });
            }
        }
        let packets = batches.iter().map(|batch| batch.len() as u64).sum();
        let sent = Arc::new(sent);
        Some(Expected { packets, misses, rejected, buckets, bytes, sent, region })
    }
}

/// A sink that compares packets with the expected ones.
pub struct Witness {
    sink: Sink,
    expected: Expected,
    next: usize,
    /// Packets that were not the expected ones.
    wrong: Arc<AtomicU64>,
}

impl Witness {
    /// Returns the sink, and its count of wrong packets.
    pub fn new(sink: Sink, expected: Expected) -> (Self, Arc<AtomicU64>) {
        let wrong = Arc::new(AtomicU64::new(0));
        (Self { sink, expected, next: 0, wrong: Arc::clone(&wrong) }, wrong)
    }

    /// Whether the packet sent so many packets ago is the one expected next.
    fn is_expected(&mut self, ago: usize, rewrites: &Rewrites) -> bool {
        let Expected { sent, region, .. } = &self.expected;
        let Some(&Sent { offset, len, sensor }) = sent.get(self.next % sent.len().max(1)) else {
            return false;
        };
        self.next += 1;
        let mut frame = region.bytes()[offset as usize..][..len as usize].to_vec();
        let Rewrite { destination: Some(destination), source: Some(source), .. } =
            rewrites.of(sensor).rewrite
        else {
            return false;
        };
        for (MacAddress(address), at) in [(destination, 0), (source, 6)] {
            frame[at..at + 6].copy_from_slice(&address);
        }
        self.sink.recent(ago, len as usize) == Some(frame.as_slice())
    }
}

impl Tx for Witness {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        self.sink.send(batch, which, rewrites)?;
        let packets = batch.live().and(which).count();
        let wrong = (0..packets).rev().filter(|&ago| !self.is_expected(ago, rewrites)).count();
        self.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.sink.flush()
    }

    fn counters(&mut self) -> Result<TxCounters, Error> {
        self.sink.counters()
    }
}
