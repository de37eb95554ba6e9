//! Flows and packets by the laws that the paper found in its trace.
//!
//! Its networks (upper 16 bits of destinations) have addresses by Zipf's law, the first 97
//! (figure 1), and its destinations have sources by the same law, the first 3,000 (figure 2).
//! How often packets of a flow come is not said; here that follows Zipf's law, too, each
//! packet drawn for itself. Real packets come in trains, which caches favour.

use forebay_flow::{OneWay, ShortKey};
use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;
use forebay_packet::random::{Random, mix};

use crate::named::named;

named! {
    /// Which flows there are.
    pub enum Set {
        /// As many networks as make the paper's 49 MB. A destination has 800 sources at most,
        /// because its table has no more than 896 entries.
        Paper = "paper",
        /// About a million flows: the same laws with larger constants.
        Million = "million",
    }
}

impl Set {
    /// Networks; addresses of a network and sources of a destination: the most, and the
    /// constant of the law.
    fn shape(self) -> (usize, [usize; 2], [usize; 2]) {
        match self {
            Self::Paper => (9_600, [97, 97], [800, 3_000]),
            Self::Million => (20_000, [200, 9_700], [800, 140_000]),
        }
    }
}

const SEED: u64 = 20_001_123;
const TCP: u8 = 6;

/// Ports of servers.
const PORTS: [u16; 4] = [443, 80, 53, 25];

/// A flow in the form of each table.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub exact: ShortKey,
    pub compact: OneWay,
}

impl Flow {
    fn new(source: u32, destination: u32, ports: [u16; 2]) -> Option<Self> {
        let [a, b] = [(source, ports[0]), (destination, ports[1])]
            .map(|(address, port)| (u128::from(address), port));
        let (key, _) = FlowKey::two_way(AddressKind::Ipv4, TCP, a, b);
        let exact = ShortKey::new(&FlowKey { has_ports: true, ..key })?;
        Some(Self { exact, compact: OneWay::new(source, destination, ports) })
    }
}

#[derive(Debug)]
pub struct Traffic {
    /// In the order in which their packets are frequent.
    pub flows: Vec<Flow>,
    pub destinations: usize,
    /// The sum of 1/rank up to each rank.
    shares: Vec<f64>,
}

impl Traffic {
    pub fn new(set: Set) -> Self {
        let (networks, addresses, sources) = set.shape();
        let mut random = Random::new(SEED);
        let zipf =
            |[most, constant]: [usize; 2], place: usize| (constant / (place + 1)).clamp(1, most);
        let mut destinations = Vec::new();
        for (place, network) in random.draw(networks, 1 << 16).into_iter().enumerate() {
            let (first, step) = (random.next() as u16, random.next() as u16 | 1);
            for n in 0..zipf(addresses, place) as u16 {
                let host = first.wrapping_add(n.wrapping_mul(step));
                destinations.push(network << 16 | u32::from(host));
            }
        }
        random.shuffle(&mut destinations);
        let mut flows = Vec::new();
        for (place, &destination) in destinations.iter().enumerate() {
            let (first, step) = (random.next() as u32, random.next() as u32 | 1);
            for n in 0..zipf(sources, place) as u32 {
                let source = first.wrapping_add(n.wrapping_mul(step));
                let ports = [random.between(32_768, 60_999) as u16, random.pick(&PORTS)];
                flows.extend(Flow::new(source, destination, ports));
            }
        }
        random.shuffle(&mut flows);
        let mut sum = 0.0;
        let share = |rank: usize| {
            sum += 1.0 / rank as f64;
            sum
        };
        let shares = (1..=flows.len()).map(share).collect();
        Self { flows, destinations: destinations.len(), shares }
    }

    /// The flow of each packet of part `part` of the traffic.
    pub fn packets(&self, part: u64, count: usize) -> Vec<Flow> {
        let mut random = Random::of_part(SEED, part);
        let all = self.shares.last().copied().unwrap_or_default();
        let flow = |_| {
            let unit = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            let rank = self.shares.partition_point(|&share| share <= unit * all);
            self.flows[rank.min(self.flows.len() - 1)]
        };
        (0..count).map(flow).collect()
    }

    /// What the flow's state is in the tables.
    pub fn state(flow: &Flow) -> u16 {
        let whole = flow.exact.whole();
        mix((whole.low ^ whole.high << 32) as u64 ^ u64::from(whole.port_low)) as u16
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn flows_are_as_many_as_the_laws_say_and_packets_follow_zipf() {
        let traffic = Traffic::new(Set::Paper);
        let distinct: HashSet<OneWay> = traffic.flows.iter().map(|flow| flow.compact).collect();
        assert_eq!(distinct.len(), traffic.flows.len());
        assert!((25_000..35_000).contains(&distinct.len()), "{}", distinct.len());
        assert!((9_900..10_200).contains(&traffic.destinations), "{}", traffic.destinations);
        let mut counts: HashMap<OneWay, usize> = HashMap::new();
        for flow in traffic.packets(1, 200_000) {
            *counts.entry(flow.compact).or_default() += 1;
        }
        // The harmonic number of 30,000 is 10.9.
        let first = counts[&traffic.flows[0].compact];
        let tenth = counts[&traffic.flows[9].compact];
        assert!(first.abs_diff(200_000 * 10 / 109) < 1_000, "{first}");
        assert!(tenth.abs_diff(first / 10) < 300, "{tenth}");
    }
}
