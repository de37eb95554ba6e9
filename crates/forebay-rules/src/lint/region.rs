//! Regions: products of sets of ranks and a set of kinds, and their algebra.
//!
//! An axis (source address, destination address, first and second value) is cut
//! where a range of some rule starts or ends. The pieces are numbered in order,
//! and their numbers, the *ranks*, represent them: no rule distinguishes two values of
//! one piece apart. So regions of IPv4 and IPv6 look the same and are small.
//!
//! No region is empty. A product of sets that are not empty lies in another one
//! exactly if each of its sets lies in the other's.

use super::kinds::KindSet;
use std::slice;

use forebay_packet::random::Random;

/// Axes that have ranks.
pub const AXES: usize = 4;

/// A set of ranks that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The least and the greatest rank.
    hull: (u32, u32),
    /// The ranges, if there are several: sorted and apart.
    parts: Option<Box<[(u32, u32)]>>,
}

impl Ranks {
    /// The set of `ranges`, which are sorted and apart; none if there are none.
    pub fn new(ranges: Vec<(u32, u32)>) -> Option<Self> {
        let (first, last) = (ranges.first()?, ranges.last()?);
        let hull = (first.0, last.1);
        Some(Self { hull, parts: (ranges.len() > 1).then(|| ranges.into()) })
    }

    /// The least and the greatest rank.
    pub fn hull(&self) -> (u32, u32) {
        self.hull
    }

    fn ranges(&self) -> &[(u32, u32)] {
        self.parts.as_deref().unwrap_or(slice::from_ref(&self.hull))
    }

    /// Number of ranks.
    pub fn len(&self) -> u64 {
        self.ranges().iter().map(|&(first, last)| u64::from(last - first) + 1).sum()
    }

    /// The rank that `before` others of the set precede; the greatest one if
    /// there are not so many.
    pub fn nth(&self, mut before: u64) -> u32 {
        for &(first, last) in self.ranges() {
            let len = u64::from(last - first) + 1;
            if before < len {
                return first + before as u32;
            }
            before -= len;
        }
        self.hull.1
    }

    /// Whether `rank` is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        let ranges = self.ranges();
        let before = ranges.partition_point(|&(_, last)| last < rank);
        ranges.get(before).is_some_and(|&(first, _)| first <= rank)
    }

    /// Whether all of `other` is in the set.
    pub fn covers(&self, other: &Self) -> bool {
        let inside = self.hull.0 <= other.hull.0 && other.hull.1 <= self.hull.1;
        if !inside || self.parts.is_none() {
            return inside;
        }
        let mut mine = self.ranges().iter();
        let mut range = mine.next();
        other.ranges().iter().all(|&(first, last)| {
            while range.is_some_and(|range| range.1 < first) {
                range = mine.next();
            }
            range.is_some_and(|range| range.0 <= first && last <= range.1)
        })
    }

    /// Whether the two share a rank.
    pub fn overlaps(&self, other: &Self) -> bool {
        let near = self.hull.0 <= other.hull.1 && other.hull.0 <= self.hull.1;
        let simple = self.parts.is_none() && other.parts.is_none();
        near && (simple || self.shared_ranges(other).next().is_some())
    }

    /// The ranges of the intersection.
    fn shared_ranges<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let (mut mine, mut theirs) = (self.ranges(), other.ranges());
        std::iter::from_fn(move || {
            while let ([a, ..], [b, ..]) = (mine, theirs) {
                let shared = (a.0.max(b.0), a.1.min(b.1));
                if a.1 < b.1 {
                    mine = &mine[1..];
                } else {
                    theirs = &theirs[1..];
                }
                if shared.0 <= shared.1 {
                    return Some(shared);
                }
            }
            None
        })
    }

    /// Number of ranks in both.
    pub fn shared(&self, other: &Self) -> u64 {
        self.shared_ranges(other).map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// The ranks in both.
    pub fn and(&self, other: &Self) -> Option<Self> {
        Self::new(self.shared_ranges(other).collect())
    }

    /// The ranks of this set that are not in `other`.
    pub fn without(&self, other: &Self) -> Option<Self> {
        let mut rest = Vec::new();
        let mut theirs = other.ranges();
        for &(first, last) in self.ranges() {
            let mut from = first;
            while let [range, later @ ..] = theirs
                && range.0 <= last
            {
                if range.0 > from {
                    rest.push((from, range.0 - 1));
                }
                from = from.max(range.1.saturating_add(1));
                if range.1 > last {
                    break;
                }
                theirs = later;
            }
            if from <= last {
                rest.push((from, last));
            }
        }
        Self::new(rest)
    }
}

