//! The rules of a list that changes, in order and by number.

use super::error::LiveError;
use super::names::{Named, RuleId};
use crate::atom::Extent;
use crate::counters::{Count, Counters};
use crate::rule::{Action, Rule, RuleList};
use crate::tree::generation::{Change, Held, REJECTS};
use crate::tree::{MAX_RULES, TreeError};
use std::sync::Arc;

/// The longest list that the writer itself builds if a change finds no room: this takes 4 ms.
const SHORT: usize = 512;

/// The most atoms of such a list: the rules of some lists have hundreds of prefixes each.
const SHORT_ATOMS: usize = 8_192;

/// A rule at its place.
#[derive(Clone, Copy)]
struct Listed {
    number: u32,
    name: Named,
}

/// The rule of a number.
struct Entry {
    rule: Arc<Rule>,
    is_listed: bool,
    life: u32,
    /// The counter when the rule got the number.
    counted: Count,
}

/// A step of a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Inserts the rule of a number at a place.
    Insert(usize, u32),
    /// Removes the rule of a number, which is at a place.
    Delete(usize, u32),
}

impl Step {
    pub fn inserts(&self) -> bool {
        matches!(self, Self::Insert(..))
    }
}

/// The rules.
pub(super) struct Listing {
    order: Vec<Listed>,
    /// By number.
    entries: Vec<Entry>,
    /// Unused numbers.
    free: Vec<u32>,
    /// Numbers of rules that were inserted since the last version, and of rules that were removed
    /// since.
    fresh: Vec<u32>,
    left: Vec<u32>,
    /// The sum of the counters of removed rules.
    removed: Count,
}

impl Listing {
    pub fn new(rules: Vec<Rule>) -> Result<Self, TreeError> {
        if rules.len() > MAX_RULES {
            return Err(TreeError::Rules { rules: rules.len() });
        }
        let listed = |(number, rule)| Listed { number, name: Named::of(rule) };
        let order = (0..).zip(&rules).map(listed).collect();
        let entry = |rule| {
            let rule = Arc::new(rule);
            Entry { rule, is_listed: true, life: 0, counted: Count::default() }
        };
        let entries = rules.into_iter().map(entry).collect();
        let (free, fresh, left) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { order, entries, free, fresh, left, removed: Count::default() })
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether the writer itself may build the list, since that takes milliseconds.
    pub fn is_short(&self) -> bool {
        let atoms = |listed: &Listed| Extent::of(self.rule(listed.number)).atoms;
        self.len() <= SHORT && self.order.iter().map(atoms).sum::<usize>() <= SHORT_ATOMS
    }

    /// The numbers that there are, listed or not.
    pub fn numbers(&self) -> usize {
        self.entries.len()
    }

    fn rule(&self, number: u32) -> &Arc<Rule> {
        &self.entries[number as usize].rule
    }

    fn name(&self, number: u32) -> u32 {
        let rejects = self.rule(number).action == Action::Reject;
        number | if rejects { REJECTS } else { 0 }
    }

    /// The rule that has this number now.
    pub fn id(&self, number: u32) -> RuleId {
        RuleId { number, life: self.entries[number as usize].life }
    }

    pub fn rules(&self) -> Vec<(RuleId, Arc<Rule>)> {
        let numbers = self.order.iter().map(|listed| listed.number);
        numbers.map(|number| (self.id(number), Arc::clone(self.rule(number)))).collect()
    }

    /// The rules as generations take them.
    pub fn held(&self) -> Vec<Held> {
        let numbers = self.order.iter().map(|listed| listed.number);
        let held = |number| Held { name: self.name(number), rule: Arc::clone(self.rule(number)) };
        numbers.map(held).collect()
    }

    /// The rules' names in versions.
    pub fn names(&self) -> Vec<u32> {
        self.order.iter().map(|listed| self.name(listed.number)).collect()
    }

    pub fn as_list(&self, default: Action) -> RuleList {
        let rules = self.order.iter().map(|listed| Rule::clone(self.rule(listed.number)));
        RuleList { rules: rules.collect(), default }
    }

    /// The rules in their order, by reference.
    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = (u32, &Rule)> + ExactSizeIterator {
        self.order.iter().map(|listed| (listed.number, &**self.rule(listed.number)))
    }

    /// Where the rule of a number is.
    pub fn place(&self, rule: RuleId) -> Result<usize, LiveError> {
        let known = self.entries.get(rule.number as usize).filter(|entry| entry.is_listed);
        let place = || self.order.iter().position(|listed| listed.number == rule.number);
        known
            .filter(|entry| entry.life == rule.life)
            .and_then(|_| place())
            .ok_or(LiveError::Unknown(rule))
    }

