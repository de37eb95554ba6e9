//! Which packets do the always-forward rules pass? All their conditions, sorted, so that a packet
//! tests few.
//!
//! Rules with equal headers and conditions are one test. A test is found by what is narrowest in
//! its header: some addresses, else some ports, else any addresses; only what remains is tested for
//! every packet of its protocol. Tests that look at nothing but the ends of a flow, its direction
//! and whether it is established are kept apart: their caller remembers that a flow has failed them.
//!
//! Invariant: a packet that meets header and condition of an always-forward rule passes. A list of
//! tests that would be longer than [`MOST_TESTS`] ends with one that every packet meets.

mod ranges;

use std::collections::HashSet;

use super::RuleSet;
use super::addresses::Element;
use super::condition::{Condition, PacketFacts};
use super::evidence::Evidence;
use super::extract::Class;
use super::header::{Application, Endpoint, Header, Transport, is_extension};
use super::rule::Rule;
use ranges::{RangeMap, ranges_of};

/// The most tests of a list. A packet tests at most five lists of each kind.
pub const MOST_TESTS: usize = 256;

/// A header has so many ports at most to be found by them.
const FEW_PORTS: u64 = 64;

/// A header has so many addresses at most to be found by them rather than by ports.
const FEW_ADDRESSES: u128 = 1 << 16;

/// TCP and UDP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A header and a condition.
#[derive(Clone, Debug)]
struct Test {
    /// The first rule that has them.
    rule: u32,
    header: Header,
    condition: Condition,
    /// Whether it passes the flow once the flow may be HTTP.
    http: bool,
}

impl Test {
    fn of(rule: u32, from: &Rule) -> Self {
        Self {
            rule,
            header: from.header.clone(),
            condition: from.condition.clone(),
            http: from.condition.application == Some(Application::Http),
        }
    }

    /// One that every packet meets.
    fn relaxed(rule: u32, from: &Self) -> Self {
        let mut header = from.header.clone();
        header.protocol.transport = Transport::Any;
        header.source = Element::Any;
        header.destination = Element::Any;
        header.source_ports = Element::Any;
        header.destination_ports = Element::Any;
        let condition = Condition { whole_flow: true, ..Condition::default() };
        Self { rule, header, condition, http: false }
    }
}

/// What passes a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The index of the rule, the first of those with its header and condition.
    pub rule: u32,
    /// Whether the whole flow passes, and not the packet alone. The evidence then says so, too.
    pub whole_flow: bool,
}

/// Lists of tests for the packets of one protocol.
#[derive(Clone, Debug, Default)]
struct Lists {
    any: Vec<u32>,
    source_ports: RangeMap,
    destination_ports: RangeMap,
    sources: RangeMap,
    destinations: RangeMap,
}

impl Lists {
    /// The tests that a packet between these ends may meet.
    fn candidates(&self, source: Endpoint, destination: Endpoint) -> impl Iterator<Item = u32> {
        let lists = [
            self.any.as_slice(),
            self.source_ports.of(u128::from(source.1)),
            self.destination_ports.of(u128::from(destination.1)),
            self.sources.of(ranges::number(source.0)),
            self.destinations.of(ranges::number(destination.0)),
        ];
        lists.into_iter().flatten().copied()
    }

    fn longest(&self) -> usize {
        let maps = [&self.source_ports, &self.destination_ports, &self.sources, &self.destinations];
        self.any.len() + maps.into_iter().map(RangeMap::longest).sum::<usize>()
    }
}

/// Lists by protocol: TCP, UDP, others, and extension headers of IPv6, behind which each may be.
type ByProtocol = [Lists; 4];

fn class_of(protocol: u8) -> usize {
    match protocol {
        TCP => 0,
        UDP => 1,
        _ if is_extension(protocol) => 3,
        _ => 2,
    }
}

/// The tests of the always-forward rules of a set.
#[derive(Clone, Debug, Default)]
pub struct ForwardTests {
    tests: Vec<Test>,
    /// Those of the ends of a flow.
    of_flows: ByProtocol,
    /// Those that look at flags or fields of the packet.
    of_packets: ByProtocol,
    /// A rule that passes what is not IP.
    not_ip: Option<u32>,
}