/// A packet, as far as the rules of a list tell it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its rank on each axis.
    pub ranks: [u32; AXES],
    /// Its class of kinds.
    pub class: usize,
}

/// A product of sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The ranks on each axis.
    pub sides: [Ranks; AXES],
    /// The classes of kinds.
    pub classes: KindSet,
}

impl Region {
    /// Whether `point` lies in the region.
    pub fn contains(&self, point: &Point) -> bool {
        let inside = self.sides.iter().zip(point.ranks).all(|(side, rank)| side.contains(rank));
        inside && self.classes.contains(point.class)
    }

    /// Whether all of `other` lies in the region.
    pub fn covers(&self, other: &Self) -> bool {
        let inside = self.sides.iter().zip(&other.sides).all(|(mine, side)| mine.covers(side));
        inside && self.classes.covers(&other.classes)
    }

    /// Whether the two share a kind, and their hulls a point; without further
    /// ranges, then, they overlap.
    pub fn is_near(&self, other: &Self) -> bool {
        let near = self
            .sides
            .iter()
            .zip(&other.sides)
            .all(|(mine, side)| mine.hull.0 <= side.hull.1 && side.hull.0 <= mine.hull.1);
        near && self.classes.overlaps(&other.classes)
    }

    /// Whether the two share a point.
    pub fn overlaps(&self, other: &Self) -> bool {
        let meet = self.sides.iter().zip(&other.sides).all(|(mine, side)| mine.overlaps(side));
        meet && self.classes.overlaps(&other.classes)
    }

