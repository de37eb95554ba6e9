//! Decides predicates by the bounds of their operands, or brings them to
//! canonical form.
//!
//! The form: a constant is on the right; `Greater` than a constant is
//! `GreaterOrEqual` to the next; `GreaterOrEqual` to 1 is "not 0"; equality of
//! a masked value with 0 is "no bit of the mask". Reversible arithmetic by
//! constants moves from the tested value to the constant: `v >> 2 == 5` becomes
//! a test of `v` under a mask, which is a load, a mask and a comparison in any
//! back end. Divisors are left unchanged, so that the tests that they are not 0
//! stay recognisable.

use super::fold::Folder;
use crate::ir::{Arithmetic, Predicate, Relation, Value, ValueId};

/// The most operations moved from a value to its constant, so that a predicate
/// takes constant time.
const MOVES: usize = 8;

/// A simplified predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) enum Folded {
    /// It holds for every packet, or for none.
    Always(bool),
    /// It holds if `predicate` does; if `negated`, if `predicate` does not.
    Test { predicate: Predicate, negated: bool },
}

impl Folded {
    fn test(relation: Relation, left: ValueId, right: ValueId) -> Self {
        let predicate = Predicate::Compare { relation, left, right };
        Self::Test { predicate, negated: false }
    }

    fn not(self) -> Self {
        match self {
            Self::Always(holds) => Self::Always(!holds),
            Self::Test { predicate, negated } => Self::Test { predicate, negated: !negated },
        }
    }
}

/// The result of moving one operation to the constant.
enum Step {
    Decided(bool),
    To(ValueId, u32),
    Stays,
}

impl Folder {
    /// The canonical form of `predicate`, whose values are this function's.
    pub fn predicate(&mut self, predicate: Predicate) -> Folded {
        match predicate {
            Predicate::Captured { index, bytes } => self.captured(index, bytes),
            Predicate::Compare { relation, left, right } => self.compare(relation, left, right),
            Predicate::Member { value, set } => {
                let constants = &self.function.sets[set.0 as usize];
                match (self.function.as_constant(value), constants.as_slice()) {
                    (Some(number), _) => Folded::Always(constants.binary_search(&number).is_ok()),
                    (None, &[constant]) => self.equal(value, constant),
                    _ => Folded::Test { predicate, negated: false },
                }
            }
        }
    }

    fn captured(&mut self, index: Option<ValueId>, bytes: u32) -> Folded {
        let place = match index {
            None => Some((None, bytes)),
            Some(index) => self.index(index, bytes),
        };
        match place {
            None => Folded::Always(false),
            Some((None, 0)) => Folded::Always(true),
            Some((index, bytes)) => {
                let predicate = Predicate::Captured { index, bytes };
                Folded::Test { predicate, negated: false }
            }
        }
    }

    fn compare(&mut self, relation: Relation, left: ValueId, right: ValueId) -> Folded {
        match (self.function.as_constant(left), self.function.as_constant(right)) {
            (Some(left), Some(right)) => Folded::Always(relation.holds(left, right)),
            (None, Some(constant)) => self.compare_constant(relation, left, constant),
            (Some(constant), None) => match relation {
                Relation::Equal | Relation::AnyBit => {
                    self.compare_constant(relation, right, constant)
                }
                Relation::Greater => {
                    self.compare_constant(Relation::GreaterOrEqual, right, constant).not()
                }
                Relation::GreaterOrEqual => {
                    self.compare_constant(Relation::Greater, right, constant).not()
                }
            },
            (None, None) if left == right => match relation {
                Relation::Equal | Relation::GreaterOrEqual => Folded::Always(true),
                Relation::Greater => Folded::Always(false),
                Relation::AnyBit => self.equal(left, 0).not(),
            },
            (None, None) => self.compare_values(relation, left, right),
        }
    }

    fn compare_values(&mut self, relation: Relation, left: ValueId, right: ValueId) -> Folded {
        let (a, b) = (self.bounds(left), self.bounds(right));
        match relation {
            Relation::Equal if a.high < b.low || b.high < a.low => Folded::Always(false),
            Relation::AnyBit if a.bits & b.bits == 0 => Folded::Always(false),
            Relation::Equal | Relation::AnyBit => {
                Folded::test(relation, left.min(right), left.max(right))
            }
            Relation::Greater if a.low > b.high => Folded::Always(true),
            Relation::Greater if a.high <= b.low => Folded::Always(false),
            Relation::GreaterOrEqual if a.low >= b.high => Folded::Always(true),
            Relation::GreaterOrEqual if a.high < b.low => Folded::Always(false),
            // Of the two relations only one is used: a ≥ b is not b > a.
            Relation::GreaterOrEqual => Folded::test(Relation::Greater, right, left).not(),
            Relation::Greater => Folded::test(relation, left, right),
        }
    }

    fn compare_constant(&mut self, relation: Relation, value: ValueId, constant: u32) -> Folded {
        match relation {
            Relation::Equal => self.equal(value, constant),
            Relation::Greater => match constant.checked_add(1) {
                Some(next) => self.at_least(value, next),
                None => Folded::Always(false),
            },
            Relation::GreaterOrEqual => self.at_least(value, constant),
            Relation::AnyBit => self.any_bit(value, constant),
        }
    }

