//! Rules without which every packet gets the same action.
//!
//! A packet shows that a rule is not redundant if no earlier rule matches it,
//! and the first later one, or the default where there is none, has the other
//! action. Nothing behind a later rule that covers the rule can take its packets.

use super::examination::Examination;
use super::index::Bounds;
use super::region::Point;
use super::report::{Kind, Question, Severity};
use super::search::SearchResult;

/// Points that are tried before the search, which draws more.
const SAMPLES: usize = 3;

impl Examination<'_> {
    /// Looks whether the rule is redundant. It decides the packet at `point`, or
    /// matches it, if it is not known whether it decides any.
    pub(super) fn redundant(&mut self, place: usize, point: &Point) {
        let question = Question::Redundancy;
        let allowed = self.allowed();
        if allowed == 0 {
            return self.give_up(place, question, allowed);
        }
        let samples = [*point].into_iter().chain(self.samples(place).take(SAMPLES));
        let needed = samples
            .filter_map(|point| self.witness(place, &point))
            .any(|shown| shown.decision.action != shown.without.action);
        self.spend(0);
        if needed {
            return;
        }
        let covering = self.first_covering_after(place);
        if let Some(covering) = covering.filter(|&covering| self.is_one_run(place, covering)) {
            return self.add_redundant(place, point, &[covering], false);
        }
        let action = self.action(place);
        let end = covering.map(|covering| self.space.places[covering].regions.end);
        let within = 0..end.unwrap_or(self.everywhere().end);
        let speaks_against =
            |all: &Self, other: usize| other > place && all.action(other) != action;
        let Some(entries) = self.entries(place, question, within, speaks_against) else { return };
        let end_is_goal = self.default() != action;
        let outcome = self.search(place, question, &entries, end_is_goal);
        if let SearchResult::None(settled) = outcome {
            let mut stand_ins = self.owners(&settled);
            stand_ins.retain(|&other| other > place);
            self.add_redundant(place, point, &stand_ins, settled.by_end);
        }
    }

    /// The first rule behind a place that matches all packets of the one there.
    fn first_covering_after(&self, place: usize) -> Option<usize> {
        let region = self.cells(place).first()?;
        let after = self.space.places[place].regions.end..self.everywhere().end;
        let mut covering = None;
        self.index.candidates(&Bounds::around(region), after, |candidate| {
            let places = &self.space.places;
            let owner = self.owner(candidate);
            let covers = self.space.regions[candidate].covers(region)
                && self.space.covers(&places[owner], &places[place]);
            covering = covers.then_some(owner);
            !covers
        });
        covering
    }

    fn add_redundant(&mut self, place: usize, point: &Point, stand_ins: &[usize], by_end: bool) {
        let log = self.rule(place).log;
        let differs = stand_ins.iter().any(|&other| self.rule(other).log != log) || by_end && log;
        let severity = if differs { Severity::Note } else { Severity::Warning };
        let witness = self.witness(place, point);
        self.add(place, Kind::Redundant, severity, stand_ins, witness);
        if by_end {
            self.by_default();
        }
    }
}
