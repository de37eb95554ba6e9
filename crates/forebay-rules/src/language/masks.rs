//! Addresses under a mask whose ones need not be together.

use crate::rule::Family;
use crate::sets::RangeSet;

/// The most ranges that a mask which is not contiguous may become.
pub const MAX_MASK_RANGES: usize = 4_096;

/// The addresses that agree with `base` in all bits but those of `free`; none if these
/// are more than [`MAX_MASK_RANGES`] ranges.
pub(crate) fn matching(family: Family, base: u128, free: u128) -> Option<RangeSet<u128>> {
    let free = free & family.greatest();
    let low = free.trailing_ones();
    let block = 1_u128.checked_shl(low).map_or(u128::MAX, |size| size - 1);
    let high = free & !block;
    if high.count_ones() > MAX_MASK_RANGES.ilog2() {
        return None;
    }
    let fixed = base & family.greatest() & !free;
    // All values of the bits above the block, in ascending order.
    let mut values = 0_u128;
    let mut ranges = Vec::new();
    loop {
        let first = fixed | values;
        ranges.push((first, first | block));
        values = values.wrapping_sub(high) & high;
        if values == 0 {
            return RangeSet::from_ranges(ranges);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mask_admits_what_agrees_where_it_says(
            base in any::<u32>(), free in any::<u32>(), probe in any::<u32>(), near in any::<u32>(),
        ) {
            // Few free bits above the lowest block.
            let free = free & 0x8421_00ff;
            let Some(set) = matching(Family::Ipv4, base.into(), free.into()) else {
                return Err(TestCaseError::fail("more ranges than bits can make"));
            };
            let close = base ^ (near & free);
            for address in [probe, base, close, close ^ 1, close ^ 0x100, close ^ (1 << 31)] {
                let agrees = (address ^ base) & !free == 0;
                prop_assert_eq!(set.contains(address.into()), agrees, "{:x} {:x}", base, free);
            }
        }
    }

    #[test]
    fn masks_with_too_many_single_bits_are_refused() {
        let ranges = |free| matching(Family::Ipv4, 0, free).map(|set| set.ranges().len());
        assert_eq!(ranges(0xffff_ffff), Some(1));
        assert_eq!(ranges(0x000f_ff00), Some(MAX_MASK_RANGES));
        assert_eq!(ranges(0x001f_ff00), None);
        let all = matching(Family::Ipv6, 0, u128::MAX);
        assert_eq!(all, Some(RangeSet::full()));
    }
}
