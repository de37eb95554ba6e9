//! Colours the lifetimes of an unrolled kernel.
//!
//! A lifetime is a span of places, from the place that defines a value up to,
//! but excluding, the place of its last read; it repeats every `period` places.
//! The unrolled kernel is a circle of `unroll · period` places, on which each
//! lifetime is an arc for each of its names. Overlapping arcs need different
//! colours. Finding the fewest colours is hard in general (Garey, Johnson,
//! Miller and Papadimitriou, 1980), but a circle cut open where few arcs cross
//! is nearly a line: arcs take, by ascending starts, a colour that is free for
//! long enough. If there is none, a short search backtracks.

use forebay_filter::cancel;

/// Cuts tried before giving up.
const CUTS: usize = 4;

/// Search steps at each cut, for each arc.
const BUDGET: usize = 8;

/// The most lifetimes alive at a place.
#[must_use]
pub fn max_live(spans: &[(u32, u32)], period: u32) -> u32 {
    live_by_place(spans, period).into_iter().max().unwrap_or(0)
}

/// By place of a period: the number of lifetimes, over all overlapping
/// iterations, that cover it.
fn live_by_place(spans: &[(u32, u32)], period: u32) -> Vec<u32> {
    let mut change = vec![0i32; period as usize + 1];
    let mut throughout = 0;
    for &(start, end) in spans {
        let length = end - start;
        throughout += length / period;
        let first = start % period;
        let last = first + length % period;
        change[first as usize] += 1;
        if last <= period {
            change[last as usize] -= 1;
        } else {
            change[period as usize] -= 1;
            change[0] += 1;
            change[(last - period) as usize] -= 1;
        }
    }
    let mut live = throughout as i32;
    change[..period as usize]
        .iter()
        .map(|change| {
            live += change;
            live as u32
        })
        .collect()
}

/// An arc, its places counted from the cut.
#[derive(Clone, Copy, Debug)]
struct Arc {
    start: u32,
    end: u32,
    /// The number of its lifetime and name.
    number: u32,
}

/// Colours below `colours` for each lifetime's names, lifetime by lifetime;
/// `None` if none were found. No lifetime may be longer than the circle.
#[must_use]
pub fn colour(spans: &[(u32, u32)], period: u32, unroll: u32, colours: usize) -> Option<Vec<u8>> {
    if spans.is_empty() {
        return Some(Vec::new());
    }
    let live = live_by_place(spans, period);
    let mut cuts: Vec<u32> = (0..period).collect();
    cuts.sort_by_key(|&cut| live[cut as usize]);
    cuts.iter().take(CUTS).find_map(|&cut| {
        let mut search = Search::new(spans, period, unroll, colours, cut)?;
        search.rest().then_some(search.colours)
    })
}

/// When a colour is free.
#[derive(Clone, Copy, Debug)]
struct Lane {
    free_from: u32,
    free_to: u32,
}

/// The colouring of a circle that was cut open.
struct Search {
    /// The arcs that do not cross the cut, by ascending starts.
    arcs: Vec<Arc>,
    lanes: Vec<Lane>,
    colours: Vec<u8>,
    budget: usize,
}

impl Search {
    /// Assigns a colour each to the arcs that cross the cut, since they
    /// overlap.
    fn new(
        spans: &[(u32, u32)],
        period: u32,
        unroll: u32,
        colours: usize,
        cut: u32,
    ) -> Option<Self> {
        let circle = period * unroll;
        let mut arcs: Vec<Arc> = Vec::with_capacity(spans.len() * unroll as usize);
        let mut lanes = vec![Lane { free_from: 0, free_to: circle }; colours];
        let mut colour_of = vec![0u8; spans.len() * unroll as usize];
        let mut crossing = 0;
        for (life, &(start, end)) in spans.iter().enumerate() {
            cancel::check();
            for name in 0..unroll {
                let number = life as u32 * unroll + name;
                let from = (start % circle + name * period + circle - cut) % circle;
                let to = from + (end - start);
                if to > circle {
                    *lanes.get_mut(crossing)? = Lane { free_from: to - circle, free_to: from };
                    colour_of[number as usize] = crossing as u8;
                    crossing += 1;
                } else {
                    arcs.push(Arc { start: from, end: to, number });
                }
            }
        }
        arcs.sort_unstable_by_key(|arc| (arc.start, arc.number));
        let budget = BUDGET * arcs.len() + 64;
        Some(Self { arcs, lanes, colours: colour_of, budget })
    }

