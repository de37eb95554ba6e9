//! What has to come out, found by the slow and simple forms of everything, and who checks
//! that it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_balance::{Assignment, BUCKETS, bucket_of};
use forebay_filter::Program;
use forebay_io::{Error, Tx, TxCounters, mem::Sink};
use forebay_packet::{Batch, Decoder, HashKey, LiveMask, Region, Rewrite};
use forebay_rules::{Action, Key, RuleList};

/// A packet that goes out, and how.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Where it lies in its region.
    offset: u32,
    len: u32,
    sensor: u16,
}

/// Everything that there is to know of the packets before they are sent through.
pub struct Oracle<'a> {
    /// The filter, to be interpreted.
    pub filter: &'a Program,
    /// The rules that drop packets.
    pub rules: Option<&'a RuleList>,
    /// How flows are found.
    pub decoder: Decoder,
    /// The key of their hash.
    pub hash_key: HashKey,
    /// Where each bucket goes.
    pub assignment: &'a Assignment,
}

/// What has to come out when all packets went in once.
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
    /// Those that come out, in order.
    sent: Arc<Vec<Sent>>,
    region: Arc<Region>,
}

impl Expected {
    /// Packets that come out.
    pub fn output(&self) -> u64 {
        self.sent.len() as u64
    }
}

impl Oracle<'_> {
    /// What becomes of all packets of `batches`.
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

/// A sink that compares what is sent with what was expected, packet by packet.
pub struct Witness {
    sink: Sink,
    expected: Expected,
    next: usize,
    /// Packets that were not what was expected; shared with who asks.
    wrong: Arc<AtomicU64>,
}

impl Witness {
    /// A witness for as many rounds of the packets as there are, and where it counts what
    /// is wrong.
    pub fn new(sink: Sink, expected: Expected) -> (Self, Arc<AtomicU64>) {
        let wrong = Arc::new(AtomicU64::new(0));
        (Self { sink, expected, next: 0, wrong: Arc::clone(&wrong) }, wrong)
    }

    /// Whether the packet that was sent so many packets ago is the one expected next.
    fn is_expected(&mut self, ago: usize, rewrites: &[Rewrite]) -> bool {
        let Expected { sent, region, .. } = &self.expected;
        let Some(&Sent { offset, len, sensor }) = sent.get(self.next % sent.len().max(1)) else {
            return false;
        };
        self.next += 1;
        let mut frame = region.bytes()[offset as usize..][..len as usize].to_vec();
        let Rewrite { destination, source, .. } = rewrites[usize::from(sensor)];
        for (address, at) in [(destination, 0), (source, 6)] {
            if let Some(address) = address {
                frame[at..at + 6].copy_from_slice(&address.0);
            }
        }
        self.sink.recent(ago, len as usize) == Some(frame.as_slice())
    }
}

impl Tx for Witness {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &[Rewrite]) -> Result<(), Error> {
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
