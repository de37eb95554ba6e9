//! Folds values as they are created: computes constants, removes identities and
//! combines constants.
//!
//! A [`Folder`] holds the function under construction and the bounds of each
//! value. A rule examines only the operands, which have all been folded before.
//! A rule delegates to at most one other, on smaller values, so a value takes
//! constant time.
//!
//! Equivalent values get one canonical form, so that they are shared: constants
//! are on the right; multiplication, division and remainder by a power of two
//! are shifts and masks; masks have no bit that cannot be set anyway; constants
//! added to an index move to the load's displacement.

use rustc_hash::FxHashSet;

use crate::ir::bounds::Bounds;
use crate::ir::{Arithmetic, Function, Value, ValueId};

/// A function under construction with folded values.
#[derive(Default)]
pub(in crate::ir) struct Folder {
    pub function: Function,
    bounds: Vec<Bounds>,
    /// Values that predicates must test unchanged.
    pub(super) divisors: FxHashSet<ValueId>,
}

impl Folder {
    /// A folder with capacity for `values` values.
    pub fn with_capacity(values: usize) -> Self {
        let (function, bounds) = (Function::with_capacity(values), Vec::with_capacity(values));
        Self { function, bounds, ..Self::default() }
    }

    /// The bounds of a value of the function.
    pub fn bounds(&self, id: ValueId) -> Bounds {
        self.bounds[id.0 as usize]
    }

    /// The number of a constant.
    pub fn constant(&mut self, number: u32) -> ValueId {
        self.add(Value::Constant(number))
    }

    /// The number of `value`, folded.
    pub fn value(&mut self, value: Value) -> ValueId {
        match value {
            Value::Load { width, index: Some(index), displacement } => {
                match self.index(index, displacement) {
                    Some((index, displacement)) => {
                        self.add(Value::Load { width, index, displacement })
                    }
                    // Beyond any packet, so never used.
                    None => self.constant(0),
                }
            }
            Value::Binary { op, left, right } => self.binary(op, left, right),
            Value::Constant(_)
            | Value::WireLength
            | Value::Load { index: None, .. }
            | Value::Parameter { .. } => self.add(value),
        }
    }

    /// `index` + `displacement` with all constants in the displacement; `None`
    /// if it exceeds the 32 bits of packet offsets.
    ///
    /// A constant added to the index moves only if that sum cannot wrap: a
    /// wrapped sum is another offset.
    pub fn index(&mut self, index: ValueId, displacement: u32) -> Option<(Option<ValueId>, u32)> {
        if let Some(constant) = self.function.as_constant(index) {
            return Some((None, constant.checked_add(displacement)?));
        }
        if let Value::Binary { op: Arithmetic::Add, left, right } = self.function.get(index)
            && let Some(constant) = self.function.as_constant(right)
            && self.bounds(left).high.checked_add(constant).is_some()
        {
            return Some((Some(left), constant.checked_add(displacement)?));
        }
        Some((Some(index), displacement))
    }

    fn add(&mut self, value: Value) -> ValueId {
        let id = self.function.value(value);
        if id.0 as usize == self.bounds.len() {
            let bounds = Bounds::of(value, |operand| self.bounds[operand.0 as usize]);
            self.bounds.push(bounds);
        }
        id
    }

    /// `left` op `right`, folded.
    pub fn binary(&mut self, op: Arithmetic, left: ValueId, right: ValueId) -> ValueId {
        let constants = (self.function.as_constant(left), self.function.as_constant(right));
        match constants {
            (Some(left), Some(right)) => {
                // A division by 0 is never used.
                self.constant(op.apply(left, right).unwrap_or(0))
            }
            (Some(constant), None) if is_commutative(op) => self.by_constant(op, right, constant),
            (None, Some(constant)) => self.by_constant(op, left, constant),
            (Some(0), None) if op != Arithmetic::Sub => self.constant(0),
            _ if left == right => self.of_equals(op, left),
            _ => self.of_two(op, left, right),
        }
    }

