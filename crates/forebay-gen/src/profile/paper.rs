//! Traffic on which 13 filters match the shares of table 1 of Yamashita and
//! Tsuru, "Software Pipelining for Packet Filters" (HPCC 2007, LNCS 4782).
//!
//! The paper's packets were captured in a laboratory and are not published; the
//! table gives what share of them each filter accepts, without the addresses and
//! ports. Here the network is 192.168.1.0/24 and the port 3000:
//!
//! | filter, with and without `ip and` | accepts |
//! |---|---|
//! | `ip` | 100% |
//! | `tcp` | 99.8% |
//! | `udp` | 0.2% |
//! | `dst net 192.168.1.0/24` | 4.9% |
//! | `net 192.168.1.0/24` | 10.9% |
//! | `dst port 3000` | 9.3% |
//! | `port 3000` | 21.41% |
//!
//! Three traits of a packet are therefore independent: its protocol, at which end
//! the network is, if at all, and at which end the port. Their 18 combinations get
//! packets by the product of the shares, rounded so that the total is exact. A
//! flow is of one of ten classes, by which it can have packets of one
//! combination or, with the ends exchanged, of another. The packets of a class
//! first visit each of its flows once and are of random flows then.
//!
//! The frames are small, as the paper's filters look at headers only; nothing is
//! made of the sessions they would belong to.

use std::net::{IpAddr, Ipv4Addr};

use super::source::{EPOCH, Source};
use super::uniform::Arrivals;
use crate::config::{Config, FCS, PAPER_CLASSES as CLASSES};
use crate::headers::{
    Direction, Frame, TcpFlags, TcpHeader, TcpOptions, UDP_HEADER, protocol, write_tcp, write_udp,
};
use crate::path::{AddressPlan, Path};
use forebay_packet::random::{Random, fill_at, mix};

/// Shares in hundredths of a percent: TCP, UDP.
const PROTOCOLS: [u64; 2] = [9_980, 20];
/// Network at neither end, at the destination, at the source.
const NETWORKS: [u64; 3] = [8_910, 490, 600];
/// Port at neither end, at the destination, at the source.
const PORTS: [u64; 3] = [7_859, 930, 1_211];

const NETWORK: [u8; 3] = [192, 168, 1];
/// Hosts of the network, and the first of their client ports.
const HOSTS: u64 = 254;
const FIRST_PORT: u16 = 20_000;
const PORT: u16 = 3000;
/// Server port of flows without the port above.
const OTHER_PORT: u16 = 80;

/// The end of a packet that has a trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Neither,
    Destination,
    Source,
}

const ENDS: [At; 3] = [At::Neither, At::Destination, At::Source];

/// One combination of traits.
#[derive(Clone, Copy, Debug)]
struct Combination {
    udp: bool,
    network: At,
    port: At,
}

impl Combination {
    fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().flat_map(|udp| {
            ENDS.into_iter().flat_map(move |network| {
                ENDS.into_iter().map(move |port| Self { udp, network, port })
            })
        })
    }

    /// The share of packets, in units of 10^-12.
    fn weight(self) -> u64 {
        PROTOCOLS[usize::from(self.udp)]
            * NETWORKS[self.network as usize]
            * PORTS[self.port as usize]
    }

    fn class(self) -> usize {
        let relation = match (self.network, self.port) {
            (At::Neither, At::Neither) => 0,
            (_, At::Neither) => 1,
            (At::Neither, _) => 2,
            (network, port) if network == port => 3,
            _ => 4,
        };
        usize::from(self.udp) * (CLASSES / 2) + relation
    }
}

/// Splits `total` by weights: rounded down, the rest to the largest remainders.
fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&w| u128::from(w)).sum::<u128>().max(1);
    let exact: Vec<u128> = weights.iter().map(|&w| u128::from(total) * u128::from(w)).collect();
    let mut shares: Vec<u64> = exact.iter().map(|product| (product / sum) as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(exact[i] % sum));
    let missing = total - shares.iter().sum::<u64>();
    for &i in order.iter().take(missing as usize) {
        shares[i] += 1;
    }
    shares
}

/// Flows of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    first: u64,
    flows: u64,
    visited: u64,
}

/// Gives each class with packets at least one flow, and at most as many flows as packets.
/// The sum is less than `flows` only if no class can take more, which cannot happen as
/// there are at least as many packets as flows.
fn share_flows(flows: u64, packets: &[u64; CLASSES]) -> [Class; CLASSES] {
    let mut classes = [Class::default(); CLASSES];
    let wanted = apportion(flows, packets);
    for (class, (&wanted, &packets)) in classes.iter_mut().zip(wanted.iter().zip(packets)) {
        class.flows = wanted.max(1).min(packets);
    }
    let mut total: u64 = classes.iter().map(|class| class.flows).sum();
    while total != flows {
        // Classes raised to one flow make too many, classes cut to their packets too few:
        // at most one each.
        let largest = (0..CLASSES).max_by_key(|&i| {
            if total > flows { classes[i].flows } else { packets[i] - classes[i].flows }
        });
        let Some(class) = largest.map(|i| &mut classes[i]) else { break };
        if total > flows {
            class.flows -= 1;
            total -= 1;
        } else {
            class.flows += 1;
            total += 1;
        }
    }
    let mut first = 0;
    for class in &mut classes {
        class.first = first;
        first += class.flows;
    }
    classes
}

