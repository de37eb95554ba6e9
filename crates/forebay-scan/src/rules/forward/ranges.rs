//! Which tests have a number in one of their ranges? Ports, and addresses as numbers of 128 bits:
//! those of IPv4 as mapped ones (RFC 4291, section 2.5.5.2).

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::MOST_TESTS;
use crate::rules::addresses::Element;

/// The most ranges of a list of a header to be found by them.
const MOST_RANGES: usize = 4096;

/// The most entries of all lists of a map.
const MOST_ENTRIES: usize = 1 << 20;

/// An address as a number.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The ends of a range of addresses; none for one from IPv4 to IPv6.
pub fn addresses(first: &IpAddr, last: &IpAddr) -> Option<(u128, u128)> {
    (first.is_ipv4() == last.is_ipv4()).then(|| (number(*first), number(*last)))
}

/// The ends of a range of ports.
pub fn ports(first: &u16, last: &u16) -> Option<(u128, u128)> {
    Some((u128::from(*first), u128::from(*last)))
}

/// Ranges that have every value that may be in a list, ascending, none of which overlap; nothing if
/// that is nearly everything, or not known. `ends` gives the ends of a range as numbers.
pub fn ranges_of<T>(
    list: &Element<T>,
    ends: impl Fn(&T, &T) -> Option<(u128, u128)>,
) -> Option<Vec<(u128, u128)>> {
    let mut ranges = Vec::new();
    gather(list, &ends, &mut ranges)?;
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let overlap = next.0 <= kept.1;
        if overlap {
            kept.1 = kept.1.max(next.1);
        }
        overlap
    });
    Some(ranges)
}

fn gather<T>(
    list: &Element<T>,
    ends: &impl Fn(&T, &T) -> Option<(u128, u128)>,
    ranges: &mut Vec<(u128, u128)>,
) -> Option<()> {
    match list {
        Element::Any | Element::Unknown => None,
        Element::Range(first, last) => {
            let (first, last) = ends(first, last)?;
            if ranges.len() == MOST_RANGES {
                return None;
            }
            // A range that ends before it begins has no value.
            ranges.extend((first <= last).then_some((first, last)));
            Some(())
        }
        Element::List(elements) => {
            let mut positive = elements.iter().filter(|(negated, _)| !negated).peekable();
            positive.peek()?;
            positive.try_for_each(|(_, element)| gather(element, ends, ranges))
        }
    }
}

/// How many numbers ranges have.
pub fn size(ranges: &[(u128, u128)]) -> u128 {
    let sizes = ranges.iter().map(|(first, last)| (last - first).saturating_add(1));
    sizes.fold(0, u128::saturating_add)
}

/// Lists of tests by number.
#[derive(Clone, Debug, Default)]
pub struct RangeMap {
    /// The first number of each segment, ascending.
    firsts: Vec<u128>,
    /// Where the tests of each segment start; one entry more than segments.
    starts: Vec<u32>,
    tests: Vec<u32>,
}

impl RangeMap {
    /// The map of ranges with their tests; those of one test do not overlap. `over` gives the test
    /// in place of those that a list has no room for, of which it gets one.
    pub fn new(mut ranges: Vec<(u128, u128, u32)>, mut over: impl FnMut(u32) -> u32) -> Self {
        if let (Some(&(.., dropped)), true) = (ranges.first(), ranges.len() > MOST_ENTRIES) {
            return Self { firsts: vec![0], starts: vec![0, 1], tests: vec![over(dropped)] };
        }
        ranges.sort_unstable();
        let mut edges: Vec<u128> = ranges.iter().map(|&(first, ..)| first).collect();
        edges.extend(ranges.iter().filter_map(|&(_, last, _)| last.checked_add(1)));
        edges.sort_unstable();
        edges.dedup();
        let mut map = Self::default();
        // The tests in force at an edge, by the last number of their ranges.
        let mut active: BTreeSet<(u128, u32)> = BTreeSet::new();
        let mut next = ranges.into_iter().peekable();
        let mut instead = None;
        for edge in edges {
            while active.first().is_some_and(|&(last, _)| last < edge) {
                active.pop_first();
            }
            while let Some((_, last, test)) = next.next_if(|&(first, ..)| first <= edge) {
                active.insert((last, test));
            }
            let start = map.tests.len();
            map.firsts.push(edge);
            map.starts.push(start as u32);
            let room = MOST_TESTS.min(MOST_ENTRIES.saturating_sub(start));
            map.tests.extend(active.iter().map(|&(_, test)| test).take(room));
            map.tests[start..].sort_unstable();
            if let Some(&(_, dropped)) = active.iter().nth(room) {
                map.tests.push(*instead.get_or_insert_with(|| over(dropped)));
            }
        }
        map.starts.push(map.tests.len() as u32);
        map
    }

    /// The tests that have a number.
    #[inline]
    pub fn of(&self, number: u128) -> &[u32] {
        let Some(segment) = self.firsts.partition_point(|first| *first <= number).checked_sub(1)
        else {
            return &[];
        };
        &self.tests[self.starts[segment] as usize..self.starts[segment + 1] as usize]
    }

    /// The length of the longest list.
    pub fn longest(&self) -> usize {
        let lengths = self.starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        lengths.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_finds_the_ranges_that_have_it() {
        let ranges = vec![(10, 20, 1), (15, 30, 2), (31, 31, 3), (0, u128::MAX, 4), (25, 25, 1)];
        let map = RangeMap::new(ranges.clone(), |_| unreachable!());
        for number in (0..40).chain([u128::MAX]) {
            let mut expected: Vec<u32> = ranges
                .iter()
                .filter(|(first, last, _)| (first..=last).contains(&&number))
                .map(|&(.., test)| test)
                .collect();
            expected.sort_unstable();
            assert_eq!(map.of(number), expected, "{number}");
        }
        assert_eq!(map.longest(), 3);
        assert!(RangeMap::default().of(5).is_empty());
    }

    #[test]
    fn lists_are_bounded() {
        let many = (0..1000).map(|test| (0, 9, test)).collect();
        let map = RangeMap::new(many, |dropped| 10_000 + dropped);
        assert_eq!(map.of(5).len(), MOST_TESTS + 1);
        assert!(map.of(5).last().is_some_and(|last| *last >= 10_000));
        assert!(map.of(10).is_empty());
    }
}
