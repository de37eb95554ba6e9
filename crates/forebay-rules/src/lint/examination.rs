//! The examination of the rules of one family, and what its parts share: points
//! and witnesses, bounded searches, and the report.
//!
//! Rules are named by their *place*, counted among those of the family. Most
//! questions are settled by a packet or two: the lowest and the highest of a rule,
//! and some drawn at random. Only where these leave a question open, the rules
//! that touch the rule are gathered and searched.

use super::index::{Bounds, Index};
use forebay_packet::random::Random;

use super::region::{Point, Region};
use super::report::{Bound, Finding, Kind, Question, Report, Severity, Unfinished, Witness};
use super::search::{Entry, Search, SearchResult, Settled};
use super::space::{Place, Space};
use crate::key::Key;
use crate::matching::Decision;
use crate::rule::{Action, Family, Rule, RuleList, RuleName};
use std::ops::Range;

/// Points of each region of a rule that are drawn before a search.
const DRAWS: usize = 8;

/// How much work to do and how much to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most causes that a finding names.
    pub causes: usize,
    /// The most comparisons of two rules made for one question about one rule. A
    /// rule of many address or port ranges counts as many.
    pub work_per_rule: u64,
    /// The most comparisons made for all such questions.
    pub work: u64,
    /// The most rules that are looked at, from the first. What is behind them
    /// is reported as unexamined; and as it could stand in for what is before,
    /// redundancy is not reported then.
    pub rules: usize,
}

impl Default for Limits {
    /// Enough for lists of ten thousand rules, in seconds.
    fn default() -> Self {
        Self { causes: 100, work_per_rule: 1_000_000, work: 300_000_000, rules: 1 << 17 }
    }
}

/// The examination of the rules of one family.
pub struct Examination<'a> {
    list: &'a RuleList,
    pub(super) limits: Limits,
    pub(super) space: Space,
    pub(super) index: Index,
    /// For each place, those that alone shadow it, one more than may be named.
    pub(super) shadows: Vec<Vec<usize>>,
    /// For each place, whether its rule is known to decide nothing. The rules before
    /// any place match the same packets without these.
    pub(super) unreached: Vec<bool>,
    /// For each place, the first of the places up to it without a change of action.
    run_starts: Vec<usize>,
    pub(super) report: &'a mut Report,
}

impl<'a> Examination<'a> {
    /// Prepares to look at the rules of `family`.
    pub fn new(list: &'a RuleList, family: Family, limits: Limits, report: &'a mut Report) -> Self {
        let space = Space::new(list, family);
        let index = Index::new(&space.regions);
        let shadows = shadows(&space, &index, limits.causes);
        // Those are found whatever it takes.
        index.take_cost();
        let action = |place: usize| list.rules[space.places[place].index].action;
        let mut run_start = 0;
        let run_starts = (0..space.places.len()).map(|place| {
            if action(place) != action(run_start) {
                run_start = place;
            }
            run_start
        });
        let run_starts = run_starts.collect();
        let unreached = vec![false; space.places.len()];
        Self { list, limits, space, index, shadows, unreached, run_starts, report }
    }