/// The packet source of the `paper` profile.
#[derive(Debug)]
pub struct Paper {
    seed: u64,
    captured: usize,
    plan: AddressPlan,
    random: Random,
    arrivals: Arrivals,
    /// Packets left of each combination, in the order of [`Combination::all`].
    left: Vec<u64>,
    classes: [Class; CLASSES],
}

impl Paper {
    /// The source for a valid configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let weights: Vec<u64> = Combination::all().map(Combination::weight).collect();
        let left = apportion(config.packets, &weights);
        let mut of_class = [0; CLASSES];
        for (combination, packets) in Combination::all().zip(&left) {
            of_class[combination.class()] += packets;
        }
        Self {
            seed: config.seed,
            captured: usize::from(config.size_or_default() - FCS),
            plan: AddressPlan::new(config.flows, config.seed),
            random: Random::of_part(config.seed, u64::MAX),
            arrivals: Arrivals::new(config),
            left,
            classes: share_flows(config.flows, &of_class),
        }
    }

    /// The flow of a class's next packet.
    fn draw_flow(&mut self, class: usize) -> u64 {
        let class = &mut self.classes[class];
        let within = if class.visited < class.flows {
            class.visited += 1;
            class.visited - 1
        } else {
            self.random.below(class.flows)
        };
        class.first + within
    }

    /// The path of a flow and the direction of a packet of this combination. The server has
    /// the port; the class determines the end with the network.
    fn path(&mut self, flow: u64, combination: Combination) -> (Path, Direction) {
        let mut of_flow = Random::of_part(self.seed, flow);
        let (mut client, mut client_port) = self.plan.client(flow, false);
        let mut server = self.plan.server(&mut of_flow, false);
        let Combination { network, port, .. } = combination;
        let host = |number: u64| {
            let [a, b, c] = NETWORK;
            IpAddr::V4(Ipv4Addr::new(a, b, c, 1 + (number % HOSTS) as u8))
        };
        let direction = match (network, port) {
            (_, At::Destination) | (At::Destination, At::Neither) => Direction::ToServer,
            (_, At::Source) | (At::Source, At::Neither) => Direction::ToClient,
            _ if self.random.one_in(2) => Direction::ToServer,
            _ => Direction::ToClient,
        };
        match (network, port) {
            (At::Neither, _) => {}
            (network, port) if port == At::Neither || network == port => server = host(mix(flow)),
            _ => {
                // The plan's ports are unique only on the plan's hosts.
                let within = flow - self.classes[combination.class()].first;
                client = host(within);
                client_port = FIRST_PORT + (within / HOSTS) as u16;
            }
        }
        let server_port = if port == At::Neither { OTHER_PORT } else { PORT };
        let path = Path::new([client, server], [client_port, server_port], &mut of_flow);
        (path, direction)
    }
}

impl Source for Paper {
    fn next(&mut self, frame: &mut Frame) -> Option<u64> {
        if self.arrivals.left() == 0 {
            return None;
        }
        let index = self.random.weighted(&self.left);
        self.left[index] -= 1;
        let combination = Combination::all().nth(index)?;
        let flow = self.draw_flow(combination.class());
        let (mut path, direction) = self.path(flow, combination);
        let now = self.arrivals.next();
        let key = self.random.next();
        let len = path.transport_limit(self.captured);
        let protocol = if combination.udp { protocol::UDP } else { protocol::TCP };
        let header = path.header(direction, protocol);
        let ports = path.ports(direction);
        let room = frame.room(&path.encapsulation, direction, &header);
        let payload = if combination.udp {
            write_udp(room, ports, len - UDP_HEADER);
            UDP_HEADER
        } else {
            let tcp = TcpHeader {
                ports,
                // A plausible sequence number at this time.
                sequence: (mix(flow) as u32).wrapping_add(((now - EPOCH) >> 10) as u32),
                acknowledgement: key as u32,
                flags: TcpFlags::PUSH_ACK,
                window: 501,
                options: TcpOptions::default(),
            };
            write_tcp(room, &tcp)
        };
        fill_at(key, 0, &mut room[payload..len]);
        frame.seal(&path.encapsulation, direction, &header, len);
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apportioned_shares_add_up() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(7, &[0, 2]), [0, 7]);
        assert_eq!(apportion(0, &[3, 2]), [0, 0]);
    }

    #[test]
    fn flows_are_shared_exactly() {
        let packets = [900, 30, 20, 10, 5, 1, 0, 0, 0, 0];
        for flows in [10, 50, 966] {
            let classes = share_flows(flows, &packets);
            assert_eq!(classes.iter().map(|c| c.flows).sum::<u64>(), flows);
            for (class, packets) in classes.iter().zip(packets) {
                assert!(class.flows <= packets && (class.flows > 0) == (packets > 0));
            }
        }
    }
}
