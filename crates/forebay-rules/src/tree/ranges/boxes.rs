//! Rules as boxes: a range of each of the four numbers that packets have.
//!
//! A range stays one, where prefixes would be dozens. A rule with lists of
//! ranges is the boxes of their combinations. Where they are too many, ranges
//! that lie close together are joined, and what such a box admits is held
//! against the lists themselves ([`Check`]).

use crate::atom::{Test, Tests, parts};
use crate::rule::{Family, Rule};
use crate::sets::RangeSet;
use forebay_packet::cancel;

/// Source and destination address, first and second port.
pub(crate) const FIELDS: usize = 4;

/// The bit of tests that every packet meets: what has it is checked.
pub(crate) const ALWAYS: u32 = 1 << 31;

/// Ranges of a field, ascending and apart.
type List = Vec<(u32, u32)>;

/// What one rule requires, or one of its two parts.
pub(super) struct Part {
    label: u32,
    test: Test,
    lists: [List; FIELDS],
}

/// What a box is: the least and the greatest number of each field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cuboid {
    pub low: [u32; FIELDS],
    pub high: [u32; FIELDS],
    /// The bit of the test, or [`ALWAYS`].
    pub tests: u32,
    pub label: u32,
    /// The number of its check, from 1; or 0.
    pub check: u32,
}

/// What boxes say only roughly.
#[derive(Debug)]
pub(crate) struct Check {
    /// The lists of fields that were joined; of others none.
    lists: [Box<[(u32, u32)]>; FIELDS],
    /// The test, where the dictionary had no room for it.
    test: Option<Test>,
}

impl Check {
    /// Whether a packet of these numbers, kind and flags meets it.
    pub fn admits(&self, numbers: [u32; FIELDS], kind: u16, flags: u16) -> bool {
        let within = |(field, number): (usize, u32)| {
            let list = &self.lists[field];
            let at = list.partition_point(|&(_, last)| last < number);
            list.is_empty() || list.get(at).is_some_and(|&(first, _)| first <= number)
        };
        let met = |test: &Test| test.admits_kind(kind) && test.admits_flags(flags);
        numbers.into_iter().enumerate().all(within) && self.test.as_ref().is_none_or(met)
    }
}

/// The addresses of IPv6 cut into pieces that no rule distinguishes, so that the
/// number of a piece represents an address.
#[derive(Debug, Default)]
pub(crate) struct Axis {
    /// The least address of each piece but the first, ascending.
    starts: Vec<u128>,
}

impl Axis {
    /// The axis cut by the ends of all ranges of `sets`.
    pub fn cut_by<'a>(sets: impl Iterator<Item = &'a RangeSet<u128>>) -> Self {
        let ends = sets.flat_map(RangeSet::ranges);
        let mut starts: Vec<_> =
            ends.flat_map(|&(first, last)| [Some(first), last.checked_add(1)]).flatten().collect();
        starts.sort_unstable();
        starts.dedup();
        Self { starts }
    }

    /// The piece that `address` lies in.
    #[inline]
    pub fn piece(&self, address: u128) -> u32 {
        self.starts.partition_point(|&start| start <= address) as u32
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&self.starts[..])
    }
}

impl Part {
    /// The parts of `rule`; addresses as numbers of the pieces of `axes`, or,
    /// without any, themselves.
    pub fn of(label: u32, rule: &Rule, axes: Option<&[Axis; 2]>) -> Vec<Self> {
        cancel::check();
        let greatest = rule.family.greatest();
        let addresses = |set: &RangeSet<u128>, side: usize| -> List {
            let own = set.ranges().iter().filter(|range| range.0 <= greatest);
            own.map(|&(first, last)| match axes {
                Some(axes) => (axes[side].piece(first), axes[side].piece(last)),
                None => (first as u32, last.min(greatest) as u32),
            })
            .collect()
        };
        let ports = |list: Vec<(u16, u16)>| -> List {
            list.into_iter().map(|(first, last)| (first.into(), last.into())).collect()
        };
        let lists = [addresses(&rule.source, 0), addresses(&rule.destination, 1)];
        let of = |part: crate::atom::Part| {
            let [source, destination] = lists.clone();
            let lists = [source, destination, ports(part.first), ports(part.second)];
            Self { label, test: part.test, lists }
        };
        parts(rule).into_iter().map(of).collect()
    }

    /// Boxes without any ranges joined.
    pub fn combinations(&self) -> usize {
        self.lists.iter().fold(1, |all, list| all.saturating_mul(list.len()))
    }

    /// Its boxes, at most `most` (or one), into `boxes`.
    pub fn boxes(
        mut self,
        most: usize,
        tests: &mut Tests,
        checks: &mut Vec<Check>,
        boxes: &mut Vec<Cuboid>,
    ) {
        let full = tests.known(&self.test).is_none() && tests.len() + 1 == crate::atom::MAX_TESTS;
        let id = if full { None } else { tests.id(&self.test) };
        let exact = self.joined(most);
        let rough = id.is_none() || exact.iter().any(|list| !list.is_empty());
        if rough {
            checks.push(Check { lists: exact, test: id.is_none().then_some(self.test) });
        }
        let check = if rough { checks.len() as u32 } else { 0 };
        let tests = id.map_or(ALWAYS, |id| 1 << id);
        let [sources, destinations, first, second] = &self.lists;
        for &source in sources {
            for &destination in destinations {
                for &first in first {
                    boxes.extend(second.iter().map(|&second| Cuboid {
                        low: [source.0, destination.0, first.0, second.0],
                        high: [source.1, destination.1, first.1, second.1],
                        tests,
                        label: self.label,
                        check,
                    }));
                }
            }
        }
    }

    /// Joins ranges until there are at most `most` combinations; gives the lists
    /// from before of the fields in which it did.
    fn joined(&mut self, most: usize) -> [Box<[(u32, u32)]>; FIELDS] {
        let mut exact: [Box<[(u32, u32)]>; FIELDS] = Default::default();
        while self.combinations() > most {
            let lengths = (0..FIELDS).map(|field| (self.lists[field].len(), field));
            let Some((longest @ 2.., field)) = lengths.max() else { break };
            if exact[field].is_empty() {
                exact[field] = self.lists[field].clone().into_boxed_slice();
            }
            self.lists[field] = nearest_joined(&self.lists[field], longest / 2);
        }
        exact
    }
}

/// `list` with its smallest gaps filled, so that it is `most` ranges.
fn nearest_joined(list: &[(u32, u32)], most: usize) -> List {
    let gap = |at: usize| list[at + 1].0 - list[at].1;
    let mut gaps: Vec<usize> = (0..list.len().saturating_sub(1)).collect();
    // Of gaps alike, those that part the list evenly.
    gaps.sort_by_key(|&at| std::cmp::Reverse((gap(at), (at + 1).trailing_zeros())));
    gaps.truncate(most.saturating_sub(1));
    gaps.sort_unstable();
    let ends = gaps.iter().map(|&at| list[at].1).chain(list.last().map(|range| range.1));
    let starts = list.first().map(|range| range.0);
    starts.into_iter().chain(gaps.iter().map(|&at| list[at + 1].0)).zip(ends).collect()
}

/// The axes that number the addresses of `family`; IPv4's are numbers already.
pub(super) fn axes<'a>(
    family: Family,
    rules: impl Iterator<Item = &'a Rule> + Clone,
) -> Option<[Axis; 2]> {
    (family == Family::Ipv6).then(|| {
        [
            Axis::cut_by(rules.clone().map(|rule| &rule.source)),
            Axis::cut_by(rules.map(|rule| &rule.destination)),
        ]
    })
}