    /// The rule at a place.
    pub(super) fn rule(&self, place: usize) -> &'a Rule {
        &self.list.rules[self.space.places[place].index]
    }

    pub(super) fn action(&self, place: usize) -> Action {
        self.rule(place).action
    }

    pub(super) fn default(&self) -> Action {
        self.list.default
    }

    fn name(&self, place: usize) -> RuleName {
        RuleName::new(self.space.places[place].index, self.rule(place))
    }

    /// The place that a region belongs to.
    pub(super) fn owner(&self, region: usize) -> usize {
        self.space.owners[region] as usize
    }

    /// The regions of the rule at a place.
    pub(super) fn cells(&self, place: usize) -> &[Region] {
        &self.space.regions[self.space.places[place].regions.clone()]
    }

    /// All regions.
    pub(super) fn everywhere(&self) -> Range<usize> {
        0..self.space.regions.len()
    }

    /// The regions of the rules before a place.
    pub(super) fn before(&self, place: usize) -> Range<usize> {
        0..self.space.places[place].regions.start
    }

    /// Whether a rule before the place has another action.
    pub(super) fn is_opposed_before(&self, place: usize) -> bool {
        self.run_starts[place] > 0
    }

    /// Whether all rules from one place to a later one have the same action.
    pub(super) fn is_one_run(&self, first: usize, last: usize) -> bool {
        self.run_starts[last] <= first
    }

    /// Whether the rule at `place` decides no packet even without the one at
    /// `removed`, as a third shadows it.
    fn is_idle_without(&self, place: usize, removed: usize) -> bool {
        self.shadows[place].first().is_some_and(|&first| first != removed)
    }

    /// Adds a finding; `causes` are places, maybe more than are named.
    pub(super) fn add(
        &mut self,
        place: usize,
        kind: Kind,
        severity: Severity,
        causes: &[usize],
        witness: Option<Witness>,
    ) {
        let named = causes.iter().take(self.limits.causes);
        let finding = Finding {
            rule: self.name(place),
            action: self.action(place),
            kind,
            severity,
            causes: named.map(|&cause| self.name(cause)).collect(),
            more_causes: causes.len() > self.limits.causes,
            by_default: false,
            witness,
        };
        self.report.findings.push(finding);
    }

    /// Notes at the finding that was added last that the default takes the rule's place.
    pub(super) fn by_default(&mut self) {
        if let Some(finding) = self.report.findings.last_mut() {
            finding.by_default = true;
        }
    }

    /// Comparisons that one more question may take.
    pub(super) fn allowed(&self) -> u64 {
        self.limits.work.saturating_sub(self.report.work).min(self.limits.work_per_rule)
    }

    /// Counts comparisons, and what questions to the index took.
    pub(super) fn spend(&mut self, comparisons: u64) {
        let spent = self.report.work.saturating_add(comparisons + self.index.take_cost());
        // The last question may have taken a little more than was left.
        self.report.work = spent.min(self.limits.work);
    }

    /// Reports that a question was given up at the bound `allowed`.
    pub(super) fn give_up(&mut self, place: usize, question: Question, allowed: u64) {
        let total = allowed < self.limits.work_per_rule;
        let bound = if total { Bound::Total } else { Bound::PerRule };
        self.report.unfinished.push(Unfinished { rule: self.name(place), question, bound });
    }

    /// Searches the rule at `place` among `entries`. A search that is given up is
    /// reported.
    pub(super) fn search(
        &mut self,
        place: usize,
        question: Question,
        entries: &[Entry],
        end_is_goal: bool,
    ) -> SearchResult {
        let allowed = self.allowed();
        let mut search = Search {
            regions: &self.space.regions,
            end_is_goal,
            work: allowed,
            random: Random::new(place as u64),
        };
        let outcome = search.run(self.cells(place).iter().cloned(), entries);
        let spent = allowed - search.work;
        self.spend(spent);
        if matches!(outcome, SearchResult::GaveUp) {
            self.give_up(place, question, allowed);
        }
        outcome
    }

    /// The regions of other rules, in `within`, that may touch the rule, without
    /// those of rules that decide nothing anyway; goals where `goal` holds of their
    /// place. None, and a report, if they are more than the bound.
    pub(super) fn entries(
        &mut self,
        place: usize,
        question: Question,
        within: Range<usize>,
        goal: impl Fn(&Self, usize) -> bool,
    ) -> Option<Vec<Entry>> {
        let allowed = self.allowed();
        let own = &self.space.places[place].regions;
        let mut found = Vec::new();
        for cell in self.cells(place) {
            if allowed == 0 {
                break;
            }
            self.index.candidates(&Bounds::touching(cell), within.clone(), |region| {
                let owner = self.owner(region);
                if !own.contains(&region) && !self.is_idle_without(owner, place) {
                    found.push(region);
                }
                (found.len() as u64) < allowed
            });
        }
        let count = found.len() as u64;
        self.spend(count);
        if count >= allowed {
            self.give_up(place, question, allowed);
            return None;
        }
        found.sort_unstable();
        found.dedup();
        let entry = |region| Entry { region, goal: goal(self, self.owner(region)) };
        Some(found.into_iter().map(entry).collect())
    }

    /// The places of the covers that settled a search, ascending.
    pub(super) fn owners(&self, settled: &Settled) -> Vec<usize> {
        let mut owners: Vec<_> = settled.by.iter().map(|&region| self.owner(region)).collect();
        owners.dedup();
        owners
    }

    /// Some points of a rule: corners, and some drawn at random.
    pub(super) fn samples(&self, place: usize) -> impl Iterator<Item = Point> + '_ {
        let mut random = Random::new(place as u64);
        self.cells(place).iter().flat_map(move |cell| {
            let drawn: Vec<_> = (0..DRAWS).map(|_| cell.draw(&mut random)).collect();
            [cell.least(), cell.greatest()].into_iter().chain(drawn)
        })
    }

    /// The list's decision on the packet at `point`, and its decision without the
    /// rule at `place`. The oracle is asked of each rule that has the point.
    fn decisions(&self, place: usize, point: &Point, key: &Key) -> (Decision, Decision) {
        let (mut first, mut other) = (None, None);
        self.index.candidates(&Bounds::at(point), self.everywhere(), |region| {
            let owner = self.owner(region);
            if self.space.regions[region].contains(point) && self.rule(owner).matches(key) {
                first = first.or(Some(owner));
                other = Some(owner).filter(|&owner| owner != place);
            }
            other.is_none()
        });
        let decision = |place: Option<usize>| Decision {
            rule: place.map(|place| self.space.places[place].index),
            action: place.map_or(self.list.default, |place| self.action(place)),
        };
        (decision(first), decision(other))
    }

    /// The first rule that matches the packet at `point`, by place.
    pub(super) fn first(&self, point: &Point) -> Option<usize> {
        let mut first = None;
        self.index.candidates(&Bounds::at(point), self.everywhere(), |region| {
            let has = self.space.regions[region].contains(point);
            first = has.then(|| self.owner(region));
            first.is_none()
        });
        first
    }

    /// The witness at `point`, which is in a region of the rule. None if the oracle
    /// says otherwise, so that nothing false is ever shown.
    pub(super) fn witness(&self, place: usize, point: &Point) -> Option<Witness> {
        let key = self.space.key(point);
        let matches = self.rule(place).matches(&key);
        debug_assert!(matches, "a point of a rule is a packet that it matches: {key:?}");
        let (decision, without) = self.decisions(place, point, &key);
        matches.then_some(Witness { key, decision, without })
    }
}

/// For each place the places before it that alone cover it, ascending: at most
/// `named` and one more.
fn shadows(space: &Space, index: &Index, named: usize) -> Vec<Vec<usize>> {
    let enough = named.saturating_add(1).max(2);
    let covering = |place: &Place| {
        let mut covering = Vec::new();
        let Some(region) = space.regions[place.regions.clone()].first() else { return covering };
        index.candidates(&Bounds::around(region), 0..place.regions.start, |candidate| {
            let owner = space.owners[candidate] as usize;
            if space.regions[candidate].covers(region) && space.covers(&space.places[owner], place)
            {
                covering.push(owner);
            }
            covering.len() < enough
        });
        covering
    };
    space.places.iter().map(covering).collect()
}
