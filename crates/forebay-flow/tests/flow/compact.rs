//! The compact table against the paper's addresses, computed anew, and against a map.

use std::collections::HashMap;

use forebay_flow::{Compact, CompactError, MAX_SOURCES, OneWay};
use forebay_packet::random::{Random, mix};

/// The paper's levels as maps from addresses to what is there.
struct Model {
    destinations: usize,
    /// The number of each network, by upper bits.
    networks: HashMap<u32, usize>,
    /// The destination at each place of a network's table, and the number of its table.
    places: HashMap<(usize, usize), (u32, usize)>,
    /// The 16 bits and the state of a source at each address of the third level.
    sources: HashMap<usize, (u16, u16)>,
}

impl Model {
    /// Where a flow is or would be, and every read on the way.
    fn walk(&mut self, (source, destination, port): (u32, u32, u16), add: bool) -> Walk {
        let second = 65_536 * 4;
        let third = second + self.destinations.min(65_536) * 256 * 4;
        let hash = mix(u64::from(source) | u64::from(port) << 32);
        let h = ((hash >> 32) * 896 / (1 << 32)) as usize;
        let tag = (hash as u16).max(1);
        let mut walk = Walk { reads: vec![((destination >> 16) as usize * 4, 4)], at: None, tag };
        let count = self.networks.len();
        let network = match self.networks.get(&(destination >> 16)) {
            Some(&network) => network,
            None if !add => return walk,
            None => *self.networks.entry(destination >> 16).or_insert(count),
        };
        let mut place = mix(u64::from(destination & 0xffff)) as usize & 255;
        let ptr2 = loop {
            walk.reads.push((second + network * 1024 + place * 4, 4));
            let count = self.places.len();
            let (there, ptr2) = match self.places.get(&(network, place)) {
                Some(&taken) => taken,
                None if !add => return walk,
                None => *self.places.entry((network, place)).or_insert((destination, count)),
            };
            walk.reads.push((third + ptr2 * 32 * 128 + 32 * (h / 7), 4));
            if there == destination {
                break ptr2;
            }
            place = (place + 1) & 255;
        };
        for h in (h..896).chain(0..h) {
            // As in section 4.3, with the factor that the print lacks.
            let state = ptr2 * 32 * 128 + 32 * (h / 7) + (h % 7) * 4 + 4;
            walk.reads.push((third + state, 4));
            walk.at = Some(state);
            if self.sources.get(&state).is_none_or(|&(there, _)| there == tag) {
                return walk;
            }
        }
        walk.at = Some(ptr2 * 32 * 128 + 32 * (h / 7) + (h % 7) * 4 + 4);
        walk
    }
}

struct Walk {
    reads: Vec<(usize, usize)>,
    at: Option<usize>,
    tag: u16,
}

/// Finds and adds random flows to few destinations, and compares states and reads.
fn compare(destinations: usize, networks: u64, sources: u64, steps: usize) {
    let mut random = Random::new(networks);
    let mut table = Compact::new(destinations).unwrap();
    let mut model = Model {
        destinations,
        networks: HashMap::new(),
        places: HashMap::new(),
        sources: HashMap::new(),
    };
    for _ in 0..steps {
        let to = random.below(destinations as u64);
        let destination = ((to % networks) << 16 | (mix(to) & 0xffff)) as u32;
        let (source, port) = (random.below(sources) as u32, random.below(2) as u16);
        let flow = OneWay::new(source, destination, [port, 50_000]);
        let mut reads = Vec::new();
        let found = table.find_recorded(flow, |address, len| reads.push((address, len)));
        let walk = model.walk((source, destination, port), false);
        assert_eq!(reads, walk.reads);
        let there = walk.at.and_then(|at| model.sources.get(&at));
        let there = there.filter(|&&(tag, _)| tag == walk.tag).copied();
        assert_eq!((found, table.find(flow)), (there.map(|(_, state)| state), found));
        if random.below(2) == 0 {
            let walk = model.walk((source, destination, port), true);
            let (state, is_new) = table.state(flow).unwrap();
            assert_eq!((*state, is_new), (found.unwrap_or(0), found.is_none()));
            *state = random.next() as u16;
            model.sources.insert(walk.at.unwrap(), (walk.tag, *state));
        }
    }
    assert_eq!(table.flows(), model.sources.len());
    let bytes = 65_536 * 4 + model.networks.len() * 1024 + model.places.len() * 4096;
    assert_eq!(table.bytes(), bytes);
}

#[test]
fn reads_are_at_the_addresses_of_the_paper() {
    compare(4_000, 1_000, 20, 200_000);
    // Taken places of networks' tables, and sources beyond those of a destination's table.
    compare(200, 1, 50, 50_000);
    compare(3, 2, 1_000, 50_000);
}

/// Flows that were never added are found as often as computed, within 10% or four standard
/// deviations of the count.
#[test]
fn flows_are_taken_for_others_as_often_as_computed() {
    let destinations = 100;
    for (sources, packets) in
        [(MAX_SOURCES / 2, 16_000_000), (MAX_SOURCES * 8 / 10, 16_000_000), (MAX_SOURCES, 200_000)]
    {
        let mut random = Random::new(sources as u64);
        let mut table = Compact::new(destinations).unwrap();
        for to in 0..destinations as u32 {
            let first = table.flows();
            while table.flows() < first + sources {
                // Packets have even sources.
                let source = random.next() as u32 | 1;
                table.state(OneWay::new(source, to << 12, [80, 1_024])).unwrap();
            }
        }
        let is_found = |_: &u64| {
            let (source, to) = (random.next() as u32 & !1, random.below(destinations as u64));
            table.find(OneWay::new(source, (to as u32) << 12, [80, 1_024])).is_some()
        };
        let found = (0..packets).filter(is_found).count() as f64;
        let computed = Compact::false_hit_rate(sources) * packets as f64;
        println!("{sources} sources: {found} of {packets} found, {computed:.1} computed");
        let tolerance = (0.1 * computed).max(4.0 * computed.sqrt());
        assert!((found - computed).abs() <= tolerance, "{sources}: {found}, {computed} computed");
    }
}

#[test]
fn both_directions_are_flows_and_connections_to_a_port_are_one() {
    let one = OneWay::new(1, 2, [50_000, 443]);
    assert_eq!(one, OneWay::new(1, 2, [443, 50_001]));
    assert_ne!(one, OneWay::new(2, 1, [443, 50_000]));
    assert_ne!(one, OneWay::new(1, 2, [50_000, 444]));
}

#[test]
fn a_table_without_room_is_an_error() {
    let mut table = Compact::new(1).unwrap();
    let mut add = |destination| table.state(OneWay::new(1, destination, [1, 2])).map(|_| ());
    assert!(add(7).is_ok() && add(7).is_ok());
    assert!(matches!(add(8), Err(CompactError::Destinations(to)) if to.octets() == [0, 0, 0, 8]));
    let mut table = Compact::new(1_000).unwrap();
    for to in 0..256 {
        table.state(OneWay::new(1, to, [1, 2])).unwrap();
    }
    assert!(matches!(table.state(OneWay::new(1, 256, [1, 2])), Err(CompactError::Network(_))));
    assert_eq!(table.find(OneWay::new(1, 256, [1, 2])), None);
    assert!(matches!(Compact::new(usize::MAX), Err(CompactError::Memory { .. })));
}