    /// Colours all arcs, each with a colour that is free for its whole length.
    /// Colours free for the same time are equivalent; those taken again soonest
    /// are tried first.
    fn rest(&mut self) -> bool {
        let mut choices: Vec<Choice> = Vec::with_capacity(self.arcs.len());
        // Colours that are free up to here were tried for the next arc.
        let mut tried = 0;
        while let Some(&arc) = self.arcs.get(choices.len()) {
            if self.budget == 0 {
                return false;
            }
            self.budget -= 1;
            cancel::check();
            if let Some(lane) = self.lane_for(arc, tried) {
                let Lane { free_from, free_to } = self.lanes[lane];
                self.lanes[lane].free_from = arc.end;
                self.colours[arc.number as usize] = lane as u8;
                choices.push(Choice { lane, free_from, free_to });
                tried = 0;
            } else {
                let Some(choice) = choices.pop() else { return false };
                self.lanes[choice.lane].free_from = choice.free_from;
                tried = choice.free_to;
            }
        }
        true
    }

    /// The colour for `arc` that is free for the shortest time beyond `tried`.
    fn lane_for(&self, arc: Arc, tried: u32) -> Option<usize> {
        let free = |lane: &&Lane| {
            lane.free_from <= arc.start && arc.end <= lane.free_to && lane.free_to > tried
        };
        let free_to = self.lanes.iter().filter(free).map(|lane| lane.free_to).min()?;
        // Of these, prefer a colour in use, to keep registers few.
        let candidates = self
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| lane.free_to == free_to && lane.free_from <= arc.start);
        candidates.max_by_key(|(_, lane)| lane.free_from).map(|(at, _)| at)
    }
}

/// A colour assigned to an arc, and when it was free before.
struct Choice {
    lane: usize,
    free_from: u32,
    free_to: u32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The positions on the circle covered by each register of each lifetime.
    fn covered(spans: &[(u32, u32)], period: u32, unroll: u32) -> Vec<Vec<u32>> {
        let circle = period * unroll;
        let names = |&(start, end): &(u32, u32)| {
            (0..unroll).map(move |name| {
                (start..end).map(|place| (place + name * period) % circle).collect()
            })
        };
        spans.iter().flat_map(names).collect()
    }

    #[test]
    fn as_many_colours_as_are_alive_suffice_for_a_chain() {
        let spans = [(0, 4), (4, 8), (1, 5)];
        assert_eq!(max_live(&spans, 8), 2);
        let colours = colour(&spans, 8, 1, 2).expect("two colours suffice");
        assert_eq!(colours[0], colours[1]);
        assert_ne!(colours[0], colours[2]);
        assert_eq!(colour(&spans, 8, 1, 1), None);
    }

    #[test]
    fn a_lifetime_of_two_periods_takes_a_register_for_each_name() {
        let spans = [(3, 13)];
        assert_eq!(max_live(&spans, 5), 2);
        let colours = colour(&spans, 5, 2, 2).expect("two colours suffice");
        assert_ne!(colours[0], colours[1]);
    }

    proptest! {
        #[test]
        fn arcs_of_one_colour_never_overlap(
            period in 1u32..12,
            lives in prop::collection::vec((0u32..40, 1u32..14), 0..9),
        ) {
            let spans: Vec<(u32, u32)> =
                lives.iter().map(|&(start, length)| (start, start + length)).collect();
            let longest = lives.iter().map(|life| life.1).max().unwrap_or(1);
            let unroll = longest.div_ceil(period).next_power_of_two();
            let covered = covered(&spans, period, unroll);
            let live = (0..period * unroll)
                .map(|place| covered.iter().filter(|places| places.contains(&place)).count())
                .max();
            prop_assert_eq!(Some(max_live(&spans, period) as usize), live);
            // Twice the maximum of live arcs suffices for any set of arcs.
            let enough = 2 * max_live(&spans, period) as usize;
            let colours = colour(&spans, period, unroll, enough).expect("enough colours");
            for place in 0..period * unroll {
                let mut taken: Vec<u8> = (0..covered.len())
                    .filter(|&arc| covered[arc].contains(&place))
                    .map(|arc| colours[arc])
                    .collect();
                let alive = taken.len();
                taken.sort_unstable();
                taken.dedup();
                prop_assert_eq!(taken.len(), alive, "a colour is taken twice at {}", place);
            }
        }
    }
}
