//! The packets of one family as points, and the rules of a list as regions.
//!
//! A packet is a point of five axes: source and destination address, first and
//! second value, and kind. The values are the ports of a packet that has ports
//! and type and code of one with an ICMP message, where 255 represents all
//! numbers beyond it too. A packet with neither is represented by every pair of
//! values: a rule that admits its kind at all does not test them.
//!
//! A rule is a product of sets, and so one region, but for a rule that asks for
//! an ICMP type beside other protocols, which is two: the messages, and the rest.

use super::kinds::{Catalogue, Classes, ICMP_KIND, KindSet, why_none};
use super::region::{AXES, Point, Ranks, Region};
use super::report::Impossible;
use crate::key::Key;
use crate::rule::{Family, IcmpTest, PortTest, ProtocolTest, Rule, RuleList};
use crate::sets::RangeSet;
use std::ops::Range;

/// Ranges of values on an axis, sorted and apart.
type Values = Vec<(u128, u128)>;

/// A region before the axes are cut.
struct Uncut {
    sides: [Values; AXES],
    kinds: KindSet,
}

/// Where a rule lies.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its index in the list.
    pub index: usize,
    /// Its regions in [`Space::regions`]; none if no packet matches it.
    pub regions: Range<usize>,
}

/// The rules of one family in a list.
pub struct Space {
    family: Family,
    classes: Classes,
    axes: [Axis; AXES],
    /// The regions of all rules, in the order of the rules.
    pub regions: Vec<Region>,
    /// For each region, the rule that it belongs to, as in [`Space::places`].
    pub owners: Vec<u32>,
    /// The rules, in order.
    pub places: Vec<Place>,
}

impl Space {
    /// The space of the rules of `family` in `list`.
    pub fn new(list: &RuleList, family: Family) -> Self {
        let indexed = list.rules.iter().enumerate();
        let rules: Vec<_> = indexed.filter(|(_, rule)| rule.family == family).collect();
        let mut catalogue = Catalogue::default();
        let uncut: Vec<_> =
            rules.iter().map(|(_, rule)| uncut_regions(rule, catalogue.admitted(rule))).collect();
        let classes = catalogue.classes();
        let greatest = [family.greatest(), family.greatest(), GREATEST_VALUE, GREATEST_VALUE];
        let axes = [0, 1, 2, 3].map(|axis| {
            let ranges = uncut.iter().flatten().flat_map(|region| &region.sides[axis]);
            Axis::cut_by(ranges, greatest[axis])
        });
        let mut space =
            Self { family, classes, axes, regions: vec![], owners: vec![], places: vec![] };
        for ((index, _), uncut) in rules.into_iter().zip(&uncut) {
            let owner = space.places.len() as u32;
            let start = space.regions.len();
            for uncut in uncut {
                space.regions.extend(space.region(uncut));
            }
            let regions = start..space.regions.len();
            space.owners.resize(regions.end, owner);
            space.places.push(Place { index, regions });
        }
        space
    }

    /// Whether every packet of the rule at `inner`, which has some, is one of the
    /// rule at `outer`.
    pub fn covers(&self, outer: &Place, inner: &Place) -> bool {
        let mut inside = self.regions[inner.regions.clone()].iter();
        inside.all(|cell| self.regions[outer.regions.clone()].iter().any(|all| all.covers(cell)))
    }

    fn region(&self, uncut: &Uncut) -> Option<Region> {
        let [a, b, c, d] = [0, 1, 2, 3].map(|axis| self.axes[axis].ranks(&uncut.sides[axis]));
        Some(Region { sides: [a?, b?, c?, d?], classes: self.classes.of(&uncut.kinds) })
    }

    /// The key of a packet at `point`.
    pub fn key(&self, point: &Point) -> Key {
        let value = |axis: usize| self.axes[axis].first(point.ranks[axis]);
        let values = [2, 3].map(|axis| value(axis) as u16);
        self.classes.example(point.class).key(self.family, [value(0), value(1)], values)
    }
}

/// Why no packet matches `rule`, which has no region.
pub fn impossible(rule: &Rule) -> Impossible {
    let outside = |set| clip(set, rule.family.greatest()).is_empty();
    if outside(&rule.source) || outside(&rule.destination) {
        Impossible::Address
    } else {
        why_none(rule)
    }
}

/// The greatest number on the axes of values.
const GREATEST_VALUE: u128 = u16::MAX as u128;

/// The ranges of `set` up to `greatest`.
fn clip(set: &RangeSet<u128>, greatest: u128) -> Values {
    let ranges = set.ranges().iter().filter(|range| range.0 <= greatest);
    ranges.map(|&(first, last)| (first, last.min(greatest))).collect()
}

