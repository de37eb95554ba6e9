//! What is shed of the packets to each of several targets: sensors, or classes.

use std::sync::Arc;

use forebay_flow::FlowRecord;
use forebay_flow::policy::Count;
use forebay_flow::shed::{Arrival, Limit, OnOverload, Shed as Reason, Shedder};
use forebay_packet::flow::AddressKind;
use forebay_packet::{Batch, LiveMask};

use super::flow_states::{FlowStates, begins};
use crate::stage::Outbox;

/// FIN and RST among TCP's control bits (RFC 9293, section 3.1).
const ENDS: u8 = 1 | 4;

/// A policy and the limit that it keeps, for all workers.
pub(super) type Limited = (OnOverload, Arc<Limit>);

/// What is shed for one target.
struct Target {
    policy: OnOverload,
    limit: Arc<Limit>,
    shedder: Shedder,
    /// Its number among those that were made, which marks its states of flows.
    number: u16,
    /// What the batch has for it.
    offered: Count,
    /// What of it is of suspect flows.
    suspect: Count,
    /// Packets of the batch have to be decided on.
    decides: bool,
}

impl Target {
    fn is(&self, (policy, limit): &Limited) -> bool {
        self.policy == *policy && Arc::ptr_eq(&self.limit, limit)
    }
}

/// What is shed for each target.
#[derive(Default)]
pub(super) struct Shedders {
    targets: Vec<Option<Target>>,
    /// The numbers of all targets.
    numbers: Vec<u16>,
    /// The shedders that were made: each has a seed of its own.
    made: u64,
}

impl Shedders {
    /// Has these targets in place of those that there are. A shedder whose policy and limit stay
    /// goes on.
    pub(super) fn set<'a>(&mut self, limits: impl Iterator<Item = Option<&'a Limited>>) {
        let mut old = std::mem::take(&mut self.targets);
        let made = &mut self.made;
        let targets = limits.map(|new| {
            let new = new?;
            let is_same = |old: &Option<Target>| old.as_ref().is_some_and(|old| old.is(new));
            if let Some(same) = old.iter_mut().find(|old| is_same(old)) {
                return same.take();
            }
            let (policy, limit) = new.clone();
            *made += 1;
            // Nothing is shed where there is no limit.
            let shedder = Shedder::new(Arc::clone(&limit), policy, *made).ok()?;
            let (number, offered) = (*made as u16, Count::default());
            let suspect = Count::default();
            Some(Target { policy, limit, shedder, number, offered, suspect, decides: false })
        });
        self.targets = targets.collect();
        self.numbers = self.targets.iter().flatten().map(|target| target.number).collect();
        if self.targets.iter().all(Option::is_none) {
            self.targets.clear();
        }
    }

    /// Nothing has a limit.
    pub(super) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    fn get(&mut self, target: Option<usize>) -> Option<&mut Target> {
        self.targets.get_mut(target?)?.as_mut()
    }

    /// Counts what a batch has for each target. Packets of flows that an operator exempts do not
    /// count.
    pub(super) fn begin(
        &mut self,
        now: u64,
        batch: &Batch,
        target_of: impl Fn(usize) -> Option<usize>,
    ) {
        for i in batch.live().without(&batch.exempt).iter() {
            if let Some(target) = self.get(target_of(i)) {
                let len = Count::of(batch.wire_len(i));
                target.offered += len;
                if batch.suspect.contains(i) {
                    target.suspect += len;
                }
            }
        }
        for target in self.targets.iter_mut().flatten() {
            let offered = std::mem::take(&mut target.offered);
            let suspect = std::mem::take(&mut target.suspect);
            target.decides = offered.packets > 0 && target.shedder.begin(now, offered);
            if target.decides {
                target.shedder.expect_suspect(suspect);
            }
        }
    }

    /// Whether packet `i` is shed. `states` are those of the policies, if they are not in the
    /// records. The label of a packet that passes is lowered to the fair share.
    pub(super) fn sheds(
        &mut self,
        target: Option<usize>,
        record: Option<&mut FlowRecord>,
        states: Option<&mut FlowStates>,
        batch: &mut Batch,
        i: usize,
    ) -> bool {
        if batch.exempt.contains(i) {
            return false;
        }
        let Self { targets, numbers, .. } = self;
        let target = target.and_then(|target| targets.get_mut(target)?.as_mut());
        let Some(target) = target.filter(|target| target.decides) else { return false };
        let states = states.map(|states| (states, target.number, &**numbers));
        let is_shed = decide(&mut target.shedder, record, states, batch, i).is_some();
        if !is_shed
            && !batch.label.is_empty()
            && let Some(most) = target.shedder.fair_rate(batch.wire_len(i))
        {
            batch.label[i] = batch.label[i].at_most(most);
        }
        is_shed
    }

    /// Takes the packets out of the batch that are shed, and counts them by reason.
    pub(super) fn end(&mut self, shed: &LiveMask, batch: &mut Batch, out: &mut Outbox) {
        for target in self.targets.iter_mut().flatten().filter(|target| target.decides) {
            target.decides = false;
            let dropped = target.shedder.end();
            dropped.into_iter().enumerate().for_each(|(reason, n)| out.dropped(reason, n));
        }
        if shed.count() > 0 {
            let passed = batch.live().without(shed);
            batch.retain(&passed);
        }
    }
}

