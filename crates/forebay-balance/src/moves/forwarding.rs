//! The interface between the mover and the tables that forward packets.
//!
//! There are two implementations: the table of workers in user space ([`super::Worker`]),
//! and that of a program in the kernel, which keeps the same entries and records in maps.
//! Mover and balancer work with either.

use std::sync::Arc;

use crate::counters::{FlowMarks, Tally};
use crate::table::Entry;
use crate::watch::Candidate;

/// A key on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The bucket of the key.
    pub bucket: u16,
    /// The sensor of the key.
    pub sensor: u16,
    /// Whether it had no packet for the hold time.
    pub idle: bool,
}

/// Traffic that went to another sensor than new keys of its bucket, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Displaced {
    /// Traffic to this sensor although new keys of the bucket go to another.
    pub to: Tally,
    /// Traffic to another sensor although new keys of the bucket go to this one.
    pub from: Tally,
}

/// A table that forwards packets. Times are of the monotonic clock, in nanoseconds.
pub trait ForwardingTable {
    /// The entry of a bucket.
    fn entry(&self, bucket: u16) -> Entry;

    /// Sets the entry of a bucket to `new` if it is still `current`: workers cancel moves
    /// on their own.
    ///
    /// # Errors
    /// The present entry.
    fn replace(&self, bucket: u16, current: Entry, new: Entry) -> Result<(), Entry>;

    /// Returns a number for the state after all changes made so far.
    fn advance(&self) -> u64;

    /// Whether no forwarding thread uses the state before that number any more.
    fn has_reached(&self, epoch: u64) -> bool;

    /// Resets the bucket's count of records, so that a new move has its whole limit.
    fn allow_records(&self, bucket: u16);

    /// The earliest time used by any forwarding thread, at most `now`.
    fn earliest(&self, now: u64) -> u64;

    /// Calls `keep` for each record and removes it if that returns false. A key is idle if
    /// it had no packet for the hold time before `time`, which must not be later than
    /// [`ForwardingTable::earliest`].
    fn sweep(&self, time: u64, keep: &mut dyn FnMut(Pinned) -> bool);

    /// Sets whether a sensor is alive. A key on record at a dead sensor counts as not on
    /// record, immediately.
    fn set_alive(&self, sensor: u16, alive: bool);

    /// The tally of a bucket so far; complete for all packets before an epoch that was
    /// reached.
    fn tally(&self, bucket: u16) -> Tally;

    /// The marks of a bucket's live flows.
    fn flow_marks(&self, bucket: u16) -> FlowMarks;

    /// Rotates the count of live flows after half an idle timeout.
    fn rotate_flows(&self);

    /// The traffic of a sensor that its own buckets do not explain.
    fn displaced(&self, sensor: u16) -> Displaced;

    /// The key with most bytes of a watched bucket, if known.
    fn leader(&self, bucket: u16) -> Option<Candidate>;

    /// The most keys that can be on record.
    fn record_capacity(&self) -> usize;
}

impl<P: ForwardingTable + ?Sized> ForwardingTable for Arc<P> {
    fn entry(&self, bucket: u16) -> Entry {
        (**self).entry(bucket)
    }

    fn replace(&self, bucket: u16, current: Entry, new: Entry) -> Result<(), Entry> {
        (**self).replace(bucket, current, new)
    }

    fn advance(&self) -> u64 {
        (**self).advance()
    }

    fn has_reached(&self, epoch: u64) -> bool {
        (**self).has_reached(epoch)
    }

    fn allow_records(&self, bucket: u16) {
        (**self).allow_records(bucket);
    }

    fn earliest(&self, now: u64) -> u64 {
        (**self).earliest(now)
    }

    fn sweep(&self, time: u64, keep: &mut dyn FnMut(Pinned) -> bool) {
        (**self).sweep(time, keep);
    }

    fn set_alive(&self, sensor: u16, alive: bool) {
        (**self).set_alive(sensor, alive);
    }

    fn tally(&self, bucket: u16) -> Tally {
        (**self).tally(bucket)
    }

    fn flow_marks(&self, bucket: u16) -> FlowMarks {
        (**self).flow_marks(bucket)
    }

    fn rotate_flows(&self) {
        (**self).rotate_flows();
    }

    fn displaced(&self, sensor: u16) -> Displaced {
        (**self).displaced(sensor)
    }

    fn leader(&self, bucket: u16) -> Option<Candidate> {
        (**self).leader(bucket)
    }

    fn record_capacity(&self) -> usize {
        (**self).record_capacity()
    }
}