/// The regions of a rule that admits `kinds`.
fn uncut_regions(rule: &Rule, kinds: KindSet) -> Vec<Uncut> {
    let [source, destination] =
        [&rule.source, &rule.destination].map(|set| clip(set, rule.family.greatest()));
    if source.is_empty() || destination.is_empty() {
        return Vec::new();
    }
    let ports = [&rule.source_ports, &rule.destination_ports].map(|test| match test {
        PortTest::Any => vec![(0, GREATEST_VALUE)],
        PortTest::In(ports) => ports.ranges().iter().map(|&(a, b)| (a.into(), b.into())).collect(),
    });
    let region = |[first, second]: [Values; 2], kinds: KindSet| {
        let sides = [source.clone(), destination.clone(), first, second];
        (!kinds.is_empty()).then_some(Uncut { sides, kinds })
    };
    let messages = KindSet::one(ICMP_KIND);
    let (rest, icmp) = match &rule.protocol {
        ProtocolTest::Only(test) if kinds.contains(ICMP_KIND) => match test.icmp.as_ref() {
            Some(icmp) if !(icmp.types.is_full() && icmp.codes.is_full()) => {
                (kinds.without(&messages), region(message_values(icmp), messages))
            }
            _ => (kinds, None),
        },
        _ => (kinds, None),
    };
    region(ports, rest).into_iter().chain(icmp).collect()
}

/// Types and codes on the axes of values.
fn message_values(icmp: &IcmpTest) -> [Values; 2] {
    [&icmp.types, &icmp.codes].map(|set| {
        let beyond = |last: u8| if last == u8::MAX { GREATEST_VALUE } else { last.into() };
        set.ranges().iter().map(|&(first, last)| (first.into(), beyond(last))).collect()
    })
}

/// An axis cut into pieces.
struct Axis {
    /// The least value of each piece, ascending from 0.
    starts: Vec<u128>,
    greatest: u128,
}

impl Axis {
    /// The axis from 0 to `greatest`, cut at the ends of all `ranges`.
    fn cut_by<'a>(ranges: impl Iterator<Item = &'a (u128, u128)>, greatest: u128) -> Self {
        let mut starts = vec![0];
        for &(first, last) in ranges {
            starts.push(first);
            if last < greatest {
                starts.push(last + 1);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        Self { starts, greatest }
    }

    /// The least value of a piece.
    fn first(&self, rank: u32) -> u128 {
        self.starts[rank as usize]
    }

    /// The pieces of ranges that the axis was cut by.
    fn ranks(&self, ranges: &[(u128, u128)]) -> Option<Ranks> {
        let pieces_before = |value: u128| self.starts.partition_point(|&start| start < value);
        let ranks = ranges.iter().map(|&(first, last)| {
            let after =
                if last < self.greatest { pieces_before(last + 1) } else { self.starts.len() };
            (pieces_before(first) as u32, after as u32 - 1)
        });
        Ranks::new(ranks.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::yamaha;

    /// Every point of the space of some rules.
    fn points(space: &Space) -> Vec<Point> {
        let ranks = |axis: usize| 0..space.axes[axis].starts.len() as u32;
        let addresses = ranks(0).flat_map(|a| ranks(1).map(move |b| [a, b]));
        let values: Vec<_> = ranks(2).flat_map(|c| ranks(3).map(move |d| [c, d])).collect();
        let used = space.regions.iter().flat_map(|region| region.classes.members());
        let used: std::collections::BTreeSet<_> = used.collect();
        addresses
            .flat_map(|[a, b]| values.iter().map(move |[c, d]| [a, b, *c, *d]))
            .flat_map(|ranks| used.iter().map(move |&class| Point { ranks, class }))
            .collect()
    }

    #[test]
    fn a_point_lies_in_a_region_of_a_rule_if_the_rule_matches_its_packet() {
        let text = "ip filter 1 pass 10.0.0.1-10.0.0.9,255.255.255.255 * icmp=8+250-255/3-255\n\
                    ip filter 2 pass * 10.0.0.5- udp,icmp=0-7/*\n\
                    ip filter 3 pass * * tcp,47 1024-65535 80,443\n\
                    ip filter 4 pass * * tcpflag=0x0002/0x0012,tcpflag!=0x0/0x1,udp * 443-\n\
                    ip filter 5 pass * * icmp\n\
                    ip filter 6 pass * * * 0-2000 *\n\
                    ip filter 7 pass * *\n\
                    ipv6 filter 1 pass 2001:db8::/32,ffff:: * icmp 128 *\n\
                    ipv6 filter 2 pass * * tcp,icmp=*/0\n\
                    ipv6 filter 3 pass * * 43,0,59\n\
                    ipv6 filter 4 pass * *\n";
        let list = yamaha::parse(text).unwrap().ascending();
        for family in [Family::Ipv4, Family::Ipv6] {
            let space = Space::new(&list, family);
            let points = points(&space);
            assert!(points.len() > 100);
            for point in points {
                let key = space.key(&point);
                for place in &space.places {
                    let regions = &space.regions[place.regions.clone()];
                    let inside = regions.iter().any(|region| region.contains(&point));
                    let rule = &list.rules[place.index];
                    assert_eq!(inside, rule.matches(&key), "{rule}: {key:?}");
                }
            }
        }
    }
}
