//! Flows that an operator handles by hand, found by the hash of a packet's flow.
//!
//! The table is built away from the packets and never changes; only its flows' counters and
//! expiries do. It consists of
//!
//! - a Bloom filter of words (Putze, Sanders and Singler, 2007): the upper bits of each flow's
//!   hash select a word, in which its lower bits set four bits. There are 16 bits a flow, so
//!   that of a hundred other packets less than one finds its bits set. 100,000 flows have
//!   200 kB, less than the second level of a cache;
//! - for each word the place of its first entry;
//! - the entries, by hash and then by key.
//!
//! A packet whose bits are not all set costs one load. One whose bits are is compared with the
//! entries of its word, four on average.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use forebay_packet::{FlowKey, LiveMask};

/// Bits to a flow, and those that it sets.
const BITS_PER_FLOW: usize = 16;
const BITS_SET: u32 = 4;

/// What is done with the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowOverride {
    /// They are dropped.
    Shunt,
    /// They pass, and no later stage drops them to save a sensor work.
    Pass,
}

/// A flow that is handled by hand.
#[derive(Debug)]
pub struct OverriddenFlow {
    /// Which it is.
    pub key: FlowKey,
    /// What is done with its packets.
    pub action: FlowOverride,
    /// When that ends: nanoseconds of the clock that stages are given.
    until: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl OverriddenFlow {
    /// A flow whose packets are handled so until a time.
    #[must_use]
    pub fn new(key: FlowKey, action: FlowOverride, until: u64) -> Self {
        let (packets, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { key, action, until: AtomicU64::new(until), packets, bytes }
    }

    /// When it ends.
    #[must_use]
    pub fn until(&self) -> u64 {
        self.until.load(Relaxed)
    }

    /// Lets it end at another time.
    pub fn set_until(&self, until: u64) {
        self.until.store(until, Relaxed);
    }

    /// Packets that were handled so, and their bytes on the wire.
    #[must_use]
    pub fn counted(&self) -> (u64, u64) {
        (self.packets.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Counts a packet. The packets of a flow most often come to one worker.
    pub(super) fn count(&self, bytes: u32) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes.into(), Relaxed);
    }
}

/// A flow under one of its hashes.
#[derive(Clone, Debug)]
pub struct OverrideEntry {
    /// A hash that its packets can have.
    pub hash: u64,
    /// The flow.
    pub flow: Arc<OverriddenFlow>,
}

/// Flows by the hashes of their packets.
#[derive(Debug, Default)]
pub struct OverrideTable {
    words: Vec<u64>,
    /// The place of the first entry of each word, and their number at the end.
    first: Vec<u32>,
    entries: Vec<OverrideEntry>,
}

impl OverrideTable {
    /// A table of entries, of which no two have the same hash and key, and fewer than 2³².
    #[must_use]
    pub fn new(mut entries: Vec<OverrideEntry>) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        entries.sort_unstable_by(|a, b| (a.hash, &a.flow.key).cmp(&(b.hash, &b.flow.key)));
        let words = (entries.len() * BITS_PER_FLOW).div_ceil(64);
        let mut table = Self { words: vec![0; words], first: vec![0; words + 1], entries };
        for entry in &table.entries {
            let word = word_of(entry.hash, words);
            table.words[word] |= bits_of(entry.hash).fold(0, |bits, bit| bits | 1 << bit);
            table.first[word + 1] += 1;
        }
        let mut sum = 0;
        for first in &mut table.first {
            sum += *first;
            *first = sum;
        }
        table
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[OverrideEntry] {
        &self.entries
    }

    /// Whether there are no flows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The packets with these hashes whose bits are all set.
    pub(super) fn candidates(&self, hashes: &[u64]) -> LiveMask {
        let words = self.words.as_slice();
        LiveMask::of(hashes, |hash| {
            let word = words.get(word_of(hash, words.len())).copied().unwrap_or(0);
            // Each is one instruction, which the sum of the bits would not be.
            bits_of(hash).fold(true, |all, bit| all & (word >> bit & 1 != 0))
        })
    }

    /// The entries with a hash.
    #[must_use]
    pub fn with_hash(&self, hash: u64) -> &[OverrideEntry] {
        if self.is_empty() {
            return &[];
        }
        let word = word_of(hash, self.words.len());
        let near = &self.entries[self.first[word] as usize..self.first[word + 1] as usize];
        let start = near.partition_point(|entry| entry.hash < hash);
        let end = start + near[start..].partition_point(|entry| entry.hash == hash);
        &near[start..end]
    }

    /// The flow with a key, of which `hash` is a hash.
    #[must_use]
    pub fn find(&self, hash: u64, key: &FlowKey) -> Option<&Arc<OverriddenFlow>> {
        of_key(self.with_hash(hash), key)
    }
}

/// The flow with a key, among entries of one hash.
pub(super) fn of_key<'a>(
    entries: &'a [OverrideEntry],
    key: &FlowKey,
) -> Option<&'a Arc<OverriddenFlow>> {
    let at = entries.binary_search_by(|entry| entry.flow.key.cmp(key)).ok()?;
    Some(&entries[at].flow)
}

/// The word of a hash, by its upper bits: a larger hash has no smaller word.
#[inline]
fn word_of(hash: u64, words: usize) -> usize {
    ((u128::from(hash) * words as u128) >> 64) as usize
}

/// The numbers of the bits that a hash sets in its word.
#[inline]
fn bits_of(hash: u64) -> impl Iterator<Item = u64> {
    (0..BITS_SET).map(move |number| hash >> (6 * number) & 63)
}

#[cfg(test)]
mod tests {
    use forebay_packet::{HashKey, siphash13};

    use super::*;

    fn flow(number: u64) -> Arc<OverriddenFlow> {
        let key = FlowKey { low: number.into(), ..FlowKey::default() };
        Arc::new(OverriddenFlow::new(key, FlowOverride::Shunt, 0))
    }

    fn hash(number: u64) -> u64 {
        siphash13(&HashKey::OFFLINE, &[number])
    }

    #[test]
    fn every_flow_is_found_and_no_other() {
        for count in [1, 2, 63, 64, 65, 5_000] {
            let entry = |number| OverrideEntry { hash: hash(number), flow: flow(number) };
            let table = OverrideTable::new((0..count).map(entry).collect());
            assert_eq!(table.entries().len() as u64, count);
            for number in 0..count {
                let key = FlowKey { low: number.into(), ..FlowKey::default() };
                assert_eq!(table.find(hash(number), &key).unwrap().key, key);
                assert_eq!(table.candidates(&[hash(number)]).count(), 1);
                assert!(table.find(hash(number), &FlowKey::default()).is_none() || number == 0);
            }
            let others: Vec<u64> = (count..count + 6_400).map(hash).collect();
            assert!(others.iter().all(|&other| table.with_hash(other).is_empty()));
            let set: usize = others.chunks(64).map(|hashes| table.candidates(hashes).count()).sum();
            assert!(set <= 6_400 / 100, "{set} of {}", others.len());
        }
    }

    #[test]
    fn flows_of_one_hash_are_told_apart() {
        let entries = (0..1_000).map(|number| OverrideEntry { hash: 7, flow: flow(number) });
        let table = OverrideTable::new(entries.collect());
        assert_eq!(table.with_hash(7).len(), 1_000);
        let key = FlowKey { low: 500, ..FlowKey::default() };
        assert_eq!(table.find(7, &key).unwrap().key, key);
        assert!(table.find(8, &key).is_none() && OverrideTable::default().find(7, &key).is_none());
    }
}