    /// Where the rule of a name is, if there is one.
    pub fn find(&self, name: Named) -> Option<usize> {
        self.order.iter().position(|listed| listed.name == name)
    }

    /// The number of the rule at a place.
    pub fn number_at(&self, place: usize) -> u32 {
        self.order[place].number
    }

    pub fn require(&self, position: usize, last: usize) -> Result<(), LiveError> {
        if position <= last { Ok(()) } else { Err(LiveError::Position { position, last }) }
    }

    /// Returns a number for a rule that will be inserted.
    pub fn add(&mut self, rule: Arc<Rule>) -> Result<u32, LiveError> {
        if self.order.len() >= MAX_RULES {
            return Err(LiveError::Full);
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number as usize].rule = rule;
                number
            }
            // Numbers of removed rules are free as soon as no reader has them.
            None if self.entries.len() >= MAX_RULES => return Err(LiveError::Full),
            None => {
                let counted = Count::default();
                self.entries.push(Entry { rule, is_listed: false, life: 0, counted });
                self.entries.len() as u32 - 1
            }
        };
        self.fresh.push(number);
        Ok(number)
    }

    /// Makes a step, and appends it to `steps`.
    pub fn make(&mut self, step: Step, steps: &mut Vec<Step>) {
        let (number, is_listed) = match step {
            Step::Insert(at, number) => {
                let name = Named::of(self.rule(number));
                self.order.insert(at, Listed { number, name });
                (number, true)
            }
            Step::Delete(at, number) => {
                self.order.remove(at);
                (number, false)
            }
        };
        self.entries[number as usize].is_listed = is_listed;
        steps.push(step);
    }

    /// Undoes steps. No version has any of them.
    pub fn undo(&mut self, steps: Vec<Step>) {
        for step in steps.into_iter().rev() {
            let inverse = match step {
                Step::Insert(at, number) => Step::Delete(at, number),
                Step::Delete(at, number) => Step::Insert(at, number),
            };
            self.make(inverse, &mut Vec::new());
        }
        let (entries, fresh) = (&self.entries, std::mem::take(&mut self.fresh));
        self.left.retain(|&number| !entries[number as usize].is_listed && !fresh.contains(&number));
        self.free.extend(fresh);
    }

    /// The changes of a generation for steps that were made here.
    pub fn changes(&mut self, steps: &[Step]) -> Vec<Change> {
        for step in steps {
            if let Step::Delete(_, number) = *step
                && !self.entries[number as usize].is_listed
                && !self.left.contains(&number)
            {
                self.left.push(number);
            }
        }
        let change = |step: &Step| match *step {
            Step::Insert(at, number) => {
                let rule = Arc::clone(self.rule(number));
                Change::Insert(at, Held { name: self.name(number), rule })
            }
            Step::Delete(at, number) => Change::Delete(at, Arc::clone(self.rule(number))),
        };
        steps.iter().map(change).collect()
    }

    /// The numbers of the rules that were removed since the last version.
    pub fn take_left(&mut self) -> Vec<u32> {
        self.fresh.clear();
        std::mem::take(&mut self.left)
    }

    /// Frees a number that no version has any more.
    pub fn free(&mut self, number: u32, counters: &Counters) {
        let count = self.count(number, counters);
        self.removed = self.removed.and(count);
        let entry = &mut self.entries[number as usize];
        entry.counted = counters.total(number);
        entry.life += 1;
        self.free.push(number);
    }

    /// The packets of a rule since it was inserted.
    pub fn count(&self, number: u32, counters: &Counters) -> Count {
        counters.total(number).since(self.entries[number as usize].counted)
    }
}

/// A list at a moment.
pub struct View<'a> {
    list: &'a Listing,
    default: Action,
    edition: u64,
    counters: &'a Counters,
}

impl<'a> View<'a> {
    pub(super) fn new(
        list: &'a Listing,
        default: Action,
        edition: u64,
        counters: &'a Counters,
    ) -> Self {
        Self { list, default, edition, counters }
    }

    /// How many rules there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The rules in order, each with its counter.
    pub fn rules(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&'a Rule, Count)> + ExactSizeIterator + use<'a> {
        let (list, counters) = (self.list, self.counters);
        list.in_order().map(move |(number, rule)| (rule, list.count(number, counters)))
    }

    /// The action for packets that no rule matches.
    #[must_use]
    pub fn default_action(&self) -> Action {
        self.default
    }

    /// The counter of the default.
    #[must_use]
    pub fn default_count(&self) -> Count {
        self.counters.default_total()
    }

    /// The sum of the counters of removed rules, without those that a batch may still be matched
    /// against.
    #[must_use]
    pub fn removed(&self) -> Count {
        self.list.removed
    }

    /// How often the list was changed.
    #[must_use]
    pub fn edition(&self) -> u64 {
        self.edition
    }
}
