//! Facts that hold on a path to a block.
//!
//! Each edge out of a test adds a fact: that bytes were captured, that a value
//! is a constant, or at most some number, or that a predicate tested before
//! holds. [`Facts`] collects these along a path; where paths merge, the facts
//! common to all are kept. They can decide later predicates.
//!
//! The facts are: an interval for the captured length; an interval for each
//! value; for an index, an interval for the captured length minus the index;
//! and the outcome of predicates. Merged intervals become the smallest that
//! contains both.
//!
//! The tests that guard loads and divisions must stay recognisable while values
//! are simplified, since predicates are rewritten to test simpler values, and
//! parameters are replaced by their arguments. So whether bytes behind an index
//! were captured follows from a test of this very index, or from the bounds of
//! the index alone, not from other tests of it; and facts about a divisor that
//! is a parameter come from tests of it, not from its arguments.

use rustc_hash::{FxHashMap, FxHashSet};

use super::bounds::Bounds;
use super::map::{Map, same};
use super::{Arithmetic, Function, Predicate, Relation, Value, ValueId};

/// An interval of integers; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    low: i64,
    high: i64,
}

impl Interval {
    const ANY: Self = Self { low: i64::MIN, high: i64::MAX };

    fn at_least(low: i64) -> Self {
        Self { low, ..Self::ANY }
    }

    fn at_most(high: i64) -> Self {
        Self { high, ..Self::ANY }
    }

    fn meet(self, other: Self) -> Option<Self> {
        let met = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (met.low <= met.high).then_some(met)
    }

    /// `None` if the hull is unbounded.
    fn hull(self, other: Self) -> Option<Self> {
        let hull = Self { low: self.low.min(other.low), high: self.high.max(other.high) };
        (hull != Self::ANY).then_some(hull)
    }

    fn single(self) -> Option<u32> {
        if self.low == self.high { u32::try_from(self.low).ok() } else { None }
    }
}

/// The function that facts are about, and the numbers of its predicates.
pub(super) struct Subject<'a> {
    function: &'a Function,
    bounds: Vec<Bounds>,
    divisors: FxHashSet<ValueId>,
    predicates: FxHashMap<Predicate, u32>,
}

impl<'a> Subject<'a> {
    pub fn new(function: &'a Function) -> Self {
        let bounds = Bounds::of_all(function);
        let divisor = |value: &Value| match value {
            Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, right, .. } => Some(*right),
            _ => None,
        };
        let divisors = function.values().iter().filter_map(divisor).collect();
        Self { function, bounds, divisors, predicates: FxHashMap::default() }
    }

    /// The bounds of a value by its expression.
    fn bounds(&self, id: ValueId) -> Interval {
        let Bounds { low, high, .. } = self.bounds[id.0 as usize];
        Interval { low: i64::from(low), high: i64::from(high) }
    }

    /// Numbers a predicate.
    fn number(&mut self, predicate: Predicate) -> u32 {
        let next = self.predicates.len() as u32;
        *self.predicates.entry(predicate).or_insert(next)
    }
}

/// A set of facts.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    captured: Interval,
    values: Map<Interval>,
    /// The captured length minus a value.
    beyond: Map<Interval>,
    /// The outcome of predicates, by their numbers.
    predicates: Map<bool>,
}

impl Facts {
    /// The facts at the entry: lengths are not negative.
    pub fn none() -> Self {
        Self {
            captured: Interval::at_least(0),
            values: Map::default(),
            beyond: Map::default(),
            predicates: Map::default(),
        }
    }

    /// The facts common to both. Uses some of `steps`, about one for each fact
    /// that only one of them has; when none are left, some facts are dropped.
    pub fn join(&self, other: &Self, steps: &mut usize) -> Self {
        Self {
            captured: self.captured.hull(other.captured).unwrap_or(Interval::ANY),
            values: self.values.intersection(&other.values, Interval::hull, steps),
            beyond: self.beyond.intersection(&other.beyond, Interval::hull, steps),
            predicates: self.predicates.intersection(&other.predicates, same, steps),
        }
    }

    /// Whether at least `bytes` bytes were captured for certain; behind
    /// `index`, if there is one.
    fn has_captured(&self, subject: &Subject, index: Option<ValueId>, bytes: u64) -> bool {
        let bytes = bytes as i64;
        let Some(index) = index else {
            return self.captured.low >= bytes;
        };
        let beyond = self.beyond.get(index.0).unwrap_or(Interval::ANY);
        beyond.low >= bytes || self.captured.low >= subject.bounds(index).high + bytes
    }

    /// The interval of a value.
    fn value(&self, subject: &Subject, id: ValueId) -> Interval {
        let bounds = subject.bounds(id);
        let known = self.values.get(id.0).unwrap_or(bounds);
        known.meet(bounds).unwrap_or(bounds)
    }

    /// The outcome of `predicate`, if it is decided.
    pub fn decide(&self, subject: &Subject, predicate: Predicate) -> Option<bool> {
        let number = subject.predicates.get(&predicate);
        if let Some(known) = number.and_then(|&number| self.predicates.get(number)) {
            return Some(known);
        }
        match predicate {
            Predicate::Captured { index, bytes } => self.decide_captured(subject, index, bytes),
            Predicate::Compare { relation, left, right } => {
                let constant = subject.function.as_constant(right)?;
                self.decide_compare(subject, relation, left, constant)
            }
            Predicate::Member { value, set } => {
                let set = &subject.function.sets[set.0 as usize];
                let known = self.value(subject, value);
                if let Some(number) = known.single() {
                    return Some(set.binary_search(&number).is_ok());
                }
                let inside = |&number: &u32| (known.low..=known.high).contains(&i64::from(number));
                let from = set.partition_point(|&number| i64::from(number) < known.low);
                match set.get(from) {
                    Some(number) if inside(number) => None,
                    _ => Some(false),
                }
            }
        }
    }

