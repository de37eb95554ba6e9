//! The interface between the mover and the tables by which packets are forwarded.
//!
//! There are two implementations: the table of workers in user space
//! ([`super::Worker`]), and that of a program in the kernel, which keeps the same entries
//! and the same records in maps. Mover and balancer work on either.

use std::sync::Arc;

use crate::counters::{FlowMarks, Tally};
use crate::table::Entry;
use crate::watch::Candidate;

/// A key on record, as the mover sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The bucket of the key.
    pub bucket: u16,
    /// The sensor that it stays at.
    pub sensor: u16,
    /// Whether it had no packet for the hold time.
    pub idle: bool,
}

/// Traffic that went elsewhere than where its bucket's new keys go, since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Displaced {
    /// Went to this sensor though new keys of the bucket go to another.
    pub to: Tally,
    /// Went to another sensor though new keys of the bucket go to this one.
    pub from: Tally,
}

/// Something that forwards packets by the table. Times are of the monotonic clock, in
/// nanoseconds.
pub trait ForwardingTable {
    /// What the table says of a bucket.
    fn entry(&self, bucket: u16) -> Entry;

    /// Says `new` of a bucket if its table still says `current`: workers cancel
    /// moves on their own.
    ///
    /// # Errors
    /// What it says instead.
    fn replace(&self, bucket: u16, current: Entry, new: Entry) -> Result<(), Entry>;

    /// A number for the state after all changes made so far.
    fn advance(&self) -> u64;

    /// Whether nobody acts any more on what was changed before that number was
    /// given.
    fn has_reached(&self, epoch: u64) -> bool;

    /// Allows a bucket anew as many records as a move may make.
    fn allow_records(&self, bucket: u16);

    /// The earliest time that anybody who forwards packets goes by, at most `now`.
    fn earliest(&self, now: u64) -> u64;

    /// Shows each record to `keep` and removes it where that says false. A key is
    /// idle if it had no packet for the hold time before `time`, which no
    /// [`ForwardingTable::earliest`] may be before.
    fn sweep(&self, time: u64, keep: &mut dyn FnMut(Pinned) -> bool);

    /// Says whether a sensor is alive. A key on record at a dead one counts as not
    /// on record, at once.
    fn set_alive(&self, sensor: u16, alive: bool);

    /// What was counted in a bucket so far; complete for all that came before an
    /// epoch that was reached.
    fn tally(&self, bucket: u16) -> Tally;

    /// The marks of a bucket's live flows.
    fn flow_marks(&self, bucket: u16) -> FlowMarks;

    /// Half an idle timeout has passed, which the count of live flows goes by.
    fn rotate_flows(&self);

    /// What of a sensor's traffic its own buckets do not explain.
    fn displaced(&self, sensor: u16) -> Displaced;

    /// The key with most bytes of a watched bucket, as far as it is known.
    fn leader(&self, bucket: u16) -> Option<Candidate>;

    /// Most keys that can be on record.
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
