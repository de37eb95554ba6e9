//! Sets of numbers, each in one canonical form.
//!
//! A [`RangeSet`] is a sorted list of ranges that neither overlap nor touch, so
//! that equal sets compare equal however they were written. It is never empty:
//! a rule that requires a value out of nothing is refused where it is read.

use std::fmt;
use std::ops::RangeInclusive;

/// A number that ranges are made of.
pub trait Number: Copy + Ord + fmt::Debug {
    /// The least number.
    const LEAST: Self;
    /// The greatest number.
    const GREATEST: Self;
    /// The next greater number.
    fn successor(self) -> Option<Self>;
    /// The next smaller number.
    fn predecessor(self) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            const LEAST: Self = <$number>::MIN;
            const GREATEST: Self = <$number>::MAX;
            fn successor(self) -> Option<Self> {
                self.checked_add(1)
            }
            fn predecessor(self) -> Option<Self> {
                self.checked_sub(1)
            }
        }
    )*};
}

numbers!(u8, u16, u128);

/// A set of numbers that is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeSet<T> {
    /// Sorted; between two ranges lies at least one number of neither.
    ranges: Vec<(T, T)>,
}

impl<T: Number> RangeSet<T> {
    /// The union of `ranges`, each from its first to its last number; none if
    /// that is empty. A range whose first number is beyond its last is empty.
    #[must_use]
    pub fn from_ranges(ranges: impl IntoIterator<Item = (T, T)>) -> Option<Self> {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(T, T)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut() {
                Some(before) if before.1.successor().is_none_or(|next| first <= next) => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        (!merged.is_empty()).then_some(Self { ranges: merged })
    }

    /// One range; none if `range` is empty.
    #[must_use]
    pub fn range(range: RangeInclusive<T>) -> Option<Self> {
        Self::from_ranges([range.into_inner()])
    }

    /// One number.
    #[must_use]
    pub fn one(value: T) -> Self {
        Self { ranges: vec![(value, value)] }
    }

    /// All numbers of the type.
    #[must_use]
    pub fn full() -> Self {
        Self { ranges: vec![(T::LEAST, T::GREATEST)] }
    }

    /// What of `domain` is not in the set; none if that is empty.
    #[must_use]
    pub fn complement(&self, domain: RangeInclusive<T>) -> Option<Self> {
        let (least, greatest) = domain.into_inner();
        let mut gaps = Vec::new();
        let mut from = Some(least);
        for &(first, last) in &self.ranges {
            if let (Some(start), Some(end)) = (from, first.predecessor()) {
                gaps.push((start, end.min(greatest)));
            }
            from = last.successor().map(|next| next.max(least));
        }
        if let Some(start) = from {
            gaps.push((start, greatest));
        }
        Self::from_ranges(gaps)
    }

    /// The numbers that both sets hold; none if there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (mut left, mut right) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut ranges = Vec::new();
        while let (Some(&&(a, b)), Some(&&(c, d))) = (left.peek(), right.peek()) {
            let (first, last) = (a.max(c), b.min(d));
            if first <= last {
                ranges.push((first, last));
            }
            if b < d {
                left.next()
            } else {
                right.next()
            };
        }
        (!ranges.is_empty()).then_some(Self { ranges })
    }

    /// Whether `value` is in the set.
    #[must_use]
    pub fn contains(&self, value: T) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < value);
        self.ranges.get(at).is_some_and(|&(first, _)| first <= value)
    }

    /// The set's ranges, first to last number, in ascending order.
    #[must_use]
    pub fn ranges(&self) -> &[(T, T)] {
        &self.ranges
    }

    /// Whether the set holds all numbers of the type.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ranges == [(T::LEAST, T::GREATEST)]
    }
}

/// A set of IP protocol numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ProtocolSet {
    words: [u64; 4],
}

impl ProtocolSet {
    /// The set of one protocol.
    #[must_use]
    pub fn one(protocol: u8) -> Self {
        let mut set = Self::default();
        set.insert(protocol);
        set
    }

    /// Adds `protocol`.
    pub fn insert(&mut self, protocol: u8) {
        self.words[usize::from(protocol / 64)] |= 1 << (protocol % 64);
    }

    /// Whether `protocol` is in the set.
    #[must_use]
    pub fn contains(&self, protocol: u8) -> bool {
        self.words[usize::from(protocol / 64)] >> (protocol % 64) & 1 != 0
    }

    /// The protocols that are not in the set.
    #[must_use]
    pub fn complement(&self) -> Self {
        Self { words: self.words.map(|word| !word) }
    }

    /// The protocols of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut words = self.words;
        words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= other);
        Self { words }
    }

    /// The protocols of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut words = self.words;
        words.iter_mut().zip(other.words).for_each(|(word, other)| *word |= other);
        Self { words }
    }

    /// The protocols of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&protocol| self.contains(protocol))
    }

    /// Whether no protocol is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == [0; 4]
    }
}

impl FromIterator<u8> for ProtocolSet {
    fn from_iter<I: IntoIterator<Item = u8>>(protocols: I) -> Self {
        let mut set = Self::default();
        protocols.into_iter().for_each(|protocol| set.insert(protocol));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_holds_what_its_ranges_hold(ranges in prop::collection::vec(any::<(u8, u8)>(), 0..8)) {
            let holds = |value: u8| ranges.iter().any(|&(a, b)| a <= value && value <= b);
            match RangeSet::from_ranges(ranges.iter().copied()) {
                None => prop_assert!((0..=255).all(|value| !holds(value))),
                Some(set) => {
                    for value in 0..=255 {
                        prop_assert_eq!(set.contains(value), holds(value));
                    }
                    let apart = |pair: &[(u8, u8)]| u16::from(pair[0].1) + 1 < u16::from(pair[1].0);
                    prop_assert!(set.ranges().windows(2).all(apart));
                }
            }
        }

        #[test]
        fn an_intersection_holds_what_both_hold(
            left in prop::collection::vec(any::<(u8, u8)>(), 1..6),
            right in prop::collection::vec(any::<(u8, u8)>(), 1..6),
        ) {
            let sets = RangeSet::from_ranges(left).zip(RangeSet::from_ranges(right));
            let Some((left, right)) = sets else { return Ok(()) };
            let both = left.intersection(&right);
            for value in 0..=255 {
                let held = both.as_ref().is_some_and(|both| both.contains(value));
                prop_assert_eq!(held, left.contains(value) && right.contains(value));
            }
            let ranges = both.as_ref().map(|both| both.ranges().iter().copied());
            prop_assert_eq!(ranges.and_then(RangeSet::from_ranges), both);
        }

        #[test]
        fn a_complement_holds_the_rest_of_its_domain(
            ranges in prop::collection::vec(any::<(u8, u8)>(), 1..6), domain in any::<(u8, u8)>(),
        ) {
            let Some(set) = RangeSet::from_ranges(ranges) else { return Ok(()) };
            let rest = set.complement(domain.0..=domain.1);
            for value in 0..=255 {
                let inside = (domain.0..=domain.1).contains(&value);
                let held = rest.as_ref().is_some_and(|rest| rest.contains(value));
                prop_assert_eq!(held, inside && !set.contains(value));
            }
        }
    }
}