impl ForwardTests {
    /// The tests of a set.
    #[must_use]
    pub fn new(rules: &RuleSet) -> Self {
        let mut tests: Vec<Test> = Vec::new();
        let mut seen = HashSet::new();
        for (index, rule) in (0..).zip(rules.rules()) {
            let Class::AlwaysForward(_) = rule.class else { continue };
            if seen.insert(identity(rule)) {
                tests.push(Test::of(index, rule));
            }
        }
        // Those that pass whole flows first: the flow is then tested no more.
        tests.sort_by_key(|test| (!test.condition.whole_flow, test.http));
        let any = tests.iter().filter(|test| test.header.protocol.transport == Transport::Any);
        let not_ip = any.map(|test| test.rule).min();
        let mut built = Self { tests, not_ip, ..Self::default() };
        let of_packet =
            |test: &Test| !test.condition.flags.is_empty() || !test.condition.fields.is_empty();
        built.of_flows = built.sorted(|test| !of_packet(test));
        built.of_packets = built.sorted(of_packet);
        built
    }

    /// Sorts those tests that `wanted` selects into lists.
    fn sorted(&mut self, wanted: impl Fn(&Test) -> bool) -> ByProtocol {
        let mut lists = ByProtocol::default();
        let mut relaxed: Vec<Test> = Vec::new();
        let first_relaxed = self.tests.len();
        for (class, (lists, protocol)) in lists.iter_mut().zip([TCP, UDP, 1, 0]).enumerate() {
            let mut maps: [Vec<(u128, u128, u32)>; 4] = Default::default();
            for (id, test) in (0..).zip(&self.tests) {
                let transport = test.header.protocol.transport;
                let admits = match class {
                    2 => {
                        !matches!(transport, Transport::Tcp | Transport::Udp | Transport::TcpOrUdp)
                    }
                    _ => transport.admits(protocol),
                };
                if wanted(test) && admits {
                    place(&test.header, class < 2, id, &mut maps, &mut lists.any);
                }
            }
            // The test in place of those that a list has no room for.
            let mut over = |dropped: u32| {
                relaxed.push(Test::relaxed(
                    self.tests[dropped as usize].rule,
                    &self.tests[dropped as usize],
                ));
                (first_relaxed + relaxed.len() - 1) as u32
            };
            if lists.any.len() > MOST_TESTS {
                let last = over(lists.any[MOST_TESTS]);
                lists.any.truncate(MOST_TESTS);
                lists.any.push(last);
            }
            let [source_ports, destination_ports, sources, destinations] = maps;
            lists.source_ports = RangeMap::new(source_ports, &mut over);
            lists.destination_ports = RangeMap::new(destination_ports, &mut over);
            lists.sources = RangeMap::new(sources, &mut over);
            lists.destinations = RangeMap::new(destinations, &mut over);
        }
        self.tests.append(&mut relaxed);
        lists
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The most tests that a packet can have to take.
    #[must_use]
    pub fn longest(&self) -> usize {
        let both = self.of_flows.iter().zip(&self.of_packets);
        both.map(|(flows, packets)| flows.longest() + packets.longest()).max().unwrap_or(0)
    }

    /// A rule that passes the flow, or else one that passes the packet, by the ends of the flow, its
    /// direction, and whether it is established. If there is none, there is none for other packets of
    /// the flow with the same direction and state of the connection.
    ///
    /// A rule for HTTP passes the flow once the evidence says that it may be HTTP.
    #[inline]
    pub fn of_flow(&self, packet: &PacketFacts, evidence: &mut Evidence) -> Option<Forwarded> {
        self.first_met(&self.of_flows[class_of(packet.protocol)], packet, evidence)
    }

    /// As [`ForwardTests::of_flow`], by rules that also look at flags or fields of the packet.
    #[inline]
    pub fn of_packet(&self, packet: &PacketFacts, evidence: &mut Evidence) -> Option<Forwarded> {
        self.first_met(&self.of_packets[class_of(packet.protocol)], packet, evidence)
    }

    fn first_met(
        &self,
        lists: &Lists,
        packet: &PacketFacts,
        evidence: &mut Evidence,
    ) -> Option<Forwarded> {
        let mut passes = None;
        for id in lists.candidates(packet.source, packet.destination) {
            let Test { rule, header, condition, http } = &self.tests[id as usize];
            let whole_flow = condition.whole_flow;
            let adds_nothing = passes.is_some() && !whole_flow || *http && evidence.is_pending();
            if adds_nothing || !condition.may_match(header, packet) {
                continue;
            }
            let found = Some(Forwarded { rule: *rule, whole_flow });
            if !whole_flow {
                // Another one may pass the whole flow.
                passes = found;
            } else if evidence.forward(*rule, *http) {
                return found;
            }
        }
        passes
    }

    /// A rule that may pass a packet in which a tunnel carries another one: of the header around
    /// the tunnel only protocol and ends are looked at, in both directions.
    #[must_use]
    pub fn of_layer(&self, protocol: u8, a: Endpoint, b: Endpoint) -> Option<u32> {
        let class = class_of(protocol);
        let lists = [&self.of_flows[class], &self.of_packets[class]].into_iter();
        let mut found =
            lists.flat_map(|lists| lists.candidates(a, b).chain(lists.candidates(b, a)));
        let met = |id: &u32| self.tests[*id as usize].header.admits_flow(protocol, a, b);
        found.find(met).map(|id| self.tests[id as usize].rule)
    }

    /// A rule that may pass what is not IP.
    #[must_use]
    pub fn of_other(&self) -> Option<u32> {
        self.not_ip
    }
}

/// Text that is equal for rules of which a packet meets all or none.
fn identity(rule: &Rule) -> String {
    let Header {
        protocol, source, source_ports, destination, destination_ports, both_ways, ..
    } = &rule.header;
    format!(
        "{:?} {source:?} {source_ports:?} {destination:?} {destination_ports:?} {both_ways} {:?}",
        protocol.transport, rule.condition
    )
}

/// Puts a test where packets that may meet its header find it.
fn place(
    header: &Header,
    has_ports: bool,
    id: u32,
    maps: &mut [Vec<(u128, u128, u32)>; 4],
    any: &mut Vec<u32>,
) {
    let ports = |element| ranges_of(element, ranges::ports);
    let addresses = |element| ranges_of(element, ranges::addresses);
    let [sources, destinations] = [&header.source, &header.destination].map(addresses);
    let found = [
        if has_ports { ports(&header.source_ports) } else { None },
        if has_ports { ports(&header.destination_ports) } else { None },
        sources,
        destinations,
    ];
    let sizes = found.each_ref().map(|ranges| ranges.as_ref().map(|ranges| ranges::size(ranges)));
    let narrowest = |of: std::ops::Range<usize>, most: u128| {
        let sized = of.filter_map(|i| sizes[i].map(|size| (size, i)));
        sized.filter(|(size, _)| *size <= most).min().map(|(_, i)| i)
    };
    let best = narrowest(2..4, FEW_ADDRESSES)
        .or_else(|| narrowest(0..2, u128::from(FEW_PORTS)))
        .or_else(|| narrowest(2..4, u128::MAX));
    let Some((best, ranges)) = best.and_then(|best| Some((best, found[best].as_ref()?))) else {
        any.push(id);
        return;
    };
    // With `<>` the other end may have them.
    let places = [Some(best), header.both_ways.then_some(best ^ 1)];
    for place in places.into_iter().flatten() {
        maps[place].extend(ranges.iter().map(|&(first, last)| (first, last, id)));
        // Port 0 is not known: it may be any.
        let has_zero = ranges.first().is_some_and(|&(first, _)| first == 0);
        if place < 2 && !has_zero {
            maps[place].push((0, 0, id));
        }
    }
}
