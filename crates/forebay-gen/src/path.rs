//! Addresses, ports, tags and tunnels of flows.
//!
//! Flows must have different two-way 5-tuples, without a set of those in use. [`AddressPlan`]
//! numbers the clients' (address, port) pairs, so that each flow has a pair of its own,
//! from blocks without servers. The rest of a key, the server's side, can then follow the
//! popularity of servers. ICMP has no ports: each ping has a unique target instead.
//!
//! | addresses | use |
//! |---|---|
//! | 10.0.0.0/9, fd46:6f72:6562:0::/64 | clients |
//! | 10.128.0.0/9, fd46:6f72:6562:1::/64 | targets of pings |
//! | 198.18.0.0/15 (RFC 2544), 2001:db8::/32 (RFC 3849) | servers |
//! | 172.16.0.0/16 | tunnel ends and routers |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::MAX_FLOWS;
use crate::headers::{Direction, Encapsulation, InternetHeader, Tags, Tunnel, TunnelKind};
use forebay_packet::random::{Random, mix};

/// Mean flows of one client host.
const FLOWS_PER_HOST: u64 = 12;
const HOST_MASK: u64 = MAX_FLOWS - 1;
const CLIENTS: u32 = 0x0a00_0000;
const PING_TARGETS: u32 = 0x0a80_0000;
const SERVERS: u32 = 0xc612_0000;
const SERVER_BITS: u64 = 17;
const LOCAL_PREFIX: u128 = 0xfd46_6f72_6562 << 80;
const DOCUMENTATION_PREFIX: u128 = 0x2001_0db8 << 96;
/// First ephemeral port of Linux, and the range of a client's first port.
const EPHEMERAL: u64 = 32_768;
const EPHEMERAL_STARTS: u64 = 28_000;

const _: () = assert!(EPHEMERAL + EPHEMERAL_STARTS + FLOWS_PER_HOST < 1 << 16);

/// Proportions of tagged and of tunnelled flows: one in this many.
const TAGGED: u64 = 7;
const TUNNELLED: u64 = 10;

/// The numbering of a capture's hosts.
#[derive(Clone, Copy, Debug)]
pub struct AddressPlan {
    hosts: u64,
    scatter: u64,
}

impl AddressPlan {
    /// The plan for this many flows.
    #[must_use]
    pub fn new(flows: u64, seed: u64) -> Self {
        // Multiplication by an odd number permutes the numbers below 2^23.
        Self { hosts: flows.div_ceil(FLOWS_PER_HOST).max(1), scatter: mix(seed) | 1 }
    }

    fn scattered(&self, number: u64) -> u32 {
        (number.wrapping_mul(self.scatter) & HOST_MASK) as u32
    }

    /// The client's address and port of flow number `flow`.
    #[must_use]
    pub fn client(&self, flow: u64, ipv6: bool) -> (IpAddr, u16) {
        let (host, number) = (flow % self.hosts, flow / self.hosts);
        let port = EPHEMERAL + mix(self.scatter ^ host) % EPHEMERAL_STARTS + number;
        let address = if ipv6 {
            let interface = u128::from(mix(self.scatter.wrapping_add(host)));
            // The host's number keeps the address unique, whatever is mixed in.
            IpAddr::V6((LOCAL_PREFIX | (interface & !0xff_ffff) | u128::from(host)).into())
        } else {
            IpAddr::V4((CLIENTS | self.scattered(host)).into())
        };
        (address, port as u16)
    }

    /// The address pinged only by flow number `flow`.
    #[must_use]
    pub fn ping_target(&self, flow: u64, ipv6: bool) -> IpAddr {
        if ipv6 {
            IpAddr::V6((LOCAL_PREFIX | 1 << 64 | u128::from(flow)).into())
        } else {
            IpAddr::V4((PING_TARGETS | self.scattered(flow)).into())
        }
    }

    /// A server: its number is uniform in the logarithm, so its popularity falls with its
    /// rank.
    #[must_use]
    pub fn server(&self, random: &mut Random, ipv6: bool) -> IpAddr {
        let bits = random.below(SERVER_BITS + 1);
        let rank = 1 + random.below(1 << bits);
        // Odd multipliers permute these too.
        let number = rank.wrapping_mul(self.scatter) & ((1 << SERVER_BITS) - 1);
        if ipv6 {
            let subnet = u128::from(number >> 4) << 64;
            IpAddr::V6((DOCUMENTATION_PREFIX | subnet | (u128::from(number & 15) + 1)).into())
        } else {
            IpAddr::V4((SERVERS | number as u32).into())
        }
    }
}

/// One flow's path through the network, with the counters of its two ends.
#[derive(Clone, Debug)]
pub struct Path {
    /// The client's and the server's address, of one family.
    pub ends: [IpAddr; 2],
    /// The client's and the server's port.
    pub ports: [u16; 2],
    /// The headers around the internet packets.
    pub encapsulation: Encapsulation,
    ttl: [u8; 2],
    identification: [u32; 2],
    label: u32,
}

