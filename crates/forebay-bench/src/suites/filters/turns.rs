//! Who goes when, and over which part of the packets.
//!
//! In the set `memory` a round is cut into slices, and the engines take turns slice by
//! slice. What an engine finds in the caches must not depend on who it is. So the turns
//! walk through the slices in one circle: each goes on where the last one ended, and a
//! slice comes up again only when all others have been gone through, whoever's turn it
//! is. Every engine sees every slice once a round if the number of slices and that of
//! the engines have no common factor.

/// The fewest slices of a round.
const FEWEST: usize = 16;

/// A turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whose it is, by the place in the round's order.
    pub place: usize,
    /// What it goes over.
    pub slice: usize,
}

/// How many slices a round of so many engines has.
pub fn slices(engines: usize) -> usize {
    let engines = engines.max(1);
    (FEWEST..).find(|&slices| common_factor(slices, engines) == 1).unwrap_or(FEWEST)
}

/// The turns of a round: as many for each engine as there are slices. `slices` is 1, or
/// what [`slices`] says.
pub fn turns(engines: usize, slices: usize) -> impl Iterator<Item = Turn> {
    (0..engines * slices).map(move |turn| Turn { place: turn % engines, slice: turn % slices })
}

/// The greatest (Euclid's).
fn common_factor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_factor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::sets::{IN_MEMORY, LINE};
    use super::*;

    /// The largest second-level cache of a core that the benchmark is made for.
    const SECOND_LEVEL: usize = 2 << 20;

    /// The slices gone over in two rounds, with the pass over all packets before each:
    /// it is in the round's own order, so that what a slice was before does not matter.
    fn gone_over(engines: usize) -> Vec<usize> {
        let slices = slices(engines);
        let round = || (0..slices).chain(turns(engines, slices).map(|turn| turn.slice));
        round().chain(round()).collect()
    }

    #[test]
    fn each_engine_goes_over_each_slice_once() {
        for engines in 1..=64 {
            let slices = slices(engines);
            assert!((FEWEST..FEWEST + 8).contains(&slices), "{engines}: {slices}");
            let all: Vec<Turn> = turns(engines, slices).collect();
            let different: HashSet<_> = all.iter().map(|turn| (turn.place, turn.slice)).collect();
            assert_eq!((all.len(), different.len()), (engines * slices, engines * slices));
        }
        assert_eq!(turns(3, 1).map(|turn| turn.place).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn no_engine_finds_a_slice_in_the_second_level_of_the_cache() {
        for engines in 2..=32 {
            let (slices, order) = (slices(engines), gone_over(engines));
            let slice_bytes = IN_MEMORY / slices * LINE;
            let mut distances = HashSet::new();
            for (turn, slice) in order.iter().enumerate().skip(slices) {
                let since = order[..turn].iter().rev().take_while(|other| *other != slice);
                let between: HashSet<&usize> = since.collect();
                // The pass before a round is not.
                let timed = turn % (order.len() / 2) >= slices;
                if timed {
                    distances.insert(between.len() * slice_bytes);
                }
            }
            assert_eq!(distances.len(), 1, "{engines}: the same for all");
            assert!(distances.iter().all(|&bytes| bytes > 2 * SECOND_LEVEL), "{engines}");
        }
    }
}
