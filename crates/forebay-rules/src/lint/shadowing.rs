//! Rules that are never reached.
//!
//! A rule that one other covers is found by comparing it with all that the index
//! says may cover it: always, exactly, outside of any bound. Whether several rules
//! together cover one is searched within bounds, once no packet was found by
//! chance that the rule decides.

use super::examination::Examination;
use forebay_packet::random::Random;

use super::region::{Point, Region};
use super::report::{Kind, Question, Severity, Witness};
use super::search::{Entry, Search, SearchResult};

/// Whether a rule ever decides.
pub enum Reach {
    /// No packet matches it.
    Impossible,
    /// It does not, because of the rules at these places.
    Shadowed(Kind, Vec<usize>),
    /// It decides the packet at this point.
    Decides(Point),
    /// The bound was reached; it matches the packet at this point.
    Unknown(Point),
}

impl Examination<'_> {
    /// Whether the rule ever decides.
    pub(super) fn reach(&mut self, place: usize) -> Reach {
        let Some(least) = self.cells(place).first().map(Region::least) else {
            return Reach::Impossible;
        };
        if !self.shadows[place].is_empty() {
            return Reach::Shadowed(Kind::Shadowed, self.shadows[place].clone());
        }
        let tried = if self.allowed() > 0 { usize::MAX } else { 0 };
        let mut samples = self.samples(place).take(tried);
        let sample = samples.find(|point| self.first(point) == Some(place));
        drop(samples);
        self.spend(0);
        if let Some(point) = sample {
            return Reach::Decides(point);
        }
        let before = self.before(place);
        let Some(entries) = self.entries(place, Question::Union, before, |_, _| false) else {
            return Reach::Unknown(least);
        };
        match self.search(place, Question::Union, &entries, true) {
            SearchResult::None(settled) => {
                let covering = self.fewer(place, self.owners(&settled));
                Reach::Shadowed(Kind::ShadowedByUnion, covering)
            }
            SearchResult::Found(point) => Reach::Decides(point),
            SearchResult::GaveUp => Reach::Unknown(least),
        }
    }

    /// Reports a rule that never decides.
    pub(super) fn shadowed(&mut self, place: usize, kind: Kind, covering: &[usize]) {
        let opposed = self.opposed(place);
        let severity = if opposed.is_some() { Severity::Error } else { Severity::Warning };
        let shown = opposed.or_else(|| self.witness(place, &self.cells(place)[0].least()));
        self.add(place, kind, severity, covering, shown);
    }

    /// A packet of a rule that never decides, which gets the other action.
    fn opposed(&mut self, place: usize) -> Option<Witness> {
        if !self.is_opposed_before(place) {
            return None;
        }
        let action = self.action(place);
        let tried = if self.allowed() > 0 { usize::MAX } else { 0 };
        let samples = self.samples(place).take(tried);
        let mut shown = samples.filter_map(|point| self.witness(place, &point));
        let opposed = shown.find(|shown| shown.decision.action != action);
        drop(shown);
        self.spend(0);
        if opposed.is_some() {
            return opposed;
        }
        let before = self.before(place);
        let entries = self.entries(place, Question::OtherAction, before, |all, other| {
            all.action(other) != action
        })?;
        match self.search(place, Question::OtherAction, &entries, false) {
            SearchResult::Found(point) => self.witness(place, &point),
            SearchResult::None(_) | SearchResult::GaveUp => None,
        }
    }

    /// Leaves out of `covering`, rules that together cover one, those without which
    /// the others do too, as far as that is soon seen.
    fn fewer(&mut self, place: usize, mut covering: Vec<usize>) -> Vec<usize> {
        /// The most rules of which each is tried.
        const MOST: usize = 32;
        if covering.len() > MOST {
            return covering;
        }
        for tried in covering.clone().into_iter().rev() {
            let others = covering.iter().filter(|&&other| other != tried);
            let regions = others.flat_map(|&other| self.space.places[other].regions.clone());
            let entries: Vec<_> = regions.map(|region| Entry { region, goal: false }).collect();
            let allowed = self.allowed() / MOST as u64;
            let random = Random::new(place as u64);
            let regions = &self.space.regions;
            let mut search = Search { regions, end_is_goal: true, work: allowed, random };
            let outcome = search.run(self.cells(place).iter().cloned(), &entries);
            let spent = allowed - search.work;
            self.spend(spent);
            if let SearchResult::None(_) = outcome {
                covering.retain(|&other| other != tried);
            }
        }
        covering
    }
}
