//! Finds the flow that fills a bucket.
//!
//! Moving its bucket does not help with a flow too large for any sensor, but a rule can
//! shunt the flow if it is known. The balancer watches such buckets, and each worker keeps
//! one candidate for each watched bucket by the majority vote of Boyer and Moore ("MJRTY: a
//! fast majority vote algorithm", 1991), with bytes as votes: if one key carries more than
//! half of the bytes, it is the candidate. At most [`MAX_WATCHED`] buckets are watched, and
//! the results are published every [`PUBLISHED_EACH`] nanoseconds, unless the other side is
//! just reading.

use std::sync::{Mutex, PoisonError};

use forebay_packet::FlowKey;

/// The most buckets that are watched at a time.
pub const MAX_WATCHED: usize = 16;

/// Nanoseconds between two publications.
const PUBLISHED_EACH: u64 = 100_000_000;

/// A key that may carry most of its bucket's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The watched bucket.
    pub bucket: u16,
    /// The key.
    pub key: FlowKey,
    /// The votes left. If any key has more than half of the bytes, it is this one.
    pub lead: u64,
    /// Bytes of the bucket seen by this worker while it was watched.
    pub bytes: u64,
}

/// The candidates published by the workers of a group.
#[derive(Debug)]
pub struct Watchers(Box<[Mutex<Vec<Candidate>>]>);

impl Watchers {
    pub(crate) fn new(workers: usize) -> Self {
        let none = || Mutex::new(Vec::with_capacity(MAX_WATCHED));
        Self((0..workers).map(|_| none()).collect())
    }

    /// The leading key in `bucket`, over all workers.
    #[must_use]
    pub fn leader(&self, bucket: u16) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for worker in &self.0 {
            let found = worker.lock().unwrap_or_else(PoisonError::into_inner);
            let here = found.iter().find(|candidate| candidate.bucket == bucket);
            if let Some(candidate) = here
                && best.is_none_or(|best| candidate.lead > best.lead)
            {
                best = Some(*candidate);
            }
        }
        best.filter(|best| best.lead > 0)
    }
}

/// The candidates of one worker.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    candidates: Vec<Candidate>,
    published_at: u64,
}

impl Watch {
    /// Counts a packet of a watched bucket.
    pub(crate) fn observe(&mut self, bucket: u16, key: &FlowKey, bytes: u32) {
        let bytes = u64::from(bytes);
        let known = self.candidates.iter().position(|candidate| candidate.bucket == bucket);
        let at = known.unwrap_or_else(|| self.begin(bucket, key));
        let candidate = &mut self.candidates[at];
        candidate.bytes = candidate.bytes.saturating_add(bytes);
        if candidate.key == *key {
            candidate.lead = candidate.lead.saturating_add(bytes);
        } else if candidate.lead >= bytes {
            candidate.lead -= bytes;
        } else {
            candidate.lead = bytes - candidate.lead;
            candidate.key = *key;
        }
    }

    /// Starts watching a bucket and returns its slot; replaces the one with the fewest
    /// bytes if there are too many.
    fn begin(&mut self, bucket: u16, key: &FlowKey) -> usize {
        let candidate = Candidate { bucket, key: *key, lead: 0, bytes: 0 };
        if self.candidates.len() < MAX_WATCHED {
            self.candidates.push(candidate);
            return self.candidates.len() - 1;
        }
        let least = (0..MAX_WATCHED).min_by_key(|&i| self.candidates[i].bytes).unwrap_or(0);
        self.candidates[least] = candidate;
        least
    }

    /// Publishes the candidates from time to time, and starts anew.
    pub(crate) fn publish(&mut self, now: u64, watchers: &Watchers, worker: usize) {
        if self.candidates.is_empty() || now.saturating_sub(self.published_at) < PUBLISHED_EACH {
            return;
        }
        if let Some(Ok(mut published)) = watchers.0.get(worker).map(Mutex::try_lock) {
            std::mem::swap(&mut *published, &mut self.candidates);
            self.candidates.clear();
            self.published_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(i: u16) -> FlowKey {
        FlowKey { port_low: i, ..FlowKey::default() }
    }

    proptest! {
        #[test]
        fn whoever_has_most_of_the_bytes_leads(
            others in prop::collection::vec((1_u16..50, 1_u32..1500), 0..200), at in 0_usize..200,
        ) {
            let mut watch = Watch::default();
            let total: u32 = others.iter().map(|other| other.1).sum();
            for (i, &(port, bytes)) in others.iter().enumerate() {
                watch.observe(9, &key(port), bytes);
                if i == at {
                    watch.observe(9, &key(0), total);
                }
            }
            watch.observe(9, &key(0), total + 1);
            let watchers = Watchers::new(1);
            watch.publish(PUBLISHED_EACH, &watchers, 0);
            let leader = watchers.leader(9).unwrap();
            prop_assert_eq!(leader.key, key(0));
            prop_assert_eq!(watchers.leader(10), None);
        }
    }

    #[test]
    fn no_more_buckets_are_kept_than_may_be_watched() {
        let mut watch = Watch::default();
        for bucket in 0..1000 {
            watch.observe(bucket, &key(1), 60 + u32::from(bucket == 7));
        }
        assert_eq!(watch.candidates.len(), MAX_WATCHED);
        assert!(watch.candidates.iter().any(|candidate| candidate.bucket == 7));
    }
}
