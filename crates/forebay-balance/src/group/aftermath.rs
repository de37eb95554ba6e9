//! Counts the flows broken by the death of a sensor.
//!
//! At the death only the flows with a packet within the idle timeout are known. That is an
//! upper bound, as most of them may have ended. Broken flows are those that continue, at
//! another sensor. They are counted with the maps of flows ([`crate::counters`]): a new
//! generation begins with the death, so marks in it are of later packets, and for an idle
//! timeout the marks of each bucket of the sensor are gathered. With n(A) flows before,
//! n(B) after, and n(A ∪ B) in both maps together, n(A) + n(B) − n(A ∪ B) continued.
//!
//! Generations discarded for this are kept here, so that the flows of the last half to
//! whole idle timeout stay known.

use crate::assign::BUCKETS;
use crate::counters::Flows;
use crate::moves::ForwardingTable;

/// Deaths counted at a time; a new one ends the count of the oldest early.
const DEATHS: usize = 8;

/// A bucket in which a dead sensor had flows.
#[derive(Debug)]
struct Left {
    bucket: u16,
    /// Marks of the flows with a packet within the idle timeout before the death.
    before: u32,
    /// Marks of the flows with a packet since.
    after: u32,
    /// The fraction of the flows that was at the sensor.
    share: f32,
}

/// A death whose flows are being counted.
#[derive(Debug)]
struct Death {
    sensor: u16,
    until: u64,
    buckets: Vec<Left>,
}

/// The flows that continued after a death.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Count {
    pub sensor: u16,
    pub flows: u64,
    pub or_more: bool,
}

/// Deaths whose flows are being counted, and marks that the forwarding tables have
/// discarded.
#[derive(Debug, Default)]
pub(super) struct Aftermath {
    deaths: Vec<Death>,
    /// By bucket, of this half idle timeout and the one before; empty if there are none.
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

    /// Estimated flows of a bucket with a packet in the last half to whole idle timeout.
    pub fn live_flows(&self, forwarding: &impl ForwardingTable, bucket: u16) -> Flows {
        Flows::of_marks(self.marks(forwarding, bucket))
    }

    /// As [`Self::marks`], restricted to flows that may have been at the present sensor of
    /// the bucket: after a death that gave it the bucket, only flows since then.
    fn marks_here(&self, forwarding: &impl ForwardingTable, bucket: u16) -> u32 {
        let left = self.deaths.iter().rev().find_map(|death| death.left(bucket));
        match left {
            Some(left) => left.after | forwarding.flow_marks(bucket).current,
            None => self.marks(forwarding, bucket),
        }
    }

    /// The estimated number of those flows.
    pub fn flows_here(&self, forwarding: &impl ForwardingTable, bucket: u16) -> Flows {
        Flows::of_marks(self.marks_here(forwarding, bucket))
    }

    /// Rotates after half an idle timeout.
    pub fn rotate(&mut self, forwarding: &impl ForwardingTable) {
        self.gather(forwarding);
        let [current, older] = &mut self.kept;
        *older = std::mem::take(current);
        self.is_all_recent = false;
        forwarding.rotate_flows();
    }

    /// Starts counting after the death of a sensor; `its` has its buckets and its fraction
    /// of the flows of each. Counts the flows that continue until `until`; returns the
    /// result of an earlier death if its place is needed.
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

    /// The result of a death whose time is over at `now`, if there is one.
    pub fn end(&mut self, forwarding: &impl ForwardingTable, now: u64) -> Option<Count> {
        let over = self.deaths.iter().position(|death| death.until <= now)?;
        self.gather(forwarding);
        Some(self.deaths.remove(over).count())
    }

    /// Keeps the marks of the forwarding table before its older generation is discarded
    /// early.
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

    /// Gathers the marks of the current generation.
    fn gather(&mut self, forwarding: &impl ForwardingTable) {
        for left in self.deaths.iter_mut().flat_map(|death| &mut death.buckets) {
            left.after |= forwarding.flow_marks(left.bucket).current;
        }
    }
}

impl Death {
    /// The counts of a bucket that the sensor had.
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
