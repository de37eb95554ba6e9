//! Rules some of whose packets an earlier rule of the other action decides.

use super::examination::Examination;
use super::index::Bounds;
use forebay_packet::random::Random;

use super::region::{Point, Region};
use super::report::{Kind, Question, Severity};
use super::search::{Entry, Search, SearchResult};
use std::collections::{BTreeMap, BTreeSet};

/// Earlier rules of the other action, by place, each with a packet of the rule that
/// it decides.
#[derive(Default)]
struct Opponents {
    /// Those that match other packets too.
    contradicting: BTreeMap<usize, Point>,
    /// Those that match packets of the rule only.
    exceptions: BTreeMap<usize, Point>,
}

/// Points that are drawn for a packet that the earlier rule decides.
const DRAWS: usize = 4;

impl Examination<'_> {
    /// Reports contradictions of the rule, which is not shadowed, by earlier ones.
    pub(super) fn contradictory(&mut self, place: usize) {
        if !self.is_opposed_before(place) {
            return;
        }
        let allowed = self.allowed();
        let mut left = allowed;
        let opponents = self.opponents(place, &mut left);
        self.spend(allowed - left);
        if left == 0 {
            self.give_up(place, Question::Contradiction, allowed);
        }
        let sorts = [
            (opponents.contradicting, Kind::Contradictory, Severity::Warning),
            (opponents.exceptions, Kind::Exception, Severity::Note),
        ];
        for (opponents, kind, severity) in sorts {
            if let Some(point) = opponents.values().next() {
                let places: Vec<_> = opponents.keys().copied().collect();
                let witness = self.witness(place, point);
                self.add(place, kind, severity, &places, witness);
            }
        }
    }

    /// The opponents, of each sort at most as many as are named and one more. Stops
    /// when of the comparisons that may be made none is `left`.
    fn opponents(&self, place: usize, left: &mut u64) -> Opponents {
        let enough = self.limits.causes.saturating_add(1);
        let mut found = Opponents::default();
        let mut judged = BTreeSet::new();
        for cell in self.cells(place) {
            if *left == 0 {
                break;
            }
            self.index.candidates(&Bounds::touching(cell), self.before(place), |region| {
                let comparisons = 1 + self.space.regions[region].more_ranges() + cell.more_ranges();
                *left = left.saturating_sub(comparisons);
                let other = self.owner(region);
                let opposes = self.action(other) != self.action(place)
                    && !self.unreached[other]
                    && self.space.regions[region].overlaps(cell)
                    && judged.insert(other);
                if opposes {
                    let places = &self.space.places;
                    let inside = self.space.covers(&places[place], &places[other]);
                    let sort =
                        if inside { &mut found.exceptions } else { &mut found.contradicting };
                    if sort.len() < enough {
                        sort.extend(self.decided(other, place, left).map(|point| (other, point)));
                    }
                }
                let full = found.exceptions.len() >= enough && found.contradicting.len() >= enough;
                *left > 0 && !full
            });
        }
        found
    }

    /// A packet of both rules that the earlier one decides: not one that a third rule
    /// takes from both. If none is found, and no comparison is `left`, there may be one.
    fn decided(&self, earlier: usize, later: usize, left: &mut u64) -> Option<Point> {
        let pairs = self
            .cells(later)
            .iter()
            .flat_map(|cell| self.cells(earlier).iter().map(move |other| (cell, other)));
        let shared: Vec<Region> = pairs.filter_map(|(cell, other)| cell.and(other)).collect();
        let mut random = Random::new(later as u64);
        for region in &shared {
            let drawn: Vec<_> = (0..DRAWS).map(|_| region.draw(&mut random)).collect();
            let mut points = [region.least()].into_iter().chain(drawn);
            let point = points.find(|point| self.first(point) == Some(earlier));
            *left = left.saturating_sub(self.index.take_cost());
            if point.is_some() {
                return point;
            }
        }
        let mut before = BTreeSet::new();
        for region in &shared {
            if *left == 0 {
                break;
            }
            self.index.candidates(&Bounds::touching(region), self.before(earlier), |other| {
                *left = left.saturating_sub(1);
                if !self.unreached[self.owner(other)] {
                    before.insert(other);
                }
                *left > 0
            });
        }
        let entries: Vec<_> =
            before.into_iter().map(|region| Entry { region, goal: false }).collect();
        let regions = &self.space.regions;
        let mut search = Search { regions, end_is_goal: true, work: *left, random };
        let outcome = if *left > 0 { search.run(shared, &entries) } else { SearchResult::GaveUp };
        *left = search.work;
        match outcome {
            SearchResult::Found(point) => Some(point),
            SearchResult::None(_) => None,
            SearchResult::GaveUp => {
                *left = 0;
                None
            }
        }
    }
}
