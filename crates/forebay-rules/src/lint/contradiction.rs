//! Rules whose packets an earlier rule of the other action takes in part.

use super::examination::{Examination, proceed_if};
use super::index::Bounds;
use super::region::{Random, Region};
use super::report::{Kind, Question, Severity, Witness};
use std::collections::BTreeSet;

/// Earlier rules of the other action, by place.
#[derive(Default)]
struct Opponents {
    /// Those that match other packets too.
    contradicting: BTreeSet<usize>,
    /// Those that match packets of the rule only.
    exceptions: BTreeSet<usize>,
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
        let mut work = 0;
        let opponents = self.opponents(place, allowed, &mut work);
        self.spend(work.min(allowed));
        if work > allowed {
            self.give_up(place, Question::Contradiction, allowed);
        }
        let sorts = [
            (opponents.contradicting, Kind::Contradictory, Severity::Warning),
            (opponents.exceptions, Kind::Exception, Severity::Note),
        ];
        for (places, kind, severity) in sorts {
            let places: Vec<_> = places.into_iter().collect();
            if let Some(&first) = places.first() {
                let witness = self.between(first, place);
                self.add(place, kind, severity, &places, witness);
            }
        }
    }

    /// The opponents, of each sort at most as many as are named and one more. Stops
    /// when `work` is more than `allowed`.
    fn opponents(&self, place: usize, allowed: u64, work: &mut u64) -> Opponents {
        let enough = self.limits.causes.saturating_add(1);
        let mut found = Opponents::default();
        for cell in self.cells(place) {
            if *work > allowed {
                break;
            }
            self.index.candidates(&Bounds::touching(cell), self.before(place), |region| {
                *work += 1 + self.space.regions[region].more_ranges() + cell.more_ranges();
                let other = self.owner(region);
                let opposes = self.action(other) != self.action(place)
                    && self.shadows[other].is_empty()
                    && self.space.regions[region].overlaps(cell);
                if opposes {
                    let places = &self.space.places;
                    let inside = self.space.covers(&places[place], &places[other]);
                    let sort =
                        if inside { &mut found.exceptions } else { &mut found.contradicting };
                    if sort.len() < enough {
                        sort.insert(other);
                    }
                }
                let full = found.exceptions.len() >= enough && found.contradicting.len() >= enough;
                proceed_if(*work <= allowed && !full)
            });
        }
        found
    }

    /// A packet of two rules that share one; if one is soon found, one that the
    /// earlier decides.
    fn between(&self, earlier: usize, later: usize) -> Option<Witness> {
        let mut pairs = self
            .cells(later)
            .iter()
            .flat_map(|cell| self.cells(earlier).iter().map(move |other| (cell, other)));
        let shared: Region = pairs.find_map(|(cell, other)| cell.and(other))?;
        let mut random = Random::new(later as u64);
        let drawn: Vec<_> = (0..DRAWS).map(|_| shared.draw(&mut random)).collect();
        let mut points = [shared.least()].into_iter().chain(drawn);
        let point = points.find(|point| self.first(point) == Some(earlier));
        let witness = self.witness(later, &point.unwrap_or_else(|| shared.least()))?;
        self.rule(earlier).matches(&witness.key).then_some(witness)
    }
}