/// Decides on packet `i`. One without a record, or without addresses of IP, is of no flow that could
/// be chosen, and passes as long as there is room. Where the directions of a flow have two targets, its state belongs to the
/// policy of the first one. `states` are those of the policies, if they are not in the records, the
/// number of this one, and those of all.
fn decide(
    shedder: &mut Shedder,
    record: Option<&mut FlowRecord>,
    states: Option<(&mut FlowStates, u16, &[u16])>,
    batch: &Batch,
    i: usize,
) -> Option<Reason> {
    let len = batch.wire_len(i);
    let is_suspect = batch.suspect.contains(i);
    let Some(record) = record else { return shedder.other(len, is_suspect) };
    let shed = if matches!(record.key.kind, AddressKind::Ipv4 | AddressKind::Ipv6) {
        let packet = Arrival {
            flow: batch.record[i],
            len,
            prior: Count { packets: record.total_packets(), bytes: record.total_bytes() },
            is_first: begins(batch, i, record),
            is_end: batch.tcp_flags.get(i).is_some_and(|flags| flags & ENDS != 0),
            is_suspect,
            label: batch.label.get(i).and_then(|label| label.rate()),
        };
        let is_back = batch.reversed[i] != record.a_is_high();
        let has_two = matches!(record.outputs(), [Some(one), Some(other)] if one != other);
        let none = &mut 0;
        let state = match states {
            Some((states, own, all)) => {
                states.of(batch, i, record, own, |owner| all.contains(&owner)).unwrap_or(none)
            }
            None if has_two && is_back => none,
            None => &mut record.state,
        };
        shedder.packet(&packet, state)
    } else {
        shedder.other(len, is_suspect)
    };
    record.shed = record.shed.saturating_add(shed.is_some().into());
    shed
}

#[cfg(test)]
mod tests {
    use forebay_flow::shed::Rates;

    use super::*;

    #[test]
    fn a_target_that_stays_goes_on_at_another_place() {
        let limited = |policy| {
            let rates = Rates { pps: Some(10_000), bps: None };
            (policy, Arc::new(Limit::new(rates)))
        };
        let [a, b, c] = [OnOverload::Fair, OnOverload::WholeFlows, OnOverload::Red].map(limited);
        let mut shedders = Shedders::default();
        shedders.set([&a, &b].map(Some).into_iter());
        assert_eq!(shedders.numbers, [1, 2]);
        shedders.set([&c, &b, &a].map(Some).into_iter());
        assert_eq!(shedders.numbers, [3, 2, 1]);
        shedders.set([&b].map(Some).into_iter());
        assert_eq!(shedders.numbers, [2]);
        shedders.set([&a, &b].map(Some).into_iter());
        assert_eq!(shedders.numbers, [4, 2]);
    }
}
