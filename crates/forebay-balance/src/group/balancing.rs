//! What a group does each interval: compare loads, start moves.

use std::sync::atomic::Ordering;

use super::event::Event;
use super::manager::Group;
use crate::balancer::load::Load;
use crate::balancer::{Decisions, View};
use crate::moves::ForwardingTable;
use crate::table::NO_SENSOR;

impl<P: ForwardingTable> Group<P> {
    /// Assigns sensors to buckets that have none.
    pub(super) fn adopt(&mut self) {
        let entries = self.entries();
        let orphans: Vec<u16> = (0..=u16::MAX)
            .filter(|&bucket| entries[usize::from(bucket)].default_sensor() == NO_SENSOR)
            .collect();
        let mut left = orphans.len();
        if left > 0 {
            let places = self.balancer.spread(&self.shares(), &entries, &orphans);
            for (bucket, place) in orphans.into_iter().zip(places) {
                // A bucket that cannot be settled now stays without a sensor and is retried at
                // the next interval.
                left -= usize::from(self.mover.begin(bucket, place, None).is_ok());
            }
        }
        if left == 0 {
            self.is_without_sensor.store(false, Ordering::Release);
        }
    }

    /// Compares loads and starts moves.
    pub(super) fn balance(&mut self) {
        let seconds = self.balanced_at.map(|at| (self.now - at) as f64 / 1e9);
        self.balanced_at = Some(self.now);
        let forwarding = self.mover.forwarding();
        self.loads.read(self.now, |bucket| forwarding.tally(bucket));
        let displaced = self.displaced_loads(seconds.unwrap_or(1.0));
        let Some(loads) = self.loads.loads() else { return };
        let (shares, entries) = (self.shares(), self.entries());
        let most = f64::from(self.settings.records.keys_per_move);
        let flows_of = |bucket| {
            let flows = self.aftermath.live_flows(self.mover.forwarding(), bucket);
            // If the count is unbounded, assume as many as may be recorded.
            if flows.or_more { most } else { f64::from(flows.about) }
        };
        let flows: Vec<f64> = (0..=u16::MAX).map(flows_of).collect();
        let moving: f64 = self.mover.moves().map(|(bucket, _)| flows[usize::from(bucket)]).sum();
        let decisions = self.balancer.decide(&View {
            sensors: &shares,
            loads,
            latest: self.loads.latest(),
            entries: &entries,
            displaced: &displaced,
            flows: &flows,
            is_movable: &|bucket| self.mover.is_movable(bucket),
            moves: self.mover.room(),
            // Half full, the records still have room for nearly every key.
            keys: self.mover.forwarding().record_capacity() as f64 / 2.0 - moving,
        });
        self.carry_out(&decisions);
        self.adopt();
        self.onsets.note(&decisions, &shares, &mut self.mover, &mut self.events);
        self.outlook = decisions.outlook;
    }

    fn carry_out(&mut self, decisions: &Decisions) {
        for planned in &decisions.moves {
            let bucket = planned.bucket;
            if planned.emergency {
                let flows = self.aftermath.live_flows(self.mover.forwarding(), bucket);
                if self.mover.force(bucket, planned.to).is_ok() {
                    self.events.push(Event::Torn { bucket, to: planned.to, flows });
                }
                continue;
            }
            // A bucket that cannot be moved now is reconsidered at the next interval.
            let _ = self.mover.begin(bucket, planned.to, self.loads.quiet(bucket));
        }
    }

    fn displaced_loads(&mut self, seconds: f64) -> Vec<Load> {
        let mut loads = Vec::with_capacity(self.members.len());
        for (sensor, last) in (0..).zip(&mut self.displaced) {
            let now = self.mover.forwarding().displaced(sensor);
            let (to, from) = (now.to.since(last.to), now.from.since(last.from));
            loads.push(Load::of(to, seconds) - Load::of(from, seconds));
            *last = now;
        }
        loads
    }
}