    /// The points in both.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let [a, b, c, d] = [0, 1, 2, 3].map(|axis| self.sides[axis].and(&other.sides[axis]));
        let classes = self.classes.and(&other.classes);
        let sides = [a?, b?, c?, d?];
        (!classes.is_empty()).then_some(Self { sides, classes })
    }

    /// The points of this region that are not in `other`, which overlaps it, as
    /// regions that are disjoint.
    pub fn without(&self, other: &Self) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut shared = self.clone();
        let rest = self.classes.without(&other.classes);
        if !rest.is_empty() {
            pieces.push(Self { classes: rest, ..shared.clone() });
        }
        shared.classes = self.classes.and(&other.classes);
        for axis in 0..AXES {
            if let Some(rest) = self.sides[axis].without(&other.sides[axis]) {
                let mut piece = shared.clone();
                piece.sides[axis] = rest;
                pieces.push(piece);
            }
            if let Some(both) = self.sides[axis].and(&other.sides[axis]) {
                shared.sides[axis] = both;
            }
        }
        pieces
    }

    /// Ranges beyond the first of each side: what a comparison may take more time
    /// for than one of regions without.
    pub fn more_ranges(&self) -> u64 {
        let more = self.sides.iter().map(|side| side.parts.as_ref().map_or(0, |all| all.len() - 1));
        more.sum::<usize>() as u64
    }

    /// How much of this region `other` takes, 0 to 1, counted in ranks.
    pub fn share(&self, other: &Self) -> f64 {
        let sides = self.sides.iter().zip(&other.sides);
        let classes = self.classes.and(&other.classes).len();
        sides.fold(f64::from(classes) / f64::from(self.classes.len()), |share, (mine, side)| {
            share * mine.shared(side) as f64 / mine.len() as f64
        })
    }

    /// The point with the least ranks and class.
    pub fn least(&self) -> Point {
        self.corner(|side| side.hull().0)
    }

    /// The point with the greatest ranks and the least class.
    pub fn greatest(&self) -> Point {
        self.corner(|side| side.hull().1)
    }

    fn corner(&self, rank: impl Fn(&Ranks) -> u32) -> Point {
        let class = self.classes.members().next().unwrap_or_default();
        Point { ranks: [0, 1, 2, 3].map(|axis| rank(&self.sides[axis])), class }
    }

    /// A point drawn at random, each with the same chance.
    pub fn draw(&self, random: &mut Random) -> Point {
        let ranks = [0, 1, 2, 3].map(|axis| {
            let side = &self.sides[axis];
            side.nth(random.below(side.len()))
        });
        let nth = random.below(self.classes.len().into()) as usize;
        Point { ranks, class: self.classes.members().nth(nth).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GREATEST: u32 = 11;

    /// A set of ranks up to [`GREATEST`], never empty.
    fn ranks() -> impl Strategy<Value = Ranks> {
        prop::collection::vec(any::<bool>(), 12).prop_filter_map("empty", |held| {
            let mut ranges: Vec<(u32, u32)> = Vec::new();
            for rank in (0..=GREATEST).filter(|&rank| held[rank as usize]) {
                match ranges.last_mut() {
                    Some(range) if range.1 + 1 == rank => range.1 = rank,
                    _ => ranges.push((rank, rank)),
                }
            }
            Ranks::new(ranges)
        })
    }

    fn members(ranks: Option<&Ranks>) -> Vec<u32> {
        (0..=GREATEST).filter(|&rank| ranks.is_some_and(|ranks| ranks.contains(rank))).collect()
    }

    /// A region of which two sides are everything.
    fn region() -> impl Strategy<Value = Region> {
        (ranks(), ranks(), 1..8_usize).prop_map(|(a, b, held)| {
            let mut classes = KindSet::default();
            (0..3).filter(|bit| held >> bit & 1 != 0).for_each(|bit| classes.insert(bit * 200));
            let all = Ranks { hull: (0, 0), parts: None };
            Region { sides: [a, all.clone(), b, all], classes }
        })
    }

    fn points() -> impl Iterator<Item = Point> {
        let pairs = (0..=GREATEST).flat_map(|a| (0..=GREATEST).map(move |b| (a, b)));
        pairs.flat_map(|(a, b)| [0, 200, 400].map(|class| Point { ranks: [a, 0, b, 0], class }))
    }

    proptest! {
        #[test]
        fn sets_of_ranks_are_those_of_their_members(a in ranks(), b in ranks()) {
            let (of_a, of_b) = (members(Some(&a)), members(Some(&b)));
            let both: Vec<_> = of_a.iter().copied().filter(|rank| of_b.contains(rank)).collect();
            let rest: Vec<_> = of_a.iter().copied().filter(|rank| !of_b.contains(rank)).collect();
            prop_assert_eq!(members(a.and(&b).as_ref()), both.clone());
            prop_assert_eq!(members(a.without(&b).as_ref()), rest);
            prop_assert_eq!(a.shared(&b), both.len() as u64);
            prop_assert_eq!(a.overlaps(&b), !both.is_empty());
            prop_assert_eq!(a.covers(&b), both == of_b);
            prop_assert_eq!(a.len(), of_a.len() as u64);
            let listed: Vec<_> = (0..a.len()).map(|before| a.nth(before)).collect();
            prop_assert_eq!(listed, of_a);
        }

        #[test]
        fn regions_are_those_of_their_points(a in region(), b in region(), seed: u64) {
            let both = a.and(&b);
            let pieces = if both.is_some() { a.without(&b) } else { vec![a.clone()] };
            let (mut covered, mut shared) = (true, 0_u32);
            for point in points() {
                let (in_a, in_b) = (a.contains(&point), b.contains(&point));
                let in_both = both.as_ref().is_some_and(|both| both.contains(&point));
                prop_assert_eq!(in_both, in_a && in_b);
                let holding = pieces.iter().filter(|piece| piece.contains(&point)).count();
                prop_assert_eq!(holding, usize::from(in_a && !in_b));
                covered &= in_a || !in_b;
                shared += u32::from(in_both);
            }
            prop_assert_eq!(a.covers(&b), covered);
            prop_assert_eq!(a.overlaps(&b), shared > 0);
            let simple = a.more_ranges() + b.more_ranges() == 0;
            prop_assert!(a.is_near(&b) || shared == 0);
            prop_assert!(!a.is_near(&b) || shared > 0 || !simple);
            let all = points().filter(|point| a.contains(point)).count();
            prop_assert!((a.share(&b) - f64::from(shared) / all as f64).abs() < 1e-9);
            let mut random = Random::new(seed);
            let drawn: Vec<_> = (0..8).map(|_| a.draw(&mut random)).collect();
            for point in [a.least(), a.greatest()].iter().chain(&drawn) {
                prop_assert!(a.contains(point));
            }
        }
    }
}
