//! Packets of flows by Zipf's law with exponent 1.
//!
//! The flow of rank r gets c/r packets, but at least one, and the packets must add up
//! exactly. The sum of max(1, floor(c/r)) grows with c, so c is found by bisection, in
//! integers. The remainder is less than the number of flows, and goes to the first ranks,
//! one each. Time O(flows log packets), memory four bytes a flow.

/// Fraction bits of the constant c.
const FRACTION: u32 = 16;

fn share(c: u64, rank: u64) -> u64 {
    ((c / rank) >> FRACTION).max(1)
}

/// The packets of each rank, descending. `flows` is at most `packets`, and
/// `packets` at most `u32::MAX`.
#[must_use]
pub fn packets_by_rank(flows: u64, packets: u64) -> Vec<u32> {
    if flows == 0 {
        return Vec::new();
    }
    let total = |c: u64| (1..=flows).map(|rank| share(c, rank)).sum::<u64>();
    let (mut low, mut high) = (0, (packets + 1) << FRACTION);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if total(middle) <= packets {
            low = middle;
        } else {
            high = middle;
        }
    }
    let missing = packets - total(low);
    (1..=flows).map(|rank| (share(low, rank) + u64::from(rank <= missing)) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_exact_and_shares_fall_with_rank() {
        for (flows, packets) in
            [(1, 1), (1, 500), (2, 2), (3, 10), (10, 10), (10, 11), (1_000, 1_999), (7, 1 << 20)]
        {
            let counts = packets_by_rank(flows, packets);
            assert_eq!(counts.len() as u64, flows);
            assert_eq!(counts.iter().map(|&n| u64::from(n)).sum::<u64>(), packets);
            assert!(counts.iter().all(|&n| n > 0));
            assert!(counts.is_sorted_by(|a, b| a >= b), "{flows} {packets}");
        }
    }

    #[test]
    fn the_first_rank_has_one_in_the_harmonic_number() {
        let counts = packets_by_rank(10_000, 1_000_000);
        // The harmonic number of 10,000 is 9.7876.
        let expected = 1_000_000_000 / 9_788;
        assert!(counts[0].abs_diff(expected) < expected / 50, "{}", counts[0]);
        assert!(counts[99].abs_diff(expected / 100) < 25, "{}", counts[99]);
    }
}
