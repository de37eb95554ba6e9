//! How many flows a sensor's death has broken, counted afterwards.
//!
//! At the death it is only known how many flows had a packet within the idle timeout. Most
//! of them may have ended, so that is the most that can be broken. Broken are those that go
//! on, at another sensor. The maps of flows ([`crate::counters`]) tell them: a new generation
//! begins with the death, so that what is marked in it came later, and for an idle timeout
//! the marks of each bucket that the sensor had are gathered. With n(A) flows before, n(B)
//! after, and n(A ∪ B) in both maps together, n(A) + n(B) − n(A ∪ B) went on.
//!
//! The generations that are forgotten for this are kept here, so that the flows of the last
//! half to whole idle timeout stay known.

use crate::assign::BUCKETS;
use crate::counters::Flows;
use crate::moves::ForwardingTable;

/// Deaths whose flows are counted at a time; the count of the oldest ends early for a new one.
const DEATHS: usize = 8;

/// A bucket that a dead sensor had flows of.
#[derive(Debug)]
struct Left {
    bucket: u16,
    /// Marks of the flows that had a packet within the idle timeout before the death.
    before: u32,
    /// Marks of those that had one since.
    after: u32,
    /// The part of the flows that was at the sensor.
    share: f32,
}

/// A death whose flows are being counted.
#[derive(Debug)]
struct Death {
    sensor: u16,
    until: u64,
    buckets: Vec<Left>,
}

/// The flows that went on after a death.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Count {
    pub sensor: u16,
    pub flows: u64,
    pub or_more: bool,
}

/// Deaths whose flows are being counted, and marks that the forwarding tables have forgotten.
#[derive(Debug, Default)]
pub(super) struct Aftermath {
    deaths: Vec<Death>,
    /// By bucket, of this half idle timeout and the one before; empty where there are none.
    kept: [Vec<u32>; 2],
    /// Whether both generations of the forwarding table are of this half idle timeout.
    is_all_recent: bool,
}

impl Aftermath {
    /// Marks of a bucket's flows of the last half to whole idle timeout.
    fn marks(&self, forwarding: &impl ForwardingTable, bucket: u16) -> u32 {
        let kept = self.kept.iter().filter_map(|kept| kept.get(usize::from(bucket)));
        let known = forwarding.flow_marks(bucket);
        kept.fold(known.current | known.older, |marks, kept| marks | kept)
    }

    /// About how many flows of a bucket had a packet in the last half to whole idle timeout.
    pub fn live_flows(&self, forwarding: &impl ForwardingTable, bucket: u16) -> Flows {
        Flows::of_marks(self.marks(forwarding, bucket))
    }

    /// The same of those that may have been at the sensor that has the bucket now: where
    /// another has died and left the bucket, only flows since then.
    fn marks_here(&self, forwarding: &impl ForwardingTable, bucket: u16) -> u32 {
        let left = self.deaths.iter().rev().find_map(|death| death.left(bucket));
        match left {
            Some(left) => left.after | forwarding.flow_marks(bucket).current,
            None => self.marks(forwarding, bucket),
        }
    }

    /// About how many flows those are.
    pub fn flows_here(&self, forwarding: &impl ForwardingTable, bucket: u16) -> Flows {
        Flows::of_marks(self.marks_here(forwarding, bucket))
    }

    /// Half an idle timeout has passed.
    pub fn rotate(&mut self, forwarding: &impl ForwardingTable) {
        self.gather(forwarding);
        let [current, older] = &mut self.kept;
        *older = std::mem::take(current);
        self.is_all_recent = false;
        forwarding.rotate_flows();
    }

    /// A sensor has died, of whose flows `its` says the buckets and the part in each. Counts
    /// those that go on until `until`; gives the outcome of an earlier death for which there
    /// is no more room.
    pub fn begin(
        &mut self,
        forwarding: &impl ForwardingTable,
        sensor: u16,
        until: u64,
        its: &[(u16, f32)],
    ) -> Option<Count> {
        let left = |&(bucket, share): &(u16, f32)| Left {
            bucket,
            before: self.marks_here(forwarding, bucket),
            after: 0,
            share,
        };
        let mut buckets: Vec<Left> = its.iter().map(left).filter(|left| left.before != 0).collect();
        buckets.sort_unstable_by_key(|left| left.bucket);
        self.gather(forwarding);
        self.keep(forwarding);
        forwarding.rotate_flows();
        let early = (self.deaths.len() == DEATHS)
            .then(|| Count { or_more: true, ..self.deaths.remove(0).count() });
        self.deaths.push(Death { sensor, until, buckets });
        early
    }

    /// The outcome of a death whose time is over at `now`, if there is one.
    pub fn end(&mut self, forwarding: &impl ForwardingTable, now: u64) -> Option<Count> {
        let over = self.deaths.iter().position(|death| death.until <= now)?;
        self.gather(forwarding);
        Some(self.deaths.remove(over).count())
    }

    /// Keeps what the forwarding table knows, before it forgets its older generation out of turn.
    fn keep(&mut self, forwarding: &impl ForwardingTable) {
        self.kept.iter_mut().for_each(|kept| kept.resize(BUCKETS, 0));
        let [recent, older] = &mut self.kept;
        for ((bucket, recent), older) in (0..=u16::MAX).zip(recent).zip(older) {
            let known = forwarding.flow_marks(bucket);
            *recent |= known.current;
            *(if self.is_all_recent { recent } else { older }) |= known.older;
        }
        self.is_all_recent = true;
    }

    /// Takes in what has been marked since the last generation began.
    fn gather(&mut self, forwarding: &impl ForwardingTable) {
        for left in self.deaths.iter_mut().flat_map(|death| &mut death.buckets) {
            left.after |= forwarding.flow_marks(left.bucket).current;
        }
    }
}

impl Death {
    /// What is known of a bucket that it left.
    fn left(&self, bucket: u16) -> Option<&Left> {
        let at = self.buckets.binary_search_by_key(&bucket, |left| left.bucket).ok()?;
        Some(&self.buckets[at])
    }

    fn count(self) -> Count {
        let (mut flows, mut or_more) = (0.0, false);
        for Left { before, after, share, .. } in &self.buckets {
            let [a, b, both] = [*before, *after, before | after].map(Flows::of_marks);
            flows += f64::from((a.about + b.about - both.about) * share);
            or_more |= both.or_more;
        }
        Count { sensor: self.sensor, flows: flows.max(0.0).round() as u64, or_more }
    }
}