    /// `value` op `value`.
    fn of_equals(&mut self, op: Arithmetic, value: ValueId) -> ValueId {
        match op {
            Arithmetic::And | Arithmetic::Or => value,
            Arithmetic::Sub | Arithmetic::Xor | Arithmetic::Mod => self.constant(0),
            Arithmetic::Div => self.constant(1),
            _ => self.add(Value::Binary { op, left: value, right: value }),
        }
    }

    /// `left` op `right`, neither a constant; operands of commutative
    /// operations are ordered by number.
    fn of_two(&mut self, op: Arithmetic, left: ValueId, right: ValueId) -> ValueId {
        let swap = is_commutative(op) && left > right;
        let (left, right) = if swap { (right, left) } else { (left, right) };
        let value = Value::Binary { op, left, right };
        match Bounds::of(value, |operand| self.bounds(operand)).single() {
            Some(number) => self.constant(number),
            None => self.add(value),
        }
    }

    /// `left` op `constant`, where `left` is not constant.
    fn by_constant(&mut self, op: Arithmetic, left: ValueId, constant: u32) -> ValueId {
        let (op, constant) = match (op, constant) {
            (Arithmetic::Mul, _) if constant.is_power_of_two() => {
                (Arithmetic::Lsh, constant.trailing_zeros())
            }
            (Arithmetic::Div, _) if constant.is_power_of_two() => {
                (Arithmetic::Rsh, constant.trailing_zeros())
            }
            (Arithmetic::Mod, _) if constant.is_power_of_two() => (Arithmetic::And, constant - 1),
            (Arithmetic::And, _) => (op, constant & self.bounds(left).bits),
            other => other,
        };
        match (op, constant) {
            (Arithmetic::And | Arithmetic::Mul | Arithmetic::Div | Arithmetic::Mod, 0)
            | (Arithmetic::Lsh | Arithmetic::Rsh, 32..) => self.constant(0),
            (Arithmetic::And, _) if constant == self.bounds(left).bits => left,
            (
                Arithmetic::Add
                | Arithmetic::Sub
                | Arithmetic::Or
                | Arithmetic::Xor
                | Arithmetic::Lsh
                | Arithmetic::Rsh,
                0,
            ) => left,
            _ => self.with_inner(op, left, constant),
        }
    }

    /// `left` op `constant`, where `left` may itself end in a constant that can
    /// be combined with this one.
    fn with_inner(&mut self, op: Arithmetic, left: ValueId, constant: u32) -> ValueId {
        if let Value::Binary { op: inner, left: value, right } = self.function.get(left)
            && let Some(first) = self.function.as_constant(right)
            && let Some((op, constant)) = merged(inner, first, op, constant)
        {
            return self.by_constant(op, value, constant);
        }
        let right = self.constant(constant);
        let value = Value::Binary { op, left, right };
        match Bounds::of(value, |operand| self.bounds(operand)).single() {
            Some(number) => self.constant(number),
            None => self.add(value),
        }
    }
}

fn is_commutative(op: Arithmetic) -> bool {
    use Arithmetic::{Add, And, Mul, Or, Xor};
    matches!(op, Add | And | Mul | Or | Xor)
}

/// One operation by a constant equivalent to `inner` by `first`, then `outer`
/// by `second`.
fn merged(
    inner: Arithmetic,
    first: u32,
    outer: Arithmetic,
    second: u32,
) -> Option<(Arithmetic, u32)> {
    use Arithmetic::{Add, And, Lsh, Mul, Or, Rsh, Sub, Xor};
    match (inner, outer) {
        (And, And) => Some((And, first & second)),
        (Or, Or) => Some((Or, first | second)),
        (Xor, Xor) => Some((Xor, first ^ second)),
        (Add, Add) => Some((Add, first.wrapping_add(second))),
        (Sub, Sub) => Some((Sub, first.wrapping_add(second))),
        (Mul, Mul) => Some((Mul, first.wrapping_mul(second))),
        (Lsh, Lsh) => Some((Lsh, first.saturating_add(second))),
        (Rsh, Rsh) => Some((Rsh, first.saturating_add(second))),
        (Rsh, Lsh) if first == second && first < 32 => Some((And, u32::MAX << first)),
        (Lsh, Rsh) if first == second && first < 32 => Some((And, u32::MAX >> first)),
        _ => None,
    }
}