    fn equal(&mut self, value: ValueId, constant: u32) -> Folded {
        let (mut value, mut constant) = (value, constant);
        for _ in 0..MOVES {
            match self.equality_step(value, constant) {
                Step::Decided(holds) => return Folded::Always(holds),
                Step::To(next, number) => (value, constant) = (next, number),
                Step::Stays => break,
            }
        }
        match (self.parts(value), constant) {
            (Some((Arithmetic::And, left, right)), 0) => match self.function.as_constant(right) {
                Some(mask) => self.any_bit(left, mask).not(),
                None => Folded::test(Relation::AnyBit, left, right).not(),
            },
            (Some((Arithmetic::Sub | Arithmetic::Xor, left, right)), 0)
                if !self.is_constant(left) && !self.is_constant(right) =>
            {
                self.compare_values(Relation::Equal, left, right)
            }
            _ => {
                let right = self.constant(constant);
                Folded::test(Relation::Equal, value, right)
            }
        }
    }

    /// Moves one operation of `value == constant` to the constant.
    fn equality_step(&mut self, value: ValueId, constant: u32) -> Step {
        let bounds = self.bounds(value);
        if !bounds.allows(constant) {
            return Step::Decided(false);
        }
        if bounds.single().is_some() {
            return Step::Decided(true);
        }
        let Some((op, left, right)) = self.parts(value) else {
            return Step::Stays;
        };
        match (self.function.as_constant(left), self.function.as_constant(right)) {
            (None, Some(operand)) => self.unapply(op, left, operand, constant),
            (Some(operand), None) if op == Arithmetic::Sub => {
                Step::To(right, operand.wrapping_sub(constant))
            }
            _ => Step::Stays,
        }
    }

    /// Solves `left` op `operand` == `constant` for `left`.
    fn unapply(&mut self, op: Arithmetic, left: ValueId, operand: u32, constant: u32) -> Step {
        match op {
            Arithmetic::Add => Step::To(left, constant.wrapping_sub(operand)),
            Arithmetic::Sub => Step::To(left, constant.wrapping_add(operand)),
            Arithmetic::Xor => Step::To(left, constant ^ operand),
            Arithmetic::Or if operand & !constant != 0 => Step::Decided(false),
            Arithmetic::Or => Step::To(self.masked(left, !operand), constant & !operand),
            Arithmetic::Lsh if constant.trailing_zeros() < operand => Step::Decided(false),
            Arithmetic::Lsh => {
                Step::To(self.masked(left, u32::MAX >> operand), constant >> operand)
            }
            Arithmetic::Rsh if constant.leading_zeros() < operand => Step::Decided(false),
            Arithmetic::Rsh => {
                Step::To(self.masked(left, u32::MAX << operand), constant << operand)
            }
            _ => Step::Stays,
        }
    }

    /// The outermost operation of `value`, if it may be moved.
    fn parts(&self, value: ValueId) -> Option<(Arithmetic, ValueId, ValueId)> {
        match self.function.get(value) {
            Value::Binary { op, left, right } if !self.divisors.contains(&value) => {
                Some((op, left, right))
            }
            _ => None,
        }
    }

    fn is_constant(&self, value: ValueId) -> bool {
        self.function.as_constant(value).is_some()
    }

    fn masked(&mut self, value: ValueId, mask: u32) -> ValueId {
        let mask = self.constant(mask);
        self.binary(Arithmetic::And, value, mask)
    }

    fn at_least(&mut self, value: ValueId, constant: u32) -> Folded {
        let (mut value, mut constant) = (value, constant);
        // `v >> n >= c` is `v >= c << n`.
        while let Some((Arithmetic::Rsh, left, right)) = self.parts(value)
            && let Some(distance) = self.function.as_constant(right)
        {
            if constant.leading_zeros() < distance {
                return Folded::Always(false);
            }
            (value, constant) = (left, constant << distance);
        }
        let bounds = self.bounds(value);
        if constant <= bounds.low {
            Folded::Always(true)
        } else if constant > bounds.high {
            Folded::Always(false)
        } else if constant == 1 {
            self.equal(value, 0).not()
        } else if constant == bounds.high {
            self.equal(value, constant)
        } else {
            let right = self.constant(constant);
            Folded::test(Relation::GreaterOrEqual, value, right)
        }
    }

    /// A test of `value` for any bit of `mask`.
    fn any_bit(&mut self, value: ValueId, mask: u32) -> Folded {
        let (mut value, mut mask) = (value, mask);
        for _ in 0..MOVES {
            mask &= self.bounds(value).bits;
            let Some((op, left, right)) = self.parts(value) else {
                break;
            };
            let Some(operand) = self.function.as_constant(right) else {
                break;
            };
            (value, mask) = match op {
                Arithmetic::And => (left, mask & operand),
                Arithmetic::Lsh => (left, mask >> operand),
                Arithmetic::Rsh => (left, mask << operand),
                _ => break,
            };
        }
        let bits = self.bounds(value).bits;
        mask &= bits;
        if mask == 0 {
            return Folded::Always(false);
        }
        if mask == bits {
            // Not by `equal`: a value without a mask stays unchanged.
            let zero = self.constant(0);
            return match self.bounds(value).low {
                0 => Folded::test(Relation::Equal, value, zero).not(),
                _ => Folded::Always(true),
            };
        }
        let right = self.constant(mask);
        Folded::test(Relation::AnyBit, value, right)
    }
}
