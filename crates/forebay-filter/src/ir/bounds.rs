//! Bounds of a value derived from its expression.
//!
//! A byte load gives at most 255, `v & 0xf0` has no bit outside the mask, and
//! four times a nibble is at most 60. Each value has an interval and a mask of
//! the bits that may be set, derived from those of its operands in one step.
//! They hold for every packet and in every block in which the value may be used
//! at all: a divisor is not 0 there.

use super::{Arithmetic, Function, Value, ValueId};

/// The possible values: `low` to `high`, no bit outside `bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub low: u32,
    pub high: u32,
    pub bits: u32,
}

impl Bounds {
    /// Any 32-bit number.
    pub const FULL: Self = Self { low: 0, high: u32::MAX, bits: u32::MAX };

    fn constant(number: u32) -> Self {
        Self { low: number, high: number, bits: number }
    }

    /// An interval; its highest number determines which bits may be set.
    fn interval(low: u32, high: u32) -> Self {
        Self { low, high, bits: all_bits_of(high) }
    }

    fn new(low: u32, high: u32, bits: u32) -> Self {
        let high = high.min(bits);
        Self { low, high, bits: bits & all_bits_of(high) }
    }

    /// The only possible value, if there is just one.
    pub fn single(self) -> Option<u32> {
        (self.low == self.high).then_some(self.low)
    }

    /// Whether the value can be `number`.
    pub fn allows(self, number: u32) -> bool {
        (self.low..=self.high).contains(&number) && number & !self.bits == 0
    }

    /// The bounds of `value`, given those of its operands by `of`.
    pub fn of(value: Value, of: impl Fn(ValueId) -> Self) -> Self {
        match value {
            Value::Constant(number) => Self::constant(number),
            Value::WireLength | Value::Parameter { .. } => Self::FULL,
            Value::Load { width, .. } => Self::interval(0, width.max()),
            Value::Binary { op, left, right } => Self::of_binary(op, of(left), of(right)),
        }
    }

    /// The bounds of each value of `function`.
    pub fn of_all(function: &Function) -> Vec<Self> {
        let mut bounds: Vec<Self> = Vec::with_capacity(function.values().len());
        for &value in function.values() {
            bounds.push(Self::of(value, |operand| bounds[operand.0 as usize]));
        }
        bounds
    }

    fn of_binary(op: Arithmetic, left: Self, right: Self) -> Self {
        let ends = |low: Option<u32>, high: Option<u32>| match (low, high) {
            (Some(low), Some(high)) => Self::interval(low, high),
            _ => Self::FULL,
        };
        match op {
            Arithmetic::Add => {
                ends(left.low.checked_add(right.low), left.high.checked_add(right.high))
            }
            Arithmetic::Sub => {
                ends(left.low.checked_sub(right.high), left.high.checked_sub(right.low))
            }
            Arithmetic::Mul => {
                ends(left.low.checked_mul(right.low), left.high.checked_mul(right.high))
            }
            Arithmetic::Div => {
                Self::interval(left.low / right.high.max(1), left.high / right.low.max(1))
            }
            Arithmetic::Mod => Self::interval(0, left.high.min(right.high.saturating_sub(1))),
            Arithmetic::And => Self::new(0, left.high.min(right.high), left.bits & right.bits),
            Arithmetic::Or => Self::new(left.low.max(right.low), u32::MAX, left.bits | right.bits),
            Arithmetic::Xor => Self::new(0, u32::MAX, left.bits | right.bits),
            Arithmetic::Lsh => Self::shifted_left(left, right),
            Arithmetic::Rsh => match right.single() {
                Some(distance @ 0..32) => {
                    Self::new(left.low >> distance, left.high >> distance, left.bits >> distance)
                }
                _ => Self::interval(0, left.high),
            },
        }
    }

    fn shifted_left(left: Self, right: Self) -> Self {
        let fits = right.high < 32 && left.high.leading_zeros() >= right.high;
        match right.single() {
            Some(distance) if fits => {
                Self::new(left.low << distance, left.high << distance, left.bits << distance)
            }
            None if fits => Self::interval(left.low << right.low, left.high << right.high),
            Some(distance @ 0..32) => Self::new(0, u32::MAX, left.bits << distance),
            _ => Self::FULL,
        }
    }
}

/// By value of `function`: the greatest number that it may be, whatever the packet has.
#[must_use]
pub fn greatest_values(function: &Function) -> Vec<u32> {
    Bounds::of_all(function).into_iter().map(|bounds| bounds.high).collect()
}

/// Every bit up to the highest one of `number`.
fn all_bits_of(number: u32) -> u32 {
    u32::MAX.checked_shr(number.leading_zeros()).unwrap_or(0)
}