    fn decide_captured(
        &self,
        subject: &Subject,
        index: Option<ValueId>,
        bytes: u32,
    ) -> Option<bool> {
        if self.has_captured(subject, index, u64::from(bytes)) {
            return Some(true);
        }
        let bytes = i64::from(bytes);
        let too_few = match index {
            None => self.captured.high < bytes,
            Some(index) => {
                let beyond = self.beyond.get(index.0).unwrap_or(Interval::ANY);
                beyond.high < bytes || self.captured.high < self.value(subject, index).low + bytes
            }
        };
        too_few.then_some(false)
    }

    fn decide_compare(
        &self,
        subject: &Subject,
        relation: Relation,
        left: ValueId,
        constant: u32,
    ) -> Option<bool> {
        let known = self.value(subject, left);
        if let Some(number) = known.single() {
            return Some(relation.holds(number, constant));
        }
        let constant = i64::from(constant);
        match relation {
            Relation::Equal if constant < known.low || constant > known.high => Some(false),
            Relation::Greater if known.low > constant => Some(true),
            Relation::Greater if known.high <= constant => Some(false),
            Relation::GreaterOrEqual if known.low >= constant => Some(true),
            Relation::GreaterOrEqual if known.high < constant => Some(false),
            _ => None,
        }
    }

    /// The facts if `predicate` holds in addition, or does not; `None` if that
    /// is impossible.
    pub fn assume(&self, subject: &mut Subject, predicate: Predicate, holds: bool) -> Option<Self> {
        if let Some(known) = self.decide(subject, predicate) {
            return (known == holds).then(|| self.clone());
        }
        let mut facts = self.clone();
        match predicate {
            Predicate::Captured { index, bytes } => {
                facts.assume_captured(subject, index, bytes, holds)?;
                return Some(facts);
            }
            Predicate::Compare { relation, left, right } => {
                if let Some(constant) = subject.function.as_constant(right) {
                    facts.assume_compare(subject, relation, left, constant, holds)?;
                }
            }
            Predicate::Member { value, set } => {
                let set = &subject.function.sets[set.0 as usize];
                let within = match (holds, set.first(), set.last()) {
                    (true, Some(&low), Some(&high)) => {
                        Interval { low: i64::from(low), high: i64::from(high) }
                    }
                    _ => Interval::at_least(first_outside(set, self.value(subject, value).low)),
                };
                facts.narrow(subject, value, within)?;
            }
        }
        // Most are decided by the interval, which costs less to keep.
        if facts.decide(subject, predicate) != Some(holds) {
            facts.predicates.insert(subject.number(predicate), holds);
        }
        Some(facts)
    }

    fn assume_captured(
        &mut self,
        subject: &Subject,
        index: Option<ValueId>,
        bytes: u32,
        holds: bool,
    ) -> Option<()> {
        let bytes = i64::from(bytes);
        let beyond = if holds { Interval::at_least(bytes) } else { Interval::at_most(bytes - 1) };
        let captured = match index {
            None => beyond,
            Some(index) => {
                let known = self.beyond.get(index.0).unwrap_or(Interval::ANY);
                self.beyond.insert(index.0, known.meet(beyond)?);
                let index = subject.bounds(index);
                if holds {
                    Interval::at_least(index.low + bytes)
                } else {
                    Interval::at_most(index.high + bytes - 1)
                }
            }
        };
        self.captured = self.captured.meet(captured)?;
        Some(())
    }

    fn assume_compare(
        &mut self,
        subject: &Subject,
        relation: Relation,
        left: ValueId,
        constant: u32,
        holds: bool,
    ) -> Option<()> {
        let number = i64::from(constant);
        let interval = match (relation, holds) {
            (Relation::Equal, true) => Interval { low: number, high: number },
            (Relation::Equal, false) if number == self.value(subject, left).low => {
                Interval::at_least(number + 1)
            }
            (Relation::Equal, false) => return Some(()),
            (Relation::Greater, true) => Interval::at_least(number + 1),
            (Relation::Greater, false) => Interval::at_most(number),
            (Relation::GreaterOrEqual, true) => Interval::at_least(number),
            (Relation::GreaterOrEqual, false) => Interval::at_most(number - 1),
            (Relation::AnyBit, true) => Interval::at_least(1_i64 << constant.trailing_zeros()),
            (Relation::AnyBit, false) => {
                let bits = subject.bounds[left.0 as usize].bits & !constant;
                Interval::at_most(i64::from(bits))
            }
        };
        self.narrow(subject, left, interval)
    }

    fn narrow(&mut self, subject: &Subject, value: ValueId, to: Interval) -> Option<()> {
        let narrowed = self.value(subject, value).meet(to)?;
        self.values.insert(value.0, narrowed);
        Some(())
    }

    /// Derives facts about parameters from the edge arguments passed to them,
    /// except for divisors.
    pub fn pass(&mut self, subject: &Subject, parameters: &[ValueId], arguments: &[ValueId]) {
        let known: Vec<_> = arguments.iter().map(|&value| self.value(subject, value)).collect();
        for (parameter, known) in parameters.iter().zip(known) {
            let is_divisor = subject.divisors.contains(parameter);
            let known = if is_divisor { subject.bounds(*parameter) } else { known };
            self.values.insert(parameter.0, known);
        }
    }
}

/// The least number from `low` on that is not in `set`, which is ascending.
fn first_outside(set: &[u32], low: i64) -> i64 {
    let from = set.partition_point(|&number| i64::from(number) < low);
    let run = set[from..].iter().zip(low..).take_while(|(number, low)| i64::from(**number) == *low);
    low + run.count() as i64
}
