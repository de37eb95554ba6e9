//! What each flow gets of a link, and how fair that is.

use super::{Bottleneck, Count, LinkOptions, Outcome, Packet, PolicyError, Verdict};

/// What became of a flow's packets. Those that are in neither of the sums are in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowShare {
    /// Arrived.
    pub offered: Count,
    /// Sent without a mark.
    pub delivered: Count,
    /// Sent with a mark.
    pub marked: Count,
    /// Dropped.
    pub dropped: Count,
    /// The weight of its first packet's class.
    pub weight: u16,
}

impl FlowShare {
    /// Sent, with or without a mark.
    #[must_use]
    pub fn sent(&self) -> Count {
        self.delivered + self.marked
    }
}

/// How fair a link is to flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fairness {
    /// Flows with bytes that arrived.
    pub flows: u64,
    /// Jain's index of these flows' sent bytes, each divided by the flow's weight: 1 if all are
    /// equal, 1/n if one of n flows has all. As all flows are measured over the same time, bytes
    /// stand for rates.
    pub jain: f64,
    /// Jain's index of these flows' sent bytes, each divided by the flow's max-min fair share of
    /// all bytes that were sent: 1 if each flow has what it would have by ideal fair queueing. A
    /// flow that offers less than others is not a sign of unfairness here.
    pub jain_of_fair_share: f64,
}

/// A link behind a policy with the states and shares of its flows, which are numbered from 0.
#[derive(Debug)]
pub struct SharedLink {
    bottleneck: Bottleneck,
    states: Vec<u16>,
    flows: Vec<FlowShare>,
}

impl SharedLink {
    /// An idle link.
    ///
    /// # Errors
    /// Options out of bounds.
    pub fn new(options: &LinkOptions) -> Result<Self, PolicyError> {
        let bottleneck = Bottleneck::new(options)?;
        Ok(Self { bottleneck, states: Vec::new(), flows: Vec::new() })
    }

    /// A packet arrives.
    pub fn packet(&mut self, packet: Packet) {
        let at = packet.flow as usize;
        if self.flows.len() <= at {
            self.flows.resize(at + 1, FlowShare::default());
            self.states.resize(at + 1, 0);
        }
        let Self { bottleneck, states, flows } = self;
        let share = &mut flows[at];
        if share.offered.packets == 0 {
            share.weight = packet.weight.max(1);
        }
        share.offered += Count::of(packet.len);
        bottleneck.packet(packet, &mut states[at], |Outcome { flow, len, verdict }| {
            let share = &mut flows[flow as usize];
            let count = match verdict {
                Verdict::Pass => &mut share.delivered,
                Verdict::Mark => &mut share.marked,
                Verdict::Drop(_) => &mut share.dropped,
            };
            *count += Count::of(len);
        });
    }

    /// The link.
    #[must_use]
    pub fn bottleneck(&self) -> &Bottleneck {
        &self.bottleneck
    }

    /// The shares of the flows, by their numbers.
    #[must_use]
    pub fn flows(&self) -> &[FlowShare] {
        &self.flows
    }

    /// The value of a flow's state (see [`Bottleneck::reading`]); 0 for a flow without packets.
    #[must_use]
    pub fn reading(&self, flow: usize) -> u64 {
        self.states.get(flow).map_or(0, |&state| self.bottleneck.reading(state))
    }

    /// How fair the link was; `None` if nothing was sent.
    #[must_use]
    pub fn fairness(&self) -> Option<Fairness> {
        let active = || self.flows.iter().filter(|flow| flow.offered.bytes > 0);
        let share_per_weight = self.max_min_share();
        let sent = |flow: &FlowShare| flow.sent().bytes as f64;
        let of_weight = active().map(|flow| sent(flow) / f64::from(flow.weight));
        let of_share = active().map(|flow| {
            let most = share_per_weight * f64::from(flow.weight);
            sent(flow) / most.min(flow.offered.bytes as f64)
        });
        Some(Fairness {
            flows: active().count() as u64,
            jain: jain(of_weight)?,
            jain_of_fair_share: jain(of_share)?,
        })
    }

    /// The number of bytes *f* for which all flows together had been sent what they were, if each
    /// had been sent *f* times its weight, or what it offered if that is less.
    fn max_min_share(&self) -> f64 {
        let per_weight = |flow: &FlowShare| flow.offered.bytes as f64 / f64::from(flow.weight);
        let active = self.flows.iter().filter(|flow| flow.offered.bytes > 0);
        let mut demands: Vec<(f64, f64)> =
            active.map(|flow| (per_weight(flow), f64::from(flow.weight))).collect();
        demands.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = self.flows.iter().map(|flow| flow.sent().bytes as f64).sum::<f64>();
        let mut weights = demands.iter().map(|demand| demand.1).sum::<f64>();
        for (demand, weight) in demands {
            if demand * weights > left {
                return left / weights;
            }
            left -= demand * weight;
            weights -= weight;
        }
        f64::INFINITY
    }
}

/// Jain's index (Σx)²/(nΣx²); `None` if all are 0.
fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum, squares) = values.fold((0.0, 0.0, 0.0), |(n, sum, squares), value| {
        (n + 1.0, sum + value, squares + value * value)
    });
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{DrrOptions, Policy};

    fn shares(offered_and_sent: &[(u64, u64, u16)]) -> SharedLink {
        let policy = Policy::Drr(DrrOptions::default());
        let options = LinkOptions { rate: 1, buffer: 64, policy, seed: 1 };
        let mut link = SharedLink::new(&options).unwrap();
        let count = |bytes| Count { packets: bytes, bytes };
        link.flows.extend(offered_and_sent.iter().map(|&(offered, sent, weight)| FlowShare {
            offered: count(offered),
            delivered: count(sent),
            weight,
            ..FlowShare::default()
        }));
        link
    }

    #[test]
    fn jains_index_is_that_of_the_definition() {
        assert_eq!(shares(&[]).fairness(), None);
        assert_eq!(shares(&[(5, 0, 1)]).fairness(), None);
        let jain = |flows: &[_]| shares(flows).fairness().unwrap().jain;
        assert_eq!(jain(&[(9, 4, 1), (9, 4, 1), (0, 0, 1)]), 1.0);
        assert_eq!(jain(&[(9, 4, 1), (9, 0, 1), (9, 0, 1), (9, 0, 1)]), 0.25);
        assert_eq!(jain(&[(9, 2, 1), (9, 6, 3)]), 1.0);
    }

    #[test]
    fn small_demands_that_are_met_are_fair() {
        // 100 bytes for demands of 10, 30 and 1,000: 10, 30 and 60 are max-min fair.
        let fair = shares(&[(30, 30, 1), (1_000, 60, 1), (10, 10, 1)]);
        assert_eq!(fair.max_min_share(), 60.0);
        let fairness = fair.fairness().unwrap();
        assert!(fairness.jain < 0.75 && (fairness.jain_of_fair_share - 1.0).abs() < 1e-12);
        let unfair = shares(&[(30, 10, 1), (1_000, 90, 1), (10, 0, 1)]);
        assert!(unfair.fairness().unwrap().jain_of_fair_share < 0.7);
        assert_eq!(shares(&[(5, 5, 1), (6, 6, 1)]).max_min_share(), f64::INFINITY);
        let weighted = shares(&[(900, 30, 1), (900, 60, 2)]);
        assert_eq!(weighted.fairness().unwrap().jain_of_fair_share, 1.0);
    }
}