impl Path {
    /// A plain path between two ends: neither tagged nor tunnelled.
    #[must_use]
    pub fn new(ends: [IpAddr; 2], ports: [u16; 2], random: &mut Random) -> Self {
        let draw = random.next();
        // Hops away from initial values of 64 and 128.
        let client_ttl = if draw & 1 == 0 { 64 } else { 128 } - (draw >> 8 & 1) as u8;
        let server_ttl = 64 - (draw >> 16 & 15) as u8;
        Self {
            ends,
            ports,
            encapsulation: Encapsulation {
                macs: [station_of(ends[0]), ROUTER],
                tags: Tags::default(),
                tunnel: None,
            },
            ttl: [client_ttl, server_ttl],
            identification: [random.next() as u32, random.next() as u32],
            label: random.next() as u32 & 0xf_ffff,
        }
    }

    /// Adds VLAN tags to one path in seven, and a tunnel to one in ten if `may_tunnel`.
    pub fn decorate(&mut self, may_tunnel: bool, random: &mut Random) {
        if random.one_in(TAGGED) {
            self.encapsulation.tags = Tags {
                vlan: Some(100 + random.below(8) as u16),
                service: random.one_in(8).then(|| 2000 + random.below(3) as u16),
                one_way: random.one_in(8),
            };
        }
        if may_tunnel && random.one_in(TUNNELLED) {
            self.encapsulation.tunnel = Some(self.tunnel(random));
        }
    }

    fn tunnel(&self, random: &mut Random) -> Tunnel {
        const KINDS: [TunnelKind; 6] = [
            TunnelKind::Vxlan,
            TunnelKind::GtpU,
            TunnelKind::Geneve,
            TunnelKind::Ip,
            TunnelKind::Gre,
            TunnelKind::GreKey,
        ];
        let kind = KINDS[random.weighted(&[4, 4, 2, 2, 1, 1])];
        let site = random.below(4) as u8;
        // The entropy of the inner flow, as RFC 7348 section 5 recommends.
        let [client, server] = self.ports.map(u64::from);
        let inner =
            mix(address_hash(self.ends[0]) ^ address_hash(self.ends[1])) ^ (client << 16 | server);
        Tunnel {
            kind,
            ends: [
                Ipv4Addr::new(172, 16, kind as u8, 10 + site),
                Ipv4Addr::new(172, 16, kind as u8, 1),
            ],
            id: 5000 + u32::from(site),
            source_port: 49_152 | (mix(inner) & 0x3fff) as u16,
        }
    }

    /// Whether the flow is IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.ends[0].is_ipv6()
    }

    /// Source and destination port of packets in this direction.
    #[must_use]
    pub fn ports(&self, direction: Direction) -> [u16; 2] {
        let from = direction.index();
        [self.ports[from], self.ports[1 - from]]
    }

    /// The header of the sender's next packet.
    pub fn header(&mut self, direction: Direction, protocol: u8) -> InternetHeader {
        let from = direction.index();
        self.identification[from] = self.identification[from].wrapping_add(1);
        InternetHeader {
            source: self.ends[from],
            destination: self.ends[1 - from],
            protocol,
            ttl: self.ttl[from],
            identification: self.identification[from],
            label: self.label,
            fragment: None,
            dont_fragment: true,
        }
    }

    /// The most bytes after an unfragmented internet header in a frame of `longest` bytes,
    /// in either direction.
    #[must_use]
    pub fn transport_limit(&self, longest: usize) -> usize {
        let internet = if self.is_ipv6() { 40 } else { 20 };
        longest - self.encapsulation.len(Direction::ToServer) - internet
    }
}

/// A router between the ends, as the sender of errors.
#[must_use]
pub fn router(ipv6: bool, random: &mut Random) -> IpAddr {
    let number = random.below(4) as u8;
    if ipv6 {
        let address = LOCAL_PREFIX | 2 << 64 | u128::from(number);
        IpAddr::V6(Ipv6Addr::from(address))
    } else {
        IpAddr::V4(Ipv4Addr::new(172, 16, 255, 1 + number))
    }
}

/// The station on the servers' side of the tap.
const ROUTER: [u8; 6] = [0x02, 0x00, 0x5e, 0x00, 0x01, 0x01];

fn address_hash(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => mix(u64::from(v4.to_bits())),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            mix((bits >> 64) as u64) ^ mix(bits as u64)
        }
    }
}

/// A locally administered station address for a host.
fn station_of(address: IpAddr) -> [u8; 6] {
    let hash = address_hash(address).to_be_bytes();
    [0x02, 0x42, hash[0], hash[1], hash[2], hash[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn clients_and_ping_targets_are_unique_and_fill_their_ports() {
        for flows in [1, 13, 5_000, 100_000] {
            let plan = AddressPlan::new(flows, 77);
            for ipv6 in [false, true] {
                let clients: HashSet<_> = (0..flows).map(|i| plan.client(i, ipv6)).collect();
                let targets: HashSet<_> = (0..flows).map(|i| plan.ping_target(i, ipv6)).collect();
                assert_eq!((clients.len() as u64, targets.len() as u64), (flows, flows));
            }
        }
    }

    #[test]
    fn the_largest_plan_keeps_ports_in_range() {
        let plan = AddressPlan::new(MAX_FLOWS, 1);
        let (_, port) = plan.client(MAX_FLOWS - 1, false);
        assert!(u64::from(port) >= EPHEMERAL);
    }
}
