//! What rules are matched by, and a helper of those who make rules ready.

use forebay_rules::RangeSet;
use forebay_rules::packed::Key4;

use crate::failure::Result;

/// Rules made ready, and headers to match against them.
pub trait Matcher {
    /// Takes headers in the engine's own form, as a receiver would have them; not timed.
    fn load(&mut self, _keys: &[Key4]) -> Result<()> {
        Ok(())
    }

    /// Reads `count` loaded headers from number `first` on, so that they are in the cache;
    /// nothing where the keys themselves are matched.
    fn touch(&self, _first: usize, _count: usize) -> u64 {
        0
    }

    /// Packets a call, where that is not up to the set.
    fn batch(&self) -> Option<usize> {
        None
    }

    /// Matches loaded headers: `keys`, of which the first has the number `first`.
    fn run(&mut self, keys: &[Key4], first: usize, rules: &mut [u32]);

    /// Turns what `run` wrote into indices of rules; not timed.
    fn answers(&self, _rules: &mut [u32]) {}
}

/// Address and length of the prefix that an IPv4 rule's set of addresses is.
pub fn prefix(set: &RangeSet<u128>) -> Option<(u32, u8)> {
    let [(low, high)] = *set.ranges() else { return None };
    let (low, high) = (u32::try_from(low).ok()?, u32::try_from(high).ok()?);
    let varying = low ^ high;
    let is_prefix = varying & varying.wrapping_add(1) == 0 && low & varying == 0;
    is_prefix.then_some((low, varying.leading_zeros() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_told_from_other_ranges() {
        let of = |low, high| prefix(&RangeSet::range(low..=high).unwrap());
        assert_eq!(of(0, u128::from(u32::MAX)), Some((0, 0)));
        assert_eq!(of(0x0a00_0000, 0x0aff_ffff), Some((0x0a00_0000, 8)));
        assert_eq!(of(7, 7), Some((7, 32)));
        assert_eq!((of(7, 8), of(2, 5), of(0, 1 << 32)), (None, None, None));
    }
}
